//! What a store promises, as checks that run against any store: those of this crate, and yours.
//!
//! Each check is a future that needs no runtime, wants a fleet that the store has never heard of, and answers with what was broken. How a store
//! behaves when its server goes is for its own tests.

use std::{collections::BTreeMap, fmt, pin::pin, task::Poll, time::Duration};

use super::{ApplyError, ReportStore, StoreError, TableStore};
use crate::placement::{
    cores::Cores,
    name::{Fleet, Index, Owner},
    report::{OwnerLoad, Report},
    table::{Change, Changes, Refused, Row, Table, Version},
};

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which: `"T1"` .. `"T5"`, `"P1"`, `"P2"`.
    pub promise: &'static str,
    /// How.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.how)
    }
}

impl std::error::Error for Broken {}

/// Rows that [`table_hides_nothing_behind_garbage`] wants in the fleet's table, written past the store's own methods: owner and index,
/// whatever the store can hold of them. Only the first can be used, and the second in a large fleet.
pub const GARBAGE: &[(&str, i64)] = &[("good", 1), ("far", 4_000_000_000), ("negative", -1), ("huge", 5_000_000_000)];

fn ensure(holds: bool, promise: &'static str, how: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { promise, how: how() }) }
}

fn unfailing<T>(result: Result<T, StoreError>) -> Result<T, Broken> {
    result.map_err(|error| Broken { promise: "T1", how: format!("the store failed: {error}") })
}

fn owner(name: &str) -> Result<Owner, Broken> {
    Owner::new(name).map_err(|error| Broken { promise: "T4", how: error.to_string() })
}

fn put(name: &str, index: u32, pinned: bool) -> Result<Change, Broken> {
    Ok(Change::Put { owner: owner(name)?, index: Index(index), pinned })
}

async fn apply(store: &impl TableStore, fleet: &Fleet, base: Version, changes: Vec<Change>) -> Result<Version, Broken> {
    let applied = store.apply(&Changes { fleet: fleet.clone(), base, changes }).await;
    applied.map_err(|error| Broken { promise: "T2", how: format!("changes on {base} were not applied: {error}") })
}

fn rows(table: &Table) -> BTreeMap<String, Row> {
    table.rows().map(|(owner, row)| (owner.to_string(), *row)).collect()
}

/// Runs both in this task, in turns.
async fn both<A: Future, B: Future>(first: A, second: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut a, mut b) = (None, None);
    std::future::poll_fn(move |context| {
        if a.is_none() {
            a = ready(first.as_mut().poll(context));
        }
        if b.is_none() {
            b = ready(second.as_mut().poll(context));
        }
        match (a.take(), b.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            unfinished => {
                (a, b) = unfinished;
                Poll::Pending
            }
        }
    })
    .await
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    if let Poll::Ready(value) = poll { Some(value) } else { None }
}

/// T1 to T5, but for rows that cannot be used.
///
/// # Errors
/// With the first promise that was not kept.
pub async fn table(store: &impl TableStore, fleet: &Fleet) -> Result<(), Broken> {
    let none = unfailing(store.read(fleet).await)?;
    ensure(none.version() == Version::NONE && none.is_empty(), "T3", || format!("a new fleet has the table {none:?}"))?;
    ensure(none.fleet() == fleet, "T1", || format!("asked for {fleet}, and was given {}", none.fleet()))?;

    let first =
        apply(store, fleet, Version::NONE, vec![put("a", 3, false)?, put("b c", 4, true)?, put("ä';--:/*.>", 7, false)?]).await?;
    ensure(first > Version::NONE, "T3", || "the first change left the version at none".to_owned())?;
    let table = unfailing(store.read(fleet).await)?;
    ensure(table.version() == first, "T3", || format!("applied as {first}, and read as {}", table.version()))?;
    let found = rows(&table);
    let plain: Vec<_> = found.iter().map(|(owner, row)| (owner.as_str(), row.index.0, row.pinned)).collect();
    ensure(plain == [("a", 3, false), ("b c", 4, true), ("ä';--:/*.>", 7, false)], "T2", || {
        format!("put three, and read {plain:?}")
    })?;
    for (name, row) in &found {
        let age = row.moved_at.map(|at| (table.read_at().since(at), at.since(table.read_at())));
        let near = age.is_some_and(|(behind, ahead)| behind < Duration::from_secs(600) && ahead.is_zero());
        ensure(near, "T5", || format!("{name} was put just now, at {:?}, and read at {:?}", row.moved_at, table.read_at()))?;
    }
    stays_and_goes(store, fleet, &found, first).await
}

