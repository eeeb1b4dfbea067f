//! The last table that was good: what resolves owners never sees an error.

use std::path::PathBuf;

use super::{
    StoreError, TableStore,
    embedded::{read_table, replace},
};
use crate::{
    placement::{
        name::{Fleet, Owner},
        table::{EmptyFleet, Resolved, StoreTime, Table, Version},
    },
    sync::{Mutex, PlainArc},
};

/// What a read came to. Whatever it was, there is a table to go on with.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// The store failed; the last good table stays. (Without one, it is the empty one: owners are placed by the hash.)
    Failed(StoreError),
    /// It is emptier or older than it can be: a table that had rows has none, or its version went back. The last good table stays, until the
    /// next read in a row says the same: this version, this number of rows.
    Suspect,
    /// It was taken.
    Taken,
    /// It is the version that is held.
    Unchanged,
}

impl ReadOutcome {
    /// Whether the table that is held is what the store holds now, so that changes may be based on it.
    #[must_use]
    pub fn is_current(&self) -> bool {
        matches!(self, Self::Taken | Self::Unchanged)
    }
}

/// How reads went, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderStats {
    /// Reads that were tried.
    pub reads: u64,
    /// Reads that failed: `store_error`.
    pub errors: u64,
    /// Reads that were not believed.
    pub suspects: u64,
    /// Times that the table could not be kept on disk.
    pub unkept: u64,
    /// Reads since the last one that was taken or unchanged.
    pub stale_for: u64,
}

#[derive(Debug)]
struct Held {
    table: PlainArc<Table>,
    /// The last read was not believed: what it said, by version and number of rows.
    doubted: Option<(Version, usize)>,
    /// The table is not on disk, where it is to be kept: the next read tries again.
    unkept: bool,
    stats: ReaderStats,
}

/// Holds the last good table of one fleet, for all who resolve owners in a process.
///
/// Where it is kept on disk too, a process that starts while the store is away begins with it, rather than with the hash, which would place nearly
/// every owner elsewhere than its peers do. Share it by reference or in an `Arc`. Resolving many owners, hold on to one
/// [`table`](Self::table): it is a plain value, and [`Table::resolve`] takes no lock.
#[derive(Debug)]
pub struct TableReader {
    held: Mutex<Held>,
    kept_at: Option<PathBuf>,
}

impl TableReader {
    /// Begins with the empty table.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        Self::with(Table::empty(fleet), None)
    }

    /// Begins with the table that is kept in that file, and keeps every one there that it takes. Where the file cannot be used, with the
    /// empty one, and the reason why. A file that is not there is no reason.
    #[must_use]
    pub fn kept_at(fleet: Fleet, path: impl Into<PathBuf>) -> (Self, Option<StoreError>) {
        let path = path.into();
        let (table, error) = match read_table(&path, StoreTime::default()) {
            Ok(Some(table)) if *table.fleet() == fleet => (table, None),
            Ok(None) => (Table::empty(fleet), None),
            Ok(Some(other)) => {
                let doing = format!("read {}", path.display());
                let cause = format!("it is the table of {}, not of {fleet}", other.fleet());
                (Table::empty(fleet), Some(StoreError::new("kept table", doing, cause)))
            }
            Err(error) => (Table::empty(fleet), Some(error)),
        };
        (Self::with(table, Some(path)), error)
    }

    fn with(table: Table, kept_at: Option<PathBuf>) -> Self {
        let held = Held { table: PlainArc::new(table), doubted: None, unkept: false, stats: ReaderStats::default() };
        Self { held: Mutex::new(held), kept_at }
    }

    /// The last good table.
    #[must_use]
    pub fn table(&self) -> PlainArc<Table> {
        PlainArc::clone(&self.held.lock().table)
    }

    /// [`Table::resolve`] by the last good table.
    ///
    /// # Errors
    /// When `processes` is 0.
    pub fn resolve(&self, owner: &Owner, processes: u32) -> Result<Resolved, EmptyFleet> {
        self.table().resolve(owner, processes)
    }

    /// How reads went.
    #[must_use]
    pub fn stats(&self) -> ReaderStats {
        self.held.lock().stats
    }

    /// Reads the table from the store, and holds it if it is to be believed. To be called every few seconds; a timeout is the caller's, who then
    /// tells it with [`take`](Self::take).
    ///
    /// # Cancel safety
    /// Cancelled, nothing has changed.
    pub async fn refresh(&self, store: &impl TableStore) -> ReadOutcome {
        let fleet = self.table().fleet().clone();
        self.take(store.read(&fleet).await)
    }

    /// What was read. Of two that read at once, the one that is told last is held.
    pub fn take(&self, read: Result<Table, StoreError>) -> ReadOutcome {
        let (outcome, keep) = self.held.lock().take(read);
        // Without the lock: a disk may be slow.
        if let (Some(table), Some(path)) = (keep, &self.kept_at) {
            let unkept = replace(path, &table.to_text(), true).is_err();
            let mut held = self.held.lock();
            held.unkept = unkept;
            held.stats.unkept += u64::from(unkept);
        }
        outcome
    }
}

impl Held {
    /// What it came to, and the table if it is to be kept.
    fn take(&mut self, read: Result<Table, StoreError>) -> (ReadOutcome, Option<PlainArc<Table>>) {
        self.stats.reads += 1;
        let table = match read {
            Ok(table) => table,
            Err(error) => {
                self.stats.errors += 1;
                self.stats.stale_for += 1;
                self.doubted = None;
                return (ReadOutcome::Failed(error), None);
            }
        };
        let emptied = table.is_empty() && !self.table.is_empty();
        let says = Some((table.version(), table.len()));
        if (emptied || table.version() < self.table.version()) && self.doubted != says {
            self.doubted = says;
            self.stats.suspects += 1;
            self.stats.stale_for += 1;
            return (ReadOutcome::Suspect, None);
        }
        self.doubted = None;
        self.stats.stale_for = 0;
        let same = table.version() == self.table.version() && table.len() == self.table.len();
        self.table = PlainArc::new(table);
        let keep = (!same || self.unkept).then(|| PlainArc::clone(&self.table));
        (if same { ReadOutcome::Unchanged } else { ReadOutcome::Taken }, keep)
    }
}
