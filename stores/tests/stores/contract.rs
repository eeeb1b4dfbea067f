//! What every store promises, and what each is handed that it cannot use.

use std::time::Duration;

use keywake::placement::{
    Index, ReportStore, Table, TableReader, TableStore, Version,
    store::{ReadOutcome, contract},
};
use keywake_stores::PostgresTable;

use crate::{
    clients::{Several, changes, fleet, nats_at, owner, postgres_at, postgres_client, put, redis_at, report, until},
    servers::{Kind, Server},
};

async fn table_contract(store: &impl TableStore) {
    contract::table(store, &fleet("one")).await.unwrap();
    contract::two_fleets(store, &fleet("left"), &fleet("right")).await.unwrap();
    contract::two_writers(store, &fleet("both")).await.unwrap();
}

#[tokio::test]
async fn postgres_keeps_the_contract_of_tables() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = || postgres_at(server.address());
    store().migrate().await.unwrap();
    table_contract(&Several::of(vec![store(), store()])).await;
}

#[tokio::test]
async fn nats_keeps_the_contract_of_tables() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let stores = Several::of(vec![nats_at(&server).await, nats_at(&server).await]);
    Box::pin(table_contract(&stores)).await;
}

#[tokio::test]
async fn redis_keeps_the_contract_of_reports() {
    let Some(server) = Server::start(Kind::Redis) else { return };
    contract::reports(&redis_at(server.address()), &fleet("one"), &fleet("other")).await.unwrap();
}

#[tokio::test]
async fn nats_keeps_the_contract_of_reports() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    contract::reports(&nats_at(&server).await, &fleet("one"), &fleet("other")).await.unwrap();
}

#[tokio::test]
async fn postgres_rows_that_cannot_be_used_hide_nothing() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = postgres_at(server.address());
    store.migrate().await.unwrap();
    let client = postgres_client(&server).await;
    client.batch_execute("insert into keywake_fleet values ('bad', 1, 1)").await.unwrap();
    let insert = async |owner: &str, index: i64| {
        client.execute("insert into keywake_row (fleet, owner, index) values ('bad', $1, $2)", &[&owner, &index]).await
    };
    // By itself it takes none that no fleet can use.
    assert!(insert("negative", -1).await.is_err());
    client.batch_execute("alter table keywake_row drop constraint keywake_row_index").await.unwrap();
    for (owner, index) in contract::GARBAGE {
        insert(owner, *index).await.unwrap();
    }
    contract::table_hides_nothing_behind_garbage(&store, &fleet("bad"), 2).await.unwrap();
    // An owner without a name, and times that no calendar has.
    insert("", 3).await.unwrap();
    for (owner, time) in [("ever", "infinity"), ("never", "-infinity"), ("old", "0044-03-15 BC")] {
        let row = format!("insert into keywake_row values ('bad', '{owner}', 3, false, '{time}')");
        client.batch_execute(&row).await.unwrap();
    }
    let table = store.read(&fleet("bad")).await.unwrap();
    assert_eq!(table.malformed().len(), 3, "{:?}", table.malformed());
    let since_moved = |name| table.read_at().since(table.row(&owner(name)).unwrap().moved_at.unwrap());
    assert_eq!(since_moved("ever"), Duration::ZERO);
    assert!(since_moved("never") > Duration::from_secs(3600) && since_moved("old") > Duration::from_secs(3600));
    // A row of a fleet that nobody wrote.
    client.batch_execute("insert into keywake_row values ('stray', 'a', 3)").await.unwrap();
    let stray = store.read(&fleet("stray")).await.unwrap();
    assert_eq!((stray.version(), stray.row(&owner("a")).unwrap().index), (Version::NONE, Index(3)));
}

#[tokio::test]
async fn nats_rows_that_cannot_be_used_hide_nothing() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await;
    let client = async_nats::connect(server.address().to_string()).await.unwrap();
    let bucket = async_nats::jetstream::new(client).get_key_value("keywake-tables").await.unwrap();
    let rows: String = contract::GARBAGE.iter().map(|(owner, index)| format!("row {index} free - {owner}\n")).collect();
    let text = Table::empty(fleet("bad")).to_text().replace("end 0\n", &format!("{rows}end 4\n"));
    bucket.put("bad", text.into()).await.unwrap();
    contract::table_hides_nothing_behind_garbage(&store, &fleet("bad"), 2).await.unwrap();

    // What is no table at all is an error of the store, and the reader goes on with what it had.
    let reader = TableReader::new(fleet("bad"));
    assert!(matches!(reader.refresh(&store).await, ReadOutcome::Taken));
    let before = reader.table();
    let other = Table::empty(fleet("other")).to_text();
    for garbage in [&b"garbage"[..], b"\xff\xfe", b"", other.as_bytes()] {
        bucket.put("bad", garbage.to_vec().into()).await.unwrap();
        assert!(matches!(reader.refresh(&store).await, ReadOutcome::Failed(_)), "{garbage:?}");
        assert_eq!(*reader.table(), *before);
        assert!(store.apply(&changes(&fleet("bad"), before.version(), vec![put("x", 1)])).await.is_err());
    }

    // A key that was deleted is an empty table, newer than all before; it is not believed at once.
    bucket.delete("bad").await.unwrap();
    assert!(matches!(reader.refresh(&store).await, ReadOutcome::Suspect));
    assert!(matches!(reader.refresh(&store).await, ReadOutcome::Taken));
    let emptied = store.read(&fleet("bad")).await.unwrap();
    assert!(emptied.is_empty() && emptied.version() > before.version());
    let next = store.apply(&changes(&fleet("bad"), emptied.version(), vec![put("x", 1)])).await.unwrap();
    assert!(next > emptied.version());
}

