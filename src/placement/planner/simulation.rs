//! The fleet as it is after the moves decided so far.

use super::{
    plan::{BlockedReason, Figures, MarksBelow, Move},
    settings::Settings,
    view::{FleetView, OwnerView, ProcessState},
};
use crate::placement::{cores::Cores, name::Index};

pub(super) struct Simulation<'a> {
    settings: &'a Settings,
    view: &'a FleetView,
    loads: Vec<Cores>,
    /// Was above the high mark at some time in this run.
    hot: Vec<bool>,
    /// Has no legal move as things stand.
    stuck: Vec<bool>,
    /// (process, place among its owners) of those who left, for each process, sorted. Who came is in the load, and is not moved again.
    gone: Vec<Vec<usize>>,
    /// Whether somebody came.
    joined: Vec<bool>,
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
        let loads: Vec<_> = view.processes.iter().map(super::view::ProcessView::load).collect();
        let hot = loads.iter().map(|load| *load > settings.high).collect();
        let none = vec![false; loads.len()];
        Self { settings, view, hot, stuck: none.clone(), gone: vec![Vec::new(); loads.len()], joined: none, loads }
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

    /// Makes the best legal move off the hottest process that has one.
    pub(super) fn relieve(&mut self) -> Option<Move> {
        loop {
            let relievable = |&process: &usize| {
                self.hot[process] && !self.stuck[process] && self.reports(process) && self.loads[process] > self.settings.low
            };
            // Of equals the first.
            let source = (0..self.loads.len())
                .filter(relievable)
                .min_by_key(|&process| (std::cmp::Reverse(self.loads[process]), process))?;
            match self.best(source) {
                Some((place, destination)) => return Some(self.carry_out(source, place, destination)),
                None => self.stuck[source] = true,
            }
        }
    }

    /// Where owners of `source` would go: whatever the owner, the coldest is the best, and where it is not legal none is.
    fn destination(&self, source: usize) -> Option<usize> {
        let open = |&process: &usize| process != source && self.reports(process) && self.loads[process] < self.settings.high;
        (0..self.loads.len()).filter(open).min_by_key(|&process| (self.loads[process], process))
    }

    /// The best legal move off `source`: the owner's place there, and where to.
    fn best(&self, source: usize) -> Option<(usize, usize)> {
        let destination = self.destination(source)?;
        let (from, to) = (self.loads[source], self.loads[destination]);
        let owners = self.view.processes[source].owners.iter().enumerate();
        let legal = owners.filter_map(|(place, owner)| {
            if self.use_of(source, place, owner) != Use::Free {
                return None;
            }
            let worst = from.saturating_sub(owner.weight).max(to + owner.weight);
            (worst + self.settings.min_gain <= from).then_some((worst, owner.weight, &owner.owner, place))
        });
        legal.min().map(|(.., place)| (place, destination))
    }

    fn use_of(&self, process: usize, place: usize, owner: &OwnerView) -> Use {
        let cooling = || owner.moved_at.is_some_and(|at| self.view.now.since(at) < self.settings.cooldown);
        let least_left = self.loads[process].saturating_sub(self.settings.min_gain);
        match owner.weight {
            weight if weight < self.settings.min_gain => Use::Light,
            _ if owner.pinned => Use::Pinned,
            _ if self.gone[process].binary_search(&place).is_ok() || cooling() => Use::Cooling,
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
        self.hot[destination] |= self.loads[destination] > self.settings.high;
        // What was stuck for want of a place may not be any more.
        self.stuck.fill(false);
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
        if self.best(process).is_some() {
            return None;
        }
        let here = self.view.processes[process].owners.iter().enumerate();
        let stayed = here.filter(|(place, _)| self.gone[process].binary_search(place).is_err());
        let mut uses: Vec<_> = stayed.map(|(place, owner)| self.use_of(process, place, owner)).collect();
        // Who came in this run is not moved again.
        uses.extend(self.joined[process].then_some(Use::Cooling));
        let any = |of: Use| uses.contains(&of);
        Some(match () {
            () if any(Use::Free) && self.destination(process).is_none() => BlockedReason::NoDestination,
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
