//! All slots of a topic but the first: rows made when they are needed, and given back when a crowd has left.

use std::{
    any::Any,
    panic,
    ptr::{self, NonNull},
    slice,
};

use super::{
    group::{FullRow, GROUP, Group},
    row::{Budget, Parked, Target, WIDTH, Woken},
    visitors::Visitors,
};
use crate::sync::{AtomicPtr, Mutex, Ordering};

/// Segments of groups, each twice as long as the one before: room for 2^17 groups of 2,048 slots, which is 2^28 slots.
const SEGMENTS: usize = 18;

/// Whether a row without a reader is kept, so that one who comes and goes at a row's edge does not make a row each time. Not in models,
/// where it would only need more readers to see a row given back.
const KEEPS_SPARE: bool = cfg!(not(keywake_loom));

/// See the module. Rows are counted from 0, which is the first one and has no group; slots through the rows.
pub(super) struct Rest<P: Parked> {
    first: FullRow<P>,
    /// The first group of each.
    segments: [AtomicPtr<Group<P>>; SEGMENTS],
    visitors: Visitors,
    free: Mutex<FreeList<P>>,
}

/// Which slots are not given out; the lowest one is given first, so that those who stay end up in few rows. What is free within a group
/// and within a row is noted there.
struct FreeList<P: Parked> {
    /// The groups with a free slot, one bit each.
    open: Vec<u64>,
    /// How many groups have been used.
    groups: usize,
    /// The row without a reader that is kept.
    spare: Option<usize>,
    /// Rows that nobody finds any more, but somebody may be at.
    limbo: Limbo<P>,
}

type Limbo<P> = Vec<NonNull<FullRow<P>>>;

impl<P: Parked> FreeList<P> {
    /// The lowest group with a free slot, if need be the next one that was never used.
    fn lowest_open(&self) -> usize {
        let found = self.open.iter().position(|&word| word != 0);
        found.map_or(self.groups, |word| word * 64 + self.open[word].trailing_zeros() as usize)
    }

    /// A group that was never used is used now.
    fn begin_group(&mut self, group: usize) {
        self.groups = group + 1;
        if group % 64 == 0 {
            self.open.push(0);
        }
        self.set_open(group, true);
    }

    fn set_open(&mut self, group: usize, is_open: bool) {
        let word = &mut self.open[group / 64];
        *word = *word & !(1 << (group % 64)) | u64::from(is_open) << (group % 64);
    }

    /// The row has no reader any more: one such row is kept, the lowest, since its slots are given out next. The answer is the other.
    fn retire(&mut self, row: usize) -> Option<usize> {
        if !KEEPS_SPARE {
            return Some(row);
        }
        let other = self.spare.map(|spare| spare.max(row));
        self.spare = Some(self.spare.map_or(row, |spare| spare.min(row)));
        other
    }
}

/// What is missing where the next slot should be.
enum Missing {
    Row,
    Segment(usize),
}

/// What was missing, made while the free list was not locked.
struct Made<P: Parked> {
    row: Option<Box<FullRow<P>>>,
    segment: Option<Box<[Group<P>]>>,
}

/// A row's group, and its index there.
type InGroup<'a, P> = (&'a Group<P>, usize);

/// Where a slot lies.
pub(super) struct Found<'a, P: Parked> {
    pub(super) row: &'a FullRow<P>,
    pub(super) slot: usize,
    pub(super) group: Option<InGroup<'a, P>>,
}

impl<P: Parked> Rest<P> {
    pub(super) fn new() -> Self {
        Self {
            first: FullRow::new(),
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            visitors: Visitors::new(),
            free: Mutex::new(FreeList { open: Vec::new(), groups: 0, spare: None, limbo: Vec::new() }),
        }
    }

    /// Gives out a slot.
    pub(super) fn take(&self) -> usize {
        let mut made = Made { row: None, segment: None };
        loop {
            let taken = self.try_take(&mut self.free.lock(), &mut made);
            match taken {
                Ok(slot) => return slot,
                Err(Missing::Row) => made.row = Some(Box::new(FullRow::new())),
                Err(Missing::Segment(segment)) => {
                    made.segment = Some((0..segment_length(segment)).map(|_| Group::new()).collect());
                }
            }
        }
    }

