//! One key's events: a chain of blocks with a writer at one end, retention at the other, and readers anywhere.

use std::{fmt, ptr, ptr::NonNull};

use super::{
    account::Account,
    block::{BlockRef, Header},
    limits::Limits,
    word::{Death, State, Word},
};
use crate::{
    few::Few,
    sync::{Arc, AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, Tally, UnsafeCell},
};

/// What a chain let go; dropped by its owner outside of every lock, since payloads' drops are user code.
pub(crate) type Garbage<T> = Few<Waste<T>>;

/// A piece of garbage.
#[derive(Debug)]
pub(crate) enum Waste<T> {
    /// A block that was evicted, and severed. (Severing it again would go for the chain that is alive behind it.)
    Block(BlockRef<T>),
    /// A chain that nobody follows any more, to be taken apart.
    Chain(BlockRef<T>),
}

/// The writer's part.
struct Tail<T> {
    /// The block that is being filled, or null. Not a reference of its own: while the topic lives and is not SEALED, the chain holds it.
    block: *mut Header<T>,
    /// Its length and capacity: so that the way to its next entry does not lead over its header, which may be far from any cache.
    len: u32,
    capacity: u32,
}

/// The readers' end, and where to start looking for the newest block.
struct Ends<T> {
    head: Option<BlockRef<T>>,
    /// A recent tail; a block of the chain, or null.
    hint: *const Header<T>,
}

/// Where a reader comes in.
pub(crate) struct Entrance<T> {
    /// The head of the chain or, for a reader that needs none before it, a later block. `None`: nothing is retained.
    pub(crate) block: Option<BlockRef<T>>,
    /// The count before the first retained entry.
    pub(crate) head: u64,
    /// The seq of the last entry that is not retained.
    pub(crate) floor: u64,
}

/// What an append did.
pub(crate) struct Appended {
    /// The topic's word before it: who may be parked.
    pub(crate) before: State,
    /// It said that the topic stands in the relay's ring.
    pub(crate) queued: bool,
    /// A block was started for it.
    pub(crate) started: bool,
    /// The count before the first entry of the block that it is in.
    pub(crate) base: u64,
}

/// One event on its way into a chain.
pub(crate) struct Incoming<T> {
    pub(crate) seq: u64,
    /// `None` is a mark: the source lost everything up to `seq`.
    pub(crate) event: Option<T>,
    /// Bytes beyond `size_of::<T>()`.
    pub(crate) weight: u64,
    /// Nanoseconds since the hub was made, or 0 where no age is kept.
    pub(crate) stamp: u64,
}

/// The chain. Which thread may touch which field, and when, is in `buffer/mod.rs`.
///
/// In this order: a publish touches the first three fields, so they are to share a cache line with what comes before in a topic.
#[repr(C)]
pub(crate) struct Chain<T> {
    pub(crate) word: Word,
    /// Seq of the newest entry, or of one that is just being appended.
    last: AtomicU64,
    tail: UnsafeCell<Tail<T>>,
    /// A block that the writer started while there was no chain to link it to; the next one with the ends locked makes it the head.
    first: AtomicPtr<Header<T>>,
    ends: Mutex<Ends<T>>,
    /// Seq of the last entry that is not retained any more; of the topic's birth at first.
    floor: AtomicU64,
    /// Count before the first retained entry.
    head: AtomicU64,
    /// Weighed bytes of what is retained.
    bytes: Tally,
}

// SAFETY: the raw pointers are to blocks that are `Send + Sync` for such a `T`; who may follow them when is B1-B6.
unsafe impl<T: Send + Sync> Send for Chain<T> {}
// SAFETY: B2 and B4: one writer at a time has the writer's part, one thread with the lock the ends; the rest is atomic.
unsafe impl<T: Send + Sync> Sync for Chain<T> {}

impl<T> Chain<T> {
    /// An empty chain that holds nothing up to `floor`.
    pub(crate) fn new(word: Word, floor: u64) -> Self {
        Self {
            word,
            last: AtomicU64::new(floor),
            tail: UnsafeCell::new(Tail { block: ptr::null_mut(), len: 0, capacity: 0 }),
            first: AtomicPtr::new(ptr::null_mut()),
            ends: Mutex::new(Ends { head: None, hint: ptr::null() }),
            floor: AtomicU64::new(floor),
            head: AtomicU64::new(0),
            bytes: Tally::new(0),
        }
    }

    /// Seq of the newest entry; called after a `Word` transition that acquires.
    pub(crate) fn last_seq(&self) -> u64 {
        // Acquire (pairs with the store in `append`): see `settled`. (After acquiring a count we see at least the seq of its entry; a later
        // one is that of an append which the caller's transition forces to fail or which it does not mind.)
        self.last.load(Ordering::Acquire)
    }

