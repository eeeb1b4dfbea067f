//! The tables' forms, in order.

use std::time::Duration;

use tokio_postgres::{Client, Error, types::Type};

use super::statements::begin;

/// Each is run once, whole. What was released is never edited.
const MIGRATIONS: &[&str] = &[include_str!("../../migrations/0001_table.sql")];
/// The key of the lock that migrations hold: any number that nobody else locks by.
const LOCK: i64 = 0x6b65_7977_616b_6501;

/// Runs what has not been run, in one transaction, behind a lock that ends with it.
pub(super) async fn run(client: &mut Client, limit: Duration) -> Result<(), Error> {
    let transaction = begin(client, limit).await?;
    // Before anything is looked at: `create table if not exists` by two at once is an error of the second.
    transaction.query_typed("select pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let bookkeeping = "create table if not exists keywake_migration \
                       (number integer primary key, applied_at timestamptz not null default now())";
    transaction.batch_execute(bookkeeping).await?;
    let done = transaction.query_typed("select number from keywake_migration", &[]).await?;
    let done: Vec<i32> = done.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for (number, migration) in (1_i32..).zip(MIGRATIONS) {
        if done.contains(&number) {
            continue;
        }
        transaction.batch_execute(migration).await?;
        transaction.execute_typed("insert into keywake_migration (number) values ($1)", &[(&number, Type::INT4)]).await?;
    }
    transaction.commit().await
}
