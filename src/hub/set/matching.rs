//! Sets that read whatever keys a pattern names: topics are joined when they are made, and a publish to one that is there pays nothing.
//!
//! # What holds
//! * **H6 No topic is missed.** Who makes a topic asks for the patterns that name its key, outside of every lock, and, with its shard
//!   locked, whether they have changed since; if not, he adds it to the table, joins it for each set that wants it, and lays it into
//!   the set's inbox, all under that lock. Who registers a pattern does so first, and then passes over all shards. So of the two,
//!   whoever has a shard second finds the other: the maker finds the patterns changed, or the pass finds the topic. (Both may: a set drops
//!   what it has twice.)
//! * **H7 No event is missed.** A pattern is somebody who reads: the writer makes the topic of a key that one names, before it would note
//!   an event as unread. Until it has seen the pattern it does not know that: the births of every shard, which count a pattern too, bring
//!   it by, and `Wanted::adopted` says up to which seq events may have been lost until then. For topics made later that takes the
//!   place of what the stripes say, which is not of this key alone.
//! * **H8 In order.** A topic lies in the inbox before its first event is published, and what tells of the inbox in the set's list of
//!   marks: so P2 covers it.

use std::{fmt, task::Waker};

use super::{
    SubscriptionSet,
    entry::{News, What},
};
use crate::{
    Gap, GapCause, Key, Pattern,
    buffer::reader::Reader,
    few::Few,
    hub::{
        Hub, Opened, Start,
        patterns::{PatternSet, Ticket},
        registry::Later,
        shared::FirstPanic,
        topic::TopicArc,
    },
    sync::{Arc, AtomicU64, Mutex, Ordering, PlainArc},
    wake::{Core, Member},
};

/// The patterns of a hub.
pub(crate) struct Patterns<K, T> {
    registered: Mutex<Registered<K, T>>,
    stamp: AtomicU64,
}

struct Registered<K, T> {
    patterns: PatternSet<Arc<Wanted<K, T>>>,
    /// Those that the writer has not seen.
    fresh: Vec<Arc<Wanted<K, T>>>,
    /// How a key is read as text. Set with the first pattern.
    text: Option<fn(&K) -> &str>,
}

/// How the patterns stood at some time: the lower half says how many there were, the upper one how often that had changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

const CHANGED: u64 = 1 << 32;

/// Who wants a key.
pub(crate) struct Want<K, T> {
    list: Vec<Arc<Wanted<K, T>>>,
    stamp: Stamp,
}

impl<K, T> Want<K, T> {
    pub(crate) fn is_nobody(&self) -> bool {
        self.list.is_empty()
    }
}

/// One pattern of a set.
pub(crate) struct Wanted<K, T> {
    inbox: Arc<Inbox<K, T>>,
    /// Of keys without topic, events up to this were lost before the writer had seen the pattern, or because there was no room for a topic;
    /// `u64::MAX` until it has.
    adopted: AtomicU64,
    /// Which of the set's patterns it is.
    number: usize,
}

/// Topics that were made, and that a set is to take over. Changed under its mutex, a leaf, with the topic's shard locked where one is laid in.
pub(crate) struct Inbox<K, T> {
    state: Mutex<InboxState<K, T>>,
    /// Stands for the inbox in the set's list of marks.
    member: Arc<Member>,
    core: Arc<Core>,
}

struct InboxState<K, T> {
    topics: Vec<Newcomer<K, T>>,
    /// The member stands in the list.
    is_told: bool,
    is_closed: bool,
}

/// A topic that was joined for a set.
pub(super) struct Newcomer<K, T> {
    topic: TopicArc<K, T>,
    /// What the topic does not hold, and what the stripes say of other keys beside.
    floor: u64,
    /// Since the pattern was registered, no event of its key after this was lost.
    adopted: u64,
    number: usize,
}

