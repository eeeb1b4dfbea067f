//! Faults that peers were reported for, each a test named after its symptom; `tests/README.md` has the table.

mod cancelling;
mod crowds;
mod ends;
mod hooks;
mod lag;
mod panics;
mod races;
mod reentry;
mod resume;
mod seam;
#[path = "../support/mod.rs"]
mod support;
mod topics;
mod wakes;
