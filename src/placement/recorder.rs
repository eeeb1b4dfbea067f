//! What a process records of its owners, and reports once a minute.
//!
//! The total is the process's processor time over a window that is measured; it decides whether the process is saturated. What owners are
//! seen to take is a share of it, never an amount (S1: wall time of overlapping waits can be any number).

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use super::{
    cores::Cores,
    name::{Fleet, Index, Owner},
    report::{OwnerLoad, Pressure, Report},
};
use crate::meter::Split;

/// The busy time of one owner in one window is at most this, in nanoseconds: some days. Keeps products within 128 bits.
const MOST_BUSY: u64 = 1 << 50;
/// What a process may use is at most this, in nano-cores: a million cores. With it the products fit for millions of owners.
const MOST_CORES: u64 = 1 << 50;

/// What the busy time of owners is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Busy {
    /// Processor time, as a [`Meter`](crate::meter::Meter) tells it: where owners took less than the process, the rest is unattributed. Where
    /// they took more, each gets its share.
    Processor,
    /// Anything in proportion, such as wall time: each owner gets its share of all that the process used. What no owner took is spread over
    /// them, unless none took any.
    #[default]
    Relative,
}

/// Why a window has no report. Its owners' time is forgotten, except when the window goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discarded {
    /// There is no processor clock.
    ClockMissing,
    /// The processor clock went back: another process, or a counter that began anew. The next window begins here.
    CpuWentBack,
    /// It is the first reading: the first window begins here.
    First,
    /// No time has passed since the last reading, or it went back. The window goes on.
    WindowEmpty,
}

impl fmt::Display for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClockMissing => "there is no processor clock",
            Self::CpuWentBack => "the processor clock went back",
            Self::First => "the first reading begins the first window",
            Self::WindowEmpty => "no time has passed",
        })
    }
}

impl std::error::Error for Discarded {}

/// Records what owners take on one process, and makes a report of each window.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// use keywake::placement::{Cores, Fleet, Index, Owner, Recorder};
/// let seconds = Duration::from_secs;
/// let mut recorder = Recorder::new(Fleet::new("ingest")?, Index(3), 1);
/// let start = Instant::now();
/// assert!(recorder.close(start, Some(seconds(500)), 12).is_err(), "the first window begins");
/// recorder.record(&Owner::new("a")?, seconds(30));
/// recorder.record(&Owner::new("b")?, seconds(90));
/// let report = recorder.close(start + seconds(60), Some(seconds(548)), 12)?;
/// assert_eq!(report.process, Cores::from_milli(800));
/// assert_eq!(report.owners[0].cores, Cores::from_milli(200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    fleet: Fleet,
    index: Index,
    run: u64,
    busy_is: Busy,
    ceiling: Option<Cores>,
    draining: bool,
    pressure: Pressure,
    number: u64,
    last: Option<(Instant, Duration)>,
    busy: HashMap<Owner, u64>,
}

impl Recorder {
    /// The recorder of the process at `index` of `fleet`. `run` is a number that none of its other lives has: a random one, or the time of
    /// its start.
    #[must_use]
    pub fn new(fleet: Fleet, index: Index, run: u64) -> Self {
        Self {
            fleet,
            index,
            run,
            busy_is: Busy::default(),
            ceiling: None,
            draining: false,
            pressure: Pressure::unknown(),
            number: 0,
            last: None,
            busy: HashMap::new(),
        }
    }

    /// What the recorded time is. [`Busy::Relative`] if not said.
    #[must_use]
    pub fn busy(mut self, busy: Busy) -> Self {
        self.busy_is = busy;
        self
    }

    /// What the process may use, of which 95% is as good as all: one core for a process of one thread, its cgroup's quota otherwise. Without
    /// it no report says that it is capped.
    #[must_use]
    pub fn ceiling(mut self, ceiling: Cores) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    /// `owner` runs here, and was busy for so long since it was last told; 0 says that it is here and idle.
    pub fn record(&mut self, owner: &Owner, busy: Duration) {
        let nanos = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        let told = match self.busy.get_mut(owner) {
            Some(told) => told,
            None => self.busy.entry(owner.clone()).or_default(),
        };
        *told = told.saturating_add(nanos).min(MOST_BUSY);
    }