impl<K, T> Patterns<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            registered: Mutex::new(Registered { patterns: PatternSet::new(), fresh: Vec::new(), text: None }),
            stamp: AtomicU64::new(0),
        }
    }

    fn stamp(&self) -> Stamp {
        // Acquire (pairs with the additions in `insert` and `remove`): nothing but that the newer one is seen by who comes later.
        Stamp(self.stamp.load(Ordering::Acquire))
    }

    /// Whether there are none. A hub without patterns pays for them with this, where it makes a topic or publishes to a key that has none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.stamp().0 % CHANGED == 0
    }

    /// Whether they have changed since somebody asked who wants a key. Asked with the key's shard locked (H6).
    pub(crate) fn have_changed(&self, since: &Want<K, T>) -> bool {
        self.stamp() != since.stamp
    }

    /// Who wants this key. Runs the key's own `AsRef`, outside of every lock but the publisher's.
    pub(crate) fn want(&self, key: &K) -> Want<K, T> {
        let stamp = self.stamp();
        let mut want = Want { list: Vec::new(), stamp };
        if stamp.0 % CHANGED == 0 {
            return want;
        }
        let text = self.registered.lock().text;
        let Some(text) = text.map(|text| text(key)) else { return want };
        let registered = self.registered.lock();
        registered.patterns.matching(text, |wanted| want.list.push(Arc::clone(wanted)));
        want.stamp = self.stamp();
        want
    }

    /// The writer is about to look for who wants a key: those patterns that it has not seen know now up to where it did not mind them,
    /// which is its last event that nobody keeps.
    pub(crate) fn adopt(&self, seen: &mut u64, unread: u64) {
        let now = self.stamp().0;
        if now == *seen {
            return;
        }
        *seen = now;
        let fresh = std::mem::take(&mut self.registered.lock().fresh);
        for wanted in fresh {
            wanted.adopt(unread);
        }
    }

    fn insert(&self, pattern: &Pattern, wanted: Arc<Wanted<K, T>>, text: fn(&K) -> &str) -> Ticket {
        let mut registered = self.registered.lock();
        registered.text = Some(text);
        registered.fresh.push(Arc::clone(&wanted));
        let ticket = registered.patterns.insert(pattern, wanted);
        // AcqRel (pairs with `stamp`): see there. With the lock held, so that who asks and finds the pattern finds this stamp.
        self.stamp.fetch_add(CHANGED + 1, Ordering::AcqRel);
        ticket
    }

    fn remove(&self, ticket: Ticket) {
        let mut registered = self.registered.lock();
        let wanted = registered.patterns.remove(ticket);
        registered.fresh.retain(|other| !Arc::ptr_eq(other, &wanted));
        // AcqRel (pairs with `stamp`): as above.
        self.stamp.fetch_add(CHANGED - 1, Ordering::AcqRel);
        drop(registered);
        drop(wanted);
    }
}

impl<K, T> Wanted<K, T> {
    /// The writer minds it from now on: of keys without topic nothing is lost after this seq.
    fn adopt(&self, seq: u64) {
        // Relaxed: who does not see it yet goes by the stripes, which say no less.
        self.adopted.store(seq, Ordering::Relaxed);
    }
}

impl<K, T> Want<K, T> {
    /// Joins a topic that was made for all that want it (shard locked). The source lost everything up to `source_floor`. Wakers of sets that
    /// sleep are put into `wakers`.
    pub(crate) fn join(&self, topic: &TopicArc<K, T>, source_floor: u64, wakers: &mut Few<Waker>) {
        for wanted in &self.list {
            // Relaxed: see `adopt`, and `lose`.
            let adopted = wanted.adopted.load(Ordering::Relaxed);
            let newcomer = Newcomer {
                topic: Arc::clone(topic),
                floor: topic.chain.floor(),
                adopted: adopted.max(source_floor),
                number: wanted.number,
            };
            if let Some(waker) = wanted.inbox.put(newcomer) {
                wakers.push(waker);
            }
        }
    }

    /// The writer could not make the topic that is wanted (shard locked): its event is lost.
    pub(crate) fn lose(&self, seq: u64) {
        for wanted in &self.list {
            // Relaxed: read with the same shard locked, where it is about the same key.
            wanted.adopted.fetch_max(seq, Ordering::Relaxed);
        }
    }
}

impl<K, T> Inbox<K, T> {
    fn new(core: &Arc<Core>) -> Self {
        let state = InboxState { topics: Vec::new(), is_told: false, is_closed: false };
        let member = Arc::new(Member::new(Arc::clone(core), Member::INBOX));
        Self { state: Mutex::new(state), member, core: Arc::clone(core) }
    }

