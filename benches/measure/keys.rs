//! Keys in an order that no prefetcher knows, the same for every peer.

/// The numbers of `range`, shuffled; always in the same way.
pub(crate) fn shuffled(range: std::ops::Range<u64>) -> Vec<u64> {
    let mut keys: Vec<u64> = range.collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for upper in (1..keys.len()).rev() {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (upper as u64 + 1)).expect("an index of the same list");
        keys.swap(upper, other);
    }
    keys
}

/// Goes round a list of keys for ever.
pub(crate) struct Cycle {
    keys: Vec<u64>,
    next: usize,
}

impl Cycle {
    pub(crate) fn new(keys: Vec<u64>) -> Self {
        assert!(!keys.is_empty(), "there must be a key to go round");
        Self { keys, next: 0 }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let key = self.keys[self.next];
        self.next += 1;
        if self.next == self.keys.len() {
            self.next = 0;
        }
        key
    }
}
