//! Whether a task gets on: pure, over what was read of its sources, and when.

use std::time::{Duration, Instant};

use super::{TimedOut, WatchdogLimits, progress::Reading};

/// What is known of one source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SourceState {
    /// The most that was ever counted.
    best: u64,
    /// An item is under way, of which it is known how many had ended before, and since when.
    item: Option<(u64, Instant)>,
}

impl SourceState {
    /// Takes what was read; whether it is progress.
    pub(super) fn observe(&mut self, reading: Reading, now: Instant) -> bool {
        self.item = match self.item {
            _ if reading.begun <= reading.ended => None,
            Some((ended, since)) if ended == reading.ended => Some((ended, since)),
            _ => Some((reading.ended, now)),
        };
        let has_risen = reading.count > self.best;
        self.best = self.best.max(reading.count);
        has_risen
    }

    /// An item has been under way for longer than the limit.
    pub(super) fn is_overdue(&self, now: Instant, limit: Duration) -> bool {
        self.item.is_some_and(|(_, since)| exceeds(now, since, limit))
    }

    /// The most that was ever counted.
    pub(super) fn best(&self) -> u64 {
        self.best
    }
}

/// Longer ago than the limit, which zero puts off. A clock that goes back makes it later.
fn exceeds(now: Instant, since: Instant, limit: Duration) -> bool {
    !limit.is_zero() && now.saturating_duration_since(since) > limit
}

/// What is known of the time of one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskState {
    pub(super) began: Instant,
    /// When progress was last seen; the beginning, before any was.
    pub(super) progressed: Instant,
    /// Times that it was told of as there for long.
    told_long: u32,
    /// It was told to end.
    told_to_end: bool,
}

impl TaskState {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, progressed: now, told_long: 0, told_to_end: false }
    }

    /// A source has got on.
    pub(super) fn progress(&mut self, now: Instant) {
        self.progressed = self.progressed.max(now);
    }

    /// Whether it is to end, and why; it is said once. The stall comes before all else: it says most. `overdue` is a source one of whose
    /// items takes too long.
    pub(super) fn judge(&mut self, now: Instant, limits: &WatchdogLimits, overdue: Option<&str>) -> Option<TimedOut> {
        if self.told_to_end {
            return None;
        }
        let verdict = if exceeds(now, self.progressed, limits.stall) {
            Some(TimedOut::Stalled { limit: limits.stall })
        } else if let Some(source) = overdue {
            Some(TimedOut::ItemTooLong { limit: limits.item, source: source.to_owned() })
        } else if exceeds(now, self.began, limits.absolute) {
            Some(TimedOut::ActiveTooLong { limit: limits.absolute })
        } else {
            None
        };
        self.told_to_end = verdict.is_some();
        verdict
    }

    /// Whether it is time to tell that it is there for long.
    pub(super) fn is_long(&mut self, now: Instant, every: Duration) -> bool {
        let due = every.saturating_mul(self.told_long.saturating_add(1));
        if every.is_zero() || now.saturating_duration_since(self.began) < due {
            return false;
        }
        // Those that were missed are not made up for.
        let periods = now.saturating_duration_since(self.began).as_nanos() / every.as_nanos();
        self.told_long = u32::try_from(periods).unwrap_or(u32::MAX);
        true
    }
}

/// So many gaps, one after another, are each a reason to leave tasks alone.
const GAPS: u32 = 3;

/// Whether tasks are left alone for the sake of a gap between checks: the process was stopped, or the machine, or the check did not run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    last_check: Option<Instant>,
    /// The first check after the last gap that counted.
    resumed: Option<Instant>,
    /// Gaps since tasks were last judged.
    gaps: u32,
}

impl Gaps {
    /// Time begins, where it has not.
    pub(super) fn begin(&mut self, now: Instant) {
        self.last_check.get_or_insert(now);
    }

    /// Takes the time of a check; whether tasks are left alone in it. That is so for `grace` after a gap, and anew after a further one
    /// within that; but not after more than a few: checks that are always late must end who is stalled, too.
    pub(super) fn is_grace(&mut self, now: Instant, limits: &WatchdogLimits) -> bool {
        let last = self.last_check.unwrap_or(now);
        self.last_check = Some(last.max(now));
        let is_late = now.saturating_duration_since(last) > limits.period.saturating_mul(2);
        if is_late && self.gaps < GAPS {
            self.gaps += 1;
            self.resumed = Some(now);
        }
        let is_grace = self.resumed.is_some_and(|resumed| now.saturating_duration_since(resumed) < limits.grace());
        if !is_grace {
            (self.resumed, self.gaps) = (None, 0);
        }
        is_grace
    }
}
