//! The settings of a hub.

use std::{
    fmt,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

use super::{
    Hub,
    publisher::{Publisher, SourcePublisher},
    shared::{Config, Numbering, Shared, Weigher},
    writer::Writer,
};
use crate::{Key, Position, buffer::limits::Limits, sync::Arc};

/// Settings of a hub.
///
/// ```
/// use std::time::Duration;
/// let (publisher, hub) = keywake::Builder::<String, Vec<u8>>::new()
///     .retain_events(100)
///     .retain_bytes(1 << 20, Vec::len)
///     .retain_total_bytes(1 << 30)
///     .retain_unread(true)
///     .keep_idle(Duration::from_secs(30))
///     .max_topics(100_000)
///     .build();
/// # drop((publisher, hub));
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder<K, T> {
    retain_events: usize,
    retain_bytes: Option<usize>,
    weigher: Option<Weigher<T>>,
    retain_for: Option<Duration>,
    total_bytes: Option<usize>,
    retain_unread: bool,
    max_topics: usize,
    max_tombstones: usize,
    keep_idle: Duration,
    epoch: Option<u64>,
    start_seq: u64,
    on_last_publisher: OnLastPublisher,
    _key: std::marker::PhantomData<fn(K)>,
}

/// What happens when the last publisher is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLastPublisher {
    /// The hub is shut down with [`CloseReason::PublisherDropped`](crate::CloseReason::PublisherDropped).
    #[default]
    Close,
    /// Readers wait on. For servers that would rather not end every stream because a publishing task panicked.
    Keep,
}

/// Events retained per key, if nothing is said.
const RETAIN_EVENTS: usize = 1024;
/// Topics remembered after their end, if nothing is said.
const MAX_TOMBSTONES: usize = 65_536;

impl<K: Key, T: Send + Sync + 'static> Default for Builder<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, T: Send + Sync + 'static> Builder<K, T> {
    /// The defaults, as each setting tells them.
    pub fn new() -> Self {
        Self {
            retain_events: RETAIN_EVENTS,
            retain_bytes: None,
            weigher: None,
            retain_for: None,
            total_bytes: None,
            retain_unread: false,
            max_topics: usize::MAX,
            max_tombstones: MAX_TOMBSTONES,
            keep_idle: Duration::ZERO,
            epoch: None,
            start_seq: 0,
            on_last_publisher: OnLastPublisher::Close,
            _key: std::marker::PhantomData,
        }
    }

    /// How many of its newest events a key keeps at least. Default 1,024; 0 counts as 1.
    ///
    /// Events go by whole blocks of at most 64 events and of this number, when a new block is started: so up to two blocks more are kept,
    /// and another one where retention meets a reader that is just coming in, since the writer waits for nobody.
    pub fn retain_events(mut self, events: usize) -> Self {
        self.retain_events = events;
        self
    }

