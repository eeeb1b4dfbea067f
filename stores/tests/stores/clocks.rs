//! Processes whose clocks differ by minutes and hours: reports are told apart by their numbers, and times are the store's own.
//!
//! The processes are this program, started again under another clock; each does what [`process_under_another_clock`] does.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keywake::placement::{ApplyError, ReportStore, TableStore};
use keywake_stores::NatsStore;

use crate::{
    clients::{LIMIT, changes, fleet, nats_at, owner, postgres_at, put, redis_at, report, until},
    servers::{Kind, Server, in_path, or_skip},
};

/// By how many seconds the processes' clocks are off.
const OFF: [i64; 3] = [-300, 2, 3 * 3600];
const WINDOWS: u64 = 5;
const KIND: &str = "KEYWAKE_CLOCKS_STORE";
const REPORTS: &str = "KEYWAKE_CLOCKS_REPORTS";
const TABLE: &str = "KEYWAKE_CLOCKS_TABLE";
const INDEX: &str = "KEYWAKE_CLOCKS_INDEX";
const STARTED: &str = "KEYWAKE_CLOCKS_STARTED";

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Reports window after window, and puts one owner on itself.
async fn report_and_put(reports: &impl ReportStore, table: &impl TableStore, index: u32) {
    let fleet = fleet("fleet");
    for number in 1..=WINDOWS {
        until("the report is taken", async || reports.put(&report(&fleet, index, 7, number)).await.is_ok()).await;
    }
    until("the owner is put", async || {
        let Ok(found) = table.read(&fleet).await else { return false };
        match table.apply(&changes(&fleet, found.version(), vec![put(&format!("owner-{index}"), index)])).await {
            Ok(_) => true,
            Err(ApplyError::Refused(_) | ApplyError::Store(_)) => false,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "is started by the others here, under another clock"]
async fn process_under_another_clock() {
    if std::env::var_os(STARTED).is_none() {
        return;
    }
    let given = |name| std::env::var(name).unwrap();
    let index: u32 = given(INDEX).parse().unwrap();
    let (reports, table): (SocketAddr, SocketAddr) = (given(REPORTS).parse().unwrap(), given(TABLE).parse().unwrap());
    // The clock is off indeed, or this shows nothing.
    let started: i64 = given(STARTED).parse().unwrap();
    let off = i64::try_from(unix_time().as_secs()).unwrap() - started;
    assert!((OFF[index as usize]..OFF[index as usize] + 60).contains(&off), "the clock is off by {off} s");
    match given(KIND).as_str() {
        "redis and postgres" => report_and_put(&redis_at(reports), &postgres_at(table), index).await,
        "nats" => {
            let store = NatsStore::connect(table.to_string()).await.unwrap();
            report_and_put(&store, &store, index).await;
        }
        other => panic!("{other}"),
    }
}

fn start(kind: &str, reports: SocketAddr, table: SocketAddr, index: usize) -> Child {
    // What it says is told when it fails.
    Command::new("faketime")
        .args(["-m", "-f", &format!("{:+}s", OFF[index])])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "clocks::process_under_another_clock"])
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env(KIND, kind)
        .env(REPORTS, reports.to_string())
        .env(TABLE, table.to_string())
        .env(INDEX, index.to_string())
        .env(STARTED, unix_time().as_secs().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Each process's newest report is there, and each row, with a time that is the store's.
async fn every_clock_is_as_good(kind: &str, reports: (&impl ReportStore, SocketAddr), table: (&impl TableStore, SocketAddr)) {
    let began = table.0.read(&fleet("fleet")).await.unwrap().read_at();
    let processes: Vec<_> = (0..OFF.len()).map(|index| start(kind, reports.1, table.1, index)).collect();
    for process in processes {
        let ended = tokio::task::spawn_blocking(move || process.wait_with_output());
        let output = tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let found = reports.0.read_all(&fleet("fleet")).await.unwrap();
    assert_eq!(found.reports.len(), OFF.len());
    assert!(found.reports.iter().all(|report| (report.run, report.number) == (7, WINDOWS)), "{found:?}");
    let found = table.0.read(&fleet("fleet")).await.unwrap();
    assert_eq!(found.len(), OFF.len());
    for index in 0..OFF.len() {
        let row = found.row(&owner(&format!("owner-{index}"))).unwrap();
        assert_eq!(row.index.0 as usize, index);
        let moved_at = row.moved_at.unwrap();
        assert!(began <= moved_at && moved_at <= found.read_at(), "{began:?} <= {moved_at:?} <= {:?}", found.read_at());
    }
}

#[tokio::test]
async fn processes_with_other_clocks_share_redis_and_postgres() {
    let Some(_) = or_skip(in_path("faketime")) else { return };
    let (Some(redis), Some(postgres)) = (Server::start(Kind::Redis), Server::start(Kind::Postgres)) else { return };
    let (reports, table) = (redis_at(redis.address()), postgres_at(postgres.address()));
    table.migrate().await.unwrap();
    every_clock_is_as_good("redis and postgres", (&reports, redis.address()), (&table, postgres.address())).await;
}

#[tokio::test]
async fn processes_with_other_clocks_share_nats() {
    let Some(_) = or_skip(in_path("faketime")) else { return };
    let Some(server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await;
    every_clock_is_as_good("nats", (&store, server.address()), (&store, server.address())).await;
}
