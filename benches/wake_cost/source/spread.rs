//! Evenly, or after Zipf: key number r has a share of 1/r, both of the subscriptions and of the publishes.

use crate::measure::words::grouped;

/// How subscriptions and publishes lie on the keys.
pub(super) struct Spread {
    pub(super) keys: u64,
    pub(super) is_zipf: bool,
    /// The share of all keys up to each.
    up_to: Vec<f64>,
    /// How many subscriptions each key has.
    pub(super) readers: Vec<usize>,
}

impl Spread {
    pub(super) fn new(subscriptions: u64, keys: u64, is_zipf: bool) -> Self {
        let mut up_to: Vec<f64> = (1..=keys)
            .scan(0.0, |sum, rank| {
                *sum += if is_zipf { 1.0 / rank as f64 } else { 1.0 };
                Some(*sum)
            })
            .collect();
        let all = up_to[up_to.len() - 1];
        up_to.iter_mut().for_each(|share| *share /= all);
        let mut this = Self { keys, is_zipf, readers: vec![0; up_to.len()], up_to };
        for number in 0..subscriptions {
            let key = this.at((number as f64 + 0.5) / subscriptions as f64);
            this.readers[key] += 1;
        }
        this
    }

    pub(super) fn name(&self) -> String {
        let how = match (self.keys, self.is_zipf) {
            (1, _) => "",
            (_, true) => ", Zipf",
            (_, false) => ", uniform",
        };
        format!("{}{how}", grouped(self.keys))
    }

    /// The key at a place between 0 and 1.
    fn at(&self, place: f64) -> usize {
        self.up_to.partition_point(|share| *share < place).min(self.up_to.len() - 1)
    }

    /// Where publish `number` goes.
    pub(super) fn drawn(&self, number: u64) -> usize {
        let mixed = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number << 17)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.at((mixed >> 11) as f64 / (1_u64 << 53) as f64)
    }
}
