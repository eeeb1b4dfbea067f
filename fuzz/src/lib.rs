//! The sequential meaning of keywake as a plain model, and the machinery that holds the library against it.
//!
//! * [`Case`]: settings and a list of [`Op`]s, made from any bytes by `Arbitrary`.
//! * [`run`]: carries a case out on a real hub and on the model side by side, and panics at the first difference.
//! * [`check_pattern`]: the same for patterns.
//! * [`SetCase`], [`run_sets`]: sets, with a model of their own.
//! * [`CgroupCase`], [`check_cgroup`]: the same for the files of control groups.
//! * [`check_position`]: the same for the text form of positions.
//!
//! The model knows nothing of blocks, slots or stripes. It keeps every event ever published and, per reader, how far
//! it was told; what it demands is therefore true for any way to store events. `fuzz_targets/` feed it from libFuzzer,
//! `tests/model.rs` from proptest with the stable toolchain.

mod case;
mod cgroup;
mod ledger;
mod log;
mod pattern;
mod position;
mod reader;
mod replay;
mod run;
mod set;
mod writer;

pub use case::{Case, Form, Numbering, Op, Settings, StartAt, Way};
pub use cgroup::{CgroupCase, Written, check_cgroup};
pub use pattern::{PatternCase, check_pattern};
pub use position::check_position;
pub use replay::replay;
pub use run::run;
pub use set::{SetCase, run_sets};
