//! What asks for instances: each driver's vote.

use std::fmt;

use super::{
    amount::{Amount, Capacity, MILLION, Side, Unusable},
    sample::Fleet,
};

/// What asks for instances. There is none for memory: what is kept says nothing of what is missing.
///
/// Use of processors and concurrency are cut at what there is: a fleet that is full asks for at most 1 / target of itself, 1.67 times at the
/// default, however much is missing. The last five are not cut: work that waits, was refused, let go or lies unread counts there as work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Driver {
    /// Processors: cores used in the last minute / CPUs per instance / target. The use is the fleet's sum. Source: Cloud Run.
    Cpu,
    /// Requests at once: the larger of the means over one and ten minutes / maximum per instance / target: up at once, down slowly.
    /// Source: Cloud Run.
    Concurrency,
    /// Requests at once over the last minute / the instances' mean adaptive limit / target. Source: Cloud Run's adaptive concurrency; that
    /// unlike limits are averaged is ours.
    Adaptive,
    /// Requests at once over the last minute and those that wait / what an instance takes / target; it takes its mean adaptive limit where
    /// that is told, and otherwise its maximum. Source: Knative counts what its activator holds; Cloud Run says that it looks at the queue,
    /// and not how.
    Queue,
    /// As [`Queue`](Self::Queue), and those that were refused with them. Ours, after Knative 2579 and 2141: load that is refused, and not
    /// counted, makes the fullest fleet look idle.
    Refusals,
    /// Streams at nominal cost / nominal number of streams per instance; its target is 1, for the gauge has the target in it. Source:
    /// Substreams' gauge, which letting streams go does not lower.
    Effective,
    /// Cores that would be used if there were enough / CPUs per instance / target.
    Demand,
    /// Events per second that come, and those that lie unread over the time in which they shall be read / what an instance reads per second /
    /// target. Ours.
    Backlog,
}

impl Driver {
    /// All of them. Where several ask for the same number, the first of these is the one that is named.
    pub const ALL: [Self; 8] =
        [Self::Cpu, Self::Concurrency, Self::Adaptive, Self::Queue, Self::Refusals, Self::Effective, Self::Demand, Self::Backlog];

    /// In small letters, for a metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Backlog => "backlog",
            Self::Concurrency => "concurrency",
            Self::Cpu => "cpu",
            Self::Demand => "demand",
            Self::Effective => "effective",
            Self::Queue => "queue",
            Self::Refusals => "refusals",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a driver came to its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Use is above the band: what it needs, rounded up, and not below what is wanted already.
    Above,
    /// Use is below the band: what it needs, rounded up.
    Below,
    /// No instance runs, so that none uses anything: as many as are wanted already.
    Resting,
    /// The number says nothing: as many as are wanted already.
    Unusable(Unusable),
    /// Use is within the tolerance of its target: as many as are wanted already.
    Within,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Above => f.pad("above its band"),
            Self::Below => f.pad("below its band"),
            Self::Resting => f.pad("resting"),
            Self::Unusable(why) => write!(f, "unusable ({why})"),
            Self::Within => f.pad("within its band"),
        }
    }
}

/// What one driver asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Vote {
    /// Whose it is.
    pub driver: Driver,
    /// How many instances, before any limit.
    pub count: u32,
    /// Use over what the running instances can take; 1 is full, and drivers that are not cut go above it. `None`: nothing runs, or the number
    /// says nothing. For people: no decision rests on it.
    pub utilisation: Option<f64>,
    /// How it came to that.
    pub verdict: Verdict,
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asks for {}: ", self.driver, self.count)?;
        match self.utilisation {
            Some(utilisation) => write!(f, "use {utilisation:.3}, {}", self.verdict),
            None => write!(f, "{}", self.verdict),
        }
    }
}

/// What a driver measures with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) capacity: Capacity,
    /// In millionths.
    pub(super) target: u64,
    /// In millionths.
    pub(super) tolerance: u64,
    /// The smallest answer while something runs.
    pub(super) least: u32,
}

impl Measure {
    /// Of what the instances use that reported; `silent` run and did not. Those count as idle when it goes up and as full when it goes down:
    /// neither blocks the other (Kubernetes' rule).
    pub(super) fn vote(self, driver: Driver, used: Amount, silent: u32, fleet: Fleet) -> Vote {
        let side = |full| self.capacity.side(used, full, fleet.running, self.target, self.tolerance);
        let needed = |full| self.capacity.needed(used, full, self.target).max(self.least);
        let (count, verdict) = match (side(0), side(silent)) {
            // What is cut at what runs must not undo what is still starting.
            (Side::Above, _) => (needed(0).max(fleet.desired), Verdict::Above),
            (_, Side::Below) => (needed(silent), Verdict::Below),
            _ => (fleet.desired, Verdict::Within),
        };
        let most = f64::from(fleet.running) * self.capacity.as_f64();
        Vote { driver, count, utilisation: (most > 0.0).then(|| used.as_f64() / most), verdict }
    }

    /// From nothing: what waits is all there is.
    pub(super) fn vote_at_zero(self, driver: Driver, waiting: Amount, fleet: Fleet) -> Vote {
        let count = self.capacity.needed(waiting, 0, self.target).max(fleet.desired);
        Vote { driver, count, utilisation: None, verdict: Verdict::Above }
    }
}

/// The target of drivers whose gauge has it in it.
pub(super) const WHOLE: u64 = MILLION;
