//! Tables and reports as text: whole, exact, and total over whatever a store may hold.

use std::time::Duration;

use keywake::placement::{Cores, Index, LOAD_MODEL, MalformedRow, OwnerLoad, Report, Row, StoreTime, Table, TextError, Version};

use crate::fleet::{Random, fleet, milli, owner};

fn table() -> Table {
    let mut table = Table::new(fleet("ded"), Version(17), StoreTime::default());
    table.insert(owner("b"), Row { index: Index(3), pinned: true, moved_at: None });
    table.insert(
        owner(" a b "),
        Row { index: Index(0), pinned: false, moved_at: Some(StoreTime(Duration::from_millis(1_700_000_000_123))) },
    );
    table
}

fn report() -> Report {
    let mut report = Report::new(fleet("ded"), Index(3), 12, u64::MAX, 9, Duration::from_nanos(60_000_000_001));
    report.owners =
        vec![OwnerLoad { owner: owner("a b"), cores: milli(400) }, OwnerLoad { owner: owner("idle"), cores: Cores::ZERO }];
    (report.unattributed, report.process, report.capped, report.model) = (milli(50), milli(450), true, LOAD_MODEL + 1);
    report.pressure.relay_lag = Some(Duration::from_micros(7));
    report
}

#[test]
fn table_is_read_as_it_was_written() {
    let text = table().to_text();
    assert_eq!(
        text,
        "keywake placement table 1\nfleet ded\nversion 17\nhash 1\nrow 0 free 1700000000123  a b \nrow 3 pinned - b\nend 2\n"
    );
    assert_eq!(Table::from_text(&text, StoreTime::default()).unwrap(), table());
}

#[test]
fn report_is_read_as_it_was_written() {
    assert_eq!(Report::from_text(&report().to_text()).unwrap(), report());
    let idle = Report::new(fleet("ded"), Index(0), 1, 1, 1, Duration::from_secs(60));
    assert_eq!(Report::from_text(&idle.to_text()).unwrap(), idle);
}

#[test]
fn text_that_was_cut_is_no_table_and_no_report() {
    let (table, report) = (table().to_text(), report().to_text());
    for length in 0..table.len() - 1 {
        assert!(Table::from_text(&table[..length], StoreTime::default()).is_err(), "{:?}", &table[..length]);
    }
    for length in 0..report.len() - 1 {
        assert!(Report::from_text(&report[..length]).is_err(), "{:?}", &report[..length]);
    }
}

#[test]
fn errors_name_the_line_and_the_value() {
    let error = Table::from_text("keywake placement table 1\nfleet ded\nversion x\n", StoreTime::default()).unwrap_err();
    assert_eq!(error, TextError { line: 3, value: "version x".to_owned(), wanted: "a number" });
    assert_eq!(error.to_string(), "line 3: \"version x\" where a number should stand");
    let error = |from: &str, to: &str| Report::from_text(&report().to_text().replace(from, to)).unwrap_err().to_string();
    assert_eq!(error("window 60000000001", "window 0"), "line 8: \"window 0\" where a length above 0 should stand");
    assert!(error("owner 400000000 a b", "owner 400000001 a b").contains("add up to the process"));
    assert!(error("owner 400000000 a b", "owner 18446744073709551615 a b").contains("add up to the process"));
    assert!(error("capped yes", "capped true").contains("yes or no"));
    assert!(error("end 2", "end 3").contains("the number of rows"));
    assert!(error("end 2\n", "end 2\nmore").contains("nothing"));
}

#[test]
fn rows_that_cannot_be_used_are_told_and_written_back() {
    let rows =
        ["row -1 free - a", "row 1 loose - a", "row 1 free then a", "row 1 free -", "rubbish", "row 99999999999 free - a", ""];
    let text =
        format!("keywake placement table 1\nfleet ded\nversion 1\nhash 1\n{}\nrow 4 free - good\nend 8\n", rows.join("\n"));
    let table = Table::from_text(&text, StoreTime::default()).unwrap();
    assert_eq!((table.len(), table.malformed().len()), (1, 7), "{:?}", table.malformed());
    let again = Table::from_text(&table.to_text(), StoreTime::default()).unwrap();
    assert_eq!(again, table);
}

#[test]
fn malformed_rows_never_break_the_text_that_they_are_written_to() {
    for row in ["end 3", "a\nb", "end 0\nend 1", "\r", "row 1 free - ok\nrow 2 free - two"] {
        let mut table = table();
        table.insert_malformed(MalformedRow { row: row.to_owned(), reason: String::new() });
        let again = Table::from_text(&table.to_text(), StoreTime::default()).unwrap();
        assert_eq!((again.len() + again.malformed().len(), again.row(&owner("b"))), (3, table.row(&owner("b"))), "{row:?}");
    }
}

#[test]
fn no_text_panics() {
    let mut random = Random(2);
    for seed in [table().to_text(), report().to_text()] {
        for _ in 0..4_000 {
            let mut bytes = seed.clone().into_bytes();
            for _ in 0..1 + random.below(4) {
                let at = random.place(bytes.len() as u64);
                match random.below(3) {
                    0 => bytes[at] = u8::try_from(random.below(256)).unwrap_or_default(),
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b" \n-9"[random.place(4)]),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            drop(Table::from_text(&text, StoreTime::default()));
            drop(Report::from_text(&text));
        }
    }
}
