//! Connections that are there and say nothing any more, while their server is well: nobody waits for the kernel to notice. And what is left
//! behind, or tried without end, by whoever connects again: nothing.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keywake::placement::{ReportStore, TableStore, Version};
use keywake_stores::{NatsStore, PostgresTable, RedisReports};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    clients::{changes, fleet, nats_at, owner, postgres_address, postgres_client, put, report, until},
    servers::{Kind, Server},
};

/// What stands between a client and its server, and may forget connections without a word, as a firewall does.
struct Between {
    address: SocketAddr,
    silenced: watch::Sender<u32>,
    /// Those that were silenced and that their client has not closed yet.
    silent: Arc<AtomicU32>,
}

impl Between {
    async fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (silenced, times) = watch::channel(0);
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&silent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_until_silenced(client, server, times.clone(), Arc::clone(&count)));
            }
        });
        Self { address, silenced, silent }
    }

    /// Of the connections that are there now, none says anything any more.
    fn silence(&self) {
        self.silenced.send_modify(|times| *times += 1);
    }
}

async fn pass_until_silenced(mut client: TcpStream, server: SocketAddr, mut times: watch::Receiver<u32>, silent: Arc<AtomicU32>) {
    times.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let ended = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => true,
        changed = times.changed() => changed.is_err(),
    };
    if !ended {
        // Relaxed: a count.
        silent.fetch_add(1, Ordering::Relaxed);
        // Both stay open until the client ends it.
        drop(tokio::io::copy(&mut client, &mut tokio::io::sink()).await);
        // Relaxed: a count.
        silent.fetch_sub(1, Ordering::Relaxed);
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
    // Relaxed: a count.
    until("the old ones are closed", async || between.silent.load(Ordering::Relaxed) == 0).await;
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
            if lock.starts_with("select") {
                until("reads do not wait", async || store.read(&fleet("fleet")).await.is_ok()).await;
            } else {
                assert!(store.read(&fleet("fleet")).await.is_err());
            }
        }
        until("they are gone", async || mine().await <= 2).await;
        client.batch_execute("rollback").await.unwrap();
        until("it is read again", async || store.read(&fleet("fleet")).await.is_ok()).await;
    }
    // And none of them came through behind the caller's back.
    assert_eq!(store.read(&fleet("fleet")).await.unwrap().version(), first);
}

/// A way to the server that breaks when the server has said something for the `words`th time, on each connection anew.
async fn breaking(server: SocketAddr, words: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_words(client, server, words));
        }
    });
    address
}