    fn try_take(&self, free: &mut FreeList<P>, made: &mut Made<P>) -> Result<usize, Missing> {
        if let Some(slot) = self.first.give() {
            return Ok(slot);
        }
        let number = free.lowest_open();
        if number == free.groups {
            self.begin_group(free, made)?;
        }
        let Some(group) = self.group(number) else { unreachable!("a group that is used is there") };
        let index = group.lowest_open();
        // SAFETY: W3: the free list is locked.
        let row = match unsafe { group.row(index) } {
            Some(row) => row,
            None => group.link(index, made.row.take().ok_or(Missing::Row)?),
        };
        let Some(slot) = row.give() else { unreachable!("a row that is open has a free slot") };
        if row.is_full() && !group.set_open(index, false) {
            free.set_open(number, false);
        }
        let row = 1 + number * GROUP + index;
        if free.spare == Some(row) {
            free.spare = None;
        }
        Ok(row * WIDTH + slot)
    }

    /// The next group is used.
    #[cold]
    fn begin_group(&self, free: &mut FreeList<P>, made: &mut Made<P>) -> Result<(), Missing> {
        let (segment, _) = segment_of(free.groups);
        if self.group(free.groups).is_none() {
            let made = made.segment.take_if(|groups| groups.len() == segment_length(segment)).ok_or(Missing::Segment(segment))?;
            // Beyond the last segment there are 2^28 tasks that wait for one key; 12 GB of them come first.
            let Some(place) = self.segments.get(segment) else { std::process::abort() };
            // Release (pairs with `group`): made before it is found. An exchange, as all changes of what several threads look at.
            place.swap(Box::into_raw(made).cast(), Ordering::Release);
        }
        free.begin_group(free.groups);
        Ok(())
    }

    /// Takes a slot back. A panic of the drop of what an owner long gone had left in a row that is freed now surfaces when all is done.
    pub(super) fn give_back(&self, index: usize) {
        let Some(Found { row, slot, group }) = self.find(index) else { return };
        let mut free = self.free.lock();
        let was_full = row.is_full();
        row.take_back(slot);
        let Some((group, in_group)) = group else { return };
        if was_full && !group.set_open(in_group, true) {
            free.set_open((index / WIDTH - 1) / GROUP, true);
        }
        if !row.is_unused() {
            return;
        }
        if let Some((group, in_group)) = free.retire(index / WIDTH).and_then(|row| self.in_group(row)) {
            free.limbo.extend(group.unlink(in_group));
        }
        let freed = self.empty_limbo(&mut free);
        drop(free);
        if let Some(payload) = free_rows(freed) {
            panic::resume_unwind(payload);
        }
    }

    /// What may be freed now; it is the caller's to do so.
    fn empty_limbo(&self, free: &mut FreeList<P>) -> Limbo<P> {
        if free.limbo.is_empty() || !self.visitors.are_gone() { Vec::new() } else { std::mem::take(&mut free.limbo) }
    }

