//! One reader of many keys, with one waker and one position.
//!
//! # How it costs what is ready, and not what there is
//! Each key is an [`Entry`](entry::Entry) with a reader of its own, and in one of these phases: *parked* at its topic, where the publish of
//! an event marks it (puts it into the set's list, see `wake/member.rs`); *awake*, having read all and not being parked, of which there are
//! a few; *ready*, its next event found and put into a heap by its number. A receive takes over the list, looks at the few, and delivers
//! what comes first. Those that are parked cost nothing.
//!
//! # What its position promises
//! Everything up to it was delivered, of all keys; so resuming each key from it is exact. `known` is the watermark (see
//! [`Roster`](roster::Roster)): of everything up to it the set knows whether it is of one of its keys. Only what lies at or below it is
//! delivered, the lowest number first; so what is still to come is above the last one delivered, or in the heap.

mod entry;
mod find;
mod matching;
mod roster;

use std::{
    borrow::Borrow,
    cmp::Reverse,
    collections::BinaryHeap,
    fmt,
    future::Future,
    hash::Hash,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hashbrown::HashTable;

use self::{
    entry::{Entry, Phase, Ready},
    find::{Found, WARM},
    matching::Matching,
};
pub(crate) use self::{matching::Patterns, roster::Roster};
use super::{
    Hub, Opened, Start, TopicReader,
    shared::{AsKey, Borrowed, FirstPanic, Owned},
};
use crate::{
    CloseReason, Closed, GapCause, Key, Position, Received, ReceivedRef, RecvTimeoutError, TryRecvError,
    sync::{Arc, PlainArc},
    wake::{Core, Member},
};

/// One reader of many keys; from [`Hub::subscribe_set`]. Dropping it unsubscribes from all of them; a panic of the drop of a waker, payload
/// or key surfaces from that when it has left them all.
///
/// It yields what a [`Subscription`](crate::Subscription) to each of its keys would, each item with its key, **in the order of the numbers
/// over all its keys**. What it costs depends on what comes, and not on how many keys are quiet. All ways to read may be mixed, as for
/// a subscription.
///
/// ```
/// use keywake::Received;
/// let (mut publisher, hub) = keywake::hub::<String, u64>();
/// let mut set = hub.subscribe_set();
/// set.add("sea");
/// set.add("sky");
/// publisher.publish("sky", 1);
/// publisher.publish("sea", 2);
/// let mut got = Vec::new();
/// while let Ok((key, Received::Event(event))) = set.try_recv() {
///     got.push((key.to_string(), *event));
/// }
/// assert_eq!(got, [("sky".to_owned(), 1), ("sea".to_owned(), 2)]);
/// ```
///
/// # One position for all keys
/// [`position`](Self::position) is the cursor of the whole set: every event of its keys up to it was delivered, or told as lost, and none
/// after it, but for losses (below). Coming back with [`add_from`](Self::add_from) and [`Start::After`] that position, for every key, is
/// exact: nothing twice, and what is missing is told as a gap, with its key.
///
/// ```
/// use keywake::{Received, Start};
/// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
/// let keys = ["a", "b", "c"];
/// let mut set = hub.subscribe_set();
/// for key in keys {
///     set.add(key);
/// }
/// publisher.publish("a", 1);
/// publisher.publish("b", 2);
/// publisher.publish("a", 3);
/// assert!(matches!(set.try_recv(), Ok((_, Received::Event(event))) if *event == 1));
/// let position = set.position().to_string();
/// drop(set);
/// let mut set = hub.subscribe_set();
/// for key in keys {
///     set.add_from(key, Start::After(position.parse()?));
/// }
/// assert!(matches!(set.try_recv(), Ok((_, Received::Event(event))) if *event == 2));
/// assert!(matches!(set.try_recv(), Ok((_, Received::Event(event))) if *event == 3));
/// # Ok::<_, keywake::ParsePositionError>(())
/// ```
///
/// Three things follow from there being one position only:
/// * A key or a pattern that is added from before it takes it back, until what that has to tell is delivered.
/// * A key that is added later with [`Start::Next`] begins at now, and not behind an event that is just being published: who comes back
///   with a position from before that gets what lay between.
/// * A loss is told where it begins, also if it reaches beyond the events of other keys that are still to come. Who comes back from a
///   position within it is told the rest of it again.
///
/// # Ends
/// A key that is closed yields [`Received::Ended`] after what was buffered of it, and is of the set no more: the next publish makes a
/// new topic, which [`add`](Self::add) reads. A set is over only when its hub is shut down, after what was buffered of all keys; until then one
/// without keys waits.
pub struct SubscriptionSet<K: Key, T: Send + Sync + 'static> {
    hub: Hub<K, T>,
    core: Arc<Core>,
    entries: Vec<Option<Entry<K, T>>>,
    /// Places in `entries` that are free.
    free: Vec<u32>,
    by_key: HashTable<u32>,
    /// Those that are ready, by their ranks; and, but never first, some that were and have been removed.
    order: BinaryHeap<Reverse<Ready>>,
    /// Those that are awake, and some that were and have been removed.
    awake: Vec<u32>,
    /// The key of what was delivered last: it stays where it is until the next call, since that may have been lent.
    current: Option<u32>,
    /// A key that ended, likewise.
    gone: Option<Entry<K, T>>,
    /// The watermark.
    known: u64,
    /// The highest number of an event that was found.
    seen: u64,
    /// Of those that are over: how many there are, and up to where none of them missed anything.
    number_over: usize,
    over: Option<u64>,
    /// While keys are to be told first that they came from elsewhere: how many, and a position that one of them came with.
    foreign: Option<(Position, u32)>,
    /// The last few that were parked, and may hold a block.
    warm: [u32; WARM],
    next_warm: usize,
    is_asleep: bool,
    is_held: bool,
    #[cfg(not(feature = "tokio"))]
    /// Results in a row.
    run: u8,
    closed: Option<Closed>,
    matching: Option<Box<Matching<K, T>>>,
}

