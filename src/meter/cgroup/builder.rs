//! What a reader can be told before it reads.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    files::{Files, System},
    process,
    reader::{CgroupReader, Parts},
};

pub(crate) type Affinity = Box<dyn FnMut() -> Option<u64> + Send>;
pub(crate) type Clock = Box<dyn FnMut() -> Option<Duration> + Send>;

/// Builds a [`CgroupReader`]; made by [`CgroupReader::builder`].
#[must_use]
pub struct CgroupReaderBuilder {
    root: PathBuf,
    override_cores: Option<f64>,
    affinity: Affinity,
    clock: Clock,
    files: Box<dyn Files>,
}

impl Default for CgroupReaderBuilder {
    fn default() -> Self {
        Self {
            root: "/".into(),
            override_cores: None,
            affinity: Box::new(process::affinity),
            clock: Box::new(process::cpu_time),
            files: Box::new(System),
        }
    }
}

impl CgroupReaderBuilder {
    /// Under which directory `proc` is, and all that is mounted. Default: `/`.
    pub fn root(mut self, root: impl AsRef<Path>) -> Self {
        self.root = root.as_ref().to_owned();
        self
    }

    /// How many cores there are, whatever the machine says: where it does not say, or where it is to be less. More than the machine allows
    /// is taken too, and told ([`Notice::OverrideAboveLimit`](super::Notice::OverrideAboveLimit)). Default: none.
    pub fn override_cores(mut self, cores: f64) -> Self {
        self.override_cores = Some(cores);
        self
    }

    /// How many processors the process may run on; asked at every tick. Default: `sched_getaffinity` of the process's first thread, and
    /// elsewhere than on Linux how many there are. With `|| None` only groups and the override limit anything.
    pub fn affinity(mut self, cpus: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        self.affinity = Box::new(cpus);
        self
    }

    /// How much processor time the process has used; asked at every tick. Default: `CLOCK_PROCESS_CPUTIME_ID` on Linux, nothing elsewhere.
    pub fn process_clock(mut self, clock: impl FnMut() -> Option<Duration> + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    #[cfg(test)]
    pub(crate) fn files(mut self, files: impl Files + 'static) -> Self {
        self.files = Box::new(files);
        self
    }

    /// The reader. It has read nothing yet.
    ///
    /// # Errors
    /// An override that is no positive finite number.
    pub fn build(self) -> Result<CgroupReader, InvalidOverride> {
        match self.override_cores {
            Some(cores) if !(cores.is_finite() && cores > 0.0) => Err(InvalidOverride { cores }),
            _ => Ok(CgroupReader::from_parts(self.into_parts())),
        }
    }

    pub(crate) fn into_parts(self) -> Parts {
        let Self { root, override_cores, affinity, clock, files } = self;
        Parts { root, override_cores, affinity, clock, files }
    }
}

impl fmt::Debug for CgroupReaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { root, override_cores, .. } = self;
        f.debug_struct("CgroupReaderBuilder").field("root", root).field("override_cores", override_cores).finish_non_exhaustive()
    }
}

/// An operator's number of cores that is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidOverride {
    cores: f64,
}

impl fmt::Display for InvalidOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "override of {} cores: a number above 0 is expected; to have no override, give none", self.cores)
    }
}

impl std::error::Error for InvalidOverride {}
