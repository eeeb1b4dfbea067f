//! A block: a run of entries in one allocation, counted, linked forward, and severable.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    fmt,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{self, NonNull},
};

use super::account::Account;
use crate::sync::{Arc, AtomicPtr, AtomicU32, AtomicUsize, Ordering, Tally, UnsafeCell, Witness};

/// The top bit of a sequence number marks an entry without an event: a loss that the source told of.
const MARK: u64 = 1 << 63;
/// The gate's top bit: the link is cut, or will be by the last one inside.
const SEVERED: u32 = 1 << 31;

/// What stands before the entries of a block. In this order: what the writer and every reader look at comes last, beside the entries.
#[repr(C)]
pub(crate) struct Header<T> {
    /// One for the chain's end or link that points here, one per reader standing here, one per owned event.
    refs: AtomicUsize,
    /// Owns one reference to its target. Set once by the writer (null to block), cleared once by whoever cuts it.
    next: AtomicPtr<Self>,
    account: Arc<Account>,
    /// Weighed bytes of the entries beyond their own size; only the writer adds.
    weight: Tally,
    /// Nanoseconds since the hub was made, of the newest entry; 0 where no age is kept.
    newest: Tally,
    /// The same of the oldest entry.
    oldest: u64,
    /// Readers that are just following `next`, and SEVERED.
    gate: AtomicU32,
    /// The topic's count before the first entry.
    base: u64,
    /// Entries written. An entry below it is never written again, but for the last one of a topic that died (see `take_back`).
    len: AtomicU32,
    capacity: u32,
    /// Of the whole header, from its making to its end.
    memory: Witness,
    /// Of the reference that `next` owns.
    link: Witness,
    _entries: PhantomData<Entry<T>>,
}

/// One event with its number, or a mark.
pub(crate) struct Entry<T> {
    tagged: u64,
    event: MaybeUninit<T>,
}

type Cell<T> = UnsafeCell<MaybeUninit<Entry<T>>>;

impl<T> Entry<T> {
    #[inline]
    pub(crate) fn seq(&self) -> u64 {
        self.tagged & !MARK
    }

    #[inline]
    pub(crate) fn is_mark(&self) -> bool {
        self.tagged & MARK != 0
    }

    /// The event.
    ///
    /// # Safety
    /// The entry is not a mark.
    #[inline]
    pub(crate) unsafe fn event(&self) -> &T {
        // SAFETY: B1: the entry is written, and by the contract of this function with an event.
        unsafe { self.event.assume_init_ref() }
    }
}

/// One counted reference to a block.
pub(crate) struct BlockRef<T>(NonNull<Header<T>>);

// SAFETY: a block is shared like an `Arc<[T]>`: counted entries are immutable (B1), the last reference drops them wherever it is (B3).
unsafe impl<T: Send + Sync> Send for BlockRef<T> {}
// SAFETY: B1 and B3: `&BlockRef` gives `&T` of entries that are immutable, and new references, whose count is atomic.
unsafe impl<T: Send + Sync> Sync for BlockRef<T> {}

impl<T> BlockRef<T> {
    fn layout(capacity: u32) -> (Layout, usize) {
        let entries = Layout::array::<Cell<T>>(capacity as usize);
        let whole = entries.and_then(|entries| Layout::new::<Header<T>>().extend(entries));
        match whole {
            Ok((layout, offset)) => (layout.pad_to_align(), offset),
            // An entry count of at most 64 overflows `isize` only for a `T` that could not be held in memory once.
            Err(_) => unreachable!("a block of {capacity} entries is larger than the address space"),
        }
    }

    /// What a block of `capacity` entries takes from the allocator.
    pub(crate) fn bytes(capacity: u32) -> u64 {
        Self::layout(capacity).0.size() as u64
    }

