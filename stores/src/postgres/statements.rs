//! What is said to PostgreSQL: one statement to read a table, one transaction to change it. Times go to and fro in whole microseconds.

use std::time::Duration;

use keywake::placement::{Change, Changes, Fleet, HASH_VERSION, Index, Owner, Refused, Row, StoreTime, Table, Version};
use tokio_postgres::{Client, Error, IsolationLevel, Transaction, types::Type};

use crate::deadline::Cause;

/// One statement, so that all of it is of one version. There is at least one line: a fleet that nobody has written has neither version nor
/// rows. Times beyond all calendars (`infinity`) are brought to where they can be counted.
const READ: &str = "
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint,
        fleet.version,
        fleet.hash_version,
        owned.owner,
        owned.index,
        owned.pinned,
        (extract(epoch from least(greatest(owned.moved_at, 'epoch'), '9999-12-31 UTC')) * 1000000)::bigint
    from (values ($1)) as asked (fleet)
    left join keywake_fleet as fleet on fleet.fleet = asked.fleet
    left join keywake_row as owned on owned.fleet = asked.fleet";

/// Only those rows that changes are about.
const READ_SOME: &str = " and owned.owner = any($2)";

/// A table that is there can be locked; one of [`Version::NONE`] is not there for anybody else.
const BEGIN_FLEET: &str = "insert into keywake_fleet (fleet, version, hash_version) values ($1, 0, $2) on conflict do nothing";

/// Until the transaction ends, nobody else changes this fleet's rows.
const LOCK_FLEET: &str = "select from keywake_fleet where fleet = $1 for update";

/// Begins a transaction. Each of its statements sees what was committed before it, whatever the database's default: who waited for a
/// lock sees what its holder did. What its caller does not wait for ends on the server too, where it would hold a connection for as long as
/// somebody holds a lock; and a writer whose machine is gone does not keep its own for as long as TCP takes to notice.
pub(super) async fn begin(client: &mut Client, limit: Duration) -> Result<Transaction<'_>, Error> {
    let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    let millis = limit.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let give_up = format!("set local statement_timeout = {millis}; set local idle_in_transaction_session_timeout = '10s'");
    transaction.batch_execute(&give_up).await?;
    Ok(transaction)
}

const PUT: &str = "
    insert into keywake_row (fleet, owner, index, pinned, moved_at)
    select $1, owner, index, pinned, timestamptz 'epoch' + moved_at * interval '1 microsecond'
    from unnest($2, $3, $4, $5) as put (owner, index, pinned, moved_at)
    on conflict (fleet, owner) do update set index = excluded.index, pinned = excluded.pinned, moved_at = excluded.moved_at";

const REMOVE: &str = "delete from keywake_row where fleet = $1 and owner = any($2)";

const NEXT: &str = "update keywake_fleet set version = $2 where fleet = $1";

pub(super) async fn read(client: &mut Client, fleet: &Fleet, limit: Duration) -> Result<Table, Cause> {
    let transaction = begin(client, limit).await?;
    let lines = transaction.query_typed(READ, &[(&fleet.as_str(), Type::TEXT)]).await?;
    transaction.commit().await?;
    table(fleet, &lines)
}

/// Lines of [`READ`] as a table.
fn table(fleet: &Fleet, lines: &[tokio_postgres::Row]) -> Result<Table, Cause> {
    let first = lines.first().ok_or("it answered nothing")?;
    let version = match first.try_get::<_, Option<i64>>(1)? {
        Some(version) => Version(u64::try_from(version)?),
        None => Version::NONE,
    };
    let hash_version = first.try_get::<_, Option<i32>>(2)?.map_or(Ok(HASH_VERSION), u32::try_from)?;
    let mut table = Table::new(fleet.clone(), version, time(first.try_get(0)?)).with_hash_version(hash_version);
    for line in lines {
        if let Some(owner) = line.try_get::<_, Option<&str>>(3)? {
            table.insert_raw(owner, line.try_get(4)?, line.try_get(5)?, line.try_get::<_, Option<i64>>(6)?.map(time));
        }
    }
    Ok(table)
}

/// The answer within is the table's own. After a refusal nothing is changed: the transaction ends with its handle.
pub(super) async fn apply(client: &mut Client, changes: &Changes, limit: Duration) -> Result<Result<Version, Refused>, Cause> {
    let fleet = changes.fleet.as_str();
    let transaction = begin(client, limit).await?;
    let hash_version = i32::try_from(HASH_VERSION)?;
    transaction.execute_typed(BEGIN_FLEET, &[(&fleet, Type::TEXT), (&hash_version, Type::INT4)]).await?;
    transaction.query_typed(LOCK_FLEET, &[(&fleet, Type::TEXT)]).await?;

    let mut owners: Vec<&Owner> = changes.changes.iter().map(owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let names: Vec<&str> = owners.iter().map(|owner| owner.as_str()).collect();
    let found =
        transaction.query_typed(&format!("{READ}{READ_SOME}"), &[(&fleet, Type::TEXT), (&names, Type::TEXT_ARRAY)]).await?;
    let mut table = table(&changes.fleet, &found)?;
    let (next, at) = (Version(table.version().0.saturating_add(1)), table.read_at());
    if let Err(refused) = table.apply(changes, next, at) {
        transaction.rollback().await?;
        return Ok(Err(refused));
    }
    write(&transaction, &table, &owners).await?;
    transaction.execute_typed(NEXT, &[(&fleet, Type::TEXT), (&i64::try_from(next.0)?, Type::INT8)]).await?;
    transaction.commit().await?;
    Ok(Ok(next))
}

fn owner(change: &Change) -> &Owner {
    match change {
        Change::Put { owner, .. } | Change::Remove { owner } => owner,
    }
}

/// Writes the rows of `owners` as they are in `table`.
async fn write(transaction: &Transaction<'_>, table: &Table, owners: &[&Owner]) -> Result<(), Cause> {
    let fleet = table.fleet().as_str();
    let (mut names, mut indexes, mut pins, mut times, mut gone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for owner in owners {
        let Some(Row { index: Index(index), pinned, moved_at }) = table.row(owner) else {
            gone.push(owner.as_str());
            continue;
        };
        names.push(owner.as_str());
        indexes.push(i64::from(*index));
        pins.push(*pinned);
        times.push(moved_at.map(|at| i64::try_from(at.0.as_micros())).transpose()?);
    }
    let rows = [
        (&fleet as _, Type::TEXT),
        (&names as _, Type::TEXT_ARRAY),
        (&indexes as _, Type::INT8_ARRAY),
        (&pins as _, Type::BOOL_ARRAY),
        (&times as _, Type::INT8_ARRAY),
    ];
    transaction.execute_typed(PUT, &rows).await?;
    transaction.execute_typed(REMOVE, &[(&fleet, Type::TEXT), (&gone, Type::TEXT_ARRAY)]).await?;
    Ok(())
}

/// Out of microseconds since the epoch; what was before it was then.
fn time(micros: i64) -> StoreTime {
    StoreTime(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
}
