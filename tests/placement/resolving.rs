//! Where an owner runs: PL-01 to PL-11, G01 to G09.

use std::collections::HashMap;

use keywake::placement::{
    EmptyFleet, Fleet, HASH_VERSION, Index, Owner, ResolvedBy, Row, StoreTime, Table, Version, placement_hash,
};

use crate::fleet::{Random, fleet, owner};

fn table(name: &str, rows: &[(&str, u32)]) -> Table {
    let mut table = Table::empty(fleet(name));
    for (name, index) in rows {
        table.insert(owner(name), Row::at(Index(*index)));
    }
    table
}

fn at(table: &Table, name: &str, processes: u32) -> (u32, ResolvedBy) {
    let resolved = table.resolve(&owner(name), processes).unwrap_or_else(|error| panic!("{error}"));
    (resolved.index.0, resolved.by)
}

/// G01: owner, hash, modulo 8, 10, 12.
const VECTORS: [(&str, u64, [u32; 3]); 6] = [
    ("1", 0x6258_51e3_876e_6e6d, [5, 3, 1]),
    ("42", 0xcf01_c9d9_de8c_f143, [3, 1, 3]),
    ("1000", 0xc75e_d828_7226_f3c1, [1, 7, 9]),
    ("mergify", 0x6b95_c1a7_4f1c_cd54, [4, 2, 4]),
    ("org:7", 0xeb97_05f8_2a6f_d358, [0, 6, 8]),
    ("owner-123456", 0x0d96_51ca_cb2c_23b3, [3, 7, 7]),
];

#[test]
fn hash_gives_the_frozen_vectors() {
    let empty = table("ded", &[]);
    for (name, hash, indexes) in VECTORS {
        assert_eq!(placement_hash(name.as_bytes()), hash, "{name}");
        assert_eq!(owner(name).placement_hash(), hash, "{name}");
        for (processes, index) in [8, 10, 12].into_iter().zip(indexes) {
            assert_eq!(at(&empty, name, processes), (index, ResolvedBy::Hash), "{name} of {processes}");
        }
    }
    assert_eq!(HASH_VERSION, 1, "another number is another hash, and a migration");
}

#[test]
fn hash_is_that_of_the_standard_with_a_digest_of_32_bytes_and_not_of_8() {
    // RFC 7693, appendix E: BLAKE2s-256("abc") begins 50 8c 5e 8c 32 7c 14 e2.
    assert_eq!(placement_hash(b"abc"), 0x508c_5e8c_327c_14e2);
    assert_ne!(placement_hash(b"42"), 0xfe1d_eedc_4ca7_d679, "the variant whose digest has 8 bytes");
}

#[test]
fn hash_is_of_the_bytes_and_not_of_what_rusts_hash_feeds() {
    // `impl Hash for str` feeds a byte 0xff behind its own; the default hasher is SipHash-1-3 today, and may be another tomorrow.
    assert_ne!(placement_hash(b"42"), placement_hash(b"42\xff"));
    assert_ne!(placement_hash(b"42"), 0x05ee_89d1_0068_c3d9);
    assert_ne!(placement_hash(b"42"), 0xb17d_c261_8f65_2941);
}

#[test]
fn row_wins_over_the_hash() {
    assert_eq!(at(&table("ded", &[("42", 7)]), "42", 12), (7, ResolvedBy::Row));
}

#[test]
fn row_outside_the_readers_own_fleet_falls_back_to_the_hash_over_its_size() {
    let table = table("ded", &[("42", 11)]);
    assert_eq!(at(&table, "42", 12), (11, ResolvedBy::Row));
    assert_eq!(at(&table, "42", 8), (3, ResolvedBy::OutOfRange));
    assert_eq!(
        at(&table, "42", 11),
        ((0xcf01_c9d9_de8c_f143_u64 % 11) as u32, ResolvedBy::OutOfRange),
        "the first index outside"
    );
    assert_eq!((table.out_of_range(8), table.out_of_range(12)), (1, 0));
}

#[test]
fn table_without_rows_places_exactly_as_the_hash_alone() {
    let empty = table("ded", &[]);
    assert_eq!(at(&empty, "mergify", 10), (2, ResolvedBy::Hash));
    let mut random = Random(4);
    for _ in 0..2_000 {
        let (name, processes) = (random.next().to_string(), 1 + random.small(500));
        assert_eq!(u64::from(at(&empty, &name, processes).0), placement_hash(name.as_bytes()) % u64::from(processes));
    }
}

