//! The reader of control groups against trees of files. A test's comment names the lines of the tables in `tests/README.md`.

mod containers;
mod limits;
mod machine;
mod memory;
mod runtimes;
mod ticks;
mod tree;
mod version1;
