//! Several planners at once: every plan is applied once, on the table that it was made for, or not at all.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use keywake::placement::{
    ApplyError, Balancer, Changes, Cores, Fleet, Index, Owner, OwnerLoad, Planner, Refused, Report, ReportStore, RunOutcome,
    Settings, StoreError, Table, TableReader, TableStore, Version,
};
use tokio::sync::Barrier;

use crate::{
    clients::{changes, fleet, nats_at, owner, postgres_at, put, redis_at, report},
    servers::{Kind, Server},
};

const ROUNDS: u32 = 25;

/// Both read the same version and plan on it; one is applied, and the other, refused, sees what the first one did.
async fn one_of_two_plans_is_applied<S: TableStore + 'static>(stores: [S; 2]) {
    let barrier = Arc::new(Barrier::new(2));
    let planners = stores.into_iter().enumerate().map(|(planner, store)| {
        let barrier = Arc::clone(&barrier);
        tokio::spawn(async move {
            let reader = TableReader::new(fleet("fleet"));
            let mut outcomes = Vec::new();
            for round in 0..ROUNDS {
                barrier.wait().await;
                assert!(reader.refresh(&store).await.is_current());
                let base = reader.table().version();
                barrier.wait().await;
                // Each would fill the same free process.
                let moved = format!("owner-{round}-{planner}");
                let applied = store.apply(&changes(&fleet("fleet"), base, vec![put(&moved, round)])).await;
                outcomes.push((base, applied));
            }
            outcomes
        })
    });
    let mut outcomes = Vec::new();
    for planner in planners.collect::<Vec<_>>() {
        outcomes.push(planner.await.unwrap());
    }
    let (second, first) = (outcomes.pop().unwrap(), outcomes.pop().unwrap());
    let mut last = Version::NONE;
    for ((base, one), (other_base, other)) in first.into_iter().zip(second) {
        assert_eq!(base, other_base);
        let (applied, refused) = if one.is_ok() { (one, other) } else { (other, one) };
        let next = applied.unwrap();
        assert!(base == last && next > base);
        last = next;
        match refused {
            Err(ApplyError::Refused(Refused::Conflict { base: told, found, .. })) => assert_eq!((told, found), (base, next)),
            other => panic!("the second plan came to {other:?}"),
        }
    }
}

