//! What the driver reads, sets, tells and ends, and in which order; what goes with a stream. Time and readings are made up.

mod hub;
mod observed;
#[cfg(feature = "tokio")]
mod running;
mod streams;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each test crate uses a part")]
mod support;
mod ticks;
mod world;
