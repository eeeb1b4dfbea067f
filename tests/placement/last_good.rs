//! Readers when the store is away, or lies: PL-03, 1C.7, 1C.8, metallb 615.

use keywake::placement::{Index, ResolvedBy, Row, StoreError, StoreTime, Table, TableReader, Version, store::ReadOutcome};

use crate::{
    files::Directory,
    fleet::{fleet, owner},
};

/// A table of `rows` owners, all on process 5.
fn table(version: u64, rows: usize) -> Table {
    let mut table = Table::new(fleet("ded"), Version(version), StoreTime::default());
    (0..rows).for_each(|row| table.insert(owner(&row.to_string()), Row::at(Index(5))));
    table
}

fn away() -> Result<Table, StoreError> {
    Err(StoreError::new("test", "read ded", "connection refused"))
}

fn of_row_0(reader: &TableReader) -> ResolvedBy {
    reader.resolve(&owner("0"), 12).expect("a process").by
}

#[test]
fn table_that_was_never_read_is_an_empty_one_and_the_error_is_counted() {
    let reader = TableReader::new(fleet("ded"));
    assert!(matches!(reader.take(away()), ReadOutcome::Failed(_)));
    let resolved = reader.resolve(&owner("mergify"), 10).unwrap();
    assert_eq!((resolved.index, resolved.by, reader.stats().errors), (Index(2), ResolvedBy::Hash, 1));
}

#[test]
fn outage_keeps_the_last_good_table() {
    let reader = TableReader::new(fleet("ded"));
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Taken));
    for failures in 1..100 {
        let outcome = reader.take(away());
        assert!(!outcome.is_current());
        assert_eq!((of_row_0(&reader), reader.table().len(), reader.stats().stale_for), (ResolvedBy::Row, 33, failures));
    }
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Unchanged));
    assert_eq!((reader.stats().errors, reader.stats().stale_for), (99, 0));
}

#[test]
fn sudden_emptiness_is_believed_at_the_second_read_in_a_row() {
    let reader = TableReader::new(fleet("ded"));
    reader.take(Ok(table(7, 33)));
    assert!(matches!(reader.take(Ok(table(8, 0))), ReadOutcome::Suspect));
    assert_eq!(of_row_0(&reader), ResolvedBy::Row);
    assert!(matches!(reader.take(away()), ReadOutcome::Failed(_)), "and an outage between is no second read");
    assert!(matches!(reader.take(Ok(table(8, 0))), ReadOutcome::Suspect));
    assert!(matches!(reader.take(Ok(table(8, 0))), ReadOutcome::Taken));
    assert_eq!((of_row_0(&reader), reader.stats().suspects), (ResolvedBy::Hash, 2));
}

#[test]
fn version_that_goes_back_is_believed_at_the_second_read_in_a_row() {
    // A replica that lags, or a restored backup.
    let reader = TableReader::new(fleet("ded"));
    reader.take(Ok(table(7, 33)));
    assert!(matches!(reader.take(Ok(table(6, 32))), ReadOutcome::Suspect));
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Unchanged));
    assert!(matches!(reader.take(Ok(table(6, 32))), ReadOutcome::Suspect));
    assert!(matches!(reader.take(Ok(table(5, 31))), ReadOutcome::Suspect), "two replicas that lag do not say the same");
    assert!(matches!(reader.take(Ok(table(6, 32))), ReadOutcome::Suspect));
    assert!(matches!(reader.take(Ok(table(6, 32))), ReadOutcome::Taken));
}

#[test]
fn empty_table_from_the_start_is_no_cause_for_doubt() {
    let reader = TableReader::new(fleet("ded"));
    assert!(matches!(reader.take(Ok(table(0, 0))), ReadOutcome::Unchanged));
    assert!(matches!(reader.take(Ok(table(1, 2))), ReadOutcome::Taken));
}

#[test]
fn process_that_restarts_in_an_outage_places_as_its_peers_do() {
    let directory = Directory::new();
    let path = directory.path().join("kept");
    let (peer, none) = TableReader::kept_at(fleet("ded"), &path);
    assert!(none.is_none());
    peer.take(Ok(table(7, 33)));
    let (restarted, none) = TableReader::kept_at(fleet("ded"), &path);
    assert!(none.is_none() && !restarted.take(away()).is_current());
    for row in 0..40 {
        let owner = owner(&row.to_string());
        assert_eq!(restarted.resolve(&owner, 12), peer.resolve(&owner, 12), "neither on both nor on none");
    }
    // Without it, it has the hash: the hazard that keeping the table is for.
    let forgetful = TableReader::new(fleet("ded"));
    forgetful.take(away());
    let apart = (0..33).filter(|row| {
        let owner = owner(&row.to_string());
        forgetful.resolve(&owner, 12) != peer.resolve(&owner, 12)
    });
    assert!(apart.count() > 20);
}

#[test]
fn kept_table_that_cannot_be_used_is_told_and_is_no_table() {
    let directory = Directory::new();
    let path = directory.path().join("kept");
    std::fs::write(&path, "keywake placement table 1\nfleet ded\n").unwrap();
    let (reader, error) = TableReader::kept_at(fleet("ded"), &path);
    assert!(error.unwrap().to_string().contains("kept: line 3"));
    assert!(reader.table().is_empty());
    std::fs::write(&path, table(1, 1).to_text()).unwrap();
    let (reader, error) = TableReader::kept_at(fleet("ing"), &path);
    assert!(error.unwrap().to_string().contains("it is the table of ded, not of ing") && reader.table().is_empty());
    // A disk that is full, or gone, costs the copy and nothing else.
    let (reader, _) = TableReader::kept_at(fleet("ded"), directory.path().join("no/such/directory"));
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Taken));
    assert_eq!((of_row_0(&reader), reader.stats().unkept), (ResolvedBy::Row, 1));
    // And is made up for when there is one again, whether or not the table has changed.
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Unchanged));
    std::fs::create_dir_all(directory.path().join("no/such")).unwrap();
    assert!(matches!(reader.take(Ok(table(7, 33))), ReadOutcome::Unchanged));
    let (restarted, _) = TableReader::kept_at(fleet("ded"), directory.path().join("no/such/directory"));
    assert_eq!((restarted.table().len(), reader.stats().unkept), (33, 2));
}
