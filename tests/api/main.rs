//! The contract of every public item, one sentence per test.

mod figures;
mod filter;
mod lifecycle;
mod matching;
mod numbering;
mod pattern;
mod positions;
mod publish;
mod receive;
mod relay;
mod relay_corners;
mod retention;
mod set;
mod slow;
mod snapshot;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod threads;
#[cfg(feature = "tracing")]
mod traces;
