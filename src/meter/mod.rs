//! What streams cost: the processor time that the process may use, that it uses, and who of its streams uses it.

mod bracket;
pub mod cgroup;
mod lane;
mod roster;
mod run;
mod split;
mod stream;
mod timing;

pub use roster::{Builder, Meter};
pub use run::Metered;
pub use split::{Split, StreamCost};
pub use stream::{Excluded, PollTimer, Scope, StreamMeter};
pub use timing::{Timing, process_cpu};
