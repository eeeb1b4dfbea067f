//! What the kernel grants and counts, read from the control groups of Linux.
//!
//! [`CgroupReader::tick`] reads, at whatever interval its caller has, how many cores the process may use and how many it and its groups
//! did use since the tick before; [`CgroupReader::memory`] the same of memory. Cores are floats and are never rounded: half a core is a
//! quota like any other.
//!
//! # Which groups
//! The process is in a group, and that in others. Each may have a quota, and the least counts, whoever's it is: `/proc/self/cgroup` says
//! which group it is, `/proc/self/mountinfo` where it can be seen. Everything from there up to the mount is read; what is above a
//! container's mount cannot be seen, and is not known. Version 2 (`cpu.max`), version 1 (`cpu.cfs_quota_us`) and the two side by side
//! (hybrid: then the version that has the `cpu` controller) are read alike. `cpu.weight`, `cpu.shares` and requests are no limits.
//!
//! The machine's own group, of which all others are parts, has no quota, and its counters are the machine's. It is recognised, and a
//! process that is in it is measured by its own clock.
//!
//! # Whose usage
//! | what limits | usage is that of |
//! |---|---|
//! | the quota of the own group | that group |
//! | the quota of a group around it | that one: its others use the same quota up |
//! | the group's processor set | the own group |
//! | the process's processors | the process |
//! | the operator's override | the own group |
//! | nothing, no group | the process |
//!
//! Throttling and pressure are those of the same group, and the own one's where no group has the quota; in the machine's own group, `some` is
//! the machine's pressure, and `full` (which the kernel has as 0 there) is not told. [`CpuReading::groups`] has every group.
//!
//! # What is not known
//! A file that is not there is an absence, never a 0: no pressure where the kernel has it switched off, no throttling where the controller
//! is not enabled, no quota where there is no `cpu.max`. A file that cannot be read is not "no limit" either: the tick has no sample
//! ([`Signal::Holding`]), the groups are looked for again, and after three such ticks in a row nothing is known ([`Signal::Lost`]), so that
//! whoever decides by it should fail open. Reading goes on, and says when it works again. A group around the own one that this process
//! may not read is left out, as if it could not be seen. Where there are no groups at all, the process's clock and its processors have
//! to do ([`Signal::Process`]); without a clock (elsewhere than on Linux, unless [one is given](CgroupReaderBuilder::process_clock))
//! nothing is known. What an operator should read comes once, as a [`Notice`].
//!
//! # Invariants
//! 1. Shares and cores are finite, and not negative. Usage is not cut to the quota: bursts, and kernels that do not enforce it, go above.
//! 2. A rate is over the real time between two readings, never under a millisecond; a shorter interval is no sample, and the next one
//!    reaches back further. Time that goes back is such an interval; where it goes back by more than 10 s it was set anew, and so is the
//!    base of the next.
//! 3. A counter that goes down began anew: 0 for this interval, and the base of the next.
//! 4. The quota of a sample is that of its own tick: quotas are read at every tick.
//! 5. A group is compared with nothing but itself: after a move, a loss or at the beginning there is no sample.
//! 6. No path that a file names leads out of the directory that is given as [root](CgroupReaderBuilder::root).
//! 7. Any text is parsed to a value or a typed error with file, line and value; nothing panics.
//!
//! # Parts
//! `text/` the forms of all files, as pure functions; `places` from membership and mounts to directories; `hierarchy` what limits;
//! `rates` what two readings say. These know no files and no clock. `files` the door to the system, `group` and `groups` the
//! open files, `found` what is known of them between ticks, `process` clock and affinity, `memory`, and `reader`, which puts them together.

mod builder;
mod error;
#[cfg(test)]
mod faults;
mod files;
mod found;
mod group;
mod groups;
mod hierarchy;
mod memory;
mod places;
mod process;
mod rates;
mod reader;
mod reading;
/// The parsers, for the fuzz target `cgroup_text`.
#[doc(hidden)]
pub mod text;

pub use builder::{CgroupReaderBuilder, InvalidOverride};
pub use error::{CgroupError, ParseCgroupError, ParseFault};
pub use group::GroupReading;
pub use memory::MemorySample;
pub use reader::CgroupReader;
pub use reading::{CpuReading, Notice, Signal};
