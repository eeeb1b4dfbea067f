//! The publishing ends of a hub: one writer, a shared one, and one that takes its source's numbers.

use std::{borrow::Borrow, fmt, hash::Hash, marker::PhantomData, ops::RangeInclusive};

use super::{
    Hub,
    shared::{AsKey, Borrowed, Owned, Shared},
    writer::{Weighed, Writer, settle},
};
use crate::{
    GapCause, Key, Position, Published,
    sync::{Arc, Mutex},
};

/// The one writer of a hub that numbers its events itself. Dropping it closes the hub, unless
/// [`Builder::on_last_publisher`](crate::Builder::on_last_publisher) says otherwise; a panic of a woken waker, or of the drop of a
/// payload or key, surfaces from that when all is closed and all others have been woken, as for [`Hub::shutdown`].
///
/// It is not `Clone`; for several producers there is [`shared`](Self::shared):
///
/// ```compile_fail
/// let (publisher, _hub) = keywake::hub::<u8, u8>();
/// let second = publisher.clone();
/// ```
/// ```
/// let (publisher, _hub) = keywake::hub::<u8, u8>();
/// let publisher = publisher.shared();
/// let second = publisher.clone();
/// # drop(second);
/// ```
pub struct Publisher<K: Key, T: Send + Sync + 'static> {
    writer: Writer<K, T>,
}

impl<K: Key, T: Send + Sync + 'static> Publisher<K, T> {
    pub(crate) fn new(writer: Writer<K, T>) -> Self {
        Self { writer }
    }

    /// Publishes an event under a key, and wakes the readers of that key that wait.
    ///
    /// Takes no lock where the key's topic is known, allocates only for a new block, and never waits for a reader. An event for a
    /// key without a topic is not kept (its seq is), unless [`Builder::retain_unread`](crate::Builder::retain_unread) is set, in
    /// which case the key is cloned and the topic made. After a shutdown the event is dropped.
    ///
    /// # Panics
    /// * If a woken waker panics, or the drop of a payload or key that nobody needs any more: after the event is published,
    ///   everything else is done, and all others have been woken.
    /// * If the key's own `Hash` or the weigher does: before anything is published.
    /// * If the key's own `Eq` or `ToOwned` does: the event is dropped, and its number is not used again.
    /// * If the numbers are used up, which takes [`Position::MAX_SEQ`] events.
    ///
    /// # Memory ordering
    /// What the publishing thread did before happens-before what a reader does after receiving the event.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u32>();
    /// assert_eq!(publisher.publish("a", 1).readers, 0);
    /// let reader = hub.subscribe("a");
    /// let published = publisher.publish("a", 2);
    /// assert_eq!((published.seq, published.readers), (2, 1));
    /// # drop(reader);
    /// ```
    #[inline]
    pub fn publish<Q>(&mut self, key: &Q, event: T) -> Published
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.writer.shared().hash(key);
        self.publish_as(Borrowed(key, PhantomData), hash, event)
    }

    /// As [`publish`](Self::publish), for keys that are not the owned form of anything, like `Arc<str>`.
    ///
    /// # Panics
    /// As [`publish`](Self::publish).
    ///
    /// # Memory ordering
    /// As [`publish`](Self::publish).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<(u32, u32), &str>();
    /// let reader = hub.subscribe_owned((1, 2));
    /// assert_eq!(publisher.publish_owned((1, 2), "hello").readers, 1);
    /// # drop(reader);
    /// ```
    #[inline]
    pub fn publish_owned(&mut self, key: K, event: T) -> Published {
        let hash = self.writer.shared().hash(&key);
        self.publish_as(Owned(key), hash, event)
    }

    #[inline]
    fn publish_as(&mut self, key: impl AsKey<K>, hash: u64, event: T) -> Published {
        let weight = weigh(self.writer.shared(), &event);
        let (published, unread) = self.writer.publish(&key, hash, event, weight);
        settle_own(&mut self.writer);
        drop(unread);
        published
    }

    /// Publishes several events in order. The hub's position moves once, and each key is woken once.
    ///
    /// The answer has the last event's seq, or the current one for an empty batch, and the readers summed up over the events.
    ///
    /// # Panics
    /// As [`publish`](Self::publish). A panic of the iterator, of a key's own `Hash` or of the weigher comes before anything is
    /// published. One of a key's `Eq` or `Clone` comes in the middle: the events before it are published, and their readers woken by
    /// the next publish at the latest; the others are dropped.
    ///
    /// # Memory ordering
    /// As [`publish`](Self::publish).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<&str, u32>();
    /// let mut reader = hub.subscribe_owned("b");
    /// publisher.publish_batch([("a", 1), ("b", 2), ("b", 3)]);
    /// let mut got = Vec::new();
    /// while let Ok(keywake::ReceivedRef::Event(event)) = reader.try_recv_ref() {
    ///     got.push(*event);
    /// }
    /// assert_eq!(got, [2, 3]);
    /// ```
    pub fn publish_batch<I: IntoIterator<Item = (K, T)>>(&mut self, events: I) -> Published {
        let mut events = weigh_all(self.writer.shared(), events);
        let published = self.writer.publish_batch(&mut events);
        settle_own(&mut self.writer);
        published
    }

    /// The position of the last event; before the first, that of [`Builder::start_seq`](crate::Builder::start_seq).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<u8, u64>();
    /// let seq = publisher.publish(&1, 1).seq;
    /// assert_eq!(publisher.position().seq(), seq);
    /// assert_eq!(publisher.position(), hub.position());
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.writer.position()
    }

    /// The readers' side.
    ///
    /// # Examples
    /// ```
    /// fn readers(publisher: &keywake::Publisher<String, u64>, key: &str) -> usize {
    ///     publisher.hub().readers(key)
    /// }
    /// # assert_eq!(readers(&keywake::hub().0, "key"), 0);
    /// ```
    #[must_use]
    pub fn hub(&self) -> Hub<K, T> {
        Hub::new(Arc::clone(self.writer.shared()))
    }

    /// Puts the writer behind a mutex, for several producers.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let publisher = publisher.shared();
    /// let producers = [1, 2].map(|number| {
    ///     let publisher = publisher.clone();
    ///     std::thread::spawn(move || publisher.publish("key", number))
    /// });
    /// producers.map(|producer| producer.join().expect("it does not panic"));
    /// assert_eq!(hub.position().seq(), 2);
    /// ```
    #[must_use]
    pub fn shared(self) -> SharedPublisher<K, T> {
        let shared = Arc::clone(self.writer.shared());
        SharedPublisher { writer: Arc::new(Mutex::new(self.writer)), shared }
    }
}

