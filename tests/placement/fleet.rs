//! Fleets in a notation: what the other files hand to the planner, and what they read out of its plan.

use std::time::{Duration, Instant};

use keywake::placement::{
    BlockedReason, Cores, Fleet, FleetView, Index, Owner, OwnerLoad, OwnerView, Plan, Planner, ProcessState, ProcessView, Report,
    Settings, StoreTime, Version,
};

pub(crate) use crate::random::Random;

pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// The store's time in every view.
pub(crate) const NOW: StoreTime = StoreTime(Duration::from_secs(1_000_000));

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(name).expect("a name")
}

pub(crate) fn fleet(name: &str) -> Fleet {
    Fleet::new(name).expect("a name")
}

pub(crate) fn milli(milli: u64) -> Cores {
    Cores::from_milli(milli)
}

impl Random {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    pub(crate) fn small(&mut self, most: u64) -> u32 {
        u32::try_from(self.below(most)).unwrap_or_default()
    }

    pub(crate) fn place(&mut self, most: u64) -> usize {
        usize::try_from(self.below(most)).unwrap_or_default()
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let at = self.place(last as u64 + 1);
            all.swap(last, at);
        }
    }
}

/// `"a 400, b* 300"`: owners and their weights in milli-cores, `*` for pinned, `~3599` behind one for moved so many seconds ago.
pub(crate) fn process(owners: &str) -> ProcessView {
    let mut process = ProcessView::new(ProcessState::Reporting);
    // Ahead of now where the sign says so.
    let at = |ago: i64| StoreTime(Duration::from_secs(NOW.0.as_secs().saturating_add_signed(-ago)));
    for one in owners.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let (named, weight) = one.split_once(' ').expect("a name and a weight");
        let (weight, moved) = weight.split_once('~').map_or((weight, None), |(weight, ago)| (weight, Some(ago)));
        process.owners.push(OwnerView {
            owner: owner(named.trim_end_matches('*')),
            weight: milli(weight.parse().expect("milli-cores")),
            pinned: named.ends_with('*'),
            moved_at: moved.map(|ago| at(ago.parse().expect("seconds"))),
        });
    }
    process
}

pub(crate) fn view(processes: &[&str]) -> FleetView {
    let mut view = FleetView::new(fleet("ded"), Version(17), NOW);
    view.processes = processes.iter().map(|owners| process(owners)).collect();
    view
}

pub(crate) fn planner(shape: impl FnOnce(&mut Settings)) -> Planner {
    let mut settings = Settings::default();
    shape(&mut settings);
    Planner::new(settings).expect("settings that work")
}

pub(crate) fn plan(processes: &[&str]) -> Plan {
    Planner::default().plan(&view(processes))
}

/// `(owner, from, to)` of each move.
pub(crate) fn moves(plan: &Plan) -> Vec<(&str, u32, u32)> {
    plan.moves.iter().map(|it| (it.owner.as_str(), it.from.0, it.to.0)).collect()
}

pub(crate) fn blocked(plan: &Plan) -> Vec<(u32, BlockedReason)> {
    plan.blocked.iter().map(|it| (it.index.0, it.reason)).collect()
}

/// The loads after the plan, in milli-cores.
pub(crate) fn loads(plan: &Plan) -> Vec<u64> {
    plan.loads.iter().map(|load| load.nanos() / 1_000_000).collect()
}

/// The view after a plan was carried out: who was moved is where he was put, moved at `at`.
pub(crate) fn after(view: &FleetView, plan: &Plan, at: Option<StoreTime>) -> FleetView {
    let mut next = view.clone();
    for it in &plan.moves {
        let from = &mut next.processes[it.from.0 as usize].owners;
        let place = from.iter().position(|owner| owner.owner == it.owner).expect("the owner is at its source");
        let mut owner = from.remove(place);
        owner.moved_at = at;
        next.processes[it.to.0 as usize].owners.push(owner);
    }
    next
}

/// A fleet of `size` whose processes report.
pub(crate) struct Reporter {
    pub(crate) size: u32,
    pub(crate) start: Instant,
    pub(crate) minute: u32,
}

impl Reporter {
    pub(crate) fn new(size: u32) -> Self {
        Self { size, start: Instant::now(), minute: 0 }
    }

    pub(crate) fn now(&self) -> Instant {
        self.start + WINDOW * self.minute
    }

    /// The report of the process at `index` for the minute that it is.
    pub(crate) fn report(&self, index: u32, owners: &[(&str, u64)]) -> Report {
        let mut report = Report::new(fleet("ded"), Index(index), self.size, 1, u64::from(self.minute) + 1, WINDOW);
        report.owners = owners.iter().map(|(name, cores)| OwnerLoad { owner: owner(name), cores: milli(*cores) }).collect();
        report.process = report.owners.iter().map(|load| load.cores).sum();
        report
    }
}
