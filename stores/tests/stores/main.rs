//! The stores keep keywake's contract over real servers, and its promises when those servers fail.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails; clippy knows only #[test] functions as tests")]

mod clients;
mod clocks;
mod connections;
mod contract;
mod outage;
mod planners;
mod servers;
