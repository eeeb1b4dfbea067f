//! The parking slots of one topic: the first inline, the others in rows made as they are needed.

use std::{fmt, ptr};

use super::row::{Parked, Put, Row, Target, WIDTH, Woken, parked};
use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, Stamp};

/// Rows of a group, which has one summary word. Two in models.
const GROUP: usize = if cfg!(keywake_loom) { 2 } else { 64 };
/// Segments of groups, each twice as long as the one before: room for 2^17 groups of 2,048 slots, which is 2^28 slots.
const SEGMENTS: usize = 18;
/// Rows that no summary tells of: the seat, and the first one of the others.
const BEFORE: u32 = 2;

/// The first slot, in the topic itself: most keys have one reader.
type Seat<P> = Row<P, 1>;

/// Bit of the seat's word that says whose it is: somebody's. (P and H of the one slot are bits 0 and 32.)
const TAKEN: u64 = 1 << 1;

type FullRow<P> = Row<P, WIDTH>;

/// Rows with one word that says in which of them somebody may be parked.
struct Group<P: Parked> {
    summary: AtomicU64,
    rows: [AtomicPtr<FullRow<P>>; GROUP],
}

impl<P: Parked> Group<P> {
    fn new() -> Self {
        Self { summary: AtomicU64::new(0), rows: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
}

impl<P: Parked> Drop for Group<P> {
    fn drop(&mut self) {
        for row in &self.rows {
            // Acquire (pairs with `publish_once`): the row's contents are visible to us, who drop it.
            let row = row.load(Ordering::Acquire);
            if !row.is_null() {
                // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
                drop(unsafe { Box::from_raw(row) });
            }
        }
    }
}

/// All slots but the first.
struct Rest<P: Parked> {
    first: FullRow<P>,
    segments: [AtomicPtr<Box<[Group<P>]>>; SEGMENTS],
    free: Mutex<FreeList>,
}

impl<P: Parked> Drop for Rest<P> {
    fn drop(&mut self) {
        for segment in &self.segments {
            // Acquire (pairs with `publish_once`): the segment's contents are visible to us, who drop it.
            let segment = segment.load(Ordering::Acquire);
            if !segment.is_null() {
                // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}

/// Which slots are given out; the lowest free one is given first, so that a crowd that has left leaves dense rows behind.
#[derive(Default)]
struct FreeList {
    /// Per row, the slots given out.
    used: Vec<u32>,
    /// One bit per row that has a free slot.
    open: Vec<u64>,
}

impl FreeList {
    fn take(&mut self) -> (usize, usize) {
        let found = self.open.iter().position(|&word| word != 0);
        let row = found.map_or(self.used.len(), |word| word * 64 + self.open[word].trailing_zeros() as usize);
        if row == self.used.len() {
            self.used.push(0);
            if row % 64 == 0 {
                self.open.push(0);
            }
            self.open[row / 64] |= 1 << (row % 64);
        }
        let slot = self.used[row].trailing_ones() as usize;
        self.used[row] |= 1 << slot;
        if slot + 1 == WIDTH || self.used[row].trailing_ones() as usize >= WIDTH {
            self.open[row / 64] &= !(1 << (row % 64));
        }
        (row, slot)
    }

    fn give_back(&mut self, row: usize, slot: usize) {
        self.used[row] &= !(1 << slot);
        self.open[row / 64] |= 1 << (row % 64);
    }
}

/// A slot that a reader keeps: 0 is the seat, the others are counted through the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

impl SlotId {
    /// For a reader that keeps it as a bare number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The reverse of `number`.
    pub(crate) fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// A group, and the index of a row in it.
type InGroup<'a, P> = (&'a Group<P>, usize);

/// Where a slot lies.
struct Found<'a, P: Parked> {
    row: &'a FullRow<P>,
    slot: usize,
    group: Option<InGroup<'a, P>>,
}

/// Where a pass goes on: at this row, the seat being 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// See the module.
pub(crate) struct Slots<P: Parked> {
    seat: Seat<P>,
    rest: AtomicPtr<Rest<P>>,
}

// SAFETY: W1: cells are handed from reader to fan-out and back by the bits; what lies in them is `Send + Sync`.
unsafe impl<P: Parked + Send + Sync> Send for Slots<P> {}
// SAFETY: W1 and W3: a cell is touched by whom the bits say, rows are found by an acquiring load; the rest is atomic or locked.
unsafe impl<P: Parked + Send + Sync> Sync for Slots<P> {}

impl<P: Parked> Slots<P> {
    pub(crate) fn new() -> Self {
        Self { seat: Seat::new(), rest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// See `Row::spare`.
    #[inline]
    pub(crate) fn spare(&self) -> &Stamp {
        &self.seat.spare
    }

    /// Gives out a slot.
    pub(crate) fn take_slot(&self) -> SlotId {
        // Relaxed: only a guess for the exchange below.
        if self.seat.bits.load(Ordering::Relaxed) & TAKEN == 0 {
            // AcqRel (pairs with `return_slot`): the owner before is done with the slot.
            if self.seat.bits.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0 {
                return SlotId(0);
            }
        }
        let rest = self.rest_or_make();
        let (row, slot) = rest.free.lock().take();
        if row > 0 {
            rest.make_row(row - 1);
        }
        let number = u32::try_from(1 + row * WIDTH + slot);
        // Not reached: `make_row` gives up at 2^28 slots.
        SlotId(number.unwrap_or_else(|_| std::process::abort()))
    }

    /// Takes a slot back, out of which was taken what lay there.
    pub(crate) fn return_slot(&self, id: SlotId) {
        if id.0 == 0 {
            // Release (pairs with `take_slot`): the next owner comes after all we did.
            self.seat.bits.fetch_and(!TAKEN, Ordering::Release);
            return;
        }
        let index = id.0 as usize - 1;
        if let Some(rest) = self.rest() {
            rest.free.lock().give_back(index / WIDTH, index % WIDTH);
        }
    }

    fn rest(&self) -> Option<&Rest<P>> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let rest = self.rest.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { rest.as_ref() }
    }

    fn rest_or_make(&self) -> &Rest<P> {
        publish_once(&self.rest, || Rest {
            first: FullRow::new(),
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            free: Mutex::new(FreeList::default()),
        })
    }

    /// Lays `parked` of a reader that has seen `count` events into its slot, and mentions it in the summary. Does not know the topic's
    /// word: the rest of P1 is the caller's.
    ///
    /// `first` says that this is the first time in this slot: it then tells of itself by a read-modify-write, so that a fan-out
    /// that finds it told has also seen the row that the slot lies in.
    #[inline]
    pub(crate) fn put(&self, id: SlotId, first: bool, count: u64, parked: &P) -> Put {
        if id.0 == 0 {
            return self.seat.put(0, count, parked);
        }
        let Some(Found { row, slot, group }) = self.find(id) else { unreachable!("a slot that was given out has a row") };
        let put = row.put(slot, count, parked);
        if let (Put::Parked, Some((group, index))) = (put, group) {
            group.mention(index, first);
        }
        put
    }

    /// Takes out of a slot what lies there. False: it did not any more.
    #[inline]
    pub(crate) fn take(&self, id: SlotId) -> bool {
        if id.0 == 0 {
            return self.seat.take(0) & parked(0) != 0;
        }
        self.find(id).is_some_and(|Found { row, slot, .. }| row.take(slot) & parked(slot) != 0)
    }

    /// Where a slot lies that is not the seat.
    fn find(&self, id: SlotId) -> Option<Found<'_, P>> {
        let rest = self.rest()?;
        let index = id.0 as usize - 1;
        let (row, slot) = (index / WIDTH, index % WIDTH);
        if row == 0 {
            return Some(Found { row: &rest.first, slot, group: None });
        }
        let (group, index) = rest.group(row - 1)?;
        // Acquire (pairs with `publish_once`): its contents are visible.
        let row = group.rows[index].load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        let row = unsafe { row.as_ref() }?;
        Some(Found { row, slot, group: Some((group, index)) })
    }

    /// Wakes parked readers that `target` is for, from `place` on, and exactly as many as `budget` allows. True: the pass is through, and
    /// `place` at the beginning. False: there are more of them; they stay parked, and the summaries tell of them.
    ///
    /// Any number of these may run at once: a slot is woken by the one that turns its P into H. No lock is held.
    #[inline]
    pub(crate) fn wake_behind(&self, target: Target, place: &mut Place, budget: usize, woken: &mut Woken) -> bool {
        let mut budget = budget;
        if place.0 == 0 {
            if !self.seat.wake_behind(target, &mut budget, woken) {
                return false;
            }
            place.0 = 1;
        }
        let is_through = self.rest().is_none_or(|rest| rest.wake_behind(target, place, &mut budget, woken));
        if is_through {
            *place = Place::default();
        }
        is_through
    }
}

impl<P: Parked> Rest<P> {
    /// The segment that group `group` is in, and its index there: segments hold 1, 1, 2, 4, 8, ... groups.
    fn segment_of(group: usize) -> (usize, usize) {
        match group {
            0 => (0, 0),
            _ => (group.ilog2() as usize + 1, group - (1 << group.ilog2())),
        }
    }

    fn segment(&self, segment: usize) -> Option<&[Group<P>]> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let groups = self.segments.get(segment)?.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { groups.as_ref() }.map(|groups| &**groups)
    }

    /// The group of a row behind the first one, and the row's index in it.
    fn group(&self, row: usize) -> Option<InGroup<'_, P>> {
        let (segment, index) = Self::segment_of(row / GROUP);
        Some((&self.segment(segment)?[index], row % GROUP))
    }

    fn make_row(&self, row: usize) {
        let (segment, index) = Self::segment_of(row / GROUP);
        let length = if segment == 0 { 1 } else { 1 << (segment - 1) };
        // Beyond the last segment there are 2^28 tasks that wait for one key; 40 GB of them come first.
        let Some(place) = self.segments.get(segment) else { std::process::abort() };
        let groups = publish_once(place, || (0..length).map(|_| Group::new()).collect::<Box<[Group<P>]>>());
        publish_once(&groups[index].rows[row % GROUP], FullRow::new);
    }

    fn wake_behind(&self, target: Target, place: &mut Place, budget: &mut usize, woken: &mut Woken) -> bool {
        if place.0 == 1 {
            if !self.first.wake_behind(target, budget, woken) {
                return false;
            }
            place.0 = BEFORE;
        }
        let mut row = (place.0 - BEFORE) as usize;
        loop {
            let (segment, index) = Self::segment_of(row / GROUP);
            let Some(groups) = self.segment(segment) else { return true };
            for group in &groups[index..] {
                if let Err(stopped) = group.wake_behind(row % GROUP, target, budget, woken) {
                    // Not cut: a row's number is below that of its slots.
                    #[expect(clippy::cast_possible_truncation, reason = "there are 2^24 rows")]
                    let stopped = (row - row % GROUP + stopped) as u32;
                    place.0 = BEFORE + stopped;
                    return false;
                }
                row += GROUP - row % GROUP;
            }
        }
    }
}

impl<P: Parked> Group<P> {
    /// Says that somebody may be parked in row `index`.
    fn mention(&self, index: usize, first: bool) {
        // Acquire (pairs with the swap in `wake_behind`): a bit that is still set has its fan-out yet to come, as PARKED (P1).
        if first || self.summary.load(Ordering::Acquire) & (1 << index) == 0 {
            // AcqRel (pairs with the swap in `wake_behind`): if the swap came first, we see the count that made it come.
            self.summary.fetch_or(1 << index, Ordering::AcqRel);
        }
    }

    /// From row `from` on. `Err`: it stopped at that row, in which there are more.
    fn wake_behind(&self, from: usize, target: Target, budget: &mut usize, woken: &mut Woken) -> Result<(), usize> {
        // AcqRel (pairs with `mention`): rows that are mentioned are visible; a read-modify-write even where nothing is set,
        // so that a mention that comes after it sees the count that made us come (P1).
        let mut summary = self.summary.fetch_and(!(u64::MAX << from), Ordering::AcqRel) & (u64::MAX << from);
        while summary != 0 {
            let index = summary.trailing_zeros() as usize;
            // Acquire (pairs with `publish_once`): the row's contents are visible.
            let row = self.rows[index].load(Ordering::Acquire);
            // SAFETY: W3: once published it lives as long as the topic.
            if let Some(row) = unsafe { row.as_ref() } {
                let left_before = std::mem::replace(&mut woken.left, false);
                let is_through = row.wake_behind(target, budget, woken);
                if !is_through {
                    // The rows that we have not looked at, and this one.
                    // AcqRel (pairs with the one above): as `mention`.
                    self.summary.fetch_or(summary, Ordering::AcqRel);
                } else if woken.left {
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

/// Makes a thing where there is none; of several that try at once, one wins.
pub(super) fn publish_once<T>(place: &AtomicPtr<T>, make: impl FnOnce() -> T) -> &T {
    // Acquire (pairs with the exchange below): the contents are visible.
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        let made = Box::into_raw(Box::new(make()));
        // AcqRel (pairs with every load of the place): made before it is found. Failure Acquire: somebody else's contents are visible.
        match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => found = made,
            Err(other) => {
                // SAFETY: W3: made by `Box::into_raw` above, and not published: ours alone.
                drop(unsafe { Box::from_raw(made) });
                found = other;
            }
        }
    }
    // SAFETY: W3: not null, and once published it lives as long as the place.
    unsafe { &*found }
}

impl<P: Parked> Drop for Slots<P> {
    fn drop(&mut self) {
        // Acquire (pairs with `publish_once`): the contents are visible to us, who drop them.
        let rest = self.rest.load(Ordering::Acquire);
        if !rest.is_null() {
            // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
            drop(unsafe { Box::from_raw(rest) });
        }
    }
}

impl<P: Parked> fmt::Debug for Slots<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(keywake_loom)))]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn segments_double_and_leave_no_hole() {
        let mut next = (0, 0);
        for group in 0..5000 {
            let (segment, index) = Rest::<Waker>::segment_of(group);
            if index == 0 && group > 0 {
                assert_eq!(segment, next.0 + 1);
            } else {
                assert_eq!((segment, index), next);
            }
            let length = if segment == 0 { 1 } else { 1 << (segment - 1) };
            assert!(index < length);
            next = (segment, index + 1);
        }
    }

    #[test]
    fn the_lowest_free_slot_is_given_first() {
        let mut free = FreeList::default();
        let given: Vec<_> = (0..200).map(|_| free.take()).collect();
        assert_eq!(given, (0..200).map(|i| (i / WIDTH, i % WIDTH)).collect::<Vec<_>>());
        for (row, slot) in [(5, 3), (0, 31), (2, 0)] {
            free.give_back(row, slot);
        }
        assert_eq!([free.take(), free.take(), free.take(), free.take()], [(0, 31), (2, 0), (5, 3), (6, 8)]);
    }
}
