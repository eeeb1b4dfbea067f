//! The words in which the modules about load talk of it: plain values, of which each module knows no more than these.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// What kind of stream it is, which decides in which order streams are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StreamClass {
    /// Production, behind the head: it reads prepared results, and costs little but input and output.
    Cached,
    /// Production, behind the head: it ends by itself when it has caught up, and what it has done would be lost.
    CatchUp,
    /// Development: nobody depends on it.
    Dev,
    /// Production, at the head: it burns for as long as it is there.
    Live,
}

impl fmt::Display for StreamClass {
    /// As operators write it, and as labels have it: `cached`, `catch-up`, `dev`, `live`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cached => "cached",
            Self::CatchUp => "catch-up",
            Self::Dev => "dev",
            Self::Live => "live",
        })
    }
}

/// Where the number of cores that a process may use comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaSource {
    /// `sched_getaffinity`.
    Affinity,
    /// A quota of a group around the process's own.
    Ancestor,
    /// The group's `cpuset`.
    Cpuset,
    /// The quota of the process's own group.
    Leaf,
    /// The operator said so.
    Override,
}

impl QuotaSource {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Affinity, Self::Ancestor, Self::Cpuset, Self::Leaf, Self::Override];
}

impl fmt::Display for QuotaSource {
    /// As labels have it: `affinity`, `ancestor`, `cpuset`, `leaf`, `override`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Affinity => "affinity",
            Self::Ancestor => "ancestor",
            Self::Cpuset => "cpuset",
            Self::Leaf => "leaf",
            Self::Override => "override",
        })
    }
}

/// What was read of the processors over one interval, of the group whose quota binds.
///
/// Shares are from 0 to 1, and `None` where the machine does not tell. Nothing here is cut to what the quota allows: with bursts, usage may
/// be above it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuSample {
    /// When it was read.
    pub at: Instant,
    /// Time since the sample before; positive.
    pub elapsed: Duration,
    /// Processor time that the group used over real time, in cores.
    pub usage_cores: f64,
    /// Processor time that this process used over real time, in cores.
    pub process_cores: f64,
    /// The cores that the group may use; positive. `None`: there is no limit that is known.
    pub quota_cores: Option<f64>,
    /// Where `quota_cores` comes from.
    pub quota_source: Option<QuotaSource>,
    /// Of the quota's periods, the share in which the group was throttled.
    pub throttled_share: Option<f64>,
    /// Processors on which the group stood throttled, on average: `throttled_usec` adds them up, so this is its growth over real time. What
    /// the group used and this are together at least what it wanted. In cores.
    pub throttled_cores: Option<f64>,
    /// The share of time in which some task of the group waited for a processor (pressure, `some`).
    pub some_stalled: Option<f64>,
    /// The share of time in which all tasks of the group that had work waited (pressure, `full`).
    pub full_stalled: Option<f64>,
}

impl CpuSample {
    /// A sample of which nothing but the usage is known.
    #[must_use]
    pub fn new(at: Instant, elapsed: Duration, usage_cores: f64) -> Self {
        Self {
            at,
            elapsed,
            usage_cores,
            process_cores: usage_cores,
            quota_cores: None,
            quota_source: None,
            throttled_share: None,
            throttled_cores: None,
            some_stalled: None,
            full_stalled: None,
        }
    }
}
