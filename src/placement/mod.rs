//! Where keys run: a table of owners over a frozen hash, and a planner that moves owners by their measured load.

mod cores;
mod hash;
mod name;
mod report;
pub mod store;
mod table;
mod text;

pub use cores::Cores;
pub use hash::{HASH_VERSION, placement_hash};
pub use name::{Fleet, Index, NameError, Owner};
pub use report::{LOAD_MODEL, OwnerLoad, Pressure, Report};
pub use store::{ApplyError, EmbeddedStore, ReportStore, StoreError, TableReader, TableStore};
pub use table::{Change, Changes, EmptyFleet, MalformedRow, Refused, Resolved, ResolvedBy, Row, StoreTime, Table, Version};
pub use text::TextError;
