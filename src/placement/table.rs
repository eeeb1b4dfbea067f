//! The rows of one fleet, and where an owner runs by them: its row, or else the hash.

use std::{collections::HashMap, fmt, time::Duration};

use super::{
    hash::HASH_VERSION,
    name::{Fleet, Index, Owner},
};

/// A time by the store's clock, since the Unix epoch.
///
/// All that is compared comes from one clock, the store's: those of the processes may differ by as much as they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreTime(pub Duration);

impl StoreTime {
    /// How long `earlier` is ago. Nothing, if it is yet to come: a time in the future counts as now.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Which state of a fleet's table it is. It rises with every change that was applied, not always by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Version {
    /// That of a table that nobody has written yet.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where one owner was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The process that runs it.
    pub index: Index,
    /// Whether it stays there: its load counts, and no planner moves it.
    pub pinned: bool,
    /// When it was last put on another process than before, by the store's clock.
    pub moved_at: Option<StoreTime>,
}

impl Row {
    /// A row that is not pinned, and was never moved.
    #[must_use]
    pub fn at(index: Index) -> Self {
        Self { index, pinned: false, moved_at: None }
    }
}

/// A row that cannot be used, kept as it was found. Its owner is placed by the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedRow {
    /// The row as text, as far as the store can tell.
    pub row: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for MalformedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {:?}: {}", self.row, self.reason)
    }
}

/// What decided where an owner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResolvedBy {
    /// It has no row: the hash.
    Hash,
    /// Its row names a process that the reader's own fleet does not have: the hash. The row stays, for it is right for the larger fleet.
    OutOfRange,
    /// Its row.
    Row,
}

/// Where an owner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The process; below the size of the fleet that was asked for.
    pub index: Index,
    /// Why that one.
    pub by: ResolvedBy,
}

/// A fleet of no processes, on which nothing can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyFleet;

impl fmt::Display for EmptyFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fleet of 0 processes has no place for any owner")
    }
}

impl std::error::Error for EmptyFleet {}

/// One state of a fleet's rows, as it was read.
///
/// # Examples
/// ```
/// use keywake::placement::{Fleet, Index, Owner, ResolvedBy, Row, Table};
/// let mut table = Table::empty(Fleet::new("ingest")?);
/// let owner = Owner::new("42")?;
/// assert_eq!(table.resolve(&owner, 8)?.index, Index(3), "by the hash");
/// table.insert(owner.clone(), Row::at(Index(11)));
/// assert_eq!(table.resolve(&owner, 12)?.index, Index(11), "by its row");
/// assert_eq!(table.resolve(&owner, 8)?.by, ResolvedBy::OutOfRange);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    fleet: Fleet,
    version: Version,
    hash_version: u32,
    read_at: StoreTime,
    rows: HashMap<Owner, Row, foldhash::fast::RandomState>,
    malformed: Vec<MalformedRow>,
}

impl Table {
    /// A table that nobody has written yet.
    #[must_use]
    pub fn empty(fleet: Fleet) -> Self {
        Self::new(fleet, Version::NONE, StoreTime::default())
    }

    /// A table without rows, of that version, read at that time; stores fill in the rows.
    #[must_use]
    pub fn new(fleet: Fleet, version: Version, read_at: StoreTime) -> Self {
        Self { fleet, version, hash_version: HASH_VERSION, read_at, rows: HashMap::default(), malformed: Vec::new() }
    }

    /// The fleet whose rows they are.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Which state it is; what a change is based on.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The hash that its writers place owners with that have no row; [`HASH_VERSION`] for a table that nobody has written.
    #[must_use]
    pub fn hash_version(&self) -> u32 {
        self.hash_version
    }

    /// When it was read, by the store's clock. Cooldowns end by it.
    #[must_use]
    pub fn read_at(&self) -> StoreTime {
        self.read_at
    }

    /// How many rows can be used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row that can be used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The owner's row, whatever fleet it is right for.
    #[must_use]
    pub fn row(&self, owner: &Owner) -> Option<&Row> {
        self.rows.get(owner)
    }

