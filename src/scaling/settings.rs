//! A scaler's settings: defaults, and what is refused because it cannot work.

use std::{fmt, time::Duration};

use super::{
    amount::{Amount, Capacity},
    driver::Driver,
    sample::effective_cpus,
    scaler::Scaler,
};

/// What a target may be, in millionths. Source: Cloud Run, 10 % to 95 %.
const TARGETS: std::ops::RangeInclusive<u64> = 100_000..=950_000;

/// What cannot work, with what to do. Nothing of it is left to be found at run time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The CPUs of an instance are not above 0.
    Cpus {
        /// What was given.
        value: f64,
    },
    /// At most no instance: with [`ScalerBuilder::fixed`] 0 can be said.
    MaxZero,
    /// More at least than at most.
    MinAboveMax {
        /// At least.
        min: u32,
        /// At most.
        max: u32,
    },
    /// A driver is wanted, and not said what one instance can take.
    NoCapacity {
        /// The driver.
        driver: Driver,
        /// The setting that says it.
        setting: &'static str,
    },
    /// Nothing is wanted that could ask for instances.
    NoDriver,
    /// A target is not within 10 % to 95 %.
    Target {
        /// Which setting.
        setting: &'static str,
        /// What was given.
        value: f64,
    },
    /// A tolerance is not at least 0 and below 1.
    Tolerance {
        /// What was given.
        value: f64,
    },
    /// A setting is not above 0, or not a number.
    Zero {
        /// Which.
        setting: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus { value } => write!(f, "an instance has {value} CPUs: say how many, above 0"),
            Self::MaxZero => f.write_str("at most 0 instances: say at least 1, or fixed(0) to have none"),
            Self::MinAboveMax { min, max } => write!(f, "at least {min} and at most {max} instances: no count is both"),
            Self::NoCapacity { driver, setting } => {
                write!(f, "the driver {driver} does not know what an instance can take: set {setting}")
            }
            Self::NoDriver => {
                f.write_str("nothing asks for instances: set cpus, max_concurrency, nominal or backlog, or a fixed count")
            }
            Self::Target { setting, value } => write!(f, "{setting} is {value}: say one from 0.10 to 0.95"),
            Self::Tolerance { value } => write!(f, "tolerance is {value}: say one of at least 0 and below 1"),
            Self::Zero { setting } => write!(f, "{setting} must be a number above 0"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Makes a [`Scaler`].
///
/// | setting | default | source |
/// |---|---|---|
/// | `min`, `max` | 0, 100 | Cloud Run |
/// | `cpu_target`, `concurrency_target` | 0.60 | Cloud Run |
/// | `tolerance` | 0.10 of the target | Cloud Run |
/// | `idle_limit` | 15 min | Cloud Run |
/// | `adaptive`, `demand`, `queue`, `refusals` | off | |
/// | `blind_floor` | none | KEDA's fallback |
///
/// A driver takes part once what it needs is set: [`cpus`](Self::cpus) brings CPU, [`max_concurrency`](Self::max_concurrency) concurrency,
/// [`nominal`](Self::nominal) the effective gauge, [`backlog`](Self::backlog) the backlog.
///
/// # Examples
/// ```
/// use keywake::scaling::{Fleet, Sample, ScalerBuilder};
/// use std::time::Instant;
///
/// let scaler = ScalerBuilder::new().cpus(2.0).max(20).build()?;
/// let mut sample = Sample::default();
/// sample.cpu_cores = Some(12.0);
/// assert_eq!(scaler.decide(&sample, Fleet::settled(6), Instant::now()).count, 10);
/// # Ok::<(), keywake::scaling::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a builder does nothing until it builds"]
pub struct ScalerBuilder {
    min: u32,
    max: u32,
    fixed: Option<u32>,
    cpus: Option<f64>,
    threads: Option<u32>,
    cpu_target: f64,
    max_concurrency: Option<u32>,
    concurrency_target: f64,
    adaptive: bool,
    demand: bool,
    queue: bool,
    refusals: bool,
    nominal: Option<u32>,
    backlog: Option<(f64, Duration)>,
    tolerance: f64,
    idle_limit: Duration,
    blind_floor: u32,
}

impl Default for ScalerBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalerBuilder {
    /// The defaults of the table, and no driver.
    pub fn new() -> Self {
        Self {
            min: 0,
            max: 100,
            fixed: None,
            cpus: None,
            threads: None,
            cpu_target: 0.6,
            max_concurrency: None,
            concurrency_target: 0.6,
            adaptive: false,
            demand: false,
            queue: false,
            refusals: false,
            nominal: None,
            backlog: None,
            tolerance: 0.1,
            idle_limit: IDLE_LIMIT,
            blind_floor: 0,
        }
    }

    /// At least so many instances. Should be 1 or more where there is work without requests, or where workers fetch their work: nothing brings
    /// those up from zero. Default 0.
    pub fn min(mut self, instances: u32) -> Self {
        self.min = instances;
        self
    }

    /// At most so many. Default 100.
    pub fn max(mut self, instances: u32) -> Self {
        self.max = instances;
        self
    }

    /// Exactly so many: nothing else is looked at, no tolerance keeps the last one away, and 0 is 0. Default: none.
    pub fn fixed(mut self, instances: u32) -> Self {
        self.fixed = Some(instances);
        self
    }

    /// CPUs per instance. Brings [`Driver::Cpu`].
    pub fn cpus(mut self, cpus: f64) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// As [`cpus`](Self::cpus), for instances of several containers: the sum of their limits, each of which must be above 0.
    pub fn containers(self, cpus: &[f64]) -> Self {
        let none = cpus.iter().copied().find(|cpus| cpus.is_nan() || *cpus <= 0.0);
        self.cpus(none.unwrap_or_else(|| cpus.iter().fold(0.0, |sum, cpus| sum + cpus)))
    }

    /// How many threads of an instance can run at once, where these are fewer than its CPUs; see [`effective_cpus`]. Default: enough.
    pub fn runnable_threads(mut self, threads: u32) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The share of an instance's CPUs that should be in use. From 0.10 to 0.95; default 0.60.
    pub fn cpu_target(mut self, target: f64) -> Self {
        self.cpu_target = target;
        self
    }

    /// Requests at once that an instance takes at most. Brings [`Driver::Concurrency`].
    pub fn max_concurrency(mut self, requests: u32) -> Self {
        self.max_concurrency = Some(requests);
        self
    }

    /// The share of it that should be in use. From 0.10 to 0.95; default 0.60.
    pub fn concurrency_target(mut self, target: f64) -> Self {
        self.concurrency_target = target;
        self
    }

    /// Whether [`Driver::Adaptive`] takes part: instances lower their limits by themselves. Default: no.
    pub fn adaptive(mut self, takes_part: bool) -> Self {
        self.adaptive = takes_part;
        self
    }

    /// Whether [`Driver::Demand`] takes part. Needs [`cpus`](Self::cpus). Default: no.
    pub fn demand(mut self, takes_part: bool) -> Self {
        self.demand = takes_part;
        self
    }

    /// Whether [`Driver::Queue`] takes part. Needs [`max_concurrency`](Self::max_concurrency). Default: no.
    pub fn queue(mut self, takes_part: bool) -> Self {
        self.queue = takes_part;
        self
    }

    /// Whether [`Driver::Refusals`] takes part. Needs [`max_concurrency`](Self::max_concurrency). Default: no.
    pub fn refusals(mut self, takes_part: bool) -> Self {
        self.refusals = takes_part;
        self
    }

    /// Streams at nominal cost that an instance at its target has: the number that its gauge was made with. Brings [`Driver::Effective`].
    pub fn nominal(mut self, streams: u32) -> Self {
        self.nominal = Some(streams);
        self
    }

    /// Events per second that an instance reads when it does nothing else, and within which time a backlog shall be read. Brings
    /// [`Driver::Backlog`]; its target is that of the CPUs.
    pub fn backlog(mut self, events_per_second: f64, drain_within: Duration) -> Self {
        self.backlog = Some((events_per_second, drain_within));
        self
    }

    /// How far use may be from its target, as a share of the target, before the count changes. At least 0, below 1; default 0.10, which at a
    /// target of 60 % is 54 % to 66 %, both included.
    pub fn tolerance(mut self, share: f64) -> Self {
        self.tolerance = share;
        self
    }

    /// For how long there must have been no request before the last instance goes. Default 15 min.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// At least so many while some number that is looked at says nothing. From 0 too, where only the requests that wait are looked at, with or
    /// without a driver for them. Default 0: only the count is held.
    pub fn blind_floor(mut self, instances: u32) -> Self {
        self.blind_floor = instances;
        self
    }

    /// The scaler.
    ///
    /// # Errors
    /// If it could not work; see [`ConfigError`].
    pub fn build(self) -> Result<Scaler, ConfigError> {
        if self.max == 0 && self.fixed.is_none() {
            return Err(ConfigError::MaxZero);
        }
        if self.min > self.max && self.fixed.is_none() {
            return Err(ConfigError::MinAboveMax { min: self.min, max: self.max });
        }
        let settings = Settings {
            min: self.min,
            max: self.max,
            fixed: self.fixed,
            cpus: self.cpu_capacity()?,
            cpu_target: target("cpu_target", self.cpu_target)?,
            max_concurrency: each("max_concurrency", self.max_concurrency)?,
            concurrency_target: target("concurrency_target", self.concurrency_target)?,
            nominal: each("nominal", self.nominal)?,
            backlog: self.backlog.map(|(rate, within)| Reading::new(rate, within)).transpose()?,
            tolerance: self.checked_tolerance()?,
            idle_limit: self.idle_limit,
            blind_floor: self.blind_floor,
            drivers: self.drivers()?,
        };
        Ok(Scaler::new(settings))
    }

    fn cpu_capacity(&self) -> Result<Option<Capacity>, ConfigError> {
        if self.threads == Some(0) {
            return Err(ConfigError::Zero { setting: "runnable_threads" });
        }
        let Some(value) = self.cpus else { return Ok(None) };
        let cpus = Amount::new(value).ok().filter(|cpus| !cpus.is_zero()).ok_or(ConfigError::Cpus { value })?;
        let effective = Amount::new(effective_cpus(value, self.threads)).unwrap_or(cpus);
        Ok(Some(Capacity::each(effective)))
    }

    fn checked_tolerance(&self) -> Result<u64, ConfigError> {
        let value = self.tolerance;
        let tolerance = Amount::new(value).ok().filter(|_| value < 1.0).ok_or(ConfigError::Tolerance { value })?;
        Ok(tolerance.millionths())
    }

    /// Those that take part, in the order in which equals win.
    fn drivers(&self) -> Result<Vec<Driver>, ConfigError> {
        let (cpus, requests) = ((self.cpus.is_some(), "cpus"), (self.max_concurrency.is_some(), "max_concurrency"));
        let mut drivers = Vec::new();
        for driver in Driver::ALL {
            let (wanted, (known, setting)) = match driver {
                Driver::Adaptive => (self.adaptive, (true, "")),
                Driver::Backlog => (self.backlog.is_some(), (true, "")),
                Driver::Concurrency => (requests.0, requests),
                Driver::Cpu => (cpus.0, cpus),
                Driver::Demand => (self.demand, cpus),
                Driver::Effective => (self.nominal.is_some(), (true, "")),
                Driver::Queue => (self.queue, requests),
                Driver::Refusals => (self.refusals, requests),
            };
            if wanted && !known {
                return Err(ConfigError::NoCapacity { driver, setting });
            }
            drivers.extend(wanted.then_some(driver));
        }
        if drivers.is_empty() && self.fixed.is_none() { Err(ConfigError::NoDriver) } else { Ok(drivers) }
    }
}

/// After which time without a request an instance is not needed. Source: Cloud Run.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What was built with, checked, in exact numbers.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) fixed: Option<u32>,
    pub(super) cpus: Option<Capacity>,
    pub(super) cpu_target: u64,
    pub(super) max_concurrency: Option<Capacity>,
    pub(super) concurrency_target: u64,
    pub(super) nominal: Option<Capacity>,
    pub(super) backlog: Option<Reading>,
    pub(super) tolerance: u64,
    pub(super) idle_limit: Duration,
    pub(super) blind_floor: u32,
    pub(super) drivers: Vec<Driver>,
}

/// How fast an instance reads, and how fast it shall have read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) per_second: Capacity,
    pub(super) within: Duration,
}

impl Reading {
    fn new(per_second: f64, within: Duration) -> Result<Self, ConfigError> {
        let rate = Amount::new(per_second).ok().filter(|rate| !rate.is_zero());
        let rate = rate.filter(|_| !within.is_zero()).ok_or(ConfigError::Zero { setting: "backlog" })?;
        Ok(Self { per_second: Capacity::each(rate), within })
    }
}

fn target(setting: &'static str, value: f64) -> Result<u64, ConfigError> {
    let target = Amount::new(value).ok().map(Amount::millionths).filter(|target| TARGETS.contains(target));
    target.ok_or(ConfigError::Target { setting, value })
}

fn each(setting: &'static str, count: Option<u32>) -> Result<Option<Capacity>, ConfigError> {
    match count {
        Some(0) => Err(ConfigError::Zero { setting }),
        count => Ok(count.map(|count| Capacity::each(Amount::whole(count)))),
    }
}