    /// A block without entries, whose first will be number `base` of its topic.
    pub(crate) fn new(capacity: u32, base: u64, stamp: u64, account: &Arc<Account>) -> Self {
        let (layout, offset) = Self::layout(capacity);
        // SAFETY: the layout is not empty: it begins with a header, which is not.
        let memory = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(memory.cast::<Header<T>>()) else { handle_alloc_error(layout) };
        let header = Header {
            refs: AtomicUsize::new(1),
            next: AtomicPtr::new(ptr::null_mut()),
            account: Arc::clone(account),
            base,
            weight: Tally::new(0),
            newest: Tally::new(stamp),
            oldest: stamp,
            gate: AtomicU32::new(0),
            len: AtomicU32::new(0),
            capacity,
            memory: Witness::new(),
            link: Witness::new(),
            _entries: PhantomData,
        };
        // SAFETY: freshly allocated for a header at offset 0, aligned by its layout; nobody else knows the block yet (B3).
        unsafe { block.write(header) };
        for index in 0..capacity as usize {
            // SAFETY: `offset` and `index` lie within the layout. An empty cell needs no bytes, but loom's keeps a state.
            let cell = unsafe { memory.add(offset + index * size_of::<Cell<T>>()) }.cast::<Cell<T>>();
            // SAFETY: within the allocation, and aligned by its layout; nobody else knows the block yet (B3).
            unsafe { cell.write(UnsafeCell::new(MaybeUninit::uninit())) };
        }
        Self(block)
    }

    #[inline]
    fn header(&self) -> &Header<T> {
        // SAFETY: B3: the reference that `self` is keeps the block alive.
        let header = unsafe { self.0.as_ref() };
        header.memory.used();
        header
    }

    #[inline]
    fn cell(&self, index: u32) -> &Cell<T> {
        debug_assert!(index < self.header().capacity);
        let (_, offset) = Self::layout(1);
        // SAFETY: B3: the block is alive, and its entries lie behind the header at `offset`, which does not depend on the capacity.
        let cells = unsafe { self.0.cast::<u8>().add(offset).cast::<Cell<T>>() };
        // SAFETY: B3: the block is alive, and `index` is below its capacity.
        let cell = unsafe { cells.add(index as usize) };
        // SAFETY: B3: cells are initialised in `new` and live as long as the block.
        unsafe { cell.as_ref() }
    }

    /// The identity of the block, for comparisons.
    pub(crate) fn as_ptr(&self) -> *const Header<T> {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.header().base
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        // Relaxed: whoever asks has acquired a count of the topic; the entry of each count is in this block if and only if
        // `len`, stored before that count was released, covers it.
        self.header().len.load(Ordering::Relaxed)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.header().capacity
    }

    pub(crate) fn account(&self) -> &Account {
        &self.header().account
    }

    /// Bytes of the block and of what its events weigh beyond it.
    pub(crate) fn weighed(&self) -> u64 {
        Self::bytes(self.capacity()) + self.weight()
    }

    /// Bytes that its events weigh beyond the block itself.
    pub(crate) fn weight(&self) -> u64 {
        self.header().weight.get()
    }

    /// When its oldest and newest entries were appended.
    pub(crate) fn ages(&self) -> (u64, u64) {
        (self.header().oldest, self.header().newest.get())
    }

    /// Whether a next block was linked and not cut off.
    pub(crate) fn is_linked(&self) -> bool {
        // Acquire (pairs with `link`): the entries of this block were counted before, and its length is final.
        !self.header().next.load(Ordering::Acquire).is_null()
    }

