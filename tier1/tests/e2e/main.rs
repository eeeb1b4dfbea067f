//! The real binary, driven over loopback by a real HTTP client. Each test starts a server of its own on a free port and ends
//! only that. Nothing here asserts a time: waits have generous limits, so that a busy machine makes a test slow and not red.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails; clippy knows only #[test] functions as tests")]

mod errors;
mod lifecycle;
mod many;
mod matching;
mod publishing;
mod replay;
mod resume;
mod streams;
mod support;

#[path = "../../src/sse/reference.rs"]
mod reference;
