//! A reader that looks at what came before it is woken.

use std::{fmt, task::Waker};

use super::row::Parked;
use crate::{few::Few, sync::PlainArc};

/// What a reader with a predicate parks in place of a waker.
pub(crate) trait Offer: Send + Sync {
    /// Something came: has a look at it, and wakes the reader or parks it again. User code runs; no lock is held.
    fn offer(self: PlainArc<Self>);
    /// Asks the reader to be polled again. User code runs.
    fn again(&self);
}

/// A shared one. It stands for its reader wherever that one is parked.
#[derive(Clone)]
pub(crate) struct FilterRef(PlainArc<dyn Offer>);

impl FilterRef {
    pub(crate) fn new(filter: PlainArc<dyn Offer>) -> Self {
        Self(filter)
    }
}

// SAFETY: two addresses are compared.
unsafe impl Parked for FilterRef {
    fn is_same(&self, other: &Self) -> bool {
        PlainArc::ptr_eq(&self.0, &other.0)
    }

    fn again(&self) {
        self.0.again();
    }

    fn wake(self, _: &mut Few<Waker>) {
        self.0.offer();
    }
}

impl fmt::Debug for FilterRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterRef").finish_non_exhaustive()
    }
}
