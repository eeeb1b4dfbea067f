//! Which streams to let go when the processors are saturated, and when: a state machine without a clock.
//!
//! At every tick the driver hands in what it read of the processors, what its streams have used, and the time; it gets back what is to be
//! done. When usage has been at the threshold for long enough, the process is unready (load balancers send new streams elsewhere) and
//! refuses new ones; when it has been that for the drain, the smallest number of streams that brings the *demand* under the target is
//! evicted, in the policy's order; then it waits for the cooldown and looks again.
//!
//! What holds at all times:
//! * **O1** Nothing is evicted before the process has been unready for the drain, and was told so in an earlier step.
//! * **O2** Nothing is evicted at a tick at which it is not saturated, at which nothing could be read, or when the machine is short and not the
//!   quota.
//! * **O3** Between two rounds lies the cooldown, whatever came between.
//! * **O4** It is unready for no longer than `max_unready` and a tick at a stretch, and after such a stretch ready for at least as long, or
//!   until it has recovered.
//! * **O5** A constant input leads, from any state, to being ready or to a round, within sustain, drain, cooldown and `max_unready`.
//! * **O6** No reading makes a number that is none, and time that goes back makes nothing but a wait.
//! * **O7** In mode observe nothing is asked for, in mode off nothing is looked at. (What stands beside it in a driver has no mode.)

mod action;
mod burns;
mod check;
mod demand;
mod effective;
mod explain;
mod memory;
mod order;
mod round;
mod settings;
mod state;
mod victims;

use std::{
    fmt,
    time::{Duration, Instant},
};

pub use action::{Action, Alert, EVICTED_MESSAGE, EvictReason, Eviction};
pub use burns::StreamSample;
pub use check::{SettingsError, SettingsWarning};
pub use effective::effective_active;
pub use explain::{Explained, Explanation, Fate};
pub use order::{ClassOrder, ClassOrderError};
pub use settings::{EvictorBuilder, Mode, ParseModeError, Settings};
pub use state::{Bound, Ended, Phase};
pub use victims::{Candidate, ClassCap, Rank, Spared, VictimPolicy};

use super::readiness::FleetGuard;
use crate::load::{CpuSample, QuotaSource};
use burns::Burns;
use demand::Demand;
use memory::Memory;
use round::{Load, Setting};
use state::{Clock, Machine, Seen, Turn};

/// Nothing could be read of the processors at this tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalLost;

impl fmt::Display for SignalLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing could be read of the processors")
    }
}

impl std::error::Error for SignalLost {}

/// What an evictor knows, for metrics. Shares are of the quota, `None` where there is none or nothing was read lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Gauges {
    /// What would be used if the quota did not hold it back, over the last three ticks.
    pub demand_cores: Option<f64>,
    /// That, of the quota.
    pub demand_ratio: Option<f64>,
    /// The share of time in which all tasks were stalled.
    pub full_stalled: Option<f64>,
    /// Unready and refusing. Never in mode observe, nor when the signal is lost.
    pub overloaded: bool,
    /// The demand ratio without those that were told to go at the last step; in mode observe, without all that ever would have been.
    pub predicted_ratio: Option<f64>,
    /// In cores.
    pub quota_cores: Option<f64>,
    /// Where the quota comes from.
    pub quota_source: Option<QuotaSource>,
    /// Readings that failed.
    pub signal_errors: u64,
    /// Streams at the last tick.
    pub streams: usize,
    /// The share of the quota's periods that were throttled.
    pub throttled_share: Option<f64>,
    /// Of what the process used, the share that no stream accounts for.
    pub unattributed_ratio: Option<f64>,
    /// For how long it was unready, in all.
    pub unready: Duration,
    /// Usage of the quota, at the last tick. Not cut.
    pub usage_ratio: Option<f64>,
}

