//! Whole runs over a store: G39, G40, and what is lost (nothing) when the store goes, lies, or has two planners.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use keywake::placement::{
    ApplyError, Balancer, Change, Changes, EmbeddedStore, Fleet, HASH_VERSION, Index, Refused, Report, ReportStore, Run,
    RunOutcome, StoreError, StoreTime, Table, TableReader, TableStore, Version,
    store::{ReadOutcome, Reports},
};

use crate::{
    files::{Directory, now},
    fleet::{Reporter, WINDOW, fleet, milli, moves, owner, planner},
};

/// A store in memory that can be away.
struct Store {
    away: AtomicBool,
    tables: Mutex<Table>,
    reports: Mutex<Reports>,
}

impl Store {
    fn new(rows: &[(&str, u32)]) -> Self {
        let mut table = Table::new(fleet("ded"), Version(17), StoreTime::default());
        for (name, index) in rows {
            table.insert(owner(name), keywake::placement::Row::at(Index(*index)));
        }
        Self { away: AtomicBool::new(false), tables: Mutex::new(table), reports: Mutex::default() }
    }

    fn table(&self) -> Table {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer(&self) -> Result<(), StoreError> {
        if self.away.load(Ordering::Relaxed) { Err(StoreError::new("test", "ask", "connection refused")) } else { Ok(()) }
    }
}

impl TableStore for Store {
    fn read(&self, _: &Fleet) -> impl Future<Output = Result<Table, StoreError>> + Send {
        std::future::ready(self.answer().map(|()| self.table()))
    }

    fn apply(&self, changes: &Changes) -> impl Future<Output = Result<Version, ApplyError>> + Send {
        let apply = || {
            self.answer()?;
            let next = Version(changes.base.0 + 1);
            self.tables.lock().unwrap_or_else(PoisonError::into_inner).apply(changes, next, StoreTime::default())?;
            Ok(next)
        };
        std::future::ready(apply())
    }
}

impl ReportStore for Store {
    fn put(&self, report: &Report) -> impl Future<Output = Result<(), StoreError>> + Send {
        let put = || {
            self.answer()?;
            let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.reports.retain(|held| held.index != report.index);
            reports.reports.push(report.clone());
            Ok(())
        };
        std::future::ready(put())
    }