    /// Writes the next entry, which has this index.
    ///
    /// # Safety
    /// The caller is the topic's writer, is inside (BUSY), and the block is its tail; or nobody else has the block yet. It is not full,
    /// and `index` is its length.
    #[inline]
    pub(crate) unsafe fn write(&self, index: u32, seq: u64, event: Option<T>, weight: u64, stamp: u64) {
        let header = self.header();
        let tagged = if event.is_none() { seq | MARK } else { seq };
        let entry = Entry { tagged, event: event.map_or_else(MaybeUninit::uninit, MaybeUninit::new) };
        self.cell(index).with_mut(|cell| {
            // SAFETY: B1 and B2: an entry at `len` is not counted yet, so nobody reads it, and this is the one writer.
            unsafe { (*cell).write(entry) };
        });
        // Relaxed: read on the strength of the topic's count, which is released after this.
        header.len.store(index + 1, Ordering::Relaxed);
        if weight != 0 {
            header.weight.set(header.weight.get() + weight);
        }
        if stamp != 0 {
            header.newest.set(stamp);
        }
    }

    /// Takes the last entry out again: the topic died before it was counted.
    ///
    /// # Safety
    /// As for `write`, which was the last thing done here, with an event, and whose entry was not counted.
    pub(crate) unsafe fn take_back(&self, weight: u64) -> T {
        let header = self.header();
        // Relaxed: only the writer stores here, and this is the writer.
        let index = header.len.load(Ordering::Relaxed) - 1;
        // Relaxed: only the writer stores here; the count never reaches this entry, since a dead topic's count is final (B6).
        header.len.store(index, Ordering::Relaxed);
        if weight != 0 {
            header.weight.set(header.weight.get() - weight);
        }
        self.cell(index).with_mut(|cell| {
            // SAFETY: B1: written by the call before this one, not counted, hence not read by anybody.
            let entry = unsafe { cell.cast::<Entry<T>>().read() };
            // SAFETY: B1: it is written, and by the contract of this function with an event.
            unsafe { entry.event.assume_init() }
        })
    }

    /// The entry at `index`.
    ///
    /// # Safety
    /// The caller has acquired a count of the topic that covers the entry.
    #[inline]
    pub(crate) unsafe fn entry(&self, index: u32) -> &Entry<T> {
        self.cell(index).with(|cell| {
            // SAFETY: B1: counted entries are written, and never again until the last reference is gone.
            unsafe { &*cell.cast::<Entry<T>>() }
        })
    }

    /// Links the next block.
    ///
    /// # Safety
    /// The caller is the topic's writer, is inside (BUSY), and this block is its tail.
    pub(crate) unsafe fn link(&self, next: Self) {
        let next = next.into_raw();
        // Release (pairs with `hop`): the next block is made before it is found.
        self.header().next.store(next, Ordering::Release);
    }

    /// A reader follows the link. `None`: there is none yet, or it was cut. Wait-free; two read-modify-writes and one more for the
    /// new reference.
    pub(crate) fn hop(&self) -> Option<Self> {
        let header = self.header();
        let mut found = None;
        // Relaxed: the one order of changes to the gate tells. If SEVERED was set before, we stay away from the link; if it is set after,
        // its setter sees us inside and leaves the cutting to the last one out.
        if header.gate.fetch_add(1, Ordering::Relaxed) & SEVERED == 0 {
            // Acquire (pairs with `link`): the next block's header is visible. (It is anyway to who has acquired a count beyond this
            // block, as readers have; but nobody is to rely on that.)
            let next = header.next.load(Ordering::Acquire);
            header.link.used();
            // B5: the link owns a reference until it is cut, and it is not cut while we are inside the gate.
            found = NonNull::new(next).map(Self::another);
        }
        // AcqRel (pairs with `sever` and with itself): our new reference, and those of all who were inside, are counted before the link's
        // may be dropped; by us, if we are the last one out.
        if header.gate.fetch_sub(1, Ordering::AcqRel) == SEVERED + 1 {
            drop(self.take_link());
        }
        found
    }

