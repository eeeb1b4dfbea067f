//! The parking slots of one topic: the first inline, the others in rows made as they are needed.

use std::{fmt, mem::MaybeUninit, ptr, task::Waker};

use super::row::{Cell, Put, Row, WIDTH, Woken};
use crate::{
    buffer::word::{State, Word},
    sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell},
};

/// Rows of a group, which has one summary word. Two in models.
const GROUP: usize = if cfg!(keywake_loom) { 2 } else { 64 };
/// Segments of groups, each twice as long as the one before: room for 2^18 groups of 2,048 slots, which is 2^29 slots.
const SEGMENTS: usize = 19;

/// The first slot, in the topic itself: most keys have one reader.
struct Seat {
    bits: AtomicU64,
    seen: [AtomicU32; 1],
    cell: [Cell; 1],
}

/// Bit of the seat's word that says whose it is: somebody's. (P and H of the one slot are bits 0 and 32.)
const TAKEN: u64 = 1 << 1;

impl Seat {
    fn row(&self) -> Row<'_> {
        Row { bits: &self.bits, seen: &self.seen, cells: &self.cell }
    }
}

struct RowBox {
    bits: AtomicU64,
    seen: [AtomicU32; WIDTH],
    cells: [Cell; WIDTH],
}

fn empty_cell() -> Cell {
    UnsafeCell::new(MaybeUninit::uninit())
}

impl RowBox {
    fn new() -> Self {
        Self {
            bits: AtomicU64::new(0),
            seen: std::array::from_fn(|_| AtomicU32::new(0)),
            cells: std::array::from_fn(|_| empty_cell()),
        }
    }

    fn row(&self) -> Row<'_> {
        Row { bits: &self.bits, seen: &self.seen, cells: &self.cells }
    }
}

impl Drop for RowBox {
    fn drop(&mut self) {
        self.row().clear();
    }
}

/// Rows with one word that says in which of them somebody may be parked.
struct Group {
    summary: AtomicU64,
    rows: [AtomicPtr<RowBox>; GROUP],
}

impl Group {
    fn new() -> Self {
        Self { summary: AtomicU64::new(0), rows: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
}

impl Drop for Group {
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
struct Rest {
    first: RowBox,
    segments: [AtomicPtr<Box<[Group]>>; SEGMENTS],
    free: Mutex<FreeList>,
}

impl Drop for Rest {
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
type InGroup<'a> = (&'a Group, usize);

/// See the module.
pub(crate) struct Slots {
    seat: Seat,
    rest: AtomicPtr<Rest>,
}

// SAFETY: W1: cells are handed from reader to fan-out and back by the bits; the wakers in them are `Send + Sync`.
unsafe impl Send for Slots {}
// SAFETY: W1 and W3: a cell is touched by whom the bits say, rows are found by an acquiring load; the rest is atomic or locked.
unsafe impl Sync for Slots {}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            seat: Seat { bits: AtomicU64::new(0), seen: [AtomicU32::new(0)], cell: [empty_cell()] },
            rest: AtomicPtr::new(ptr::null_mut()),
        }
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
        // Not reached: `make_row` gives up at 2^29 slots.
        SlotId(number.unwrap_or_else(|_| std::process::abort()))
    }

    /// Takes a slot back, out of which the waker was taken.
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

    fn rest(&self) -> Option<&Rest> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let rest = self.rest.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { rest.as_ref() }
    }

    fn rest_or_make(&self) -> &Rest {
        publish_once(&self.rest, || Rest {
            first: RowBox::new(),
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            free: Mutex::new(FreeList::default()),
        })
    }

    /// Parks a reader that has seen `count` events. False: something came meanwhile, and it is not parked.
    ///
    /// `first` says that this is the first time in this slot: it then tells of itself by read-modify-writes, so that a fan-out
    /// that finds it told has also seen the row that the slot lies in.
    pub(crate) fn park(&self, id: SlotId, first: bool, word: &Word, count: u64, waker: &Waker) -> bool {
        let Some((row, slot, group)) = self.find(id) else { return false };
        if row.put(slot, count, waker) == Put::Coming {
            return true;
        }
        if let Some((group, index)) = group {
            group.mention(index, first);
        }
        let has_come = |state: State| state.count() != count || state.is_closed();
        let mut state = word.observe();
        // A PARKED that is still set with the count still the same is as good as our own: the fan-out that takes it off has yet to
        // come, and its read-modify-write on our row comes after ours (P1). It must be told anew for a row it may not know.
        if first || (!state.has_parked() && !has_come(state)) {
            state = word.mark_parked();
        }
        if has_come(state) {
            row.take(slot);
            return false;
        }
        true
    }

    /// Takes a reader's waker out, if it is there.
    pub(crate) fn unpark(&self, id: SlotId) {
        if let Some((row, slot, _)) = self.find(id) {
            row.take(slot);
        }
    }

    #[inline]
    fn find(&self, id: SlotId) -> Option<(Row<'_>, usize, Option<InGroup<'_>>)> {
        if id.0 == 0 {
            return Some((self.seat.row(), 0, None));
        }
        let rest = self.rest()?;
        let index = id.0 as usize - 1;
        let (row, slot) = (index / WIDTH, index % WIDTH);
        if row == 0 {
            return Some((rest.first.row(), slot, None));
        }
        let (group, index) = rest.group(row - 1)?;
        // Acquire (pairs with `publish_once`): its contents are visible.
        let row = group.rows[index].load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        let row = unsafe { row.as_ref() }?;
        Some((row.row(), slot, Some((group, index))))
    }

    /// Wakes every reader that was parked before and has something to read; once the topic is closed, every parked reader.
    ///
    /// Any number of these may run at once: a slot is woken by the one that turns its P into H. No lock is held.
    #[cold]
    pub(crate) fn fan_out(&self, word: &Word) -> Woken {
        let mut woken = Woken::default();
        loop {
            let state = word.take_parked();
            let (count, all) = (state.count(), state.is_closed());
            woken.left = false;
            self.seat.row().wake_behind(count, all, &mut woken);
            if let Some(rest) = self.rest() {
                rest.first.row().wake_behind(count, all, &mut woken);
                rest.wake_groups(count, all, &mut woken);
            }
            if !woken.left {
                return woken;
            }
            // Those who have seen all stay parked, and PARKED must say so. If an event came since, it may not have seen PARKED.
            let now = word.mark_parked();
            if now.count() == count && now.is_closed() == all {
                return woken;
            }
        }
    }
}

