//! How many streams at once the processors can do with: Cloud Run's adaptive concurrency, pure.

use std::{
    error::Error,
    fmt,
    time::{Duration, Instant},
};

use crate::load::CpuSample;

/// Above this share of the quota over the last second the limit falls.
const FALL_ABOVE: f64 = 0.90;
/// Below this share over a second in which it was reached, the limit rises.
const RISE_BELOW: f64 = 0.70;
/// Between two decisions.
const SECOND: Duration = Duration::from_secs(1);
/// A decision is about at least this: where a tick comes late, the next one may come soon after.
const MIN_WINDOW: Duration = Duration::from_millis(500);
/// What is counted of the time since the last decision: so much of a late tick is made up for that ticks which jitter keep the pace.
const MAX_CREDIT: Duration = Duration::from_millis(1500);

/// What is read at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConcurrencySample {
    /// Processor time used since the tick before, as a share of what the quota grants. May be above 1.
    pub cpu: f64,
    /// Streams that are there.
    pub active: usize,
}

impl ConcurrencySample {
    /// Of what was read of the processors. `None`: no quota is known, so that there is no share.
    #[must_use]
    pub fn of(sample: &CpuSample, active: usize) -> Option<Self> {
        let quota = sample.quota_cores.filter(|quota| *quota > 0.0)?;
        Some(Self { cpu: sample.usage_cores / quota, active })
    }
}

/// The limit of Cloud Run's rule: if the processors were used by more than 90 % in the last second, it falls by one; if it is reached and
/// they were used by less than 70 % for a second, it rises by one; otherwise, exactly 90 % and exactly 70 % included, it stays.
///
/// It begins at the ceiling and is kept nowhere: a new deployment begins anew. It looks at the use of processors and at the count, never at
/// how long streams last. Give it to [`Admission::set_concurrency_limit`](crate::overload::admission::Admission::set_concurrency_limit).
///
/// Ticks should come once a second or more often. There is one decision per second, over all that was sampled since the last: ticks that
/// come bunched make none faster, and of the time that a late tick has missed no more than half a second is made up for.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::overload::{concurrency::{AdaptiveConcurrency, ConcurrencySample}};
///
/// let mut concurrency = AdaptiveConcurrency::new(1, 80)?;
/// let began = Instant::now();
/// concurrency.step(&ConcurrencySample { cpu: 0.95, active: 80 }, began);
/// let limit = concurrency.step(&ConcurrencySample { cpu: 0.95, active: 80 }, began + Duration::from_secs(1));
/// assert_eq!(limit, 79);
/// # Ok::<(), keywake::overload::concurrency::ConcurrencyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveConcurrency {
    floor: usize,
    ceiling: usize,
    limit: usize,
    window: Option<Window>,
}

/// What was sampled since the last decision.
#[derive(Clone, Debug)]
struct Window {
    /// The latest time that was told.
    latest: Instant,
    /// Towards the next decision, which costs a second.
    credit: Duration,
    /// Sampled time.
    elapsed: Duration,
    /// The integral of the share over it, in seconds.
    used: f64,
    /// The limit was reached all the time.
    at_limit: bool,
}

impl Window {
    fn new(now: Instant) -> Self {
        Self { latest: now, credit: Duration::ZERO, elapsed: Duration::ZERO, used: 0.0, at_limit: true }
    }

    /// The share over the window, where it is time for a decision.
    fn take(&mut self) -> Option<(f64, bool)> {
        if self.credit < SECOND || self.elapsed < MIN_WINDOW {
            return None;
        }
        let taken = (self.used / self.elapsed.as_secs_f64(), self.at_limit);
        self.credit = self.credit.saturating_sub(SECOND);
        (self.elapsed, self.used, self.at_limit) = (Duration::ZERO, 0.0, true);
        Some(taken)
    }
}

