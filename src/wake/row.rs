//! A row of parking slots: one word of bits for up to 32 readers, and a cell with a waker for each.

use std::{any::Any, mem::MaybeUninit, panic, task::Waker};

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Slots of a full row. Two in models: more would only add interleavings of the same kind.
pub(super) const WIDTH: usize = if cfg!(keywake_loom) { 2 } else { 32 };

/// A cell for a waker. Who may touch it is W1.
pub(super) type Cell = UnsafeCell<MaybeUninit<Waker>>;

/// A borrowed row: `bits` holds P(arked) of slot i at bit i and H(eld) at bit 32 + i.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) bits: &'a AtomicU64,
    /// The count that the slot's reader had seen when it parked, cut to 32 bits.
    pub(super) seen: &'a [AtomicU32],
    pub(super) cells: &'a [Cell],
}

const fn parked(slot: usize) -> u64 {
    1 << slot
}

const fn held(slot: usize) -> u64 {
    1 << (slot + 32)
}

/// What putting a waker into a slot came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It lies there; the caller has still to look whether an event came meanwhile.
    Parked,
    /// A fan-out is at the slot: a wake is on its way, and the reader may sleep.
    Coming,
}

/// What a fan-out did in one row or in all.
#[derive(Default)]
pub(crate) struct Woken {
    /// Wakes given.
    pub(crate) wakes: u64,
    /// Wakes given to a reader that had already seen all: the bookkeeping's own check, always 0.
    pub(crate) empty: u64,
    /// The payload of the first waker that panicked; the others were woken all the same.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Somebody stays parked, having seen all.
    pub(super) left: bool,
}

impl Woken {
    fn wake(&mut self, waker: Waker) {
        self.wakes += 1;
        // A waker is user code: its panic must not cost the others their wake.
        if let Err(payload) = panic::catch_unwind(panic::AssertUnwindSafe(|| waker.wake())) {
            self.panic.get_or_insert(payload);
        }
    }
}

impl std::fmt::Debug for Woken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Woken").field("wakes", &self.wakes).field("empty", &self.empty).finish_non_exhaustive()
    }
}

