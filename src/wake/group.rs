//! Up to 64 rows, with one word that says in which of them somebody may be parked.

use std::ptr::{self, NonNull};

use super::row::{Budget, Parked, Row, Target, WIDTH, Woken};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, Tally};

/// Rows of a group. Two in models.
pub(super) const GROUP: usize = if cfg!(keywake_loom) { 2 } else { 64 };

/// A row with the list of its slots.
pub(super) struct FullRow<P: Parked> {
    pub(super) row: Row<P, WIDTH>,
    /// The slots that are given out, one bit each; changed and asked for with the free list locked.
    given: Tally,
}

impl<P: Parked> FullRow<P> {
    pub(super) fn new() -> Self {
        Self { row: Row::new(), given: Tally::new(0) }
    }

    /// Gives out the lowest free slot.
    pub(super) fn give(&self) -> Option<usize> {
        let given = self.given.get();
        let slot = given.trailing_ones() as usize;
        if slot == WIDTH {
            return None;
        }
        self.given.set(given | 1 << slot);
        Some(slot)
    }

    pub(super) fn take_back(&self, slot: usize) {
        self.given.set(self.given.get() & !(1 << slot));
    }

    pub(super) fn is_full(&self) -> bool {
        self.given.get().trailing_ones() as usize == WIDTH
    }

    pub(super) fn is_unused(&self) -> bool {
        self.given.get() == 0
    }
}

/// See the module.
pub(super) struct Group<P: Parked> {
    summary: AtomicU64,
    /// The rows with a free slot, those that are yet to be made among them; changed and asked for with the free list locked.
    open: Tally,
    rows: [AtomicPtr<FullRow<P>>; GROUP],
}

impl<P: Parked> Group<P> {
    pub(super) fn new() -> Self {
        Self {
            summary: AtomicU64::new(0),
            open: Tally::new(u64::MAX >> (64 - GROUP)),
            rows: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// The lowest row with a free slot; the group has one.
    pub(super) fn lowest_open(&self) -> usize {
        self.open.get().trailing_zeros() as usize
    }

    /// Says whether a row has a free slot; the answer is whether another one has.
    pub(super) fn set_open(&self, index: usize, is_open: bool) -> bool {
        let others = self.open.get() & !(1 << index);
        self.open.set(others | u64::from(is_open) << index);
        others != 0
    }

    /// A row.
    ///
    /// # Safety
    /// W3: the caller holds the free list's lock, or has a slot of the row, or is a visitor, for as long as it uses the row.
    pub(super) unsafe fn row(&self, index: usize) -> Option<&FullRow<P>> {
        // Acquire (pairs with `link`): the row's contents are visible.
        let row = self.rows[index].load(Ordering::Acquire);
        // SAFETY: W3, by the caller's promise: it is not freed meanwhile.
        unsafe { row.as_ref() }
    }

    /// Puts a row where there is none; with the free list locked.
    pub(super) fn link(&self, index: usize, row: Box<FullRow<P>>) -> &FullRow<P> {
        let row = Box::into_raw(row);
        // Release (pairs with `row`): made before it is found. An exchange, as all changes of what several threads look at.
        self.rows[index].swap(row, Ordering::Release);
        // SAFETY: W3: it was a box until now, and the free list is locked.
        unsafe { &*row }
    }

    /// Makes a row unfindable; with the free list locked. It is freed when no visitor can be at it.
    pub(super) fn unlink(&self, index: usize) -> Option<NonNull<FullRow<P>>> {
        // Relaxed: the lock orders it after `link`, and `Visitors::are_gone` releases it to whoever comes then.
        NonNull::new(self.rows[index].swap(ptr::null_mut(), Ordering::Relaxed))
    }

    /// Says that somebody may be parked in row `index`.
    pub(super) fn mention(&self, index: usize, first: bool) {
        // Acquire (pairs with the exchange in `wake_behind`): a bit that is still set has its fan-out yet to come, as PARKED (P1).
        if first || self.summary.load(Ordering::Acquire) & (1 << index) == 0 {
            // AcqRel (pairs with the exchange in `wake_behind`): if that came first, we see the count that made it come.
            self.summary.fetch_or(1 << index, Ordering::AcqRel);
        }
    }

    /// From row `from` on, by a visitor. `Err`: it stopped at that row, in which there are more.
    pub(super) fn wake_behind(&self, from: usize, target: Target, budget: &mut Budget, woken: &mut Woken) -> Result<(), usize> {
        let reach = u64::MAX << from;
        // A pass that may stop takes off one bit at a time: whom it wakes may go on with the pass at once, and has to find the others.
        let at_once = if budget.is_unlimited() { reach } else { 0 };
        // AcqRel (pairs with `mention`): rows that are mentioned are visible; a read-modify-write even where nothing is set,
        // so that a mention that comes after it sees the count that made us come (P1).
        let mut summary = self.summary.fetch_and(!at_once, Ordering::AcqRel) & reach;
        while summary != 0 {
            let index = summary.trailing_zeros() as usize;
            // One that can wake nobody any more only looks whether somebody is there.
            if at_once == 0 && !budget.is_spent() {
                // AcqRel (pairs with `mention`): as above.
                self.summary.fetch_and(!(1 << index), Ordering::AcqRel);
            }
            // SAFETY: W3: we are a visitor.
            // None: it was mentioned by somebody who has left since.
            if let Some(row) = unsafe { self.row(index) } {
                let left_before = std::mem::replace(&mut woken.left, false);
                let is_through = row.row.wake_behind(target, budget, woken, || self.mention(index, true));
                if is_through && woken.left {
                    self.mention(index, true);
                }
                woken.left |= left_before;
                if !is_through {
                    return Err(index);
                }
            }
            summary &= summary - 1;
        }
        Ok(())
    }
}

impl<P: Parked> Drop for Group<P> {
    fn drop(&mut self) {
        for index in 0..GROUP {
            if let Some(row) = self.unlink(index) {
                // SAFETY: W3: it was linked as a box, and nobody else is left.
                drop(unsafe { Box::from_raw(row.as_ptr()) });
            }
        }
    }
}
