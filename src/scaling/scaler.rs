//! How many instances: the largest of what the drivers ask for, within its limits.

use std::{fmt, time::Instant};

use super::{
    amount::{Amount, Capacity, Unusable},
    driver::{Driver, Measure, Verdict, Vote, WHOLE},
    sample::{Fleet, Sample},
    settings::Settings,
};

/// Which limit the count was cut to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clamp {
    /// To [`max`](super::ScalerBuilder::max).
    Max,
    /// To [`min`](super::ScalerBuilder::min).
    Min,
    /// It was within.
    None,
}

/// What a count rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Some number says nothing, and so many are to be there then.
    Blind,
    /// The driver that asks for most.
    Driver,
    /// It is fixed.
    Fixed,
    /// There was no request for the whole limit: none is needed.
    Idle,
    /// The means do not cover their minutes yet, so that it does not fall.
    Incomplete,
    /// One is needed: a request waits or is in flight, or one ended within the limit, or nobody knows.
    NotIdle,
    /// So many were asked for a short while ago; see [`Stabilization`](super::Stabilization).
    Stabilized,
}

/// How many instances there should be, and why. Its `Display` is one line for a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// How many, within the limits: [`Fleet::desired`] of the next decision.
    pub count: u32,
    /// How many it would be without limits.
    pub recommended: u32,
    /// The driver that asks for most, the first of [`Driver::ALL`] among equals. `None` with a fixed count.
    pub driver: Option<Driver>,
    /// What `recommended` rests on.
    pub reason: Reason,
    /// Which limit it was cut to.
    pub clamp: Clamp,
    /// What each driver asks for, in the order of [`Driver::ALL`].
    pub votes: Vec<Vote>,
    /// How many more run than may: after a change of the limit, during an update, or in a spike.
    pub over_max: u32,
}

impl Decision {
    /// The votes that held the count because their number says nothing.
    pub fn unusable(&self) -> impl Iterator<Item = (Driver, Unusable)> + '_ {
        self.votes.iter().filter_map(|vote| match vote.verdict {
            Verdict::Unusable(why) => Some((vote.driver, why)),
            _ => None,
        })
    }

    /// Whether all numbers could be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.unusable().next().is_none()
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, if self.count == 1 { "instance" } else { "instances" })?;
        match self.clamp {
            Clamp::Max => write!(f, " (at most; {} recommended)", self.recommended)?,
            Clamp::Min => write!(f, " (at least; {} recommended)", self.recommended)?,
            Clamp::None => {}
        }
        match (self.reason, self.driver) {
            (Reason::Blind, _) => f.write_str(", the floor while a number is unusable")?,
            (Reason::Driver, _) if self.votes.iter().all(|vote| matches!(vote.verdict, Verdict::Unusable(_))) => {
                f.write_str(", held: no number can be used")?;
            }
            (Reason::Driver, Some(driver)) => write!(f, " by {driver}")?,
            (Reason::Driver, None) => {}
            (Reason::Fixed, _) => f.write_str(", fixed")?,
            (Reason::Idle, _) => f.write_str(": idle")?,
            (Reason::Incomplete, _) => f.write_str(", held until the means are complete")?,
            (Reason::NotIdle, _) => f.write_str(", not idle")?,
            (Reason::Stabilized, _) => f.write_str(", as were asked for a short while ago")?,
        }
        self.votes.iter().try_for_each(|vote| write!(f, "; {vote}"))
    }
}

