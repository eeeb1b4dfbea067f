//! A reader's place in a chain.

use std::fmt;

use super::{
    block::{BlockRef, Entry},
    chain::{Chain, Entrance},
    event::{Event, EventRef},
};

/// Whatever keeps a chain alive for a reader.
///
/// # Safety
/// `chain` gives the same chain on every call: a count that was acquired from it covers entries of that chain's blocks only (B1).
pub(crate) unsafe trait Home<T> {
    /// The chain.
    fn chain(&self) -> &Chain<T>;
}

/// What a reader finds when it looks for the next thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The topic is closed, and all has been read.
    Closed,
    /// All has been read up to `Reader::next`.
    Empty,
    /// An event: `lend` and `own` give it.
    Event,
    /// Something is gone.
    Lost(Lost),
    /// The source told of a loss that ends with this seq; the reader had come to `from`.
    Mark {
        /// See above.
        from: u64,
        /// See above.
        to: u64,
    },
}

/// What took entries from a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The topic's birth, which came after them.
    Birth,
    /// The reader itself: it goes to the newest event.
    Conflation,
    /// Retention.
    Retention,
}

/// Something came between: `from < seq <= to` are gone for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// See above.
    pub(crate) from: u64,
    /// See above.
    pub(crate) to: u64,
    /// How many entries of the topic that is, where known.
    pub(crate) missed: Option<u64>,
    /// See there.
    pub(crate) taker: Taker,
}

/// No event was stepped to last.
const NONE: u8 = u8::MAX;
/// References taken at once for events that are handed out owned.
const CREDITS: u8 = 32;

/// Before an event that a reader has stepped over: a place to come back to.
pub(crate) struct Stand<T> {
    block: BlockRef<T>,
    index: u64,
    /// The seq before it.
    seq: u64,
}

impl<T> Stand<T> {
    /// The number of the event.
    pub(crate) fn number(&self) -> u64 {
        self.block.base() + self.index
    }
}

/// A cursor in the chain of `home`. A sleeping reader holds one block, or none.
pub(crate) struct Reader<H, T> {
    home: H,
    block: Option<BlockRef<T>>,
    /// Number of the entry to read next.
    next: u64,
    /// Nothing up to this seq is to be delivered (any more).
    seq: u64,
    /// The owner's, which has no other eight-byte hole for it: each reader would be eight bytes larger.
    pub(crate) tag: u32,
    /// References to `block` made and not handed out.
    credits: u8,
    /// Index in `block` of the event last stepped to.
    current: u8,
    /// Entries from `next` on may be at or below `seq`, and are then skipped: their number says nothing about losses.
    skips: bool,
    /// The owner's, as `tag`.
    pub(crate) run: u8,
}

impl<H: Home<T>, T> Reader<H, T> {
    /// A reader of everything from entry `next` on that comes after `seq`. `exact`: no entry from `next` on is at or below `seq`.
    pub(crate) fn at(home: H, next: u64, seq: u64, exact: bool) -> Self {
        Self { home, block: None, next, seq, tag: 0, credits: 0, current: NONE, skips: !exact, run: 0 }
    }

    /// A reader of everything that is retained.
    pub(crate) fn oldest(home: H) -> Self {
        let Entrance { head, floor, .. } = home.chain().enter_at_head();
        Self::at(home, head, floor, true)
    }

    /// A reader of the newest event that is retained, if there is one, and what comes after it.
    pub(crate) fn latest(home: H) -> Self {
        let (tail, head, floor) = Self::find_tail(&home);
        let mut reader = Self::at(home, head, floor, true);
        if let Some((block, counted)) = tail {
            let index = Self::last_event(&block, 0, counted).unwrap_or(0);
            reader.next = block.base() + index;
            reader.seq = Self::entry_of(&block, index).seq() - 1;
            reader.block = Some(block);
        }
        reader
    }

