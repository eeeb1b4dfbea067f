//! The exact total, split by what was measured cheaply.
//!
//! What brackets measure is a weight; the process's processor clock, or the usage of its cgroup, is the truth. Where the weights of an
//! interval come to more than the total, each stream gets its part of the total; where they come to less, each gets what was measured, and
//! the rest is told as unattributed. (After the load-measured balancer of S1: exact total, relative split.)

use std::time::{Duration, Instant};

use super::{FAR_BACK, timing::nanos};
use crate::load::StreamClass;

/// What one interval cost, and whom.
///
/// Times are processor time. With a known total,
/// `total == unattributed + departed + `the sum of [`used`](StreamCost::used), to the nanosecond.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Split {
    /// When it was taken: the end of the interval.
    pub at: Instant,
    /// The length of the interval, in real time; positive.
    pub elapsed: Duration,
    /// The exact total of the interval. `None`: the caller gave none, now or at the sample before, or one that went back.
    pub total: Option<Duration>,
    /// The streams that are tracked, in the order of their ids.
    pub streams: Vec<StreamCost>,
    /// What streams used in the interval that ended in it.
    pub departed: Duration,
    /// What of the total was in no bracket: other work, shared work, the runtime, the kernel, and with a cgroup's usage other processes.
    /// `None` where there is no total.
    pub unattributed: Option<Duration>,
}

impl Split {
    /// The share of the total that no stream accounts for, from 0 to 1. `None` where there is no total, or none was used.
    #[must_use]
    pub fn unattributed_ratio(&self) -> Option<f64> {
        let total = self.total?.as_secs_f64();
        (total > 0.0).then_some(self.unattributed?.as_secs_f64() / total)
    }
}

/// What one stream costs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamCost {
    /// [`StreamMeter::id`](super::StreamMeter::id).
    pub id: u64,
    /// Its class now.
    pub class: StreamClass,
    /// What it used in the interval.
    pub used: Duration,
    /// What it used since it is tracked, as far as it was sampled.
    pub cpu: Duration,
    /// How often it was sampled. A stream that came after the sample before has 1, and no burn yet.
    pub samples: u32,
    /// What it used in the interval over real time, in cores. `None` at its first sample: it is not known which part of the interval
    /// it was there.
    pub last_cores: Option<f64>,
    /// The mean of `last_cores` over the meter's window, in cores. `None` at its first sample.
    pub burn_cores: Option<f64>,
    /// For how long its oldest open poll, or closure, has been open. A stream that is polled for long is seen to burn meanwhile.
    pub open_for: Option<Duration>,
}

/// An exponentially weighted mean in time: what was a window ago counts 1/e of what is now. While it knows less than a window it is the
/// mean of what it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ewma {
    sum: f64,
    weight: f64,
}

impl Ewma {
    /// `value` held for `elapsed`, which is positive.
    fn add(&mut self, value: f64, elapsed: Duration, window: Duration) {
        // A window of nothing remembers nothing: x / 0 is infinite, and so much is forgotten.
        let kept = (-elapsed.as_secs_f64() / window.as_secs_f64()).exp();
        self.sum = self.sum * kept + value * (1.0 - kept);
        self.weight = self.weight * kept + (1.0 - kept);
    }

    fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What is known of one stream from sample to sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fold {
    reading: u64,
    samples: u32,
    cpu: u64,
    mean: Ewma,
    last: Option<f64>,
}

impl Fold {
    /// Takes a reading of what the stream was charged all in all, and answers what came since the one before: at most `most`, and nothing
    /// where the reading went down (what an open bracket came to had been estimated too high), from where it then counts on.
    pub(super) fn advance(&mut self, reading: u64, most: u64) -> u64 {
        let weight = reading.saturating_sub(self.reading).min(most);
        self.reading = reading;
        self.samples = self.samples.saturating_add(1);
        weight
    }

