//! The event stream: what a `GET` of one key or of several keys sends.
//!
//! * [`encode`] writes the lines: hello, event, gap, heartbeat, goaway. Its words are the wire format.
//! * [`merge`] reads several keys as one sequence, with an id that is safe to resume from after each event.
//! * [`feed`] is what a stream reads from: one [subscription](subscriptions), or the merge of several.
//! * [`body`] is the response body: polled by the connection itself, so there is no task and no channel per stream, and a
//!   client that vanishes drops its subscriptions with its connection, whether anything is published or not.
//!
//! # What an id promises
//!
//! The `id:` of a message is a position: everything up to it, of every key of the stream, has been sent on this stream (or
//! was told as lost). Coming back with it as `Last-Event-ID` therefore never skips an event. In a stream of one key the id
//! of an event is the event's own position, and a resume repeats nothing. In a stream of several keys the id can lag behind
//! the event it stands with, where two keys are published to at the very moment at which the stream looks; a resume may
//! then repeat the few events between the two. It never leads.

pub mod body;
pub mod encode;
pub mod feed;
pub mod merge;
#[cfg(test)]
pub(crate) mod reference;
pub mod subscriptions;
