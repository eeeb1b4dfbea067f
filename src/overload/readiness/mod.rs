//! Whether the process wants new work: an AND of named conditions.
//!
//! One flag that several write is wrong whenever two of them disagree: the last one wins. Here each has its own condition, and only all of
//! them together make the process ready.
//!
//! * **Y1** Ready is: not shut down, and each condition is met, overruled or held back.
//! * **Y2** A condition that was required and never spoken of is not met: nobody is ready before all have said so.
//! * **Y3** Shutting down is for good. To look and to set is one step under `&mut`, so nothing that was about to be set comes after.
//! * **Y4** A change is told when, and only when, the verdict changes: ready, not ready, or not ready for good. So who drains learns of a
//!   shutdown also where the process was unready already.
//! * **Y5** A bounded condition keeps the process unready for no longer than its bound at a stretch.

mod shared;

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, Instant},
};

pub use shared::SharedReadiness;

/// Whether so few of a fleet are ready that one more must not leave: if all leave at once, nobody serves, and autoscalers that count only
/// the ready see nothing to scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FleetGuard {
    min_ready_share: Option<f64>,
    ready_share: Option<f64>,
}

impl FleetGuard {
    /// `None`, or what is no number: off.
    #[must_use]
    pub fn new(min_ready_share: Option<f64>) -> Self {
        Self { min_ready_share: min_ready_share.filter(|share| share.is_finite()), ready_share: None }
    }

    /// What share of the fleet is ready, this process included. `None`, or what is no number: not known.
    pub fn observe(&mut self, ready_share: Option<f64>) {
        self.ready_share = ready_share.filter(|share| share.is_finite());
    }

    /// What it was told last.
    #[must_use]
    pub fn ready_share(&self) -> Option<f64> {
        self.ready_share
    }

    /// Whether this process may be unready. Where nothing is known it may: a lost peer must not make a full process take more.
    #[must_use]
    pub fn allows_unready(&self) -> bool {
        self.min_ready_share.zip(self.ready_share).is_none_or(|(least, share)| share >= least)
    }
}

/// One of the conditions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Condition {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is met.
    pub met: bool,
    /// Why, as whoever set it said.
    pub reason: Cow<'static, str>,
    /// Since when it is as it is.
    pub since: Instant,
    /// For how long it may keep the process unready. `None`: for as long as it is not met.
    pub bound: Option<Duration>,
    /// Not met, and it does not count: for longer than its bound, or because too few others are ready.
    pub overruled: Option<Overruled>,
    /// Whether anybody has set it.
    said: bool,
}

/// Why a condition that is not met does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overruled {
    /// It was not met for longer than its bound. Until it has been met again.
    ByBound,
    /// Too few others of the fleet are ready. Until enough are.
    ByFleet,
}

impl Condition {
    fn holds(&self) -> bool {
        self.met || self.overruled.is_some()
    }
}

/// That the process became ready, stopped being it, or will never be it again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Whether it is.
    pub ready: bool,
    /// It shuts down: this is the last change.
    pub for_good: bool,
    /// The condition that it hangs on and its reason, or what the shutdown said; when it became ready, what was the last thing missing.
    pub reason: String,
    /// Since when it is ready, or not.
    pub since: Instant,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.ready { "ready" } else { "not ready" }, self.reason)
    }
}

