//! The store in a directory: what every store promises, and what files can do.

use keywake::placement::{
    Change, Changes, EmbeddedStore, Fleet, Index, Owner, TableStore, Version,
    store::contract::{self, GARBAGE},
};

use crate::files::{Directory, now};

fn fleet(name: &str) -> Fleet {
    Fleet::new(name).expect("a name")
}

fn store() -> (Directory, EmbeddedStore) {
    let directory = Directory::new();
    let store = EmbeddedStore::open(directory.path()).expect("a directory");
    (directory, store)
}

#[test]
fn embedded_store_keeps_every_promise_of_a_table() {
    let (_directory, store) = store();
    now(contract::table(&store, &fleet("one"))).unwrap();
    now(contract::two_writers(&store, &fleet("two"))).unwrap();
    now(contract::two_fleets(&store, &fleet("three"), &fleet("four"))).unwrap();
}

#[test]
fn embedded_store_keeps_every_promise_of_reports() {
    let (_directory, store) = store();
    now(contract::reports(&store, &fleet("one"), &fleet("two"))).unwrap();
}

#[test]
fn malformed_rows_of_a_file_hide_nothing_and_are_kept() {
    let (directory, store) = store();
    let rows: String = GARBAGE.iter().map(|(owner, index)| format!("row {index} free - {owner}\n")).collect();
    let text = format!("keywake placement table 1\nfleet one\nversion 17\nhash 1\n{rows}end {}\n", GARBAGE.len());
    std::fs::write(directory.path().join("one.table"), text).unwrap();
    now(contract::table_hides_nothing_behind_garbage(&store, &fleet("one"), 2)).unwrap();
    let text = std::fs::read_to_string(directory.path().join("one.table")).unwrap();
    assert!(text.contains("row -1 free - negative\n") && text.contains("row 5000000000 free - huge\n"), "{text}");
}

#[test]
fn file_that_was_cut_short_is_an_error_that_names_file_and_line() {
    let (directory, store) = store();
    let owner = Owner::new("a").unwrap();
    let changes = vec![Change::Put { owner, index: Index(1), pinned: false }];
    now(store.apply(&Changes { fleet: fleet("one"), base: Version::NONE, changes })).unwrap();
    let path = directory.path().join("one.table");
    let text = std::fs::read_to_string(&path).unwrap();
    for length in 0..text.len() - 1 {
        std::fs::write(&path, &text[..length]).unwrap();
        let error = now(store.read(&fleet("one"))).unwrap_err().to_string();
        assert!(error.contains("one.table: line "), "{length}: {error}");
    }
}