/// The writer of a hub behind a mutex, for several producers. Dropping the last clone closes the hub, as for [`Publisher`].
///
/// The mutex is held for the numbering and the append only: it is released before payloads are dropped or anybody is woken, so a
/// waker or a payload's `Drop` may publish again.
pub struct SharedPublisher<K: Key, T: Send + Sync + 'static> {
    writer: Arc<Mutex<Writer<K, T>>>,
    shared: Arc<Shared<K, T>>,
}

impl<K: Key, T: Send + Sync + 'static> SharedPublisher<K, T> {
    /// As [`Publisher::publish`]. Producers wait for each other, never for a reader.
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    ///
    /// # Memory ordering
    /// As [`Publisher::publish`]; and what a producer did before its publish happens-before what a reader does after receiving a later
    /// event of any producer.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let publisher = publisher.shared(); // `&self` from here on
    /// let mut reader = hub.subscribe("key");
    /// publisher.clone().publish("key", 1);
    /// publisher.publish("key", 2);
    /// assert_eq!(reader.lag(), 2);
    /// # drop(reader.try_recv());
    /// ```
    pub fn publish<Q>(&self, key: &Q, event: T) -> Published
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.publish_as(Borrowed(key, PhantomData), self.shared.hash(key), event)
    }

    /// As [`Publisher::publish_owned`].
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    ///
    /// # Memory ordering
    /// As [`publish`](Self::publish).
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<(u32, u32), u64>();
    /// let publisher = publisher.shared();
    /// assert_eq!(publisher.publish_owned((1, 2), 1).seq, 1);
    /// # drop(hub);
    /// ```
    pub fn publish_owned(&self, key: K, event: T) -> Published {
        let hash = self.shared.hash(&key);
        self.publish_as(Owned(key), hash, event)
    }

    fn publish_as(&self, key: impl AsKey<K>, hash: u64, event: T) -> Published {
        let weight = weigh(&self.shared, &event);
        let (published, unread) = self.locked(|writer| writer.publish(&key, hash, event, weight));
        drop(unread);
        published
    }

    /// As [`Publisher::publish_batch`]: no other producer's event comes between.
    ///
    /// # Panics
    /// As [`Publisher::publish_batch`].
    ///
    /// # Memory ordering
    /// As [`publish`](Self::publish).
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<&str, u64>();
    /// let publisher = publisher.shared();
    /// let reader = hub.subscribe_owned("a");
    /// let published = publisher.publish_batch([("a", 1), ("b", 2), ("a", 3)]);
    /// assert_eq!((published.seq, published.readers), (3, 2));
    /// # drop(reader);
    /// ```
    pub fn publish_batch<I: IntoIterator<Item = (K, T)>>(&self, events: I) -> Published {
        let mut events = weigh_all(&self.shared, events);
        self.locked(|writer| writer.publish_batch(&mut events))
    }

    fn locked<R>(&self, publish: impl FnOnce(&mut Writer<K, T>) -> R) -> R {
        let mut writer = self.writer.lock();
        let published = publish(&mut writer);
        let after = writer.take_after();
        drop(writer);
        if let Some(after) = after {
            settle(&self.shared, after);
        }
        self.shared.free_one_block();
        published
    }

    /// The position of the last event that is readable, as [`Hub::position`](crate::Hub::position).
    #[must_use]
    pub fn position(&self) -> Position {
        self.shared.position()
    }

    /// The readers' side.
    #[must_use]
    pub fn hub(&self) -> Hub<K, T> {
        Hub::new(Arc::clone(&self.shared))
    }
}

