//! What two readings of a group's counters say of the time between them.

use std::time::Duration;

use super::text::{CpuStat, Pressure};

/// No interval is shorter: two readings within a microsecond once made an infinite ratio of a quotient.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// The counters of a group at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    pub(crate) stat: CpuStat,
    pub(crate) pressure: Pressure,
}

/// What was, per time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) usage_cores: Option<f64>,
    pub(crate) throttled_cores: Option<f64>,
    pub(crate) throttled_share: Option<f64>,
    pub(crate) some_stalled: Option<f64>,
    pub(crate) full_stalled: Option<f64>,
}

impl Rates {
    /// Between two readings, `elapsed` apart. A counter that went down began anew: nothing is known of the interval, which counts as 0,
    /// and the later reading is the next one's base.
    pub(crate) fn between(before: &Counters, after: &Counters, elapsed: Duration) -> Self {
        let per_time = |before: Option<Duration>, after: Option<Duration>| cores(before?, after?, elapsed);
        let share = |before: Option<Duration>, after: Option<Duration>| per_time(before, after).map(|share| share.min(1.0));
        let total = |pressure: &Pressure| (pressure.some.map(|stall| stall.total), pressure.full.map(|stall| stall.total));
        let ((some_before, full_before), (some, full)) = (total(&before.pressure), total(&after.pressure));
        Self {
            usage_cores: per_time(before.stat.usage, after.stat.usage),
            throttled_cores: per_time(before.stat.throttled, after.stat.throttled),
            throttled_share: throttled_share(&before.stat, &after.stat),
            some_stalled: share(some_before, some),
            full_stalled: share(full_before, full),
        }
    }
}

/// The growth of a time over real time; `None` where no time passed.
pub(crate) fn cores(before: Duration, after: Duration, elapsed: Duration) -> Option<f64> {
    (elapsed >= SHORTEST).then(|| after.saturating_sub(before).as_nanos() as f64 / elapsed.as_nanos() as f64)
}

/// `None` where no period began: a group without work has none.
fn throttled_share(before: &CpuStat, after: &CpuStat) -> Option<f64> {
    let periods = after.periods?.checked_sub(before.periods?)?;
    let throttled = after.throttled_periods?.checked_sub(before.throttled_periods?)?;
    (periods > 0).then(|| (throttled as f64 / periods as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::cgroup::text::Stall;

    const SECOND: Duration = Duration::from_secs(1);

    fn used(micros: u64) -> Counters {
        Counters { stat: CpuStat { usage: Some(Duration::from_micros(micros)), ..CpuStat::default() }, ..Counters::default() }
    }

    fn usage(before: u64, after: u64, elapsed: Duration) -> Option<f64> {
        Rates::between(&used(before), &used(after), elapsed).usage_cores
    }

    /// C3, C17; 3A 30 (its numbers among others).
    #[test]
    fn counter_that_went_down_is_nothing_and_never_huge() {
        for (before, after) in [(16_405_214_312, 781_274_824), (1, 0), (u64::MAX, 0), (u64::MAX, u64::MAX - 1)] {
            assert_eq!(usage(before, after, SECOND), Some(0.0), "{before} -> {after}");
        }
        assert_eq!(usage(0, 1_500_000, SECOND), Some(1.5));
    }

    /// C17; weakness 7: readings less than a microsecond apart.
    #[test]
    fn rate_is_finite_whatever_the_interval() {
        for elapsed in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
            assert_eq!(usage(0, u64::MAX, elapsed), None);
        }
        for elapsed in [SHORTEST, SECOND, Duration::MAX] {
            assert!(usage(0, u64::MAX, elapsed).unwrap().is_finite());
        }
    }

    /// C11; F37; 3A 27: neither bursts nor limits that nobody enforces are cut.
    #[test]
    fn usage_beyond_the_quota_is_not_cut() {
        assert_eq!(usage(0, 150_000, Duration::from_millis(100)), Some(1.5));
    }

    /// 3A 31: 43 to 50 % of periods throttled at a ratio of .60.
    #[test]
    fn throttled_share_is_that_of_the_intervals_periods() {
        let stat = |periods, throttled| {
            let stat = CpuStat { periods: Some(periods), throttled_periods: Some(throttled), ..CpuStat::default() };
            Counters { stat, ..Counters::default() }
        };
        let share = |before, after| Rates::between(&before, &after, SECOND).throttled_share;
        assert_eq!(share(stat(1000, 0), stat(1050, 25)), Some(0.5));
        assert_eq!(share(stat(1000, 10), stat(1000, 10)), None, "no period");
        assert_eq!(share(stat(1000, 10), stat(5, 1)), None, "began anew");
        assert_eq!(share(stat(10, 0), stat(20, 15)), Some(1.0), "read in the middle of one");
        assert_eq!(share(used(0), stat(20, 15)), None);
    }

    /// PSI is the growth of `total`, not an average of the kernel's.
    #[test]
    fn pressure_is_the_growth_of_its_total() {
        let stalled = |some, full: Option<u64>| {
            let stall = |total| Stall { avg10: 0.9, avg60: 0.9, avg300: 0.9, total: Duration::from_millis(total) };
            Counters { pressure: Pressure { some: Some(stall(some)), full: full.map(stall) }, ..Counters::default() }
        };
        let rates = Rates::between(&stalled(1_000, Some(500)), &stalled(1_440, Some(510)), SECOND);
        assert!((rates.some_stalled.unwrap() - 0.44).abs() < 1e-9 && (rates.full_stalled.unwrap() - 0.01).abs() < 1e-9);
        let rates = Rates::between(&stalled(1_000, None), &stalled(2_001, None), SECOND);
        assert_eq!((rates.some_stalled, rates.full_stalled), (Some(1.0), None));
        assert_eq!(Rates::between(&used(0), &stalled(5, Some(5)), SECOND).some_stalled, None);
    }
}
