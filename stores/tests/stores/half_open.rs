//! Connections that are there and say nothing any more, while their server is well: nobody waits for the kernel to notice.

use std::{net::SocketAddr, time::Duration};

use keywake::placement::{ReportStore, TableStore, Version};
use keywake_stores::{NatsStore, PostgresTable, RedisReports};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    clients::{changes, fleet, postgres_address, postgres_client, put, report, until},
    servers::{Kind, Server},
};

/// What stands between a client and its server, and may forget connections without a word, as a firewall does.
struct Between {
    address: SocketAddr,
    silenced: watch::Sender<u32>,
}

impl Between {
    async fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (silenced, times) = watch::channel(0);
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut times = times.clone();
                times.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    let copied = tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => true,
                        changed = times.changed() => changed.is_err(),
                    };
                    if !copied {
                        // Both stay open.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { address, silenced }
    }

    /// Of the connections that are there now, none says anything any more.
    fn silence(&self) {
        self.silenced.send_modify(|times| *times += 1);
    }
}

const LIMIT: Duration = Duration::from_millis(300);

/// The call that meets the silence fails in time, and the next ones find the server, on another connection.
async fn silence_is_left_behind(between: &Between, mut works: impl AsyncFnMut() -> bool) {
    for _ in 0..2 {
        until("it works", async || works().await).await;
        between.silence();
        assert!(!works().await, "nothing was silenced");
    }
    until("it works again", works).await;
}

#[tokio::test]
async fn postgres_connection_that_says_nothing_is_replaced() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let between = Between::new(server.address()).await;
    let store = PostgresTable::new(&postgres_address(between.address)).unwrap().limit(LIMIT);
    until("the tables are made", async || store.migrate().await.is_ok()).await;
    silence_is_left_behind(&between, async || store.read(&fleet("fleet")).await.is_ok()).await;
}

#[tokio::test]
async fn redis_connection_that_says_nothing_is_replaced() {
    let Some(server) = Server::start(Kind::Redis) else { return };
    let between = Between::new(server.address()).await;
    let store = RedisReports::new(&format!("redis://{}/", between.address)).unwrap().limit(LIMIT);
    silence_is_left_behind(&between, async || store.put(&report(&fleet("fleet"), 0, 1, 1)).await.is_ok()).await;
}

/// NATS's client notices by itself, by pings; as this store sets it, within 15 s.
#[tokio::test]
async fn nats_connection_that_says_nothing_is_replaced() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let between = Between::new(server.address()).await;
    let store = NatsStore::connect(between.address.to_string()).await.unwrap().limit(LIMIT);
    until("the buckets are made", async || store.create_buckets(1).await.is_ok()).await;
    silence_is_left_behind(&between, async || store.read(&fleet("fleet")).await.is_ok()).await;
}

/// A lock that somebody keeps, as an operator's open transaction does, costs errors and not a connection of the server's for each of them.
#[tokio::test]
async fn postgres_calls_that_wait_for_a_lock_leave_nothing_behind_on_the_server() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = PostgresTable::new(&postgres_address(server.address())).unwrap();
    store.migrate().await.unwrap();
    let first = store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await.unwrap();
    let store = store.limit(LIMIT);
    let client = postgres_client(&server).await;
    let mine = async || {
        let count = "select count(*) from pg_stat_activity where datname = 'postgres' and pid <> pg_backend_pid()";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    // Of a row, which keeps changes waiting; then of the table, as a change of its form does, which keeps reads waiting too.
    for lock in ["select from keywake_fleet for update", "lock table keywake_fleet"] {
        client.batch_execute(&format!("begin; {lock}")).await.unwrap();
        for _ in 0..6 {
            assert!(store.apply(&changes(&fleet("fleet"), first, vec![put("42", 2)])).await.is_err());
            assert_eq!(store.read(&fleet("fleet")).await.is_ok(), lock.starts_with("select"));
        }
        until("they are gone", async || mine().await <= 2).await;
        client.batch_execute("rollback").await.unwrap();
        until("it is read again", async || store.read(&fleet("fleet")).await.is_ok()).await;
    }
    // And none of them came through behind the caller's back.
    assert_eq!(store.read(&fleet("fleet")).await.unwrap().version(), first);
}