async fn add_one(store: &impl TableStore, fleet: &Fleet, counter: &Owner) {
    loop {
        let table = store.read(fleet).await.unwrap();
        let index = table.row(counter).map_or(0, |row| row.index.0);
        match store.apply(&changes(fleet, table.version(), vec![put(counter.as_str(), index + 1)])).await {
            Ok(_) => return,
            Err(ApplyError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What is read, changed and written by many loses nothing.
async fn no_change_is_lost<S: TableStore + 'static>(stores: Vec<S>) {
    let writers = u32::try_from(stores.len()).unwrap();
    let stores: Vec<_> = stores.into_iter().map(Arc::new).collect();
    let tasks = stores.iter().cloned().map(|store| {
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                add_one(&*store, &fleet("counted"), &owner("counter")).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let table = stores[0].read(&fleet("counted")).await.unwrap();
    assert_eq!(table.row(&owner("counter")).unwrap().index, Index(writers * ROUNDS));
}

/// A table that is changed only when both of its writers want to.
struct Together<'a, S> {
    store: &'a S,
    both: &'a Barrier,
}

impl<S: TableStore> TableStore for Together<'_, S> {
    async fn read(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        self.store.read(fleet).await
    }

    async fn apply(&self, changes: &Changes) -> Result<Version, ApplyError> {
        self.both.wait().await;
        self.store.apply(changes).await
    }
}

/// A window of each process: 0 is above the high mark, 1 and 2 are not.
fn uneven(fleet: &Fleet, number: u64) -> Vec<Report> {
    let loads: [&[(&str, u64)]; 3] = [&[("a", 400), ("b", 300), ("c", 150)], &[("d", 300)], &[("e", 200)]];
    let reports = (0..).zip(loads).map(|(index, loads)| {
        let mut report = report(fleet, index, 1, number);
        report.owners =
            loads.iter().map(|(name, milli)| OwnerLoad { owner: owner(name), cores: Cores::from_milli(*milli) }).collect();
        report.process = report.owners.iter().map(|load| load.cores).sum();
        report
    });
    reports.collect()
}

/// Two whole balancers, each with stores of its own, see the same and plan the same: one of them moves it, once.
async fn one_of_two_balancers_moves(tables: [impl TableStore; 2], reports: [impl ReportStore; 2]) {
    let fleet = fleet("balanced");
    let places = [("a", 0), ("b", 0), ("c", 0), ("d", 1), ("e", 2)].map(|(name, index)| put(name, index));
    tables[0].apply(&changes(&fleet, Version::NONE, places.into())).await.unwrap();
    let mut settings = Settings::default();
    (settings.warm_up, settings.cooldown) = (1, Duration::ZERO);
    let planner = || Planner::new(settings.clone()).unwrap();
    let (mut left, mut right) = (Balancer::new(fleet.clone(), planner()), Balancer::new(fleet.clone(), planner()));
    let readers = [TableReader::new(fleet.clone()), TableReader::new(fleet.clone())];
    let (both, now) = (Barrier::new(2), Instant::now());
    // Only what is seen to advance is believed: the first window moves nobody.
    for number in [1, 2] {
        for report in uneven(&fleet, number) {
            reports[0].put(&report).await.unwrap();
        }
        if number == 1 {
            for (balancer, index) in [(&mut left, 0), (&mut right, 1)] {
                let run = balancer.run(&readers[index], &tables[index], &reports[index], 3, now).await;
                assert!(matches!(run.outcome, RunOutcome::Nothing), "{run:?}");
            }
        }
    }
    let [one, two] = [0, 1].map(|index| Together { store: &tables[index], both: &both });
    let (one, two) =
        tokio::join!(left.run(&readers[0], &one, &reports[0], 3, now), right.run(&readers[1], &two, &reports[1], 3, now));
    assert_eq!(one.plan.moves, two.plan.moves);
    assert_eq!(one.plan.moves.len(), 1, "{one:?}");
    let outcomes = [&one.outcome, &two.outcome];
    let refused = |outcome: &RunOutcome| matches!(outcome, RunOutcome::NotApplied(ApplyError::Refused(Refused::Conflict { .. })));
    let applied = |outcome: &RunOutcome| matches!(outcome, RunOutcome::Applied(_));
    assert_eq!(outcomes.iter().filter(|outcome| applied(outcome)).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| refused(outcome)).count(), 1, "{outcomes:?}");
    // Both see it, and neither has anything left to do.
    for (balancer, index) in [(&mut left, 0), (&mut right, 1)] {
        let run = balancer.run(&readers[index], &tables[index], &reports[index], 3, now).await;
        assert!(matches!(run.outcome, RunOutcome::Nothing), "{run:?}");
        assert_eq!(readers[index].resolve(&owner("b"), 3).unwrap().index, Index(2));
    }
    assert_eq!(left.stats().moves + right.stats().moves, 1);
}

#[tokio::test]
async fn one_of_two_balancers_moves_in_redis_and_postgres() {
    let (Some(redis), Some(postgres)) = (Server::start(Kind::Redis), Server::start(Kind::Postgres)) else { return };
    let tables = [postgres_at(postgres.address()), postgres_at(postgres.address())];
    tables[0].migrate().await.unwrap();
    one_of_two_balancers_moves(tables, [redis_at(redis.address()), redis_at(redis.address())]).await;
}

#[tokio::test]
async fn one_of_two_balancers_moves_in_nats() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let stores = [nats_at(&server).await, nats_at(&server).await];
    Box::pin(one_of_two_balancers_moves(stores.clone(), stores)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_plans_is_applied_in_postgres() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = || postgres_at(server.address());
    store().migrate().await.unwrap();
    one_of_two_plans_is_applied([store(), store()]).await;
    no_change_is_lost((0..4).map(|_| store()).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_plans_is_applied_in_nats() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    one_of_two_plans_is_applied([nats_at(&server).await, nats_at(&server).await]).await;
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(nats_at(&server).await);
    }
    no_change_is_lost(stores).await;
}
