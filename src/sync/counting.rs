//! The counting build's book: which cache lines a thread touched through `sync.rs`, how, and from where. A door for tests.

use std::{cell::RefCell, collections::BTreeMap, fmt, panic::Location};

/// Bytes of a line.
pub const LINE: usize = 64;

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read of what does not change any more.
    Fixed,
    /// A load, or a lock's holder reading what it guards.
    Load,
    /// A read-modify-write, also one that fails.
    Rmw,
    /// A store, or a lock's holder who may write what it guards.
    Store,
}

/// How a line, or several, were touched.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// Read-modify-writes.
    pub rmws: u64,
    /// Stores.
    pub stores: u64,
    /// Loads.
    pub loads: u64,
    /// Reads of what does not change any more.
    pub fixed: u64,
    /// From where: each place once.
    pub places: Vec<&'static Location<'static>>,
}

impl Touches {
    /// Whether it was written.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.rmws + self.stores > 0
    }

    /// (read-modify-writes, stores, loads).
    #[must_use]
    pub fn numbers(&self) -> (u64, u64, u64) {
        (self.rmws, self.stores, self.loads)
    }

    fn add(&mut self, access: Access, place: &'static Location<'static>) {
        *match access {
            Access::Fixed => &mut self.fixed,
            Access::Load => &mut self.loads,
            Access::Rmw => &mut self.rmws,
            Access::Store => &mut self.stores,
        } += 1;
        if !self.places.contains(&place) {
            self.places.push(place);
        }
    }
}

/// What was touched, by line.
#[derive(Clone, Default)]
pub struct Record {
    /// By address / [`LINE`].
    pub lines: BTreeMap<usize, Touches>,
}

impl Record {
    /// All lines together.
    #[must_use]
    pub fn total(&self) -> Touches {
        let mut total = Touches::default();
        for touches in self.lines.values() {
            total.rmws += touches.rmws;
            total.stores += touches.stores;
            total.loads += touches.loads;
            total.fixed += touches.fixed;
        }
        total
    }

    /// The lines that were written.
    #[must_use]
    pub fn written(&self) -> usize {
        self.lines.values().filter(|touches| touches.is_written()).count()
    }

    /// The lines that both touched, and one of them wrote.
    #[must_use]
    pub fn conflicts_with<'a>(&'a self, other: &'a Self) -> Vec<Conflict<'a>> {
        let both = self.lines.iter().filter_map(|(line, one)| Some(Conflict { line: *line, one, other: other.lines.get(line)? }));
        both.filter(|conflict| conflict.one.is_written() || conflict.other.is_written()).collect()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, touches) in &self.lines {
            writeln!(f, "{:#x}: {touches}", line * LINE)?;
        }
        Ok(())
    }
}

impl fmt::Display for Touches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rmw, {} stores, {} loads, {} fixed at", self.rmws, self.stores, self.loads, self.fixed)?;
        self.places.iter().try_for_each(|place| write!(f, " {}:{}", place.file(), place.line()))
    }
}

/// A line that two touched, and one of them wrote.
pub struct Conflict<'a> {
    /// The line's number.
    pub line: usize,
    /// What the one did there.
    pub one: &'a Touches,
    /// What the other did there.
    pub other: &'a Touches,
}

impl fmt::Debug for Conflict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:#x}: one {}\n  other {}", self.line * LINE, self.one, self.other)
    }
}

thread_local! {
    static RECORD: RefCell<Option<Record>> = const { RefCell::new(None) };
}

/// Runs `f`, and tells what this thread touched meanwhile.
///
/// # Panics
/// If called by `f` itself.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Record) {
    let before = RECORD.replace(Some(Record::default()));
    assert!(before.is_none(), "records do not nest");
    let result = f();
    (result, RECORD.take().unwrap_or_default())
}

/// Notes that `bytes` bytes at `address` are touched, if this thread is being recorded. For what does not come through `sync.rs`: a
/// test's keys and wakers.
#[track_caller]
pub fn note(access: Access, address: usize, bytes: usize) {
    let place = Location::caller();
    // Not there while the thread ends.
    let _gone = RECORD.try_with(|record| {
        if let Some(record) = &mut *record.borrow_mut() {
            for line in address / LINE..(address + bytes).div_ceil(LINE) {
                record.lines.entry(line).or_default().add(access, place);
            }
        }
    });
}