    /// Cuts the link, so that a reader sleeping here pins this block alone; the answer is the next block. Called once per block, by
    /// whoever has the chain's ends locked or the chain for itself, and has acquired the link (B5).
    pub(crate) fn sever(&self) -> Option<Self> {
        let header = self.header();
        // Nobody inside: we go in and stay there for good, so that nobody who comes later is the last one out, and the link is ours.
        // Acquire (pairs with `hop`): the references made by those who were inside are counted before the link's may be dropped. Failure
        // Relaxed: nothing is read on the strength of it.
        if header.gate.compare_exchange(0, SEVERED + 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return self.take_link();
        }
        // Relaxed: only this thread severs here, and once.
        debug_assert!(header.gate.load(Ordering::Relaxed) & SEVERED == 0, "a block is severed once");
        // A reader is just following the link, and may be the one to cut it; until SEVERED shows, nobody cuts.
        // Relaxed: the link was acquired by the caller (B5).
        let next = NonNull::new(header.next.load(Ordering::Relaxed)).map(Self::another);
        header.link.used();
        // AcqRel (pairs with `hop`): our new reference, and those of all who were inside, are counted before the link's may be dropped.
        if header.gate.fetch_or(SEVERED, Ordering::AcqRel) == 0 {
            drop(self.take_link());
        }
        next
    }

    /// Two may come here (the severing thread sees a reader go out before SEVERED shows; later another one goes in, finds SEVERED and
    /// is the last one out); the swap lets one of them have the link.
    fn take_link(&self) -> Option<Self> {
        let header = self.header();
        // Relaxed: who severs has acquired the link (B5), the last one out has acquired the severing.
        let next = NonNull::new(header.next.swap(ptr::null_mut(), Ordering::Relaxed))?;
        header.link.ended();
        Some(Self(next))
    }

    /// Makes `n` more references at once; each is taken over by `use_credit`.
    #[inline]
    pub(crate) fn add_credits(&self, n: usize) {
        let header = self.header();
        // Relaxed: a new reference is made from an old one, which keeps the block alive.
        let before = header.refs.fetch_add(n, Ordering::Relaxed);
        // A count that wraps would free a block in use; nothing short of leaking on purpose comes near.
        if before > usize::MAX / 2 {
            std::process::abort();
        }
    }

    /// Takes over one of the references made by `add_credits`.
    ///
    /// # Safety
    /// At least one such reference is not taken over yet, and is from now on accounted to the result.
    #[inline]
    pub(crate) unsafe fn use_credit(&self) -> Self {
        Self(self.0)
    }

    /// Gives back `n` references made by `add_credits` that nobody took over. `self` is still one, so the count stays above zero.
    ///
    /// # Safety
    /// There are `n` of them.
    pub(crate) unsafe fn return_credits(&self, n: usize) {
        if n != 0 {
            // Relaxed: what was done with the block is released by the end of the reference that `self` is, which comes later.
            self.header().refs.fetch_sub(n, Ordering::Relaxed);
        }
    }

    #[inline]
    fn another(block: NonNull<Header<T>>) -> Self {
        // A bitwise stand-in for the reference that somebody else owns: never dropped.
        let other = std::mem::ManuallyDrop::new(Self(block));
        other.add_credits(1);
        Self(block)
    }