    /// What a meter's interval says of each stream, whose owner is `owner_of` its id. Streams of no owner are unattributed.
    pub fn record_streams<'a>(&mut self, split: &Split, owner_of: impl Fn(u64) -> Option<&'a Owner>) {
        for stream in &split.streams {
            if let Some(owner) = owner_of(stream.id) {
                self.record(owner, stream.used);
            }
        }
    }

    /// What the ceiling cannot clip, in the window that is open.
    pub fn pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Says from now on that the process is about to leave: no owner is moved while one of its fleet does.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Ends the window at `now`, when the process had used `cpu` all in all ([`process_cpu`](crate::meter::process_cpu)), in a fleet of
    /// `processes`. To be called every 60 s, by a process without any owner too: one that is silent looks dead.
    ///
    /// Units: processor seconds over real seconds, in cores. `process = cpu / window`; an owner has `process * busy / (sum of busy)` (S1), by
    /// [`Busy::Processor`] at most `busy / window`. Shares are cut so that they add up to the nano-core.
    ///
    /// # Errors
    /// When there is nothing to report.
    pub fn close(&mut self, now: Instant, cpu: Option<Duration>, processes: u32) -> Result<Report, Discarded> {
        let Some(cpu) = cpu else {
            self.begin(None);
            return Err(Discarded::ClockMissing);
        };
        let Some((last, last_cpu)) = self.last else {
            self.begin(Some((now, cpu)));
            return Err(Discarded::First);
        };
        let window = now.saturating_duration_since(last);
        if window.is_zero() {
            return Err(Discarded::WindowEmpty);
        }
        let used = cpu.checked_sub(last_cpu);
        let process = used.and_then(|used| Cores::over(used, window)).map(|cores| cores.min(Cores::from_nanos(MOST_CORES)));
        let Some(process) = process else {
            self.begin(Some((now, cpu)));
            return Err(Discarded::CpuWentBack);
        };
        let mut busy: Vec<_> = self.busy.drain().collect();
        busy.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.number += 1;
        let mut report = Report::new(self.fleet.clone(), self.index, processes, self.run, self.number, window);
        report.process = process;
        (report.owners, report.unattributed) = self.shares(process, busy, used.unwrap_or_default());
        report.capped = self.ceiling.is_some_and(|ceiling| process >= ceiling.scale(95, 100));
        report.draining = self.draining;
        report.pressure = self.pressure;
        self.begin(Some((now, cpu)));
        Ok(report)
    }

    fn begin(&mut self, at: Option<(Instant, Duration)>) {
        self.last = at;
        self.busy.clear();
        self.pressure = Pressure::unknown();
    }

    /// What each owner has of `process`, and what none has.
    fn shares(&self, process: Cores, busy: Vec<(Owner, u64)>, used: Duration) -> (Vec<OwnerLoad>, Cores) {
        let taken: u128 = busy.iter().map(|(_, nanos)| u128::from(*nanos)).sum();
        let whole = match self.busy_is {
            Busy::Processor => taken.max(used.as_nanos()),
            Busy::Relative => taken,
        };
        let mut upto = 0_u128;
        let mut given = 0_u64;
        let loads = busy.into_iter().map(|(owner, nanos)| {
            upto += u128::from(nanos);
            // The difference of rounded sums, so that the sum is not off by what each was rounded.
            let sum = (u128::from(process.nanos()) * upto).checked_div(whole).unwrap_or_default();
            let sum = u64::try_from(sum).unwrap_or(u64::MAX);
            let cores = Cores::from_nanos(sum.saturating_sub(given));
            given = sum;
            OwnerLoad { owner, cores }
        });
        let loads: Vec<_> = loads.collect();
        (loads, process.saturating_sub(Cores::from_nanos(given)))
    }
}