/// Decides how many instances there should be. Keeps nothing between two decisions.
///
/// 1. Each driver that takes part votes: within the tolerance of its target for as many as are wanted already, else for
///    ceil(use / capacity / target), whatever runs. With a number that says nothing, it votes for as many as are wanted already.
/// 2. The largest vote is recommended; where the sample tells what was asked for of late, not less than that.
/// 3. One is not followed by none unless there was no request for the [`idle_limit`](super::ScalerBuilder::idle_limit), and then whatever
///    the drivers say of one; from none to one leads only a request that waits.
/// 4. The limits come last, also where the count is held.
///
/// # Examples
/// ```
/// use keywake::scaling::{Driver, Fleet, Sample, ScalerBuilder};
/// use std::time::Instant;
///
/// let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).build()?;
/// let mut sample = Sample::default();
/// (sample.cpu_cores, sample.concurrency_1m, sample.concurrency_10m) = (Some(1.5), Some(240.0), Some(180.0));
/// let decision = scaler.decide(&sample, Fleet::settled(2), Instant::now());
/// assert_eq!((decision.count, decision.driver), (5, Some(Driver::Concurrency)));
/// # Ok::<(), keywake::scaling::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scaler {
    settings: Settings,
}

impl Scaler {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// The drivers that take part.
    #[must_use]
    pub fn drivers(&self) -> &[Driver] {
        &self.settings.drivers
    }

    /// How many instances there should be. Any number may be given: what cannot be is told in the votes, and holds the count.
    #[must_use]
    pub fn decide(&self, sample: &Sample, fleet: Fleet, now: Instant) -> Decision {
        let over_max = fleet.running.saturating_sub(self.settings.fixed.unwrap_or(self.settings.max));
        if let Some(count) = self.settings.fixed {
            let (driver, reason, clamp) = (None, Reason::Fixed, Clamp::None);
            return Decision { count, recommended: count, driver, reason, clamp, votes: Vec::new(), over_max };
        }
        let votes: Vec<Vote> = self.settings.drivers.iter().map(|driver| self.vote(*driver, sample, fleet)).collect();
        // The first among equals.
        let most = votes.iter().rev().max_by_key(|vote| vote.count);
        let mut decision = Decision {
            count: 0,
            recommended: most.map_or(fleet.desired, |vote| vote.count),
            driver: most.map(|vote| vote.driver),
            reason: Reason::Driver,
            clamp: Clamp::None,
            votes,
            over_max,
        };
        self.amend(&mut decision, sample, fleet, now);
        let Settings { min, max, .. } = self.settings;
        decision.count = decision.recommended.clamp(min, max);
        decision.clamp = match decision.recommended {
            recommended if recommended < min => Clamp::Min,
            recommended if recommended > max => Clamp::Max,
            _ => Clamp::None,
        };
        decision
    }

    /// What is not the drivers' to say.
    fn amend(&self, decision: &mut Decision, sample: &Sample, fleet: Fleet, now: Instant) {
        let mut raise = |to: u32, reason: Reason| {
            if decision.recommended < to {
                (decision.recommended, decision.reason) = (to, reason);
            }
        };
        if !sample.complete {
            raise(fleet.desired, Reason::Incomplete);
        }
        if let Some(most) = sample.stabilized {
            raise(most.min(fleet.desired), Reason::Stabilized);
        }
        if fleet.running > 0 || sample.is_awaited() {
            raise(1, Reason::NotIdle);
        }
        if decision.recommended <= 1 && !sample.is_awaited() && self.is_idle(sample, now) {
            (decision.recommended, decision.reason) = (0, Reason::Idle);
        }
        // At zero the queue alone leads up: who does not know of it, knows nothing.
        let is_blind = !decision.is_valid() || fleet.running == 0 && Amount::read(sample.queued).is_err();
        if is_blind && decision.recommended < self.settings.blind_floor {
            (decision.recommended, decision.reason) = (self.settings.blind_floor, Reason::Blind);
        }
    }

    fn is_idle(&self, sample: &Sample, now: Instant) -> bool {
        let idle = sample.last_request.map(|ended| now.saturating_duration_since(ended));
        sample.in_flight == Some(0) && idle.is_some_and(|idle| idle >= self.settings.idle_limit)
    }

