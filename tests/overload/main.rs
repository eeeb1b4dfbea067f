//! What a saturated process does: whom it lets go, when, and what it says of it. No test here sleeps, and none reads a clock but to begin.

mod caps;
mod clocks;
mod decisions;
mod extremes;
mod properties;
#[path = "../support/random.rs"]
mod random;
mod readiness;
mod settings;
mod simulation;
mod source;
mod weaknesses;
mod world;
