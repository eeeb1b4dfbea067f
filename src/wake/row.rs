//! A row of parking slots: one word of bits for up to 32 readers, and a cell for each.

use std::{any::Any, mem::MaybeUninit, panic, task::Waker};

use crate::{
    few::Few,
    sync::{AtomicU32, AtomicU64, Ordering, Stamp, UnsafeCell, read_exclusively},
};

/// Slots of a full row. Two in models: more would only add interleavings of the same kind.
pub(super) const WIDTH: usize = if cfg!(keywake_loom) { 2 } else { 32 };

/// What lies in a slot: a waker, or something that acts as one.
///
/// # Safety
/// `is_same` may be called with a `self` that is a bitwise copy of one that was woken and dropped meanwhile: it must compare addresses,
/// and follow none of them.
pub(crate) unsafe trait Parked: Clone {
    /// Whether waking this one would do for `other`.
    fn is_same(&self, other: &Self) -> bool;
    /// Asks to be polled again, since another one is just being woken in this one's place. User code may run.
    fn again(&self);
    /// Wakes; or, where no user code may run, puts into `later` who is to be woken. User code may run.
    fn wake(self, later: &mut Few<Waker>);
}

/// A cell for what is parked. Who may touch it is W1.
type Cell<P> = UnsafeCell<MaybeUninit<P>>;

/// `bits` holds P(arked) of slot i at bit i and H(eld) at bit 32 + i; the others are the caller's.
#[derive(Debug)]
pub(super) struct Row<P: Parked, const N: usize> {
    pub(super) bits: AtomicU64,
    /// The count that the slot's reader had seen when it parked, cut to 32 bits.
    seen: [AtomicU32; N],
    /// The owner's, who has no other four-byte hole for it: a row of one slot has this.
    pub(super) spare: Stamp,
    cells: [Cell<P>; N],
}

/// Whom a fan-out wakes: those who have not seen `count`, or everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) count: u64,
    /// Everybody: the topic is closed.
    pub(crate) all: bool,
}

/// How many a pass may wake yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    left: usize,
    /// It is spent by whole rows: one that does not fit is left for the next pass. Nothing is gained by cutting rows where it does not matter
    /// who is woken first.
    in_rows: bool,
    /// Something was spent. The first row is cut all the same, or a small budget would get nowhere.
    is_begun: bool,
}

impl Budget {
    /// Everybody.
    pub(crate) const UNLIMITED: Self = Self { left: usize::MAX, in_rows: true, is_begun: false };

    /// So many, and no more.
    pub(crate) fn exactly(number: usize) -> Self {
        Self { left: number, in_rows: false, is_begun: false }
    }

    /// So many at most, and rather fewer than a part of a row.
    pub(crate) fn in_rows(number: usize) -> Self {
        Self { left: number, in_rows: true, is_begun: false }
    }

    pub(super) fn is_spent(self) -> bool {
        self.left == 0
    }

    pub(super) fn is_unlimited(self) -> bool {
        self.left > usize::MAX / 2
    }

    pub(crate) fn spend(&mut self, number: usize) {
        self.left = self.left.saturating_sub(number);
        self.is_begun |= number > 0;
    }

    /// Of these, the ones that may be woken.
    fn of(self, behind: u64) -> u64 {
        if self.left >= WIDTH || self.left >= behind.count_ones() as usize {
            behind
        } else if self.in_rows && self.is_begun {
            0
        } else {
            lowest(behind, self.left)
        }
    }
}

pub(super) const fn parked(slot: usize) -> u64 {
    1 << slot
}

const fn held(slot: usize) -> u64 {
    1 << (slot + 32)
}

/// What putting something into a slot came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
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
    /// Predicates' readers that were offered what came; they count their wakes by themselves.
    pub(crate) offers: u64,
    /// The payload of the first waker that panicked; the others were woken all the same.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Somebody stays parked, having seen all.
    pub(crate) left: bool,
    /// To be woken when user code may run.
    pub(crate) later: Few<Waker>,
}

impl Woken {
    /// What another one did, too.
    pub(crate) fn add(&mut self, other: Self) {
        self.wakes += other.wakes;
        self.offers += other.offers;
        self.empty += other.empty;
        self.left |= other.left;
        self.panic = self.panic.take().or(other.panic);
        other.later.into_iter().for_each(|waker| self.later.push(waker));
    }