impl<K: Key, T: Send + Sync + 'static> Clone for SharedPublisher<K, T> {
    fn clone(&self) -> Self {
        Self { writer: Arc::clone(&self.writer), shared: Arc::clone(&self.shared) }
    }
}

/// The writer of a hub that takes over the numbers of a source with its own log (JetStream, Raft). From
/// [`Builder::build_from_source`](crate::Builder::build_from_source).
///
/// It has no `publish`: numbers of two kinds would not mix.
///
/// ```compile_fail
/// let (mut publisher, _hub) = keywake::Builder::<u8, u8>::new().build_from_source();
/// publisher.publish(&1, 1);
/// ```
/// ```
/// let (mut publisher, _hub) = keywake::Builder::<u8, u8>::new().build_from_source();
/// publisher.publish_at(1, &1, 1).expect("1 comes after 0");
/// ```
pub struct SourcePublisher<K: Key, T: Send + Sync + 'static> {
    writer: Writer<K, T>,
}

impl<K: Key, T: Send + Sync + 'static> SourcePublisher<K, T> {
    pub(crate) fn new(writer: Writer<K, T>) -> Self {
        Self { writer }
    }

    /// Publishes an event under the source's number for it. Otherwise as [`Publisher::publish`].
    ///
    /// # Errors
    /// The number must be above all before it, and at most [`Position::MAX_SEQ`]; the event comes back.
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    ///
    /// # Memory ordering
    /// As [`Publisher::publish`].
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().build_from_source();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish_at(17, "key", 1).expect("17 comes after 0"); // numbers may be left out
    /// let Ok(keywake::Received::Event(event)) = reader.try_recv() else { panic!("an event") };
    /// assert_eq!(event.seq(), 17);
    /// // A source that delivers twice: the event is refused, and comes back.
    /// let refused = publisher.publish_at(17, "key", 1).expect_err("17 does not come after 17");
    /// assert_eq!((refused.event, refused.error), (1, keywake::SeqError::NotRising { seq: 17, last: 17 }));
    /// ```
    pub fn publish_at<Q>(&mut self, seq: u64, key: &Q, event: T) -> Result<Published, PublishAtError<T>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.writer.shared().hash(key);
        self.publish_at_as(seq, Borrowed(key, PhantomData), hash, event)
    }

    /// As [`publish_at`](Self::publish_at), for keys that are not the owned form of anything.
    ///
    /// # Errors
    /// As [`publish_at`](Self::publish_at).
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    ///
    /// # Memory ordering
    /// As [`Publisher::publish`].
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<(u32, u32), u64>::new().build_from_source();
    /// publisher.publish_owned_at(1, (1, 2), 1).expect("1 comes after 0");
    /// # drop(hub);
    /// ```
    pub fn publish_owned_at(&mut self, seq: u64, key: K, event: T) -> Result<Published, PublishAtError<T>> {
        let hash = self.writer.shared().hash(&key);
        self.publish_at_as(seq, Owned(key), hash, event)
    }

    fn publish_at_as(&mut self, seq: u64, key: impl AsKey<K>, hash: u64, event: T) -> Result<Published, PublishAtError<T>> {
        let weight = weigh(self.writer.shared(), &event);
        let published = self.writer.publish_at(seq, &key, hash, event, weight);
        settle_own(&mut self.writer);
        published.map(|(published, _unread)| published).map_err(|(event, error)| PublishAtError { event, error })
    }

    /// A bookmark without an event: everything of the source up to `seq` has been published, or was not for this hub. Moves the
    /// position of every reader that has read all; wakes nobody.
    ///
    /// # Errors
    /// As for [`publish_at`](Self::publish_at).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().build_from_source();
    /// let reader = hub.subscribe("quiet");
    /// publisher.advance_to(1_000).expect("1,000 comes after 0");
    /// assert_eq!(reader.position().seq(), 1_000, "it need not come back with an old number");
    /// ```
    pub fn advance_to(&mut self, seq: u64) -> Result<(), SeqError> {
        self.writer.advance_to(seq)
    }

    /// The source lost these of its numbers: every reader of every key is told of a [`Gap`](crate::Gap) with this cause, behind what
    /// came before; and so is whoever comes back from before it. Costs a pass over all topics.
    ///
    /// # Errors
    /// As for [`publish_at`](Self::publish_at), for both ends; an empty range is one too.
    ///
    /// # Panics
    /// If a woken waker panics, or the drop of a payload or key: after every reader can read of the loss, and all others have been
    /// woken.
    ///
    /// # Examples
    /// ```
    /// use keywake::{GapCause, Received};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().build_from_source();
    /// let mut reader = hub.subscribe("key");
    /// publisher.lost(5..=9, GapCause::Source).expect("5 comes after 0");
    /// let Ok(Received::Gap(gap)) = reader.try_recv() else { panic!("a gap") };
    /// assert_eq!((gap.from, gap.to, gap.cause), (4, 9, GapCause::Source));
    /// ```
    pub fn lost(&mut self, range: RangeInclusive<u64>, cause: GapCause) -> Result<(), SeqError> {
        self.writer.lost(*range.start(), *range.end(), cause)?;
        settle_own(&mut self.writer);
        Ok(())
    }

    /// The position of the last number taken over.
    #[must_use]
    pub fn position(&self) -> Position {
        self.writer.position()
    }

    /// The readers' side.
    #[must_use]
    pub fn hub(&self) -> Hub<K, T> {
        Hub::new(Arc::clone(self.writer.shared()))
    }
}

