//! The reader: what it keeps between ticks, and what a tick does.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    builder::{Affinity, CgroupReaderBuilder, Clock},
    error::CgroupError,
    files::{Files, Kept},
    found::Found,
    group::{Group, GroupReading, parsed},
    groups::{Plan, Read},
    hierarchy::{Tightest, tightest},
    memory::{Memory, MemorySample},
    rates::{self, SHORTEST},
    reading::{CpuReading, Notice, Signal},
    text::{self, Stall},
};
use crate::{
    load::{CpuSample, QuotaSource},
    meter::FAR_BACK,
};

/// So many failures in a row, and nothing is known any more.
const STRIKES: u32 = 3;
/// Where there are no groups they are looked for again at every so many ticks.
const LOOK_AGAIN: u32 = 16;

/// What a reader is built from.
pub(crate) struct Parts {
    pub(crate) root: PathBuf,
    pub(crate) override_cores: Option<f64>,
    pub(crate) affinity: Affinity,
    pub(crate) clock: Clock,
    pub(crate) files: Box<dyn Files>,
}

/// What the next sample is compared with, beside the groups' own counters.
struct Before {
    at: Instant,
    process: Option<Duration>,
    machine: Option<Stall>,
}

/// Reads what the process's groups may use and do use; see the [module](super) for what that means.
///
/// ```
/// use std::time::Instant;
/// use keywake::meter::cgroup::CgroupReader;
///
/// let mut reader = CgroupReader::new();
/// let first = reader.tick(Instant::now());
/// assert!(first.sample.is_none(), "there is nothing to compare with yet");
/// println!("{:?} cores, by {:?}", first.quota_cores, first.quota_source);
/// # #[cfg(target_os = "linux")]
/// # {
/// # std::thread::sleep(std::time::Duration::from_millis(2));
/// // An interval later:
/// let reading = reader.tick(Instant::now());
/// if let (Some(sample), Some(ratio)) = (&reading.sample, reading.ratio()) {
///     println!("{:.3} cores used in {:?}, {:.1} % of the limit", sample.usage_cores, sample.elapsed, 100.0 * ratio);
/// }
/// # }
/// for notice in &reader.tick(Instant::now()).notices {
///     eprintln!("{notice}");
/// }
/// ```
pub struct CgroupReader {
    parts: Parts,
    membership: Kept,
    /// The pressure of the whole machine, for a process in the machine's own group.
    machine: Kept,
    memory: Memory,
    found: Found,
    buffer: Vec<u8>,
    strikes: u32,
    before: Option<Before>,
    told: Told,
}

/// What was told, and is not told again.
#[derive(Default)]
struct Told {
    no_groups: bool,
    no_pressure: bool,
    /// The limit that the override was above of.
    above: Option<f64>,
    /// The number of cores, and where it comes from.
    quota: Option<(Option<f64>, Option<QuotaSource>)>,
    skipped: Vec<CgroupError>,
}

impl Default for CgroupReader {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CgroupReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = match &self.found {
            Found::Groups(groups) => groups.cpu.iter().map(|group| group.path()).collect(),
            Found::Absent { .. } | Found::Nothing => Vec::new(),
        };
        let (root, strikes) = (&self.parts.root, &self.strikes);
        f.debug_struct("CgroupReader")
            .field("root", root)
            .field("groups", &groups)
            .field("strikes", strikes)
            .finish_non_exhaustive()
    }
}