    /// Joins the topic and lays it in, if the set is still there. The waker, if it sleeps.
    fn put(&self, newcomer: Newcomer<K, T>) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        newcomer.topic.desk.join();
        state.topics.push(newcomer);
        if std::mem::replace(&mut state.is_told, true) {
            return None;
        }
        // With the lock held: who finds it told may rely on it.
        self.core.mark(Arc::clone(&self.member))
    }

    /// Takes out a topic, if it lies there; its count is the caller's then.
    fn take_one(&self, topic: &TopicArc<K, T>) -> bool {
        let mut state = self.state.lock();
        let at = state.topics.iter().position(|newcomer| Arc::ptr_eq(&newcomer.topic, topic));
        // The caller has the topic too: it is not dropped here, with the locks held.
        at.map(|at| drop(state.topics.swap_remove(at))).is_some()
    }

    fn take(&self) -> Vec<Newcomer<K, T>> {
        let mut state = self.state.lock();
        state.is_told = false;
        std::mem::take(&mut state.topics)
    }

    fn close(&self) -> Vec<Newcomer<K, T>> {
        let mut state = self.state.lock();
        state.is_closed = true;
        std::mem::take(&mut state.topics)
    }
}

/// What a pattern wants of keys that come later.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// Nothing up to this.
    from: u64,
    /// What was there at this time was joined: of others, events up to this may have been lost, as far as stripes and tombstones say.
    joined: u64,
}

/// What a set with patterns has.
pub(super) struct Matching<K, T> {
    inbox: Arc<Inbox<K, T>>,
    tickets: Vec<Ticket>,
    bases: Vec<Base>,
    /// How many of them stand: not that of a pattern which is just being added.
    settled: usize,
    /// Taken out of the inbox, and not taken over yet.
    newcomers: Vec<Newcomer<K, T>>,
}

impl<K, T> Matching<K, T> {
    /// Whether some were taken out of the inbox that are still to be taken over.
    pub(super) fn has_newcomers(&self) -> bool {
        !self.newcomers.is_empty()
    }

    /// Takes out a topic that the pattern which is just being added has brought already (shard locked, as when it was laid in); its count is
    /// the caller's then. So no set is counted twice.
    fn take_one(&mut self, topic: &TopicArc<K, T>) -> bool {
        let at = self.newcomers.iter().position(|newcomer| Arc::ptr_eq(&newcomer.topic, topic));
        at.map(|at| drop(self.newcomers.swap_remove(at))).is_some() || self.inbox.take_one(topic)
    }

    /// The next of them to be taken over, and where it is.
    fn next_newcomer(&self) -> Option<(usize, TopicArc<K, T>)> {
        let at = self.newcomers.iter().rposition(|newcomer| newcomer.number < self.settled)?;
        Some((at, Arc::clone(&self.newcomers[at].topic)))
    }
}

impl<K: Key + AsRef<str>, T: Send + Sync + 'static> Hub<K, T> {
    /// A reader of all keys that a pattern names, from now on: those that have a topic, and those that get one, as soon as they do. See
    /// [`SubscriptionSet::add_matching`].
    ///
    /// # Panics
    /// As [`SubscriptionSet::add_matching_from`].
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut set = hub.subscribe_matching(&"flight.UA.*".parse()?);
    /// publisher.publish("flight.UA.1545", 1); // its first event makes the topic
    /// publisher.publish("flight.DL.1545", 2);
    /// publisher.publish("flight.UA.1546", 3);
    /// let mut got = Vec::new();
    /// while let Ok((key, keywake::Received::Event(event))) = set.try_recv() {
    ///     got.push(format!("{key} {}", *event));
    /// }
    /// assert_eq!(got, ["flight.UA.1545 1", "flight.UA.1546 3"]);
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    #[must_use]
    pub fn subscribe_matching(&self, pattern: &Pattern) -> SubscriptionSet<K, T> {
        let mut set = self.subscribe_set();
        set.add_matching(pattern);
        set
    }
}