impl AdaptiveConcurrency {
    /// With a limit between these two, that begins at `ceiling`: the configured maximum, as with Cloud Run. Its floor there is 1.
    ///
    /// # Errors
    /// If the floor is 0 (with no stream at all nothing would ever be learnt) or above the ceiling.
    pub fn new(floor: usize, ceiling: usize) -> Result<Self, ConcurrencyError> {
        if floor == 0 {
            return Err(ConcurrencyError::ZeroFloor);
        }
        if floor > ceiling {
            return Err(ConcurrencyError::FloorAboveCeiling { floor, ceiling });
        }
        Ok(Self { floor, ceiling, limit: ceiling, window: None })
    }

    /// The limit as it stands.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes what was read since the tick before, and answers with the limit.
    ///
    /// The first tick only begins the time. One that no time has passed before, or a sample that is no number, is none.
    pub fn step(&mut self, sample: &ConcurrencySample, now: Instant) -> usize {
        let Some(window) = &mut self.window else {
            self.window = Some(Window::new(now));
            return self.limit;
        };
        let elapsed = now.saturating_duration_since(window.latest);
        window.latest = window.latest.max(now);
        window.credit = window.credit.saturating_add(elapsed).min(MAX_CREDIT);
        if elapsed.is_zero() || !sample.cpu.is_finite() || sample.cpu < 0.0 {
            return self.limit;
        }
        window.elapsed = window.elapsed.saturating_add(elapsed);
        window.used += sample.cpu * elapsed.as_secs_f64();
        window.at_limit &= sample.active >= self.limit;
        match window.take() {
            Some((share, _)) if share > FALL_ABOVE => self.limit = self.limit.saturating_sub(1).max(self.floor),
            Some((share, true)) if share < RISE_BELOW => self.limit = self.limit.saturating_add(1).min(self.ceiling),
            _ => {}
        }
        self.limit
    }
}

/// Why there is no [`AdaptiveConcurrency`] with this floor and ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConcurrencyError {
    /// The floor is above the ceiling.
    FloorAboveCeiling {
        /// The floor.
        floor: usize,
        /// The ceiling.
        ceiling: usize,
    },
    /// The floor is 0.
    ZeroFloor,
}

impl fmt::Display for ConcurrencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FloorAboveCeiling { floor, ceiling } => {
                write!(f, "adaptive concurrency: the floor of {floor} is above the ceiling of {ceiling}")
            }
            Self::ZeroFloor => write!(f, "adaptive concurrency: the floor is 0, and must be at least 1"),
        }
    }
}

