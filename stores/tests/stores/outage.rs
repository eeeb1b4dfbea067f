//! Servers that die, come late, stand still or refuse: nothing that was acknowledged is lost, every owner has one place all along, and who
//! resolves owners sees no error.

use std::{
    collections::HashMap,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use keywake::placement::{ApplyError, Index, Owner, ReportStore, Table, TableReader, TableStore, Version, store::ReadOutcome};
use keywake_stores::NatsStore;

use crate::{
    clients::{
        LIMIT, changes, fleet, nats_at, owner, postgres_address, postgres_at, postgres_client, put, redis_at, report, until,
    },
    servers::{Kind, Server},
};

const PROCESSES: u32 = 3;
const OWNERS: u32 = 40;
/// How long a call may take where many are lost with their server. A call that takes longer is an error, and none of these tests minds.
const SOON: Duration = Duration::from_millis(500);

fn owners() -> impl Iterator<Item = Owner> {
    (0..OWNERS).map(|number| owner(&format!("owner-{number}")))
}

/// What its one writer knows of the table.
#[derive(Debug, Default)]
struct Known {
    rows: HashMap<Owner, Index>,
    /// Changes whose outcome nobody told, and what they were based on.
    untold: Vec<(Version, Owner, Index)>,
}

impl Known {
    /// Every row is the one that was acknowledged last, or one of which nobody knows.
    fn check(&mut self, table: &Table) {
        for (owner, index) in &self.rows {
            let found = table.row(owner).map(|row| row.index);
            let untold = self.untold.iter().any(|(_, other, index)| other == owner && found == Some(*index));
            assert!(found == Some(*index) || untold, "{owner} is at {found:?}, acknowledged at {index}, and {:?}", self.untold);
        }
        // Based on what is past, a change cannot be applied any more.
        let (decided, open) = self.untold.drain(..).partition(|(base, ..)| *base < table.version());
        self.untold = open;
        let decided: Vec<_> = decided;
        for (_, owner, _) in decided {
            if let Some(row) = table.row(&owner) {
                self.rows.insert(owner, row.index);
            }
        }
    }
}

/// What a run shares with those who take part in it.
#[derive(Debug, Default)]
struct Run {
    over: AtomicBool,
    acknowledged: AtomicU64,
}

impl Run {
    fn is_over(&self) -> bool {
        // Relaxed: a task ends one round later.
        self.over.load(Ordering::Relaxed)
    }
}

/// Moves one owner after the other, whatever happens.
async fn write(store: impl TableStore, run: Arc<Run>) -> Known {
    let mut known = Known::default();
    for (number, owner) in owners().collect::<Vec<_>>().into_iter().cycle().enumerate() {
        if run.is_over() {
            break;
        }
        // So that an owner is at another place each time round.
        let index = Index(u32::try_from(number).unwrap() % (PROCESSES + 1));
        let Ok(table) = store.read(&fleet("fleet")).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        known.check(&table);
        let applied = store.apply(&changes(&fleet("fleet"), table.version(), vec![put(owner.as_str(), index.0)])).await;
        match applied {
            Ok(version) => {
                assert!(version > table.version());
                known.untold.clear();
                known.rows.insert(owner, index);
                // Relaxed: a count.
                run.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // It was an untold change of this writer that came first.
            Err(ApplyError::Refused(_)) => assert!(!known.untold.is_empty(), "there is nobody else"),
            Err(_) => known.untold.push((table.version(), owner, index)),
        }
    }
    known
}

/// Resolves all owners all along, as a process of the fleet does.
async fn resolve(reader: Arc<TableReader>, store: impl TableStore, run: Arc<Run>) {
    let mut newest = Version::NONE;
    while !run.is_over() {
        reader.refresh(&store).await;
        let table = reader.table();
        assert!(table.version() >= newest, "the table went back from {newest} to {}", table.version());
        newest = table.version();
        for owner in owners() {
            assert!(table.resolve(&owner, PROCESSES).unwrap().index.0 < PROCESSES);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Every owner runs on one process, whichever of them is asked.
fn all_agree(readers: &[Arc<TableReader>]) {
    for owner in owners() {
        let claims = (0..PROCESSES).zip(readers);
        let claims = claims.filter(|(index, reader)| reader.resolve(&owner, PROCESSES).unwrap().index == Index(*index));
        assert_eq!(claims.count(), 1, "processes that claim {owner}");
    }
}

/// Kills the server three times while a writer writes and a fleet resolves. `store` makes a handle for each of them.
async fn nothing_is_lost<S: TableStore + 'static>(mut server: Server, store: impl AsyncFn() -> S) {
    let run = Arc::new(Run::default());
    let kept = |index: u32| -> PathBuf { server.folder().join(format!("kept-{index}")) };
    let readers: Vec<_> = (0..PROCESSES).map(|index| Arc::new(TableReader::kept_at(fleet("fleet"), kept(index)).0)).collect();
    let kept: Vec<_> = (0..PROCESSES).map(kept).collect();
    let writer = tokio::spawn(write(store().await, Arc::clone(&run)));
    let mut processes = Vec::new();
    for reader in &readers {
        processes.push(tokio::spawn(resolve(Arc::clone(reader), store().await, Arc::clone(&run))));
    }
    // Relaxed: a count.
    let acknowledged = || run.acknowledged.load(Ordering::Relaxed);
    for _ in 0..3 {
        let (before, reads) = (acknowledged(), readers.iter().map(|reader| reader.stats().reads).collect::<Vec<_>>());
        let all_went_on = || readers.iter().zip(&reads).all(|(reader, before)| reader.stats().reads > before + 2);
        until("changes go on", async || acknowledged() >= before + 20 && all_went_on()).await;
        server.kill();
        let errors: Vec<_> = readers.iter().map(|reader| reader.stats().errors).collect();
        let all_failed = || readers.iter().zip(&errors).all(|(reader, before)| reader.stats().errors > *before);
        until("reads fail", async || all_failed()).await;
        // A process that starts now, without a store, begins where it was.
        let (restarted, why_not) = TableReader::kept_at(fleet("fleet"), &kept[0]);
        assert!(why_not.is_none(), "{why_not:?}");
        let (restarted, held) = (restarted.table(), readers[0].table());
        assert_eq!(restarted.version(), held.version());
        for owner in owners() {
            assert_eq!(restarted.resolve(&owner, PROCESSES).unwrap(), held.resolve(&owner, PROCESSES).unwrap());
        }
        server.restart();
        until("reads go on", async || readers.iter().all(|reader| reader.stats().stale_for == 0)).await;
    }
    let before = acknowledged();
    until("every owner is put", async || acknowledged() >= before + 2 * u64::from(OWNERS)).await;
    // Relaxed: a task ends one round later.
    run.over.store(true, Ordering::Relaxed);
    let mut known = tokio::time::timeout(LIMIT, writer).await.unwrap().unwrap();
    for process in processes {
        tokio::time::timeout(LIMIT, process).await.unwrap().unwrap();
    }
    let store = store().await;
    for reader in &readers {
        until("the last read", async || reader.refresh(&store).await.is_current()).await;
    }
    known.check(&readers[0].table());
    assert_eq!(known.rows.len(), OWNERS as usize);
    all_agree(&readers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_killed_mid_run_loses_nothing() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let address = server.address();
    postgres_at(address).migrate().await.unwrap();
    nothing_is_lost(server, async || postgres_at(address)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_killed_mid_run_loses_nothing() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let (address, store) = (server.address(), nats_at(&server).await);
    drop(store);
    nothing_is_lost(server, async || {
        let store = NatsStore::connect(address.to_string()).await.unwrap().limit(SOON);
        until("NATS is connected", async || store.read(&fleet("fleet")).await.is_ok()).await;
        store
    })
    .await;
}

/// Reads of a server that is not there fail, and nobody who resolves owners notices; when it comes, the same handle finds it.
async fn server_that_comes_late_is_found<S: TableStore>(mut server: Server, store: S, set_up: impl AsyncFn(&S) -> bool) {
    let reader = TableReader::new(fleet("fleet"));
    let (kept, _) = TableReader::kept_at(fleet("fleet"), server.folder().join("kept"));
    kept.take(Ok(Table::from_text(
        "keywake placement table 1\nfleet fleet\nversion 1\nhash 1\nrow 2 free - 42\nend 1\n",
        keywake::placement::StoreTime::default(),
    )
    .unwrap()));
    for _ in 0..3 {
        assert!(matches!(reader.refresh(&store).await, ReadOutcome::Failed(_)));
        assert!(matches!(kept.refresh(&store).await, ReadOutcome::Failed(_)));
        // By the hash, or by the row that was kept.
        assert_eq!(reader.resolve(&owner("42"), 8).unwrap().index, Index(3));
        assert_eq!(kept.resolve(&owner("42"), 8).unwrap().index, Index(2));
        assert!(matches!(
            store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await,
            Err(ApplyError::Store(_))
        ));
    }
    server.restart();
    until("the server is found", async || set_up(&store).await).await;
    // What was written for nobody was not kept for later.
    assert_eq!(store.read(&fleet("fleet")).await.unwrap().version(), Version::NONE);
    store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await.unwrap();
    assert!(matches!(reader.refresh(&store).await, ReadOutcome::Taken));
    assert_eq!(reader.resolve(&owner("42"), 8).unwrap().index, Index(1));
}

#[tokio::test]
async fn postgres_refused_at_the_start_is_found_when_it_comes() {
    let Some(server) = Server::not_yet_started(Kind::Postgres) else { return };
    let store = postgres_at(server.address());
    server_that_comes_late_is_found(server, store, async |store| store.migrate().await.is_ok()).await;
}

#[tokio::test]
async fn nats_refused_at_the_start_is_found_when_it_comes() {
    let Some(server) = Server::not_yet_started(Kind::Nats) else { return };
    let store = NatsStore::connect(server.address().to_string()).await.unwrap();
    server_that_comes_late_is_found(server, store, async |store| store.create_buckets(1).await.is_ok()).await;
}

/// Reports fail while the server is away, and each process's next one is there when it is back.
async fn reports_outlive_their_server<S: ReportStore>(mut server: Server, store: S, set_up: impl AsyncFn(&S) -> bool) {
    let fleet = fleet("fleet");
    assert!(store.put(&report(&fleet, 0, 1, 1)).await.is_err());
    assert!(store.read_all(&fleet).await.is_err());
    server.restart();
    until("the server is found", async || set_up(&store).await).await;
    for round in 2..5 {
        for index in 0..PROCESSES {
            let report = report(&fleet, index, 1, round);
            until("a report is taken", async || store.put(&report).await.is_ok()).await;
        }
        until("all reports are read", async || {
            let Ok(found) = store.read_all(&fleet).await else { return false };
            assert_eq!(found.reports.len(), PROCESSES as usize);
            assert!(found.reports.iter().all(|report| report.number == round) && found.malformed.is_empty());
            true
        })
        .await;
        server.kill();
        assert!(store.put(&report(&fleet, 0, 1, round)).await.is_err());
        assert!(store.read_all(&fleet).await.is_err());
        server.restart();
    }
}

#[tokio::test]
async fn redis_that_dies_and_comes_back_takes_the_next_reports() {
    let Some(server) = Server::not_yet_started(Kind::Redis) else { return };
    let store = redis_at(server.address());
    reports_outlive_their_server(server, store, async |_| true).await;
}

#[tokio::test]
async fn nats_that_dies_and_comes_back_takes_the_next_reports() {
    let Some(server) = Server::not_yet_started(Kind::Nats) else { return };
    let store = NatsStore::connect(server.address().to_string()).await.unwrap().limit(SOON);
    reports_outlive_their_server(server, store, async |store| store.create_buckets(1).await.is_ok()).await;
}

/// Redis answers a new connection with an error that is not one of the network; the manager of the client would keep it for ever.
#[tokio::test]
async fn redis_that_refused_a_connection_is_asked_again() {
    let Some(server) = Server::start(Kind::Redis) else { return };
    let mut client = redis::Client::open(format!("redis://{}/", server.address())).unwrap().get_connection().unwrap();
    let mut password = |word: &str| redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(word).exec(&mut client).unwrap();
    password("secret");
    let store = keywake_stores::RedisReports::new(&format!("redis://{}/1", server.address())).unwrap();
    assert!(store.put(&report(&fleet("fleet"), 0, 1, 1)).await.is_err());
    password("");
    store.put(&report(&fleet("fleet"), 0, 1, 2)).await.unwrap();
    assert_eq!(store.read_all(&fleet("fleet")).await.unwrap().reports.len(), 1);
}

/// A primary that was demoted still answers reads, and every write with SQLSTATE 25006, on connections that were made while it was one.
#[tokio::test]
async fn postgres_connection_that_has_become_read_only_is_given_up() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = postgres_at(server.address());
    store.migrate().await.unwrap();
    let client = postgres_client(&server).await;
    let read_only = async |on| {
        client.batch_execute(&format!("alter database postgres set default_transaction_read_only = {on}")).await.unwrap();
        // As a failover does, it ends the connections.
        let others =
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = 'postgres'";
        if on {
            drop(client.query(others, &[]).await.unwrap())
        }
    };
    read_only(true).await;
    let write = async || store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await;
    until(
        "the write is refused as read-only",
        async || matches!(write().await, Err(ApplyError::Store(error)) if format!("{:?}", error.cause).contains("25006")),
    )
    .await;
    assert!(store.read(&fleet("fleet")).await.is_ok());
    assert!(write().await.is_err());
    client.batch_execute("set default_transaction_read_only = off").await.unwrap();
    read_only(false).await;
    write().await.unwrap();
}

/// Half open: the other side takes what is sent and says nothing.
#[tokio::test]
async fn server_that_says_nothing_is_an_error_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, limit) = (silent.local_addr().unwrap(), Duration::from_millis(50));
    let calls = async {
        let postgres = keywake_stores::PostgresTable::new(&postgres_address(address)).unwrap().limit(limit);
        assert!(postgres.read(&fleet("fleet")).await.is_err());
        assert!(postgres.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await.is_err());
        assert!(redis_at(address).limit(limit).read_all(&fleet("fleet")).await.is_err());
        let nats = NatsStore::connect(address.to_string()).await.unwrap().limit(limit);
        assert!(nats.read(&fleet("fleet")).await.is_err());
    };
    tokio::time::timeout(LIMIT, calls).await.unwrap();
}

#[tokio::test]
async fn redis_that_stands_still_is_an_error_in_time_and_goes_on() {
    let Some(server) = Server::start(Kind::Redis) else { return };
    let store = redis_at(server.address()).limit(Duration::from_millis(100));
    let fleet = fleet("fleet");
    until("a report is taken", async || store.put(&report(&fleet, 0, 1, 1)).await.is_ok()).await;
    server.freeze(true);
    assert!(tokio::time::timeout(LIMIT, store.read_all(&fleet)).await.unwrap().is_err());
    server.freeze(false);
    until("reports are read again", async || store.read_all(&fleet).await.is_ok_and(|found| found.reports.len() == 1)).await;
}

#[tokio::test]
async fn nats_that_stands_still_is_an_error_in_time_and_goes_on() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await.limit(Duration::from_millis(100));
    let reader = TableReader::new(fleet("fleet"));
    // One that took too long may have been taken all the same.
    until("a change is taken and read", async || {
        drop(store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await);
        reader.refresh(&store).await.is_current() && !reader.table().is_empty()
    })
    .await;
    server.freeze(true);
    assert!(matches!(tokio::time::timeout(LIMIT, reader.refresh(&store)).await.unwrap(), ReadOutcome::Failed(_)));
    assert_eq!(reader.resolve(&owner("42"), 8).unwrap().index, Index(1));
    server.freeze(false);
    until("it is read again", async || reader.refresh(&store).await.is_current()).await;
}
