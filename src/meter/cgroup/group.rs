//! One group: its files, which stay open, and what they said last time.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    error::{CgroupError, ParseCgroupError},
    files::{Files, Kept},
    rates::{Counters, Rates},
    text::{self, CpuStat, Pressure, Quota},
};

/// What reading a pressure answers where the kernel has it switched off (`EOPNOTSUPP`).
const NOT_SUPPORTED: i32 = 95;

/// A group as it was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupReading {
    /// The directory that shows it.
    pub path: PathBuf,
    /// Its own quota, in cores. `None`: it has none.
    pub quota_cores: Option<f64>,
    /// What it may use beyond the quota of one period, if it saved that up before.
    pub burst: Option<Duration>,
    /// Processor time it has used since it was made.
    pub usage: Option<Duration>,
    /// Processor time over real time, since the reading before; it is not cut to the quota.
    pub usage_cores: Option<f64>,
    /// Time for which it was throttled, summed over processors, over real time.
    pub throttled_cores: Option<f64>,
    /// Of the quota's periods, the share in which it was throttled. `None` also where no period began.
    pub throttled_share: Option<f64>,
    /// The share of time in which some task of it waited.
    pub some_stalled: Option<f64>,
    /// The share of time in which all tasks of it that had work waited.
    pub full_stalled: Option<f64>,
}

/// Where a group's quota is written.
enum Limit {
    CpuMax(Kept),
    Cfs { quota: Kept, period: Kept },
}

/// The directories that show one group, which are several with version 1.
pub(crate) struct Dirs<'a> {
    pub(crate) unified: bool,
    pub(crate) cpu: &'a Path,
    /// Of version 1; `None` where the group of that controller is another one.
    pub(crate) cpuacct: Option<&'a Path>,
    pub(crate) pressure: Option<&'a Path>,
}

/// A group whose files are kept open.
pub(crate) struct Group {
    path: PathBuf,
    limit: Limit,
    burst: Kept,
    stat: Kept,
    usage: Option<Kept>,
    /// `None`: it is not read any more, since the kernel has none.
    pressure: Option<Kept>,
    before: Option<(Instant, Counters)>,
}

/// What was read, before it is compared.
pub(crate) struct Now {
    quota: Option<Quota>,
    burst: Option<Duration>,
    counters: Counters,
    /// Why there is no pressure.
    pub(crate) without_pressure: Option<(PathBuf, Option<CgroupError>)>,
}