/// Decides which streams to let go, and when. Made by [`EvictorBuilder`].
///
/// `K` is what the host calls a stream.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::{load::{CpuSample, StreamClass}, overload::{evictor::{Action, EvictorBuilder, Mode, StreamSample}}};
///
/// let mut evictor = EvictorBuilder::new().mode(Mode::Full).build::<&str>()?;
/// let began = Instant::now();
/// let mut evicted = Vec::new();
/// for tick in 20..40 {
///     let now = began + Duration::from_secs(5) * tick;
///     // Two cores are wanted of one: it is used up, and half of the time everybody waits.
///     let mut sample = CpuSample::new(now, Duration::from_secs(5), 1.0);
///     (sample.quota_cores, sample.full_stalled) = (Some(1.0), Some(0.5));
///     let used = |share| (Duration::from_secs(5) * tick).mul_f64(share);
///     let streams = [
///         StreamSample::new("probe", StreamClass::Dev, began, used(0.6)),
///         StreamSample::new("feed", StreamClass::Live, began, used(0.4)),
///     ];
///     for action in evictor.step(Ok(&sample), &streams, now) {
///         if let Action::Evict(eviction) = action {
///             evicted.push((eviction.id, tick));
///         }
///     }
/// }
/// // Saturated for 15 s, unready for 10 s. The lone production stream stays.
/// assert_eq!(evicted, [("probe", 25)]);
/// # Ok::<(), keywake::overload::evictor::SettingsError>(())
/// ```
#[derive(Debug)]
pub struct Evictor<K> {
    settings: Settings,
    warnings: Vec<SettingsWarning>,
    policy: Box<dyn VictimPolicy>,
    clock: Clock,
    machine: Machine,
    burns: Burns<K>,
    demand: Demand,
    memory: Memory,
    guard: FleetGuard,
    /// What the last sample said; `None` when the signal is lost.
    last: Option<Reading>,
    gauges: Gauges,
    /// When the last step came that was not passed over.
    stepped: Option<Duration>,
    /// Up to when unready time has been counted.
    counted: Duration,
    now: Option<Instant>,
    started: bool,
    stopped: bool,
}

/// What one sample says.
#[derive(Clone, Copy, Debug)]
struct Reading {
    quota_cores: Option<f64>,
    usage_ratio: Option<f64>,
    demand_ratio: Option<f64>,
    full_stalled: Option<f64>,
    reason: EvictReason,
    load: Option<Load>,
}

/// Shorter than this, what was used says nothing: a reading right behind another one.
const SHORTEST: Duration = Duration::from_millis(1);

/// No group has more cores than this: what reads more was not read right.
const MOST_CORES: f64 = 1e6;
/// The kernel takes no quota below a millisecond of a second.
const LEAST_QUOTA: f64 = 1e-3;

fn readable(sample: &CpuSample) -> bool {
    let quota_is_one = sample.quota_cores.is_none_or(|quota| (LEAST_QUOTA..=MOST_CORES).contains(&quota));
    (0.0..=MOST_CORES).contains(&sample.usage_cores) && quota_is_one
}

impl<K: Clone + Ord> Evictor<K> {
    fn from_parts(settings: Settings, policy: Box<dyn VictimPolicy>, warnings: Vec<SettingsWarning>) -> Self {
        Self {
            guard: FleetGuard::new(settings.min_ready_share),
            settings,
            warnings,
            policy,
            clock: Clock::new(),
            machine: Machine::default(),
            burns: Burns::new(),
            demand: Demand::default(),
            memory: Memory::default(),
            last: None,
            gauges: Gauges::default(),
            stepped: None,
            counted: Duration::ZERO,
            now: None,
            started: false,
            stopped: false,
        }
    }

