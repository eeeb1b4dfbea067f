//! Who waits for room: in what order, until when, and how he is told.
//!
//! The queue is bounded in length ([`PendingLimits::length`]) and in time ([`PendingLimits::max_wait`], Cloud Run's rule). The first of
//! each identity comes before the second of any; between equals it is first come, first served. Who cannot be let in yet for the sake of
//! his class (the cap on catch-ups) does not stop those behind him.
//!
//! * `queue.rs`: order and deadlines, pure.
//! * `waiting.rs`: the future of one who waits.

mod queue;
mod waiting;

use std::time::Duration;

pub(super) use queue::{Entry, Place, Queue};
pub use waiting::Admitting;

/// How many may wait for room, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLimits {
    /// How many. 0: nobody waits; who finds no room is refused at once. Default 1,024.
    pub length: usize,
    /// How long an instance takes to start, where that is known. Default 0.
    pub start_up: Duration,
}

impl Default for PendingLimits {
    fn default() -> Self {
        Self { length: 1024, start_up: Duration::ZERO }
    }
}

impl PendingLimits {
    /// The shortest limit on waiting.
    const MIN_WAIT: Duration = Duration::from_secs(10);

    /// How long one waits at most: 10 s or 3.5 times the start-up, whichever is longer, as with Cloud Run: within it a further instance can
    /// be there.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Self::MIN_WAIT.max(self.start_up.saturating_mul(7) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_the_longer_of_ten_seconds_and_three_and_a_half_start_ups() {
        let twenty_sevenths = Duration::from_secs(20) / 7;
        let table = [
            (Duration::ZERO, Duration::from_secs(10)),
            (Duration::from_secs(2), Duration::from_secs(10)),
            (twenty_sevenths, Duration::from_secs(10)),
            (Duration::from_secs(4), Duration::from_secs(14)),
            (Duration::from_secs(10), Duration::from_secs(35)),
            (Duration::MAX, Duration::MAX / 2),
        ];
        for (start_up, wait) in table {
            assert_eq!(PendingLimits { start_up, ..PendingLimits::default() }.max_wait(), wait, "{start_up:?}");
        }
    }
}
