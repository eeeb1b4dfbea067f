//! The relay's ring: what has to be fanned out, from the one writer to whoever is at work.

use std::{fmt, mem::MaybeUninit, ptr};

use crate::sync::{AtomicPtr, AtomicU64, Ordering, Padded, Tally, UnsafeCell};

/// Places of a ring: topics that wait for the relay at once. Where it is full the relay is behind, and the publisher wakes by itself.
const LENGTH: usize = if cfg!(keywake_loom) { 2 } else { 4096 };

type Cells<I> = [UnsafeCell<MaybeUninit<I>>; LENGTH];

/// A bounded list with one producer and one consumer at a time; see W4 for who is which.
///
/// ```text
///   word: bits 2..64 pushed   items laid in so far
///         bit 1      ALIVE    a relay takes them out; otherwise nothing is laid in
///         bit 0      ASLEEP   the relay has seen all there was, and waits to be woken
/// ```
pub(crate) struct Ring<I> {
    /// Every change is a read-modify-write: whether a push comes before or after the relay goes, or falls asleep, has one answer.
    word: Padded<AtomicU64>,
    /// Made when the first relay comes; lives as long as the ring.
    cells: AtomicPtr<Cells<I>>,
    /// Items taken out so far.
    taken: Padded<AtomicU64>,
    /// The producer's own copy of `taken`, which may lag behind: where that is, relays write with every item.
    seen: Padded<Tally>,
}

const ASLEEP: u64 = 1;
const ALIVE: u64 = 1 << 1;
const PUSHED_SHIFT: u32 = 2;

/// What pushing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The relay is awake, or about to be: it will come by.
    Awake,
    /// The relay is asleep: it is to be woken.
    Asleep,
    /// The relay went meanwhile: the ring is to be drained.
    Gone,
}

// SAFETY: W4: cells are handed from the producer to the consumer by the word, and back by `taken`; the items go to other threads.
unsafe impl<I: Send> Send for Ring<I> {}
// SAFETY: W4: as above: two threads never touch the same cell at once.
unsafe impl<I: Send> Sync for Ring<I> {}

impl<I> Ring<I> {
    pub(crate) fn new() -> Self {
        Self {
            word: Padded::new(AtomicU64::new(0)),
            cells: AtomicPtr::new(ptr::null_mut()),
            taken: Padded::new(AtomicU64::new(0)),
            seen: Padded::default(),
        }
    }

    /// Whether a relay takes items out.
    pub(crate) fn is_alive(&self) -> bool {
        // Relaxed: a hint, but for who has acquired it otherwise.
        self.word.load(Ordering::Relaxed) & ALIVE != 0
    }

    /// Whether the producer, who alone calls this, may push one item: a relay is there, and a place is free.
    #[inline]
    pub(crate) fn accepts(&self) -> bool {
        // Acquire (pairs with `open`): the cells are there.
        let word = self.word.load(Ordering::Acquire);
        word & ALIVE != 0 && self.has_room(word >> PUSHED_SHIFT)
    }

    #[inline]
    fn has_room(&self, pushed: u64) -> bool {
        if pushed - self.seen.get() < LENGTH as u64 {
            return true;
        }
        // Acquire (pairs with `take`): the item that lay in the place that is free is out of it.
        let taken = self.taken.load(Ordering::Acquire);
        self.seen.set(taken);
        pushed - taken < LENGTH as u64
    }

