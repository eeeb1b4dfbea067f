//! What a planner is given: the loads of a fleet at one time, and where its owners are.

use std::time::Duration;

use crate::placement::{
    cores::Cores,
    name::{Fleet, Owner},
    report::Pressure,
    table::{StoreTime, Version},
};

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProcessState {
    /// Its reports advance. Only such a process gives or gets owners. One without owners reports too: it is empty, which is another thing than silent.
    #[default]
    Reporting,
    /// It never reported.
    Silent,
    /// It has reported, and does not any more.
    Stale,
    /// It began lately, so that its load is not known well.
    Warming,
}

/// An owner on a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerView {
    /// Who.
    pub owner: Owner,
    /// The mean of what it uses.
    pub weight: Cores,
    /// Whether it stays.
    pub pinned: bool,
    /// When it was last moved.
    pub moved_at: Option<StoreTime>,
}

/// A process of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessView {
    /// What is known of it.
    pub state: ProcessState,
    /// The mean of what it uses for no owner.
    pub unattributed: Cores,
    /// Whether its last report was at its ceiling.
    pub capped: bool,
    /// How long ago its reports were last seen to advance. `None`: never.
    pub report_age: Option<Duration>,
    /// What its ceiling cannot clip.
    pub pressure: Pressure,
    /// Who runs on it, in any order.
    pub owners: Vec<OwnerView>,
}

impl ProcessView {
    /// A process without load.
    #[must_use]
    pub fn new(state: ProcessState) -> Self {
        Self {
            state,
            unattributed: Cores::ZERO,
            capped: false,
            report_age: None,
            pressure: Pressure::unknown(),
            owners: Vec::new(),
        }
    }

    /// The sum over its owners, and what is unattributed.
    #[must_use]
    pub fn load(&self) -> Cores {
        self.owners.iter().map(|owner| owner.weight).sum::<Cores>() + self.unattributed
    }
}

/// Why nobody is moved, whatever the loads: the fleet is changing, and what is measured of it is not what will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Held {
    /// A process is about to leave.
    Draining,
    /// Processes measure in different ways.
    MixedModels,
    /// Processes do not agree on the size of the fleet.
    MixedSizes,
}

impl Held {
    /// A word for labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::MixedModels => "mixed_models",
            Self::MixedSizes => "mixed_sizes",
        }
    }
}

/// A fleet at one time. [`LoadModel::view`](crate::placement::LoadModel::view) makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetView {
    /// Which.
    pub fleet: Fleet,
    /// The version of the table that says who is where.
    pub base: Version,
    /// The store's time.
    pub now: StoreTime,
    /// All processes, by index; those too that say nothing.
    pub processes: Vec<ProcessView>,
    /// Whether nobody is to be moved.
    pub held: Option<Held>,
    /// Owners that the hash places.
    pub owners_without_row: usize,
    /// Rows that name no process of this fleet.
    pub out_of_range_rows: usize,
    /// Rows that cannot be used.
    pub malformed_rows: usize,
}

impl FleetView {
    /// A fleet without processes.
    #[must_use]
    pub fn new(fleet: Fleet, base: Version, now: StoreTime) -> Self {
        Self {
            fleet,
            base,
            now,
            processes: Vec::new(),
            held: None,
            owners_without_row: 0,
            out_of_range_rows: 0,
            malformed_rows: 0,
        }
    }
}
