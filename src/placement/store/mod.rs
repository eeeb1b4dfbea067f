//! Where tables and reports are kept, behind two traits: what a store promises, whatever it is made of.
//!
//! A store that keeps tables promises:
//! * **T1** A read is of one version: rows of two versions are never mixed.
//! * **T2** Changes are applied all at once, and only if the table is at the version that they are based on. Of two writers with one base,
//!   one is refused.
//! * **T3** The version rises with every change that is applied, and is [`Version::NONE`](super::Version::NONE) for a table that was
//!   never written.
//! * **T4** What cannot be used is told, and hides nothing else: [`Table::malformed`](super::Table::malformed).
//! * **T5** Times are the store's own.
//!
//! One that keeps reports promises:
//! * **P1** A report replaces the one before it of the same (fleet, index), and no other.
//! * **P2** A read answers every report of the fleet that can be read, and tells of those that cannot.
//!
//! What is reported is believed: whoever can write to the store can make up loads, and with a number or a life that is ahead of a process's own
//! silence it until it starts anew. Who may write is for the store to say.
//!
//! `contract` checks all of it, of any store. The methods are generic and not for `dyn`: a server chooses its store once, when it starts, and runs
//! the one task that uses it; what resolves owners holds a [`TableReader`], which knows no store.
//!
//! Every method may be cancelled: changes are then applied or not.

pub mod contract;
mod embedded;
mod reader;

use std::{error::Error, fmt};

pub use embedded::EmbeddedStore;
pub use reader::{ReadOutcome, ReaderStats, TableReader};

use super::{
    name::Fleet,
    report::Report,
    table::{Changes, Refused, Table, Version},
};

/// A store could not be asked, or did not answer, or answered what cannot be used.
#[derive(Debug)]
pub struct StoreError {
    /// Which store: `"embedded"`, `"redis"`, ..
    pub store: &'static str,
    /// What was being done, with what: the file, the key, the statement.
    pub doing: String,
    /// What went wrong.
    pub cause: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// `store` failed at `doing` because of `cause`.
    pub fn new(store: &'static str, doing: impl Into<String>, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { store, doing: doing.into(), cause: cause.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "placement store {}: {}: {}", self.store, self.doing, self.cause)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}

/// Why changes were not applied, or are not known to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum ApplyError {
    /// The table refused them. Nothing was changed.
    Refused(Refused),
    /// The store failed. The changes were applied or not: read, and plan again. (Changes may be applied twice without harm.)
    Store(StoreError),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Error for ApplyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Store(error) => Some(error),
        }
    }
}

impl From<Refused> for ApplyError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Keeps the tables: rows that outlive every process. T1 to T5 hold.
pub trait TableStore: Send + Sync {
    /// The fleet's table, as it is now; one of [`Version::NONE`] if nobody has written it.
    ///
    /// # Errors
    /// When the store cannot be asked, or what it holds is no table at all. Callers who resolve owners use a [`TableReader`], which turns
    /// errors into the last table that was good.
    fn read(&self, fleet: &Fleet) -> impl Future<Output = Result<Table, StoreError>> + Send;

    /// Applies the changes if the table is at [`Changes::base`], and answers the version it then is at. See [`Table::apply`] for what each
    /// change means.
    ///
    /// # Errors
    /// When they are refused, or the store fails.
    fn apply(&self, changes: &Changes) -> impl Future<Output = Result<Version, ApplyError>> + Send;
}

/// A report that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedReport {
    /// Where it is: the field, the key, the file.
    pub at: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What a fleet's processes last said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// In no order, one of each index.
    pub reports: Vec<Report>,
    /// Those that cannot be read; their processes are silent.
    pub malformed: Vec<MalformedReport>,
}

/// Keeps the newest report of each process. P1 and P2 hold.
pub trait ReportStore: Send + Sync {
    /// Replaces what (fleet, index) said before.
    ///
    /// # Errors
    /// When the store fails. The next window's report makes up for it.
    fn put(&self, report: &Report) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The newest report of every process of the fleet, however old.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn read_all(&self, fleet: &Fleet) -> impl Future<Output = Result<Reports, StoreError>> + Send;
}

impl<S: TableStore> TableStore for &S {
    fn read(&self, fleet: &Fleet) -> impl Future<Output = Result<Table, StoreError>> + Send {
        (**self).read(fleet)
    }

    fn apply(&self, changes: &Changes) -> impl Future<Output = Result<Version, ApplyError>> + Send {
        (**self).apply(changes)
    }
}

impl<S: ReportStore> ReportStore for &S {
    fn put(&self, report: &Report) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).put(report)
    }

    fn read_all(&self, fleet: &Fleet) -> impl Future<Output = Result<Reports, StoreError>> + Send {
        (**self).read_all(fleet)
    }
}
