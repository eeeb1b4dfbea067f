//! One round: who may go, what each would free, and who goes.

use std::time::{Duration, Instant};

use super::{
    burns::{Burns, Tracked},
    memory::Memory,
    settings::{Mode, Settings},
    victims::{self, Candidate, Caps, Ranked, Spared, VictimPolicy},
};
use crate::load::StreamClass;

/// What is known of the group at a tick, averaged over the last ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) quota_cores: f64,
    pub(super) demand_cores: f64,
    pub(super) usage_cores: f64,
    /// The process's own.
    pub(super) own_cores: f64,
    /// When it was read, by the evictor's time.
    pub(super) at: Duration,
}

impl Load {
    /// The process's share of what the group uses: others in the group have to shed theirs.
    fn own_share(&self) -> f64 {
        if self.usage_cores > self.own_cores { self.own_cores / self.usage_cores } else { 1.0 }
    }

    /// What the process would have to do without, in cores.
    pub(super) fn excess_cores(&self, target: f64) -> f64 {
        (self.demand_cores - target * self.quota_cores) * self.own_share()
    }
}

/// By what burns are multiplied to make costs of them.
///
/// Where a quota holds streams back, those that want much get less than they want, and those that want little get it. So what was wanted and
/// not had is attributed to those that burn at least half as much as the greediest one, in proportion to their burn: exact where processors
/// are shared fairly. What nobody's burn explains is nobody's here either.
#[derive(Clone, Copy, Debug)]
struct Costs {
    from_cores: f64,
    factor: f64,
}

impl Costs {
    fn new<K: Clone + Ord>(burns: &Burns<K>, load: &Load) -> Self {
        let held_back = (load.demand_cores * load.own_share() - load.own_cores).max(0.0);
        let attributed = if load.own_cores > 0.0 { (burns.attributed_cores / load.own_cores).min(1.0) } else { 0.0 };
        let from_cores = burns.highest_cores / 2.0;
        let greedy: f64 =
            burns.iter().filter_map(|(_, tracked)| burns.burn(tracked)).filter(|burn| *burn > 0.0 && *burn >= from_cores).sum();
        let factor = 1.0 + held_back * attributed / greedy;
        Self { from_cores, factor: if factor.is_finite() { factor } else { 1.0 } }
    }

    fn of(&self, burn: f64) -> f64 {
        if burn >= self.from_cores { burn * self.factor } else { burn }
    }
}

/// All that a round depends on.
pub(super) struct Setting<'a, K> {
    pub(super) burns: &'a Burns<K>,
    pub(super) memory: &'a Memory,
    pub(super) settings: &'a Settings,
    pub(super) policy: &'a dyn VictimPolicy,
    pub(super) load: Load,
    pub(super) time: Duration,
    pub(super) now: Instant,
}

/// Who goes, who could, and who is spared.
pub(super) struct Outcome<'a, K> {
    pub(super) excess_cores: f64,
    /// Those that may go, in the order in which they would, if that was asked for.
    pub(super) ranked: Vec<Ranked<'a, K>>,
    /// Indices into `ranked`, in the order of their going.
    pub(super) chosen: Vec<usize>,
    /// Of `ranked`, who was passed over.
    pub(super) passed_over: Vec<(usize, Spared)>,
    pub(super) spared: Vec<(&'a K, Candidate, Spared)>,
}

impl<'a, K: Clone + Ord> Setting<'a, K> {
    fn candidate(&self, tracked: &Tracked, costs: &Costs) -> Candidate {
        let burn_cores = self.burns.burn(tracked).unwrap_or(0.0);
        Candidate {
            age: self.now.saturating_duration_since(tracked.started),
            burn_cores,
            class: tracked.class,
            cost_cores: costs.of(burn_cores),
            evictions_so_far: self.memory.times(tracked.identity, tracked.brought),
            resume_cost: tracked.resume_cost,
        }
    }

