//! Key to topic: subscribe, unsubscribe, publish, close, and what is remembered of keys that nobody reads.
//!
//! # What it means
//! A hub has one writer and one rising sequence over all keys. A topic is made by a key's first subscriber (or publish, see
//! [`Builder::retain_unread`]) and goes when its last reader does (or later, see [`Builder::keep_idle`]). A reader that comes back with
//! a position learns that it lost nothing, or what it may have lost.
//!
//! # What holds
//! * **H1 The topic's word decides.** Whether a topic lives is told by DEAD in its word, which is set with its shard of the registry
//!   locked. Maps are hints: the registry's shards are for readers; the writer has an index of its own and, on a hit, touches the
//!   topic alone. A living topic in the index is the only one of its key, so a hit needs no look at the registry.
//! * **H2 No silent hole.** The floor of a new topic of a key is at least the seq of every event of the key that it will not hold.
//!   (a) The writer notes an unread event (in the tombstone or the stripe) *before* it looks at the shard's births; a subscriber that
//!   makes a topic counts the birth *before* it reads what was noted. Both are read-modify-writes of one number, so either the writer
//!   finds the topic, or the subscriber reads the note. (b) A topic that goes hands its last seq on, with the shard locked, before
//!   another one of its key can be made. (c) An event that is taken back from a topic that died under the writer goes the way of (a).
//!   (d) Retention raises the floor of the topic itself.
//! * **H3 All newborns.** A writer that looks into a shard takes over all its newborns: the number of births it has seen is that of all.
//! * **H4 Tombstones.** While a dead topic is in the registry's table and not FOLDED, the writer has it in its index and notes there:
//!   only topics that the writer knew become tombstones, and the writer forgets none that is not folded. Whoever folds it, with the
//!   shard locked, hands its seq on: to the stripe, or to the new topic's floor.
//! * **H5 No user code under a lock.** Keys are cloned before and dropped after; wakers, payloads, weighers, iterators and snapshot
//!   functions run outside. The exceptions are `K::eq`, which looks keys up in a shard and, behind the publisher's mutex, in the
//!   writer's index, and `K::clone` (with patterns: `K::as_ref`) behind that mutex where a publish makes a topic. They must not call the hub; they may panic.
//! * **Lock order**: the publisher's mutex, then a shard, then the ends of a chain. All others (a topic's free list of slots, the backlog, the
//!   losses, the flights and the state of one) are leaves: nothing is locked under them.

mod arrivals;
mod budget;
mod builder;
mod choosing;
mod extra;
mod filter;
#[cfg(feature = "metrics")]
mod metrics;
mod patterns;
mod publisher;
mod pulse;
mod registry;
mod relay;
mod set;
mod shared;
mod slab;
mod snapshot;
mod stats;
mod subscription;
mod topic;
mod waiting;
mod watch;
mod writer;

use std::{borrow::Borrow, error::Error, fmt, future::Future, hash::Hash, marker::PhantomData, time::Instant};

pub use builder::{Builder, OnLastPublisher};
pub use extra::Slow;
pub use publisher::{PublishAtError, Publisher, SeqError, SharedPublisher, SourcePublisher};
pub use relay::{Relay, RelayHandle};
pub use set::{SetRecv, SubscriptionSet};
pub(crate) use shared::FirstPanic;
pub use snapshot::SnapshotFailed;
pub use stats::{Stats, TopicCounts, TopicStats};
pub use subscription::Subscription;
pub use waiting::Recv;

use self::{
    arrivals::ReaderArrives,
    extra::Untold,
    registry::{Later, Maker, Removal},
    shared::{AsKey, Borrowed, Numbering, Owned, Shared},
    snapshot::{Landing, Role, Taken},
    topic::{Ending, Topic, TopicArc},
};
use crate::{CloseReason, Closed, Event, Gap, GapCause, Key, Position, buffer::reader::Reader, sync::Arc};