/// What a second change does to rows that are there.
async fn stays_and_goes(
    store: &impl TableStore,
    fleet: &Fleet,
    before: &BTreeMap<String, Row>,
    base: Version,
) -> Result<(), Broken> {
    let changes = vec![put("a", 3, true)?, put("b c", 5, false)?, Change::Remove { owner: owner("ä';--:/*.>")? }];
    let second = apply(store, fleet, base, changes.clone()).await?;
    ensure(second > base, "T3", || format!("a change on {base} made {second}"))?;
    let table = unfailing(store.read(fleet).await)?;
    let found = rows(&table);
    let plain: Vec<_> = found.iter().map(|(owner, row)| (owner.as_str(), row.index.0, row.pinned)).collect();
    ensure(plain == [("a", 3, true), ("b c", 5, false)], "T2", || format!("changed two and removed one, and read {plain:?}"))?;
    let moved_at = |rows: &BTreeMap<String, Row>, name: &str| rows.get(name).and_then(|row| row.moved_at);
    ensure(moved_at(&found, "a") == moved_at(before, "a"), "T5", || "a pin alone is no move, and changed its time".to_owned())?;
    ensure(moved_at(&found, "b c") >= moved_at(before, "b c"), "T5", || "a move went back in time".to_owned())?;
    // The same again, on what is there now: nothing but the version may differ.
    let third = apply(store, fleet, second, changes).await?;
    let again = unfailing(store.read(fleet).await)?;
    ensure(third > second && rows(&again) == found, "T2", || format!("applied twice, {found:?} became {:?}", rows(&again)))?;
    // And what is based on the past is refused, and changes nothing.
    for stale in [Version::NONE, base, Version(third.0.saturating_add(1_000))] {
        refused(store, fleet, stale).await?;
    }
    let after = unfailing(store.read(fleet).await)?;
    ensure(rows(&after) == found && after.version() == third, "T2", || format!("refused changes left {after:?}"))
}

async fn refused(store: &impl TableStore, fleet: &Fleet, base: Version) -> Result<(), Broken> {
    match store.apply(&Changes { fleet: fleet.clone(), base, changes: vec![put("x", 1, false)?] }).await {
        Err(ApplyError::Refused(Refused::Conflict { .. })) => Ok(()),
        other => Err(Broken { promise: "T2", how: format!("a change on {base} came to {other:?}") }),
    }
}

/// T2 with two writers at once, many times over: exactly one of them is applied, whole.
///
/// # Errors
/// With the first promise that was not kept.
pub async fn two_writers(store: &impl TableStore, fleet: &Fleet) -> Result<(), Broken> {
    for round in 0..20 {
        let base = unfailing(store.read(fleet).await)?.version();
        let changes = |index| {
            let changes = vec![put("left", index, false)?, put("right", index, false)?];
            Ok(Changes { fleet: fleet.clone(), base, changes })
        };
        let (one, two) = (changes(100 + round)?, changes(200 + round)?);
        let (first, second) = both(store.apply(&one), store.apply(&two)).await;
        let applied = [&first, &second].map(|outcome| outcome.is_ok());
        let refused = |outcome| matches!(outcome, &Err(ApplyError::Refused(Refused::Conflict { .. })));
        let one_refused = applied[0] != applied[1] && (refused(&first) || refused(&second));
        ensure(one_refused, "T2", || format!("two writers on {base} came to {first:?} and {second:?}"))?;
        let found = rows(&unfailing(store.read(fleet).await)?);
        let index = Index(if applied[0] { 100 + round } else { 200 + round });
        let whole = ["left", "right"].iter().all(|name| found.get(*name).is_some_and(|row| row.index == index));
        ensure(whole, "T2", || format!("the writer of {index} was applied, and the rows are {found:?}"))?;
    }
    Ok(())
}