#[test]
fn one_process_pool_that_reads_rows_of_a_large_fleet_runs_everything() {
    let table = table("ded", &[("a", 7), ("b", 0), ("c", 11)]);
    let found = ["a", "b", "c"].map(|name| at(&table, name, 1));
    assert_eq!(found, [(0, ResolvedBy::OutOfRange), (0, ResolvedBy::Row), (0, ResolvedBy::OutOfRange)]);
}

#[test]
fn owner_that_is_seen_for_the_first_time_has_a_place_at_once() {
    assert_eq!(at(&table("ded", &[("42", 7)]), "never seen before", 12).1, ResolvedBy::Hash);
}

#[test]
fn same_owner_in_two_fleets_has_two_rows() {
    let (ded, ing) = (table("ded", &[("42", 5)]), table("ing", &[("42", 1)]));
    assert_eq!((at(&ded, "42", 12).0, at(&ing, "42", 4).0), (5, 1));
    assert_eq!((at(&ing, "1000", 4), at(&ded, "1000", 12)), ((1, ResolvedBy::Hash), (9, ResolvedBy::Hash)));
}

#[test]
fn fleet_of_no_processes_is_an_error_and_no_division() {
    let table = table("ded", &[("42", 0)]);
    assert_eq!(table.resolve(&owner("42"), 0), Err(EmptyFleet));
    assert_eq!(table.resolve(&owner("x"), 0), Err(EmptyFleet));
}

#[test]
fn every_owner_is_on_exactly_one_process_whatever_the_rows_say() {
    let mut random = Random(8);
    for _ in 0..200 {
        let mut table = Table::new(fleet("ded"), Version(1), StoreTime::default());
        let names: Vec<_> = (0..40).map(|_| random.below(60).to_string()).collect();
        for name in &names {
            let index = [random.below(30) as i64, -1, i64::MIN, i64::MAX, i64::from(u32::MAX), 1 << 40][random.place(6)];
            table.insert_raw(name, index, random.below(2) == 0, None);
        }
        let processes = 1 + random.small(20);
        let mut held: HashMap<Owner, u32> = HashMap::new();
        for name in names {
            let first = at(&table, &name, processes).0;
            assert!(first < processes);
            // Each process asks for itself; one says that it is its own.
            let claims = (0..processes).filter(|index| at(&table, &name, processes).0 == *index).count();
            assert_eq!(claims, 1, "{name}");
            assert_eq!(*held.entry(owner(&name)).or_insert(first), first);
        }
    }
}

#[test]
fn falling_back_leaves_the_row_where_it_is() {
    let table = table("ded", &[("42", 11)]);
    let before = table.to_text();
    assert_eq!(at(&table, "42", 8).1, ResolvedBy::OutOfRange);
    assert_eq!(table.to_text(), before);
    assert_eq!(at(&table, "42", 12), (11, ResolvedBy::Row), "and it is right for the larger fleet");
}

#[test]
fn rows_that_are_negative_or_too_large_are_told_and_fall_back() {
    let mut table = Table::empty(fleet("ded"));
    table.insert_raw("42", -1, false, None);
    table.insert_raw("mergify", 5_000_000_000, false, None);
    table.insert_raw("", 1, false, None);
    table.insert_raw("two\nlines", 1, false, None);
    table.insert_raw("good", 4, true, None);
    assert_eq!((at(&table, "42", 8), at(&table, "mergify", 10)), ((3, ResolvedBy::Hash), (2, ResolvedBy::Hash)));
    assert_eq!(at(&table, "good", 8), (4, ResolvedBy::Row));
    let told: Vec<_> = table.malformed().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], "row \"row -1 - - 42\": -1 is no index of a process");
}

#[test]
fn names_that_a_store_could_not_hold_are_refused_with_the_rule() {
    for name in ["", "a\0b", "a\nb", "\u{7f}", &"x".repeat(257)] {
        assert!(Owner::new(name).is_err(), "{name:?}");
    }
    assert!(Owner::new(&"x".repeat(256)).is_ok() && Owner::new(" ä:/*.> ").is_ok());
    for name in ["", "a b", "a.b", "ä", "a/b", &"x".repeat(65)] {
        assert!(Fleet::new(name).is_err(), "{name:?}");
    }
    let error = Fleet::new("a b").unwrap_err().to_string();
    assert_eq!(error, "\"a b\" is no name of a fleet, which has 1 to 64 ASCII letters, digits, - and _");
}