    /// What the stream costs, but for what is known when it is settled; `used` is `weight` until then, which is what `advance` answered.
    pub(super) fn cost(&self, id: u64, class: StreamClass, weight: u64, open_for: Option<Duration>) -> StreamCost {
        let (used, cpu) = (Duration::from_nanos(weight), Duration::ZERO);
        StreamCost { id, class, used, cpu, samples: self.samples, last_cores: None, burn_cores: None, open_for }
    }

    /// Nothing more is to come of it: what came since the last reading.
    pub(super) fn rest(&self, reading: u64) -> u64 {
        reading.saturating_sub(self.reading)
    }

    /// Of the interval that the last reading ended, this much is the stream's.
    fn settle(&mut self, used: u64, elapsed: Duration, window: Duration) {
        self.cpu = self.cpu.saturating_add(used);
        self.last = (self.samples > 1).then(|| Duration::from_nanos(used).as_secs_f64() / elapsed.as_secs_f64());
        if let Some(cores) = self.last {
            self.mean.add(cores, elapsed, window);
        }
    }
}

/// When the meter was last sampled, and the total then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    last: Option<(Instant, Option<Duration>)>,
}

/// An interval between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) at: Instant,
    pub(super) elapsed: Duration,
    total: Option<Duration>,
}

/// What a sample is the end of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ends {
    /// The first one, or one of a clock that was set anew: it begins the first interval.
    Begins,
    /// An interval.
    Interval(Interval),
    /// Nothing: it comes too early, or the clock went back; the interval goes on.
    TooEarly,
}

impl Ledger {
    /// Samples at `now`, when `total` had been used all in all.
    pub(super) fn sample(&mut self, now: Instant, total: Option<Duration>, least: Duration) -> Ends {
        let Some((last, last_total)) = self.last else {
            self.last = Some((now, total));
            return Ends::Begins;
        };
        if last.saturating_duration_since(now) > FAR_BACK {
            self.last = Some((now, total));
            return Ends::Begins;
        }
        let elapsed = now.saturating_duration_since(last);
        if elapsed.is_zero() || elapsed < least {
            return Ends::TooEarly;
        }
        self.last = Some((now, total));
        // A total that went down is of another cgroup, or was reset: it begins anew.
        let total = last_total.zip(total).and_then(|(last, now)| now.checked_sub(last));
        Ends::Interval(Interval { at: now, elapsed, total })
    }
}