/// T1: tables of different fleets do not know of each other.
///
/// # Errors
/// With the first promise that was not kept.
pub async fn two_fleets(store: &impl TableStore, one: &Fleet, other: &Fleet) -> Result<(), Broken> {
    apply(store, one, Version::NONE, vec![put("42", 5, false)?]).await?;
    apply(store, other, Version::NONE, vec![put("42", 1, true)?]).await?;
    for (fleet, index, pinned) in [(one, 5, false), (other, 1, true)] {
        let found = rows(&unfailing(store.read(fleet).await)?);
        let row = found.get("42").map(|row| (row.index.0, row.pinned));
        ensure(found.len() == 1 && row == Some((index, pinned)), "T1", || format!("the table of {fleet} reads {found:?}"))?;
    }
    Ok(())
}

/// T4: of the rows of [`GARBAGE`], which the caller has written, what can be used is there, the rest is told, and a change keeps
/// both. Where the store itself refuses such rows (a column's type, a constraint), write those that it takes and say how many.
///
/// # Errors
/// With the first promise that was not kept.
pub async fn table_hides_nothing_behind_garbage(store: &impl TableStore, fleet: &Fleet, unusable: usize) -> Result<(), Broken> {
    let before = unfailing(store.read(fleet).await)?;
    let good = owner("good")?;
    ensure(before.row(&good).is_some_and(|row| row.index == Index(1)), "T4", || format!("the good row is gone: {before:?}"))?;
    ensure(before.malformed().len() == unusable, "T4", || {
        format!("{unusable} rows are garbage, told were {:?}", before.malformed())
    })?;
    for processes in [1, 8, 12] {
        for name in GARBAGE.iter().map(|(name, _)| *name) {
            let resolved = before.resolve(&owner(name)?, processes);
            let inside = resolved.is_ok_and(|resolved| resolved.index.0 < processes);
            ensure(inside, "T4", || format!("{name} of {processes} processes resolves to {resolved:?}"))?;
        }
    }
    apply(store, fleet, before.version(), vec![put("new", 2, false)?]).await?;
    let after = unfailing(store.read(fleet).await)?;
    ensure(after.row(&good) == before.row(&good), "T4", || "a change of another row changed the good one".to_owned())?;
    ensure(after.malformed().len() == unusable, "T4", || format!("a change left {:?} of the garbage", after.malformed()))
}

/// P1 and P2.
///
/// # Errors
/// With the first promise that was not kept.
pub async fn reports(store: &impl ReportStore, fleet: &Fleet, other: &Fleet) -> Result<(), Broken> {
    let none = unfailing(store.read_all(fleet).await)?;
    ensure(none.reports.is_empty() && none.malformed.is_empty(), "P2", || format!("a new fleet has {none:?}"))?;
    let report = |fleet: &Fleet, index: u32, number: u64| {
        let mut report = Report::new(fleet.clone(), Index(index), 12, 7, number, Duration::from_millis(60_003));
        let load = |name, milli| Ok(OwnerLoad { owner: owner(name)?, cores: Cores::from_milli(milli) });
        report.owners = vec![load("a b", 100 * number)?, load("idle", 0)?];
        report.unattributed = Cores::from_milli(5);
        report.process = Cores::from_milli(100 * number + 5);
        report.capped = number == 2;
        report.pressure.refused = Some(number);
        Ok::<_, Broken>(report)
    };
    // An idle process reports too.
    let idle = Report::new(fleet.clone(), Index(11), 12, 8, 1, Duration::from_secs(60));
    for given in [&report(fleet, 0, 1)?, &report(fleet, 1, 1)?, &report(other, 0, 9)?, &idle, &report(fleet, 0, 2)?] {
        unfailing(store.put(given).await)?;
    }
    let mut found = unfailing(store.read_all(fleet).await)?;
    found.reports.sort_by_key(|report| report.index);
    let wanted = [report(fleet, 0, 2)?, report(fleet, 1, 1)?, idle];
    ensure(found.reports == wanted && found.malformed.is_empty(), "P1", || format!("put {wanted:?}, and read {found:?}"))?;
    let found = unfailing(store.read_all(other).await)?;
    ensure(found.reports == [report(other, 0, 9)?], "P1", || format!("the other fleet reads {found:?}"))
}