    /// The count, and the seq of the last entry that it counts. `None`: the writer is just inside.
    pub(crate) fn settled(&self) -> Option<(u64, u64)> {
        let state = self.word.observe();
        let seq = self.last_seq();
        // A seq that is not counted yet was stored by a writer that is inside, and so it would show now, or have gone on since.
        (!state.is_busy() && self.word.observe() == state).then(|| (state.count(), seq))
    }

    /// Nothing up to `floor` will be here; called before the topic is found by anybody else.
    pub(crate) fn be_born_at(&self, floor: u64) {
        // Relaxed: the registry's lock, under which this is called, publishes it.
        self.floor.store(floor, Ordering::Relaxed);
        // Relaxed: the registry's lock publishes this one too.
        self.last.store(floor, Ordering::Relaxed);
    }

    /// Retained entries from number `next` on.
    pub(crate) fn lag(&self, next: u64) -> u64 {
        self.word.observe().count().saturating_sub(next.max(self.head()))
    }

    /// Retained entries.
    pub(crate) fn retained(&self) -> u64 {
        self.word.observe().count().saturating_sub(self.head())
    }

    /// Seq of the last entry that is not retained.
    pub(crate) fn floor(&self) -> u64 {
        // Relaxed: it only rises, and whoever needs it exact asks with the ends locked.
        self.floor.load(Ordering::Relaxed)
    }

