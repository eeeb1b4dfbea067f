//! What a tick reads and steps, under the driver's lock; what comes of it is done when the lock is gone.

use std::time::{Duration, Instant};

use super::{
    line::Line,
    source::{CpuRead, CpuSource},
    streams::Streams,
    window::Window,
};
use crate::{
    load::{CpuSample, StreamClass},
    overload::{
        admission::Admission,
        concurrency::{AdaptiveConcurrency, ConcurrencySample},
        events::{StreamId, Victim},
        evictor::{Action, Bound, EvictReason, Evictor, Mode, SignalLost},
        status::EndCause,
        watchdog::Watchdog,
    },
    sync::Mutex,
};

/// How often adaptive concurrency wants to know.
const SECOND: Duration = Duration::from_secs(1);

/// How many streams were let go, of one class and for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvictionCount {
    /// What kind of streams.
    pub class: StreamClass,
    /// `cancelled`, or in mode observe `observed`.
    pub action: &'static str,
    /// Why.
    pub reason: EvictReason,
    /// How many.
    pub count: u64,
}

/// See the module.
pub(super) struct State {
    pub(super) evictor: Evictor<StreamId>,
    pub(super) is_ticking: bool,
    pub(super) is_stopped: bool,
    source: Box<dyn CpuSource>,
    concurrency: Option<(AdaptiveConcurrency, Admission)>,
    window: Window,
    /// A reading failed since the evictor's last step.
    has_failed: bool,
    /// Readings that failed in a row.
    failures: u32,
    /// What made the process unready, as of the evictor's last step.
    unready: Option<Bound>,
    read_at: Option<Instant>,
    stepped_at: Option<Instant>,
    checked_at: Option<Instant>,
    is_first: bool,
    counts: Vec<EvictionCount>,
    timed_out: [(EndCause, u64); 3],
}

/// What is to be done of a tick.
#[derive(Default)]
pub(super) struct Step {
    pub(super) actions: Vec<Action<StreamId>>,
    pub(super) lines: Vec<Line>,
    /// What makes the process unready.
    pub(super) unready: Option<Bound>,
    /// The limit, if it is to be set.
    pub(super) concurrency: Option<Option<usize>>,
    pub(super) is_check_due: bool,
    pub(super) is_first: bool,
    pub(super) after: Option<Duration>,
}

impl State {
    pub(super) fn new(
        evictor: Evictor<StreamId>,
        source: Box<dyn CpuSource>,
        concurrency: Option<(AdaptiveConcurrency, Admission)>,
    ) -> Self {
        Self {
            evictor,
            is_ticking: false,
            is_stopped: false,
            source,
            concurrency,
            window: Window::default(),
            has_failed: false,
            failures: 0,
            unready: None,
            read_at: None,
            stepped_at: None,
            checked_at: None,
            is_first: true,
            counts: Vec::new(),
            timed_out: [EndCause::ActiveTooLong, EndCause::DeadlineExceeded, EndCause::Stalled].map(|cause| (cause, 0)),
        }
    }

    /// Reads and steps. `None`: a tick is under way, or the driver has stopped. Otherwise the caller ends the tick.
    pub(super) fn begin(state: &Mutex<Self>, now: Instant, streams: &Streams, watchdog: Option<&Watchdog>) -> Option<Step> {
        let mut state = state.lock();
        if state.is_ticking || state.is_stopped {
            return None;
        }
        let step = state.step(now, streams, watchdog);
        // Last: what panics above, a policy or a source, leaves no tick open.
        state.is_ticking = true;
        Some(step)
    }

    fn step(&mut self, now: Instant, streams: &Streams, watchdog: Option<&Watchdog>) -> Step {
        let mut step = Step { is_first: self.is_first, ..Step::default() };
        if self.is_first {
            step.lines.extend(self.evictor.warnings().iter().cloned().map(Line::Warning));
            if self.evictor.settings().mode == Mode::Off {
                step.lines.push(Line::Started { mode: Mode::Off, quota_cores: None });
            }
            self.is_first = false;
        }
        let interval = self.evictor.settings().interval;
        let evicts = self.evictor.wants_samples();
        let is_step_due = evicts && is_due(self.stepped_at, now, interval);
        if is_step_due || (self.concurrency.is_some() && is_due(self.read_at, now, SECOND)) {
            self.read_at = Some(now);
            self.read(now, evicts, &mut step);
        }
        if is_step_due {
            self.stepped_at = Some(now);
            self.step_evictor(now, streams, &mut step);
        }
        if let Some(watchdog) = watchdog {
            step.is_check_due = is_due(self.checked_at, now, watchdog.limits().period);
            if step.is_check_due {
                self.checked_at = Some(now);
            }
        }
        step.unready = self.unready;
        let pace = [
            evicts.then(|| left(self.stepped_at, now, interval)),
            self.concurrency.is_some().then(|| left(self.read_at, now, SECOND)),
            watchdog.map(|watchdog| left(self.checked_at, now, watchdog.limits().period)),
        ];
        step.after = pace.into_iter().flatten().min();
        step
    }