impl Group {
    pub(crate) fn new(dirs: &Dirs<'_>) -> Self {
        let (limit, burst) = if dirs.unified {
            (Limit::CpuMax(kept(dirs.cpu, "cpu.max")), "cpu.max.burst")
        } else {
            let (quota, period) = (kept(dirs.cpu, "cpu.cfs_quota_us"), kept(dirs.cpu, "cpu.cfs_period_us"));
            (Limit::Cfs { quota, period }, "cpu.cfs_burst_us")
        };
        Self {
            path: dirs.cpu.to_owned(),
            limit,
            burst: kept(dirs.cpu, burst),
            stat: kept(dirs.cpu, "cpu.stat"),
            usage: dirs.cpuacct.map(|dir| kept(dir, "cpuacct.usage")),
            pressure: dirs.pressure.map(|dir| kept(dir, "cpu.pressure")),
            before: None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next reading has nothing to be compared with.
    pub(crate) fn forget(&mut self) {
        self.before = None;
    }

    /// Reads every file once. Of the process's own group (`is_own`) the usage must be there.
    pub(crate) fn read(&mut self, is_own: bool, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<Now, CgroupError> {
        let quota = self.quota(files, buffer)?;
        let stat = self.stat(is_own, files, buffer)?;
        // What only adds to a reading costs none of it.
        let burst = match self.burst.read(files, buffer) {
            Ok(true) => text::burst(buffer).ok(),
            _ => None,
        };
        let (pressure, without_pressure) = self.pressure(files, buffer);
        Ok(Now { quota, burst, counters: Counters { stat, pressure }, without_pressure })
    }

    fn quota(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<Option<Quota>, CgroupError> {
        match &mut self.limit {
            Limit::CpuMax(max) => Ok(parsed(max, files, buffer, text::cpu_max)?.flatten()),
            Limit::Cfs { quota, period } => {
                let micros = parsed(quota, files, buffer, text::cfs_quota)?;
                let period_micros = parsed(period, files, buffer, text::cfs_period)?;
                match (micros, period_micros) {
                    (None, None) | (Some(None), Some(_)) => Ok(None),
                    (Some(Some(micros)), Some(period_micros)) => Ok(Some(Quota { micros, period_micros })),
                    (Some(_), None) => Err(not_there(period)),
                    (None, Some(_)) => Err(not_there(quota)),
                }
            }
        }
    }

    fn stat(&mut self, is_own: bool, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<CpuStat, CgroupError> {
        if matches!(self.limit, Limit::CpuMax(_)) {
            let stat = parsed(&mut self.stat, files, buffer, text::cpu_stat)?;
            return if is_own { stat.ok_or_else(|| not_there(&self.stat)) } else { Ok(stat.unwrap_or_default()) };
        }
        let mut stat = parsed(&mut self.stat, files, buffer, text::cpu_stat_v1)?;
        if let Some(file) = &mut self.usage {
            let usage = parsed(file, files, buffer, text::cpuacct_usage)?;
            if is_own && usage.is_none() {
                return Err(not_there(file));
            }
            stat.get_or_insert_default().usage = usage;
        } else if is_own && stat.is_none() && !files.exists(&self.path) {
            return Err(CgroupError::NotThere { path: self.path.clone() });
        }
        Ok(stat.unwrap_or_default())
    }

    /// A kernel may have it switched off in several ways: no file, or one that cannot be read (`EOPNOTSUPP`), which is then left alone.
    /// What fails otherwise is tried again: the next tick may have a descriptor to spare.
    fn pressure(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> (Pressure, Option<(PathBuf, Option<CgroupError>)>) {
        let Some(file) = &mut self.pressure else { return (Pressure::default(), None) };
        let path = file.path().to_owned();
        match parsed(file, files, buffer, text::pressure) {
            Ok(Some(pressure)) => (pressure, None),
            Ok(None) => (Pressure::default(), Some((path, None))),
            Err(error) => {
                if matches!(error, CgroupError::Io { code: Some(NOT_SUPPORTED), .. }) {
                    self.pressure = None;
                }
                (Pressure::default(), Some((path, Some(error))))
            }
        }
    }

    /// Compares with the last reading. If `counts`, this one is what the next is compared with. The second is whether there was a last.
    pub(crate) fn compare(&mut self, now: &Now, at: Instant, counts: bool) -> (GroupReading, bool) {
        let before = if counts { self.before.replace((at, now.counters)) } else { self.before };
        let rates = before.map(|(then, before)| Rates::between(&before, &now.counters, at.saturating_duration_since(then)));
        let Rates { usage_cores, throttled_cores, throttled_share, some_stalled, full_stalled } = rates.unwrap_or_default();
        let reading = GroupReading {
            path: self.path.clone(),
            quota_cores: now.quota.map(Quota::cores),
            burst: now.burst,
            usage: now.counters.stat.usage,
            usage_cores,
            throttled_cores,
            throttled_share,
            some_stalled,
            full_stalled,
        };
        (reading, rates.is_some())
    }
}

fn kept(dir: &Path, name: &str) -> Kept {
    Kept::new(dir.join(name))
}

fn not_there(file: &Kept) -> CgroupError {
    CgroupError::NotThere { path: file.path().to_owned() }
}

/// Reads and parses. `None`: the file is not there.
pub(crate) fn parsed<T>(
    file: &mut Kept,
    files: &dyn Files,
    buffer: &mut Vec<u8>,
    parse: impl FnOnce(&[u8]) -> Result<T, ParseCgroupError>,
) -> Result<Option<T>, CgroupError> {
    if !file.read(files, buffer)? {
        return Ok(None);
    }
    parse(buffer).map(Some).map_err(|error| error.in_file(file.path()).into())
}
