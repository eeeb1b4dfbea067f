//! One harness for every file in `tests/`: the same code is a loom model and a stress test.
//!
//! Under `--cfg keywake_loom` [`model`] explores the interleavings of its closure, with at most `LOOM_MAX_PREEMPTIONS` (2) forced
//! switches of threads in each; otherwise it runs it `KEYWAKE_STRESS` (2,000) times on real threads. A model has at most three threads
//! beside its own, makes no blocking call, polls by hand, and judges when all threads are joined. What it counts by atomics of `std`
//! (payloads, runs) costs loom no interleaving and orders nothing.

mod payload;
mod runner;
mod set_sleeper;
mod sleeper;
mod told;

pub use payload::{Payload, Payloads};
pub use runner::Runner;
pub use set_sleeper::SetSleeper;
pub use sleeper::{Alarm, Sleeper};
pub use told::Told;

/// The key of models that need one only.
pub const KEY: u8 = 1;
/// The epoch of every hub here: a run must be like the other.
pub const EPOCH: u64 = 0xe;

/// A hub for models: fixed epoch, everything else by default.
pub fn builder() -> keywake::Builder<u8, Payload> {
    keywake::Builder::new().epoch(EPOCH)
}

/// The same with names for keys, which patterns can be of.
pub fn builder_of_names() -> keywake::Builder<&'static str, Payload> {
    keywake::Builder::new().epoch(EPOCH)
}

/// The position of this number in [`builder`]'s hubs.
#[must_use]
pub fn position(seq: u64) -> keywake::Position {
    keywake::Position::new(EPOCH, seq)
}

#[cfg(keywake_loom)]
pub use explored::{model, model_within, race, race3};
#[cfg(not(keywake_loom))]
pub use stressed::{model, model_within, race, race3};

#[cfg(keywake_loom)]
pub use loom::{sync::atomic, thread::spawn};
#[cfg(not(keywake_loom))]
pub use std::{sync::atomic, thread::spawn};

fn number_from_env(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Tells how long a model took: a model that has grown should be noticed.
#[expect(clippy::print_stderr, reason = "a test's report, shown by --nocapture")]
fn report(runs: usize, what: &str, began: std::time::Instant) {
    let thread = std::thread::current();
    eprintln!("{}: {runs} {what} in {:.1?}", thread.name().unwrap_or("model"), began.elapsed());
}

#[cfg(keywake_loom)]
mod explored {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Instant,
    };

    use loom::thread;

    /// More steps than any of these models takes: only one that does not end has more.
    const MAX_BRANCHES: usize = 100_000;

    /// Explores every interleaving of `f` with at most `LOOM_MAX_PREEMPTIONS` preemptions.
    ///
    /// # Panics
    /// If one of them does.
    pub fn model(f: impl Fn() + Send + Sync + 'static) {
        model_within(usize::MAX, f);
    }

    /// The same with at most `preemptions` of them: for models that are large already then.
    ///
    /// # Panics
    /// If one of the interleavings does.
    pub fn model_within(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
        let began = Instant::now();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(super::number_from_env("LOOM_MAX_PREEMPTIONS", 2).min(preemptions));
        builder.max_branches = MAX_BRANCHES;
        builder.check(move || {
            // Relaxed: a statistic.
            counted.fetch_add(1, Ordering::Relaxed);
            f();
        });
        // Relaxed: a statistic.
        super::report(runs.load(Ordering::Relaxed), "executions", began);
    }

    /// Runs both at once, and waits for both. Each has a thread of its own: which of them begins costs no preemption.
    ///
    /// # Panics
    /// If one of them does.
    pub fn race<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        two: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        let one = thread::spawn(one);
        let two = thread::spawn(two);
        (one.join().expect("the first"), two.join().expect("the second"))
    }

    /// Runs all three at once, and waits for all. As [`race`].
    ///
    /// # Panics
    /// If one of them does.
    pub fn race3<A: Send + 'static, B: Send + 'static, C: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        two: impl FnOnce() -> B + Send + 'static,
        three: impl FnOnce() -> C + Send + 'static,
    ) -> (A, B, C) {
        let one = thread::spawn(one);
        let two = thread::spawn(two);
        let three = thread::spawn(three);
        (one.join().expect("the first"), two.join().expect("the second"), three.join().expect("the third"))
    }
}

#[cfg(not(keywake_loom))]
mod stressed {
    use std::{
        hint,
        sync::{
            Arc,
            atomic::{AtomicU64, AtomicUsize, Ordering},
        },
        thread,
        time::Instant,
    };

    /// Runs `f` very often.
    ///
    /// # Panics
    /// If one of the runs does.
    pub fn model(f: impl Fn() + Send + Sync + 'static) {
        let began = Instant::now();
        let runs = super::number_from_env("KEYWAKE_STRESS", 2_000);
        for _ in 0..runs {
            f();
        }
        super::report(runs, "runs", began);
    }

    /// As [`model`].
    ///
    /// # Panics
    /// If one of the runs does.
    pub fn model_within(_: usize, f: impl Fn() + Send + Sync + 'static) {
        model(f);
    }

    /// Lets threads go at about the same time, each a little earlier or later than in the run before.
    struct Start(AtomicUsize);

    impl Start {
        fn of(threads: usize) -> Arc<Self> {
            Arc::new(Self(AtomicUsize::new(threads)))
        }

        fn spawn<R: Send + 'static>(self: &Arc<Self>, f: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
            let start = Arc::clone(self);
            thread::spawn(move || {
                start.wait();
                f()
            })
        }

        fn wait(&self) {
            static SEED: AtomicU64 = AtomicU64::new(1);
            // Relaxed: any number will do.
            let mut jitter = SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            jitter = (jitter ^ (jitter >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            // AcqRel: nothing rests on it but that all are here.
            self.0.fetch_sub(1, Ordering::AcqRel);
            let mut rounds = 0_u32;
            // Acquire: as above.
            while self.0.load(Ordering::Acquire) != 0 {
                rounds += 1;
                if rounds.is_multiple_of(256) {
                    thread::yield_now();
                }
                hint::spin_loop();
            }
            for _ in 0..jitter >> 56 {
                hint::spin_loop();
            }
        }
    }

    /// Runs both at once, and waits for both.
    ///
    /// # Panics
    /// If one of them does.
    pub fn race<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        two: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        let start = Start::of(2);
        let two = start.spawn(two);
        start.wait();
        (one(), two.join().expect("the second"))
    }

    /// Runs all three at once, and waits for all.
    ///
    /// # Panics
    /// If one of them does.
    pub fn race3<A: Send + 'static, B: Send + 'static, C: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        two: impl FnOnce() -> B + Send + 'static,
        three: impl FnOnce() -> C + Send + 'static,
    ) -> (A, B, C) {
        let start = Start::of(3);
        let two = start.spawn(two);
        let three = start.spawn(three);
        start.wait();
        (one(), two.join().expect("the second"), three.join().expect("the third"))
    }
}