    /// One tick: what was read, all streams there are, and the time; what is to be done.
    ///
    /// A stream that is not among them has ended and is forgotten. Steps that come within half an interval are passed over (they only say
    /// [`Ready`](Action::Ready) or [`Unready`](Action::Unready) again), so that what was read over too short a time decides nothing. Late ones
    /// count for the time that has passed.
    ///
    /// It goes over all streams: 70,000 take 2.4 to 3 ms, and 6 to 8 ms where a round comes, if they are told in the order of their ids;
    /// otherwise they are sorted first. (`cargo bench --bench evictor --features overload`, two quiet runs, 2 cores of a Xeon, 2026-11-30.)
    pub fn step(&mut self, sample: Result<&CpuSample, SignalLost>, streams: &[StreamSample<K>], now: Instant) -> Vec<Action<K>> {
        let mut actions = Vec::new();
        if !self.wants_samples() {
            return actions;
        }
        self.clock.advance(now, self.settings.interval);
        self.now = Some(now);
        self.count_unready();
        let time = self.clock.time;
        let too_soon = self.stepped.is_some_and(|stepped| time.saturating_sub(stepped) < self.settings.interval / 2);
        if too_soon || sample.is_ok_and(|sample| sample.elapsed < SHORTEST) {
            let mut turns = Vec::new();
            self.machine.expire(time, &self.settings, &mut turns);
            self.tell(&turns, &mut actions);
            self.tell_readiness(now, &mut actions);
            self.gauges.overloaded = self.is_overloaded();
            return actions;
        }
        self.stepped = Some(time);
        self.burns.observe(streams, time);
        let mut turns = Vec::new();
        match sample.ok().filter(|sample| readable(sample)) {
            Some(sample) => {
                let seen = self.read(sample, &mut actions);
                let limited = sample.quota_cores.is_some();
                let may_leave = !self.settings.mode.enforces() || self.guard.allows_unready();
                self.machine.advance(seen, limited, time, may_leave, &self.settings, &mut turns);
                self.tell(&turns, &mut actions);
                self.tell_readiness(now, &mut actions);
                if self.machine.may_evict(time, &self.settings) {
                    self.round(now, &mut actions);
                }
            }
            None => {
                self.gauges.signal_errors = self.gauges.signal_errors.saturating_add(1);
                self.machine.lose(time, &self.settings, &mut turns);
                if turns.iter().any(|turn| matches!(turn, Turn::Lost { .. })) {
                    self.last = None;
                    self.demand.forget();
                }
                self.tell(&turns, &mut actions);
                self.tell_readiness(now, &mut actions);
            }
        }
        self.gauge();
        actions
    }