    /// What this spent of a budget.
    pub(crate) fn spent(&self) -> usize {
        usize::try_from(self.wakes + self.offers).unwrap_or(usize::MAX)
    }

    /// Adds what was done with readers that have a predicate: what counts as a wake there is an offer.
    pub(super) fn add_offered(&mut self, mut offered: Self) {
        offered.offers = std::mem::take(&mut offered.wakes);
        self.add(offered);
    }

    /// Wakes them all. They are user code: a panic of one must not cost the others their wake.
    pub(super) fn wake(&mut self, mut parked: impl Iterator<Item = impl Parked>) {
        loop {
            let (wakes, later) = (&mut self.wakes, &mut self.later);
            let run = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                for parked in &mut parked {
                    *wakes += 1;
                    parked.wake(later);
                }
            }));
            let Err(payload) = run else { return };
            self.panic.get_or_insert(payload);
        }
    }
}

impl std::fmt::Debug for Woken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Woken").field("wakes", &self.wakes).field("empty", &self.empty).finish_non_exhaustive()
    }
}

impl<P: Parked, const N: usize> Row<P, N> {
    const PARKED: u64 = (1 << N) - 1;

    pub(super) fn new() -> Self {
        Self {
            bits: AtomicU64::new(0),
            seen: std::array::from_fn(|_| AtomicU32::new(0)),
            spare: Stamp::default(),
            cells: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
        }
    }

    /// 1 if a reader that had seen `seen` has something to read at `count`, else 0. Cut to 32 bits both: a reader that is parked has
    /// been passed by far fewer than 2^31 events, since the first of them wakes it.
    #[inline]
    fn is_behind(&self, slot: usize, count: u32) -> u64 {
        // Relaxed: written before P was set, which the caller has acquired; a slot whose P it does not own it looks at again.
        let seen = self.seen[slot].load(Ordering::Relaxed);
        // The sign: that of a negative number.
        u64::from(seen.wrapping_sub(count) >> 31)
    }

    /// Lays `new` into a slot. The slot is the caller's.
    #[inline]
    pub(super) fn put(&self, slot: usize, count: u64, new: &P) -> Put {
        // Acquire (pairs with `release`): a cell whose H is off is no longer read.
        let bits = self.bits.load(Ordering::Acquire);
        if bits & (parked(slot) | held(slot)) != 0 && self.is_coming(slot, bits, new) {
            return Put::Coming;
        }
        let new = new.clone();
        self.cells[slot].with_mut(|cell| {
            // SAFETY: W1: neither P nor H, so the cell is the slot owner's, and empty.
            unsafe { (*cell).write(new) };
        });
        #[expect(clippy::cast_possible_truncation, reason = "arithmetic modulo 2^32")]
        // Relaxed: released by P below.
        self.seen[slot].store(count as u32, Ordering::Relaxed);
        // AcqRel (pairs with `hold_behind`): if its exchange comes first, we see the count that made it come; if we
        // come first, it sees us and what we laid down.
        self.bits.fetch_or(parked(slot), Ordering::AcqRel);
        Put::Parked
    }

    /// Empties a slot in which something lies. True: a fan-out has it, and a wake is on its way.
    #[cold]
    fn is_coming(&self, slot: usize, bits: u64, new: &P) -> bool {
        // Of an earlier, cancelled or overtaken wait (this reader's, or that of the slot's owner before).
        let bits = if bits & parked(slot) != 0 { self.take(slot) } else { bits };
        if bits & held(slot) == 0 {
            return false;
        }
        // A re-poll while a fan-out has the cell. The same waker is about to be woken. A new one must be asked for again, and is
        // by itself: waiting for the cell would be waiting for the writer's time slice.
        if !self.holds(slot, new) {
            new.again();
        }
        true
    }

    /// Whether `new`, or what does for it, lies in a slot already: for its owner, who asks instead of laying it down anew where nothing else
    /// than waking is done with it. If somebody is just taking it out, it is about to be woken.
    pub(super) fn lies_there(&self, slot: usize, new: &P) -> bool {
        // Acquire (pairs with `take_if`): what it was taken out for, if it was taken out and laid down again since, is visible.
        self.bits.load(Ordering::Acquire) & parked(slot) != 0 && self.holds(slot, new)
    }