#[tokio::test]
async fn nats_table_that_is_too_long_is_refused_and_the_old_one_stays() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await;
    let rows = |count: u32| (0..count).map(|row| put(&format!("owner-{row:06}"), row % 12)).collect::<Vec<_>>();
    let first = store.apply(&changes(&fleet("long"), Version::NONE, rows(20_000))).await.unwrap();
    assert!(store.apply(&changes(&fleet("long"), first, rows(60_000))).await.is_err());
    let table = store.read(&fleet("long")).await.unwrap();
    assert_eq!((table.version(), table.len()), (first, 20_000));
}

#[tokio::test]
async fn redis_reports_that_cannot_be_used_hide_nothing() {
    let Some(server) = Server::start(Kind::Redis) else { return };
    let store = redis_at(server.address());
    let bad = fleet("bad");
    store.put(&report(&bad, 0, 1, 1)).await.unwrap();
    let mut client = redis::Client::open(format!("redis://{}/", server.address())).unwrap().get_connection().unwrap();
    let strayed = report(&bad, 4, 1, 1).to_text();
    for (field, value) in [("1", &b"garbage"[..]), ("2", b"\xff"), ("3", strayed.as_bytes()), ("-1", b""), ("x", b"")] {
        redis::cmd("HSET").arg("keywake:reports:bad").arg(field).arg(value).exec(&mut client).unwrap();
    }
    let found = store.read_all(&bad).await.unwrap();
    assert_eq!(found.reports, [report(&bad, 0, 1, 1)]);
    assert_eq!(found.malformed.len(), 5, "{:?}", found.malformed);
    // The key is something else altogether: an error, until somebody removes it.
    redis::cmd("SET").arg("keywake:reports:odd").arg("text").exec(&mut client).unwrap();
    assert!(store.read_all(&fleet("odd")).await.is_err());
    redis::cmd("DEL").arg("keywake:reports:odd").exec(&mut client).unwrap();
    assert!(store.read_all(&fleet("odd")).await.unwrap().reports.is_empty());
}

#[tokio::test]
async fn nats_reports_that_cannot_be_used_hide_nothing() {
    let Some(server) = Server::start(Kind::Nats) else { return };
    let store = nats_at(&server).await;
    let bad = fleet("bad");
    store.put(&report(&bad, 0, 1, 1)).await.unwrap();
    let client = async_nats::connect(server.address().to_string()).await.unwrap();
    let bucket = async_nats::jetstream::new(client).get_key_value("keywake-reports").await.unwrap();
    let strayed = report(&bad, 4, 1, 1).to_text().into_bytes();
    for (key, value) in [("bad.1", b"garbage".to_vec()), ("bad.2", b"\xff".to_vec()), ("bad.3", strayed), ("bad.x", Vec::new())] {
        bucket.put(key, value.into()).await.unwrap();
    }
    bucket.put("bad.5", "deleted later".into()).await.unwrap();
    bucket.delete("bad.5").await.unwrap();
    // And past the client, what it would take for no key.
    let raw = async_nats::connect(server.address().to_string()).await.unwrap();
    for index in ["1!", "ä", "+5"] {
        raw.publish(format!("$KV.keywake-reports.bad.{index}"), "garbage".into()).await.unwrap();
    }
    raw.flush().await.unwrap();
    until("they are there", async || store.read_all(&bad).await.unwrap().malformed.len() >= 7).await;
    let found = store.read_all(&bad).await.unwrap();
    assert_eq!(found.reports, [report(&bad, 0, 1, 1)]);
    assert_eq!(found.malformed.len(), 7, "{:?}", found.malformed);
}

#[tokio::test]
async fn many_processes_migrate_at_once() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let migrations = (0..8).map(|_| {
        let store = postgres_at(server.address());
        tokio::spawn(async move { store.migrate().await.map(|()| store) })
    });
    let mut stores: Vec<PostgresTable> = Vec::new();
    for migration in migrations.collect::<Vec<_>>() {
        stores.push(migration.await.unwrap().unwrap());
    }
    let client = postgres_client(&server).await;
    let numbers = client.query("select number from keywake_migration order by number", &[]).await.unwrap();
    assert_eq!(numbers.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1]);
    // A newer release was here: what it made stays, and this one goes on.
    client.batch_execute("insert into keywake_migration values (1000); alter table keywake_row add note text").await.unwrap();
    stores[0].migrate().await.unwrap();
    contract::table(&stores[0], &fleet("one")).await.unwrap();
}

#[tokio::test]
async fn postgres_keeps_the_contract_whatever_the_databases_isolation_is() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    let store = || postgres_at(server.address());
    store().migrate().await.unwrap();
    let serializable = "alter database postgres set default_transaction_isolation = serializable";
    postgres_client(&server).await.batch_execute(serializable).await.unwrap();
    table_contract(&Several::of(vec![store(), store()])).await;
}