    /// All rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = (&Owner, &Row)> {
        self.rows.iter()
    }

    /// The rows that could not be used. Each is to be counted, and looked at by an operator.
    #[must_use]
    pub fn malformed(&self) -> &[MalformedRow] {
        &self.malformed
    }

    /// How many rows name a process outside a fleet of `processes`.
    #[must_use]
    pub fn out_of_range(&self, processes: u32) -> usize {
        self.rows.values().filter(|row| row.index.0 >= processes).count()
    }

    /// Where `owner` runs in a fleet of `processes`, which is the reader's own fleet, whatever size the table was written for.
    ///
    /// Every process that knows this table and this size gives the same answer: with a row that is in range, its index; otherwise
    /// [`placement_hash`](super::placement_hash) modulo `processes`. (After the load-measured balancer S1: "Honoring the row would leave
    /// the org with no process at all.")
    ///
    /// # Errors
    /// When `processes` is 0.
    pub fn resolve(&self, owner: &Owner, processes: u32) -> Result<Resolved, EmptyFleet> {
        self.place(owner, processes).map(|(resolved, _)| resolved)
    }

    /// [`resolve`](Self::resolve), and the row that decided.
    pub(super) fn place(&self, owner: &Owner, processes: u32) -> Result<(Resolved, Option<&Row>), EmptyFleet> {
        let by_hash = owner.placement_hash().checked_rem(processes.into()).ok_or(EmptyFleet)?;
        let by = match self.rows.get(owner) {
            Some(row) if row.index.0 < processes => {
                return Ok((Resolved { index: row.index, by: ResolvedBy::Row }, Some(row)));
            }
            Some(_) => ResolvedBy::OutOfRange,
            None => ResolvedBy::Hash,
        };
        // A remainder by a u32 is one.
        Ok((Resolved { index: Index(u32::try_from(by_hash).unwrap_or_default()), by }, None))
    }

    /// Puts in a row; for stores, and for tests.
    pub fn insert(&mut self, owner: Owner, row: Row) {
        self.rows.insert(owner, row);
    }

    /// Puts in a row as a store holds it, or, if it cannot be used, remembers that.
    pub fn insert_raw(&mut self, owner: &str, index: i64, pinned: bool, moved_at: Option<StoreTime>) {
        let parsed = u32::try_from(index).map_err(|_| format!("{index} is no index of a process"));
        let parsed = parsed.and_then(|index| Ok((Owner::new(owner).map_err(|error| error.to_string())?, Index(index))));
        match parsed {
            Ok((owner, index)) => self.insert(owner, Row { index, pinned, moved_at }),
            Err(reason) => self.insert_malformed(MalformedRow { row: format!("row {index} - - {owner}"), reason }),
        }
    }

    /// Remembers a row that cannot be used.
    pub fn insert_malformed(&mut self, row: MalformedRow) {
        self.malformed.push(row);
    }

    /// The same, with the hash of its writers, as a store holds it.
    #[must_use]
    pub fn with_hash_version(mut self, hash_version: u32) -> Self {
        self.hash_version = hash_version;
        self
    }

    /// The same, read at that time.
    #[must_use]
    pub fn with_read_at(mut self, read_at: StoreTime) -> Self {
        self.read_at = read_at;
        self
    }

    /// Applies changes that are based on this version; the table is then of version `next`. What stores do that hold tables whole; those
    /// that hold rows do the same in their own words.
    ///
    /// # Errors
    /// When the changes are based on another version, or the table's writers hash otherwise. Nothing is changed then.
    pub fn apply(&mut self, changes: &Changes, next: Version, at: StoreTime) -> Result<(), Refused> {
        if changes.base != self.version {
            return Err(Refused::Conflict { fleet: self.fleet.clone(), base: changes.base, found: self.version });
        }
        if self.hash_version != HASH_VERSION {
            return Err(Refused::HashVersion { fleet: self.fleet.clone(), found: self.hash_version });
        }
        for change in &changes.changes {
            match change {
                Change::Put { owner, index, pinned } => {
                    let before = self.rows.get(owner).filter(|row| row.index == *index);
                    let moved_at = before.map_or(Some(at), |row| row.moved_at);
                    self.insert(owner.clone(), Row { index: *index, pinned: *pinned, moved_at });
                }
                Change::Remove { owner } => drop(self.rows.remove(owner)),
            }
        }
        self.version = next;
        Ok(())
    }
}

/// One change of a table. To apply it twice is to apply it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The owner has this row. [`Row::moved_at`] becomes the store's time if it had none or one with another index, and stays otherwise.
    Put {
        /// Whom.
        owner: Owner,
        /// Where to.
        index: Index,
        /// Whether it stays there.
        pinned: bool,
    },
    /// The owner has no row: the hash places it.
    Remove {
        /// Whom.
        owner: Owner,
    },
}

/// Changes of one fleet's table that are made all at once, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Whose table.
    pub fleet: Fleet,
    /// The version that they are based on; at any other they are refused.
    pub base: Version,
    /// What is changed, in this order.
    pub changes: Vec<Change>,
}

/// Why a table did not take changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Somebody else was faster. Read, and plan again.
    Conflict {
        /// Whose table.
        fleet: Fleet,
        /// What the changes were based on.
        base: Version,
        /// What the table is at.
        found: Version,
    },
    /// The table's writers place owners without a row by another hash than this release. Migrate it first.
    HashVersion {
        /// Whose table.
        fleet: Fleet,
        /// Theirs. Ours is [`HASH_VERSION`].
        found: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { fleet, base, found } => {
                write!(f, "changes to the table of {fleet} are based on version {base}, and it is at {found}")
            }
            Self::HashVersion { fleet, found } => {
                write!(f, "the table of {fleet} is of hash version {found}, and this release places by {HASH_VERSION}")
            }
        }
    }
}

impl std::error::Error for Refused {}
