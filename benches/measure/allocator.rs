//! The system's allocator, counting the bytes that are asked for and not yet given back.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
};

/// Counts while [`while_counting`] runs, on all threads; otherwise it looks at one flag and hands on.
pub(crate) struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// What `make` made, and the bytes it asked the allocator for and has kept. What the allocator itself adds (headers, size
/// classes) is not in it.
pub(crate) fn live_bytes<R>(make: impl FnOnce() -> R) -> (R, usize) {
    let (made, live) = while_counting(make);
    (made, usize::try_from(live).expect("more is kept than was freed"))
}

/// What `make` made, with every [`live_so_far`] in it, and the last of these.
pub(crate) fn while_counting<R>(make: impl FnOnce() -> R) -> (R, isize) {
    // Relaxed: a count of what this thread does.
    LIVE.store(0, Ordering::Relaxed);
    // Relaxed: as above.
    COUNTS.store(true, Ordering::Relaxed);
    let made = make();
    // Relaxed: as above.
    COUNTS.store(false, Ordering::Relaxed);
    (made, live_so_far())
}

/// Within [`while_counting`]: bytes kept until now.
pub(crate) fn live_so_far() -> isize {
    // Relaxed: a count of what this thread does.
    LIVE.load(Ordering::Relaxed)
}

fn count(taken: usize, given_back: usize) {
    // Relaxed: a count.
    if COUNTS.load(Ordering::Relaxed) {
        // Relaxed: a count.
        let signed = |bytes: usize| isize::try_from(bytes).unwrap_or(isize::MAX);
        LIVE.fetch_add(signed(taken) - signed(given_back), Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments on to `System` unchanged and gives back what that gave; counting neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller promises that `layout` has a size above 0.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller promises that `layout` has a size above 0.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller promises that `block` is from this allocator, that is from `System`, with this `layout`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: the caller promises that `block` is from this allocator, that is from `System`, with this `layout`, and
        // that `new_size` is above 0 and does not overflow when rounded up to the alignment.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
