//! The one door to atomics, locks, cells and reference counts: the real ones; loom's under `cfg(keywake_loom)`; or real ones that note
//! which cache lines they touch, under `cfg(keywake_count)`.
//!
//! Everything that takes part in a protocol comes from here, so that the models in `loom_tests` see the very code that runs in
//! production, and `tests/counted.rs` sees all of it that threads share. Nothing else in the crate names `std::sync`,
//! `std::cell::UnsafeCell`, `parking_lot` or `loom`.

#[cfg(all(keywake_loom, keywake_count))]
compile_error!("a model or a counting build, not both");

/// Shares a value whose sharing is no part of any protocol (an error, a thread's waker); it must be the real one, since it
/// shows in the public interface or crosses into `std::task`.
pub(crate) use std::sync::Arc as PlainArc;
/// Holds a value that is set at most once and is no part of any protocol.
pub(crate) use std::sync::OnceLock as PlainOnce;

pub(crate) use number::unique_number;
/// Not modelled: it is no part of any protocol.
mod number {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);

    /// A number that nobody else in the process was given.
    pub(crate) fn unique_number() -> u64 {
        // Relaxed: whoever comes, each has his own.
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// A value on cache lines of its own: two, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T> Padded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value that does not change any more once it is shared: to read it is a plain load, which the counting build counts.
#[derive(Debug, Default)]
pub(crate) struct Fixed<T>(T);

impl<T> Fixed<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for Fixed<T> {
    type Target = T;

    #[inline]
    #[cfg_attr(keywake_count, track_caller)]
    fn deref(&self) -> &T {
        #[cfg(keywake_count)]
        counting::note(counting::Access::Fixed, std::ptr::from_ref(self).addr(), size_of::<T>());
        &self.0
    }
}

#[expect(unsafe_code, reason = "what is counted is shared without a lock, and freed by the last")]
mod arc;
#[cfg(not(keywake_loom))]
pub(crate) use arc::Arc;
#[cfg(keywake_loom)]
pub use arc::ModelledArc;

#[cfg(keywake_count)]
#[expect(unsafe_code, reason = "the address of a mutex's lock")]
#[expect(dead_code, reason = "the interface of the real ones; not everything is in use")]
mod counted;
#[cfg(keywake_count)]
pub mod counting;
#[cfg(keywake_count)]
pub(crate) use counted::*;

#[cfg(not(any(keywake_loom, keywake_count)))]
pub(crate) use real::*;
#[cfg(not(any(keywake_loom, keywake_count)))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Hands out a pointer for reading; what makes that sound is for the caller to say.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Hands out a pointer for writing; what makes that sound is for the caller to say.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// What is the same with or without the notes.
#[cfg(not(keywake_loom))]
pub(crate) use unmodelled::*;
#[cfg(not(keywake_loom))]
mod unmodelled {
    use super::AtomicU64;

    /// How a thread blocks and is woken.
    pub(crate) mod thread {
        pub(crate) use std::thread::{Thread, current, park, park_timeout};
    }

    /// Reads what nobody else can reach any more. A model checks that all that others did with it came before.
    pub(crate) fn read_exclusively(atomic: &mut AtomicU64) -> u64 {
        *atomic.get_mut()
    }

    /// Stands, for the models, for plain memory or a reference whose use a protocol orders. Nothing in the real build.
    #[derive(Debug)]
    pub(crate) struct Witness;

    impl Witness {
        pub(crate) fn new() -> Self {
            Self
        }

        /// What this stands for is used; many may do so at once.
        #[inline(always)]
        pub(crate) fn used(&self) {}

        /// What this stands for ends: every use has happened before.
        #[inline(always)]
        pub(crate) fn ended(&self) {}
    }
}

#[cfg(keywake_loom)]
pub(crate) use model::*;
#[cfg(keywake_loom)]
mod model {
    pub(crate) use loom::{
        cell::UnsafeCell,
        sync::{
            Arc, MutexGuard,
            atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        },
    };

    /// How a thread blocks and is woken. loom has no time: a wait with a limit ends by a wake only, or was over before it began.
    pub(crate) mod thread {
        pub(crate) use loom::thread::{Thread, current, park};

        pub(crate) fn park_timeout(_: std::time::Duration) {
            park();
        }
    }

    pub(crate) fn read_exclusively(atomic: &mut AtomicU64) -> u64 {
        atomic.with_mut(|value| *value)
    }

    /// A cell with nothing in it, for loom to see that all uses come after its making and before its end.
    #[derive(Debug)]
    pub(crate) struct Witness(UnsafeCell<()>);

    impl Witness {
        pub(crate) fn new() -> Self {
            Self(UnsafeCell::new(()))
        }

        pub(crate) fn used(&self) {
            self.0.with(|_| ());
        }

        pub(crate) fn ended(&self) {
            self.0.with_mut(|_| ());
        }
    }

    /// loom's mutex with parking_lot's interface: a panic in a model fails the model, so poison has nothing to tell.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

pub(crate) use tally::{Stamp, Tally};
mod tally {
    #[cfg(not(keywake_count))]
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[cfg(keywake_count)]
    use super::{AtomicU32, AtomicU64, Ordering};

    /// A count of the past, cut to 32 bits; as a `Tally` no part of any protocol.
    #[derive(Debug, Default)]
    pub(crate) struct Stamp(AtomicU32);

    #[expect(clippy::cast_possible_truncation, reason = "arithmetic modulo 2^32")]
    impl Stamp {
        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn set(&self, count: u64) {
            // Relaxed: it orders nothing, and the last of several stays.
            self.0.store(count as u32, Ordering::Relaxed);
        }

        /// How long ago it is at `count`; 0 for one to come.
        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn until(&self, count: u64) -> u64 {
            // Relaxed: it orders nothing.
            let ago = (count as u32).wrapping_sub(self.0.load(Ordering::Relaxed));
            if ago > u32::MAX / 2 { 0 } else { u64::from(ago) }
        }
    }

    /// A number that is read for its own sake: a statistic, a coarse stamp. No protocol rests on it, so it is the real atomic in
    /// models too, where it would only multiply the interleavings.
    #[derive(Debug, Default)]
    pub(crate) struct Tally(AtomicU64);

    impl Tally {
        pub(crate) const fn new(value: u64) -> Self {
            Self(AtomicU64::new(value))
        }

        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn get(&self) -> u64 {
            // Relaxed: a tally orders nothing.
            self.0.load(Ordering::Relaxed)
        }

        /// Adds; the answer is the value before.
        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn add(&self, n: u64) -> u64 {
            // Relaxed: additions of several threads all count; they order nothing.
            self.0.fetch_add(n, Ordering::Relaxed)
        }

        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn sub(&self, n: u64) {
            // Relaxed: subtractions of several threads all count; they order nothing.
            self.0.fetch_sub(n, Ordering::Relaxed);
        }

        /// For a tally that one thread at a time changes: a plain store is cheaper than a read-modify-write.
        #[inline]
        #[cfg_attr(keywake_count, track_caller)]
        pub(crate) fn set(&self, value: u64) {
            // Relaxed: one thread at a time stores.
            self.0.store(value, Ordering::Relaxed);
        }
    }
}
