//! What a saturated process does: sheds its most expensive streams, says so, and lets in no more than it can serve.
//!
//! Policies are pure: each is stepped with a sample and the time, and answers with what to do. Permits and the driver stand beside them.

mod admission;
mod classify;
mod concurrency;
mod driver;
mod events;
mod evictor;
mod pending;
mod readiness;
mod status;
mod watchdog;

pub use classify::Classifier;
pub use status::{Code, EndCause, Retry, StreamEnd, Wire};
