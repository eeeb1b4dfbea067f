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
    min_fanout_interval: Option<Duration>,
    count_per_topic: bool,
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
            min_fanout_interval: None,
            count_per_topic: false,
            _key: std::marker::PhantomData,
        }
    }

    /// How many of its newest events a key keeps at least. Default 1,024; 0 counts as 1.
    ///
    /// Events go by whole blocks of at most 64 events and of this number, when a new block is started: so up to two blocks more are kept,
    /// and another one where retention meets a reader that is just coming in, since the writer waits for nobody.
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_events(100).retain_unread(true).build();
    /// publisher.publish_batch((1..=1_000).map(|number| ("key".to_owned(), number)));
    /// let retained = hub.topic_stats("key").map_or(0, |stats| stats.retained_events);
    /// assert!((100..=100 + 2 * 64).contains(&retained));
    /// // Whoever wants more than that is told what it does not get.
    /// let mut reader = hub.subscribe_from("key", Start::After(keywake::Position::new(hub.position().epoch(), 0)));
    /// assert!(matches!(reader.try_recv(), Ok(Received::Gap(gap)) if gap.to == 1_000 - retained));
    /// ```
    pub fn retain_events(mut self, events: usize) -> Self {
        self.retain_events = events;
        self
    }

    /// About how many bytes of events a key keeps at most. Default: no limit.
    ///
    /// An event counts for its size in a block and what `weigher` says beyond it (the bytes it owns on the heap). The weigher is
    /// called once per event by the publishing thread, outside of every lock; more than 1 TiB for one event counts
    /// as that. The newest block always stays; blocks are ended at a quarter of this, and at 64 KiB at most. Where this and
    /// [`retain_events`](Self::retain_events) differ, what keeps less decides.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<u8, Vec<u8>>::new().retain_bytes(64 << 10, Vec::len).build();
    /// let reader = hub.subscribe(&1);
    /// for _ in 0..1_000 {
    ///     publisher.publish(&1, vec![0; 1 << 10]);
    /// }
    /// assert!(hub.stats().retained_bytes < 96 << 10);
    /// # drop(reader);
    /// ```
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
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<u8, Vec<u8>>::new().weigher(Vec::capacity).build();
    /// let reader = hub.subscribe(&1);
    /// publisher.publish(&1, vec![0; 1 << 10]);
    /// assert!(hub.stats().retained_bytes >= 1 << 10);
    /// # drop(reader);
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&T) -> usize + Send + Sync + 'static) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How old a key's events get. Default: no limit.
    ///
    /// No thread watches over it: it is enforced when a key is published or subscribed to, and by [`Hub::sweep`]. An event may stay
    /// a quarter longer, since events go by blocks. Only with this set does a publish read the clock. Kept in nanoseconds: zero
    /// counts as one, and more than 584 years as that.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    /// let (mut publisher, hub) = keywake::Builder::<u8, u64>::new().retain_for(Duration::from_secs(60)).build();
    /// let reader = hub.subscribe(&1);
    /// publisher.publish(&1, 1);
    /// hub.sweep(Instant::now() + Duration::from_secs(60)); // as in a minute
    /// assert_eq!(reader.lag(), 0, "it is retained no more, and the reader will be told");
    /// ```
    pub fn retain_for(mut self, age: Duration) -> Self {
        self.retain_for = Some(age);
        self
    }

    /// How many bytes all keys together keep at most, weighed by [`weigher`](Self::weigher) (without one: the
    /// blocks). The oldest block of the hub goes first, also if it is its key's only one. Default: no limit.
    ///
    /// Beyond it come what sleeping readers and held events pin: one block each, which is at most 64 events, and with a weigher at most
    /// 64 KiB or one event; [`Stats::pinned_bytes`](crate::Stats::pinned_bytes) tells. The block of the event just published stays.
    ///
    /// # Examples
    /// ```
    /// let builder = keywake::Builder::<u64, Vec<u8>>::new().weigher(Vec::len).retain_total_bytes(64 << 10);
    /// let (mut publisher, hub) = builder.build();
    /// let readers: Vec<_> = (0..100).map(|key| hub.subscribe(&key)).collect();
    /// for key in 0..100 {
    ///     publisher.publish(&key, vec![0; 4 << 10]);
    /// }
    /// assert!(hub.stats().retained_bytes <= 64 << 10);
    /// # drop(readers);
    /// ```
    pub fn retain_total_bytes(mut self, bytes: usize) -> Self {
        self.total_bytes = Some(bytes);
        self
    }

    /// Whether a publish to a key without a topic makes the topic, so that readers who come late find history. Default: no.
    ///
    /// Such a topic stays as long as it holds something: set [`retain_for`](Self::retain_for) (and sweep),
    /// [`retain_total_bytes`](Self::retain_total_bytes) or [`max_topics`](Self::max_topics) with it, or the keys will pile up.
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
    /// publisher.publish("key", 1); // nobody reads it yet
    /// let mut late = hub.subscribe_from("key", Start::Oldest);
    /// assert!(matches!(late.try_recv(), Ok(Received::Event(event)) if *event == 1));
    /// ```
    pub fn retain_unread(mut self, retain: bool) -> Self {
        self.retain_unread = retain;
        self
    }

    /// How many topics there may be at once. Default: no limit. Beyond it a subscription to a further key ends at once with
    /// [`CloseReason::TopicLimit`](crate::CloseReason::TopicLimit), and an unread event is not kept.
    ///
    /// # Examples
    /// ```
    /// use keywake::TryRecvError;
    /// let (publisher, hub) = keywake::Builder::<String, u64>::new().max_topics(1).build();
    /// let first = hub.subscribe("a");
    /// let Err(TryRecvError::Closed(closed)) = hub.subscribe("b").try_recv() else { panic!("refused") };
    /// assert!(closed.reason().may_resume(), "once the topic of another key has gone");
    /// # drop((publisher, first));
    /// ```
    pub fn max_topics(mut self, topics: usize) -> Self {
        self.max_topics = topics;
        self
    }

    /// Of how many keys whose topic is gone the hub remembers exactly up to where their events are lost; a reader who comes back to
    /// one is told of no gap that was none. Default 65,536. Rounded up to a
    /// multiple of 256, the number of shards, over which they are spread by hash. Each costs about 250 bytes and its key. 0: none.
    pub fn max_tombstones(mut self, tombstones: usize) -> Self {
        self.max_tombstones = tombstones;
        self
    }

    /// How long a topic stays, and goes on keeping events, when its last reader has left. Default: not at all.
    ///
    /// No thread watches over it: it is enforced when the key, or another one of the same shard, is next subscribed to or left, and by
    /// [`Hub::sweep`]; not by a publish, which reads no clock for it. A topic that had a reader in between may stay up to twice as long.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().keep_idle(Duration::from_secs(30)).build();
    /// let reader = hub.subscribe("key");
    /// let position = reader.position();
    /// drop(reader); // its connection broke
    /// publisher.publish("key", 1);
    /// let mut again = hub.subscribe_from("key", Start::After(position));
    /// assert!(matches!(again.try_recv(), Ok(Received::Event(event)) if *event == 1), "an event, and no gap");
    /// ```
    pub fn keep_idle(mut self, time: Duration) -> Self {
        self.keep_idle = time;
        self
    }

    /// How long a key's readers are left in peace after a [`Relay`](crate::Relay) has woken them: events that come meanwhile share one
    /// wake. Default: not at all; zero is that, too. The first event after a pause is told at once.
    ///
    /// It is the relay's: without one, publishers wake at once. The timer is tokio's, with the feature `tokio`, on a runtime that has
    /// one; otherwise [`Hub::sweep`](crate::Hub::sweep) tells the time, and must be called about that often: without either, a wake comes when
    /// the relay is next needed for something else. Blocked threads, sets, and readers that are bound to a relay
    /// ([`Subscription::on`](crate::Subscription::on)) are told at once in any case. So that nobody loses events by it, a key that gets 256 events meanwhile, or a quarter
    /// of [`retain_events`](Self::retain_events) if that is less, is fanned out early.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// // Prices change a thousand times a second; who looks at them is content with twenty.
    /// let builder = keywake::Builder::<String, f64>::new().min_fanout_interval(Duration::from_millis(50));
    /// let (publisher, hub) = builder.build();
    /// // tokio::spawn(hub.relay());
    /// # drop((publisher, hub));
    /// ```
    pub fn min_fanout_interval(mut self, interval: Duration) -> Self {
        self.min_fanout_interval = (!interval.is_zero()).then_some(interval);
        self
    }

    /// Whether wakes, fan-outs, gaps and their kin are counted for each topic as well, and not for the hub only: see
    /// [`TopicStats::counts`](crate::TopicStats::counts). Default: no. It costs a key whose readers wait, or lost something, about 140 bytes.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_events(1).count_per_topic(true).build();
    /// let mut reader = hub.subscribe("key");
    /// for number in 0..1_000 {
    ///     publisher.publish("key", number);
    /// }
    /// assert!(matches!(reader.try_recv(), Ok(keywake::Received::Gap(_))));
    /// let counts = hub.topic_stats("key").and_then(|stats| stats.counts);
    /// assert_eq!(counts.map(|counts| counts.gaps), Some(1));
    /// ```
    pub fn count_per_topic(mut self, count: bool) -> Self {
        self.count_per_topic = count;
        self
    }

    /// The identity that positions carry. Default: random. Fix it only together with numbers that go on where they ended, or a
    /// position of an earlier life is mistaken for one of this.
    ///
    /// # Examples
    /// A hub that goes on where an earlier one ended, having kept its last position:
    /// ```
    /// let last: keywake::Position = "v1.beef.42".parse()?;
    /// let builder = keywake::Builder::<u8, u64>::new().epoch(last.epoch()).start_seq(last.seq());
    /// let (mut publisher, hub) = builder.build();
    /// assert_eq!(hub.position(), last);
    /// assert_eq!(publisher.publish(&1, 1).seq, 43);
    /// # Ok::<_, keywake::ParsePositionError>(())
    /// ```
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// The number before the first event's. Default 0; more than [`Position::MAX_SEQ`] counts as that. What was before it is lost to
    /// this hub, and a reader that comes with an older position of the same epoch is told so.
    ///
    /// # Examples
    /// ```
    /// use keywake::{Position, Received, Start};
    /// let (publisher, hub) = keywake::Builder::<u8, u64>::new().epoch(7).start_seq(42).build();
    /// let mut reader = hub.subscribe_from(&1, Start::After(Position::new(7, 40)));
    /// assert!(matches!(reader.try_recv(), Ok(Received::Gap(gap)) if (gap.from, gap.to) == (40, 42)));
    /// # drop(publisher);
    /// ```
    pub fn start_seq(mut self, seq: u64) -> Self {
        self.start_seq = seq.min(Position::MAX_SEQ);
        self
    }

    /// What happens when the last publisher is dropped. Default: the hub closes.
    ///
    /// # Examples
    /// ```
    /// use keywake::{OnLastPublisher, TryRecvError};
    /// let (publisher, hub) = keywake::Builder::<u8, u64>::new().on_last_publisher(OnLastPublisher::Keep).build();
    /// let mut reader = hub.subscribe(&1);
    /// drop(publisher);
    /// assert!(matches!(reader.try_recv(), Err(TryRecvError::Empty)), "until `hub.shutdown`");
    /// ```
    pub fn on_last_publisher(mut self, what: OnLastPublisher) -> Self {
        self.on_last_publisher = what;
        self
    }

    /// A hub that numbers its events itself.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::Builder::<String, u64>::new().build(); // what `keywake::hub()` gives
    /// # drop((publisher, hub));
    /// ```
    #[must_use]
    pub fn build(self) -> (Publisher<K, T>, Hub<K, T>) {
        let shared = self.into_shared(Numbering::Own);
        (Publisher::new(Writer::new(Arc::clone(&shared))), Hub::new(shared))
    }

    /// A hub that takes over the numbers of a source. A position ahead of it is then one that the source will come to.
    ///
    /// # Examples
    /// Two instances behind one log with numbers: give both the same epoch, and a reader may go from one to the other.
    /// ```
    /// use keywake::{Builder, Received, Start};
    /// let instance = || Builder::<String, &str>::new().epoch(7).retain_unread(true).build_from_source();
    /// let ((mut here, hub_here), (mut there, hub_there)) = (instance(), instance());
    /// let mut reader = hub_here.subscribe("key");
    /// here.publish_at(101, "key", "first").expect("it rises");
    /// assert!(reader.try_recv().is_ok());
    /// let mut moved = hub_there.subscribe_from("key", Start::After(reader.position()));
    /// there.publish_at(101, "key", "first").expect("it rises"); // it is behind, and catches up
    /// there.publish_at(102, "key", "second").expect("it rises");
    /// assert!(matches!(moved.try_recv(), Ok(Received::Event(event)) if *event == "second"));
    /// ```
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
            min_fanout_interval: self.min_fanout_interval,
            counts_topics: self.count_per_topic,
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
            .field("min_fanout_interval", &self.min_fanout_interval)
            .field("count_per_topic", &self.count_per_topic)
            .finish_non_exhaustive()
    }
}