    pub(crate) fn into_raw(self) -> *mut Header<T> {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// # Safety
    /// `block` came from `into_raw`, and is taken over once.
    pub(crate) unsafe fn from_raw(block: NonNull<Header<T>>) -> Self {
        Self(block)
    }

    /// A view of a block that somebody else keeps alive.
    ///
    /// # Safety
    /// The block outlives the result, which must not be dropped as a reference (hence `ManuallyDrop`).
    pub(crate) unsafe fn borrow_raw(block: NonNull<Header<T>>) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self(block))
    }

    /// Takes a chain that nobody follows any more apart, block by block, `limit` blocks at most; what is left comes back. Each link is
    /// cut: a block that somebody still holds must not keep those behind it.
    pub(crate) fn take_apart(self, limit: usize) -> Option<Self> {
        let mut current = Some(self);
        for _ in 0..limit {
            let Some(block) = current.take() else { break };
            let mut rest = Rest(block.sever());
            // Should a payload's drop unwind, the rest still goes.
            drop(block);
            current = rest.0.take();
        }
        current
    }

    /// Drops this reference and, where it was the last, the block, and so on along the chain. A loop, not a recursion: a chain may
    /// hold a million blocks.
    fn release(block: NonNull<Header<T>>) {
        let mut current = Some(block);
        while let Some(block) = current.take() {
            // SAFETY: B3: our reference keeps it until the next line.
            let header = unsafe { block.as_ref() };
            // Release (pairs with the load below): our reads of the block come before its end.
            if header.refs.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // Acquire (pairs with the Release of every other drop): all of them are done with the block.
            header.refs.load(Ordering::Acquire);
            // SAFETY: B3: the last reference is gone, and it was ours.
            let view = unsafe { Self::borrow_raw(block) };
            // Should a payload's drop unwind, the rest of the chain still goes.
            let mut rest = Rest(view.take_link());
            // SAFETY: B3: the last reference is gone, and it was ours.
            unsafe { Self::destroy(block) };
            current = rest.0.take().map(|rest| std::mem::ManuallyDrop::new(rest).0);
        }
    }

    /// # Safety
    /// No reference is left.
    unsafe fn destroy(block: NonNull<Header<T>>) {
        let whole = Whole(block);
        // SAFETY: B3: no reference is left, so the block is ours until `whole` frees it, which is later than `view`'s last use.
        let view = unsafe { Self::borrow_raw(block) };
        let len = if std::mem::needs_drop::<T>() { view.len() } else { 0 };
        let mut entries = Entries { block: &view, index: 0, len };
        while entries.drop_next() {}
        drop(entries);
        drop(whole);
    }
}

/// What is left of a chain while one of its blocks is dropped.
struct Rest<T>(Option<BlockRef<T>>);

/// The memory of a block without references: given back also when a payload's drop unwinds.
struct Whole<T>(NonNull<Header<T>>);

impl<T> Drop for Whole<T> {
    fn drop(&mut self) {
        // SAFETY: B3: made in `destroy`: no reference is left, so the block is ours until the last line.
        let header = unsafe { self.0.as_ref() };
        let capacity = header.capacity;
        // SAFETY: B3: no reference is left, so the block is ours until the last line.
        let view = unsafe { BlockRef::borrow_raw(self.0) };
        header.account.free(view.weighed());
        header.memory.ended();
        let (layout, _) = BlockRef::<T>::layout(capacity);
        // SAFETY: B3: no reference is left, and this runs once. The cells need no drop of their own.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: B3: nobody has the block any more; it was allocated in `new` with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// The entries of a block without references, dropped one by one; one that panics does not keep the others.
struct Entries<'a, T> {
    block: &'a BlockRef<T>,
    index: u32,
    len: u32,
}

impl<T> Entries<'_, T> {
    fn drop_next(&mut self) -> bool {
        if self.index == self.len {
            return false;
        }
        let index = self.index;
        self.index += 1;
        self.block.cell(index).with_mut(|cell| {
            // SAFETY: B1 and B3: entries below `len` are written, and no reference to the block is left.
            let entry = unsafe { &mut *cell.cast::<Entry<T>>() };
            if !entry.is_mark() {
                // SAFETY: B1: not a mark, so written with an event; dropped once, since `index` has moved on.
                unsafe { entry.event.assume_init_drop() };
            }
        });
        true
    }
}

impl<T> Drop for Entries<'_, T> {
    fn drop(&mut self) {
        while self.drop_next() {}
    }
}

impl<T> Clone for BlockRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self::another(self.0)
    }
}

impl<T> Drop for BlockRef<T> {
    #[inline]
    fn drop(&mut self) {
        Self::release(self.0);
    }
}

impl<T> fmt::Debug for BlockRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockRef").field("base", &self.base()).field("len", &self.len()).finish()
    }
}
