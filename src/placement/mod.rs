//! Where keys run: a table of owners over a frozen hash, and a planner that moves owners by their measured load.

mod balancer;
mod cores;
mod ewma;
mod hash;
mod model;
mod name;
mod planner;
mod recorder;
mod report;
pub mod store;
mod table;
mod text;

pub use balancer::{Balancer, BalancerStats, Run, RunOutcome};
pub use cores::Cores;
pub use ewma::Ewma;
pub use hash::{HASH_VERSION, placement_hash};
pub use model::{Folded, LoadModel};
pub use name::{Fleet, Index, NameError, Owner};
pub use planner::{
    Blocked, BlockedReason, Confirmation, Figures, FleetView, Held, MarksBelow, Move, OwnerView, Plan, Planner, ProcessState,
    ProcessView, Settings, SettingsError,
};
pub use recorder::{Busy, Discarded, Recorder};
pub use report::{LOAD_MODEL, OwnerLoad, Pressure, Report};
pub use store::{ApplyError, EmbeddedStore, ReportStore, StoreError, TableReader, TableStore};
pub use table::{Change, Changes, EmptyFleet, MalformedRow, Refused, Resolved, ResolvedBy, Row, StoreTime, Table, Version};
pub use text::TextError;