    fn vote(&self, driver: Driver, sample: &Sample, fleet: Fleet) -> Vote {
        let hold = |verdict| Vote { driver, count: fleet.desired, utilisation: None, verdict };
        if fleet.running == 0 {
            // Nothing is used where nothing runs; whoever waits is there all the same.
            if driver != Driver::Queue {
                return hold(Verdict::Resting);
            }
            return match (Amount::read(sample.queued), self.measure(driver, sample)) {
                (Ok(queued), _) if queued.is_zero() => hold(Verdict::Resting),
                (Ok(queued), Ok(measure)) => measure.vote_at_zero(driver, queued, fleet),
                (Err(why), _) | (_, Err(why)) => hold(Verdict::Unusable(why)),
            };
        }
        let read = self.used(driver, sample).and_then(|used| Ok((used, self.measure(driver, sample)?, sample.silent(fleet)?)));
        match read {
            Ok((used, measure, silent)) => measure.vote(driver, used, silent, fleet),
            Err(why) => hold(Verdict::Unusable(why)),
        }
    }

    /// What the fleet uses, in the driver's unit.
    fn used(&self, driver: Driver, sample: &Sample) -> Result<Amount, Unusable> {
        let last_minute = Amount::read(sample.concurrency_1m);
        match driver {
            Driver::Adaptive => last_minute,
            Driver::Backlog => {
                let backlog = sample.backlog.ok_or(Unusable::Missing)?;
                Amount::new(backlog.unread)?;
                let within = self.settings.backlog.map_or(1.0, |reading| reading.within.as_secs_f64());
                Ok(Amount::new(backlog.arriving)?.plus(Amount::new(backlog.unread / within)?))
            }
            Driver::Concurrency => Ok(last_minute?.max(Amount::read(sample.concurrency_10m)?)),
            Driver::Cpu => cores(sample.cpu_cores, sample),
            Driver::Demand => cores(sample.demand_cores, sample),
            Driver::Effective => Amount::read(sample.effective_streams),
            Driver::Queue => Ok(last_minute?.plus(Amount::read(sample.queued)?)),
            Driver::Refusals => {
                // Without a driver for the queue, nobody may know of it.
                let queued = if sample.queued.is_none() { Amount::default() } else { Amount::read(sample.queued)? };
                Ok(last_minute?.plus(queued).plus(Amount::read(sample.refused)?))
            }
        }
    }

    fn measure(&self, driver: Driver, sample: &Sample) -> Result<Measure, Unusable> {
        let settings = &self.settings;
        let (capacity, target) = match driver {
            Driver::Adaptive => (Some(adaptive(sample)?), settings.concurrency_target),
            Driver::Backlog => (settings.backlog.map(|reading| reading.per_second), settings.cpu_target),
            Driver::Concurrency => (settings.max_concurrency, settings.concurrency_target),
            Driver::Cpu | Driver::Demand => (settings.cpus, settings.cpu_target),
            Driver::Effective => (settings.nominal, WHOLE),
            // What instances take is what they let themselves take.
            Driver::Queue | Driver::Refusals => (adaptive(sample).ok().or(settings.max_concurrency), settings.concurrency_target),
        };
        let least = u32::from(matches!(driver, Driver::Cpu | Driver::Demand));
        // A driver takes part only where its capacity is set.
        Ok(Measure { capacity: capacity.ok_or(Unusable::Missing)?, target, tolerance: settings.tolerance, least })
    }
}

/// Zero is believed where it is known that there was no request.
fn cores(read: Option<f64>, sample: &Sample) -> Result<Amount, Unusable> {
    let cores = Amount::read(read)?;
    if cores.is_zero() && !sample.is_quiet() { Err(Unusable::Zero) } else { Ok(cores) }
}

#[expect(clippy::cast_precision_loss, reason = "above 10^9 it is refused")]
fn adaptive(sample: &Sample) -> Result<Capacity, Unusable> {
    let limits = sample.adaptive_limits.filter(|limits| limits.instances > 0).ok_or(Unusable::Missing)?;
    Capacity::mean(Amount::new(limits.total as f64)?, limits.instances)
}
