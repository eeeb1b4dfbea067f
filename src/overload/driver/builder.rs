//! What a driver is made of.

use std::{error::Error, fmt, time::Instant};

use super::{
    Driver, Shared,
    source::{CpuSource, Groups},
    state::State,
    streams::Streams,
};
use crate::{
    meter::{Meter, cgroup::CgroupReader},
    overload::{
        admission::Admission,
        concurrency::AdaptiveConcurrency,
        events::LoadHub,
        evictor::{EvictorBuilder, SettingsError},
        readiness::Readiness,
        watchdog::Watchdog,
    },
    sync::{Arc, Mutex},
};

/// Makes a [`Driver`].
#[must_use = "a builder does nothing until it builds"]
pub struct DriverBuilder {
    evictor: EvictorBuilder,
    source: Option<Box<dyn CpuSource>>,
    meter: Option<Meter>,
    load: Option<LoadHub>,
    admission: Option<Admission>,
    concurrency: Option<AdaptiveConcurrency>,
    watchdog: Option<Watchdog>,
}

impl DriverBuilder {
    /// With this evictor, and nothing else. (Its default [mode](EvictorBuilder::mode) is off: say one.)
    pub fn new(evictor: EvictorBuilder) -> Self {
        Self { evictor, source: None, meter: None, load: None, admission: None, concurrency: None, watchdog: None }
    }

    /// What is read. Default: the control groups of the process, [`CgroupReader::new`].
    pub fn source(mut self, source: impl CpuSource) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The control groups as this reader reads them: with an override, or another root.
    pub fn groups(self, reader: CgroupReader) -> Self {
        self.source(Groups::from(reader))
    }

    /// Where streams are metered. Default: [`Meter::new`]. Nobody else should sample it.
    pub fn meter(mut self, meter: Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Where it is told. Default: a hub of its own, with a readiness that requires nothing. One driver a hub: two would set the same
    /// conditions from two opinions.
    pub fn load(mut self, load: LoadHub) -> Self {
        self.load = Some(load);
        self
    }

    /// What is to refuse in an overload; those who wait for it are looked at at each tick. Its own limits hold whatever the evictor's mode is,
    /// and with a soft limit so does the condition [`ROOM`](crate::overload::events::ROOM). Default: none.
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Steps this with what was read each second, and gives its limit to admission. It works whatever the evictor's mode is. Default: none.
    pub fn concurrency(mut self, concurrency: AdaptiveConcurrency) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// Watches each stream that is registered, and cancels those that do not get on. Default: none.
    ///
    /// It acts whatever the evictor's mode is. The default limits are those for work that ends by itself:
    /// * [`stall`](crate::overload::watchdog::WatchdogLimits::stall) ends each stream of which no source of
    ///   [`progress`](super::Registration::progress) has got on for 10 min, and those that have no source too. Where a live stream may be quiet
    ///   for longer, set it to zero.
    /// * `absolute` ends a stream after 4 h, however well it gets on, and `long_active` tells of each every 5 min. Where streams live longer,
    ///   set both to zero.
    pub fn watchdog(mut self, watchdog: Watchdog) -> Self {
        self.watchdog = Some(watchdog);
        self
    }

    /// Checks the settings, and makes the driver. Nothing is read yet.
    ///
    /// # Errors
    /// Where the evictor's settings cannot work, or there is adaptive concurrency and nothing to apply it.
    pub fn build(self) -> Result<Driver, DriverError> {
        let Self { evictor, source, meter, load, admission, concurrency, watchdog } = self;
        if concurrency.is_some() && admission.is_none() {
            return Err(DriverError::ConcurrencyWithoutAdmission);
        }
        let evictor = evictor.build().map_err(DriverError::Evictor)?;
        let mode = evictor.settings().mode;
        let source = source.unwrap_or_else(|| Box::new(Groups::from(CgroupReader::new())));
        let load = load.unwrap_or_else(|| LoadHub::new(Readiness::new(Instant::now())));
        let streams = Streams::new(meter.unwrap_or_default(), load.clone(), watchdog.clone());
        let concurrency = concurrency.zip(admission.clone());
        let state = Mutex::new(State::new(evictor, source, concurrency));
        Ok(Driver { shared: Arc::new(Shared { load, streams, admission, watchdog, mode, state }) })
    }
}

impl fmt::Debug for DriverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evictor, meter, load, admission, concurrency, watchdog, .. } = self;
        f.debug_struct("DriverBuilder")
            .field("evictor", evictor)
            .field("meter", meter)
            .field("load", load)
            .field("admission", admission)
            .field("concurrency", concurrency)
            .field("watchdog", watchdog)
            .finish_non_exhaustive()
    }
}

/// Why there is no [`Driver`] of these parts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DriverError {
    /// Adaptive concurrency is a limit of admission.
    ConcurrencyWithoutAdmission,
    /// The evictor's settings cannot work.
    Evictor(SettingsError),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConcurrencyWithoutAdmission => {
                f.write_str("driver: there is adaptive concurrency and no admission to apply its limit: give both, or neither")
            }
            Self::Evictor(error) => error.fmt(f),
        }
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::ConcurrencyWithoutAdmission => None,
            Self::Evictor(error) => Some(error),
        }
    }
}
