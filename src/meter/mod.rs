//! What streams cost: the processor time that the process may use, that it uses, and who of its streams uses it.

pub mod cgroup;
mod split;
mod stream;
mod timing;