    fn read_all(&self, _: &Fleet) -> impl Future<Output = Result<Reports, StoreError>> + Send {
        std::future::ready(self.answer().map(|()| self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// The fleet of G23: a, b and c on 0, d on 1, e on 2.
const G23: [(&str, u32); 5] = [("a", 0), ("b", 0), ("c", 0), ("d", 1), ("e", 2)];

struct World {
    store: Store,
    reader: TableReader,
    balancer: Balancer,
    reporter: Reporter,
}

impl World {
    fn new(dry_run: bool) -> Self {
        Self {
            store: Store::new(&G23),
            reader: TableReader::new(fleet("ded")),
            balancer: Balancer::new(fleet("ded"), planner(|settings| settings.dry_run = dry_run)),
            reporter: Reporter::new(3),
        }
    }

    fn report(&self) {
        let weights = [400, 300, 150, 300, 200];
        for index in 0..3 {
            let table = self.store.table();
            let here = |(name, _): &&(&str, u32)| table.resolve(&owner(name), 3).is_ok_and(|at| at.index == Index(index));
            let owners: Vec<_> =
                G23.iter().zip(weights).filter(|(it, _)| here(it)).map(|((name, _), weight)| (*name, weight)).collect();
            drop(now(self.store.put(&self.reporter.report(index, &owners))));
        }
    }

    fn minute(&mut self) -> Run {
        self.reporter.minute += 1;
        self.report();
        self.run()
    }

    fn run(&mut self) -> Run {
        now(self.balancer.run(&self.reader, &self.store, &self.store, 3, self.reporter.now()))
    }

    /// Until the first move is decided.
    fn warm(&mut self) -> Run {
        for _ in 0..10 {
            let run = self.minute();
            assert!(run.plan.moves.is_empty(), "{run:?}");
        }
        self.minute()
    }
}

#[test]
fn move_is_written_once_and_the_owner_runs_there() {
    let mut world = World::new(false);
    let run = world.warm();
    assert_eq!(moves(&run.plan), [("b", 0, 2)]);
    assert!(matches!(run.outcome, RunOutcome::Applied(Version(18))), "{run:?}");
    assert_eq!(world.store.table().resolve(&owner("b"), 3).unwrap().index, Index(2));
    for _ in 0..100 {
        let run = world.minute();
        assert!(matches!(run.outcome, RunOutcome::Nothing), "{run:?}");
    }
    assert_eq!((world.balancer.stats().moves, world.store.table().version()), (1, Version(18)));
    assert_eq!(world.balancer.model().weight(&owner("b")), Some(milli(300)));
}

#[test]
fn run_hands_out_the_fleet_as_it_saw_it() {
    let mut world = World::new(true);
    world.warm();
    for _ in 0..2 {
        world.reporter.minute += 1;
        drop(now(world.store.put(&world.reporter.report(0, &[("new", 10)]))));
        world.run();
    }
    let view = world.run().view;
    let ages: Vec<_> = view.processes.iter().map(|process| process.report_age).collect();
    assert_eq!((ages, view.owners_without_row), ([0, 2, 2].map(|minutes| Some(WINDOW * minutes)).to_vec(), 1));
}

#[test]
fn dry_run_writes_nothing_and_counts() {
    let mut world = World::new(true);
    let run = world.warm();
    assert_eq!(moves(&run.plan), [("b", 0, 2)]);
    assert!(matches!(run.outcome, RunOutcome::DryRun));
    assert_eq!((world.balancer.stats().moves_dry_run, world.balancer.stats().moves), (1, 0));
    assert_eq!(world.store.table(), Store::new(&G23).table());
}

#[test]
fn of_two_planners_on_one_snapshot_one_is_refused_and_plans_anew() {
    let mut world = World::new(false);
    let mut other = Balancer::new(fleet("ded"), planner(|_| ()));
    let other_reader = TableReader::new(fleet("ded"));
    for _ in 0..10 {
        world.minute();
        let at = world.reporter.now();
        now(other.run(&other_reader, &world.store, &world.store, 3, at));
    }
    // Both plan on version 17 before either writes.
    world.reporter.minute += 1;
    world.report();
    let plans = [&world.balancer, &other].map(|balancer| {
        let table = world.store.table();
        let mut model = balancer.model().clone();
        let reports = world.store.reports.lock().unwrap().reports.clone();
        model.fold(&reports, &table, 3, world.reporter.now());
        planner(|_| ()).plan(&model.view(&table, 3, world.reporter.now(), &Default::default()))
    });
    assert_eq!(plans.each_ref().map(|plan| moves(plan)), [vec![("b", 0, 2)], vec![("b", 0, 2)]]);
    let first = now(world.store.apply(&plans[0].changes().unwrap()));
    let second = now(world.store.apply(&plans[1].changes().unwrap()));
    assert!(matches!(first, Ok(Version(18))));
    let Err(ApplyError::Refused(Refused::Conflict { base, found, .. })) = second else { panic!("{second:?}") };
    assert_eq!((base, found), (Version(17), Version(18)));
    let replanned = now(other.run(&other_reader, &world.store, &world.store, 3, world.reporter.now()));
    assert!(matches!(replanned.outcome, RunOutcome::Nothing), "it is done already: {replanned:?}");
    let loads: Vec<_> = replanned.plan.loads.iter().map(|load| load.nanos() / 1_000_000).collect();
    assert_eq!(loads, [550, 300, 500], "the two together overload nobody");
}

#[test]
fn store_that_goes_and_comes_back_loses_nothing() {
    let mut world = World::new(false);
    world.warm();
    let before = world.store.table();
    world.store.away.store(true, Ordering::Relaxed);
    for minute in 1..=5 {
        let run = world.minute();
        assert!(matches!(run.outcome, RunOutcome::TableAway(ReadOutcome::Failed(_))) && run.reports_away.is_some());
        assert_eq!(run.plan.stale_reports, if minute > 3 { 3 } else { 0 }, "minute {minute}");
        for (name, _) in G23 {
            assert_eq!(world.reader.resolve(&owner(name), 3), before.resolve(&owner(name), 3), "callers see no error");
        }
    }
    world.store.away.store(false, Ordering::Relaxed);
    let run = world.minute();
    assert!(matches!(run.outcome, RunOutcome::Nothing), "{run:?}");
    assert_eq!((run.folded.folded, run.folded.missed, run.plan.stale_reports), (3, 15, 0));
    assert_eq!(world.store.table(), before);
    assert_eq!(world.balancer.stats().store_errors, 10);
}

#[test]
fn table_that_is_suddenly_empty_is_not_planned_on() {
    let mut world = World::new(false);
    (0..10).for_each(|_| drop(world.minute()));
    *world.store.tables.lock().unwrap() = Table::new(fleet("ded"), Version(18), StoreTime::default());
    let run = world.minute();
    assert!(matches!(run.outcome, RunOutcome::TableAway(ReadOutcome::Suspect)), "{run:?}");
    assert_eq!(world.store.table().version(), Version(18));
}

#[test]
fn same_changes_twice_are_the_same_as_once() {
    // akka.net 3455: a coordinator that cannot replay its own log.
    let mut table = Table::empty(fleet("ded"));
    let changes = |base| {
        let put = Change::Put { owner: owner("a"), index: Index(3), pinned: false };
        Changes { fleet: fleet("ded"), base, changes: vec![put, Change::Remove { owner: owner("b") }] }
    };
    let at = |seconds| StoreTime(std::time::Duration::from_secs(seconds));
    table.apply(&changes(Version(0)), Version(1), at(10)).unwrap();
    let once = table.row(&owner("a")).copied();
    table.apply(&changes(Version(1)), Version(2), at(20)).unwrap();
    assert_eq!((table.row(&owner("a")).copied(), table.len()), (once, 1));
}

#[test]
fn table_of_another_hash_is_not_written() {
    let mut table = Table::empty(fleet("ded")).with_hash_version(HASH_VERSION + 1);
    let changes = Changes { fleet: fleet("ded"), base: Version::NONE, changes: Vec::new() };
    let refused = table.apply(&changes, Version(1), StoreTime::default()).unwrap_err();
    assert_eq!(refused.to_string(), "the table of ded is of hash version 2, and this release places by 1");
    assert_eq!(table.version(), Version::NONE);
}

#[test]
fn planner_killed_between_its_steps_leaves_the_table_whole() {
    // cockroach 108420: a move is one change. A file that was being written is under another name, and the lock goes with its holder.
    let directory = Directory::new();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let put = |name: &str| vec![Change::Put { owner: owner(name), index: Index(1), pinned: false }];
    now(store.apply(&Changes { fleet: fleet("ded"), base: Version::NONE, changes: put("a") })).unwrap();
    std::fs::write(directory.path().join(".ded.table.1.1"), "keywake placement table 1\nfleet d").unwrap();
    let table = now(store.read(&fleet("ded"))).unwrap();
    assert_eq!((table.version(), table.len()), (Version(1), 1));
    now(store.apply(&Changes { fleet: fleet("ded"), base: Version(1), changes: put("b") })).unwrap();
    assert!(now(store.read_all(&fleet("ded"))).unwrap().malformed.is_empty());
}

#[test]
fn many_writers_of_a_directory_apply_each_version_once() {
    let directory = Directory::new();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let write = |writer: u32| {
        let mut applied = 0;
        for turn in 0..20 {
            let base = now(store.read(&fleet("ded"))).unwrap().version();
            let change = Change::Put { owner: owner(&format!("{writer}-{turn}")), index: Index(writer), pinned: false };
            match now(store.apply(&Changes { fleet: fleet("ded"), base, changes: vec![change] })) {
                Ok(_) => applied += 1,
                Err(ApplyError::Refused(Refused::Conflict { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        applied
    };
    let applied: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let table = now(store.read(&fleet("ded"))).unwrap();
    assert_eq!((table.version().0, table.len() as u64), (applied, applied), "what was applied is there, and nothing else");
}