/// The conditions, and what comes of them. Pure; [`SharedReadiness`] is one behind a lock.
///
/// # Examples
/// ```
/// use std::time::Instant;
/// use keywake::overload::readiness::Readiness;
/// let now = Instant::now();
/// let mut readiness = Readiness::new(now);
/// readiness.require("hub synced", now);
/// readiness.require("not overloaded", now);
/// assert!(readiness.set("not overloaded", true, "0.4 of the quota in use", now).is_none(), "the hub is not synced yet");
/// assert!(readiness.set("hub synced", true, "at the head", now).is_some_and(|change| change.ready));
/// assert!(readiness.shut_down("SIGTERM", now).is_some_and(|change| !change.ready));
/// assert!(readiness.set("hub synced", true, "at the head", now).is_none() && !readiness.is_ready(), "for good");
/// ```
#[derive(Clone, Debug)]
pub struct Readiness {
    conditions: Vec<Condition>,
    shutdown: Option<(Cow<'static, str>, Instant)>,
    guard: FleetGuard,
    /// What was told last.
    told: bool,
    since: Instant,
    reason: String,
}

impl Readiness {
    /// Without conditions, and so ready: [`require`](Self::require) them before anybody asks.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            conditions: Vec::new(),
            shutdown: None,
            guard: FleetGuard::default(),
            told: true,
            since: now,
            reason: "nothing is required".to_owned(),
        }
    }

    /// Bounded conditions do not make the process unready while fewer of the fleet than this share are ready. Default: off. (Conditions
    /// without a bound always count: not synced is not synced.)
    #[must_use]
    pub fn min_ready_share(mut self, share: Option<f64>) -> Self {
        let ready_share = self.guard.ready_share();
        self.guard = FleetGuard::new(share);
        self.guard.observe(ready_share);
        self
    }

    /// Adds a condition, not met until it is [`set`](Self::set). One that is there already stays as it is, but for its bound.
    ///
    /// The evictor's is of this kind: it has a bound and a guard of its own, and counts on being heard.
    pub fn require(&mut self, name: &'static str, now: Instant) -> Option<Change> {
        self.add(name, None, now)
    }

    /// Adds a condition that keeps the process unready for no longer than `bound` at a stretch, and that the fleet may overrule: of the kind
    /// "I am full", not "I cannot".
    pub fn require_bounded(&mut self, name: &'static str, bound: Duration, now: Instant) -> Option<Change> {
        self.add(name, Some(bound), now)
    }

    fn add(&mut self, name: &'static str, bound: Option<Duration>, now: Instant) -> Option<Change> {
        match self.conditions.iter_mut().find(|condition| condition.name == name) {
            Some(condition) => condition.bound = bound,
            None => {
                let reason = Cow::Borrowed("not told yet");
                self.conditions.push(Condition { name, met: false, reason, since: now, bound, overruled: None, said: false });
            }
        }
        self.settle(now)
    }

    /// Whether a condition is met, and why; one that is not required yet is from now on. To say the same again is nothing, whoever says it and
    /// however often, but for the reason, which is the newest.
    ///
    /// Returns what changed for the whole.
    pub fn set(&mut self, name: &'static str, met: bool, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        let reason = reason.into();
        match self.conditions.iter_mut().find(|condition| condition.name == name) {
            Some(condition) => {
                if condition.met != met {
                    (condition.met, condition.since, condition.overruled) = (met, now, None);
                }
                (condition.reason, condition.said) = (reason, true);
            }
            None => self.conditions.push(Condition { name, met, reason, since: now, bound: None, overruled: None, said: true }),
        }
        self.settle(now)
    }

    /// Not ready from here on, whatever is set: a change also if it was not ready before. A second time changes nothing, not even the
    /// reason.
    pub fn shut_down(&mut self, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        if self.shutdown.is_some() {
            return None;
        }
        self.shutdown = Some((reason.into(), now));
        let change = self.settle(now);
        change.or_else(|| Some(self.verdict()))
    }

    /// What share of the fleet is ready; see [`min_ready_share`](Self::min_ready_share). It counts when a condition stops being met, and lets
    /// those go that were held back; who is unready already stays so.
    pub fn observe_peers(&mut self, ready_share: Option<f64>, now: Instant) -> Option<Change> {
        self.guard.observe(ready_share);
        self.settle(now)
    }

    /// Looks at the bounds. To be called at every tick.
    pub fn tick(&mut self, now: Instant) -> Option<Change> {
        self.settle(now)
    }

    /// Whether the process wants new work, as of the last call of any other method.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.told
    }

    /// What [`is_ready`](Self::is_ready) says, with its reason, and since when.
    #[must_use]
    pub fn verdict(&self) -> Change {
        Change { ready: self.told, for_good: self.shutdown.is_some(), reason: self.reason.clone(), since: self.since }
    }

    /// All conditions, in the order in which they came.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Why and since when it shuts down, if it does.
    #[must_use]
    pub fn shutting_down(&self) -> Option<(&str, Instant)> {
        self.shutdown.as_ref().map(|(reason, since)| (&**reason, *since))
    }

    fn settle(&mut self, now: Instant) -> Option<Change> {
        let (was_ready, may_leave) = (self.told, self.guard.allows_unready());
        let others_hold = self.conditions.iter().all(|condition| condition.met || condition.bound.is_some());
        for condition in self.conditions.iter_mut().filter(|condition| !condition.met) {
            let Some(bound) = condition.bound else {
                condition.overruled = None;
                continue;
            };
            // The clock went back: the stretch begins anew, and its bound with it.
            condition.since = condition.since.min(now);
            let too_long = now.saturating_duration_since(condition.since) >= bound;
            condition.overruled = match condition.overruled {
                Some(Overruled::ByBound) => Some(Overruled::ByBound),
                Some(Overruled::ByFleet) if may_leave => {
                    condition.since = now;
                    None
                }
                Some(Overruled::ByFleet) => Some(Overruled::ByFleet),
                None if too_long => Some(Overruled::ByBound),
                None if was_ready && others_hold && condition.said && !may_leave => Some(Overruled::ByFleet),
                None => None,
            };
        }
        let missing = self.conditions.iter().find(|condition| !condition.holds());
        let (ready, reason) = match (&self.shutdown, missing) {
            (Some((reason, _)), _) => (false, format!("shutting down: {reason}")),
            (None, Some(Condition { name, reason, .. })) => (false, format!("{name}: {reason}")),
            (None, None) => (true, self.ready_because(was_ready)),
        };
        self.reason = reason;
        if ready == was_ready {
            return None;
        }
        (self.told, self.since) = (ready, now);
        Some(self.verdict())
    }

    /// The last thing that was missing, and whether it is there or only overruled.
    fn ready_because(&self, was_ready: bool) -> String {
        if was_ready {
            return self.reason.clone();
        }
        match self.conditions.iter().max_by_key(|condition| condition.since) {
            Some(Condition { name, overruled: Some(Overruled::ByBound), .. }) => format!("{name}: overruled, unmet for too long"),
            Some(Condition { name, overruled: Some(Overruled::ByFleet), .. }) => {
                format!("{name}: overruled, too few others are ready")
            }
            Some(Condition { name, reason, .. }) => format!("{name}: {reason}"),
            None => "nothing is required".to_owned(),
        }
    }
}
