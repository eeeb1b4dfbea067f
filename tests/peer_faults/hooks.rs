//! A waker that runs test code whenever it is cloned, woken or dropped.

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    sync::Arc,
    task::{RawWaker, RawWakerVTable, Waker},
};

/// What just happens to the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Clone,
    Drop,
    Wake,
}

type Hook = Box<dyn Fn(Moment) + Send + Sync>;

thread_local! {
    /// The hook runs on this thread: what it does to wakers in turn is not told to it again.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn run(hook: &Hook, moment: Moment) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }

    if !INSIDE.replace(true) {
        let _leave = Leave;
        hook(moment);
    }
}

/// A waker that calls `hook` at every clone, wake and drop, before it does what it was asked for.
pub(crate) fn hooked_waker(hook: impl Fn(Moment) + Send + Sync + 'static) -> Waker {
    let hook: Arc<Hook> = Arc::new(Box::new(hook));
    // SAFETY: the functions of `VTABLE` take the pointer for what `Arc::<Hook>::into_raw` gave, with one count per waker;
    // `Hook` is `Send + Sync`.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(hook).cast(), &VTABLE)) }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// The hook behind a waker, without taking over the waker's count.
unsafe fn borrowed(data: *const ()) -> ManuallyDrop<Arc<Hook>> {
    // SAFETY: the caller passes the data of a living waker of this file, and `ManuallyDrop` leaves the count to it.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: called by `Waker` with the data of a living waker.
    let hook = unsafe { borrowed(data) };
    run(&hook, Moment::Clone);
    RawWaker::new(Arc::into_raw(Arc::clone(&hook)).cast(), &VTABLE)
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: called by `Waker` with the data of a living waker.
    let hook = unsafe { borrowed(data) };
    run(&hook, Moment::Wake);
}

unsafe fn wake(data: *const ()) {
    // SAFETY: called by `Waker` with the data of a living waker, and it ends here.
    let hook: Arc<Hook> = unsafe { Arc::from_raw(data.cast()) };
    run(&hook, Moment::Wake);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: called by `Waker` with the data of a living waker, and it ends here.
    let hook: Arc<Hook> = unsafe { Arc::from_raw(data.cast()) };
    run(&hook, Moment::Drop);
}
