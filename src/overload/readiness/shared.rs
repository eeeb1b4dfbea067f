//! One readiness that many set and ask.

use std::{borrow::Cow, fmt, time::Instant};

use super::{Change, Readiness};
use crate::sync::{Arc, Mutex};

/// A [`Readiness`] behind a lock, cheap to clone. To look and to set is one step under the lock; nobody's code runs in it.
#[derive(Clone)]
pub struct SharedReadiness {
    readiness: Arc<Mutex<Readiness>>,
}

impl SharedReadiness {
    /// Shares it.
    #[must_use]
    pub fn new(readiness: Readiness) -> Self {
        Self { readiness: Arc::new(Mutex::new(readiness)) }
    }

    /// See [`Readiness::set`].
    pub fn set(&self, name: &'static str, met: bool, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        // Outside the lock: it may be anybody's code.
        let reason = reason.into();
        self.readiness.lock().set(name, met, reason, now)
    }

    /// See [`Readiness::shut_down`].
    pub fn shut_down(&self, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        let reason = reason.into();
        self.readiness.lock().shut_down(reason, now)
    }

    /// See [`Readiness::observe_peers`].
    pub fn observe_peers(&self, ready_share: Option<f64>, now: Instant) -> Option<Change> {
        self.readiness.lock().observe_peers(ready_share, now)
    }

    /// See [`Readiness::tick`].
    pub fn tick(&self, now: Instant) -> Option<Change> {
        self.readiness.lock().tick(now)
    }

    /// See [`Readiness::is_ready`].
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness.lock().is_ready()
    }

    /// See [`Readiness::verdict`].
    #[must_use]
    pub fn verdict(&self) -> Change {
        self.readiness.lock().verdict()
    }

    /// A copy of the whole, as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Readiness {
        self.readiness.lock().clone()
    }
}

impl fmt::Debug for SharedReadiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedReadiness").field(&self.snapshot()).finish()
    }
}