    /// The block of the newest entry, with how many of its entries are counted; `None`: nothing is retained. Beside it the count before,
    /// and the seq of, the last entry that is not. The block is found by the chain's hint, and not by a walk.
    fn find_tail(home: &H) -> (Option<(BlockRef<T>, u64)>, u64, u64) {
        loop {
            let count = home.chain().word.observe().count();
            let Entrance { block, head, floor } = home.chain().enter_at(count.saturating_sub(1));
            let Some(mut block) = block.filter(|_| count > head) else { return (None, head, floor) };
            // The hint may lie a few blocks before the newest one.
            while count > block.base() + u64::from(block.len()) {
                let Some(next) = block.hop() else { break };
                block = next;
            }
            let counted = count.saturating_sub(block.base());
            if counted <= u64::from(block.len()) {
                return (Some((block, counted)), head, floor);
            }
            // Retention was faster.
        }
    }

    /// Index of the last event from `first` on among the `counted` entries; `None`: they are all marks.
    fn last_event(block: &BlockRef<T>, first: u64, counted: u64) -> Option<u64> {
        (first..counted).rev().find(|index| !Self::entry_of(block, *index).is_mark())
    }

    /// A reader of everything after `seq`, and what it has lost already.
    pub(crate) fn after(home: H, seq: u64) -> (Self, Option<Lost>) {
        let mut reader = Self::at(home, 0, seq, true);
        let lost = reader.place();
        (reader, lost)
    }

    pub(crate) fn home(&self) -> &H {
        &self.home
    }