async fn pass_words(client: TcpStream, server: SocketAddr, words: u32) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((mut asks, mut hears), (mut says, mut asked)) = (client.into_split(), server.into_split());
    let answering = async {
        let mut said = vec![0; 1 << 16];
        for _ in 0..words {
            let length = says.read(&mut said).await.unwrap_or_default();
            if length == 0 || hears.write_all(&said[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { _ = tokio::io::copy(&mut asks, &mut asked) => (), () = answering => () }
}

/// Wherever in a change the connection breaks, all of it was made or nothing, and who was told that it was made was told the truth.
async fn broken_anywhere_it_is_whole<S: TableStore>(
    server: SocketAddr,
    direct: &impl TableStore,
    through: impl AsyncFn(SocketAddr) -> S,
) {
    let fleet = fleet("broken");
    let mut was_whole = 0;
    for words in 0..60 {
        let store = through(breaking(server, words).await).await;
        let base = direct.read(&fleet).await.unwrap().version();
        let both = changes(&fleet, base, vec![put("left", 100 + words), put("right", 100 + words)]);
        let mut applied = None;
        for _ in 0..3 {
            applied = store.apply(&both).await.ok();
            if applied.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(store);
        // What is under way ends, one way or the other, before the next change: they are based on each other's versions.
        let table = direct.read(&fleet).await.unwrap();
        let at = |name| table.row(&owner(name)).map(|row| row.index.0);
        assert_eq!(at("left"), at("right"), "broken at {words}");
        if let Some(version) = applied {
            assert_eq!((table.version(), at("left")), (version, Some(100 + words)));
            was_whole += 1;
        }
        // So late that it breaks no more.
        if was_whole == 3 {
            return;
        }
    }
    panic!("it always breaks");
}

#[tokio::test]
async fn postgres_change_whose_connection_breaks_anywhere_is_made_whole_or_not_at_all() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let direct = PostgresTable::new(&postgres_address(server.address())).unwrap();
    direct.migrate().await.unwrap();
    let through = async |address| PostgresTable::new(&postgres_address(address)).unwrap().limit(LIMIT);
    broken_anywhere_it_is_whole(server.address(), &direct, through).await;
}

#[tokio::test]
async fn nats_change_whose_connection_breaks_anywhere_is_made_whole_or_not_at_all() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let direct = nats_at(&server).await;
    let through = async |address: SocketAddr| {
        let store = NatsStore::connect(address.to_string()).await.unwrap().limit(LIMIT);
        tokio::time::sleep(Duration::from_millis(150)).await;
        store
    };
    Box::pin(broken_anywhere_it_is_whole(server.address(), &direct, through)).await;
}

/// Lets everybody in, says `hello`, and ends the connection; how often somebody came.
fn turnstile(hello: &'static str) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&came);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // Relaxed: a count.
            count.fetch_add(1, Ordering::Relaxed);
            drop(client.and_then(|mut client| client.write_all(hello.as_bytes())));
        }
    });
    (address, came)
}

#[tokio::test]
async fn call_that_is_turned_away_tries_once_or_twice_and_not_without_end() {
    let ((postgres, to_postgres), (redis, to_redis)) = (turnstile(""), turnstile(""));
    let table = PostgresTable::new(&postgres_address(postgres)).unwrap();
    let reports = RedisReports::new(&format!("redis://{redis}/")).unwrap();
    for _ in 0..10 {
        assert!(table.read(&fleet("fleet")).await.is_err());
        assert!(reports.read_all(&fleet("fleet")).await.is_err());
    }
    // Relaxed: counts.
    let came = [to_postgres, to_redis].map(|came| came.load(Ordering::Relaxed));
    assert!(came[0] == 10 && (10..=20).contains(&came[1]), "{came:?}");
}

#[tokio::test]
async fn nats_client_that_is_turned_away_pauses_longer_and_longer() {
    // So much of a handshake that the client takes it for a connection.
    let hello = "INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"max_payload\":1048576,\"headers\":true}\r\nPONG\r\n";
    for hello in ["", hello] {
        let (address, came) = turnstile(hello);
        let store = NatsStore::connect(address.to_string()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Relaxed: a count.
        let came = came.load(Ordering::Relaxed);
        assert!((2..=21).contains(&came), "{came} in 2 s");
        assert!(store.read(&fleet("fleet")).await.is_err());
    }
}

#[tokio::test]
async fn nats_reads_leave_no_consumer_on_the_server_and_an_empty_bucket_is_read_after_a_restart() {
    let Some(mut server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await;
    store.put(&report(&fleet("fleet"), 0, 1, 1)).await.unwrap();
    for _ in 0..2 {
        for _ in 0..20 {
            until("it is read", async || {
                let reports = store.read_all(&fleet("fleet")).await.is_ok_and(|found| found.reports.len() == 1);
                reports && store.read(&fleet("fleet")).await.is_ok_and(|table| table.version() == Version::NONE)
            })
            .await;
        }
        let context = async_nats::jetstream::new(async_nats::connect(server.address().to_string()).await.unwrap());
        for stream in ["KV_keywake-tables", "KV_keywake-reports"] {
            let stream = context.get_stream(stream).await.unwrap();
            assert_eq!(stream.cached_info().state.consumer_count, 0);
        }
        server.kill();
        server.restart();
    }
    until("it is written", async || store.apply(&changes(&fleet("fleet"), Version::NONE, vec![put("42", 1)])).await.is_ok())
        .await;
}
