//! What a saturated process does: sheds its most expensive streams, says so, and lets in no more than it can serve.
//!
//! Policies are pure: each is stepped with a sample and the time, and answers with what to do. Permits and the driver stand beside them.

mod admission;
mod concurrency;
mod driver;
mod events;
mod evictor;
mod pending;
mod readiness;
mod status;
mod watchdog;

pub use evictor::{
    Action, Alert, Bound, Candidate, ClassCap, ClassOrder, ClassOrderError, EVICTED_MESSAGE, Ended, EvictReason, Eviction,
    Evictor, EvictorBuilder, Explained, Explanation, Gauges, Mode, ParseModeError, Phase, Rank, Settings, SettingsError,
    SettingsWarning, SignalLost, Spared, StreamSample, Verdict, VictimPolicy, effective_active,
};
pub use readiness::{Change, Condition, FleetGuard, Overruled, Readiness, SharedReadiness};
