//! What a reader is told: events, losses, ends.

use std::{borrow::Cow, fmt};

use crate::{Event, EventRef, Position};

/// What a publish did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The sequence number of the event; of the last one for a batch.
    pub seq: u64,
    /// How many subscriptions the key had when the event was appended, waiting or not; the sum over the events of a batch. 0 also after a
    /// shutdown, when the event is dropped: [`Hub::is_shutdown`](crate::Hub::is_shutdown) tells the two apart.
    pub readers: usize,
}

/// One thing that a subscription yields.
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
pub enum Received<T> {
    /// A cursor without an event. Reserved: nothing yields it yet.
    Bookmark(Position),
    /// A key of a set is over: what was buffered of it has been delivered, and it is of the set no more. From a
    /// [`SubscriptionSet`](crate::SubscriptionSet) only: a subscription to one key ends with it.
    Ended(Closed),
    /// An event of the key.
    Event(Event<T>),
    /// Events of the key may be lost; the subscription goes on behind the gap. What is left of the block that the reader stands in comes
    /// before it.
    Gap(Gap),
    /// All before this was the snapshot, which reflects this position; all after it follows live.
    SnapshotEnd(Position),
}

/// [`Received`], lent: an event costs no reference count and lives until the next call on the subscription.
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
pub enum ReceivedRef<'a, T> {
    /// See [`Received::Bookmark`].
    Bookmark(Position),
    /// See [`Received::Ended`].
    Ended(Closed),
    /// See [`Received::Event`].
    Event(EventRef<'a, T>),
    /// See [`Received::Gap`].
    Gap(Gap),
    /// See [`Received::SnapshotEnd`].
    SnapshotEnd(Position),
}

/// A loss, told: events of this key with `from < seq <= to` may be missing.
///
/// # Examples
/// ```
/// use keywake::{GapCause, Received};
/// let (mut publisher, hub) = keywake::Builder::<u8, u64>::new().retain_events(1).build();
/// let mut slow = hub.subscribe(&1);
/// publisher.publish_batch((1..=100).map(|number| (1, number)));
/// let Ok(Received::Gap(gap)) = slow.try_recv() else { panic!("a gap") };
/// assert_eq!((gap.from, gap.missed, gap.cause), (0, Some(gap.to), GapCause::Retention));
/// // The subscription goes on behind it.
/// assert!(matches!(slow.try_recv(), Ok(Received::Event(event)) if event.seq() == gap.to + 1));
/// ```
///
/// For [`GapCause::OtherEpoch`] and [`GapCause::Ahead`] the range is in this hub's numbers and may be empty: what was lost of the other hub's
/// is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a gap means lost events: read the state anew, or count it"]
pub struct Gap {
    /// Nothing was lost up to and including this sequence number.
    pub from: u64,
    /// Nothing is lost after this sequence number.
    pub to: u64,
    /// How many events of this key are lost, where that is known exactly.
    pub missed: Option<u64>,
    /// Why.
    pub cause: GapCause,
}

/// Why events are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GapCause {
    /// The position lies beyond what this hub has numbered (own numbering); reading starts at now. `from == to`.
    Ahead,
    /// The reader does not keep up, and asked for the newest event then ([`Slow::Latest`](crate::Slow::Latest)).
    Conflated,
    /// The position is of another hub; what this hub retains of the key follows.
    OtherEpoch,
    /// Retention dropped the events before the reader took them.
    Retention,
    /// The source of the events lost them.
    Source,
    /// Events were published while nobody read the key and were not kept, or went with the key's topic when its last reader left.
    Unread,
}

/// Why a subscription is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The key was closed.
    KeyClosed,
    /// Another reason, in words.
    Other(Cow<'static, str>),
    /// The predicate of the subscription ([`Hub::subscribe_where`](crate::Hub::subscribe_where)) panicked.
    PredicatePanicked,
    /// The last publisher is gone.
    PublisherDropped,
    /// The hub was shut down.
    Shutdown,
    /// The reader was too slow and had asked to be closed then ([`Slow::Close`](crate::Slow::Close)).
    SlowReader,
    /// The hub holds as many topics as it may.
    TopicLimit,
}

impl CloseReason {
    /// Whether coming back with the same position makes sense: here later, or at another instance.
    ///
    /// # Examples
    /// ```
    /// use keywake::CloseReason;
    /// assert!(CloseReason::Shutdown.may_resume());
    /// assert!(!CloseReason::KeyClosed.may_resume(), "there is nothing to come");
    /// ```
    #[must_use]
    pub fn may_resume(&self) -> bool {
        match self {
            Self::PublisherDropped | Self::Shutdown | Self::SlowReader | Self::TopicLimit => true,
            Self::KeyClosed | Self::Other(_) | Self::PredicatePanicked => false,
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyClosed => "the key was closed",
            Self::Other(reason) => reason,
            Self::PredicatePanicked => "the predicate of the subscription panicked",
            Self::PublisherDropped => "the last publisher is gone",
            Self::Shutdown => "the hub was shut down",
            Self::SlowReader => "the reader was too slow",
            Self::TopicLimit => "the hub holds as many topics as it may",
        })
    }
}

/// The end of a subscription: nothing more will come, and what was buffered has been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    reason: CloseReason,
}

impl Closed {
    pub(crate) fn new(reason: CloseReason) -> Self {
        Self { reason }
    }

    /// Why it ended.
    ///
    /// # Examples
    /// ```
    /// use keywake::{CloseReason, TryRecvError};
    /// let (publisher, hub) = keywake::hub::<u8, u64>();
    /// let mut reader = hub.subscribe(&1);
    /// hub.close(&1, CloseReason::KeyClosed);
    /// let Err(TryRecvError::Closed(closed)) = reader.try_recv() else { panic!("the end") };
    /// assert_eq!(closed.reason(), &CloseReason::KeyClosed);
    /// assert_eq!(closed.to_string(), "the subscription is closed: the key was closed");
    /// # drop(publisher);
    /// ```
    #[must_use]
    pub fn reason(&self) -> &CloseReason {
        &self.reason
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the subscription is closed: {}", self.reason)
    }
}

impl std::error::Error for Closed {}

/// Why [`Subscription::try_recv`](crate::Subscription::try_recv) has nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The subscription is over.
    Closed(Closed),
    /// Nothing is unread now; more may come.
    Empty,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(closed) => closed.fmt(f),
            Self::Empty => f.write_str("nothing to receive now"),
        }
    }
}

impl std::error::Error for TryRecvError {}

/// Why [`Subscription::recv_timeout`](crate::Subscription::recv_timeout) has nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The subscription is over.
    Closed(Closed),
    /// Nothing came in time; more may come.
    Timeout,
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(closed) => closed.fmt(f),
            Self::Timeout => f.write_str("nothing to receive in time"),
        }
    }
}

impl std::error::Error for RecvTimeoutError {}
