//! What streams cost: the processor time that the process may use, that it uses, and who of its streams uses it.
//!
//! A [`Meter`] tracks streams. What of a stream's work stands in brackets is charged to it: the polls of its futures
//! ([`StreamMeter::run`], or [`PollTimer`] for hand-written bodies), closures on other threads ([`StreamMeter::closure`]), and synchronous
//! work ([`StreamMeter::scope`]), without the waits that are [excluded](StreamMeter::excluded). [`Meter::sample`], at each tick of whoever
//! asks, splits an exact total over the streams, and tells what of it no stream accounts for. [`Timing`] says how brackets are timed.
//!
//! What several streams share (an event that is decoded once for all of them) belongs in no bracket: it is told as unattributed,
//! and not given to whoever came first. The same goes for what the runtime and the kernel do between polls.
//!
//! Nothing here is global: meters know nothing of each other. Each thread knows the brackets that are open on it, so that those
//! within others are not counted twice.

use std::time::Duration;

mod bracket;
pub mod cgroup;
mod lane;
mod roster;
mod run;
mod split;
mod stream;
mod timing;

#[cfg(keywake_loom)]
#[doc(hidden)]
pub use lane::ModelledLane;
pub use roster::{Builder, Meter};
pub use run::Metered;
pub use split::{Split, StreamCost};
pub use stream::{Excluded, PollTimer, Scope, StreamMeter};
pub use timing::{Timing, process_cpu};

/// A clock that went back by less may make that up, and is waited for. One that went back by more was set anew, and is gone on from.
const FAR_BACK: Duration = Duration::from_secs(10);
