//! A reader of many keys as their topics know it: a member for each key, and one core with the list of those that were marked.

use std::{fmt, ptr, ptr::NonNull, task::Waker};

use super::row::{Parked, Put, Row};
use crate::{
    few::Few,
    sync::{Arc, AtomicPtr, Ordering, Tally, UnsafeCell},
};

/// What all members of one set share. Who may touch what is W7.
pub(crate) struct Core {
    /// Members that were marked and not taken since, the newest first; `gone()` once the set is gone. Owns a reference to each.
    marked: AtomicPtr<Member>,
    /// The waker of the set's task.
    seat: Row<Waker, 1>,
    /// The owner's, to be found again in a list of sets.
    pub(crate) place: Tally,
}

/// One key of a set. It lies in a slot of the key's topic while it is parked.
pub(crate) struct Member {
    core: Arc<Core>,
    /// The member behind it in the list of those that are marked.
    next: UnsafeCell<*mut Self>,
    /// Where its owner keeps what belongs to it.
    index: u32,
}

// SAFETY: W7: `next` is touched by whoever marks the member, and then by the set's owner, never at once; the waker's cell by whom the bits say.
unsafe impl Send for Core {}
// SAFETY: W7: as above.
unsafe impl Sync for Core {}
// SAFETY: W7: as above.
unsafe impl Send for Member {}
// SAFETY: W7: as above.
unsafe impl Sync for Member {}

/// What stands for the list of a set that is gone. No member lies there.
fn gone() -> *mut Member {
    ptr::without_provenance_mut(1)
}

impl Core {
    pub(crate) fn new() -> Self {
        Self { marked: AtomicPtr::new(ptr::null_mut()), seat: Row::new(), place: Tally::new(0) }
    }

    /// Whether a member was marked since the last `take_marked`.
    #[inline]
    pub(crate) fn has_marked(&self) -> bool {
        // Acquire (pairs with the exchange in `push`): a mark that was made before what its caller has acquired shows.
        let marked = self.marked.load(Ordering::Acquire);
        !marked.is_null() && marked != gone()
    }

    /// Takes all members that were marked. The set's owner alone calls this.
    #[inline]
    pub(crate) fn take_marked(&self) -> Marked {
        if !self.has_marked() {
            return Marked(ptr::null_mut());
        }
        // AcqRel (pairs with the exchange in `push`): the members' links are visible, and what is published of their keys; whoever pushes
        // next comes after all that we did with the members before.
        Marked(self.marked.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// The set goes: what is still marked, now or later, is let go of.
    pub(crate) fn close(&self) {
        // AcqRel (pairs with the exchange in `push`): as `take_marked`.
        drop(Marked(self.marked.swap(gone(), Ordering::AcqRel)));
        self.rouse();
    }

    /// Puts a member that is in no slot and in no list into the list. The waker, if the set sleeps.
    pub(crate) fn mark(&self, member: Arc<Member>) -> Option<Waker> {
        self.push(member);
        self.ring()
    }

    /// Puts a member that is in no slot and in no list into the list.
    fn push(&self, member: Arc<Member>) {
        let member = Arc::into_raw(member).cast_mut();
        // Relaxed: only a guess for the exchange below.
        let mut first = self.marked.load(Ordering::Relaxed);
        while first != gone() {
            // SAFETY: W7: into_raw keeps it alive until it is taken out of the list.
            let link = unsafe { &(*member).next };
            link.with_mut(|next| {
                // SAFETY: W7: it was in the slot, and we have taken it out: nobody else touches its link until it is in the list.
                unsafe { *next = first };
            });
            // AcqRel (pairs with `take_marked`): the link is written before it is found; and with `has_marked`, what was published before
            // the mark. Failure Relaxed: we look again, or let go.
            match self.marked.compare_exchange_weak(first, member, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => first = current,
            }
        }
        // SAFETY: made by `into_raw` above, and not put into the list.
        drop(unsafe { Arc::from_raw(member) });
    }

    /// The set's owner lays its waker ready, and then looks once more at all that it would sleep through.
    pub(crate) fn sleep(&self, waker: &Waker) {
        // Held: the waker is just being taken out, and the wake is still to come; or it is put back.
        let (Put::Parked | Put::Coming) = self.seat.put(0, 0, waker);
    }

    /// The set's owner takes its waker back.
    pub(crate) fn rouse(&self) {
        self.seat.take(0);
    }

    /// The waker, if the set sleeps and a member was marked.
    fn ring(&self) -> Option<Waker> {
        self.seat.take_if(0, || self.has_marked())
    }

    /// The waker, if the set sleeps.
    pub(crate) fn ring_anyway(&self) -> Option<Waker> {
        self.seat.take_if(0, || true)
    }
}

/// Members taken out of the list.
pub(crate) struct Marked(*mut Member);

impl Iterator for Marked {
    type Item = Arc<Member>;

    fn next(&mut self) -> Option<Arc<Member>> {
        let member = NonNull::new(self.0).filter(|member| member.as_ptr() != gone())?;
        // SAFETY: W7: the list owned a reference to it, which is now ours alone.
        let member = unsafe { Arc::from_raw(member.as_ptr()) };
        self.0 = member.next.with(|next| {
            // SAFETY: W7: it was taken out of the list, and its owner has not parked it again.
            unsafe { *next }
        });
        Some(member)
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        for member in &mut *self {
            drop(member);
        }
    }
}

impl Member {
    /// The index of one that stands for no key, but for topics that were joined for the set.
    pub(crate) const INBOX: u32 = u32::MAX;

    pub(crate) fn new(core: Arc<Core>, index: u32) -> Self {
        Self { core, next: UnsafeCell::new(ptr::null_mut()), index }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

// SAFETY: `is_same` compares two addresses.
unsafe impl Parked for Arc<Member> {
    fn is_same(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }

    /// Nothing: its owner, who parks it, looks at it again by itself where it is not parked then.
    fn again(&self) {}

    /// Marks it: no user code runs, so that this may be done with the publisher's mutex held.
    fn wake(self, later: &mut Few<Waker>) {
        // Once it is in the list its owner may drop it.
        let core = Arc::clone(&self.core);
        if let Some(waker) = core.mark(self) {
            later.push(waker);
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("has_marked", &self.has_marked()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("index", &self.index).finish_non_exhaustive()
    }
}
