//! The most that was asked for of late, so that the way down does not follow every wave of load.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{driver::Verdict, scaler::Decision};

/// What the drivers asked for at most over the last minutes: the count does not fall below it, and rises at once as ever. Off unless
/// [`Sample::stabilized`](super::Sample::stabilized) is set from it.
///
/// Source: Kubernetes' stabilization window, there 300 s on the way down. Cloud Run tells of none; for requests, its mean of ten minutes has
/// the same end. For processors there is no other: use that swings by more than the tolerance starts and ends instances with each wave.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::scaling::{Fleet, Sample, ScalerBuilder, Stabilization};
///
/// let (scaler, minute) = (ScalerBuilder::new().cpus(1.0).build()?, Duration::from_secs(60));
/// let mut window = Stabilization::new(5 * minute);
/// let (mut count, mut now) = (10, Instant::now());
/// let mut counts = Vec::new();
/// for cores in [7.2, 5.0, 7.2, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0] {
///     let mut sample = Sample::default();
///     (sample.cpu_cores, sample.stabilized) = (Some(cores), window.most(now));
///     let decision = scaler.decide(&sample, Fleet::settled(count), now);
///     window.observe(&decision, now);
///     (count, now) = (decision.count, now + minute);
///     counts.push(count);
/// }
/// assert_eq!(counts, [12, 12, 12, 12, 12, 12, 12, 12, 9], "without it 12, 9, 12, 9");
/// # Ok::<(), keywake::scaling::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stabilization {
    over: Duration,
    /// Those that no later one was as large as: counts fall from the first to the last.
    asked: VecDeque<(Instant, u32)>,
}

impl Stabilization {
    /// Over this time; 300 s in Kubernetes.
    #[must_use]
    pub fn new(over: Duration) -> Self {
        Self { over, asked: VecDeque::new() }
    }

    /// What the drivers asked for then: the largest vote of those that could measure, and not the count, which may rest on what this told, as
    /// votes do that are held. Nothing is learnt of a fixed count. Where a clock has gone back by more than the whole time, it begins anew.
    pub fn observe(&mut self, decision: &Decision, now: Instant) {
        let measured = decision.votes.iter().filter(|vote| !matches!(vote.verdict, Verdict::Resting | Verdict::Unusable(_)));
        let Some(asked) = measured.map(|vote| vote.count).max() else { return };
        if self.asked.iter().any(|(at, _)| at.saturating_duration_since(now) > self.over) {
            self.asked.clear();
        }
        while self.asked.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > self.over) {
            self.asked.pop_front();
        }
        while self.asked.back().is_some_and(|(_, before)| *before <= asked) {
            self.asked.pop_back();
        }
        self.asked.push_back((now, asked));
    }

    /// The most that was asked for in the time before `now`. `None`: nothing was.
    #[must_use]
    pub fn most(&self, now: Instant) -> Option<u32> {
        let recent = |at: &Instant| now.saturating_duration_since(*at) <= self.over;
        self.asked.iter().find(|(at, _)| recent(at)).map(|(_, asked)| *asked)
    }
}