    /// How many entries of the topic are behind this reader.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The seq up to which everything was delivered or told as lost.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Nothing from `next` on is at or below this seq.
    pub(crate) fn know(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// Whether it holds a block.
    pub(crate) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Takes the next step.
    #[inline]
    pub(crate) fn advance(&mut self) -> Step {
        loop {
            let state = self.home.chain().word.observe();
            if self.next >= state.count() {
                self.current = NONE;
                return if state.is_closed() { Step::Closed } else { Step::Empty };
            }
            let index = self.block.as_ref().map_or(u64::MAX, |block| self.next - block.base());
            let Some(block) = self.block.as_ref().filter(|block| index < u64::from(block.len())) else {
                if let Some(lost) = self.cross() {
                    return Step::Lost(lost);
                }
                continue;
            };
            #[expect(clippy::cast_possible_truncation, reason = "below len, which is at most 64")]
            let index = index as u8;
            // SAFETY: B1: `home`'s count, acquired above, is beyond `next`, and the block is of its chain.
            let entry = unsafe { block.entry(u32::from(index)) };
            let (seq, is_mark) = (entry.seq(), entry.is_mark());
            self.next += 1;
            if seq <= self.seq {
                continue;
            }
            let from = std::mem::replace(&mut self.seq, seq);
            if is_mark {
                self.current = NONE;
                return Step::Mark { from, to: seq };
            }
            self.current = index;
            self.skips = false;
            return Step::Event;
        }
    }

    /// Takes back the last step, which was to an event or a mark: `seq` is what it was before.
    pub(crate) fn step_back(&mut self, seq: u64) {
        self.current = NONE;
        self.next -= 1;
        self.seq = seq;
    }

    /// Takes back a step that told of a loss: it is told again, and what is lost until then with it.
    pub(crate) fn go_back(&mut self, next: u64, seq: u64) {
        self.leave();
        self.next = next;
        self.seq = seq;
    }

    /// The place before the event that the last step was to; `seq` is what it was before. An old place is taken over.
    pub(crate) fn stand(&self, seq: u64, old: Option<Stand<T>>) -> Option<Stand<T>> {
        let block = self.block.as_ref()?;
        let is_same = old.as_ref().is_some_and(|old| std::ptr::eq(old.block.as_ptr(), block.as_ptr()));
        let kept = if is_same { old.map(|old| old.block) } else { None };
        let block = kept.unwrap_or_else(|| BlockRef::clone(block));
        Some(Stand { index: self.next - 1 - block.base(), block, seq })
    }

    /// Goes back there. With `skips` nothing before the event is to be delivered; the answer is the seq up to which nothing is.
    pub(crate) fn return_to(&mut self, stand: Stand<T>, skips: bool) -> u64 {
        self.current = NONE;
        self.next = stand.number();
        self.seq = if skips { Self::entry_of(&stand.block, stand.index).seq() - 1 } else { stand.seq };
        if self.block.as_ref().is_none_or(|block| !std::ptr::eq(block.as_ptr(), stand.block.as_ptr())) {
            self.leave();
            self.block = Some(stand.block);
        }
        self.seq
    }

    /// Goes to the newest event, so that it is what comes next, and tells what lies before it as lost. `None`: nothing does, since it comes
    /// next anyway, or no event is unread at all.
    pub(crate) fn conflate(&mut self) -> Option<Lost> {
        if self.skips {
            let lost = self.pass_by();
            if lost.is_some() || self.skips {
                return lost;
            }
        }
        let count = self.home.chain().word.observe().count();
        // One at most: the usual, and no lock is taken.
        if count <= self.next + 1 {
            return None;
        }
        let (elsewhere, index) = self.find_newest(count)?;
        let block = elsewhere.as_ref().or(self.block.as_ref())?;
        let newest = block.base() + index;
        let to = Self::entry_of(block, index).seq() - 1;
        if newest <= self.next {
            return None;
        }
        if elsewhere.is_some() {
            self.leave();
            self.block = elsewhere;
        }
        self.current = NONE;
        let missed = newest - std::mem::replace(&mut self.next, newest);
        let from = std::mem::replace(&mut self.seq, to);
        Some(Lost { from, to, missed: Some(missed), taker: Taker::Conflation })
    }

    /// The newest event from `next` on, of those that can be had: its block, where that is not the reader's own, and its index there.
    fn find_newest(&self, count: u64) -> Option<(Option<BlockRef<T>>, u64)> {
        let last_in = |block: &BlockRef<T>, count: u64| {
            let counted = u64::from(block.len()).min(count.saturating_sub(block.base()));
            Self::last_event(block, self.next.saturating_sub(block.base()), counted)
        };
        let own = self.block.as_ref().map(|block| last_in(block, count).map(|index| (None, index)));
        if self.block.as_ref().is_some_and(|block| count <= block.base() + u64::from(block.len())) {
            return own?;
        }
        // Where all else is gone, or is marks, there is still what the reader stands in.
        let own = own.flatten();
        let Some((tail, counted)) = Self::find_tail(&self.home).0 else { return own };
        if let Some(index) = last_in(&tail, tail.base() + counted) {
            return Some((Some(tail), index));
        }
        // A block of marks. Rare enough for a walk over all that is unread: so many losses of the source came, and no event.
        'restart: while self.next < tail.base() {
            let mut found = None;
            let Some(mut current) = self.home.chain().enter_at(self.next).block else { break };
            loop {
                let count = self.home.chain().word.observe().count();
                if let Some(index) = last_in(&current, count) {
                    found = Some((Some(BlockRef::clone(&current)), index));
                }
                if count <= current.base() + u64::from(current.len()) {
                    return found.or(own);
                }
                // Retention was faster.
                let Some(next) = current.hop() else { continue 'restart };
                current = next;
            }
        }
        own
    }

    /// Goes past what lies at or below `seq`: its numbers would be taken for those of what is skipped.
    #[cold]
    fn pass_by(&mut self) -> Option<Lost> {
        while self.next < self.home.chain().word.observe().count() {
            let Some(block) = self.block.as_ref().filter(|block| self.next - block.base() < u64::from(block.len())) else {
                let lost = self.cross();
                if lost.is_some() {
                    return lost;
                }
                continue;
            };
            if Self::entry_of(block, self.next - block.base()).seq() > self.seq {
                self.skips = false;
                break;
            }
            self.next += 1;
        }
        None
    }

    /// Goes to the block that has entry `next`, or to the head if that is gone.
    #[cold]
    fn cross(&mut self) -> Option<Lost> {
        let next_block = self.block.as_ref().and_then(BlockRef::hop);
        self.leave();
        if next_block.is_some() {
            self.block = next_block;
            return None;
        }
        let Entrance { block, head, floor } = self.home.chain().enter_at(self.next);
        self.block = block;
        if self.next >= head {
            return None;
        }
        let missed = (!self.skips).then(|| head - self.next);
        self.next = head;
        self.lost(floor, missed)
    }

    /// Finds the first entry after `seq`.
    #[cold]
    fn place(&mut self) -> Option<Lost> {
        'restart: loop {
            let Entrance { block, head, floor } = self.home.chain().enter_at_head();
            self.next = head;
            let mut current = block;
            while let Some(block) = current {
                let count = self.home.chain().word.observe().count();
                let counted = u64::from(block.len()).min(count.saturating_sub(block.base()));
                let index = Self::first_after(&block, counted, self.seq);
                self.next = block.base() + index;
                if index < counted {
                    self.block = Some(block);
                    break;
                }
                if self.next >= count {
                    break;
                }
                current = block.hop();
                if current.is_none() {
                    // Retention was faster.
                    continue 'restart;
                }
            }
            // Where none is after `seq` yet (of a source that has to come to it), those that come first may not be.
            self.skips = self.block.is_none();
            return if floor > self.seq { self.lost(floor, None) } else { None };
        }
    }

