//! The states and their windows, on a clock of their own that never goes back.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::settings::Settings;

/// Time since the evictor began, from instants that may go back.
///
/// A step back of less than an interval is passed over: time stands until it is made up. After a longer one the clock goes on from there.
#[derive(Debug)]
pub(super) struct Clock {
    last: Option<Instant>,
    pub(super) time: Duration,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { last: None, time: Duration::ZERO }
    }

    pub(super) fn advance(&mut self, now: Instant, interval: Duration) {
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        if now >= last {
            self.time = self.time.saturating_add(now.duration_since(last));
            self.last = Some(now);
        } else if last.duration_since(now) > interval {
            self.last = Some(now);
        }
    }

    /// The instant of an earlier time.
    pub(super) fn instant(&self, time: Duration, now: Instant) -> Instant {
        let last = self.last.unwrap_or(now);
        last.checked_sub(self.time.saturating_sub(time)).unwrap_or(last)
    }
}

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// The machine: others on it use what the quota would allow. Nothing is evicted by the quota's excess.
    Node,
    /// The quota.
    Quota,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "the machine's processors are contended by others",
            Self::Quota => "server CPU overloaded",
        })
    }
}

/// How an overload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// It was unready for as long as it may be, and is ready whatever the processors say.
    Forced,
    /// There is no quota any more.
    NoQuota,
    /// Below the recover ratio for long enough.
    Recovered,
    /// Nothing could be read several times in a row.
    SignalLost,
}

/// Where an evictor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Unready since then, waiting for load balancers to notice; nothing was evicted yet.
    Draining {
        /// Unready since.
        since: Instant,
    },
    /// Unready, and streams were told to go.
    Evicting {
        /// The last round.
        last: Instant,
    },
    /// It was unready for too long and is ready now, whatever the processors say.
    Forced {
        /// At least until then.
        until: Instant,
    },
    /// Nothing to do.
    Healthy,
    /// Overloaded, but ready, because too few others of the fleet are.
    HeldBack {
        /// Overloaded since.
        since: Instant,
    },
    /// Saturated, not yet for long enough.
    Hot {
        /// Since.
        since: Instant,
    },
    /// Unready because the machine is full with others.
    NodeContended {
        /// Unready since.
        since: Instant,
    },
    /// Unready still, and below the recover ratio.
    Recovering {
        /// Below since.
        since: Instant,
    },
    /// Nothing could be read several times in a row.
    SignalLost,
}

impl fmt::Display for Phase {
    /// Its name, in small letters: `draining`, `held back`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Draining { .. } => "draining",
            Self::Evicting { .. } => "evicting",
            Self::Forced { .. } => "ready by force",
            Self::Healthy => "healthy",
            Self::HeldBack { .. } => "held back",
            Self::Hot { .. } => "hot",
            Self::NodeContended { .. } => "machine contended",
            Self::Recovering { .. } => "recovering",
            Self::SignalLost => "signal lost",
        })
    }
}

