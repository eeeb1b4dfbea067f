//! Who was evicted lately, so that one client is not chased from instance to instance.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The most identities that are remembered; the longest-past eviction is forgotten first.
const MOST: usize = 65_536;

/// See the module. Times are those of the evictor's own clock.
#[derive(Debug, Default)]
pub(super) struct Memory {
    past: HashMap<u64, Past>,
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
        if self.past.len() >= MOST && !self.past.contains_key(&identity) {
            self.forget(time, cool_off);
        }
        self.past.insert(identity, Past { last: time, times });
    }

    /// Lets go what has cooled off, and the oldest if that is nothing.
    fn forget(&mut self, time: Duration, cool_off: Duration) {
        let before = self.past.len();
        self.past.retain(|_, past| time.saturating_sub(past.last) < cool_off);
        if self.past.len() == before {
            let oldest = self.past.iter().min_by_key(|(_, past)| past.last).map(|(identity, _)| *identity);
            oldest.and_then(|oldest| self.past.remove(&oldest));
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
        for identity in 0..=MOST as u64 {
            memory.remember(identity, none, Duration::from_millis(identity), HOUR);
        }
        assert_eq!(memory.past.len(), MOST);
        assert!(
            !memory.cools(Some(0), none, Duration::ZERO, now, HOUR) && memory.cools(Some(1), none, Duration::ZERO, now, HOUR)
        );
        memory.remember(u64::MAX, none, 2 * HOUR, HOUR);
        assert_eq!(memory.past.len(), 1, "all others have cooled off");
    }
}