impl CgroupReader {
    /// A reader of the machine's files without an override. It has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::from_parts(Self::builder().into_parts())
    }

    /// Settings for a reader.
    pub fn builder() -> CgroupReaderBuilder {
        CgroupReaderBuilder::default()
    }

    pub(crate) fn from_parts(parts: Parts) -> Self {
        let proc = |name: &str| parts.root.join("proc").join(name);
        Self {
            membership: Kept::new(proc("self/cgroup")),
            machine: Kept::new(proc("pressure/cpu")),
            memory: Memory::new(&parts.root),
            found: Found::Nothing,
            buffer: Vec::new(),
            strikes: 0,
            before: None,
            told: Told::default(),
            parts,
        }
    }

    /// Reads everything once, and says what happened since the tick before. `now` is the time of reading; it may stand still or go back,
    /// which yields no sample: by up to 10 s until it has made that up, by more for this tick.
    ///
    /// It never fails as a whole: what could not be read is in [`CpuReading::error`] and [`CpuReading::signal`]. It blocks for as long as
    /// the kernel takes to write a few small files, some microseconds.
    pub fn tick(&mut self, now: Instant) -> CpuReading {
        let mut notices = Vec::new();
        let process = (self.parts.clock)();
        let affinity_cpus = (self.parts.affinity)();
        let outcome = self.read(&mut notices);
        let (signal, read, error) = self.judge(outcome, process.is_some(), &mut notices);
        let is_known = matches!(signal, Signal::Groups | Signal::Process);
        let Read { groups, cpuset: cpuset_cpus } = read;

        if self.before.as_ref().is_some_and(|before| before.at.saturating_duration_since(now) > FAR_BACK) {
            self.forget();
        }
        // A tick too soon changes nothing, so that the next one compares over a time that is long enough.
        let elapsed = self.before.as_ref().map(|before| now.saturating_duration_since(before.at));
        let counts = is_known && elapsed.is_none_or(|elapsed| elapsed >= SHORTEST);
        let mut readings = Vec::with_capacity(groups.len());
        let mut has_base = true;
        if let Found::Groups(kept) = &mut self.found {
            for (index, (group, read)) in kept.cpu.iter_mut().zip(groups).enumerate() {
                let Ok(read) = read else { continue };
                let (reading, had_base) = group.compare(&read, now, counts);
                readings.push(reading);
                has_base &= had_base || index > 0;
            }
        }
        let limit = tightest(readings.iter().map(|group| group.quota_cores), cpuset_cpus, affinity_cpus).filter(|_| is_known);
        let machine = if counts && readings.is_empty() { self.machine_pressure() } else { None };
        let before = if counts { self.before.replace(Before { at: now, process, machine }) } else { None };
        let mut reading = CpuReading {
            at: now,
            signal,
            sample: None,
            quota_cores: None,
            quota_source: None,
            limit_cores: limit.map(|limit| limit.cores),
            groups: readings,
            binding: limit.and_then(|limit| limit.group),
            cpuset_cpus,
            affinity_cpus,
            notices,
            error,
        };
        (reading.quota_cores, reading.quota_source) = match (self.parts.override_cores, limit) {
            (Some(cores), _) => (Some(cores), Some(QuotaSource::Override)),
            (None, limit) => (limit.map(|limit| limit.cores), limit.map(|limit| limit.source)),
        };
        if is_known {
            self.tell_quota(&mut reading);
        }
        if let (Some(before), true) = (before, has_base) {
            reading.sample = sample(&reading, &before, process, machine, limit);
        }
        reading
    }

    /// Reads how much memory there may be and is used. It stands for itself: it needs no ticks before it, and does not disturb them.
    ///
    /// # Errors
    /// Where neither a group's usage nor the process's own could be read.
    pub fn memory(&mut self) -> Result<MemorySample, CgroupError> {
        self.memory.read(&*self.parts.files, &mut self.buffer)
    }

    /// Which kind of tick it is, by what could be read and how often it could not.
    fn judge(
        &mut self,
        outcome: Result<Read, CgroupError>,
        has_clock: bool,
        notices: &mut Vec<Notice>,
    ) -> (Signal, Read, Option<CgroupError>) {
        let nothing = Read { groups: Vec::new(), cpuset: None };
        let error = match outcome {
            Ok(read) => {
                if self.strikes >= STRIKES || self.told.no_groups {
                    self.told.no_groups = false;
                    notices.push(Notice::Recovered);
                }
                self.strikes = 0;
                return (Signal::Groups, read, None);
            }
            Err(error) => error,
        };
        if matches!(self.found, Found::Absent { .. }) {
            self.strikes = 0;
            let signal = if has_clock { Signal::Process } else { Signal::Lost };
            if !self.told.no_groups {
                self.told.no_groups = true;
                notices.push(if has_clock { Notice::NoGroups(error.clone()) } else { Notice::Lost(CgroupError::NoClock) });
            }
            return (signal, nothing, Some(error));
        }
        self.strikes = self.strikes.saturating_add(1);
        if self.strikes < STRIKES {
            return (Signal::Holding, nothing, Some(error));
        }
        if self.strikes == STRIKES {
            notices.push(Notice::Lost(error.clone()));
            // What was counted while nobody looked is no sample.
            self.forget();
        }
        (Signal::Lost, nothing, Some(error))
    }

    /// The next reading has nothing to be compared with.
    fn forget(&mut self) {
        self.before = None;
        if let Found::Groups(groups) = &mut self.found {
            groups.cpu.iter_mut().for_each(Group::forget);
        }
    }

    /// Reads the groups; looks for them where they are not known, have changed, or are gone.
    fn read(&mut self, notices: &mut Vec<Notice>) -> Result<Read, CgroupError> {
        if let Found::Absent { error, wait } = &mut self.found {
            if *wait > 0 {
                *wait -= 1;
                return Err(error.clone());
            }
        }
        let files = &*self.parts.files;
        let there = self.membership.read(files, &mut self.buffer)?;
        let known = match &self.found {
            Found::Groups(groups) => there && groups.membership == self.buffer,
            Found::Absent { .. } | Found::Nothing => false,
        };
        let membership = self.buffer.clone();
        let plan = |buffer: &mut Vec<u8>| Plan::find(files, &self.parts.root, &membership, buffer);
        if !known {
            let found = match there {
                true => plan(&mut self.buffer),
                false => Err(CgroupError::NotThere { path: self.membership.path().to_owned() }),
            };
            let first = !matches!(self.found, Found::Groups(_));
            match found {
                Ok(plan) => {
                    self.found.adopt(membership, plan, notices);
                    self.told.skipped.clear();
                }
                Err(error) if first && error.is_absence() => {
                    self.found = Found::Absent { error: error.clone(), wait: LOOK_AGAIN };
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            let read = self.found.read(files, &mut self.buffer)?;
            self.told.tell(&read, notices);
            return Ok(read);
        }
        let read = match self.found.read(files, &mut self.buffer) {
            Ok(read) => read,
            // The same membership, but perhaps somewhere else by now. A guess in place of what was there is no better than nothing.
            Err(error) => match plan(&mut self.buffer) {
                Ok(plan) if self.found.is_better(&plan) => {
                    self.found.adopt(membership, plan, notices);
                    self.found.read(files, &mut self.buffer)?
                }
                _ => return Err(error),
            },
        };
        self.told.tell(&read, notices);
        Ok(read)
    }

    fn machine_pressure(&mut self) -> Option<Stall> {
        let read = parsed(&mut self.machine, &*self.parts.files, &mut self.buffer, text::pressure);
        // Of the whole machine `full` is always 0, which would say that nothing ever stalls.
        read.ok().flatten()?.some
    }

    fn tell_quota(&mut self, reading: &mut CpuReading) {
        let (to, source) = (reading.quota_cores, reading.quota_source);
        if let Some((from, _)) = self.told.quota.replace((to, source)).filter(|told| *told != (to, source)) {
            reading.notices.push(Notice::QuotaChanged { from, to, source });
        }
        let limit = reading.limit_cores.filter(|limit| self.parts.override_cores.is_some_and(|cores| cores > *limit));
        if let (Some(override_cores), Some(limit_cores)) = (self.parts.override_cores, limit) {
            if self.told.above != limit {
                reading.notices.push(Notice::OverrideAboveLimit { override_cores, limit_cores });
            }
        }
        self.told.above = limit;
    }
}

impl Told {
    fn tell(&mut self, read: &Read, notices: &mut Vec<Notice>) {
        for group in &read.groups {
            match group {
                Ok(now) => {
                    if let Some((path, error)) = now.without_pressure.clone().filter(|_| !self.no_pressure) {
                        self.no_pressure = true;
                        notices.push(Notice::NoPressure { path, error });
                    }
                }
                Err(error) if !self.skipped.contains(error) => {
                    self.skipped.push(error.clone());
                    notices.push(Notice::Skipped(error.clone()));
                }
                Err(_) => {}
            }
        }
    }
}

/// What happened since `before`, of the group that limits: the one with the quota, the own one with a processor set or the operator's
/// number, the process itself where its mask limits it or there is no group.
fn sample(
    reading: &CpuReading,
    before: &Before,
    process: Option<Duration>,
    machine: Option<Stall>,
    limit: Option<Tightest>,
) -> Option<CpuSample> {
    let elapsed = reading.at.saturating_duration_since(before.at);
    let process_cores = before.process.zip(process).and_then(|(before, after)| rates::cores(before, after, elapsed));
    let own_cores = reading.own().and_then(|group| group.usage_cores);
    let overridden = reading.quota_source == Some(QuotaSource::Override);
    let bound = limit.and_then(|limit| limit.group).filter(|_| !overridden).and_then(|group| reading.groups.get(group));
    let by_mask = reading.quota_source == Some(QuotaSource::Affinity);
    let usage_cores = match bound.and_then(|group| group.usage_cores) {
        Some(cores) => cores,
        None if by_mask => process_cores.or(own_cores)?,
        None => own_cores.or(process_cores)?,
    };
    let told = bound.or_else(|| reading.own());
    let of_told = |share: fn(&GroupReading) -> Option<f64>| told.and_then(share);
    let machine_some = || rates::cores(before.machine?.total, machine?.total, elapsed).map(|share| share.min(1.0));
    let mut sample = CpuSample::new(reading.at, elapsed, usage_cores);
    sample.process_cores = process_cores.unwrap_or(usage_cores);
    sample.quota_cores = reading.quota_cores;
    sample.quota_source = reading.quota_source;
    sample.throttled_share = of_told(|group| group.throttled_share);
    sample.throttled_cores = of_told(|group| group.throttled_cores);
    sample.some_stalled = of_told(|group| group.some_stalled).or_else(machine_some);
    sample.full_stalled = of_told(|group| group.full_stalled);
    Some(sample)
}
