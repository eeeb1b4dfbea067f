//! What the events of a hub weigh: in reach of readers, and kept alive by somebody though no longer in reach.

use crate::sync::{Padded, Tally};

/// The tallies of one hub, in bytes. Blocks hold it, since an event may outlive its hub. Sums that only grow: the writer's own needs no
/// read-modify-write, and each of the others one.
#[derive(Debug)]
pub(crate) struct Account {
    epoch: u64,
    /// Came into reach; the writer alone changes it, and with a weigher at each publish: not beside what readers change.
    retained: Padded<Tally>,
    /// Went out of reach.
    evicted: Tally,
    /// Were never in reach: of snapshots.
    pinned: Tally,
    freed: Tally,
}

impl Account {
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, retained: Padded::default(), evicted: Tally::new(0), pinned: Tally::new(0), freed: Tally::new(0) }
    }

    /// The identity of the hub.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// More bytes are in reach of readers. For the writer.
    #[inline]
    pub(crate) fn retain(&self, bytes: u64) {
        self.retained.set(self.retained.get() + bytes);
    }

    /// Bytes that were retained are not there after all: an event was taken back. For the writer.
    pub(crate) fn take_back(&self, bytes: u64) {
        self.retained.set(self.retained.get() - bytes);
    }

    /// Bytes went out of reach; whoever still holds them pins them.
    pub(crate) fn evict(&self, bytes: u64) {
        self.evicted.add(bytes);
    }

    /// Bytes that were never in reach of readers of a chain are held: a snapshot's.
    pub(crate) fn pin(&self, bytes: u64) {
        self.pinned.add(bytes);
    }

    /// Bytes that were out of reach are freed.
    pub(crate) fn free(&self, bytes: u64) {
        self.freed.add(bytes);
    }

    /// Bytes in reach of readers.
    #[inline]
    pub(crate) fn retained_bytes(&self) -> u64 {
        // The writer's own sum last: it may only make the difference larger.
        let evicted = self.evicted.get();
        self.retained.get().saturating_sub(evicted)
    }

    /// Bytes out of reach, not freed yet.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let freed = self.freed.get();
        (self.evicted.get() + self.pinned.get()).saturating_sub(freed)
    }
}