    /// Takes out again what lies in a slot, if it is still there, and drops it. The answer is the bits before.
    pub(super) fn take(&self, slot: usize) -> u64 {
        // AcqRel (pairs with `hold_behind` and `release`): whoever of the two takes P off has the cell; a fan-out that took it before is done with
        // what it did before releasing H, or H still shows.
        let bits = self.bits.fetch_and(!parked(slot), Ordering::AcqRel);
        if bits & parked(slot) != 0 {
            let old = self.cells[slot].with(|cell| {
                // SAFETY: W1: P was set and we took it off, so the cell is full and ours.
                unsafe { cell.cast::<P>().read() }
            });
            drop(old);
        }
        bits
    }

    /// Whether waking what lies in a parked or held cell does for `new`.
    fn holds(&self, slot: usize, new: &P) -> bool {
        self.cells[slot].with(|cell| {
            // SAFETY: W1: P or H showed, so the cell holds the bytes of what was last put there, and nobody writes them until the slot's
            // owner, who is us, puts in another. It may itself be woken and gone by now: the copy is neither dropped nor used but for what
            // `Parked` promises to do without following it.
            let copy = std::mem::ManuallyDrop::new(unsafe { cell.cast::<P>().read() });
            copy.is_same(new)
        })
    }

    /// Wakes parked readers that `target` is for, within `budget`, which is counted down. False: there are more of them, and they
    /// stay parked; `tell` has told of them before any of those that are woken could know of it.
    pub(super) fn wake_behind(&self, target: Target, budget: &mut Budget, woken: &mut Woken, tell: impl Fn()) -> bool {
        loop {
            let Held { taken, is_all } = self.hold_behind(target, *budget, woken, &tell);
            self.wake_taken(taken, target, budget, woken);
            // Of those that were taken one may have turned out to have seen all, and another one may be woken instead.
            if is_all || taken == 0 || budget.is_spent() {
                return is_all;
            }
        }
    }

    fn wake_taken(&self, taken: u64, target: Target, budget: &mut Budget, woken: &mut Woken) {
        if N == 1 && taken != 0 || taken.is_power_of_two() {
            // One: no list.
            let slot = taken.trailing_zeros() as usize;
            let found = (self.behind(taken, target) != 0).then(|| self.take_out(slot));
            woken.empty += u64::from(found.is_some() && self.behind(taken, target) == 0);
            self.release(taken, if found.is_none() { taken } else { 0 }, woken);
            budget.spend(usize::from(found.is_some()));
            woken.wake(found.into_iter());
        } else if taken != 0 {
            self.wake_several(taken, target, budget, woken);
        }
    }

    fn wake_several(&self, taken: u64, target: Target, budget: &mut Budget, woken: &mut Woken) {
        let mut batch = Batch { parked: [const { MaybeUninit::uninit() }; WIDTH], at: 0, number: 0 };
        let behind = self.behind(taken, target);
        // The number stays in a register: written to the batch each time, it would be waited for each time.
        let mut number = 0;
        for (place, slot) in batch.parked.iter_mut().zip(slots_of(behind)) {
            place.write(self.take_out(slot));
            number += 1;
        }
        batch.number = number;
        // What the statistics call an empty wake, asked independently of the decision above.
        let empty = behind & !self.behind(behind, target);
        woken.empty += u64::from(empty.count_ones());
        budget.spend(batch.number);
        self.release(taken, taken & !behind, woken);
        woken.wake(&mut batch);
    }

    /// Of these slots those that `target` is for.
    ///
    /// Of those that are held it is asked anew: between our look and our taking it, a reader may have taken its waker back and parked
    /// anew, having seen all, so that the bits look the same; it stays parked.
    fn behind(&self, among: u64, target: Target) -> u64 {
        if target.all {
            return among;
        }
        #[expect(clippy::cast_possible_truncation, reason = "arithmetic modulo 2^32")]
        let count = target.count as u32;
        if among == Self::PARKED {
            // The usual, without asking where the next bit is.
            return (0..N).fold(0, |behind, slot| behind | self.is_behind(slot, count) << slot);
        }
        slots_of(among).fold(0, |behind, slot| behind | self.is_behind(slot, count) << slot)
    }

    /// Takes out what lies in a held slot.
    fn take_out(&self, slot: usize) -> P {
        self.cells[slot].with(|cell| {
            // SAFETY: W1: we turned P into H, so the cell is full, and only read until H is off.
            unsafe { cell.cast::<P>().read() }
        })
    }