    /// Whether somebody besides burns as much as would count.
    fn burners(&self) -> usize {
        let counts = |tracked: &&Tracked| {
            let burn = self.burns.burn(tracked).unwrap_or(0.0);
            tracked.taken.is_none() && burn > 0.0 && burn >= self.settings.min_burn_cores
        };
        self.burns.iter().map(|(_, tracked)| tracked).filter(counts).take(2).count()
    }

    fn rank(&self, tracked: &Tracked, candidate: &Candidate, burners: usize) -> Result<victims::Rank, Spared> {
        let Settings { mode, min_age, min_burn_cores, cool_off, .. } = self.settings;
        if tracked.taken.is_some() {
            return Err(Spared::Taken);
        }
        if *mode == Mode::DevOnly && candidate.class != StreamClass::Dev {
            return Err(Spared::OnlyDevGoes);
        }
        let rank = self.policy.rank(candidate).filter(|rank| !rank.score.is_nan()).ok_or(Spared::Unranked)?;
        if self.burns.burn(tracked).is_none() {
            return Err(Spared::Unsampled);
        }
        if candidate.age < *min_age {
            return Err(Spared::TooYoung);
        }
        if rank.cost_known && (candidate.burn_cores < *min_burn_cores || candidate.burn_cores <= 0.0) {
            return Err(Spared::BelowFloor);
        }
        if self.memory.cools(tracked.identity, tracked.brought, self.time, self.now, *cool_off) {
            return Err(Spared::CoolsOff);
        }
        if rank.cost_known && burners < 2 && candidate.cost_cores <= self.load.quota_cores {
            return Err(Spared::OnlyBurner);
        }
        Ok(rank)
    }

    /// What is in the load of those that count as gone: who was told to go since it was read, and in mode observe all who would have been.
    /// (One that was told before and burns on is a burden like any other.)
    pub(super) fn taken_cores(&self) -> f64 {
        let enforces = self.settings.mode.enforces();
        let is_gone = |tracked: &Tracked| tracked.taken.is_some_and(|at| !enforces || at >= self.load.at);
        let mut taken = self.burns.iter().filter(|(_, tracked)| is_gone(tracked)).peekable();
        if taken.peek().is_none() {
            return 0.0;
        }
        let costs = Costs::new(self.burns, &self.load);
        taken.filter_map(|(_, tracked)| self.burns.burn(tracked)).map(|burn| costs.of(burn)).sum()
    }

    /// `in_order`: all that may go are to be put in order, not only those who do.
    pub(super) fn outcome(&self, in_order: bool) -> Outcome<'a, K> {
        let costs = Costs::new(self.burns, &self.load);
        let burners = self.burners();
        let (mut ranked, mut spared, mut production) = (Vec::with_capacity(self.burns.len()), Vec::new(), 0_usize);
        for (id, tracked) in self.burns.iter() {
            production += usize::from(tracked.taken.is_none() && tracked.class != StreamClass::Dev);
            let candidate = self.candidate(tracked, &costs);
            match self.rank(tracked, &candidate, burners) {
                Ok(rank) => ranked.push(Ranked { id, identity: tracked.identity, candidate, rank }),
                Err(why) => spared.push((id, candidate, why)),
            }
        }
        let sorted = if in_order {
            victims::sort(&mut ranked);
            ranked.len()
        } else {
            0
        };
        let caps = Caps {
            round: self.settings.max_per_round.unwrap_or(usize::MAX),
            production: self.settings.max_production_share.map_or(usize::MAX, |share| part(production, share)),
            classes: &self.settings.class_caps,
        };
        let excess_cores = self.load.excess_cores(self.settings.target) - self.taken_cores();
        let (chosen, passed_over) = victims::select(&mut ranked, sorted, excess_cores, &caps);
        Outcome { excess_cores, ranked, chosen, passed_over, spared }
    }
}

/// `share` of `number`, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of at most 1 of a number of streams"
)]
fn part(number: usize, share: f64) -> usize {
    (number as f64 * share).floor() as usize
}