    /// Count before the first retained entry.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        // Relaxed: it only rises; a statistic to whoever does not hold the ends.
        self.head.load(Ordering::Relaxed)
    }

    /// Appends, in the one writer's hands. `Err` gives the event back: the topic is dead. `has_relay`: as for `Word::append`.
    #[inline]
    pub(crate) fn append(
        &self,
        incoming: Incoming<T>,
        has_relay: impl Fn() -> bool,
        limits: &Limits,
        account: &Arc<Account>,
        garbage: &mut Garbage<T>,
    ) -> Result<Appended, Incoming<T>> {
        let inside = self.word.enter();
        if inside.is_dead() {
            self.leave(inside, account, garbage);
            return Err(incoming);
        }
        let Incoming { seq, event, weight, stamp } = incoming;
        let mut started = false;
        let (tail, index) = self.tail.with_mut(|tail| {
            // SAFETY: B2: BUSY and not dead, so the writer's part is ours.
            let tail = unsafe { &mut *tail };
            let block = if inside.is_sealed() { None } else { NonNull::new(tail.block) };
            let has_room = tail.len < tail.capacity && block.is_some_and(|block| Self::takes_more(block, limits, stamp));
            if !has_room {
                *tail = self.start_block(block, inside, limits, account, stamp);
                started = true;
            }
            tail.len += 1;
            (tail.block, tail.len - 1)
        });
        // SAFETY: B2: a tail with room is not null, and neither is the one that `start_block` gives.
        let tail = unsafe { NonNull::new_unchecked(tail) };
        // SAFETY: B2: the chain holds its tail while we are in.
        let tail = unsafe { BlockRef::borrow_raw(tail) };
        let is_mark = event.is_none();
        // SAFETY: B2: we are the writer, inside, at the tail, which has room, and whose length was `index`.
        unsafe { tail.write(index, seq, event, weight, stamp) };
        if weight != 0 {
            self.bytes.add(weight);
            account.retain(weight);
        }
        // Release (pairs with `last_seq`): whoever reads this seq sees that we are inside.
        self.last.store(seq, Ordering::Release);
        if let Some((before, queued)) = self.word.append(inside, has_relay) {
            if started {
                self.retain(limits, stamp, account, garbage);
            }
            return Ok(Appended { before, queued, started, base: inside.count() - u64::from(index) });
        }
        if weight != 0 {
            self.bytes.sub(weight);
            account.take_back(weight);
        }
        let event = if is_mark {
            None
        } else {
            // SAFETY: B1, B2, B6: written just now, with an event, by us who are still inside; a dead topic does not count it.
            Some(unsafe { tail.take_back(weight) })
        };
        self.leave(inside, account, garbage);
        Err(Incoming { seq, event, weight, stamp })
    }

    /// Whether a block that is not full is not to be ended early: that keeps retention by bytes and by age near what was asked for.
    #[inline]
    fn takes_more(block: NonNull<Header<T>>, limits: &Limits, stamp: u64) -> bool {
        if !limits.weighs && !limits.has_age() {
            return true;
        }
        // SAFETY: B2: not sealed, so the chain holds its tail while we are in.
        let block = unsafe { BlockRef::borrow_raw(block) };
        !(limits.weighs && block.weight() >= limits.block_bytes || limits.has_age() && limits.ends_block(block.ages().0, stamp))
    }

    /// Starts a block behind `full`, the tail that the writer still has, or lays it out for the next one with the ends locked.
    #[cold]
    fn start_block(
        &self,
        full: Option<NonNull<Header<T>>>,
        inside: State,
        limits: &Limits,
        account: &Arc<Account>,
        stamp: u64,
    ) -> Tail<T> {
        // SAFETY: B2: not sealed, so the chain holds its tail while we are in.
        let full = full.map(|full| unsafe { BlockRef::borrow_raw(full) });
        let capacity =
            full.as_ref().map_or_else(|| limits.first_capacity::<T>(), |full| limits.next_capacity::<T>(full.capacity()));
        let block = BlockRef::new(capacity, inside.count(), stamp, account);
        let bytes = block.weighed();
        self.bytes.add(bytes);
        account.retain(bytes);
        let tail = Tail { block: block.as_ptr().cast_mut(), len: 0, capacity };
        if let Some(full) = full {
            // SAFETY: B2: we are the writer, inside, and this was the tail until now.
            unsafe { full.link(block) };
        } else {
            // Release (pairs with `adopt_first`): the block is made before it is found. B4: nothing lies here now.
            let unclaimed = self.first.swap(block.into_raw(), Ordering::Release);
            debug_assert!(unclaimed.is_null());
        }
        tail
    }

    /// The writer goes out of a dead topic, having come in when it was `inside`. If it was vacant even then, whoever made it so found the
    /// writer out, and tears down.
    #[cold]
    fn leave(&self, inside: State, account: &Account, garbage: &mut Garbage<T>) {
        if self.word.exit().is_vacant() && !inside.is_vacant() {
            self.tear_down(account, garbage);
        }
    }

    /// Kills the topic (shard locked). True: `tear_down` is the caller's to do.
    pub(crate) fn retire(&self, death: Death) -> bool {
        let before = self.word.retire(death);
        // SAFETY: B6: asked only if nobody is left, and the writer, who was out at the time, appends no more.
        death != Death::Closed && !before.is_busy() && !unsafe { self.is_unused() }
    }

    /// Kills the topic if it holds nothing, and is not just given something (shard locked). `None`: it lives on. Otherwise as `retire`.
    pub(crate) fn retire_empty(&self) -> Option<bool> {
        let count = self.word.observe().count();
        if count > self.head() {
            return None;
        }
        // SAFETY: B6: asked only if nobody is left, and the writer, who was out at the time, appends no more.
        self.word.retire_at(count).then(|| !unsafe { self.is_unused() })
    }

    /// The last reader of a closed topic leaves (shard locked). True: `tear_down` is the caller's to do.
    pub(crate) fn vacate(&self) -> bool {
        // SAFETY: B6: nobody is left, and the writer, who was out at the time, appends no more.
        !self.word.vacate().is_busy() && !unsafe { self.is_unused() }
    }

    /// Whether it never held anything.
    ///
    /// # Safety
    /// The writer appends no more (B6), and the caller has acquired its last append.
    unsafe fn is_unused(&self) -> bool {
        self.tail.with(|tail| {
            // SAFETY: B2 and B6: by the contract of this function nobody writes.
            unsafe { (*tail).block.is_null() }
        })
    }

    /// Lets go of the whole chain. Called once, by whoever `retire`, `vacate` or `exit` told to.
    pub(crate) fn tear_down(&self, account: &Account, garbage: &mut Garbage<T>) {
        let mut ends = self.lock_ends();
        ends.hint = ptr::null();
        let head = ends.head.take();
        let bytes = self.bytes.get();
        self.bytes.set(0);
        drop(ends);
        account.evict(bytes);
        if let Some(head) = head {
            garbage.push(Waste::Chain(head));
        }
    }

    fn lock_ends(&self) -> MutexGuard<'_, Ends<T>> {
        let mut ends = self.ends.lock();
        self.adopt_first(&mut ends);
        ends
    }

    /// Makes a block that the writer laid out the head, if the chain is empty (B4).
    fn adopt_first(&self, ends: &mut Ends<T>) {
        if ends.head.is_some() {
            return;
        }
        // Acquire (pairs with `start_block`): the block is made before we look into it.
        if let Some(first) = NonNull::new(self.first.swap(ptr::null_mut(), Ordering::Acquire)) {
            // SAFETY: B4: laid out by `into_raw`, taken by this swap alone.
            let first = unsafe { BlockRef::from_raw(first) };
            ends.hint = first.as_ptr();
            ends.head = Some(first);
        }
    }

    /// Where a reader that wants the entry numbered `next` comes in: at the newest block that is known not to lie behind it.
    pub(crate) fn enter_at(&self, next: u64) -> Entrance<T> {
        let ends = self.lock_ends();
        let hint = NonNull::new(ends.hint.cast_mut()).and_then(|hint| {
            // SAFETY: B3 and B4: the hint is a block of the chain, which is locked.
            let hint = unsafe { BlockRef::borrow_raw(hint) };
            (hint.base() <= next).then(|| BlockRef::clone(&hint))
        });
        Entrance { block: hint.or_else(|| ends.head.clone()), head: self.head(), floor: self.floor() }
    }

    /// Where a reader comes in that wants everything retained.
    pub(crate) fn enter_at_head(&self) -> Entrance<T> {
        let ends = self.lock_ends();
        Entrance { block: ends.head.clone(), head: self.head(), floor: self.floor() }
    }

    /// After a block was started: notes it, and drops what is beyond the limits. Never waits: if somebody holds the ends, it is
    /// left for the next block.
    fn retain(&self, limits: &Limits, now: u64, account: &Account, garbage: &mut Garbage<T>) {
        let Some(mut ends) = self.ends.try_lock() else { return };
        self.adopt_first(&mut ends);
        if ends.head.is_none() {
            // The topic died meanwhile.
            return;
        }
        self.tail.with(|tail| {
            // SAFETY: B2: only the writer, which is us, changes its part, and the chain, not torn down, is locked.
            ends.hint = unsafe { (*tail).block };
        });
        while let Some(head) = &ends.head {
            let kept = self.word.observe().count() - head.base();
            let over_count = kept - u64::from(head.len()) >= limits.events;
            let over_bytes = self.bytes.get() > limits.bytes;
            if !(head.is_linked() && (over_count || over_bytes || limits.is_expired(head.ages().1, now))) {
                return;
            }
            self.evict_head(&mut ends, account, garbage);
        }
    }

    /// Drops what is older than the limit, the tail block included. For threads that may wait for the ends.
    pub(crate) fn expire(&self, limits: &Limits, now: u64, account: &Account, garbage: &mut Garbage<T>) {
        let mut ends = self.lock_ends();
        while let Some(head) = &ends.head {
            if !limits.is_expired(head.ages().1, now) || !self.evict_head(&mut ends, account, garbage) {
                return;
            }
        }
    }

    /// Drops the head block if it is the one that starts at `base`. `None`: the ends are locked by somebody else.
    pub(crate) fn evict_block(&self, base: u64, account: &Account, garbage: &mut Garbage<T>) -> Option<()> {
        let mut ends = self.ends.try_lock()?;
        self.adopt_first(&mut ends);
        if ends.head.as_ref().is_some_and(|head| head.base() == base) {
            self.evict_head(&mut ends, account, garbage);
        }
        Some(())
    }

    /// False: the head is the tail, and the writer is at it.
    fn evict_head(&self, ends: &mut Ends<T>, account: &Account, garbage: &mut Garbage<T>) -> bool {
        let Some(head) = ends.head.take() else { return false };
        // In this order: once a next block is linked, the length is final.
        let is_linked = head.is_linked();
        let end = head.base() + u64::from(head.len());
        if !is_linked && (head.len() == 0 || !self.word.seal(end)) {
            ends.head = Some(head);
            return false;
        }
        // SAFETY: B1: either a next block was linked, and then all entries of this one were counted before (the link was acquired), or the
        // seal found, and acquired, the count at the end of this block. Not empty: the writer starts a block to write into it, and goes on to a next one only after that.
        let last = unsafe { head.entry(head.len() - 1) };
        // Relaxed: changed with the ends locked; read for its own sake or with the ends locked.
        self.floor.store(last.seq(), Ordering::Relaxed);
        // Relaxed: changed with the ends locked, as the floor.
        self.head.store(end, Ordering::Relaxed);
        let next = head.sever();
        if ptr::eq(ends.hint, head.as_ptr()) {
            ends.hint = next.as_ref().map_or(ptr::null(), |next| next.as_ptr());
        }
        ends.head = next;
        let bytes = head.weighed();
        self.bytes.sub(bytes);
        account.evict(bytes);
        garbage.push(Waste::Block(head));
        true
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        // SAFETY: B6: nobody else is left, since we have `&mut self`.
        if unsafe { self.is_unused() } {
            return;
        }
        // A topic that dies with its hub was never torn down.
        let mut ends = self.lock_ends();
        let head = ends.head.take();
        let bytes = self.bytes.get();
        drop(ends);
        if let Some(head) = head {
            head.account().evict(bytes);
            let rest = head.take_apart(usize::MAX);
            debug_assert!(rest.is_none());
        }
    }
}

impl<T> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("word", &self.word).field("floor", &self.floor()).finish()
    }
}