    /// Where a slot lies that is given out to the caller.
    pub(super) fn find(&self, index: usize) -> Option<Found<'_, P>> {
        let (row, slot) = (index / WIDTH, index % WIDTH);
        if row == 0 {
            return Some(Found { row: &self.first, slot, group: None });
        }
        let (group, in_group) = self.in_group(row)?;
        // SAFETY: W3: the caller has a slot of it.
        let row = unsafe { group.row(in_group) }?;
        Some(Found { row, slot, group: Some((group, in_group)) })
    }

    /// Wakes from row `from` on, within the budget. False: it stopped there.
    pub(super) fn wake_behind(&self, target: Target, from: &mut usize, budget: &mut Budget, woken: &mut Woken) -> bool {
        if *from == 0 {
            if !self.first.row.wake_behind(target, budget, woken, || ()) {
                return false;
            }
            *from = 1;
        }
        if self.segment(0).is_empty() {
            return true;
        }
        self.visitors.come();
        let is_through = self.wake_groups(target, from, budget, woken);
        if self.visitors.go() {
            self.free_limbo(woken);
        }
        is_through
    }

    fn wake_groups(&self, target: Target, from: &mut usize, budget: &mut Budget, woken: &mut Woken) -> bool {
        let (mut number, mut index) = ((*from - 1) / GROUP, (*from - 1) % GROUP);
        loop {
            let (segment, in_segment) = segment_of(number);
            let groups = self.segment(segment);
            if groups.is_empty() {
                return true;
            }
            for group in &groups[in_segment..] {
                if let Err(stopped) = group.wake_behind(index, target, budget, woken) {
                    *from = 1 + number * GROUP + stopped;
                    return false;
                }
                (number, index) = (number + 1, 0);
            }
        }
    }

    /// The last visitor frees what waited for that. Whoever has the lock just now is not waited for: it has rows to give back
    /// or to make, and one who gives back looks into the limbo as well.
    #[cold]
    fn free_limbo(&self, woken: &mut Woken) {
        let Some(mut free) = self.free.try_lock() else { return };
        let freed = self.empty_limbo(&mut free);
        drop(free);
        if let Some(payload) = free_rows(freed) {
            woken.panic.get_or_insert(payload);
        }
    }

    /// The groups of a segment; none: it is not made yet.
    fn segment(&self, segment: usize) -> &[Group<P>] {
        // Acquire (pairs with `begin_group`): its contents are visible.
        let first = self.segments.get(segment).map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
        if first.is_null() {
            return &[];
        }
        // SAFETY: W3: a segment is made whole, and lives as long as `self`.
        unsafe { slice::from_raw_parts(first, segment_length(segment)) }
    }

    #[inline]
    fn group(&self, number: usize) -> Option<&Group<P>> {
        let (segment, index) = segment_of(number);
        // Acquire (pairs with `begin_group`): its contents are visible.
        let first = self.segments.get(segment)?.load(Ordering::Acquire);
        if first.is_null() {
            return None;
        }
        // SAFETY: W3: a segment is made whole, and `segment_of` stays within it.
        let group = unsafe { first.add(index) };
        // SAFETY: W3: it lives as long as `self`.
        Some(unsafe { &*group })
    }

    /// The group of a row behind the first one, and the row's index there.
    fn in_group(&self, row: usize) -> Option<InGroup<'_, P>> {
        let row = row.checked_sub(1)?;
        Some((self.group(row / GROUP)?, row % GROUP))
    }
}

#[cfg(all(test, not(keywake_loom)))]
impl<P: Parked> Rest<P> {
    /// Rows that are there, the first one not counted; none may be in limbo.
    pub(super) fn rows(&self) -> usize {
        let free = self.free.lock();
        assert!(free.limbo.is_empty(), "nobody visits");
        let groups = (0..SEGMENTS).flat_map(|segment| self.segment(segment));
        // SAFETY: W3: the free list is locked.
        groups.map(|group| (0..GROUP).filter(|index| unsafe { group.row(*index) }.is_some()).count()).sum()
    }
}

/// The segment that a group is in, and its index there: segments hold 1, 2, 4, 8, ... groups.
#[inline]
fn segment_of(group: usize) -> (usize, usize) {
    let number = group + 1;
    // Not `ilog2`, which asks whether it is 0.
    let segment = (usize::BITS - 1 - number.leading_zeros()) as usize;
    (segment, number - (1 << segment))
}

fn segment_length(segment: usize) -> usize {
    1 << segment
}

/// Frees rows that nobody can be at. The answer is the payload of the first drop that panicked.
fn free_rows<P: Parked>(rows: Limbo<P>) -> Option<Box<dyn Any + Send>> {
    let mut first = None;
    for row in rows {
        // SAFETY: W3: it was linked as a box, unlinked, and no visitor that came before that was there any more.
        let row = unsafe { Box::from_raw(row.as_ptr()) };
        if let Err(payload) = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(row))) {
            first.get_or_insert(payload);
        }
    }
    first
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

impl<P: Parked> Drop for Rest<P> {
    fn drop(&mut self) {
        for (index, segment) in self.segments.iter().enumerate() {
            // Acquire (pairs with `begin_group`): the segment's contents are visible to us, who drop it.
            let first = segment.load(Ordering::Acquire);
            if !first.is_null() {
                let groups = ptr::slice_from_raw_parts_mut(first, segment_length(index));
                // SAFETY: W3: it was a box of as many, and is dropped here.
                drop(unsafe { Box::from_raw(groups) });
            }
        }
        // Nobody is left, no visitor either.
        free_rows(std::mem::take(&mut self.free.lock().limbo));
    }
}

#[cfg(all(test, not(keywake_loom)))]
mod tests {
    use super::*;

    #[test]
    fn segments_double_and_leave_no_hole() {
        let mut next = (0, 0);
        for group in 0..5000 {
            assert_eq!(segment_of(group), next);
            next = if next.1 + 1 == segment_length(next.0) { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
    }
}