/// What a tick's sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Neither fires nor recovers.
    Between,
    Calm,
    Hot,
    Node,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is overloaded and is to be unready, or something else is short now.
    Began(Bound),
    Ended {
        how: Ended,
        unready_for: Duration,
    },
    /// It would be unready, but too few others are ready.
    HeldBack,
    Lost {
        strikes: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Overload {
    pub(super) since: Duration,
    pub(super) bound: Bound,
    /// `None`: held back.
    pub(super) unready_at: Option<Duration>,
    /// A round came in it.
    pub(super) evicted: bool,
    /// That there was nobody to evict has been told.
    pub(super) told_no_victim: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Machine {
    hot_since: Option<Duration>,
    calm_since: Option<Duration>,
    node_since: Option<Duration>,
    pub(super) overload: Option<Overload>,
    last_round: Option<Duration>,
    forced_until: Option<Duration>,
    strikes: u32,
    lost: bool,
}

impl Machine {
    fn forget_windows(&mut self) {
        (self.hot_since, self.calm_since, self.node_since) = (None, None, None);
    }

    fn end(&mut self, how: Ended, time: Duration, turns: &mut Vec<Turn>) {
        // One that was held back has never begun, as far as anybody was told.
        if let Some(at) = self.overload.take().and_then(|overload| overload.unready_at) {
            turns.push(Turn::Ended { how, unready_for: time.saturating_sub(at) });
        }
    }

    /// Whatever was read: ready again when the time is up.
    pub(super) fn expire(&mut self, time: Duration, settings: &Settings, turns: &mut Vec<Turn>) {
        let unready_at = self.overload.and_then(|overload| overload.unready_at);
        if unready_at.is_some_and(|at| time.saturating_sub(at) >= settings.max_unready) {
            self.end(Ended::Forced, time, turns);
            self.forget_windows();
            self.forced_until = Some(time.saturating_add(settings.max_unready));
        }
        if self.forced_until.is_some_and(|until| until <= time) {
            self.forced_until = None;
        }
    }

    /// A tick at which nothing could be read. One or two change nothing.
    pub(super) fn lose(&mut self, time: Duration, settings: &Settings, turns: &mut Vec<Turn>) {
        self.strikes = self.strikes.saturating_add(1);
        if self.strikes >= settings.strikes && !self.lost {
            self.lost = true;
            turns.push(Turn::Lost { strikes: self.strikes });
            self.end(Ended::SignalLost, time, turns);
            self.forget_windows();
        }
        self.expire(time, settings, turns);
    }

    /// A tick at which something was. `limited`: there is a quota. `may_leave`: the fleet lets this process be unready.
    pub(super) fn advance(
        &mut self,
        seen: Seen,
        limited: bool,
        time: Duration,
        may_leave: bool,
        settings: &Settings,
        turns: &mut Vec<Turn>,
    ) {
        (self.strikes, self.lost) = (0, false);
        let keep = |window: Option<Duration>, this: Seen| (seen == this).then(|| window.unwrap_or(time));
        self.hot_since = keep(self.hot_since, Seen::Hot);
        self.calm_since = keep(self.calm_since, Seen::Calm);
        self.node_since = keep(self.node_since, Seen::Node);
        let lasted = |since: Option<Duration>, least: Duration| since.is_some_and(|since| time.saturating_sub(since) >= least);
        let bound = if lasted(self.hot_since, settings.sustain) {
            Some(Bound::Quota)
        } else if lasted(self.node_since, settings.sustain) {
            Some(Bound::Node)
        } else {
            None
        };
        if lasted(self.calm_since, settings.recover_sustain) {
            self.end(Ended::Recovered, time, turns);
            self.forced_until = None;
        } else if !limited && bound.is_none() && self.overload.is_some_and(|overload| overload.bound == Bound::Quota) {
            self.end(Ended::NoQuota, time, turns);
        }
        self.expire(time, settings, turns);
        match (&mut self.overload, bound) {
            (Some(overload), Some(bound)) if overload.bound != bound => {
                overload.bound = bound;
                // One that is held back has not begun, as far as anybody was told.
                if overload.unready_at.is_some() {
                    turns.push(Turn::Began(bound));
                }
            }
            (None, Some(bound)) if self.forced_until.is_none() => {
                self.overload = Some(Overload { since: time, bound, unready_at: None, evicted: false, told_no_victim: false });
                turns.push(if may_leave { Turn::Began(bound) } else { Turn::HeldBack });
            }
            _ => {}
        }
        if let Some(overload) = self.overload.as_mut().filter(|overload| overload.unready_at.is_none() && may_leave) {
            overload.unready_at = Some(time);
            if overload.since != time {
                turns.push(Turn::Began(overload.bound));
            }
        }
    }

    /// Whether a round may come at this tick.
    pub(super) fn may_evict(&self, time: Duration, settings: &Settings) -> bool {
        let Some(Overload { bound: Bound::Quota, unready_at: Some(unready_at), .. }) = self.overload else { return false };
        let unready_for = time.saturating_sub(unready_at);
        let cooled = self.last_round.is_none_or(|last| time.saturating_sub(last) >= settings.cooldown);
        self.hot_since.is_some() && !unready_for.is_zero() && unready_for >= settings.drain && cooled
    }

    pub(super) fn evicted(&mut self, time: Duration) {
        self.last_round = Some(time);
        if let Some(overload) = &mut self.overload {
            overload.evicted = true;
        }
    }

    pub(super) fn unready_at(&self) -> Option<Duration> {
        self.overload.and_then(|overload| overload.unready_at)
    }

    pub(super) fn phase(&self, instant: impl Fn(Duration) -> Instant, ahead: impl Fn(Duration) -> Instant) -> Phase {
        if self.lost {
            return Phase::SignalLost;
        }
        let Some(overload) = self.overload else {
            return match (self.forced_until, self.hot_since) {
                (Some(until), _) => Phase::Forced { until: ahead(until) },
                (None, Some(since)) => Phase::Hot { since: instant(since) },
                (None, None) => Phase::Healthy,
            };
        };
        let Some(unready_at) = overload.unready_at else { return Phase::HeldBack { since: instant(overload.since) } };
        match (self.calm_since, overload.bound, self.last_round) {
            (Some(since), ..) => Phase::Recovering { since: instant(since) },
            (None, Bound::Node, _) => Phase::NodeContended { since: instant(unready_at) },
            (None, Bound::Quota, Some(last)) if overload.evicted => Phase::Evicting { last: instant(last) },
            (None, Bound::Quota, _) => Phase::Draining { since: instant(unready_at) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_goes_back_a_little_stands_and_one_that_goes_back_far_goes_on() {
        let base = Instant::now() + Duration::from_secs(100);
        let mut clock = Clock::new();
        let at = |clock: &mut Clock, seconds: u64| {
            clock.advance(base + Duration::from_secs(seconds) - Duration::from_secs(50), Duration::from_secs(5));
            clock.time.as_secs()
        };
        assert_eq!([10, 9, 9, 11].map(|seconds| at(&mut clock, seconds)), [0, 0, 0, 1], "one sample over 1 s");
        assert_eq!([4, 5, 6].map(|seconds| at(&mut clock, seconds)), [1, 2, 3], "from there on");
    }
}
