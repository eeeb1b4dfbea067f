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

pub use admission::{
    Admission, AdmissionError, AdmissionLimits, AdmissionStats, Decision, Permit, Permitted, Refusal, RefusalReason,
};
pub use concurrency::{AdaptiveConcurrency, ConcurrencyError, ConcurrencySample};
pub use evictor::{
    Action, Alert, Bound, Candidate, ClassCap, ClassOrder, ClassOrderError, EVICTED_MESSAGE, Ended, EvictReason, Eviction,
    Evictor, EvictorBuilder, Explained, Explanation, Fate, Gauges, Mode, ParseModeError, Phase, Rank, Settings, SettingsError,
    SettingsWarning, SignalLost, Spared, StreamSample, VictimPolicy, effective_active,
};
pub use pending::{Admitting, PendingLimits};
pub use readiness::{Change, Condition, FleetGuard, Overruled, Readiness, SharedReadiness};
pub use watchdog::{
    ActiveTasks, Check, Item, LongActive, Progress, Retries, RetryRefused, TaskId, TimedOut, Verdict, Watchdog, WatchdogError,
    WatchdogLimits, Watched,
};