    /// Lays an item in.
    ///
    /// # Safety
    /// The caller is the one producer (W4), and `accepts` was true since it last pushed.
    #[inline]
    pub(crate) unsafe fn push(&self, item: I) -> Pushed {
        // Relaxed: of what is read here only the producer changes anything, and this is the producer.
        let pushed = self.word.load(Ordering::Relaxed) >> PUSHED_SHIFT;
        // Relaxed: set once, and acquired by `accepts`.
        let cells = self.cells.load(Ordering::Relaxed);
        // SAFETY: W4: `accepts` was true, so the cells were made, and live as long as the ring.
        let cells = unsafe { &*cells };
        cells[index_of(pushed)].with_mut(|cell| {
            // SAFETY: W4: the place is free, since `accepts` was true, and the producer's.
            unsafe { (*cell).write(item) };
        });
        // Relaxed: only a guess for the exchange below.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Whoever finds the relay asleep wakes it, and says so in the same step: others need not.
            let next = (word & !ASLEEP) + (1 << PUSHED_SHIFT);
            // AcqRel (pairs with `take`, `close`, `sleep` and `pushed`): the item lies there before it is counted; whoever came first of
            // us and a relay that goes or falls asleep is told by the answer. Failure Relaxed: nothing is read on the strength of it.
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(current) => word = current,
            }
        }
        match word & (ALIVE | ASLEEP) {
            ALIVE => Pushed::Awake,
            0 | ASLEEP => Pushed::Gone,
            _ => Pushed::Asleep,
        }
    }

    /// Items laid in so far.
    pub(crate) fn pushed(&self) -> u64 {
        // Acquire (pairs with `push`): the items are there, and what was published before them.
        self.word.load(Ordering::Acquire) >> PUSHED_SHIFT
    }

    /// Takes the next item out, if there is one.
    ///
    /// # Safety
    /// The caller is the one consumer (W4).
    pub(crate) unsafe fn take(&self) -> Option<I> {
        // Relaxed: only the consumer changes it.
        let taken = self.taken.load(Ordering::Relaxed);
        if taken == self.pushed() {
            return None;
        }
        // Relaxed: set once, before the first item, whose push was acquired.
        let cells = self.cells.load(Ordering::Relaxed);
        // SAFETY: W4: something was pushed, so the cells were made, and live as long as the ring.
        let cells = unsafe { &*cells };
        let item = cells[index_of(taken)].with(|cell| {
            // SAFETY: W4: pushed and not taken, so it is written, and the consumer's.
            unsafe { cell.cast::<I>().read() }
        });
        // Release (pairs with `has_room`): the item is out before the place is free.
        self.taken.store(taken + 1, Ordering::Release);
        Some(item)
    }

    /// A relay comes. False: there is one.
    pub(crate) fn open(&self) -> bool {
        // Relaxed: only a guess; whoever makes them twice throws his own away.
        if self.cells.load(Ordering::Relaxed).is_null() {
            let made: Box<Cells<I>> = Box::new(std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())));
            let made = Box::into_raw(made);
            // Relaxed: released by ALIVE below. Failure Relaxed: not looked at here.
            if self.cells.compare_exchange(ptr::null_mut(), made, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                // SAFETY: W4: made by `Box::into_raw` above, and not published: ours alone.
                drop(unsafe { Box::from_raw(made) });
            }
        }
        // AcqRel (pairs with `accepts`): the cells are made before ALIVE is seen.
        self.word.fetch_or(ALIVE, Ordering::AcqRel) & ALIVE == 0
    }

    /// The relay goes. What was pushed before this is to be drained by the caller; what is pushed after it by its publisher.
    pub(crate) fn close(&self) {
        // AcqRel (pairs with `push`): of a push and this one comes first, and the other knows.
        self.word.fetch_and(!(ALIVE | ASLEEP), Ordering::AcqRel);
    }

    /// The relay says that it falls asleep; its waker lies ready. False: there is something to take out.
    pub(crate) fn sleep(&self) -> bool {
        // AcqRel (pairs with `push`): either the push comes first, and shows in what we return; or it sees ASLEEP.
        let before = self.word.fetch_or(ASLEEP, Ordering::AcqRel);
        // Relaxed: a consumer that is at work now will look again before it falls asleep itself.
        before >> PUSHED_SHIFT == self.taken.load(Ordering::Relaxed)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "taken modulo the length of the ring")]
fn index_of(number: u64) -> usize {
    (number % LENGTH as u64) as usize
}

impl<I> Drop for Ring<I> {
    fn drop(&mut self) {
        // SAFETY: W4: nobody else is left, since we have `&mut self`.
        while let Some(item) = unsafe { self.take() } {
            drop(item);
        }
        // Relaxed: nobody else is left.
        let cells = self.cells.load(Ordering::Relaxed);
        if !cells.is_null() {
            // SAFETY: W4: made by `Box::into_raw`, published once, dropped here; the items are out of it.
            drop(unsafe { Box::from_raw(cells) });
        }
    }
}

impl<I> fmt::Debug for Ring<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("is_alive", &self.is_alive()).finish_non_exhaustive()
    }
}
