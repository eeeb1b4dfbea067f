//! A reference count without weak references: there are none in this crate, and there is a count in every topic.

use std::{
    fmt,
    mem::{ManuallyDrop, offset_of},
    ops::Deref,
    ptr,
    ptr::NonNull,
};

use super::{AtomicUsize, Ordering};

/// `std::sync::Arc` but for its count of weak references: eight bytes and one read-modify-write less.
///
/// * **A1** What is counted lives until the count falls to zero. Each `Arc` stands for one of the count; a new one is made from an old
///   one, so whoever takes the count to zero is the last.
pub(crate) struct Arc<T>(NonNull<Counted<T>>);

struct Counted<T> {
    count: AtomicUsize,
    value: T,
}

// SAFETY: A1: it gives out `&T` wherever it is (hence `Sync`), and the last one drops the value where it is (hence `Send`).
unsafe impl<T: Send + Sync> Send for Arc<T> {}
// SAFETY: A1: `&Arc` gives `&T`, and a further `Arc`.
unsafe impl<T: Send + Sync> Sync for Arc<T> {}

// The value stays where it is, whatever becomes of the pointer.
impl<T> Unpin for Arc<T> {}

#[cfg_attr(keywake_loom, expect(dead_code, reason = "its model needs no more than a count"))]
impl<T> Arc<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(Counted { count: AtomicUsize::new(1), value }))))
    }

    pub(crate) fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.0 == other.0
    }

    pub(crate) fn as_ptr(this: &Self) -> *const T {
        ptr::from_ref(&**this)
    }

    /// What it stands for, to be given back to `from_raw`.
    pub(crate) fn into_raw(this: Self) -> *const T {
        let this = ManuallyDrop::new(this);
        // SAFETY: A1: we stand for one of the count. (Not by a reference to the value: `from_raw` needs what is counted.)
        unsafe { &raw const (*this.0.as_ptr()).value }
    }

    /// The reverse of `into_raw`.
    ///
    /// # Safety
    /// `value` comes from there, and is given back once.
    pub(crate) unsafe fn from_raw(value: *const T) -> Self {
        // SAFETY: by the contract of this function the value is that of a `Counted`.
        let counted = unsafe { value.byte_sub(offset_of!(Counted<T>, value)) };
        // SAFETY: it comes from a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(counted.cast_mut().cast()) })
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: A1: we stand for one of the count.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    /// The count has fallen to zero, and this is called once.
    #[cold]
    unsafe fn drop_counted(counted: NonNull<Counted<T>>) {
        // SAFETY: A1: made by `Box::leak` in `new`, and nobody else is left.
        drop(unsafe { Box::from_raw(counted.as_ptr()) });
    }
}

impl<T> Clone for Arc<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: a new reference is made from an old one, which keeps the value alive.
        let before = self.counted().count.fetch_add(1, Ordering::Relaxed);
        // A count that wraps would free a value in use; nothing short of leaking on purpose comes near.
        if before > usize::MAX / 2 {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Arc<T> {
    #[inline]
    fn drop(&mut self) {
        // Release (pairs with the load below): our use of the value comes before its end.
        if self.counted().count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire (pairs with the Release of every other drop): all of them are done with the value.
        self.counted().count.load(Ordering::Acquire);
        // SAFETY: A1: ours was the last.
        unsafe { Self::drop_counted(self.0) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What `loom_tests/tests/last_reference.rs` models. Elsewhere in models the count is loom's own, which finds leaks and takes fewer
/// steps.
#[cfg(keywake_loom)]
#[derive(Debug)]
pub struct ModelledArc<T>(Arc<T>);

#[cfg(keywake_loom)]
impl<T> ModelledArc<T> {
    /// The first reference.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

#[cfg(keywake_loom)]
impl<T> Clone for ModelledArc<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(keywake_loom)]
impl<T> Deref for ModelledArc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
