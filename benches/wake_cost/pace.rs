//! A writer that keeps to a rate.

use std::{
    hint::spin_loop,
    thread,
    time::{Duration, Instant},
};

use crate::measure::{
    clock::thread_cpu,
    words::{rounded, three_digits},
};

/// What the writer did, and what that cost it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paced {
    pub(crate) published: u64,
    pub(crate) took: Duration,
    /// In its calls.
    pub(crate) in_calls: Duration,
    /// Processor time of this thread, its waiting for the time to come included.
    pub(crate) own_cpu: Duration,
    per_second: f64,
}

/// Calls `publish` `per_second` times a second, for `time`, spinning in between. A late one is made up for: the rate counts.
pub(crate) fn keep(per_second: f64, time: Duration, mut publish: impl FnMut()) -> Paced {
    let (start, cpu) = (Instant::now(), thread_cpu());
    let (mut published, mut in_calls) = (0, Duration::ZERO);
    let mut now = Duration::ZERO;
    while now < time {
        if now.as_secs_f64() * per_second >= published as f64 {
            publish();
            published += 1;
            let after = start.elapsed();
            in_calls += after - now;
            now = after;
        } else {
            spin_loop();
            now = start.elapsed();
        }
    }
    Paced { published, took: now, in_calls, own_cpu: thread_cpu() - cpu, per_second }
}

impl Paced {
    /// What there is to say if the rate was not kept.
    pub(crate) fn warning(&self) -> Option<String> {
        let reached = self.published as f64 / self.took.as_secs_f64();
        let short = reached < 0.98 * self.per_second;
        short.then(|| {
            format!(
                "WARNING: the generator is saturated: {} of {} publishes per second ({} per call)",
                rounded(reached),
                rounded(self.per_second),
                three_digits(self.in_calls.as_secs_f64() * 1e9 / self.published as f64),
            )
        })
    }
}

/// Sleeps until then, more or less.
pub(crate) fn sleep_until(then: Instant) {
    if let Some(rest) = then.checked_duration_since(Instant::now()) {
        thread::sleep(rest);
    }
}