    fn read(&mut self, now: Instant, evicts: bool, step: &mut Step) {
        match self.source.read(now) {
            CpuRead::Sample(sample) => {
                self.failures = 0;
                if let Some((concurrency, admission)) = &mut self.concurrency {
                    let sample = ConcurrencySample::of(&sample, admission.active());
                    // Without a quota there is no share of it, and no limit.
                    step.concurrency = Some(sample.map(|sample| concurrency.step(&sample, now)));
                }
                if evicts {
                    self.window.add(&sample);
                }
            }
            CpuRead::Pending => {}
            CpuRead::Failed => {
                self.has_failed = true;
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.evictor.settings().strikes {
                    // As the evictor: as if nothing were wrong.
                    step.concurrency = self.concurrency.is_some().then_some(None);
                }
            }
        }
        step.lines.extend(self.source.notices().into_iter().map(Line::Notice));
    }

    fn step_evictor(&mut self, now: Instant, streams: &Streams, step: &mut Step) {
        let split = streams.meter().sample(now, self.source.process_cpu());
        let samples = streams.samples(split.as_ref());
        // Nothing to compare with is neither a reading nor a failed one: over no time, so that the evictor looks at its bounds alone.
        let nothing = CpuSample::new(now, Duration::ZERO, 0.0);
        let sample = self.window.take();
        let sample = match &sample {
            Some(sample) => Ok(sample),
            None if self.has_failed => Err(SignalLost),
            None => Ok(&nothing),
        };
        self.has_failed = false;
        step.actions = self.evictor.step(sample, &samples, now);
        for action in &step.actions {
            match action {
                Action::Ready => self.unready = None,
                Action::Unready { bound, .. } => self.unready = Some(*bound),
                _ => {}
            }
        }
    }

    pub(super) fn count(&mut self, victim: &Victim, action: &'static str) {
        let (class, reason) = (victim.eviction.class, victim.eviction.reason);
        let is_it = |count: &&mut EvictionCount| (count.class, count.action, count.reason) == (class, action, reason);
        match self.counts.iter_mut().find(is_it) {
            Some(count) => count.count += 1,
            None => self.counts.push(EvictionCount { class, action, reason, count: 1 }),
        }
    }

    pub(super) fn count_timed_out(&mut self, cause: EndCause) {
        self.timed_out.iter_mut().filter(|(of, _)| *of == cause).for_each(|(_, count)| *count += 1);
    }

    pub(super) fn counts(&self) -> &[EvictionCount] {
        &self.counts
    }

    #[cfg(feature = "metrics")]
    pub(super) fn timed_out(&self) -> [(EndCause, u64); 3] {
        self.timed_out
    }
}

/// Nine tenths of the time have passed, or nobody knows: timers jitter, and what comes a little early is meant. A clock that went back by
/// more than that begins anew.
fn is_due(last: Option<Instant>, now: Instant, every: Duration) -> bool {
    let Some(last) = last else { return true };
    if now >= last { now.duration_since(last) >= every.mul_f64(0.9) } else { last.duration_since(now) > every }
}

/// Until it is due.
fn left(last: Option<Instant>, now: Instant, every: Duration) -> Duration {
    every.saturating_sub(last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_little_early_is_due_and_what_is_bunched_is_not() {
        let last = Instant::now() + 100 * SECOND;
        let five = 5 * SECOND;
        let after = |seconds| is_due(Some(last), last + Duration::from_secs_f64(seconds), five);
        assert_eq!([0.0, 0.1, 4.4, 4.5, 5.0, 60.0].map(after), [false, false, false, true, true, true]);
        assert!(is_due(None, last, five), "the first");
        assert!(!is_due(Some(last), last - SECOND, five), "a clock that went back a little stands");
        assert!(is_due(Some(last), last - 6 * SECOND, five), "after a longer way it begins anew");
        assert_eq!(left(Some(last), last + SECOND, five), 4 * SECOND);
        assert_eq!(left(Some(last), last + 60 * SECOND, five), Duration::ZERO);
    }
}
