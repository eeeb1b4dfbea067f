//! Who may come in.
//!
//! An arrival is counted and compared with the limits in one step under one lock: of two who come at once, with room for one, one is let
//! in. What is let in holds a [`Permit`] for as long as the stream lives. The soft limit and overload make the instance say that it is not
//! ready; the other limits refuse. Everything is derived from the counts each time: there is no flag that an old writer could overwrite.
//!
//! * `ledger.rs`: counts and limits, pure. `jitter.rs`: retry hints, pure.
//! * `shared.rs`: the lock around them, and the queue of those who wait (`pending/`).
//! * `limits.rs`, `permit.rs`, `refusal.rs`: what users hold.

mod jitter;
mod ledger;
mod limits;
mod permit;
mod refusal;
mod shared;

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

use jitter::Jitter;
pub(super) use ledger::Claim;
#[cfg(test)]
pub(super) use ledger::Ledger;
#[cfg(not(test))]
use ledger::Ledger;
use ledger::Seat;
pub use limits::{AdmissionError, AdmissionLimits};
pub use permit::{Permit, Permitted};
pub use refusal::{Decision, Refusal, RefusalCounts, RefusalKind, RefusalReason};
pub(super) use shared::Shared;

use super::pending::{Admitting, PendingLimits};
use crate::{load::StreamClass, sync::Arc};

/// Lets streams in, or does not. A handle: its clones share everything.
///
/// # Examples
/// ```
/// use keywake::{load::StreamClass, overload::{admission::{Admission, AdmissionLimits, Decision}}};
///
/// let admission = Admission::new(AdmissionLimits { hard: 1, ..AdmissionLimits::default() })?;
/// let Decision::Admit(permit) = admission.try_admit(StreamClass::Live, Some("alice")) else { panic!("there is room") };
/// let Decision::Reject(refusal) = admission.try_admit(StreamClass::Live, Some("bob")) else { panic!("there is none") };
/// assert!(refusal.retry_after().as_secs() < 5);
/// drop(permit);
/// assert!(admission.try_admit(StreamClass::Live, Some("bob")).is_admitted());
/// # Ok::<(), keywake::overload::admission::AdmissionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Arc<Shared>,
}

impl Admission {
    /// With these limits, and hints that are random in each process.
    ///
    /// # Errors
    /// If a limit could never be reached, or `retry_min` is longer than `retry_max`.
    pub fn new(limits: AdmissionLimits) -> Result<Self, AdmissionError> {
        Self::with(limits, RandomState::new().hash_one(0_u64), None)
    }

    /// With retry hints that come from this seed. Instances of one fleet should not have the same.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_seed(limits: AdmissionLimits, seed: u64) -> Result<Self, AdmissionError> {
        Self::with(limits, seed, None)
    }

    /// As [`new`](Self::new), and calls `hook` whenever [`is_accepting`](Self::is_accepting) has changed, on the thread that changed it.
    ///
    /// The hook is not told what holds, on purpose: it is to look, under the lock under which it tells others. Two changes in short order
    /// may call it in either order; the last that looks then tells what holds.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_hook(limits: AdmissionLimits, hook: impl Fn(&Self) + Send + Sync + 'static) -> Result<Self, AdmissionError> {
        Self::with(limits, RandomState::new().hash_one(0_u64), Some(Box::new(hook)))
    }

    fn with(limits: AdmissionLimits, seed: u64, hook: Option<shared::Hook>) -> Result<Self, AdmissionError> {
        limits.check()?;
        Ok(Self { shared: Arc::new(Shared::new(limits, seed, hook)) })
    }

    /// Lets a stream in, or refuses it at once. Where others wait for room, it passes none of them that could be let in.
    pub fn try_admit(&self, class: StreamClass, identity: Option<&str>) -> Decision {
        Shared::try_admit(&self.shared, class, identity)
    }

    /// Lets a stream in, or has it wait for room in the queue, in which it stands when this returns.
    ///
    /// Refused at once are: who comes while the process is overloaded or shuts down, an identity that is at its limit (who waits counts),
    /// and who finds the queue full. When overload begins, those who wait are refused too: it lasts longer than they would wait.
    ///
    /// # Cancel safety
    /// Dropping what it returns gives the place up, and hands on room that was given and not taken.
    pub fn admit(&self, class: StreamClass, identity: Option<&str>, now: Instant) -> Admitting {
        Shared::admit(&self.shared, class, identity, now)
    }

    /// Refuses those who have waited for [`PendingLimits::max_wait`]. The answer is the time until it should be called again; `None`:
    /// nobody waits. Nothing else tells the queue the time.
    pub fn sweep(&self, now: Instant) -> Option<Duration> {
        Shared::sweep(&self.shared, now)
    }

    /// How many streams are there, each from when it is let in to the end of its permit: what the gauge and the autoscaler's figure are
    /// made of. Those who wait are not counted.
    #[must_use]
    pub fn active(&self) -> usize {
        self.shared.active()
    }

    /// Whether the instance should say that it is ready: it is not overloaded, does not shut down, and has fewer streams than the soft
    /// limit. The hard limit does not count here; where it is to, the soft limit is to be the same.
    #[must_use]
    pub fn is_accepting(&self) -> bool {
        self.shared.is_accepting()
    }

    /// Overload begins: nobody is let in, and those who wait are refused. Or it ends.
    pub fn set_overloaded(&self, overloaded: bool) {
        Shared::set_overloaded(&self.shared, overloaded);
    }

    /// What [`AdaptiveConcurrency`](crate::overload::concurrency::AdaptiveConcurrency) says: no further streams from this number on; `None`:
    /// no such limit. Nobody is sent away.
    pub fn set_concurrency_limit(&self, limit: Option<usize>) {
        Shared::set_concurrency(&self.shared, limit);
    }

    /// How long the instance took to start, once that is known: it bounds how long one waits.
    pub fn set_start_up(&self, start_up: Duration) {
        Shared::set_start_up(&self.shared, start_up);
    }

    /// Nobody is let in any more, for good, and those who wait are refused. What is let in stays until its permit is dropped.
    pub fn shutdown(&self) {
        Shared::shutdown(&self.shared);
    }

    /// How long the one has waited who has waited longest.
    #[must_use]
    pub fn oldest_wait(&self, now: Instant) -> Option<Duration> {
        self.shared.oldest_wait(now)
    }

    /// The limits that it was made with.
    #[must_use]
    pub fn limits(&self) -> &AdmissionLimits {
        self.shared.limits()
    }

    /// Its figures, of one moment.
    #[must_use]
    pub fn stats(&self) -> AdmissionStats {
        self.shared.stats()
    }
}

/// The figures of an [`Admission`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionStats {
    /// Streams that are there.
    pub active: usize,
    /// Streams that were let in so far.
    pub admitted: u64,
    /// Of those that are there, the ones that catch up.
    pub catching_up: usize,
    /// See [`Admission::set_concurrency_limit`].
    pub concurrency_limit: Option<usize>,
    /// Identities that hold or wait for something.
    pub identities: usize,
    /// See [`Admission::is_accepting`].
    pub is_accepting: bool,
    /// See [`Admission::set_overloaded`].
    pub is_overloaded: bool,
    /// Streams that were refused so far, for each kind of reason. Who stops waiting is neither admitted nor refused.
    pub refused: RefusalCounts,
    /// How many wait for room.
    pub waiting: usize,
}
