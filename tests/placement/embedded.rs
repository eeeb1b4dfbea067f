//! The store in a directory: what every store promises, and what files can do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use keywake::placement::{
    ApplyError, Change, Changes, EmbeddedStore, Fleet, Index, Owner, ReportStore, Row, StoreTime, Table, TableReader, TableStore,
    Version,
    store::{
        ReadOutcome,
        contract::{self, GARBAGE},
    },
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
    fs::write(directory.path().join("one.table"), text).unwrap();
    now(contract::table_hides_nothing_behind_garbage(&store, &fleet("one"), 2)).unwrap();
    let text = fs::read_to_string(directory.path().join("one.table")).unwrap();
    assert!(text.contains("row -1 free - negative\n") && text.contains("row 5000000000 free - huge\n"), "{text}");
}

#[test]
fn file_that_was_cut_short_is_an_error_that_names_file_and_line() {
    let (directory, store) = store();
    let owner = Owner::new("a").unwrap();
    let changes = vec![Change::Put { owner, index: Index(1), pinned: false }];
    now(store.apply(&Changes { fleet: fleet("one"), base: Version::NONE, changes })).unwrap();
    let path = directory.path().join("one.table");
    let text = fs::read_to_string(&path).unwrap();
    for length in 0..text.len() - 1 {
        fs::write(&path, &text[..length]).unwrap();
        let error = now(store.read(&fleet("one"))).unwrap_err().to_string();
        assert!(error.contains("one.table: line "), "{length}: {error}");
    }
}

