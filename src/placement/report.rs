//! What one process says of its load: its own, and that of each owner on it.

use std::time::Duration;

use super::{
    cores::Cores,
    name::{Fleet, Index, Owner},
};

/// The number of the way loads are measured, in every report. Reports of different ones are never compared.
pub const LOAD_MODEL: u32 = 1;

/// Signals of overload that the ceiling of a process cannot clip. `None`: not measured.
///
/// A process that is at its ceiling says the same whether it wants a little more or twice as much; what waits or was refused tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pressure {
    /// By how many events the stream is behind that is furthest behind; [`Subscription::lag`](crate::Subscription::lag).
    pub stream_lag: Option<u64>,
    /// How long a wake waits in the relay, or a ready task in its runtime.
    pub relay_lag: Option<Duration>,
    /// Streams that were refused, or let go for overload, in the window.
    pub refused: Option<u64>,
}

impl Pressure {
    /// Nothing was measured.
    #[must_use]
    pub fn unknown() -> Self {
        Self::default()
    }
}

/// What an owner used in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerLoad {
    /// Who.
    pub owner: Owner,
    /// Its share of what the process used.
    pub cores: Cores,
}

/// One window of one process. `process` is `unattributed` and the sum over `owners`, to the nano-core.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Its fleet.
    pub fleet: Fleet,
    /// Its place there.
    pub index: Index,
    /// How many processes the fleet has, as this process knows it.
    pub processes: u32,
    /// The life of the process: a number that none of its other lives has.
    pub run: u64,
    /// The window's number in this life, from 1. That it rises is how others see that the process lives; no clock is compared.
    pub number: u64,
    /// [`LOAD_MODEL`] of the release that the process runs.
    pub model: u32,
    /// The length of the window, measured; positive.
    pub window: Duration,
    /// What the process used in it, exactly. Cut by what it may use.
    pub process: Cores,
    /// What of it no owner used. With no owner at work, all.
    pub unattributed: Cores,
    /// Whether it used nearly all that it may: then its true demand is not known.
    pub capped: bool,
    /// Whether it is about to leave.
    pub draining: bool,
    /// What the ceiling cannot clip.
    pub pressure: Pressure,
    /// What each owner used that it runs, those included that used nothing; by name.
    pub owners: Vec<OwnerLoad>,
}

impl Report {
    /// The report of a window in which nothing was used, by a process that says nothing else.
    #[must_use]
    pub fn new(fleet: Fleet, index: Index, processes: u32, run: u64, number: u64, window: Duration) -> Self {
        Self {
            fleet,
            index,
            processes,
            run,
            number,
            model: LOAD_MODEL,
            window,
            process: Cores::ZERO,
            unattributed: Cores::ZERO,
            capped: false,
            draining: false,
            pressure: Pressure::unknown(),
            owners: Vec::new(),
        }
    }
}