impl Error for ConcurrencyError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of (milliseconds, share, streams); the limits after each.
    fn trace(limit: usize, ceiling: usize, ticks: &[(u64, f64, usize)]) -> Vec<usize> {
        let began = Instant::now() + Duration::from_secs(60);
        let mut concurrency = AdaptiveConcurrency::new(1, ceiling).unwrap();
        concurrency.limit = limit;
        concurrency.step(&ConcurrencySample { cpu: 0.0, active: 0 }, began);
        let tick = |(at, cpu, active): &(u64, f64, usize)| {
            concurrency.step(&ConcurrencySample { cpu: *cpu, active: *active }, began + Duration::from_millis(*at))
        };
        ticks.iter().map(tick).collect()
    }

    #[test]
    fn limit_falls_by_one_per_second_above_ninety_percent_and_not_at_it() {
        let ticks = [(1000, 0.95, 80), (2000, 0.95, 80), (3000, 0.85, 80), (4000, 0.90, 80), (5000, 0.91, 80)];
        assert_eq!(trace(80, 80, &ticks), [79, 78, 78, 78, 77]);
    }

    #[test]
    fn limit_rises_where_it_is_reached_below_seventy_percent_and_not_at_it() {
        let table = [(60, 60, 0.65, 61), (60, 59, 0.65, 60), (60, 60, 0.70, 60), (1, 1, 0.99, 1), (80, 80, 0.10, 80)];
        for (limit, active, cpu, expected) in table {
            assert_eq!(trace(limit, 80, &[(1000, cpu, active)]), [expected], "{limit} {active} {cpu}");
        }
    }

    #[test]
    fn limit_that_is_reached_for_part_of_the_second_only_does_not_rise() {
        let ticks = [(250, 0.5, 60), (500, 0.5, 59), (750, 0.5, 60), (1000, 0.5, 60), (1500, 0.5, 60), (2000, 0.5, 60)];
        assert_eq!(trace(60, 80, &ticks), [60, 60, 60, 60, 60, 61]);
    }

    #[test]
    fn bunched_ticks_decide_no_faster() {
        let ticks: Vec<_> = (1..=100).map(|tick| (tick * 100, 0.99, 80)).collect();
        assert_eq!(trace(80, 80, &ticks).last(), Some(&70), "ten seconds");
        // One late, the next soon after: that is about too little time.
        assert_eq!(trace(80, 80, &[(1990, 0.99, 80), (2000, 0.99, 80), (2010, 0.99, 80), (3000, 0.99, 80)]), [79, 79, 79, 78]);
    }

    #[test]
    fn late_tick_is_one_decision() {
        assert_eq!(trace(80, 80, &[(60_000, 0.99, 80), (61_000, 0.99, 80)]), [79, 78]);
        // Of the minute that was missed, half a second is made up for.
        let after: Vec<_> = (0..5).map(|tick| (60_000 + tick * 500, 0.99, 80)).collect();
        assert_eq!(trace(80, 80, &after), [79, 78, 78, 77, 77]);
    }

    #[test]
    fn ticks_that_jitter_keep_the_pace() {
        let ticks: Vec<_> =
            (1..=60).map(|tick| (tick * 1000 + [0, 30, 10, 40, 20][(tick % 5) as usize] - 20, 0.99, 200)).collect();
        let last = *trace(200, 200, &ticks).last().unwrap();
        assert!((140..=142).contains(&last), "sixty seconds: {last}");
    }

    #[test]
    fn clock_that_goes_back_is_no_sample() {
        // Now 10, 9, 9, 11: one sample over one second.
        let ticks = [(10_000, 0.80, 80), (9_000, 0.99, 80), (9_000, 0.99, 80), (11_000, 0.95, 80)];
        assert_eq!(trace(80, 80, &ticks), [80, 80, 80, 79]);
        assert_eq!(trace(80, 80, &[(1_000, 0.95, 80), (1_000, 0.95, 80)]), [79, 79]);
    }

    #[test]
    fn what_is_no_number_is_no_sample() {
        for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
            assert_eq!(trace(80, 90, &[(1000, nonsense, 80), (2000, nonsense, 80)]), [80, 80], "{nonsense}");
            // What comes after it is judged by itself.
            assert_eq!(trace(80, 90, &[(1000, nonsense, 0), (2000, 0.95, 80)]), [80, 79], "{nonsense}");
            let soon = [(1000, nonsense, 80), (1010, 0.99, 80), (1490, 0.99, 80), (1500, 0.99, 80)];
            assert_eq!(trace(80, 90, &soon), [80, 80, 80, 79], "ten milliseconds decide nothing: {nonsense}");
        }
    }

    #[test]
    fn share_is_of_the_quota_and_unknown_without_one() {
        let mut sample = CpuSample::new(Instant::now(), SECOND, 1.2);
        assert_eq!(ConcurrencySample::of(&sample, 3), None);
        sample.quota_cores = Some(0.0);
        assert_eq!(ConcurrencySample::of(&sample, 3), None);
        sample.quota_cores = Some(1.5);
        let share = ConcurrencySample::of(&sample, 3).unwrap();
        assert!((share.cpu - 0.8).abs() < 1e-9 && share.active == 3, "{share:?}");
    }

    #[test]
    fn limit_begins_at_the_ceiling_and_cannot_be_made_without_room() {
        assert_eq!(AdaptiveConcurrency::new(1, 80).unwrap().limit(), 80);
        assert_eq!(AdaptiveConcurrency::new(0, 80).unwrap_err(), ConcurrencyError::ZeroFloor);
        let error = AdaptiveConcurrency::new(9, 8).unwrap_err();
        assert_eq!(error.to_string(), "adaptive concurrency: the floor of 9 is above the ceiling of 8");
    }
}