/// Puts so many owners on process 1.
fn put(store: &EmbeddedStore, base: Version, owners: usize) -> Result<Version, ApplyError> {
    let put = |name: usize| Change::Put { owner: Owner::new(&name.to_string()).expect("a name"), index: Index(1), pinned: false };
    now(store.apply(&Changes { fleet: fleet("one"), base, changes: (0..owners).map(put).collect() }))
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_is_done_by_a_call_that_nobody_waits_for() {
    let (_directory, store) = store();
    let owner = Owner::new("a").unwrap();
    let changes = vec![Change::Put { owner, index: Index(1), pinned: false }];
    drop(store.apply(&Changes { fleet: fleet("one"), base: Version::NONE, changes }));
    assert_eq!(now(store.read(&fleet("one"))).unwrap().version(), Version::NONE);
}

#[test]
fn directory_that_is_gone_is_an_outage_and_no_empty_table() {
    let (directory, store) = store();
    let reader = TableReader::new(fleet("one"));
    put(&store, Version::NONE, 3).unwrap();
    assert!(matches!(now(reader.refresh(&store)), ReadOutcome::Taken));
    fs::remove_dir_all(directory.path()).unwrap();
    for _ in 0..3 {
        assert!(matches!(now(reader.refresh(&store)), ReadOutcome::Failed(_)));
    }
    assert_eq!(reader.table().len(), 3);
    assert!(matches!(put(&store, Version(1), 1), Err(ApplyError::Store(_))) && now(store.read_all(&fleet("one"))).is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn directory_that_cannot_be_written_is_read_all_the_same() {
    let store = EmbeddedStore::open("/proc/self/task").unwrap();
    assert!(now(store.read(&fleet("one"))).unwrap().is_empty() && now(store.read_all(&fleet("one"))).is_ok());
    let Err(ApplyError::Store(error)) = put(&store, Version::NONE, 1) else { panic!("it was written") };
    assert!(error.to_string().contains("one.table.lock"), "{error}");
}

/// Set where a test runs that another one starts: to that one's directory.
const INSIDE: &str = "KEYWAKE_INSIDE";

/// Runs one of the ignored tests after what the shell is told first.
fn run_inside(directory: &Path, first: &str, test: &str) {
    let output = Command::new("sh")
        .args(["-c", &format!("{first}; exec \"$@\""), "sh"])
        .arg(std::env::current_exe().expect("a program"))
        .args(["--exact", "--ignored", test])
        .env(INSIDE, directory)
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "is started by the one below, in a directory of its own"]
fn reader_that_keeps_its_table_under_a_bare_name() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mut table = Table::new(fleet("one"), Version(7), StoreTime::default());
    table.insert(Owner::new("a").unwrap(), Row::at(Index(1)));
    let (reader, _) = TableReader::kept_at(fleet("one"), "kept");
    reader.take(Ok(table));
    assert_eq!(reader.stats().unkept, 0);
}

#[test]
#[cfg(unix)]
fn bare_name_is_in_the_directory_that_the_process_is_in() {
    let (directory, _store) = store();
    run_inside(directory.path(), "cd \"$KEYWAKE_INSIDE\"", "embedded::reader_that_keeps_its_table_under_a_bare_name");
    let (reader, error) = TableReader::kept_at(fleet("one"), directory.path().join("kept"));
    assert!(error.is_none() && reader.table().len() == 1);
}

#[test]
#[ignore = "is started by the one below, where files may have no more than a block"]
fn writer_on_a_full_disk() {
    let Some(directory) = std::env::var_os(INSIDE).map(PathBuf::from) else { return };
    let store = EmbeddedStore::open(&directory).unwrap();
    let first = put(&store, Version::NONE, 3).unwrap();
    let before = names(&directory);
    let Err(ApplyError::Store(error)) = put(&store, first, 500) else { panic!("it had room") };
    assert!(error.to_string().contains("write"), "{error}");
    let table = now(store.read(&fleet("one"))).unwrap();
    assert_eq!((table.version(), table.len()), (first, 3));
    assert_eq!(names(&directory), before, "what was begun is gone");
    put(&store, first, 4).unwrap();
}

#[test]
fn disk_that_is_full_costs_the_change_and_nothing_else() {
    let (directory, _store) = store();
    // A write beyond the limit is an error where the signal is ignored.
    run_inside(directory.path(), "trap '' XFSZ; ulimit -f 1", "embedded::writer_on_a_full_disk");
    assert!(directory.path().join("one.table").exists(), "it ran");
}

#[test]
#[cfg(target_os = "linux")]
fn lock_of_a_process_that_dies_goes_with_it() {
    let (directory, store) = store();
    let first = put(&store, Version::NONE, 1).unwrap();
    let lock = directory.path().join("one.table.lock");
    let flock = |arguments: &[&str]| {
        let mut command = Command::new("flock");
        command.arg(arguments[0]).arg(&lock).args(&arguments[1..]).stdin(Stdio::null());
        command
    };
    let mut holder = flock(&["--no-fork", "sleep", "60"]).spawn().unwrap();
    while flock(&["--nonblock", "true"]).status().unwrap().success() {}
    let Err(ApplyError::Store(error)) = put(&store, first, 2) else { panic!("there was no lock") };
    assert!(error.to_string().contains("lock"), "{error}");
    assert_eq!(now(store.read(&fleet("one"))).unwrap().version(), first, "who reads needs no lock");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(put(&store, first, 2).unwrap() > first);
}

#[test]
#[cfg(unix)]
fn links_are_replaced_and_never_written_through() {
    let (directory, store) = store();
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, directory.path().join("one.table")).unwrap();
    // The victim is no table: an error, and what stands there stays.
    assert!(put(&store, Version::NONE, 1).is_err());
    fs::remove_file(directory.path().join("one.table")).unwrap();
    // What is left under the names that are written first: of a process that died, or planted.
    for number in 0..3_000 {
        let name = format!(".one.table.{}.{number}", std::process::id());
        std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
    }
    let first = put(&store, Version::NONE, 1).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    let kept = directory.path().join("kept.table");
    fs::rename(directory.path().join("one.table"), &kept).unwrap();
    std::os::unix::fs::symlink(&kept, directory.path().join("one.table")).unwrap();
    assert!(put(&store, first, 2).unwrap() > first);
    assert_eq!(now(store.read(&fleet("one"))).unwrap().len(), 2);
    assert!(fs::read_to_string(&kept).unwrap().ends_with("end 1\n"), "a reader of the old one sees it whole");
}
