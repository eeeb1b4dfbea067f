//! The event stream: what a `GET` of one key or of several keys sends.
//!
//! * [`encode`] writes the lines: hello, event, gap, heartbeat, goaway. Its words are the wire format.
//! * [`feed`] is what a stream reads from: one subscription, or a set of [`several`] as one sequence.
//! * [`body`] is the response body: polled by the connection itself, so there is no task and no channel per stream, and a
//!   client that vanishes drops its subscriptions with its connection, whether anything is published or not.
//!
//! # What an id promises
//!
//! The `id:` of a message is a position: everything up to it, of every key of the stream, has been sent on this stream (or
//! was told as lost). Coming back with it as `Last-Event-ID` therefore never skips an event. The id of an event is the event's
//! own position, in a stream of several keys too, since they come in the order of their numbers: a resume is exact, and
//! repeats nothing. Only when the stream is about to end can it lag behind its event, never lead (see [`several`]).

pub mod body;
pub mod encode;
pub mod feed;
#[cfg(test)]
pub(crate) mod reference;
pub mod several;