type TopicReader<K, T> = Reader<TopicArc<K, T>, T>;
/// A reader that begins, and what it is to be told first.
struct Opened<K, T> {
    reader: TopicReader<K, T>,
    gap: Option<Untold>,
    /// It is over: why, and the position that it came with.
    refused: Option<(CloseReason, Position)>,
}

/// A topic that ends at once, and why.
type Refused<K, T> = (TopicArc<K, T>, CloseReason);

/// The readers' side of a hub: subscribe, close, ask. Cheap to clone.
pub struct Hub<K: Key, T: Send + Sync + 'static> {
    shared: Arc<Shared<K, T>>,
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// After this position; with a [`Gap`] first where something between may be lost. A position of another hub gives a gap with
    /// [`GapCause::OtherEpoch`] and then what is retained. One that is ahead of the hub gives [`GapCause::Ahead`] and begins at now; of
    /// a hub that takes its source's numbers it is waited for.
    After(Position),
    /// At the newest retained event, if there is one. (Of a hub that takes its source's numbers: where a source loss is newer, with what
    /// the newest block holds.)
    Latest,
    /// With what is published from now on.
    #[default]
    Next,
    /// With everything that is retained.
    Oldest,
}

/// A hub with default settings: the one [`Publisher`], and a [`Hub`] for readers. [`Builder`] has the settings.
///
/// ```
/// let (mut publisher, hub) = keywake::hub::<String, u64>();
/// let mut reader = hub.subscribe("key");
/// publisher.publish("key", 1);
/// assert!(reader.try_recv().is_ok());
/// ```
#[must_use]
pub fn hub<K: Key, T: Send + Sync + 'static>() -> (Publisher<K, T>, Hub<K, T>) {
    Builder::new().build()
}