    /// Index of the first of the `counted` entries whose seq is above `seq`.
    fn first_after(block: &BlockRef<T>, counted: u64, seq: u64) -> u64 {
        let (mut low, mut high) = (0, counted);
        while low < high {
            let middle = low.midpoint(high);
            if Self::entry_of(block, middle).seq() <= seq { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// An entry below a count that was acquired.
    fn entry_of(block: &BlockRef<T>, index: u64) -> &Entry<T> {
        #[expect(clippy::cast_possible_truncation, reason = "below len, which is at most 64")]
        let index = index as u32;
        assert!(index < block.len(), "an entry that is not there");
        // SAFETY: B1: the callers, private to this file, have acquired a count beyond it.
        unsafe { block.entry(index) }
    }

    fn lost(&mut self, to: u64, missed: Option<u64>) -> Option<Lost> {
        self.current = NONE;
        let from = self.seq;
        if to <= from {
            return None;
        }
        self.seq = to;
        let taker = if self.home.chain().head() > 0 { Taker::Retention } else { Taker::Birth };
        Some(Lost { from, to, missed, taker })
    }

    /// Lets go of the block: before the topic is left, or the reader might be the last to hold a long chain.
    pub(crate) fn leave(&mut self) {
        self.current = NONE;
        let credits = std::mem::take(&mut self.credits);
        if let Some(block) = self.block.take() {
            // SAFETY: B3: so many were made in `own` for this block and not handed out.
            unsafe { block.return_credits(usize::from(credits)) };
        }
    }

    /// The event that the last `advance` stepped to.
    #[inline]
    pub(crate) fn lend(&self) -> Option<EventRef<'_, T>> {
        let block = self.block.as_ref().filter(|_| self.current != NONE)?;
        // SAFETY: B1: `advance` found the entry counted and not a mark, and has not left the block since.
        Some(unsafe { EventRef::new(block, u32::from(self.current)) })
    }

    /// The same, owned.
    #[inline]
    pub(crate) fn own(&mut self) -> Option<Event<T>> {
        let block = self.block.as_ref().filter(|_| self.current != NONE)?;
        if self.credits == 0 {
            block.add_credits(usize::from(CREDITS));
            self.credits = CREDITS;
        }
        self.credits -= 1;
        // SAFETY: B3: one of those that were counted for this block and not handed out.
        let block = unsafe { block.use_credit() };
        // SAFETY: B1: `advance` found the entry counted and not a mark, and has not left the block since.
        Some(unsafe { Event::new(block, u32::from(self.current)) })
    }

    /// Retained entries that were not read yet.
    pub(crate) fn lag(&self) -> u64 {
        self.home.chain().lag(self.next)
    }
}

impl<H, T> Drop for Reader<H, T> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            // SAFETY: B3: so many were made in `own` for this block and not handed out.
            unsafe { block.return_credits(usize::from(self.credits)) };
        }
    }
}

impl<H, T> fmt::Debug for Reader<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("next", &self.next).field("seq", &self.seq).finish()
    }
}
