//! What is said through a keywake hub: overload, readiness, who is let go.
//!
//! Everything that follows from a decision is an ordinary subscriber of a [`LoadHub`]: the health endpoint and the drain follow
//! [`LoadKey::Readiness`] (the drain waits for the change that is [for good](Change::for_good)), a dashboard [`LoadKey::Overload`] and
//! [`LoadKey::Evictions`], and each stream its own [`LoadKey::Stream`], so that to cancel one of 70,000 wakes one task.
//!
//! Readiness and overload are states: the hub keeps the newest of each, whoever comes, and [`Start::Latest`](crate::Start::Latest)
//! begins with it. Evictions and alerts are kept only while somebody follows them.
//!
//! Admission is no subscriber but set by the [driver](super::driver): between an event and its receipt a stream could still come in. (An
//! admission elsewhere, of another listener say, may follow [`LoadKey::Overload`] like anybody.)
//!
//! * **V1** A state that is told later is newer: readiness is published by one thread at a time, which looks at it anew.
//! * **V2** That the process is unready has been published, and its readers woken, before the first eviction for that is.
//! * **V3** A stream's own key has at most one event: the first cause wins.
//! * **V4** Wakers run under no lock of this module.

mod load_hub;

use std::{fmt, time::Duration};

pub use load_hub::{LoadHub, OVERLOAD, ROOM};

use super::{
    evictor::{Alert, Bound, Ended, Eviction},
    readiness::Change,
    status::EndCause,
};
use crate::sync::PlainArc;

/// Which stream: the number of its [`StreamMeter`](crate::meter::StreamMeter), which no other stream of the process has or will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u64);

impl StreamId {
    /// The stream of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Under which key of a [`LoadHub`] something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LoadKey {
    /// [`LoadEvent::Alert`].
    Alerts,
    /// Every [`LoadEvent::Evict`] and [`LoadEvent::WouldEvict`], for who watches all.
    Evictions,
    /// [`LoadEvent::Overload`]. A state.
    Overload,
    /// [`LoadEvent::Readiness`]. A state.
    Readiness,
    /// What ends this stream: one [`LoadEvent::Evict`] or [`LoadEvent::Cancel`].
    Stream(StreamId),
}

/// What is said.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LoadEvent {
    /// An operator should know.
    Alert(PlainArc<Alert>),
    /// The stream is to end, for another reason than an eviction.
    Cancel(EndCause),
    /// The stream is to end, to relieve the process.
    Evict(PlainArc<Victim>),
    /// How it stands with overload.
    Overload(OverloadState),
    /// How it stands with readiness.
    Readiness(PlainArc<Change>),
    /// In mode observe: the stream would be ended. Said once of each, under [`LoadKey::Evictions`] only: the stream is not to feel it.
    WouldEvict(PlainArc<Victim>),
}

/// A stream that is let go, and what the host calls it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Victim {
    /// Who, why, and what it burns.
    pub eviction: Eviction<StreamId>,
    /// What the host's logs call it.
    pub trace_id: PlainArc<str>,
}

impl fmt::Display for Victim {
    /// The fields of the source's log line, by its names, and what more there is. One line, whatever a client has put into its trace id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Eviction { age, burn_cores, class, cost_cores, demand_ratio, position, reason, usage_ratio, .. } = &self.eviction;
        write!(f, "trace_id={} class={class} burn_cores={burn_cores:.3} age={age:.0?}", self.trace_id.escape_debug())?;
        if let Some(position) = position {
            write!(f, " current_block={position}")?;
        }
        write!(
            f,
            " cpu_usage_ratio={usage_ratio:.3} cpu_demand_ratio={demand_ratio:.3} cost_cores={cost_cores:.3} reason={reason}"
        )
    }
}

/// How it stands with overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OverloadState {
    /// It is, or in mode observe would be held to be.
    pub overloaded: bool,
    /// False: only observed. Nobody is refused and nobody let go for it.
    pub enforced: bool,
    /// What is short. When that becomes another thing, it is said again.
    pub bound: Option<Bound>,
    /// How the last overload ended.
    pub ended: Option<Ended>,
    /// Usage over quota, when this was said.
    pub usage_ratio: Option<f64>,
    /// Demand over quota, when this was said. Not of an overload that ended.
    pub demand_ratio: Option<f64>,
    /// For how long the process was unready in the overload that ended.
    pub unready_for: Duration,
}

impl OverloadState {
    /// New streams are to be refused.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.overloaded && self.enforced
    }
}

impl fmt::Display for OverloadState {
    /// The fields of the source's log lines for overload and recovery, by its names, and what more there is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "unknown".to_owned(), |ratio| format!("{ratio:.3}"));
        write!(f, "enforced={} cpu_usage_ratio={}", self.enforced, ratio(self.usage_ratio))?;
        match (self.overloaded, self.bound, self.ended) {
            (true, Some(bound), _) => write!(f, " cpu_demand_ratio={} because={bound:?}", ratio(self.demand_ratio)),
            (false, _, Some(ended)) => write!(f, " unready_for={:.0?} because={ended:?}", self.unready_for),
            _ => Ok(()),
        }
    }
}