    /// About how many bytes of events a key keeps at most. Default: no limit.
    ///
    /// An event counts for its size in a block and what `weigher` says beyond it (the bytes it owns on the heap). The weigher is
    /// called once per event by the publishing thread, outside of every lock; more than 1 TiB for one event counts
    /// as that. The newest block always stays.
    pub fn retain_bytes(mut self, bytes: usize, weigher: impl Fn(&T) -> usize + Send + Sync + 'static) -> Self {
        self.retain_bytes = Some(bytes);
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How many bytes an event owns beyond its size in a block, for [`retain_total_bytes`](Self::retain_total_bytes) and for the bound on
    /// what a sleeping reader or a held event pins. [`retain_bytes`](Self::retain_bytes) sets it too; the last one counts. Default: 0 for
    /// every event, so that blocks end by their number of events alone.
    ///
    /// Called once per event by the publishing thread, outside of every lock; more than 1 TiB counts as that.
    pub fn weigher(mut self, weigher: impl Fn(&T) -> usize + Send + Sync + 'static) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How old a key's events get. Default: no limit.
    ///
    /// No thread watches over it: it is enforced when a key is published or subscribed to, and by [`Hub::sweep`]. An event may stay
    /// a quarter longer, since events go by blocks. Only with this set does a publish read the clock.
    pub fn retain_for(mut self, age: Duration) -> Self {
        self.retain_for = Some(age);
        self
    }

    /// How many bytes all keys together keep at most, weighed by [`weigher`](Self::weigher) (without one: the
    /// blocks). The oldest block of the hub goes first, also if it is its key's only one. Default: no limit.
    ///
    /// Beyond it come what sleeping readers and held events pin: one block each, which is at most 64 events, and with a weigher at most
    /// 64 KiB or one event;
    /// [`Stats::pinned_bytes`](crate::Stats::pinned_bytes) tells.
    pub fn retain_total_bytes(mut self, bytes: usize) -> Self {
        self.total_bytes = Some(bytes);
        self
    }

    /// Whether a publish to a key without a topic makes the topic, so that readers who come late find history. Default: no.
    pub fn retain_unread(mut self, retain: bool) -> Self {
        self.retain_unread = retain;
        self
    }

    /// How many topics there may be at once. Default: no limit. Beyond it a subscription to a further key ends at once with
    /// [`CloseReason::TopicLimit`](crate::CloseReason::TopicLimit), and an unread event is not kept.
    pub fn max_topics(mut self, topics: usize) -> Self {
        self.max_topics = topics;
        self
    }

    /// Of how many keys whose topic is gone the hub remembers exactly up to where their events are lost; a reader who comes back to
    /// one is told of no gap that was none. Default 65,536. Rounded up to a
    /// multiple of 256, the number of shards, over which they are spread by hash. Each costs about 250 bytes and its key.
    pub fn max_tombstones(mut self, tombstones: usize) -> Self {
        self.max_tombstones = tombstones;
        self
    }

    /// How long a topic stays, and goes on keeping events, when its last reader has left. Default: not at all.
    ///
    /// No thread watches over it: it is enforced when the key, or another one of the same shard, is next subscribed to or left, and by
    /// [`Hub::sweep`]; not by a publish, which reads no clock for it. A topic that had a reader in between may stay up to twice as long.
    pub fn keep_idle(mut self, time: Duration) -> Self {
        self.keep_idle = time;
        self
    }

    /// The identity that positions carry. Default: random. Fix it only together with numbers that go on where they ended, or a
    /// position of an earlier life is mistaken for one of this.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// The number before the first event's. Default 0; more than [`Position::MAX_SEQ`] counts as that.
    pub fn start_seq(mut self, seq: u64) -> Self {
        self.start_seq = seq.min(Position::MAX_SEQ);
        self
    }

    /// What happens when the last publisher is dropped. Default: the hub closes.
    pub fn on_last_publisher(mut self, what: OnLastPublisher) -> Self {
        self.on_last_publisher = what;
        self
    }

    /// A hub that numbers its events itself.
    #[must_use]
    pub fn build(self) -> (Publisher<K, T>, Hub<K, T>) {
        let shared = self.into_shared(Numbering::Own);
        (Publisher::new(Writer::new(Arc::clone(&shared))), Hub::new(shared))
    }

    /// A hub that takes over the numbers of a source. A position ahead of it is then one that the source will come to.
    #[must_use]
    pub fn build_from_source(self) -> (SourcePublisher<K, T>, Hub<K, T>) {
        let shared = self.into_shared(Numbering::Source);
        (SourcePublisher::new(Writer::new(Arc::clone(&shared))), Hub::new(shared))
    }

    fn into_shared(self, numbering: Numbering) -> Arc<Shared<K, T>> {
        Arc::new(Shared::new(Config {
            limits: Limits {
                weighs: self.weigher.is_some(),
                ..Limits::new(self.retain_events, self.retain_bytes, self.total_bytes, self.retain_for)
            },
            weigher: self.weigher,
            total_bytes: self.total_bytes.map(|bytes| bytes as u64),
            retain_unread: self.retain_unread,
            keep_idle: self.keep_idle,
            max_topics: self.max_topics,
            max_tombstones: self.max_tombstones,
            on_last_publisher: self.on_last_publisher,
            epoch: self.epoch.unwrap_or_else(random),
            start_seq: self.start_seq,
            numbering,
        }))
    }
}

/// A number that no other hub has: the standard library's hasher is seeded by the operating system.
fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl<K, T> fmt::Debug for Builder<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("retain_events", &self.retain_events)
            .field("retain_bytes", &self.retain_bytes)
            .field("retain_for", &self.retain_for)
            .field("retain_total_bytes", &self.total_bytes)
            .field("retain_unread", &self.retain_unread)
            .field("max_topics", &self.max_topics)
            .field("max_tombstones", &self.max_tombstones)
            .field("keep_idle", &self.keep_idle)
            .field("start_seq", &self.start_seq)
            .field("on_last_publisher", &self.on_last_publisher)
            .finish_non_exhaustive()
    }
}
