//! The fleet as it is after the moves decided so far.

use super::{
    plan::{BlockedReason, Figures, MarksBelow, Move},
    settings::Settings,
    view::{FleetView, OwnerView, ProcessState, ProcessView},
};
use crate::placement::{
    cores::Cores,
    name::{Index, Owner},
};

pub(super) struct Simulation<'a> {
    settings: &'a Settings,
    view: &'a FleetView,
    loads: Vec<Cores>,
    /// Those that report and were above the high mark at some time in this run.
    hot: Vec<Hot<'a>>,
    /// For each process, the places among its owners of those who left, sorted. Who came is in the load, and is not moved again.
    gone: Vec<Vec<usize>>,
    /// Whether somebody came.
    joined: Vec<bool>,
}

/// A process to be relieved.
struct Hot<'a> {
    process: usize,
    /// Who may leave it and is worth a move, by weight, then by name: weight, owner, place among its owners. Who came is not among them.
    free: Vec<(Cores, &'a Owner, usize)>,
}

/// What one owner could do for its process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Cooling,
    /// It could go, if there were a place.
    Free,
    /// Wherever it goes is as hot as its process is.
    Heavy,
    /// Without it its process is as hot as it is.
    Light,
    Pinned,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(settings: &'a Settings, view: &'a FleetView) -> Self {
        let loads: Vec<_> = view.processes.iter().map(ProcessView::load).collect();
        let (gone, joined) = (vec![Vec::new(); loads.len()], vec![false; loads.len()]);
        let mut simulation = Self { settings, view, loads, hot: Vec::new(), gone, joined };
        simulation.above_high().into_iter().for_each(|process| simulation.heat(process));
        simulation
    }

    pub(super) fn loads(&self) -> &[Cores] {
        &self.loads
    }

    pub(super) fn load(&self, process: usize) -> Cores {
        self.loads[process]
    }

    fn reports(&self, process: usize) -> bool {
        self.view.processes[process].state == ProcessState::Reporting
    }

    /// Processes that report and are above the high mark, by index.
    pub(super) fn above_high(&self) -> Vec<usize> {
        (0..self.loads.len()).filter(|&process| self.reports(process) && self.loads[process] > self.settings.high).collect()
    }

    /// `process`, of which nobody has left yet, is to be relieved.
    fn heat(&mut self, process: usize) {
        let owners = self.view.processes[process].owners.iter().enumerate();
        let movable = owners.filter(|(_, owner)| owner.weight >= self.settings.min_gain && !owner.pinned && !self.cools(owner));
        let mut free: Vec<_> = movable.map(|(place, owner)| (owner.weight, &owner.owner, place)).collect();
        free.sort_unstable();
        self.hot.push(Hot { process, free });
    }

    /// Makes the best legal move off the hottest process that has one.
    pub(super) fn relieve(&mut self) -> Option<Move> {
        let destination = self.destination()?;
        let relievable = self.hot.iter().filter(|hot| {
            let load = self.loads[hot.process];
            // If anybody may go, the lightest may.
            let lightest = hot.free.first().map(|(weight, ..)| *weight);
            load > self.settings.low && lightest.is_some_and(|weight| Some(weight) <= self.most(hot.process, destination))
        });
        // Of equals the first.
        let hottest = relievable.min_by_key(|hot| (std::cmp::Reverse(self.loads[hot.process]), hot.process))?;
        let (source, place) = (hottest.process, self.best(hottest, destination)?);
        Some(self.carry_out(source, place, destination))
    }

    /// Where owners would go: whoever it is, the coldest is the best, and where it is not legal none is. (For the coldest itself none is: all
    /// others are as hot.)
    fn destination(&self) -> Option<usize> {
        let open = |&process: &usize| self.reports(process) && self.loads[process] < self.settings.high;
        (0..self.loads.len()).filter(open).min_by_key(|&process| (self.loads[process], process))
    }

    /// What an owner may weigh at most that goes from `source` to `destination`: that one is then `min_gain` below what the source was. `None`
    /// where nobody may.
    fn most(&self, source: usize, destination: usize) -> Option<Cores> {
        let (from, to) = (self.loads[source].nanos(), self.loads[destination].nanos());
        Some(Cores::from_nanos(from.checked_sub(to)?.checked_sub(self.settings.min_gain.nanos())?))
    }

    /// The owner whose move off `source` to `destination` leaves the smallest worst of both, if any is legal: its place at the source.
    fn best(&self, hot: &Hot<'_>, destination: usize) -> Option<usize> {
        let (from, to, most) = (self.loads[hot.process], self.loads[destination], self.most(hot.process, destination)?);
        let legal = &hot.free[..hot.free.partition_point(|(weight, ..)| *weight <= most)];
        // The worst falls as long as it is the source, and rises from where it is the destination: the best is next to there.
        let half = from.saturating_sub(to).scale(1, 2);
        let (lighter, heavier) = legal.split_at(legal.partition_point(|(weight, ..)| *weight <= half));
        // Of equals the first by name.
        let lighter = lighter.last().map(|(weight, ..)| lighter[lighter.partition_point(|(other, ..)| other < weight)]);
        let both = [lighter, heavier.first().copied()].into_iter().flatten();
        both.min_by_key(|(weight, ..)| (from.saturating_sub(*weight).max(to + *weight), *weight)).map(|(.., place)| place)
    }

    fn cools(&self, owner: &OwnerView) -> bool {
        owner.moved_at.is_some_and(|at| self.view.now.since(at) < self.settings.cooldown)
    }

    fn use_of(&self, process: usize, place: usize, owner: &OwnerView) -> Use {
        let least_left = self.loads[process].saturating_sub(self.settings.min_gain);
        match owner.weight {
            weight if weight < self.settings.min_gain => Use::Light,
            _ if owner.pinned => Use::Pinned,
            _ if self.gone[process].binary_search(&place).is_ok() || self.cools(owner) => Use::Cooling,
            weight if weight > least_left => Use::Heavy,
            _ => Use::Free,
        }
    }

    fn carry_out(&mut self, source: usize, place: usize, destination: usize) -> Move {
        let OwnerView { owner, weight, .. } = &self.view.processes[source].owners[place];
        let (from, to) = (self.loads[source], self.loads[destination]);
        self.loads[source] = from.saturating_sub(*weight);
        self.loads[destination] = to + *weight;
        let at = self.gone[source].binary_search(&place).unwrap_or_else(|at| at);
        self.gone[source].insert(at, place);
        self.joined[destination] = true;
        for hot in self.hot.iter_mut().filter(|hot| hot.process == source) {
            hot.free.retain(|(.., other)| *other != place);
        }
        if self.loads[destination] > self.settings.high && self.hot.iter().all(|hot| hot.process != destination) {
            self.heat(destination);
        }
        Move {
            owner: owner.clone(),
            weight: *weight,
            from: Index::of(source),
            to: Index::of(destination),
            source: (from, self.loads[source]),
            destination: (to, self.loads[destination]),
        }
    }

    /// Why `process`, which is above the high mark, has no legal move; `None` where it has one.
    pub(super) fn blocked(&self, process: usize) -> Option<BlockedReason> {
        let destination = self.destination();
        let hot = self.hot.iter().find(|hot| hot.process == process);
        if hot.zip(destination).and_then(|(hot, destination)| self.best(hot, destination)).is_some() {
            return None;
        }
        let here = self.view.processes[process].owners.iter().enumerate();
        let stayed = here.filter(|(place, _)| self.gone[process].binary_search(place).is_err());
        let mut uses: Vec<_> = stayed.map(|(place, owner)| self.use_of(process, place, owner)).collect();
        // Who came in this run is not moved again.
        uses.extend(self.joined[process].then_some(Use::Cooling));
        let any = |of: Use| uses.contains(&of);
        Some(match () {
            () if any(Use::Free) && destination.is_none() => BlockedReason::NoDestination,
            () if any(Use::Free) => BlockedReason::NoImprovement,
            () if any(Use::Heavy) => BlockedReason::Unsplittable,
            () if any(Use::Cooling) => BlockedReason::Cooldown,
            () if any(Use::Pinned) => BlockedReason::Pinned,
            () if any(Use::Light) => BlockedReason::NoImprovement,
            () => BlockedReason::Unattributed,
        })
    }

    /// With `of_owners`, the floor that single owners set.
    pub(super) fn figures(&self, of_owners: Cores) -> Figures {
        let processes = u64::try_from(self.loads.len()).unwrap_or(u64::MAX);
        let total: Cores = self.loads.iter().copied().sum();
        let fair_share = total.scale(1, processes);
        // Rounded up, so that a mark at the fair share is not above it by what was cut.
        let below = |mark: Cores| u128::from(total.nanos()) > u128::from(mark.nanos()) * u128::from(processes);
        let reporting = || {
            (0..self.loads.len())
                .filter(|&process| self.reports(process))
                .map(|process| (Index::of(process), self.loads[process]))
        };
        Figures {
            total,
            fair_share,
            floor: of_owners.max(fair_share),
            hottest: reporting().min_by_key(|(index, load)| (std::cmp::Reverse(*load), *index)),
            coldest: reporting().min_by_key(|(index, load)| (*load, *index)),
            marks_below_fair_share: match (processes > 0 && below(self.settings.low), below(self.settings.high)) {
                (true, true) => MarksBelow::Both,
                (true, false) => MarksBelow::Low,
                (false, _) => MarksBelow::None,
            },
        }
    }
}
