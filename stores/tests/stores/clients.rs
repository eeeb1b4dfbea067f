//! The stores of a server, and ways past them into what they hold.

use std::{net::SocketAddr, time::Duration};

use keywake::placement::{ApplyError, Change, Changes, Fleet, Index, Owner, Report, StoreError, Table, TableStore, Version};
use keywake_stores::{NatsStore, PostgresTable, RedisReports};

use crate::servers::Server;

/// Turns a hang into a failure, no more.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn fleet(name: &str) -> Fleet {
    Fleet::new(name).unwrap()
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

pub(crate) fn put(name: &str, index: u32) -> Change {
    Change::Put { owner: owner(name), index: Index(index), pinned: false }
}

pub(crate) fn changes(fleet: &Fleet, base: Version, changes: Vec<Change>) -> Changes {
    Changes { fleet: fleet.clone(), base, changes }
}

/// The `number`th window of a process.
pub(crate) fn report(fleet: &Fleet, index: u32, run: u64, number: u64) -> Report {
    Report::new(fleet.clone(), Index(index), 3, run, number, Duration::from_secs(60))
}

pub(crate) fn redis_at(address: SocketAddr) -> RedisReports {
    RedisReports::new(&format!("redis://{address}/")).unwrap()
}

pub(crate) fn postgres_address(address: SocketAddr) -> String {
    format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port())
}

pub(crate) fn postgres_at(address: SocketAddr) -> PostgresTable {
    PostgresTable::new(&postgres_address(address)).unwrap()
}

/// Once the client is connected, which happens behind its back.
pub(crate) async fn nats_at(server: &Server) -> NatsStore {
    let store = NatsStore::connect(server.address().to_string()).await.unwrap();
    until("NATS is connected", async || store.create_buckets(1).await.is_ok()).await;
    store
}

pub(crate) async fn postgres_client(server: &Server) -> tokio_postgres::Client {
    let address = postgres_address(server.address());
    let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Tries until it holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let trying = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, trying).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Several handles of one table, taken in turns: writers in different processes.
#[derive(Debug)]
pub(crate) struct Several<S> {
    handles: Vec<S>,
    next: std::sync::atomic::AtomicUsize,
}

impl<S> Several<S> {
    pub(crate) fn of(handles: Vec<S>) -> Self {
        Self { handles, next: 0.into() }
    }

    fn next(&self) -> &S {
        // Relaxed: any will do.
        let next = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        &self.handles[next % self.handles.len()]
    }
}

impl<S: TableStore> TableStore for Several<S> {
    async fn read(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        self.next().read(fleet).await
    }

    async fn apply(&self, changes: &Changes) -> Result<Version, ApplyError> {
        self.next().apply(changes).await
    }
}
