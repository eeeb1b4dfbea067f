//! What a tick says: the sample, where it comes from, and what an operator should be told.

use std::{fmt, path::PathBuf, time::Instant};

use super::{error::CgroupError, group::GroupReading};
use crate::load::{CpuSample, QuotaSource};

/// Where what is known comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// The process's groups.
    Groups,
    /// The groups could not be read at this tick, or for two in a row. There is no sample, and what was known before still is the best that
    /// is known.
    Holding,
    /// Nothing: the groups could not be read three times in a row, or there are none and no process clock either. Whoever decides by
    /// samples should decide as if there was no overload (fail open).
    Lost,
    /// The process's own clock: there are no groups to be read (gVisor; elsewhere than on Linux, if the host gives a clock).
    Process,
}

/// Something that began or ended at a tick; told once, when it does, and for a log rather than for a decision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The path in `/proc/self/cgroup` is not where groups are mounted; this is what of it was found there.
    Guessed {
        /// The directory; `None`: nothing but the machine's own group, so that what limits the process is not known.
        path: Option<PathBuf>,
    },
    /// The groups could not be read three times in a row.
    Lost(CgroupError),
    /// The process is in another group than before. There is no sample, as there is nothing to compare with.
    Moved {
        /// The directory that shows it; `None`: the machine's own group.
        path: Option<PathBuf>,
    },
    /// There are no groups to be read: the process's own clock, its processors and the override have to do.
    NoGroups(CgroupError),
    /// The kernel tells no pressure of this group.
    NoPressure {
        /// The file.
        path: PathBuf,
        /// Why it could not be read; `None`: it is not there.
        error: Option<CgroupError>,
    },
    /// The operator's number of cores is above what the machine allows, so that the kernel throttles before anybody here thinks that the
    /// limit is near.
    OverrideAboveLimit {
        /// What the operator said.
        override_cores: f64,
        /// What the machine allows.
        limit_cores: f64,
    },
    /// The number of cores is another one.
    QuotaChanged {
        /// What it was.
        from: Option<f64>,
        /// What it is, also for the sample of this tick.
        to: Option<f64>,
        /// Where that comes from.
        source: Option<QuotaSource>,
    },
    /// The groups are read again.
    Recovered,
    /// A group around the process's own may not be read, and is left out.
    Skipped(CgroupError),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = |cores: &Option<f64>| cores.map_or_else(|| "no limit".to_owned(), |cores| format!("{cores} cores"));
        match self {
            Self::Guessed { path: Some(path) } => {
                write!(f, "the group in /proc/self/cgroup is not mounted; {} is taken for it", path.display())
            }
            Self::Guessed { path: None } => f.write_str(
                "the group in /proc/self/cgroup is not mounted: its limits are not known, and the process's own clock is used",
            ),
            Self::Lost(error) => write!(f, "processor usage is not known any more: {error}"),
            Self::Moved { path: Some(path) } => write!(f, "the process is in another group: {}", path.display()),
            Self::Moved { path: None } => f.write_str("the process is in another group: the machine's own"),
            Self::NoGroups(error) => write!(f, "no control groups, the process's own clock is used: {error}"),
            Self::NoPressure { path, error: Some(error) } => write!(f, "no pressure from {}: {error}", path.display()),
            Self::NoPressure { path, error: None } => write!(f, "no pressure: {} is not there", path.display()),
            Self::OverrideAboveLimit { override_cores, limit_cores } => {
                write!(
                    f,
                    "the override of {override_cores} cores is above the limit of {limit_cores}: the kernel throttles first"
                )
            }
            Self::QuotaChanged { from, to, source: Some(source) } => {
                write!(f, "processor limit changed from {} to {} ({source:?})", cores(from), cores(to))
            }
            Self::QuotaChanged { from, to, source: None } => {
                write!(f, "processor limit changed from {} to {}", cores(from), cores(to))
            }
            Self::Recovered => f.write_str("processor usage is known again"),
            Self::Skipped(error) => write!(f, "a group around the process's is left out: {error}"),
        }
    }
}

/// What one tick read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuReading {
    /// When: the `now` of the tick.
    pub at: Instant,
    /// Where it comes from.
    pub signal: Signal,
    /// What happened since the last sample. `None` at the first tick, within a millisecond of the last sample, at the first tick in another
    /// group, and where `signal` is [`Holding`](Signal::Holding) or [`Lost`](Signal::Lost).
    pub sample: Option<CpuSample>,
    /// The cores that count, known from the first tick on: the override, or else `limit_cores`. Where `signal` is
    /// [`Holding`](Signal::Holding) or [`Lost`](Signal::Lost) only the override is known.
    pub quota_cores: Option<f64>,
    /// Where `quota_cores` comes from.
    pub quota_source: Option<QuotaSource>,
    /// The cores that the machine allows, whatever the operator says.
    pub limit_cores: Option<f64>,
    /// The process's own group, then those around it, as far as they can be seen. Empty: the process is in none but the machine's.
    pub groups: Vec<GroupReading>,
    /// Which of `groups` has the quota that is `limit_cores`.
    pub binding: Option<usize>,
    /// How many processors the group has (`cpuset`).
    pub cpuset_cpus: Option<u64>,
    /// How many processors the process may run on.
    pub affinity_cpus: Option<u64>,
    /// What began or ended.
    pub notices: Vec<Notice>,
    /// Why there is no sample, or none of the groups.
    pub error: Option<CgroupError>,
}

impl CpuReading {
    /// Usage over quota, where both are known: finite, not cut at 1.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let sample = self.sample.as_ref()?;
        Some(sample.usage_cores / sample.quota_cores?)
    }

    /// The process's own group.
    #[must_use]
    pub fn own(&self) -> Option<&GroupReading> {
        self.groups.first()
    }

    /// The group whose quota is the least.
    #[must_use]
    pub fn binding(&self) -> Option<&GroupReading> {
        self.groups.get(self.binding?)
    }
}
