//! What a saturated process does: sheds its most expensive streams, says so, and lets in no more than it can serve.
//!
//! Policies are pure: each is stepped with a sample and the time, and answers with what to do. Permits and the driver stand beside them.

pub mod admission;
pub mod concurrency;
pub mod driver;
pub mod events;
pub mod evictor;
pub mod pending;
pub mod readiness;
pub mod status;
pub mod watchdog;
