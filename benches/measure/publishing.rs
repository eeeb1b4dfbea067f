//! A writer that publishes round and round to keys whose readers are subscribed but do not wait.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::{
    full_size,
    keys::{Cycle, shuffled},
    peers::Peer,
};

/// How many events a ring keeps. The same on both sides: DashMap's peers then take and drop the same number of slots.
pub(crate) const RETAINED: usize = 16;

/// A writer, the keys it goes round, and one reader of each that never reads: it lags, and holds nobody up. A reader of
/// keywake that has not read yet pins no block; one of broadcast costs a slot's count that nobody brings down.
pub(crate) struct Publishing<P: Peer> {
    writer: P::Writer,
    hub: P,
    readers: Vec<P::Reader>,
    cycle: Cycle,
    event: u64,
    retained: usize,
}

impl<P: Peer> Publishing<P> {
    /// Publishes to `keys` keys that have a reader each; `retained` events are kept per ring.
    pub(crate) fn to_readers(keys: u64, retained: usize) -> Self {
        let (writer, hub) = P::open(retained);
        let readers = (0..keys).map(|key| hub.subscribe(key)).collect();
        let mut this = Self { writer, hub, readers, cycle: Cycle::new(shuffled(0..keys)), event: 0, retained };
        this.check(keys.min(1_000));
        this
    }

    /// Publishes to `absent` keys that nobody reads, while `living` other keys have a reader each.
    pub(crate) fn to_nobody(living: u64, absent: u64) -> Self {
        let (writer, hub) = P::open(RETAINED);
        let readers = (0..living).map(|key| hub.subscribe(key)).collect();
        let mut this = Self { writer, hub, readers, cycle: Cycle::new(shuffled(0..living.max(1))), event: 0, retained: RETAINED };
        // Once round the living keys, so that a writer that keeps an index of its own has it filled.
        if living > 0 {
            this.publish(usize::try_from(living).expect("few"));
        }
        this.cycle = Cycle::new(shuffled(living..living + absent));
        assert_eq!(P::publish(&mut this.writer, living, 1), 0, "{}: nobody reads this key", P::NAME);
        this
    }

    /// The same, with keys that have been read and published to once and were then left.
    pub(crate) fn to_left_keys(living: u64, left: u64) -> Self {
        let mut this = Self::to_nobody(living, left);
        for key in living..living + left {
            let reader = this.hub.subscribe(key);
            P::publish(&mut this.writer, key, 1);
            this.hub.unsubscribe(key, reader);
        }
        this
    }

    /// Publishes until every ring is full and has gone round, so that eviction is paid for as well. keywake evicts by blocks of
    /// up to 64 events, so it needs a few more than it keeps.
    pub(crate) fn settle(&mut self) {
        if full_size() {
            self.publish(self.readers.len() * (self.retained + 80));
        }
    }

    /// Once round, untimed: the caches are then as this side leaves them, not as the other one left them.
    pub(crate) fn warm_up(&mut self) {
        self.publish(self.cycle.len());
    }

    /// `count` publishes, one after the other; the time they took together, the choice of the key included.
    pub(crate) fn publish(&mut self, count: usize) -> Duration {
        let start = Instant::now();
        for _ in 0..count {
            self.event += 1;
            let key = self.cycle.next();
            black_box(P::publish(&mut self.writer, black_box(key), black_box(self.event)));
        }
        start.elapsed()
    }

    /// `count` times a publish and the receipt of that event by the key's reader, on one thread.
    pub(crate) fn publish_and_receive(&mut self, count: usize) -> Duration {
        self.catch_up();
        let start = Instant::now();
        for _ in 0..count {
            self.event += 1;
            let key = self.cycle.next();
            black_box(P::publish(&mut self.writer, black_box(key), black_box(self.event)));
            let reader = &mut self.readers[usize::try_from(key).expect("an index")];
            let received = P::try_recv(reader);
            assert_eq!(black_box(received), Some(self.event), "{}: the reader got another event", P::NAME);
        }
        start.elapsed()
    }

    /// The readers take all that is left for them.
    fn catch_up(&mut self) {
        for reader in &mut self.readers {
            while P::try_recv(reader).is_some() {}
        }
    }

    /// Readers of their own see that the first `keys` keys get what is published to them; they leave again.
    fn check(&mut self, keys: u64) {
        for key in 0..keys {
            let mut reader = self.hub.subscribe(key);
            self.event += 1;
            P::publish(&mut self.writer, key, self.event);
            assert_eq!(P::try_recv(&mut reader), Some(self.event), "{}: lost an event", P::NAME);
            assert_eq!(P::try_recv(&mut reader), None, "{}: made up an event", P::NAME);
            drop(reader);
        }
    }
}