impl<K: Key + AsRef<str>, T: Send + Sync + 'static> SubscriptionSet<K, T> {
    /// Reads all keys that a pattern names, from now on: [`add_matching_from`](Self::add_matching_from) with [`Start::Next`].
    ///
    /// Of the keys that have a topic, what is on its way meanwhile is received too, as with [`add`](Self::add). An event to a key
    /// without one that is published while this is called is received if it makes the topic; otherwise, of a key that gets its topic later,
    /// it is told as a gap, or was before where the set's [`position`](Self::position) stands when this returns.
    ///
    /// # Panics
    /// As [`add_matching_from`](Self::add_matching_from).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let reader = hub.subscribe("a.1");
    /// let mut set = hub.subscribe_set();
    /// set.add_matching(&"a.*".parse()?);
    /// assert!(set.contains("a.1"), "it has a topic");
    /// publisher.publish("a.2", 1);
    /// assert!(set.try_recv().is_ok());
    /// assert_eq!(set.len(), 2);
    /// # drop(reader);
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    pub fn add_matching(&mut self, pattern: &Pattern) {
        self.add_matching_from(pattern, Start::Next);
    }

    /// Reads all keys that a pattern names. Those that have a topic now begin where `start` says, as with [`add_from`](Self::add_from).
    /// Those that get one later are read from its first event on: no event is missed from when this call returns, and after
    /// [`Start::After`] a position, what was lost of such a key since that position is told as a gap, as far as the hub remembers it.
    ///
    /// Keys that begin before the set's [`position`](Self::position) take that back, as with [`add_from`](Self::add_from): among them one
    /// whose end is still to be told while there is a new topic for it. A key that the set reads already goes on where it is.
    ///
    /// A pattern is a reader of all it names: the first event of such a key makes its topic, also where nobody else reads it and
    /// [`retain_unread`](crate::Builder::retain_unread) is not set. A publish to a key that has a topic pays nothing for patterns; one to a
    /// key that has none, and that no pattern names, pays a look for patterns each time. The set reads a key until it is
    /// [removed](Self::remove) or closed; the next topic made for it is joined anew.
    ///
    /// What a position promises ([`position`](Self::position)) is for the keys that have a topic: coming back with one, a key is told of what it
    /// missed if it has a topic, or is among those whose topics went lately
    /// ([`max_tombstones`](crate::Builder::max_tombstones)); of others when they get one.
    ///
    /// # Panics
    /// If a key's own `AsRef`, `Eq`, `Hash` or `Clone` does: keys that were joined before stay. If a woken waker
    /// panics, or the drop of a payload or key that this call let go of: after everything else is done.
    ///
    /// # Examples
    /// ```
    /// use keywake::Start;
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
    /// publisher.publish("a.1", 1);
    /// publisher.publish("b.1", 2);
    /// let mut set = hub.subscribe_set();
    /// set.add_matching_from(&"a.>".parse()?, Start::Oldest);
    /// set.add_matching(&">".parse()?);
    /// assert_eq!((set.len(), set.lag()), (2, 1));
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    pub fn add_matching_from(&mut self, pattern: &Pattern, start: Start) {
        let patterns = &self.hub.shared.patterns;
        let core = &self.core;
        let matching = self.matching.get_or_insert_with(|| {
            let inbox = Arc::new(Inbox::new(core));
            Box::new(Matching { inbox, tickets: Vec::new(), bases: Vec::new(), settled: 0, newcomers: Vec::new() })
        });
        let number = matching.bases.len();
        let wanted = Wanted { inbox: Arc::clone(&matching.inbox), adopted: AtomicU64::new(u64::MAX), number };
        matching.tickets.push(patterns.insert(pattern, Arc::new(wanted), K::as_ref));
        // Conservative, should a key's own code panic below.
        matching.bases.push(Base { from: 0, joined: u64::MAX });
        // H7: registered first, and then the writer called.
        self.hub.shared.registry.call_writer();
        let mut panics = FirstPanic::default();
        for shard in 0..self.hub.shared.registry.shard_count() {
            panics.run(|| self.join_matching(shard, pattern, start));
        }
        // Last: what died before we came to its shard is none of ours.
        let now = self.hub.shared.pulse.progress.completed();
        // But for an event that was being published then, which that took along: its topic's death, which the shard's lock showed us, came
        // after its issue.
        let joined = self.hub.shared.pulse.progress.issued().max(now);
        let from = match start {
            Start::After(position) if position.epoch() == self.hub.shared.config.epoch && !self.hub.is_ahead(position) => {
                position.seq()
            }
            _ => now,
        };
        if let Some(matching) = &mut self.matching {
            matching.bases[number] = Base { from, joined };
            matching.settled = matching.bases.len();
        }
        // The set's position is not to lie before where its pattern begins.
        self.seen = self.seen.max(now);
        panics.run(|| self.look());
        panics.go_on();
    }

    /// Joins the topics of a shard that a pattern names.
    fn join_matching(&mut self, shard: usize, pattern: &Pattern, start: Start) {
        let registry = &self.hub.shared.registry;
        let lost_after = match start {
            Start::After(position) if position.epoch() == self.hub.shared.config.epoch => Some(position.seq()),
            _ => None,
        };
        // Keys are user code, so outside of the lock.
        let mut topics = registry.shard(shard).lock().living_or_lost_after(lost_after);
        topics.retain(|topic| pattern.matches(topic.key().as_ref()));
        // What an older pattern brought is read from its first event on, which may lie before `start`.
        self.take_brought();
        for topic in topics {
            let own = PlainArc::new(topic.key().clone());
            if topic.is_dead() {
                // It was gone already, with what was lost of its key: that is told by a new topic.
                self.add_owned_from((*own).clone(), start);
                continue;
            }
            // Not by its key: that may have ended, and not be told yet.
            if self.has_topic(&topic) {
                continue;
            }
            let here = self.reached();
            let mut later = Later::default();
            // One that died meanwhile is found by whoever makes it anew (H6).
            let matching = &mut self.matching;
            let is_counted = || matching.as_mut().is_some_and(|matching| matching.take_one(&topic));
            if self.hub.join_living(&topic, &mut later, is_counted) {
                let (reader, gap) = self.hub.begin(topic, start, Some(here));
                let opened = Opened { reader, gap, refused: None };
                self.take_in(own, opened, start, here);
            }
            self.hub.shared.settle(later);
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> SubscriptionSet<K, T> {
    /// Takes out what lies in the inbox, whose mark was taken out of the list: it is put there again with the next topic.
    pub(super) fn empty_inbox(&mut self) {
        if let Some(matching) = &mut self.matching {
            matching.newcomers.append(&mut matching.inbox.take());
        }
    }

    /// Takes over what patterns have brought by now: before the set changes by a key that may be among it.
    pub(super) fn take_brought(&mut self) {
        if self.matching.is_some() {
            self.take_marked();
            self.take_newcomers();
        }
    }

    /// Takes over the topics that were in the inbox.
    pub(super) fn take_newcomers(&mut self) {
        while let Some((at, topic)) = self.matching.as_ref().and_then(|matching| matching.next_newcomer()) {
            // User code, so before anything is changed.
            let is_known = self.has_topic(&topic);
            let own = (!is_known).then(|| PlainArc::new(topic.key().clone()));
            let Some(matching) = &mut self.matching else { return };
            let newcomer = matching.newcomers.swap_remove(at);
            let base = matching.bases[newcomer.number];
            match own {
                Some(own) => self.take_newcomer(own, newcomer, base),
                // By another pattern, or by the pass over all shards.
                None => self.leave_topic(topic),
            }
        }
    }

    pub(super) fn has_topic(&self, topic: &TopicArc<K, T>) -> bool {
        let is_same = |index: &u32| self.entry(*index).is_some_and(|entry| Arc::ptr_eq(entry.topic(), topic));
        self.by_key.find(topic.hash(), is_same).is_some()
    }

    fn take_newcomer(&mut self, own: PlainArc<K>, newcomer: Newcomer<K, T>, Base { from, joined }: Base) {
        let Newcomer { topic, floor, adopted, .. } = newcomer;
        let to = floor.min(adopted.max(joined));
        let lost = (to > from).then_some(Gap { from, to, missed: None, cause: GapCause::Unread });
        // Where the source has to come to `from`, those that come first may lie below.
        let is_exact = from <= self.known;
        // Behind what it does not hold: of that, what was not lost went to topics before it.
        let mut reader = Reader::at(topic, 0, from.max(floor), is_exact);
        // What comes is above what was known before the topic was made.
        reader.know(self.known);
        let rank = reader.seq() + 1;
        let index = self.insert(own, reader);
        if let (Some(gap), Some(entry)) = (lost, self.entry_mut(index)) {
            // Where the set stands, and not where the loss begins: that key was none of its keys then.
            entry.tell(News { rank, what: What::Gap(gap), came: None });
        }
        self.begin(index);
    }

    pub(super) fn leave_topic(&self, topic: TopicArc<K, T>) {
        let mut panics = FirstPanic::default();
        if let Some(later) = self.hub.shared.registry.leave(&topic) {
            self.hub.shared.settle_quietly(later, &mut panics);
        }
        panics.run(|| drop(topic));
        panics.go_on();
    }

    /// The set goes: its patterns, and the topics that were joined for it.
    pub(super) fn leave_matching(&mut self, panics: &mut FirstPanic) {
        let Some(matching) = self.matching.take() else { return };
        let Matching { inbox, tickets, newcomers, .. } = *matching;
        for ticket in tickets {
            self.hub.shared.patterns.remove(ticket);
        }
        for newcomer in inbox.close().into_iter().chain(newcomers) {
            panics.run(|| self.leave_topic(newcomer.topic));
        }
    }
}

impl<K, T> fmt::Debug for Patterns<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patterns").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}
