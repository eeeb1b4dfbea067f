//! All sets of a hub, and what they may deliver up to.

use std::{fmt, task::Waker};

use crate::{
    few::Few,
    sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering},
    wake::Core,
};

/// See the module.
///
/// # The watermark
/// A set delivers an event with seq `s` when it knows of every event of its keys below `s`. It takes a number W, *then* takes over what was
/// marked and looks at its members that are not parked, and knows then of everything up to W (P2). W is the largest seq that it, or the hub
/// as completed, has *seen*: the one writer had appended, and marked, everything below it before.
///
/// Who closes a key marks beside the writer, and may be just in between: it has taken a member out of its slot, so that the writer,
/// for an event appended before the close, finds nobody to mark; and has not put it into the set's list yet. So who marks beside the
/// writer says so before it begins, and when it is through; and meanwhile no set takes a new W.
pub(crate) struct Roster {
    /// How often somebody began to mark beside the writer.
    begun: AtomicU64,
    /// How often somebody was through with it.
    through: AtomicU64,
    /// Sets that sleep with an event beyond their W, and how many.
    held: Mutex<Vec<Arc<Core>>>,
    number_held: AtomicU64,
    /// All sets: those that have no key sleep, too.
    all: Mutex<Vec<Arc<Core>>>,
    /// Sets whose owners are blocked threads.
    blocked: AtomicU32,
}

impl Roster {
    pub(crate) fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            through: AtomicU64::new(0),
            held: Mutex::new(Vec::new()),
            number_held: AtomicU64::new(0),
            all: Mutex::new(Vec::new()),
            blocked: AtomicU32::new(0),
        }
    }

    /// Whether somebody marks beside the writer and the relay. Asked when all that the caller goes by was acquired.
    #[inline]
    pub(crate) fn is_marking(&self) -> bool {
        // Acquire (pairs with `end`): what was marked by those who are through is in the lists. In this order: of those that have begun when
        // we look, as many were through before, so they all were.
        let through = self.through.load(Ordering::Acquire);
        // Relaxed: who took a member out of a slot that the writer then found empty had begun before, and that came to us with what the
        // writer published.
        through < self.begun.load(Ordering::Relaxed)
    }

    /// Somebody who is not the writer is about to mark.
    pub(crate) fn begin(&self) {
        // Relaxed: the read-modify-writes on the slots that follow release it.
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// It is through. To be woken are those whom it held up.
    pub(crate) fn end(&self, wakers: &mut Few<Waker>) {
        // AcqRel (pairs with `is_marking`): all that was marked is in the lists.
        self.through.fetch_add(1, Ordering::AcqRel);
        self.release_held(wakers);
    }

    /// What some sets are held up by is over: they are to look again.
    pub(crate) fn release_held(&self, wakers: &mut Few<Waker>) {
        // AcqRel (pairs with `hold`): either we see it held, or it sees what we did before.
        if self.number_held.fetch_add(0, Ordering::AcqRel) == 0 {
            return;
        }
        let held = {
            let mut held = self.held.lock();
            // Relaxed: changed with the lock held, and so in step with the list.
            self.number_held.fetch_sub(held.len() as u64, Ordering::Relaxed);
            std::mem::take(&mut *held)
        };
        for core in held {
            if let Some(waker) = core.ring_anyway() {
                wakers.push(waker);
            }
        }
    }

    /// A set is about to sleep with an event beyond its W. It looks for a new W afterwards.
    pub(crate) fn hold(&self, core: &Arc<Core>) {
        let mut held = self.held.lock();
        held.push(Arc::clone(core));
        // AcqRel (pairs with `release_held`): see there.
        self.number_held.fetch_add(1, Ordering::AcqRel);
    }

    /// It does not any more.
    pub(crate) fn let_go(&self, core: &Arc<Core>) {
        let mut held = self.held.lock();
        if let Some(index) = held.iter().position(|other| Arc::ptr_eq(other, core)) {
            // Relaxed: changed with the lock held, and so in step with the list.
            self.number_held.fetch_sub(1, Ordering::Relaxed);
            drop(held.swap_remove(index));
        }
    }

    /// A thread is about to block on a set: as long as there is one, publishers do the relay's first step.
    pub(crate) fn block(&self) {
        // AcqRel (pairs with `has_blocked`): a publisher that does not see it has pushed before, which shows after this.
        self.blocked.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn unblock(&self) {
        // AcqRel (pairs with `has_blocked`): nothing rests on it.
        self.blocked.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn has_blocked(&self) -> bool {
        // AcqRel (pairs with `block`): either we see it, or it sees what we pushed before.
        self.blocked.fetch_add(0, Ordering::AcqRel) != 0
    }

    /// A set is there.
    pub(crate) fn join(&self, core: &Arc<Core>) {
        let mut all = self.all.lock();
        core.place.set(all.len() as u64);
        all.push(Arc::clone(core));
    }

    /// A set goes.
    pub(crate) fn leave(&self, core: &Core) {
        let mut all = self.all.lock();
        let Ok(index) = usize::try_from(core.place.get()) else { return };
        all.swap_remove(index);
        if let Some(moved) = all.get(index) {
            moved.place.set(index as u64);
        }
    }

    /// The hub is shut down: the wakers of all sets that sleep.
    pub(crate) fn ring_all(&self) -> Vec<Waker> {
        self.all.lock().iter().filter_map(|core| core.ring_anyway()).collect()
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").finish_non_exhaustive()
    }
}
