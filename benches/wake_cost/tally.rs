//! Where tasks and threads that were woken count themselves; the last one notes the time.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// On a line that others' writes do not take away.
#[repr(align(128))]
struct OwnLine<T>(T);

/// See the module.
pub(crate) struct Tally {
    arrivals: OwnLine<Arrivals>,
    /// When the last one came, in ns from `base`; 0: it has not. The writer that spins looks at it, so it is not on the line of
    /// the count.
    last: OwnLine<AtomicU64>,
    base: Instant,
    outside: Thread,
    outside_sleeps: AtomicBool,
    inside: Notify,
}

struct Arrivals {
    arrived: AtomicUsize,
    expected: AtomicUsize,
}

impl Tally {
    pub(crate) fn new(outside_sleeps: bool) -> Self {
        Self {
            arrivals: OwnLine(Arrivals { arrived: AtomicUsize::new(0), expected: AtomicUsize::new(0) }),
            last: OwnLine(AtomicU64::new(0)),
            base: Instant::now(),
            outside: thread::current(),
            outside_sleeps: AtomicBool::new(outside_sleeps),
            inside: Notify::new(),
        }
    }

    /// Begins a round in which `tasks` will come.
    pub(crate) fn expect(&self, tasks: usize) {
        // Relaxed: nobody arrives between two rounds, and the publish that follows orders this before the arrivals.
        self.last.0.store(0, Ordering::Relaxed);
        // Relaxed: as above.
        self.arrivals.0.expected.store(tasks, Ordering::Relaxed);
        // Relaxed: as above.
        self.arrivals.0.arrived.store(0, Ordering::Relaxed);
    }

    pub(crate) fn arrive(&self) {
        // Relaxed: only the sum matters.
        let arrived = self.arrivals.0.arrived.fetch_add(1, Ordering::Relaxed) + 1;
        // Relaxed: see `expect`.
        if arrived == self.arrivals.0.expected.load(Ordering::Relaxed) {
            let nanos = u64::try_from(self.base.elapsed().as_nanos()).expect("centuries");
            // Release (pairs with `came`): what the last one did is seen by who waited for it.
            self.last.0.store(nanos.max(1), Ordering::Release);
            self.inside.notify_one();
            // Relaxed: never changed while tasks run.
            if self.outside_sleeps.load(Ordering::Relaxed) {
                self.outside.unpark();
            }
        }
    }

    /// When the last one came, if it has.
    fn came(&self) -> Option<Instant> {
        // Acquire (pairs with `arrive`): see there.
        let nanos = self.last.0.load(Ordering::Acquire);
        (nanos > 0).then(|| self.base + Duration::from_nanos(nanos))
    }

    /// Waits until the last one has come, and gives the time of that.
    pub(crate) fn wait(&self) -> Instant {
        // Relaxed: never changed while tasks run.
        let sleeps = self.outside_sleeps.load(Ordering::Relaxed);
        let give_up = Instant::now() + Duration::from_secs(30);
        for round in 0_u64.. {
            if let Some(last) = self.came() {
                return last;
            }
            if sleeps {
                thread::park_timeout(Duration::from_secs(1));
            } else {
                spin_loop();
            }
            assert!(!(sleeps || round % 1_024 == 0) || Instant::now() < give_up, "a reader was not woken, or panicked");
        }
        unreachable!("rounds do not run out")
    }

    /// The same for a task.
    pub(crate) async fn wait_inside(&self) -> Instant {
        loop {
            if let Some(last) = self.came() {
                return last;
            }
            self.inside.notified().await;
        }
    }
}
