//! What an evictor asks for and tells.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::{
    settings::Mode,
    state::{Bound, Ended},
    victims::Spared,
};
use crate::load::StreamClass;

/// What an evicted client is told, as the text of status "unavailable"; the source's own words.
pub const EVICTED_MESSAGE: &str = "server CPU overloaded, please reconnect";

/// What is to be done or told after a step, in that order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action<K> {
    /// Somebody should know.
    Alert(Alert),
    /// End this stream, with [`EVICTED_MESSAGE`] as the cause. If it has ended meanwhile, that is nothing, and does not count.
    Evict(Eviction<K>),
    /// The process is overloaded: new streams are refused from now on, if `enforced`. Said again where something else becomes short in it.
    OverloadBegan {
        /// What is short.
        bound: Bound,
        /// False: only observed.
        enforced: bool,
        /// Usage over quota.
        usage_ratio: Option<f64>,
        /// Demand over quota.
        demand_ratio: Option<f64>,
    },
    /// It is not any more, or that was given up: `how` says which.
    OverloadEnded {
        /// Why.
        how: Ended,
        /// False: only observed.
        enforced: bool,
        /// Usage over quota.
        usage_ratio: Option<f64>,
        /// For how long it was unready.
        unready_for: Duration,
    },
    /// The overload condition of readiness holds. Said at every step, so that what somebody else set is set right.
    Ready,
    /// The first reading of a quota.
    Started {
        /// What is carried out.
        mode: Mode,
        /// In cores.
        quota_cores: Option<f64>,
    },
    /// The overload condition of readiness does not hold. Said at every step.
    Unready {
        /// What is short.
        bound: Bound,
        /// Since when.
        since: Instant,
    },
    /// In mode observe: this stream would be ended. Said once of each.
    WouldEvict(Eviction<K>),
}

/// One stream that is to go.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Eviction<K> {
    /// Since it began.
    pub age: Duration,
    /// What was measured of it, in cores.
    pub burn_cores: f64,
    /// What kind of stream it is.
    pub class: StreamClass,
    /// What its end is held to free, in cores.
    pub cost_cores: f64,
    /// Demand over quota.
    pub demand_ratio: f64,
    /// How often it was evicted, this time included, as far as anybody remembers: for the token that its client brings along.
    pub evictions: u32,
    /// Which.
    pub id: K,
    /// Its identity, if it has one.
    pub identity: Option<u64>,
    /// Where it is.
    pub position: Option<u64>,
    /// Why.
    pub reason: EvictReason,
    /// When its client should come again: those of one round are spread.
    pub retry_after: Duration,
    /// Usage over quota.
    pub usage_ratio: f64,
}

/// Why a round came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EvictReason {
    /// Usage is at or above the threshold.
    Saturated,
    /// Usage is below it, but it is throttled, and the demand is not.
    Throttled,
}

impl fmt::Display for EvictReason {
    /// As labels have it: `saturated`, `throttled`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Saturated => "saturated",
            Self::Throttled => "throttled",
        })
    }
}

/// What an operator should know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Alert {
    /// Overloaded, and ready all the same, because too few others of the fleet are.
    HeldBack {
        /// The share of the fleet that is ready, as was told.
        ready_share: Option<f64>,
    },
    /// The machine is full with others: unready, and nothing is evicted.
    NodeContended {
        /// The share of time in which all tasks were stalled.
        full_stalled: Option<f64>,
    },
    /// Overloaded, drained, and nobody may be evicted. Said once per overload.
    NothingToEvict {
        /// What would have to go, in cores.
        excess_cores: f64,
        /// Why streams were spared, and how many each.
        spared: Vec<(Spared, usize)>,
    },
    /// The quota is another one. Windows go on.
    QuotaChanged {
        /// In cores.
        from: Option<f64>,
        /// In cores.
        to: Option<f64>,
    },
    /// Nothing could be read several times in a row: from here on as if nothing were wrong. Said once.
    SignalLost {
        /// How many times.
        strikes: u32,
    },
}

impl fmt::Display for Alert {
    /// For a log, with what there is to do where something is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: &Option<f64>| share.map_or_else(|| "an unknown share".to_owned(), |share| format!("{share:.3}"));
        let cores = |cores: &Option<f64>| cores.map_or_else(|| "no limit".to_owned(), |cores| format!("{cores} cores"));
        match self {
            Self::HeldBack { ready_share } => {
                write!(f, "overloaded, and ready all the same: {} of the fleet is ready, too few", share(ready_share))
            }
            Self::NodeContended { full_stalled } => {
                write!(
                    f,
                    "the machine is full with others (all tasks stalled for {} of the time): unready, and nothing is evicted",
                    share(full_stalled)
                )
            }
            Self::NothingToEvict { excess_cores, spared } => {
                write!(f, "overloaded, and no stream may be evicted: {excess_cores:.3} cores too many")?;
                spared.iter().try_for_each(|(why, count)| write!(f, "; {count} spared: {why}"))
            }
            Self::QuotaChanged { from, to } => write!(f, "the quota changed from {} to {}", cores(from), cores(to)),
            Self::SignalLost { strikes } => {
                write!(
                    f,
                    "nothing could be read of the processors {strikes} times in a row: as if nothing were wrong from here on"
                )
            }
        }
    }
}
