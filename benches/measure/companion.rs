//! A second thread that works while the first one measures, and sleeps otherwise.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

/// The second thread.
pub(crate) struct Companion {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// What both threads look at.
struct Desk {
    /// `SLEEP`, `END`, or what to work on.
    order: AtomicU8,
    /// Pieces of work done.
    done: AtomicU64,
}

const SLEEP: u8 = u8::MAX;
const END: u8 = u8::MAX - 1;

impl Companion {
    /// `work` does one piece of what it is told to work on.
    pub(crate) fn new(mut work: impl FnMut(u8) + Send + 'static) -> Self {
        let desk = Arc::new(Desk { order: AtomicU8::new(SLEEP), done: AtomicU64::new(0) });
        let thread = thread::spawn({
            let desk = Arc::clone(&desk);
            move || loop {
                // Acquire (pairs with `give`): what the other thread did before the order is seen by the work.
                match desk.order.load(Ordering::Acquire) {
                    SLEEP => thread::park(),
                    END => return,
                    order => {
                        work(order);
                        // Relaxed: a count that is only shown and waited for.
                        desk.done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { desk, thread: Some(thread) }
    }

    /// Runs `measured` while the thread works on `order`; gives also how many pieces it did meanwhile.
    pub(crate) fn during<R>(&self, order: u8, measured: impl FnOnce() -> R) -> (R, u64) {
        let before = self.done();
        self.give(order);
        // It has begun, and its caches are warm.
        self.wait_for(before + 1_000);
        let begin = self.done();
        let result = measured();
        let done = self.done() - begin;
        self.give(SLEEP);
        (result, done)
    }

    fn give(&self, order: u8) {
        // Release (pairs with the thread's load): see there.
        self.desk.order.store(order, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn done(&self) -> u64 {
        // Relaxed: a count that is only shown and waited for.
        self.desk.done.load(Ordering::Relaxed)
    }

    fn wait_for(&self, done: u64) {
        while self.done() < done {
            assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the second thread is gone");
            thread::yield_now();
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.give(END);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || thread::panicking(), "the second thread panicked");
        }
    }
}