impl<K: Key, T: Send + Sync + 'static> Hub<K, T> {
    /// A reader of many keys, none yet.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// assert!(set.add("key"));
    /// assert_eq!((set.len(), hub.readers("key")), (1, 1));
    /// # drop(publisher);
    /// ```
    #[must_use]
    pub fn subscribe_set(&self) -> SubscriptionSet<K, T> {
        let core = Arc::new(Core::new());
        self.shared.pulse.roster.join(&core);
        SubscriptionSet {
            core,
            entries: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            order: BinaryHeap::new(),
            awake: Vec::new(),
            current: None,
            gone: None,
            known: self.shared.pulse.progress.completed(),
            seen: 0,
            number_over: 0,
            over: None,
            foreign: None,
            warm: [u32::MAX; WARM],
            next_warm: 0,
            is_asleep: false,
            is_held: false,
            #[cfg(not(feature = "tokio"))]
            run: 0,
            closed: None,
            matching: None,
            hub: self.clone(),
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> SubscriptionSet<K, T> {
    /// Reads a key from now on: [`add_from`](Self::add_from) with [`Start::Next`]. False: it is in the set already.
    ///
    /// The key begins where the set's [`position`](Self::position) stands, or where the hub has come to since, and does not take it back.
    /// So what is published after this returned is received, and so is an event that is on its way meanwhile, in a publisher's hands: the
    /// position will pass it, and passes nothing that was not told. If retention, or the end of the key's topic, takes such an event
    /// away first, a gap comes of it, which may be the first that is told of the key.
    ///
    /// # Panics
    /// As [`add_from`](Self::add_from).
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// assert!(set.add("key"));
    /// assert!(!set.add("key"), "once is enough");
    /// # drop(publisher);
    /// ```
    pub fn add<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.add_from(key, Start::Next)
    }

    /// As [`add`](Self::add), for keys that are not the owned form of anything, like `Arc<str>`.
    ///
    /// # Panics
    /// As [`add_from`](Self::add_from).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<(u32, u32), u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add_owned((1, 2));
    /// publisher.publish_owned((1, 2), 3);
    /// assert!(matches!(set.try_recv(), Ok((key, _)) if *key == (1, 2)));
    /// ```
    pub fn add_owned(&mut self, key: K) -> bool {
        self.add_owned_from(key, Start::Next)
    }

    /// Reads a key from where `start` says. False: it is in the set already, and nothing changes.
    ///
    /// From before the set's [`position`](Self::position), it takes that back, until what the key has to tell is delivered: that comes
    /// next, though its numbers may be lower than those of what was received before. With [`Start::Next`] see [`add`](Self::add).
    ///
    /// At the limit of topics, the key's [`Received::Ended`] is all that comes of it.
    ///
    /// # Panics
    /// If the key's own `Hash`, `Eq` or `ToOwned` does: it is not added then. If a woken waker (of
    /// [`Hub::wait_for_reader`]) panics, or the drop of a payload or key that this call let go of: after everything
    /// else is done, and the key added.
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
    /// publisher.publish("key", 1);
    /// let mut set = hub.subscribe_set();
    /// set.add_from("key", Start::Oldest);
    /// assert!(matches!(set.try_recv(), Ok((_, Received::Event(event))) if *event == 1));
    /// ```
    pub fn add_from<Q>(&mut self, key: &Q, start: Start) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hub.shared.hash(key);
        self.add_as(Borrowed(key, PhantomData), hash, start)
    }

    /// As [`add_from`](Self::add_from), for keys that are not the owned form of anything.
    ///
    /// # Panics
    /// As [`add_from`](Self::add_from).
    ///
    /// # Examples
    /// ```
    /// use keywake::Start;
    /// let (mut publisher, hub) = keywake::Builder::<(u32, u32), u64>::new().retain_unread(true).build();
    /// publisher.publish_owned((1, 2), 1);
    /// let mut set = hub.subscribe_set();
    /// set.add_owned_from((1, 2), Start::Latest);
    /// assert_eq!(set.lag(), 1);
    /// ```
    pub fn add_owned_from(&mut self, key: K, start: Start) -> bool {
        let hash = self.hub.shared.hash(&key);
        self.add_as(Owned(key), hash, start)
    }

    fn add_as(&mut self, key: impl AsKey<K>, hash: u64, start: Start) -> bool {
        self.take_brought();
        if self.index_of(hash, |other| key.is(other)).is_some() {
            return false;
        }
        // User code, so before anything is changed.
        let own = PlainArc::new(key.to_key());
        // First: what is published later is above it.
        let here = self.reached();
        let (opened, later) = self.hub.open(key, hash, start, Some(here));
        let mut panics = FirstPanic::default();
        // A pattern may have brought the topic by now: it is read from its first event on then. So is one that we have made, unless we were
        // to begin earlier.
        let is_made = later.made > 0;
        if !is_made || matches!(start, Start::Next | Start::Latest) {
            panics.run(|| self.take_brought());
        }
        let is_new = !self.has_topic(opened.reader.home());
        if is_new {
            panics.run(|| self.take_in(own, opened, start, here));
        } else {
            panics.run(|| self.leave_again(opened.reader));
        }
        panics.run(|| self.take_brought());
        self.hub.shared.settle_quietly(later, &mut panics);
        panics.go_on();
        is_new || is_made
    }

    /// Takes in a key whose topic was joined, when the set had come to `here`.
    fn take_in(&mut self, key: PlainArc<K>, mut opened: Opened<K, T>, start: Start, here: u64) {
        let ahead = opened.gap.as_mut().map(|untold| &mut untold.gap).filter(|gap| gap.cause == GapCause::Ahead);
        if start == Start::Next || ahead.is_some() {
            // It begins at now: the key's last event may lie far back, and the position is not to go back to that.
            opened.reader.know(here);
        }
        if let Some(gap) = ahead {
            (gap.from, gap.to) = (opened.reader.seq(), opened.reader.seq());
        }
        let Opened { reader, gap, refused } = opened;
        let index = self.insert(key, reader);
        let shared = Arc::clone(&self.hub.shared);
        let Some(entry) = self.entry_mut(index) else { return };
        if let Some(untold) = gap {
            entry.begin_with(untold);
        } else if let Some((reason, came)) = refused {
            entry.refuse(reason, came, &shared);
        }
        self.begin(index);
    }

    fn leave_again(&self, mut reader: TopicReader<K, T>) {
        let mut panics = FirstPanic::default();
        panics.run(|| reader.leave());
        panics.run(|| self.leave_topic(Arc::clone(reader.home())));
        panics.run(|| drop(reader));
        panics.go_on();
    }

    /// Takes in a key, which stands in none of the lists yet.
    fn insert(&mut self, key: PlainArc<K>, reader: TopicReader<K, T>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            let index = u32::try_from(self.entries.len() - 1).ok().filter(|index| *index != Member::INBOX);
            // Not reached: 2^32 keys of a hundred bytes come first.
            index.unwrap_or_else(|| std::process::abort())
        });
        let hash = reader.home().hash();
        let entry = Entry::new(key, reader, Member::new(Arc::clone(&self.core), index));
        self.entries[index as usize] = Some(entry);
        let entries = &self.entries;
        self.by_key.insert_unique(hash, index, |index| entries[*index as usize].as_ref().map_or(0, |entry| entry.topic().hash()));
        index
    }

    /// Lets a key that was taken in begin, with what it is to tell first, or with its topic.
    fn begin(&mut self, index: u32) {
        let Some(entry) = self.entry(index) else { return };
        let (phase, ready) = (entry.phase(), entry.ready(index));
        if let Some(came) = entry.came() {
            self.foreign.get_or_insert((came, 0)).1 += 1;
        }
        match phase {
            Phase::Ready => self.order.push(Reverse(ready)),
            Phase::Over => self.note_over(index),
            _ => {
                self.awake.push(index);
                self.go_on_awake(self.awake.len() - 1, index);
            }
        }
        self.limit_awake();
    }

    /// Reads a key no more. False: it is not in the set. What of it was not delivered yet is not, and its [`Received::Ended`] does not come.
    ///
    /// # Panics
    /// If the key's own `Hash` or `Eq` does: it stays then. If the drop of a payload or key does that this call let go of: after the key is
    /// removed.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("key");
    /// publisher.publish("key", 1);
    /// assert!(set.remove("key") && !set.remove("key"));
    /// assert!(set.try_recv().is_err());
    /// ```
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.take_brought();
        let Some(index) = self.find_index(key) else { return false };
        if self.current == Some(index) {
            self.current = None;
        }
        let entry = self.take_out(index);
        self.tidy_order();
        let mut panics = FirstPanic::default();
        if let Some(entry) = entry {
            self.let_go(entry, &mut panics);
        }
        panics.go_on();
        true
    }

    /// Whether a key is in the set.
    ///
    /// # Panics
    /// If the key's own `Hash` or `Eq` does.
    ///
    /// # Examples
    /// ```
    /// # let (publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("key");
    /// assert!(set.contains("key") && !set.contains("another"));
    /// # drop(publisher);
    /// ```
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find_index(key).is_some()
    }

    /// How many keys are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none. A set without keys waits, until its hub is shut down.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The keys, in no order.
    ///
    /// # Examples
    /// ```
    /// # let (publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("b");
    /// set.add("a");
    /// let mut keys: Vec<_> = set.keys().map(|key| key.as_str()).collect();
    /// keys.sort_unstable();
    /// assert_eq!(keys, ["a", "b"]);
    /// # drop(publisher);
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &PlainArc<K>> {
        self.entries.iter().flatten().map(|entry| &entry.key)
    }

    /// The position of the whole set: every event of its keys up to it was delivered, or told as lost. Once all is read it is the hub's, and
    /// moves without events; otherwise that of the last event received, or a later one. [`Start::After`] it is exact, for all keys.
    ///
    /// While a key that came with a position of another epoch, or from ahead of the hub, is still to be told so, it is that position. It goes
    /// back where a key or a pattern is added from before it; and, to where the set last looked for what came, where a pattern brings a
    /// topic that begins with a loss. Where a hub is shut down while events are published, it may lie before the last events
    /// received: after those, other keys may have missed some.
    ///
    /// Looks at no key that is quiet.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("a");
    /// set.add("b");
    /// publisher.publish("b", 1);
    /// publisher.publish("a", 2);
    /// publisher.publish("another", 3);
    /// assert_eq!(set.position().seq(), 0);
    /// assert!(set.try_recv().is_ok());
    /// assert_eq!(set.position().seq(), 1, "2 is still to come");
    /// assert!(set.try_recv().is_ok());
    /// assert_eq!(set.position().seq(), 3, "of these keys nothing was missed up to there");
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        let here = || Position::new(self.hub.shared.config.epoch, self.reached());
        self.foreign.map_or_else(here, |(came, _)| came)
    }

    /// The same, but for where keys came from.
    fn reached(&self) -> u64 {
        let shared = &self.hub.shared;
        // First: what is appended later than this may be unread, and is not covered.
        let now = shared.pulse.watermark(shared.pulse.progress.completed().max(self.seen), self.known);
        let is_quiet = |entry: &Entry<K, T>| entry.phase() != Phase::Awake || entry.is_quiet();
        let has_newcomers = self.matching.as_ref().is_some_and(|matching| matching.has_newcomers());
        let all_quiet =
            !has_newcomers && !self.core.has_marked() && self.awake.iter().all(|index| self.entry(*index).is_none_or(is_quiet));
        let mut seq = if all_quiet { now } else { self.known };
        if let Some(next) = self.first_numbered() {
            seq = seq.min(next.rank - 1);
        }
        if let Some(current) = self.current.and_then(|index| self.entry(index)).filter(|entry| !entry.is_quiet()) {
            seq = seq.min(current.seq());
        }
        seq.min(self.over.unwrap_or(u64::MAX))
    }

    /// How many retained events of its keys this set has not received. Looks at every key.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("a");
    /// set.add("b");
    /// publisher.publish("a", 1);
    /// publisher.publish("b", 2);
    /// assert_eq!(set.lag(), 2);
    /// ```
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.entries.iter().flatten().map(Entry::lag).sum()
    }

    /// Why it ended, once it did: after `Err(Closed)`, or `None` of the stream.
    #[must_use]
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.closed.as_ref().map(Closed::reason)
    }

    /// Receives the next thing and its key, waiting for it.
    ///
    /// # Errors
    /// [`Closed`], for good, once the hub is shut down and what was buffered of all keys has been received.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped: the places in the buffers move only when it is ready.
    ///
    /// # Panics
    /// If the drop of a payload does that this reader was the last to hold, or of a key, or the waker's `Clone`, `Drop` or `wake`: nothing is
    /// lost by it, and the next call goes on.
    ///
    /// # Memory ordering
    /// As [`Subscription::recv`](crate::Subscription::recv).
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// use keywake::{CloseReason, Received};
    /// let (mut publisher, hub) = keywake::hub::<u8, &str>();
    /// let mut set = hub.subscribe_set();
    /// set.add(&7);
    /// publisher.publish(&7, "hello");
    /// hub.close(&7, CloseReason::KeyClosed);
    /// while !set.is_empty() {
    ///     match set.recv().await? {
    ///         (key, Received::Event(event)) => assert_eq!((*key, *event), (7, "hello")),
    ///         (key, Received::Gap(gap)) => println!("{key}: lost {gap:?}"),
    ///         (key, Received::Ended(closed)) => println!("{key}: {closed}"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok::<_, keywake::Closed>(()) }).unwrap();
    /// ```
    pub fn recv(&mut self) -> SetRecv<'_, K, T> {
        SetRecv(Finding { set: self })
    }

    /// As [`recv`](Self::recv), in the form of a poll. The waker of the last call is the one that is woken.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// There is no future to drop: after `Pending` the waker stays with the set until it is woken, another call that waits
    /// replaces it, or the set is dropped. Nothing is lost by not calling again. A key that is [added](Self::add) then wakes nobody: call
    /// again.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    #[expect(clippy::type_complexity, reason = "a name would hide what it is")]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<(PlainArc<K>, Received<T>), Closed>> {
        self.poll_found(cx).map(|found| found.map(|found| self.own(found)))
    }

    /// Receives the next thing and its key, if it is there.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if it is not, [`TryRecvError::Closed`] if nothing will come.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, TryRecvError};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("key");
    /// assert!(matches!(set.try_recv(), Err(TryRecvError::Empty)));
    /// publisher.publish("key", 1);
    /// assert!(matches!(set.try_recv(), Ok((key, Received::Event(event))) if *key == "key" && *event == 1));
    /// ```
    pub fn try_recv(&mut self) -> Result<(PlainArc<K>, Received<T>), TryRecvError> {
        match self.find() {
            Some(Ok(found)) => Ok(self.own(found)),
            Some(Err(closed)) => Err(TryRecvError::Closed(closed)),
            None => Err(TryRecvError::Empty),
        }
    }

    /// As [`try_recv`](Self::try_recv), without a reference count: key and event are lent until the next call.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::ReceivedRef;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("a");
    /// set.add("b");
    /// publisher.publish_batch([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    /// let mut sum = 0;
    /// while let Ok((_key, received)) = set.try_recv_ref() {
    ///     if let ReceivedRef::Event(event) = received {
    ///         sum += *event;
    ///     }
    /// }
    /// assert_eq!(sum, 3);
    /// ```
    pub fn try_recv_ref(&mut self) -> Result<(&K, ReceivedRef<'_, T>), TryRecvError> {
        match self.find() {
            Some(Ok(found)) => Ok(self.lend(found)),
            Some(Err(closed)) => Err(TryRecvError::Closed(closed)),
            None => Err(TryRecvError::Empty),
        }
    }

    /// As [`recv`](Self::recv), without a reference count: key and event are lent until the next call.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    pub async fn recv_ref(&mut self) -> Result<(&K, ReceivedRef<'_, T>), Closed> {
        let found = Finding { set: self }.await?;
        Ok(self.lend(found))
    }

    /// Waits for at least one thing, then takes what is there, up to `max`; appends to `buffer`. The answer is how many were
    /// appended; 0 only for a `max` of 0, at once.
    ///
    /// # Errors
    /// As [`recv`](Self::recv); nothing was appended then.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped: it waits for the first thing only, and appends when it is ready.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    pub async fn recv_many(&mut self, buffer: &mut Vec<(PlainArc<K>, Received<T>)>, max: usize) -> Result<usize, Closed> {
        if max == 0 {
            return Ok(0);
        }
        let found = Finding { set: self }.await?;
        buffer.push(self.own(found));
        let mut received = 1;
        while received < max {
            // An end is told by the next call.
            let Some(Ok(found)) = self.find() else { break };
            buffer.push(self.own(found));
            received += 1;
        }
        Ok(received)
    }

    /// As [`recv`](Self::recv), blocking the thread. Not for the threads of an executor.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::Received;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_set();
    /// set.add("a");
    /// set.add("b");
    /// let thread = std::thread::spawn(move || {
    ///     let mut sum = 0;
    ///     while let Ok((_key, received)) = set.recv_blocking() {
    ///         if let Received::Event(event) = received {
    ///             sum += *event;
    ///         }
    ///     }
    ///     sum
    /// });
    /// publisher.publish("a", 1);
    /// publisher.publish("b", 2);
    /// drop(publisher); // the end of the loop
    /// assert_eq!(thread.join().expect("it does not panic"), 3);
    /// ```
    pub fn recv_blocking(&mut self) -> Result<(PlainArc<K>, Received<T>), Closed> {
        let Some(found) = self.block_until(None)? else { unreachable!("without a deadline there is no time-out") };
        Ok(self.own(found))
    }

    /// As [`recv_blocking`](Self::recv_blocking), for at most this long. A `timeout` beyond what the clock can hold is for ever.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] if nothing came, [`RecvTimeoutError::Closed`] as [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<(PlainArc<K>, Received<T>), RecvTimeoutError> {
        match self.block_until(Instant::now().checked_add(timeout)) {
            Ok(Some(found)) => Ok(self.own(found)),
            Ok(None) => Err(RecvTimeoutError::Timeout),
            Err(closed) => Err(RecvTimeoutError::Closed(closed)),
        }
    }

    fn own(&mut self, found: Found) -> (PlainArc<K>, Received<T>) {
        match found {
            Found::Ended(closed) => match &self.gone {
                Some(entry) => (PlainArc::clone(&entry.key), Received::Ended(closed)),
                None => unreachable!("a key that ended stays until the next call"),
            },
            Found::Event(index) => {
                let entry = self.current_mut(index);
                match entry.reader_mut().own() {
                    Some(event) => (PlainArc::clone(&entry.key), Received::Event(event)),
                    None => unreachable!("a step that found an event stands at it"),
                }
            }
            Found::Gap(index, gap) => (PlainArc::clone(&self.current_mut(index).key), Received::Gap(gap)),
        }
    }

    fn lend(&mut self, found: Found) -> (&K, ReceivedRef<'_, T>) {
        match found {
            Found::Ended(closed) => match &self.gone {
                Some(entry) => (&entry.key, ReceivedRef::Ended(closed)),
                None => unreachable!("a key that ended stays until the next call"),
            },
            Found::Event(index) => {
                let entry = self.current_mut(index);
                match entry.reader().lend() {
                    Some(event) => (&entry.key, ReceivedRef::Event(event)),
                    None => unreachable!("a step that found an event stands at it"),
                }
            }
            Found::Gap(index, gap) => (&self.current_mut(index).key, ReceivedRef::Gap(gap)),
        }
    }

    fn current_mut(&mut self, index: u32) -> &mut Entry<K, T> {
        match self.entry_mut(index) {
            Some(entry) => entry,
            None => unreachable!("what was found stays until the next call"),
        }
    }

    fn entry(&self, index: u32) -> Option<&Entry<K, T>> {
        self.entries.get(index as usize)?.as_ref()
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry<K, T>> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    fn find_index<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.index_of(self.hub.shared.hash(key), |other| other.borrow() == key)
    }

    fn index_of(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<u32> {
        let is = |index: &u32| self.entry(*index).is_some_and(|entry| entry.topic().hash() == hash && is(&entry.key));
        self.by_key.find(hash, is).copied()
    }

    /// Takes a key out of all lists that cannot bear those that are gone. What it still had to tell is not told.
    fn take_out(&mut self, index: u32) -> Option<Entry<K, T>> {
        let entry = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        if let Ok(found) = self.by_key.find_entry(entry.topic().hash(), |other| *other == index) {
            found.remove();
        }
        if entry.came().is_some() {
            self.told_foreign();
        }
        if entry.phase() == Phase::Over {
            self.number_over -= 1;
            let over = self.entries.iter().flatten().filter(|entry| entry.phase() == Phase::Over);
            self.over = over.map(Entry::bound).min();
        }
        Some(entry)
    }

    /// One key less is to be told that it came from elsewhere.
    fn told_foreign(&mut self) {
        self.foreign = self.foreign.and_then(|(came, keys)| (keys > 1).then(|| (came, keys - 1)));
    }

    /// Leaves a key's topic.
    fn let_go(&self, mut entry: Entry<K, T>, panics: &mut FirstPanic) {
        panics.run(|| entry.leave());
        if let Some(later) = self.hub.shared.registry.leave(entry.topic()) {
            self.hub.shared.settle_quietly(later, panics);
        }
        panics.run(|| drop(entry));
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for SubscriptionSet<K, T> {
    fn drop(&mut self) {
        // The drop of the waker is user code, and must not keep the set from leaving.
        let mut panics = FirstPanic::default();
        panics.run(|| self.rouse());
        self.leave_matching(&mut panics);
        self.hub.shared.pulse.roster.leave(&self.core);
        for entry in std::mem::take(&mut self.entries).into_iter().flatten().chain(self.gone.take()) {
            self.let_go(entry, &mut panics);
        }
        // Members that are marked hold the core, which holds them.
        self.core.close();
        panics.go_on();
    }
}

impl<K: Key, T: Send + Sync + 'static> futures_core::Stream for SubscriptionSet<K, T> {
    type Item = (PlainArc<K>, Received<T>);

    /// Ends when the hub is shut down; [`SubscriptionSet::close_reason`] says why.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx).map(Result::ok)
    }
}

// Nothing points into it.
impl<K: Key, T: Send + Sync + 'static> Unpin for SubscriptionSet<K, T> {}

/// The future of [`SubscriptionSet::recv`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct SetRecv<'a, K: Key, T: Send + Sync + 'static>(Finding<'a, K, T>);

impl<K: Key, T: Send + Sync + 'static> Future for SetRecv<'_, K, T> {
    type Output = Result<(PlainArc<K>, Received<T>), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.set.poll_recv(cx)
    }
}

/// What all the futures wait for.
struct Finding<'a, K: Key, T: Send + Sync + 'static> {
    set: &'a mut SubscriptionSet<K, T>,
}

impl<K: Key, T: Send + Sync + 'static> Future for Finding<'_, K, T> {
    type Output = Result<Found, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.set.poll_found(cx)
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Finding<'_, K, T> {
    fn drop(&mut self) {
        // A cancelled wait leaves no waker behind.
        self.set.rouse();
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for SubscriptionSet<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionSet").field("keys", &self.len()).field("position", &self.position()).finish_non_exhaustive()
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for SetRecv<'_, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetRecv").finish_non_exhaustive()
    }
}