    /// The process shuts down: from here on nothing is asked for, readiness is left alone, and what was drained for is not evicted.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.gauges.overloaded = false;
    }

    /// Whether a driver need read anything: not in mode off, nor after [`stop`](Self::stop).
    #[must_use]
    pub fn wants_samples(&self) -> bool {
        self.settings.mode != Mode::Off && !self.stopped
    }

    /// What share of the fleet is ready, this process included, for [`min_ready_share`](EvictorBuilder::min_ready_share). `None`: not known,
    /// and then nothing is held back. It decides when this process is about to be unready, not later.
    pub fn observe_peers(&mut self, ready_share: Option<f64>) {
        self.guard.observe(ready_share);
    }

    /// Whether new streams are to be refused. Never in mode observe, nor when it is ready again by force or held back.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.wants_samples() && self.settings.mode.enforces() && self.machine.unready_at().is_some()
    }

    /// Where it stands. In mode observe, where it would.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let Some(now) = self.now else { return Phase::Healthy };
        let ahead = |time: Duration| now.checked_add(time.saturating_sub(self.clock.time)).unwrap_or(now);
        self.machine.phase(|time| self.clock.instant(time, now), ahead)
    }

    /// What is to be told as metrics.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.gauges
    }

    /// What an autoscaler is to be told, given the number of streams that the *host* counts, and its soft limit in place of a nominal number
    /// that was not set. See [`effective_active`].
    #[must_use]
    pub fn effective_active(&self, active: usize, soft_limit: Option<usize>) -> f64 {
        let ratio = self.last.and_then(|reading| reading.demand_ratio);
        effective_active(active, self.settings.nominal.or(soft_limit), ratio, self.settings.target)
    }

    /// What it was built with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What of it works otherwise than one may expect, for the log.
    #[must_use]
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }

    /// Who would go, who would be next, and why the others stay, as of the last step.
    #[must_use]
    pub fn explain(&self) -> Explanation<K> {
        let reading = self.last;
        let mut explanation = Explanation {
            phase: self.phase(),
            usage_ratio: reading.and_then(|reading| reading.usage_ratio),
            demand_ratio: reading.and_then(|reading| reading.demand_ratio),
            excess_cores: None,
            streams: Vec::new(),
        };
        let (Some(now), Some(load)) = (self.now, reading.and_then(|reading| reading.load)) else { return explanation };
        let outcome = self.setting(load, now).outcome(true);
        explanation.excess_cores = Some(outcome.excess_cores);
        let mut fates = vec![Fate::Next; outcome.ranked.len()];
        outcome.passed_over.iter().for_each(|(index, why)| fates[*index] = Fate::Spared(*why));
        outcome.chosen.iter().for_each(|index| fates[*index] = Fate::Chosen);
        let ranked = outcome.ranked.iter().zip(fates).map(|(one, fate)| Explained {
            id: one.id.clone(),
            candidate: one.candidate,
            score: Some(one.rank.score),
            fate,
        });
        let spared = outcome.spared.iter().map(|(id, candidate, why)| Explained {
            id: (*id).clone(),
            candidate: *candidate,
            score: None,
            fate: Fate::Spared(*why),
        });
        explanation.streams = ranked.chain(spared).collect();
        explanation.sort();
        explanation
    }

    fn setting(&self, load: Load, now: Instant) -> Setting<'_, K> {
        let Self { burns, memory, settings, policy, .. } = self;
        Setting { burns, memory, settings, policy: &**policy, load, time: self.clock.time, now }
    }

    /// Takes a sample in.
    fn read(&mut self, sample: &CpuSample, actions: &mut Vec<Action<K>>) -> Seen {
        if !self.started {
            self.started = true;
            actions.push(Action::Started { mode: self.settings.mode, quota_cores: sample.quota_cores });
        } else if let Some(from) = self.last.map(|last| last.quota_cores).filter(|from| *from != sample.quota_cores) {
            actions.push(Action::Alert(Alert::QuotaChanged { from, to: sample.quota_cores }));
        }
        self.demand.observe(sample);
        let demand = self.demand.cores().unwrap_or(sample.usage_cores);
        let own = self.demand.own_cores().unwrap_or(sample.usage_cores);
        self.burns.relate(own);
        let of_quota = |cores: f64| sample.quota_cores.map(|quota| cores / quota).filter(|ratio| ratio.is_finite());
        let (usage_ratio, demand_ratio) = (of_quota(sample.usage_cores), of_quota(demand));
        let throttled = demand::share(sample.throttled_share);
        let full_stalled = demand::share(sample.full_stalled);
        let bursts = self.settings.throttled_threshold.is_some_and(|least| throttled.is_some_and(|share| share >= least));
        let level = usage_ratio.map(|usage| if bursts { usage.max(demand_ratio.unwrap_or(usage)) } else { usage });
        let saturated = usage_ratio.is_some_and(|ratio| ratio >= self.settings.threshold);
        let load = sample.quota_cores.map(|quota_cores| Load {
            quota_cores,
            demand_cores: demand,
            usage_cores: self.demand.usage_cores().unwrap_or(sample.usage_cores),
            own_cores: own,
            at: self.clock.time,
        });
        let reason = if saturated { EvictReason::Saturated } else { EvictReason::Throttled };
        self.last = Some(Reading { quota_cores: sample.quota_cores, usage_ratio, demand_ratio, full_stalled, reason, load });
        self.gauges.quota_source = sample.quota_source;
        self.gauges.throttled_share = throttled;
        self.gauges.demand_cores = Some(demand);
        self.gauges.unattributed_ratio = (own > 0.0).then(|| self.burns.unattributed_cores / own);
        // Without a quota's throttling to explain it: others have the processors.
        let stalled = self.settings.node_stalled.is_some_and(|least| full_stalled.is_some_and(|share| share >= least));
        let contended = stalled && throttled.is_none_or(|share| share < self.settings.throttled_threshold.unwrap_or(0.25));
        match level {
            Some(level) if level >= self.settings.threshold => Seen::Hot,
            _ if contended => Seen::Node,
            Some(level) if level >= self.settings.recover => Seen::Between,
            _ => Seen::Calm,
        }
    }

    fn tell(&self, turns: &[Turn], actions: &mut Vec<Action<K>>) {
        let enforced = self.settings.mode.enforces();
        let usage_ratio = self.last.and_then(|reading| reading.usage_ratio);
        let demand_ratio = self.last.and_then(|reading| reading.demand_ratio);
        let full_stalled = self.last.and_then(|reading| reading.full_stalled);
        for turn in turns {
            match *turn {
                Turn::Began(bound) => {
                    actions.push(Action::OverloadBegan { bound, enforced, usage_ratio, demand_ratio });
                    if bound == Bound::Node {
                        actions.push(Action::Alert(Alert::NodeContended { full_stalled }));
                    }
                }
                Turn::Ended { how, unready_for } => {
                    actions.push(Action::OverloadEnded { how, enforced, usage_ratio, unready_for });
                }
                Turn::HeldBack => actions.push(Action::Alert(Alert::HeldBack { ready_share: self.guard.ready_share() })),
                Turn::Lost { strikes } => actions.push(Action::Alert(Alert::SignalLost { strikes })),
            }
        }
    }

    fn tell_readiness(&self, now: Instant, actions: &mut Vec<Action<K>>) {
        if !self.settings.mode.enforces() {
            return;
        }
        actions.push(match self.machine.overload.and_then(|overload| overload.unready_at.map(|at| (overload.bound, at))) {
            Some((bound, at)) => Action::Unready { bound, since: self.clock.instant(at, now) },
            None => Action::Ready,
        });
    }

    fn round(&mut self, now: Instant, actions: &mut Vec<Action<K>>) {
        let Some(reading) = self.last else { return };
        let Some(load) = reading.load else { return };
        let outcome = self.setting(load, now).outcome(false);
        let (excess_cores, count) = (outcome.excess_cores, outcome.chosen.len());
        if count == 0 {
            let passed_over = outcome.passed_over.iter().map(|(_, why)| *why);
            let spared = Explanation::<K>::tally(outcome.spared.iter().map(|(_, _, why)| *why).chain(passed_over));
            let untold = self.machine.overload.as_mut().filter(|overload| !overload.told_no_victim && excess_cores > 0.0);
            if let Some(overload) = untold {
                overload.told_no_victim = true;
                actions.push(Action::Alert(Alert::NothingToEvict { excess_cores, spared }));
            }
            return;
        }
        let mut evictions = Vec::with_capacity(count);
        for (place, index) in outcome.chosen.iter().enumerate() {
            let one = &outcome.ranked[*index];
            evictions.push(Eviction {
                age: one.candidate.age,
                burn_cores: one.candidate.burn_cores,
                class: one.candidate.class,
                cost_cores: one.candidate.cost_cores,
                demand_ratio: reading.demand_ratio.unwrap_or(0.0),
                evictions: one.candidate.evictions_so_far.saturating_add(1),
                id: one.id.clone(),
                identity: one.identity,
                position: self.burns.get(one.id).and_then(|tracked| tracked.position),
                reason: reading.reason,
                retry_after: self.retry_after(place, count),
                usage_ratio: reading.usage_ratio.unwrap_or(0.0),
            });
        }
        let time = self.clock.time;
        for eviction in evictions {
            if let Some(identity) = eviction.identity {
                let brought = self.burns.get(&eviction.id).map(|tracked| tracked.brought).unwrap_or_default();
                self.memory.remember(identity, brought, time, self.settings.cool_off);
            }
            self.burns.take(&eviction.id, time);
            actions.push(if self.settings.mode.enforces() { Action::Evict(eviction) } else { Action::WouldEvict(eviction) });
        }
        self.machine.evicted(time);
        if self.settings.mode.enforces() {
            self.demand.forget();
        }
    }

    /// Those of one round come again one after the other, not all at once.
    fn retry_after(&self, place: usize, count: usize) -> Duration {
        let (place, count) = (u32::try_from(place).unwrap_or(u32::MAX), u32::try_from(count).unwrap_or(u32::MAX));
        let behind =
            self.settings.retry_spread.checked_mul(place).map_or(self.settings.retry_spread, |spread| spread / count.max(1));
        self.settings.retry_after.saturating_add(behind)
    }

    fn count_unready(&mut self) {
        let time = self.clock.time;
        if self.is_overloaded() {
            self.gauges.unready = self.gauges.unready.saturating_add(time.saturating_sub(self.counted));
        }
        self.counted = time;
    }

    fn gauge(&mut self) {
        let reading = self.last;
        self.gauges.overloaded = self.is_overloaded();
        self.gauges.streams = self.burns.len();
        self.gauges.quota_cores = reading.and_then(|reading| reading.quota_cores);
        self.gauges.usage_ratio = reading.and_then(|reading| reading.usage_ratio);
        self.gauges.demand_ratio = reading.and_then(|reading| reading.demand_ratio);
        self.gauges.full_stalled = reading.and_then(|reading| reading.full_stalled);
        if reading.is_none() {
            (self.gauges.demand_cores, self.gauges.unattributed_ratio, self.gauges.throttled_share) = (None, None, None);
            self.gauges.quota_source = None;
        }
        self.gauges.predicted_ratio = reading.and_then(|reading| reading.load).zip(self.now).map(|(load, now)| {
            let taken = self.setting(load, now).taken_cores();
            ((load.demand_cores - taken) / load.quota_cores).max(0.0)
        });
    }
}