impl<K: Key, T: Send + Sync + 'static> Hub<K, T> {
    pub(crate) fn new(shared: Arc<Shared<K, T>>) -> Self {
        Self { shared }
    }

    /// Reads a key from now on: [`subscribe_from`](Self::subscribe_from) with [`Start::Next`].
    ///
    /// At the limit of topics, or after a shutdown, the subscription ends at once.
    ///
    /// # Panics
    /// If the key's own `Hash`, `Eq` or `ToOwned` does: there is no subscription then. If a woken waker (of
    /// [`wait_for_reader`](Self::wait_for_reader)) panics, or the drop of a payload or key that this call let go of: after everything
    /// else is done, and the subscription is dropped again.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// publisher.publish("key", 1); // nobody reads it: it is not kept
    /// let mut reader = hub.subscribe("key"); // a `&str`, where keys are `String`
    /// publisher.publish("key", 2);
    /// assert!(matches!(reader.try_recv(), Ok(keywake::Received::Event(event)) if *event == 2));
    /// ```
    #[must_use]
    pub fn subscribe<Q>(&self, key: &Q) -> Subscription<K, T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.subscribe_from(key, Start::Next)
    }

    /// As [`subscribe`](Self::subscribe), for keys that are not the owned form of anything, like `Arc<str>`.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// let (mut publisher, hub) = keywake::hub::<Arc<str>, u64>();
    /// let key: Arc<str> = "key".into();
    /// let mut reader = hub.subscribe_owned(Arc::clone(&key));
    /// publisher.publish_owned(key, 1);
    /// assert!(reader.try_recv().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe_owned(&self, key: K) -> Subscription<K, T> {
        self.subscribe_owned_from(key, Start::Next)
    }

    /// Reads a key from where `start` says.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let first = hub.subscribe("key");
    /// let position = first.position();
    /// publisher.publish("key", 10);
    /// drop(first);
    /// // The topic went with its last reader, and the event with it: that is told.
    /// let mut again = hub.subscribe_from("key", Start::After(position));
    /// let Ok(Received::Gap(gap)) = again.try_recv() else { panic!("a gap") };
    /// assert_eq!((gap.from, gap.to), (0, 1));
    /// ```
    #[must_use]
    pub fn subscribe_from<Q>(&self, key: &Q, start: Start) -> Subscription<K, T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.subscribe_as(Borrowed(key, PhantomData), self.shared.hash(key), start)
    }

    /// As [`subscribe_from`](Self::subscribe_from), for keys that are not the owned form of anything.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<(u32, u32), u64>::new().retain_unread(true).build();
    /// publisher.publish_owned((1, 2), 1);
    /// let mut late = hub.subscribe_owned_from((1, 2), keywake::Start::Oldest);
    /// assert!(late.try_recv().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe_owned_from(&self, key: K, start: Start) -> Subscription<K, T> {
        let hash = self.shared.hash(&key);
        self.subscribe_as(Owned(key), hash, start)
    }

    fn subscribe_as(&self, key: impl AsKey<K>, hash: u64, start: Start) -> Subscription<K, T> {
        let (Opened { reader, gap, refused }, later) = self.open(key, hash, start, None);
        let shared = Arc::clone(&self.shared);
        let subscription = match refused {
            Some((reason, came)) => Subscription::refused(shared, reader, came, reason),
            None => Subscription::new(shared, reader, gap),
        };
        // User code, which may panic: the subscription is there to be dropped then.
        self.shared.settle(later);
        subscription
    }

    /// Joins a key's topic, and begins to read it; and what is to be done about it once its reader is in good hands. `here`: see `begin`.
    fn open(&self, key: impl AsKey<K>, hash: u64, start: Start, here: Option<u64>) -> (Opened<K, T>, Later<K, T>) {
        let mut later = Later::default();
        let topic = match self.join(key, hash, &mut later) {
            Ok(topic) => topic,
            Err((closed, reason)) => {
                let came = if let Start::After(position) = start { position } else { self.position() };
                let seq = if came.epoch() == self.shared.config.epoch { came.seq() } else { 0 };
                let reader = Reader::at(closed, 0, seq, true);
                return (Opened { reader, gap: None, refused: Some((reason, came)) }, later);
            }
        };
        let Shared { config, account, .. } = &*self.shared;
        if config.limits.has_age() {
            topic.chain.expire(&config.limits, self.shared.stamp(), account, &mut later.garbage);
        }
        let (reader, gap) = self.begin(topic, start, here);
        (Opened { reader, gap, refused: None }, later)
    }

    /// Becomes a reader of the key's topic, which is made if need be.
    fn join(&self, key: impl AsKey<K>, hash: u64, later: &mut Later<K, T>) -> Result<TopicArc<K, T>, Refused<K, T>> {
        let registry = &self.shared.registry;
        let index = registry.shard_of(hash);
        let shard = registry.shard(index);
        let mut state = shard.lock();
        if let Some(now) = registry.now_if_idle_matters() {
            registry.expire_idle(shard, &mut state, now, usize::MAX, later);
        }
        if let Some(topic) = state.find_living(hash, |other| key.is(other)) {
            let topic = Arc::clone(topic);
            if topic.desk.join() == 0 {
                later.wakers = state.arrived(Some(hash));
            }
            return Ok(topic);
        }
        drop(state);
        // The key's clone, and the allocation, come outside of the lock.
        let topic = Arc::new(Topic::new(hash, key.to_key()));
        let mut want = self.shared.patterns.want(topic.key());
        let mut state = shard.lock();
        while self.shared.patterns.have_changed(&want) {
            drop(state);
            want = self.shared.patterns.want(topic.key());
            state = shard.lock();
        }
        let (joined, reason) = if let Some(reason) = state.shutdown() {
            (Err(topic), reason.clone())
        } else if let Some(other) = state.find_living(hash, |other| key.is(other)) {
            later.topics.push(topic);
            (Ok(Arc::clone(other)), CloseReason::Shutdown)
        } else {
            later.made = 1;
            let made = registry.insert(index, &mut state, topic, Maker::Reader, |other| key.is(other));
            if let Ok(topic) = &made {
                want.join(topic, registry.source_floor(), &mut later.sets);
            }
            (made, CloseReason::TopicLimit)
        };
        match joined {
            Ok(topic) => {
                topic.desk.join();
                // Also where it is not the first: sets that wanted it have joined before.
                later.wakers = state.arrived(Some(hash));
                Ok(topic)
            }
            Err(unused) => {
                later.made = 0;
                drop(state);
                drop(unused);
                let closed = Arc::new(Topic::closed(hash, key.to_key(), reason.clone()));
                // It leaves like any other reader.
                closed.desk.join();
                Err((closed, reason))
            }
        }
    }

    /// Becomes a reader of a topic, if it lives; where `is_counted`, which is asked with the shard locked, the reader was counted before.
    fn join_living(&self, topic: &TopicArc<K, T>, later: &mut Later<K, T>, is_counted: impl FnOnce() -> bool) -> bool {
        let registry = &self.shared.registry;
        let mut state = registry.shard(registry.shard_of(topic.hash())).lock();
        if topic.is_dead() {
            return false;
        }
        if !is_counted() && topic.desk.join() == 0 {
            later.wakers = state.arrived(Some(topic.hash()));
        }
        true
    }

    /// A reader that begins where `start` says, and what it is to be told first. One of a set that has come to `here` begins with
    /// [`Start::Next`] behind that.
    fn begin(&self, topic: TopicArc<K, T>, start: Start, here: Option<u64>) -> (TopicReader<K, T>, Option<Untold>) {
        match (start, here) {
            (Start::Next, Some(here)) => self.begin_at(topic, here),
            (Start::Next, None) => (self.begin_now(topic), None),
            (Start::Oldest, _) => (Reader::oldest(topic), None),
            (Start::Latest, _) => (Reader::latest(topic), None),
            (Start::After(position), _) => self.begin_after(topic, position),
        }
    }

    fn begin_after(&self, topic: TopicArc<K, T>, position: Position) -> (TopicReader<K, T>, Option<Untold>) {
        if position.epoch() != self.shared.config.epoch {
            let reader = Reader::oldest(topic);
            let gap = Gap { from: 0, to: reader.seq(), missed: None, cause: GapCause::OtherEpoch };
            return (reader, Some(Untold { gap, came: position }));
        }
        if self.is_ahead(position) {
            let reader = self.begin_now(topic);
            let gap = Gap { from: reader.seq(), to: reader.seq(), missed: None, cause: GapCause::Ahead };
            return (reader, Some(Untold { gap, came: position }));
        }
        let (reader, lost) = Reader::after(topic, position.seq());
        (reader, lost.map(|lost| Untold { gap: self.shared.gap(lost), came: position }))
    }

    /// Not behind the key's newest event, as `begin_now`: one that is being published just now lies beyond the position that the set may have
    /// told, and would be passed by it.
    fn begin_at(&self, topic: TopicArc<K, T>, here: u64) -> (TopicReader<K, T>, Option<Untold>) {
        let here = here.max(self.shared.pulse.progress.completed());
        match topic.chain.settled() {
            Some((next, seq)) if seq.max(topic.chain.floor()) <= here => (Reader::at(topic, next, here, true), None),
            _ => self.begin_after(topic, Position::new(self.shared.config.epoch, here)),
        }
    }

    fn begin_now(&self, topic: TopicArc<K, T>) -> TopicReader<K, T> {
        // Not from the hub's position: that lies on the line that the writer stores to with every publish of any key.
        if let Some((next, seq)) = topic.chain.settled() {
            let seq = seq.max(topic.chain.floor());
            return Reader::at(topic, next, seq, true);
        }
        // First: what is completed now is in the topic.
        let completed = self.shared.pulse.progress.completed();
        let next = topic.chain.word.observe().count();
        let seq = completed.max(topic.chain.floor());
        if topic.chain.last_seq() <= seq {
            return Reader::at(topic, next, seq, true);
        }
        // An event is being published just now: appended, or noted as unread and about to be, and not completed. What comes after
        // `seq` is this reader's, or its position would promise what it does not get.
        Reader::after(topic, seq).0
    }

    fn is_ahead(&self, position: Position) -> bool {
        self.shared.config.numbering == Numbering::Own && self.shared.is_ahead(position.seq())
    }

    /// A snapshot of a key, and then what follows it: nothing twice, nothing missing.
    ///
    /// The subscription is registered first. Then `take` is run, outside of every lock; of several who want a snapshot of one key at
    /// once, one runs its `take` and all share the result (if it is cancelled, another one's is run). `take` gives the items and the
    /// position that they reflect: it reads [`Hub::position`] *before* it reads the state, or the state tells its own. The
    /// subscription yields the items as events (with seq 0), [`Received::SnapshotEnd`](crate::Received::SnapshotEnd), and every event
    /// after that position, with a gap between where retention was faster.
    ///
    /// # Errors
    /// What `take` failed with, for all who shared its run.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe). If `take`, its future or the iterator that it gives panics: another one who waits runs its
    /// own, and this subscription is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future unsubscribes, and hands a run that it leads over to another one who waits.
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// use keywake::Received;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let state = [1, 2, 3];
    /// let mut reader = hub
    ///     .subscribe_with_snapshot("key", || async {
    ///         let position = hub.position();
    ///         Ok::<_, std::io::Error>((state, position))
    ///     })
    ///     .await?;
    /// publisher.publish("key", 4);
    /// let mut got = Vec::new();
    /// while let Ok(received) = reader.try_recv() {
    ///     match received {
    ///         Received::Event(event) => got.push(*event),
    ///         Received::SnapshotEnd(position) => assert_eq!(position.seq(), 0),
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(got, [1, 2, 3, 4]);
    /// # Ok::<_, keywake::SnapshotFailed>(()) }).unwrap();
    /// ```
    pub async fn subscribe_with_snapshot<Q, F, Fut, I, E>(&self, key: &Q, take: F) -> Result<Subscription<K, T>, SnapshotFailed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<(I, Position), E>>,
        I: IntoIterator<Item = T>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut subscription = self.subscribe(key);
        if subscription.is_refused() {
            return Ok(subscription);
        }
        let topic = Arc::as_ptr(subscription.topic()).addr();
        let mut take = Some(take);
        let taken = loop {
            match self.shared.flights.enter(topic) {
                Role::Join(flight) => match Landing::new(flight).await {
                    Some(outcome) => break outcome?,
                    None => continue,
                },
                Role::Lead(leader) => {
                    let Some(take) = take.take() else { unreachable!("leading ends the loop") };
                    let outcome = match take().await {
                        Ok((items, position)) => {
                            let items = Event::snapshot(items, &self.shared.account).into();
                            Ok(Taken { items, position })
                        }
                        Err(error) => Err(SnapshotFailed::new(error.into())),
                    };
                    leader.finish(outcome.clone());
                    break outcome?;
                }
            }
        };
        let (reader, gap) = self.begin_after(Arc::clone(subscription.topic()), taken.position);
        subscription.follow_snapshot(taken.items, taken.position, reader, gap);
        Ok(subscription)
    }

    /// Closes a key: its readers receive what is buffered, and then [`Closed`] with this reason. The next publish or subscribe makes a
    /// new topic. False: the key had none.
    ///
    /// # Panics
    /// If the key's own `Hash` or `Eq` does: the key is not closed then. If a woken waker panics, or the drop of a payload or key:
    /// after everything else is done, and all others have been woken.
    ///
    /// # Memory ordering
    /// What the closing thread did before happens-before what a reader does after receiving [`Closed`].
    ///
    /// # Examples
    /// ```
    /// use keywake::{CloseReason, Received, TryRecvError};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("job");
    /// publisher.publish("job", 100);
    /// assert!(hub.close("job", CloseReason::Other("done".into())));
    /// // First what is buffered, then the end.
    /// assert!(matches!(reader.try_recv(), Ok(Received::Event(event)) if *event == 100));
    /// let Err(TryRecvError::Closed(closed)) = reader.try_recv() else { panic!("the end") };
    /// assert_eq!(closed.reason().to_string(), "done");
    /// assert!(!hub.close("job", CloseReason::KeyClosed), "it has no topic any more");
    /// ```
    pub fn close<Q>(&self, key: &Q, reason: CloseReason) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.shared.hash(key);
        let mut later = Later::default();
        let shard = self.shared.registry.shard(self.shared.registry.shard_of(hash));
        let mut state = shard.lock();
        let topic = state.find_living(hash, |other| other.borrow() == key).cloned();
        if let Some(topic) = &topic {
            let ending = Ending { reason, seq: self.shared.pulse.progress.completed(), of_hub: false };
            self.shared.registry.remove(shard, &mut state, topic, Removal::Close(ending), &mut later);
        }
        drop(state);
        self.shared.settle(later);
        topic.is_some()
    }

    /// Closes the hub for good: every reader receives what is buffered, and then [`Closed`] with this reason. A publish then drops its
    /// event, a subscription ends at once. The first reason stays.
    ///
    /// # Panics
    /// If a woken waker panics, or the drop of a payload or key: after all keys are closed, and all others have been woken.
    ///
    /// # Memory ordering
    /// As [`close`](Self::close), for the call whose reason it is.
    ///
    /// # Examples
    /// ```
    /// use keywake::{CloseReason, TryRecvError};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// hub.shutdown(CloseReason::Shutdown);
    /// assert!(matches!(reader.try_recv(), Err(TryRecvError::Closed(_))));
    /// // Nothing begins any more either.
    /// assert_eq!(publisher.publish("key", 1).readers, 0);
    /// assert!(matches!(hub.subscribe("key").try_recv(), Err(TryRecvError::Closed(_))));
    /// ```
    pub fn shutdown(&self, reason: CloseReason) {
        self.shared.shutdown(reason);
    }

    /// Whether the hub was shut down, or is just being: true from the moment that the reason is settled.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// drop(publisher); // the last one: see `Builder::on_last_publisher`
    /// assert!(hub.is_shutdown());
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.shared.is_shutdown()
    }

    /// Enforces [`Builder::retain_for`] and [`Builder::keep_idle`] on quiet keys, and frees what big topics left to be freed. Nobody
    /// else does where nothing is published or subscribed: call it about every second. Passes over all topics.
    ///
    /// `now` is the caller's clock: a time to come expires what will have expired then.
    ///
    /// # Panics
    /// If the drop of a payload or key does: after the rest of the sweep is done.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    /// let (publisher, hub) = keywake::Builder::<String, u64>::new().keep_idle(Duration::from_secs(30)).build();
    /// drop(hub.subscribe("key"));
    /// hub.sweep(Instant::now());
    /// assert_eq!(hub.topics(), 1, "its last reader left just now");
    /// hub.sweep(Instant::now() + Duration::from_secs(30));
    /// assert_eq!(hub.topics(), 0);
    /// # drop(publisher);
    /// ```
    pub fn sweep(&self, now: Instant) {
        let stamp = self.shared.stamp_of(now);
        let registry = &self.shared.registry;
        let mut panics = FirstPanic::default();
        for index in 0..registry.shard_count() {
            let mut later = Later::default();
            let shard = registry.shard(index);
            if self.shared.config.limits.has_age() {
                let topics: Vec<_> = shard.lock().living().cloned().collect();
                for topic in topics {
                    topic.chain.expire(&self.shared.config.limits, stamp, &self.shared.account, &mut later.garbage);
                }
            }
            let mut state = shard.lock();
            if self.shared.config.retain_unread {
                let empty = |topic: &&TopicArc<K, T>| topic.desk.is_forgotten() && topic.chain.retained() == 0;
                let topics: Vec<_> = state.living().filter(empty).cloned().collect();
                for topic in topics {
                    registry.remove(shard, &mut state, &topic, Removal::IfEmpty, &mut later);
                    later.topics.push(topic);
                }
            }
            registry.expire_idle(shard, &mut state, now, usize::MAX, &mut later);
            drop(state);
            self.shared.settle_quietly(later, &mut panics);
        }
        panics.run(|| self.shared.free_backlog());
        self.shared.pulse.sweep(now, &mut panics);
        panics.go_on();
    }

    /// A relay, which wakes the hub's readers from inside their runtime, so that a publish wakes one task only; to be spawned there. See
    /// [`Relay`].
    ///
    /// # Examples
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let relay = tokio::spawn(hub.relay());
    /// drop(publisher); // the hub is shut down, and the relay ends
    /// relay.await.expect("it does not panic");
    /// # });
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn relay(&self) -> Relay {
        Relay::new(&self.shared.pulse)
    }

    /// The position up to which everything published can be read.
    ///
    /// # Memory ordering
    /// What the publishing thread did before the publish of an event up to this position happens-before what is done after the call.
    ///
    /// # Examples
    /// A state that is read after the position was taken misses nothing of what follows it:
    /// ```
    /// use keywake::Start;
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
    /// publisher.publish("key", 1);
    /// let position = hub.position(); // before the state is read
    /// publisher.publish("key", 2);
    /// let mut reader = hub.subscribe_from("key", Start::After(position));
    /// assert!(matches!(reader.try_recv(), Ok(keywake::Received::Event(event)) if *event == 2));
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.shared.position()
    }

    /// How many topics live: with readers, kept after them, or retained unread. Takes no lock.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let readers = [hub.subscribe("a"), hub.subscribe("a"), hub.subscribe("b")];
    /// assert_eq!(hub.topics(), 2);
    /// drop(readers);
    /// assert_eq!(hub.topics(), 0);
    /// # drop(publisher);
    /// ```
    #[must_use]
    pub fn topics(&self) -> usize {
        self.shared.registry.topics()
    }

    /// How many subscriptions a key has. Locks the key's shard, which no publish to a known key does.
    ///
    /// # Panics
    /// If the key's own `Hash` or `Eq` does.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let reader = hub.subscribe("key");
    /// assert_eq!((hub.readers("key"), hub.readers("other")), (1, 0));
    /// # drop((publisher, reader));
    /// ```
    #[must_use]
    pub fn readers<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.topic(key).map_or(0, |topic| topic.desk.readers())
    }

    /// The figures of the hub. Passes over all topics, with one shard of them locked at a time.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let reader = hub.subscribe("read");
    /// publisher.publish("read", 1);
    /// publisher.publish("unread", 2);
    /// let stats = hub.stats();
    /// assert_eq!((stats.published, stats.unread), (2, 1));
    /// assert_eq!((stats.topics, stats.readers), (1, 1));
    /// # drop(reader);
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Shared { registry, account, pulse, .. } = &*self.shared;
        let (progress, tallies) = (&pulse.progress, &pulse.tallies);
        let shards = (0..registry.shard_count()).map(|index| registry.shard(index));
        let readers = shards.map(|shard| shard.lock().living().map(|topic| topic.desk.readers()).sum::<usize>()).sum();
        Stats {
            topics: registry.topics(),
            readers,
            tombstones: registry.tombstones(),
            published: progress.published.get(),
            unread: progress.unread.get(),
            wakes: tallies.wakes.get(),
            empty_wakes: tallies.empty.get(),
            fan_outs: tallies.fan_outs.get(),
            fall_backs: tallies.fall_backs.get(),
            relay_wakes: tallies.relay_wakes.get() + progress.relay_wakes.get(),
            relay_panics: tallies.panics.get(),
            coalesced: progress.coalesced.get(),
            gaps: tallies.gaps.get(),
            retained_bytes: account.retained_bytes(),
            pinned_bytes: account.pinned_bytes(),
        }
    }

    /// The figures of a key's topic; `None`: it has none.
    ///
    /// # Panics
    /// If the key's own `Hash` or `Eq` does.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let reader = hub.subscribe("key");
    /// publisher.publish("key", 1);
    /// let stats = hub.topic_stats("key").expect("it has a reader");
    /// assert_eq!((stats.readers, stats.retained_events, stats.last_seq), (1, 1, 1));
    /// assert_eq!(hub.topic_stats("other"), None);
    /// # drop(reader);
    /// ```
    #[must_use]
    pub fn topic_stats<Q>(&self, key: &Q) -> Option<TopicStats>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.topic(key).map(|topic| self.topic_stats_of(&topic))
    }

    fn topic_stats_of(&self, topic: &Topic<K, T>) -> TopicStats {
        let counts = self.shared.config.counts_topics.then(|| {
            topic.waiters.counted().map_or_else(TopicCounts::default, |counts| TopicCounts {
                wakes: counts.wakes.get(),
                empty_wakes: counts.empty.get(),
                fan_outs: counts.fan_outs.get(),
                fall_backs: counts.fall_backs.get(),
                coalesced: counts.coalesced.get(),
                gaps: counts.gaps.get(),
            })
        });
        TopicStats {
            readers: topic.desk.readers(),
            published: topic.chain.word.observe().count(),
            retained_events: topic.chain.retained(),
            last_seq: topic.chain.last_seq(),
            counts,
        }
    }

    /// Calls `visit` for every living topic, outside of every lock. Topics that come or go meanwhile may be left out or not.
    ///
    /// # Panics
    /// If `visit` does, at once; or the drop of the key or a payload of a topic that went meanwhile.
    ///
    /// # Examples
    /// The key with the most readers:
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let readers = [hub.subscribe("a"), hub.subscribe("b"), hub.subscribe("b")];
    /// let mut top = (0, String::new());
    /// hub.for_each_topic(|key, stats| {
    ///     if stats.readers > top.0 {
    ///         top = (stats.readers, key.clone());
    ///     }
    /// });
    /// assert_eq!(top, (2, "b".to_owned()));
    /// # drop((publisher, readers));
    /// ```
    pub fn for_each_topic(&self, mut visit: impl FnMut(&K, &TopicStats)) {
        for index in 0..self.shared.registry.shard_count() {
            let topics: Vec<_> = self.shared.registry.shard(index).lock().living().cloned().collect();
            for topic in topics {
                visit(topic.key(), &self.topic_stats_of(&topic));
            }
        }
    }

    /// Waits until a key has a reader. (It may have left again when you act on it.) The future is `Send` and owns what it needs.
    ///
    /// # Errors
    /// [`Closed`] if the hub is shut down.
    ///
    /// # Panics
    /// The call, if the key's own `Hash` or `ToOwned` does; the future, if its `Eq` or the waker's `Clone` or `Drop` does.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let reader = hub.subscribe("key"); // perhaps in another task, and later
    /// hub.wait_for_reader("key").await?;
    /// assert_eq!(publisher.publish("key", 1).readers, 1);
    /// # drop(reader);
    /// # Ok::<_, keywake::Closed>(()) }).unwrap();
    /// ```
    pub fn wait_for_reader<Q>(&self, key: &Q) -> impl Future<Output = Result<(), Closed>> + Send + use<K, T, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        ReaderArrives::new(Arc::clone(&self.shared), self.shared.hash(key), key.to_owned())
    }

    fn topic<Q>(&self, key: &Q) -> Option<TopicArc<K, T>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.shared.hash(key);
        let state = self.shared.registry.shard(self.shared.registry.shard_of(hash)).lock();
        state.find_living(hash, |other| other.borrow() == key).cloned()
    }
}

impl<K: Key, T: Send + Sync + 'static> Clone for Hub<K, T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Hub<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("position", &self.position()).field("topics", &self.topics()).finish_non_exhaustive()
    }
}
