//! For how long what may be silent, as the operator says it.

use std::{error::Error, fmt, time::Duration};

/// For how long what may be silent. A limit of zero is off; with all of them off, nothing is ever told to end.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use keywake::overload::{watchdog::{Watchdog, WatchdogLimits}};
/// let stall = Duration::from_secs(20 * 60);
/// let watchdog = Watchdog::new(WatchdogLimits { stall, ..WatchdogLimits::default() })?;
/// # assert_eq!(watchdog.active(std::time::Instant::now()).tasks, 0);
/// # Ok::<(), keywake::overload::watchdog::WatchdogError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogLimits {
    /// How long a task may be without progress. Default 10 min.
    pub stall: Duration,
    /// How long a task may be there at all. Default 4 h: the source had 60 min, which ended those that were slow and alive.
    pub absolute: Duration,
    /// How long one [`Item`](super::Item) may take. Default 3 min.
    pub item: Duration,
    /// How long a task is there before it is told of as one that is there for long, and then again each time as long has passed.
    /// Default 5 min.
    pub long_active: Duration,
    /// How often [`Watchdog::check`](super::Watchdog::check) is to be called. It must not be zero. Default 30 s.
    ///
    /// A task is told to end at most so long after its time is up. More than twice as long between two checks is a gap, in which
    /// the process, or the check, did not run.
    pub period: Duration,
}

impl Default for WatchdogLimits {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(10 * 60),
            absolute: Duration::from_secs(4 * 60 * 60),
            item: Duration::from_secs(3 * 60),
            long_active: Duration::from_secs(5 * 60),
            period: Duration::from_secs(30),
        }
    }
}

impl WatchdogLimits {
    /// # Errors
    /// See [`WatchdogError`].
    pub(super) fn check(&self) -> Result<(), WatchdogError> {
        let Self { stall, absolute, item, period, .. } = *self;
        if period.is_zero() {
            return Err(WatchdogError::ZeroPeriod);
        }
        let named @ [stall, absolute, item] = [("stall", stall), ("absolute", absolute), ("item", item)];
        if let Some((name, limit)) = named.into_iter().find(|(_, limit)| !limit.is_zero() && *limit < period) {
            return Err(WatchdogError::BelowPeriod { name, limit, period });
        }
        for ((name, limit), (within, inner)) in [(stall, item), (absolute, stall), (absolute, item)] {
            if !limit.is_zero() && !inner.is_zero() && limit <= inner {
                return Err(WatchdogError::NotLonger { name, limit, within, inner });
            }
        }
        Ok(())
    }

    /// How long a task is left alone after a gap: a period, and long enough for one that lives to end an item.
    pub(super) fn grace(&self) -> Duration {
        self.period.max(self.item)
    }
}

/// Why there is no [`Watchdog`](super::Watchdog) with these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchdogError {
    /// A limit is shorter than the time between two checks.
    BelowPeriod {
        /// Which of [`WatchdogLimits`](super::WatchdogLimits).
        name: &'static str,
        /// Its value.
        limit: Duration,
        /// `period`.
        period: Duration,
    },
    /// A limit is not longer than one that it encloses, which could never be exceeded: `stall` than `item`, `absolute` than either.
    NotLonger {
        /// Which of [`WatchdogLimits`](super::WatchdogLimits).
        name: &'static str,
        /// Its value.
        limit: Duration,
        /// Which it must be longer than.
        within: &'static str,
        /// The value of that.
        inner: Duration,
    },
    /// The period is zero.
    ZeroPeriod,
}

impl fmt::Display for WatchdogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BelowPeriod { name, limit, period } => {
                write!(f, "watchdog: {name} ({limit:?}) is shorter than the period between checks ({period:?})")
            }
            Self::NotLonger { name, limit, within, inner } => {
                write!(f, "watchdog: {name} ({limit:?}) must be longer than {within} ({inner:?}), or one of them 0 (off)")
            }
            Self::ZeroPeriod => write!(f, "watchdog: period is 0"),
        }
    }
}

impl Error for WatchdogError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let limits = WatchdogLimits::default();
        let expected = [600, 14_400, 180, 300, 30].map(Duration::from_secs);
        assert_eq!([limits.stall, limits.absolute, limits.item, limits.long_active, limits.period], expected);
        assert_eq!(limits.check(), Ok(()));
    }

    #[test]
    fn stall_must_be_longer_than_the_time_for_one_item() {
        let default = WatchdogLimits::default();
        for (stall, is_fine) in [(180, false), (179, false), (181, true), (0, true)] {
            let limits = WatchdogLimits { stall: stall * SECOND, ..default };
            let (limit, inner) = (stall * SECOND, default.item);
            let error = Err(WatchdogError::NotLonger { name: "stall", limit, within: "item", inner });
            assert_eq!(limits.check(), if is_fine { Ok(()) } else { error }, "{stall}");
        }
        assert_eq!(WatchdogLimits { stall: 60 * SECOND, item: Duration::ZERO, ..default }.check(), Ok(()));
    }

    #[test]
    fn limits_that_cannot_work_are_refused_in_words() {
        let default = WatchdogLimits::default();
        let table = [
            (WatchdogLimits { period: Duration::ZERO, ..default }, "period is 0"),
            (WatchdogLimits { item: SECOND, ..default }, "item (1s) is shorter than the period between checks (30s)"),
            (
                WatchdogLimits { absolute: default.stall, ..default },
                "absolute (600s) must be longer than stall (600s), or one of them 0",
            ),
            (
                WatchdogLimits { stall: Duration::ZERO, absolute: default.item, ..default },
                "absolute (180s) must be longer than item (180s)",
            ),
            (WatchdogLimits { stall: 2 * SECOND, ..default }, "stall (2s) is shorter than the period"),
        ];
        for (limits, text) in table {
            let error = limits.check().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
