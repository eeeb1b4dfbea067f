//! Means over the last minutes, weighted by time.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How many spans are kept apart; beyond, the two oldest become one.
const SPANS: usize = 1024;

/// The mean of a number over a time, from spans that were measured.
///
/// Times that nothing was measured of are not zeros: the mean is over those that were. No time counts twice: of a span that reaches into an
/// earlier one, as a report that is read twice does, only what is later counts.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::scaling::History;
///
/// let (began, second) = (Instant::now(), Duration::from_secs(1));
/// let mut minute = History::new(60 * second);
/// minute.observe(Some(2.0), began, began + 30 * second);
/// minute.observe(None, began + 30 * second, began + 40 * second);
/// minute.observe(Some(5.0), began + 40 * second, began + 55 * second);
/// assert_eq!(minute.mean(began + 60 * second), Some(3.0));
/// assert!(!minute.is_complete(began + 60 * second));
/// ```
#[derive(Clone, Debug)]
pub struct History {
    over: Duration,
    spans: VecDeque<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    since: Instant,
    until: Instant,
    /// What was measured of it; less than its length, where spans became one across a time that was not.
    measured: Duration,
    mean: f64,
}

impl Span {
    /// How much of what was measured lies at or after `from`, in seconds.
    fn seconds_after(&self, from: Instant, now: Instant) -> f64 {
        let length = self.until.saturating_duration_since(self.since).as_secs_f64();
        let within = self.until.min(now).saturating_duration_since(self.since.max(from)).as_secs_f64();
        if length > 0.0 { self.measured.as_secs_f64() * within / length } else { 0.0 }
    }
}

impl History {
    /// How much of its time must have been measured for a mean to be complete.
    const COMPLETE: f64 = 0.9;

    /// Of means over this time: one minute, or ten.
    #[must_use]
    pub fn new(over: Duration) -> Self {
        Self { over, spans: VecDeque::new() }
    }

    /// That it was `value` on average from `since` to `until`. Nothing is learnt of `None`, of what is not finite or below zero, and of a span
    /// that ends before it begins. Where a clock has gone back by more than the whole time, it begins anew.
    pub fn observe(&mut self, value: Option<f64>, since: Instant, until: Instant) {
        let Some(mean) = value.filter(|value| value.is_finite() && *value >= 0.0) else { return };
        if self.spans.back().is_some_and(|last| last.until.saturating_duration_since(until) > self.over) {
            self.spans.clear();
        }
        let since = self.spans.back().map_or(since, |last| since.max(last.until));
        if until <= since {
            return;
        }
        while self.spans.front().is_some_and(|oldest| until.saturating_duration_since(oldest.until) >= self.over) {
            self.spans.pop_front();
        }
        if self.spans.len() == SPANS {
            self.join_the_oldest();
        }
        self.spans.push_back(Span { since, until, measured: until.saturating_duration_since(since), mean });
    }

    fn join_the_oldest(&mut self) {
        if let (Some(first), Some(second)) = (self.spans.pop_front(), self.spans.pop_front()) {
            let measured = first.measured.saturating_add(second.measured);
            let share = first.measured.as_secs_f64() / measured.as_secs_f64();
            let mean = first.mean * share + second.mean * (1.0 - share);
            self.spans.push_front(Span { since: first.since, until: second.until, measured, mean });
        }
    }

    /// Sums over what was measured of the time before `now`: of seconds, and of the number times seconds.
    fn sums(&self, now: Instant) -> (f64, f64) {
        // A clock that began after `over` ago has no earlier time.
        let from = now.checked_sub(self.over);
        self.spans.iter().fold((0.0, 0.0), |(time, sum), span| {
            let seconds = span.seconds_after(from.unwrap_or(span.since), now);
            (time + seconds, sum + seconds * span.mean)
        })
    }

    /// The mean over the time before `now`. `None`: nothing of it was measured.
    #[must_use]
    pub fn mean(&self, now: Instant) -> Option<f64> {
        let (time, sum) = self.sums(now);
        (time > 0.0).then(|| sum / time)
    }

    /// Whether nine tenths of the time before `now` were measured; see [`Sample::complete`](super::Sample::complete).
    #[must_use]
    pub fn is_complete(&self, now: Instant) -> bool {
        self.sums(now).0 >= self.over.as_secs_f64() * Self::COMPLETE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_joining_keeps_the_mean() {
        let (began, tick) = (Instant::now(), Duration::from_millis(10));
        let mut minute = History::new(Duration::from_secs(60));
        for index in 0..3000_u32 {
            minute.observe(Some(f64::from(index % 2)), began + tick * index, began + tick * (index + 1));
        }
        assert_eq!(minute.spans.len(), SPANS);
        let mean = minute.mean(began + tick * 3000).unwrap();
        assert!((mean - 0.5).abs() < 1e-9, "{mean}");
    }
}
