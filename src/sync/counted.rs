//! The real atomics, locks and cells, each access of which is noted in `counting.rs`.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    ptr,
    sync::atomic,
};

pub(crate) use std::sync::atomic::Ordering;

use super::counting::{Access, note};

/// Makes an atomic out of the real one.
macro_rules! counted {
    ($name:ident $(<$t:ident>)?, $real:ty, $value:ty) => {
        pub(crate) struct $name $(<$t>)? ($real);

        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(<$real>::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.note(Access::Load);
                self.0.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.note(Access::Store);
                self.0.store(value, order);
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.note(Access::Rmw);
                self.0.swap(value, order)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.note(Access::Rmw);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.note(Access::Rmw);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Nobody else can reach it: not noted.
            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            #[track_caller]
            fn note(&self, access: Access) {
                note(access, ptr::from_ref(self).addr(), size_of::<Self>());
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// What numbers have beyond that.
macro_rules! counted_number {
    ($name:ident, $value:ty, $($operation:ident),+) => {
        counted!($name, atomic::$name, $value);

        impl $name {
            $(
                #[track_caller]
                pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                    self.note(Access::Rmw);
                    self.0.$operation(value, order)
                }
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }
    };
}

counted_number!(AtomicU32, u32, fetch_add, fetch_and, fetch_max, fetch_min, fetch_or, fetch_sub, fetch_xor);
counted_number!(AtomicU64, u64, fetch_add, fetch_and, fetch_max, fetch_min, fetch_or, fetch_sub, fetch_xor);
counted_number!(AtomicUsize, usize, fetch_add, fetch_and, fetch_max, fetch_min, fetch_or, fetch_sub, fetch_xor);
counted!(AtomicPtr<T>, atomic::AtomicPtr<T>, *mut T);

/// The real mutex. Its holder is taken to read, or to write, all that it guards when it looks at it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.note();
        MutexGuard { mutex: self, guard: self.0.lock() }
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.note();
        self.0.try_lock().map(|guard| MutexGuard { mutex: self, guard })
    }

    #[track_caller]
    fn note(&self) {
        // SAFETY: only its address is looked at; it is not unlocked.
        let raw = unsafe { self.0.raw() };
        note(Access::Rmw, ptr::from_ref(raw).addr(), size_of_val(raw));
    }
}

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: parking_lot::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[track_caller]
    fn deref(&self) -> &T {
        note(Access::Load, ptr::from_ref(&*self.guard).addr(), size_of::<T>());
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        note(Access::Store, ptr::from_ref(&*self.guard).addr(), size_of::<T>());
        &mut self.guard
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.note();
    }
}

/// `std::cell::UnsafeCell` with loom's interface. Whoever gets the pointer is taken to read, or to write, all of it.
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[track_caller]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        note(Access::Load, self.0.get().addr(), size_of::<T>());
        f(self.0.get())
    }

    #[track_caller]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        note(Access::Store, self.0.get().addr(), size_of::<T>());
        f(self.0.get())
    }
}