impl Rest {
    /// The segment that group `group` is in, and its index there: segments hold 1, 1, 2, 4, 8, ... groups.
    fn segment_of(group: usize) -> (usize, usize) {
        match group {
            0 => (0, 0),
            _ => (group.ilog2() as usize + 1, group - (1 << group.ilog2())),
        }
    }

    fn segment(&self, segment: usize) -> Option<&[Group]> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let groups = self.segments.get(segment)?.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { groups.as_ref() }.map(|groups| &**groups)
    }

    /// The group of a row behind the first one, and the row's index in it.
    fn group(&self, row: usize) -> Option<InGroup<'_>> {
        let (segment, index) = Self::segment_of(row / GROUP);
        Some((&self.segment(segment)?[index], row % GROUP))
    }

    fn make_row(&self, row: usize) {
        let (segment, index) = Self::segment_of(row / GROUP);
        let length = if segment == 0 { 1 } else { 1 << (segment - 1) };
        // Beyond the last segment there are 2^29 tasks that wait for one key; 40 GB of them come first.
        let Some(place) = self.segments.get(segment) else { std::process::abort() };
        let groups = publish_once(place, || (0..length).map(|_| Group::new()).collect::<Box<[Group]>>());
        publish_once(&groups[index].rows[row % GROUP], RowBox::new);
    }

    fn wake_groups(&self, count: u64, all: bool, woken: &mut Woken) {
        for segment in 0..SEGMENTS {
            let Some(groups) = self.segment(segment) else { return };
            for group in groups {
                group.wake_behind(count, all, woken);
            }
        }
    }
}

impl Group {
    /// Says that somebody may be parked in row `index`.
    fn mention(&self, index: usize, first: bool) {
        // Acquire (pairs with the swap in `wake_behind`): a bit that is still set has its fan-out yet to come, as PARKED (P1).
        if first || self.summary.load(Ordering::Acquire) & (1 << index) == 0 {
            // AcqRel (pairs with the swap in `wake_behind`): if the swap came first, we see the count that made it come.
            self.summary.fetch_or(1 << index, Ordering::AcqRel);
        }
    }

    fn wake_behind(&self, count: u64, all: bool, woken: &mut Woken) {
        // AcqRel (pairs with `mention`): rows that are mentioned are visible; a read-modify-write even where nothing is set,
        // so that a mention that comes after it sees the count that made us come (P1).
        let mut summary = self.summary.swap(0, Ordering::AcqRel);
        while summary != 0 {
            let index = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            // Acquire (pairs with `publish_once`): the row's contents are visible.
            let row = self.rows[index].load(Ordering::Acquire);
            // SAFETY: W3: once published it lives as long as the topic.
            let Some(row) = (unsafe { row.as_ref() }) else { continue };
            let left_before = std::mem::replace(&mut woken.left, false);
            row.row().wake_behind(count, all, woken);
            if woken.left {
                self.mention(index, true);
            }
            woken.left |= left_before;
        }
    }
}

/// Makes a thing where there is none; of several that try at once, one wins.
fn publish_once<T>(place: &AtomicPtr<T>, make: impl FnOnce() -> T) -> &T {
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

impl Drop for Slots {
    fn drop(&mut self) {
        self.seat.row().clear();
        // Acquire (pairs with `publish_once`): the contents are visible to us, who drop them.
        let rest = self.rest.load(Ordering::Acquire);
        if !rest.is_null() {
            // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
            drop(unsafe { Box::from_raw(rest) });
        }
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(keywake_loom)))]
mod tests {
    use super::*;

    #[test]
    fn segments_double_and_leave_no_hole() {
        let mut next = (0, 0);
        for group in 0..5000 {
            let (segment, index) = Rest::segment_of(group);
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