/// Splits the total of an interval over streams, each with what `Fold::cost` made of it and its fold, and those that ended in it.
#[expect(single_use_lifetimes, reason = "an `impl Trait` cannot do without a name")]
pub(super) fn split<'a>(
    interval: Interval,
    mut streams: Vec<StreamCost>,
    folds: impl Iterator<Item = &'a mut Fold>,
    departed: u64,
    window: Duration,
) -> Split {
    let total = interval.total.map(nanos);
    let weights = streams.iter().fold(u128::from(departed), |sum, stream| sum.saturating_add(stream.used.as_nanos()));
    // By whole nanoseconds, rounded down: the sum is never above the total.
    let share = |weight: u64| match total {
        Some(total) if weights > total.into() => u64::try_from(u128::from(total) * u128::from(weight) / weights).unwrap_or(total),
        _ => weight,
    };
    let departed = share(departed);
    let mut attributed = departed;
    for (stream, fold) in streams.iter_mut().zip(folds) {
        let used = share(nanos(stream.used));
        attributed = attributed.saturating_add(used);
        fold.settle(used, interval.elapsed, window);
        stream.used = Duration::from_nanos(used);
        stream.cpu = Duration::from_nanos(fold.cpu);
        (stream.last_cores, stream.burn_cores) = (fold.last, fold.mean.mean());
    }
    Split {
        at: interval.at,
        elapsed: interval.elapsed,
        total: interval.total,
        streams,
        departed: Duration::from_nanos(departed),
        unattributed: total.map(|total| Duration::from_nanos(total.saturating_sub(attributed))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NANOS: u64 = 1_000_000_000;

    fn xorshift(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// An interval of five seconds with this total.
    fn interval(total: Option<Duration>) -> Interval {
        Interval { at: Instant::now(), elapsed: 5 * SECOND, total }
    }

    fn split_of(total: Option<Duration>, weights: &[u64], departed: u64) -> Split {
        let mut folds = vec![Fold::default(); weights.len()];
        folds.iter_mut().for_each(|fold| assert_eq!(fold.advance(0, u64::MAX), 0));
        let costs = folds.iter_mut().zip(weights).zip(0..).map(|((fold, &weight), id)| {
            let weight = fold.advance(weight, u64::MAX);
            fold.cost(id, StreamClass::Dev, weight, None)
        });
        let costs = costs.collect();
        split(interval(total), costs, folds.iter_mut(), departed, 15 * SECOND)
    }

    #[test]
    fn weights_above_the_total_are_scaled_to_it() {
        // Starved threads look busy all the time: 8 * 5 s of wall time in 5 s of one core.
        let split = split_of(Some(5 * SECOND), &[5 * NANOS; 8], 0);
        assert!(split.streams.iter().all(|stream| stream.used == SECOND * 5 / 8), "{split:?}");
        assert!(split.streams.iter().all(|stream| stream.burn_cores == Some(0.125)), "{split:?}");
        assert_eq!((split.unattributed, split.unattributed_ratio()), (Some(Duration::ZERO), Some(0.0)));
    }

    #[test]
    fn what_no_bracket_accounts_for_is_told_and_not_spread() {
        let split = split_of(Some(4 * SECOND), &[NANOS, 2 * NANOS], NANOS / 2);
        assert_eq!(split.streams[0].used, SECOND);
        assert_eq!(split.streams[1].used, 2 * SECOND);
        assert_eq!(split.departed, SECOND / 2);
        assert_eq!(split.unattributed, Some(SECOND / 2));
        assert_eq!(split.unattributed_ratio(), Some(0.125));
    }

    #[test]
    fn without_a_total_each_is_charged_what_was_measured() {
        let split = split_of(None, &[7 * NANOS], 3);
        assert_eq!((split.streams[0].used, split.departed), (7 * SECOND, Duration::from_nanos(3)));
        assert_eq!((split.total, split.unattributed, split.unattributed_ratio()), (None, None, None));
        assert_eq!(split_of(Some(Duration::ZERO), &[5], 5).unattributed_ratio(), None);
    }

    #[test]
    fn every_split_adds_up_to_the_nanosecond_and_no_figure_is_odd() {
        let mut state = 3;
        for _ in 0..20_000 {
            let total = Duration::from_nanos(xorshift(&mut state) >> (xorshift(&mut state) % 64));
            let weights: Vec<_> =
                (0..xorshift(&mut state) % 9).map(|_| xorshift(&mut state) >> (xorshift(&mut state) % 64)).collect();
            let departed = xorshift(&mut state) >> (xorshift(&mut state) % 64);
            let split = split_of(Some(total), &weights, departed);
            let used: Duration = split.streams.iter().map(|stream| stream.used).sum();
            assert_eq!(used + split.departed + split.unattributed.unwrap(), total, "{weights:?} {departed}");
            for (stream, weight) in split.streams.iter().zip(weights) {
                assert!(stream.used <= Duration::from_nanos(weight));
                assert!(stream.burn_cores.unwrap().is_finite() && stream.burn_cores >= Some(0.0));
            }
        }
    }

    #[test]
    fn burn_is_a_mean_in_real_time_over_the_window() {
        // Ticks late and bunched, of a stream that burns half a core: each says a half.
        let (mut fold, mut reading) = (Fold::default(), 0);
        fold.advance(0, 0);
        for seconds in [5.0, 0.1, 24.9, 5.0, 2.5] {
            let elapsed = Duration::from_secs_f64(seconds);
            reading += nanos(elapsed) / 2;
            let used = fold.advance(reading, u64::MAX);
            fold.settle(used, elapsed, 15 * SECOND);
            assert!((fold.last.unwrap() - 0.5).abs() < 1e-6, "{fold:?}");
            assert!((fold.mean.mean().unwrap() - 0.5).abs() < 1e-6, "{fold:?}");
        }
    }

    #[test]
    fn burst_of_one_tick_does_not_outrank_a_steady_burner() {
        let (mut steady, mut burst) = (Ewma::default(), Ewma::default());
        for tick in 0..6 {
            steady.add(0.6, 5 * SECOND, 15 * SECOND);
            burst.add(if tick == 5 { 1.0 } else { 0.1 }, 5 * SECOND, 15 * SECOND);
        }
        assert!(burst.mean() < steady.mean(), "{burst:?}");
        let mut last = Ewma::default();
        last.add(0.2, SECOND, Duration::ZERO);
        last.add(0.9, SECOND, Duration::ZERO);
        assert_eq!(last.mean(), Some(0.9), "a window of nothing is the last interval");
    }

    #[test]
    fn counter_that_goes_down_burns_nothing_and_counts_on_from_there() {
        let mut fold = Fold::default();
        assert_eq!([10, 4, 6].map(|reading| fold.advance(reading, u64::MAX)), [10, 0, 2]);
    }

    #[test]
    fn stream_at_its_first_sample_has_used_something_and_burns_nothing_yet() {
        let mut fold = Fold::default();
        let weight = fold.advance(NANOS, u64::MAX);
        let costs = vec![fold.cost(1, StreamClass::Dev, weight, None)];
        let first = split(interval(Some(2 * SECOND)), costs, std::iter::once(&mut fold), 0, SECOND);
        let stream = first.streams[0];
        assert_eq!((stream.used, stream.cpu, stream.samples), (SECOND, SECOND, 1));
        assert_eq!((stream.last_cores, stream.burn_cores), (None, None));
    }

    #[test]
    fn no_stream_uses_more_than_the_interval_has() {
        let mut fold = Fold::default();
        assert_eq!(fold.advance(20 * NANOS, 5 * NANOS), 5 * NANOS, "20 s of a call that ended, in a tick of 5 s");
        assert_eq!(fold.advance(21 * NANOS, 5 * NANOS), NANOS);
    }

    #[test]
    fn ticks_that_are_late_or_bunched_or_go_back_are_measured_by_the_clock_or_skipped() {
        let begin = Instant::now();
        let mut ledger = Ledger::default();
        let mut at = |seconds: f64, total: Option<u64>| {
            let ends = ledger.sample(begin + Duration::from_secs_f64(seconds), total.map(Duration::from_secs), 2 * SECOND);
            match ends {
                Ends::Interval(interval) => Some((interval.elapsed.as_secs_f64(), interval.total.map(|total| total.as_secs()))),
                Ends::Begins => Some((0.0, None)),
                Ends::TooEarly => None,
            }
        };
        assert_eq!(at(0.0, Some(10)), Some((0.0, None)));
        assert_eq!(at(5.0, Some(12)), Some((5.0, Some(2))));
        assert_eq!(at(5.1, Some(13)), None, "less than half a tick: the old sample stays");
        assert_eq!(at(30.0, Some(20)), Some((25.0, Some(8))));
        assert_eq!(at(29.0, Some(21)), None, "the clock went back");
        assert_eq!(at(30.0, Some(21)), None, "no time has passed");
        assert_eq!(at(32.0, Some(22)), Some((2.0, Some(2))), "since 30, not since 29");
        assert_eq!(at(40.0, Some(5)), Some((8.0, None)), "the total went back");
        assert_eq!(at(45.0, Some(6)), Some((5.0, Some(1))), "and counts on from there");
        assert_eq!(at(50.0, None), Some((5.0, None)));
        assert_eq!(at(55.0, Some(9)), Some((5.0, None)), "since when is not known");
        assert_eq!(at(45.0, Some(9)), None, "far enough to be made up");
        assert_eq!(at(44.9, Some(10)), Some((0.0, None)), "farther: it begins anew");
        assert_eq!(at(49.9, Some(12)), Some((5.0, Some(2))));
    }
}
