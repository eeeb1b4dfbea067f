//! Several planners at once: every plan is applied once, on the table that it was made for, or not at all.

use std::sync::Arc;

use keywake::placement::{ApplyError, Fleet, Index, Owner, Refused, TableReader, TableStore, Version};
use tokio::sync::Barrier;

use crate::{
    clients::{changes, fleet, nats_at, owner, postgres_at, put},
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