/// Why a source's number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeqError {
    /// It is not above `last`, the one before it.
    NotRising {
        /// The number refused.
        seq: u64,
        /// The number before.
        last: u64,
    },
    /// It is above [`Position::MAX_SEQ`].
    TooLarge {
        /// The number refused.
        seq: u64,
    },
}

impl fmt::Display for SeqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRising { seq, last } => write!(f, "sequence number {seq} does not come after {last}"),
            Self::TooLarge { seq } => write!(f, "sequence number {seq} is above {}", Position::MAX_SEQ),
        }
    }
}

impl std::error::Error for SeqError {}

/// An event that was not published, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishAtError<T> {
    /// The event.
    pub event: T,
    /// Why it was refused.
    pub error: SeqError,
}

impl<T> fmt::Display for PublishAtError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for PublishAtError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[inline]
fn settle_own<K: Key, T: Send + Sync + 'static>(writer: &mut Writer<K, T>) {
    if let Some(after) = writer.take_after() {
        settle(writer.shared(), after);
    }
    writer.shared().free_one_block();
}

/// An event counts for at most this much: sums of weights must not overflow, whatever a weigher says. 1 TiB is more than a machine has.
const MAX_WEIGHT: u64 = 1 << 40;

/// The weigher is user code: run before any lock is taken.
#[inline]
fn weigh<K: Key, T: Send + Sync + 'static>(shared: &Shared<K, T>, event: &T) -> u64 {
    shared.config.weigher.as_ref().map_or(0, |weigher| (weigher(event) as u64).min(MAX_WEIGHT))
}

fn weigh_all<K: Key, T: Send + Sync + 'static>(
    shared: &Shared<K, T>,
    events: impl IntoIterator<Item = (K, T)>,
) -> Vec<Weighed<K, T>> {
    let weighed =
        |(key, event)| Weighed { hash: shared.hash(&key), weight: weigh(shared, &event), key: Owned(key), event: Some(event) };
    events.into_iter().map(weighed).collect()
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Publisher<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for SharedPublisher<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPublisher").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for SourcePublisher<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourcePublisher").field("position", &self.position()).finish_non_exhaustive()
    }
}