impl Row<'_> {
    fn parked_mask(self) -> u64 {
        (1 << self.cells.len()) - 1
    }

    /// Whether a reader that had seen `seen` has something to read at `count`. Cut to 32 bits both: a reader that is parked has
    /// been passed by far fewer than 2^31 events, since the first of them wakes it.
    fn is_behind(self, slot: usize, count: u64) -> bool {
        // Relaxed: written before P was set, which the caller has acquired; a slot whose P it does not own it looks at again.
        let seen = self.seen[slot].load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "arithmetic modulo 2^32")]
        let ahead = (count as u32).wrapping_sub(seen) as i32;
        ahead > 0
    }

    /// Lays a waker into a slot. The slot is the caller's.
    pub(super) fn put(self, slot: usize, count: u64, waker: &Waker) -> Put {
        // Acquire (pairs with `release`): a cell whose H is off is no longer read.
        let mut bits = self.bits.load(Ordering::Acquire);
        if bits & parked(slot) != 0 {
            // Of an earlier, cancelled or overtaken wait (this reader's, or that of the slot's owner before).
            bits = self.take(slot);
        }
        if bits & held(slot) != 0 {
            // A re-poll while a fan-out has the cell. The same waker is about to be woken. A new one must be asked for again, and is
            // by itself: waiting for the cell would be waiting for the writer's time slice.
            if !self.holds(slot, waker) {
                waker.wake_by_ref();
            }
            return Put::Coming;
        }
        let waker = waker.clone();
        self.cells[slot].with_mut(|cell| {
            // SAFETY: W1: neither P nor H, so the cell is the slot owner's, and empty.
            unsafe { (*cell).write(waker) };
        });
        #[expect(clippy::cast_possible_truncation, reason = "arithmetic modulo 2^32")]
        // Relaxed: released by P below.
        self.seen[slot].store(count as u32, Ordering::Relaxed);
        // AcqRel (pairs with `hold_behind`): if its exchange comes first, we see the count that made it come; if we
        // come first, it sees us and the waker.
        self.bits.fetch_or(parked(slot), Ordering::AcqRel);
        Put::Parked
    }

    /// Takes a waker out again, if it is still there, and drops it. The answer is the bits after.
    pub(super) fn take(self, slot: usize) -> u64 {
        // AcqRel (pairs with `hold_behind` and `release`): whoever of the two takes P off has the cell; a fan-out that took it before is done with
        // what it did before releasing H, or H still shows.
        let bits = self.bits.fetch_and(!parked(slot), Ordering::AcqRel);
        if bits & parked(slot) != 0 {
            let waker = self.cells[slot].with(|cell| {
                // SAFETY: W1: P was set and we took it off, so the cell is full and ours.
                unsafe { cell.cast::<Waker>().read() }
            });
            drop(waker);
        }
        bits & !parked(slot)
    }

    /// Whether the waker in a held cell would wake the same task.
    fn holds(self, slot: usize, waker: &Waker) -> bool {
        self.cells[slot].with(|cell| {
            // SAFETY: W1: H showed, so the cell holds the bytes of the waker last put there, and nobody writes them until the slot's owner,
            // who is us, puts in another. The waker itself may be woken and gone by now: the copy is neither dropped nor used but for a
            // comparison of its two words.
            let copy = std::mem::ManuallyDrop::new(unsafe { cell.cast::<Waker>().read() });
            copy.will_wake(waker)
        })
    }

    /// Wakes every parked reader that has not seen `count`; with `all` every parked reader (the topic is closed).
    pub(super) fn wake_behind(self, count: u64, all: bool, woken: &mut Woken) {
        let Some(taken) = self.hold_behind(count, all, woken) else { return };
        if taken.is_power_of_two() {
            // One: no list.
            let waker = self.look_again(taken.trailing_zeros() as usize, count, all, woken);
            self.release(taken, if waker.is_none() { taken } else { 0 }, woken);
            if let Some(waker) = waker {
                woken.wake(waker);
            }
            return;
        }
        let mut batch = Batch { wakers: [const { MaybeUninit::uninit() }; WIDTH], at: 0, number: 0, woken };
        let mut back = 0;
        for slot in slots_of(taken) {
            match self.look_again(slot, count, all, batch.woken) {
                Some(waker) => batch.push(waker),
                None => back |= parked(slot),
            }
        }
        self.release(taken, back, batch.woken);
        batch.run();
    }

    /// Takes the waker out of a held slot. `None`: between our look and our taking it, its reader took the waker back and parked anew,
    /// having seen all, so that the bits look the same; it stays parked.
    fn look_again(self, slot: usize, count: u64, all: bool, woken: &mut Woken) -> Option<Waker> {
        if !all && !self.is_behind(slot, count) {
            return None;
        }
        // What the statistics call an empty wake, asked independently of the decision above.
        woken.empty += u64::from(!all && !self.is_behind(slot, count));
        Some(self.cells[slot].with(|cell| {
            // SAFETY: W1: we turned P into H, so the cell is full, and only read until H is off.
            unsafe { cell.cast::<Waker>().read() }
        }))
    }

    /// Takes H off, and lets those of `back` stay parked.
    fn release(self, taken: u64, back: u64, woken: &mut Woken) {
        // Release (pairs with the acquiring loads and read-modify-writes of `put` and `take`): the cells are not read after this. P
        // of those that stay parked was off since we took it, so the exclusive-or sets it.
        self.bits.fetch_xor((taken << 32) | back, Ordering::Release);
        woken.left |= back != 0;
    }

    /// Turns P into H for all that are behind. `None`: nobody is.
    fn hold_behind(self, count: u64, all: bool, woken: &mut Woken) -> Option<u64> {
        // Acquire (pairs with `put`): `seen` of those whose P shows is visible.
        let mut bits = self.bits.load(Ordering::Acquire);
        loop {
            let mut taken = 0;
            for slot in slots_of(bits & self.parked_mask()) {
                if all || self.is_behind(slot, count) {
                    taken |= parked(slot);
                }
            }
            // The same exchange where nothing is taken: a read-modify-write, so that a parker that comes after it sees the count that
            // made us come; with a load alone, both could miss each other.
            let next = (bits & !taken) | (taken << 32);
            // AcqRel (pairs with `put`): the wakers are visible; see there. Failure Acquire: `seen` of a newcomer is visible.
            match self.bits.compare_exchange_weak(bits, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    woken.left |= next & self.parked_mask() != 0;
                    return (taken != 0).then_some(taken);
                }
                Err(current) => bits = current,
            }
        }
    }

    /// Drops the wakers that still lie here. The caller is the row's last user.
    pub(super) fn clear(self) {
        for slot in 0..self.cells.len() {
            self.take(slot);
        }
    }
}

fn slots_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let slot = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Some(slot)
    })
}

/// Wakers taken out of their cells. Each is woken, whatever the others do.
struct Batch<'a> {
    wakers: [MaybeUninit<Waker>; WIDTH],
    at: usize,
    number: usize,
    woken: &'a mut Woken,
}

impl Batch<'_> {
    fn push(&mut self, waker: Waker) {
        self.wakers[self.number].write(waker);
        self.number += 1;
    }

    fn run(&mut self) {
        while self.at < self.number {
            let at = self.at;
            self.at += 1;
            // SAFETY: W2: the first `number` are wakers taken out of their cells, and each is read once, since `at` moves on.
            let waker = unsafe { self.wakers[at].assume_init_read() };
            self.woken.wake(waker);
        }
    }
}
