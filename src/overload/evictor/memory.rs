//! Who was evicted lately, so that one client is not chased from instance to instance.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// The most identities that are remembered; the one whose last eviction is longest ago is forgotten first.
const MOST: usize = 65_536;

/// See the module. Times are those of the evictor's own clock.
#[derive(Debug, Default)]
pub(super) struct Memory {
    past: HashMap<u64, Past>,
    /// All of `past`, by when it was last: a round may be of more than are remembered.
    by_age: BTreeSet<(Duration, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Past {
    last: Duration,
    times: u32,
}

/// What a client brings along of its evictions elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brought {
    pub(super) times: u32,
    pub(super) last: Option<Instant>,
}

impl Memory {
    pub(super) fn remember(&mut self, identity: u64, brought: Brought, time: Duration, cool_off: Duration) {
        if cool_off.is_zero() {
            return;
        }
        let times = self.times(Some(identity), brought).saturating_add(1);
        if let Some(before) = self.past.insert(identity, Past { last: time, times }) {
            self.by_age.remove(&(before.last, identity));
        }
        self.by_age.insert((time, identity));
        if self.past.len() > MOST {
            self.by_age.pop_first().and_then(|(_, oldest)| self.past.remove(&oldest));
        }
    }

    /// Whether it was evicted, here or elsewhere, less than `cool_off` ago. A time that lies ahead counts as now.
    pub(super) fn cools(
        &self,
        identity: Option<u64>,
        brought: Brought,
        time: Duration,
        now: Instant,
        cool_off: Duration,
    ) -> bool {
        let here = identity.and_then(|identity| self.past.get(&identity)).map(|past| time.saturating_sub(past.last));
        let elsewhere = brought.last.map(|last| now.saturating_duration_since(last));
        here.is_some_and(|since| since < cool_off) || elsewhere.is_some_and(|since| since < cool_off)
    }

    /// How often it was evicted, as far as anybody remembers.
    pub(super) fn times(&self, identity: Option<u64>, brought: Brought) -> u32 {
        identity.and_then(|identity| self.past.get(&identity)).map_or(0, |past| past.times).max(brought.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn identity_cools_off_for_exactly_the_time_set() {
        let (mut memory, now, none) = (Memory::default(), Instant::now(), Brought::default());
        memory.remember(7, none, Duration::ZERO, HOUR);
        assert!(memory.cools(Some(7), none, HOUR - Duration::from_nanos(1), now, HOUR));
        assert!(!memory.cools(Some(7), none, HOUR, now, HOUR));
        assert!(!memory.cools(Some(8), none, Duration::ZERO, now, HOUR) && !memory.cools(None, none, Duration::ZERO, now, HOUR));
    }

    #[test]
    fn what_a_client_brings_along_counts_as_much() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let brought = Brought { times: 2, last: Some(now) };
        assert!(memory.cools(None, brought, Duration::ZERO, now, HOUR));
        assert!(!memory.cools(None, brought, Duration::ZERO, now + HOUR, HOUR));
        assert!(
            memory.cools(None, Brought { last: Some(now + 2 * HOUR), ..brought }, Duration::ZERO, now, HOUR),
            "ahead of the clock"
        );
        memory.remember(7, brought, Duration::ZERO, HOUR);
        assert_eq!(memory.times(Some(7), Brought::default()), 3);
        assert_eq!(memory.times(Some(7), Brought { times: 9, last: None }), 9);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let (mut memory, now, none) = (Memory::default(), Instant::now(), Brought::default());
        let cools = |memory: &Memory, identity| memory.cools(Some(identity), none, Duration::ZERO, now, HOUR);
        for identity in 0..MOST as u64 {
            memory.remember(identity, none, Duration::from_millis(identity), HOUR);
        }
        // That one is the newest again.
        memory.remember(0, none, Duration::from_secs(100), HOUR);
        memory.remember(u64::MAX, none, Duration::from_secs(100), HOUR);
        assert_eq!((memory.past.len(), memory.by_age.len()), (MOST, MOST));
        assert_eq!([0, 1, 2, u64::MAX].map(|identity| cools(&memory, identity)), [true, false, true, true]);
        assert_eq!(memory.times(Some(0), none), 2);
        // A round of far more than are remembered takes no time to speak of.
        for identity in 1_000_000..1_000_000 + 4 * MOST as u64 {
            memory.remember(identity, none, 2 * HOUR, HOUR);
        }
        assert_eq!((memory.past.len(), memory.by_age.len()), (MOST, MOST));
    }
}