    /// Takes out what is parked in a slot if it `is_due`, which is asked when nobody else can take it out. Whoever makes it due calls this
    /// afterwards.
    pub(super) fn take_if(&self, slot: usize, is_due: impl Fn() -> bool) -> Option<P> {
        loop {
            // Relaxed: only a guess for the exchange below.
            let mut bits = self.bits.load(Ordering::Relaxed);
            let is_held = loop {
                let is_parked = bits & parked(slot) != 0;
                let next = if is_parked { bits & !parked(slot) | held(slot) } else { bits };
                // AcqRel (pairs with `put`): also where nothing is parked, so that who parks after this sees what is due; what was laid
                // down is visible. Failure Relaxed: we look again.
                match self.bits.compare_exchange_weak(bits, next, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break is_parked,
                    Err(current) => bits = current,
                }
            };
            if !is_held {
                return None;
            }
            let found = is_due().then(|| self.take_out(slot));
            let back = if found.is_none() { parked(slot) } else { 0 };
            // AcqRel (pairs with `put` and `take`: the cell is not read after this; and with the exchange above): whoever found H and left
            // had made it due before, which we see.
            self.bits.fetch_xor(held(slot) | back, Ordering::AcqRel);
            if found.is_some() || !is_due() {
                return found;
            }
        }
    }

    /// Takes H off, and lets those of `back` stay parked.
    fn release(&self, taken: u64, back: u64, woken: &mut Woken) {
        // Release (pairs with the acquiring loads and read-modify-writes of `put` and `take`): the cells are not read after this. P
        // of those that stay parked was off since we took it, so the exclusive-or sets it.
        self.bits.fetch_xor((taken << 32) | back, Ordering::Release);
        woken.left |= back != 0;
    }

    /// Turns P into H for all that are behind, within `budget`.
    fn hold_behind(&self, target: Target, budget: Budget, woken: &mut Woken, tell: impl Fn()) -> Held {
        // Acquire (pairs with `put`): `seen` of those whose P shows is visible.
        let mut bits = self.bits.load(Ordering::Acquire);
        loop {
            let behind = self.behind(bits & Self::PARKED, target);
            let taken = budget.of(behind);
            if taken != behind {
                // Who finds its P taken off may go on with the pass at once, and has to find these.
                tell();
            }
            // The same exchange where nothing is taken: a read-modify-write, so that a parker that comes after it sees the count that
            // made us come; with a load alone, both could miss each other.
            let next = (bits & !taken) | (taken << 32);
            // AcqRel (pairs with `put`): what was laid down is visible; see there. Failure Acquire: `seen` of a newcomer is visible.
            match self.bits.compare_exchange_weak(bits, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    woken.left |= bits & Self::PARKED & !behind != 0;
                    return Held { taken, is_all: taken == behind };
                }
                Err(current) => bits = current,
            }
        }
    }
}

impl<P: Parked, const N: usize> Drop for Row<P, N> {
    fn drop(&mut self) {
        for slot in slots_of(read_exclusively(&mut self.bits) & Self::PARKED) {
            self.cells[slot].with_mut(|cell| {
                // SAFETY: W1: P is set, so the cell is full, and nobody else is left.
                unsafe { cell.cast::<P>().drop_in_place() };
            });
        }
    }
}

/// What `hold_behind` turned into H.
struct Held {
    taken: u64,
    /// Nobody is behind but these.
    is_all: bool,
}

/// The lowest `number` of these bits.
fn lowest(bits: u64, number: usize) -> u64 {
    slots_of(bits).take(number).fold(0, |lowest, slot| lowest | parked(slot))
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

/// What was taken out of its cells.
struct Batch<P> {
    parked: [MaybeUninit<P>; WIDTH],
    at: usize,
    number: usize,
}

impl<P> Iterator for Batch<P> {
    type Item = P;

    fn next(&mut self) -> Option<P> {
        if self.at == self.number {
            return None;
        }
        self.at += 1;
        // SAFETY: W2: the first `number` were taken out of their cells, and each is read once, since `at` moves on.
        Some(unsafe { self.parked[self.at - 1].assume_init_read() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bits_are_as_many_as_asked_for() {
        assert_eq!([0, 1, 2, 3, 4].map(|number| lowest(0b1_0110, number)), [0, 0b10, 0b110, 0b1_0110, 0b1_0110]);
        assert_eq!(lowest(0xffff_ffff, 31), 0x7fff_ffff);
        assert_eq!(lowest(0, usize::MAX), 0);
    }
}
