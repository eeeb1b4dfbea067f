//! Random times, from a seed: `SplitMix64` (Steele, Lea and Flood 2014).

use std::time::Duration;

/// A sequence of random times; the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly spread over `min..max`; `min` where that is not the shorter of the two.
    pub(crate) fn between(&mut self, min: Duration, max: Duration) -> Duration {
        let range = max.saturating_sub(min).as_nanos();
        // The upper half of the product: range times a fraction of 32 bits.
        let within = (range * u128::from(self.next() >> 32)) >> 32;
        let (seconds, nanos) = (within / 1_000_000_000, within % 1_000_000_000);
        let within = match (u64::try_from(seconds), u32::try_from(nanos)) {
            (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
            _ => Duration::ZERO,
        };
        min.saturating_add(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_evenly_over_their_range() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(5));
        for seed in [0, 1, u64::MAX] {
            let mut jitter = Jitter::new(seed);
            let mut quarters = [0; 4];
            for _ in 0..4_000 {
                let time = jitter.between(min, max);
                assert!((min..max).contains(&time), "{time:?}");
                quarters[usize::try_from(time.as_secs() - 1).unwrap()] += 1;
            }
            assert!(quarters.iter().all(|quarter| (900..1_100).contains(quarter)), "{quarters:?}");
        }
    }

    #[test]
    fn same_seed_gives_the_same_times_and_another_others() {
        let times = |seed| {
            let mut jitter = Jitter::new(seed);
            [(); 8].map(|()| jitter.between(Duration::ZERO, Duration::from_secs(1)))
        };
        assert_eq!(times(7), times(7));
        assert_ne!(times(7), times(8));
    }

    #[test]
    fn widest_and_empty_ranges_do_not_overflow() {
        let mut jitter = Jitter::new(1);
        assert_eq!(jitter.between(Duration::MAX, Duration::MAX), Duration::MAX);
        assert_eq!(jitter.between(Duration::from_secs(2), Duration::from_secs(1)), Duration::from_secs(2));
        assert!(jitter.between(Duration::ZERO, Duration::MAX) > Duration::ZERO);
    }
}
