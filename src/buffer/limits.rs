//! How much of a key is kept, and how big its blocks are: arithmetic, no atomics.

use std::time::Duration;

/// Most entries of a block.
const MAX_ENTRIES: u64 = 64;
/// Entries of the first block of a key: a million quiet keys must not pay for sixty-four.
const FIRST_ENTRIES: u32 = 4;
/// A block takes about this many bytes, unless an entry is larger.
const BLOCK_BYTES: u64 = 4096;
/// A block is ended when its events weigh this much: what a sleeping reader may pin.
const MAX_BLOCK_WEIGHT: u64 = 64 * 1024;

/// What a hub retains per key.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// At least this many newest events are kept.
    pub(crate) events: u64,
    /// At most about this many bytes; `u64::MAX` where not limited.
    pub(crate) bytes: u64,
    /// Whether events are weighed.
    pub(crate) weighs: bool,
    /// A block whose events weigh this much is ended.
    pub(crate) block_bytes: u64,
    /// Nanoseconds; 0 where not limited.
    pub(crate) age: u64,
}

impl Limits {
    /// `bytes` per key and `total_bytes` over all.
    pub(crate) fn new(events: usize, bytes: Option<usize>, total_bytes: Option<usize>, age: Option<Duration>) -> Self {
        let narrowest = bytes.into_iter().chain(total_bytes).min().map_or(u64::MAX, |bytes| bytes as u64);
        Self {
            events: (events as u64).max(1),
            bytes: bytes.map_or(u64::MAX, |bytes| bytes as u64),
            weighs: bytes.is_some(),
            // A quarter: retention goes by whole blocks, and overshoots by one at most.
            block_bytes: MAX_BLOCK_WEIGHT.min(narrowest / 4).max(1),
            age: age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX).max(1)),
        }
    }

    /// Whether the age of events matters at all.
    #[inline]
    pub(crate) fn has_age(&self) -> bool {
        self.age != 0
    }

    /// Whether a block with this newest stamp is too old at `now`.
    #[inline]
    pub(crate) fn is_expired(&self, newest: u64, now: u64) -> bool {
        self.age != 0 && now.saturating_sub(newest) >= self.age
    }

    /// Whether a block with this oldest stamp takes no more events at `now`, so that its oldest events do not wait for its newest
    /// for longer than a quarter of the limit.
    #[inline]
    pub(crate) fn ends_block(&self, oldest: u64, now: u64) -> bool {
        self.age != 0 && now.saturating_sub(oldest) >= self.age / 4
    }

    fn max_capacity<T>(&self) -> u32 {
        // A number beside each event.
        let entry = size_of::<T>() as u64 + 8;
        let by_bytes = BLOCK_BYTES / entry;
        // No more than what is retained: retention goes by whole blocks.
        let by_events = self.events;
        u32::try_from(by_bytes.min(by_events).clamp(1, MAX_ENTRIES)).unwrap_or(1)
    }

    /// Entries of the first block of a chain.
    pub(crate) fn first_capacity<T>(&self) -> u32 {
        self.max_capacity::<T>().min(FIRST_ENTRIES)
    }

    /// Entries of the block after one of `capacity`.
    pub(crate) fn next_capacity<T>(&self, capacity: u32) -> u32 {
        self.max_capacity::<T>().min(capacity.saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_from_four_to_sixty_four_entries() {
        let limits = Limits::new(1024, None, None, None);
        let mut sizes = vec![limits.first_capacity::<u64>()];
        for _ in 0..3 {
            sizes.push(limits.next_capacity::<u64>(*sizes.last().unwrap()));
        }
        assert_eq!(sizes, [4, 16, 64, 64]);
    }

    #[test]
    fn large_events_get_blocks_of_one() {
        let limits = Limits::new(1024, None, None, None);
        assert_eq!(limits.first_capacity::<[u8; 8192]>(), 1);
        assert_eq!(limits.next_capacity::<[u8; 8192]>(1), 1);
    }

    #[test]
    fn a_block_is_no_larger_than_what_is_retained() {
        for events in [0, 1, 3, 4, 8, 63, 256] {
            let limits = Limits::new(events, None, None, None);
            assert!(u64::from(limits.next_capacity::<u8>(64)) <= limits.events);
        }
    }

    #[test]
    fn age_is_counted_in_nanoseconds_and_never_overflows() {
        let limits = Limits::new(1, None, None, Some(Duration::MAX));
        assert!(limits.has_age());
        assert!(!limits.is_expired(0, u64::MAX - 1));
        let limits = Limits::new(1, None, None, Some(Duration::from_secs(1)));
        assert!(limits.is_expired(5, 1_000_000_005));
        assert!(!limits.is_expired(5, 1_000_000_004));
        assert!(!limits.is_expired(5, 0), "a clock that goes back expires nothing");
    }
}
