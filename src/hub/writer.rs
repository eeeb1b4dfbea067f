//! The one writer's work: numbering, its private index of topics, appending.

use std::{fmt, task::Waker};

use hashbrown::HashTable;

use super::{
    budget::Budget,
    pulse::Pulse,
    registry::{Later, Maker, News, Removal},
    shared::{AsKey, FirstPanic, Owned, Shared},
    topic::{Topic, TopicArc},
};
use crate::{
    CloseReason, GapCause, Key, OnLastPublisher, Position, Published, SeqError,
    buffer::{
        chain::{Garbage, Incoming, Waste},
        word::{State, Waiting},
    },
    few::Few,
    sync::Arc,
    trace,
    wake::Pushed,
};

/// Tables of the index: one that grows holds up a publish for a sixty-fourth of the time.
const TABLES: usize = if cfg!(keywake_loom) { 1 } else { 64 };

/// The writer. What it returns in `After` is to be settled when its user has let go of whatever lock it is behind.
pub(crate) struct Writer<K: Key, T: Send + Sync + 'static> {
    shared: Arc<Shared<K, T>>,
    /// That of `shared`, one step nearer.
    pulse: Arc<Pulse<K, T>>,
    /// Every topic that an event was appended to, and some that are dead.
    index: Box<[HashTable<TopicArc<K, T>>]>,
    /// Per shard, the births that were looked into.
    seen: Box<[u32]>,
    /// The stamp of the patterns that were seen.
    patterns: u64,
    /// Seq of the last event that nobody keeps.
    unread: u64,
    /// The seq given last.
    seq: u64,
    budget: Option<Budget<K, T>>,
    /// Made and taken rarely, so it is not made anew with every publish.
    after: After<K, T>,
}

/// What the writer leaves to be done outside of its lock.
pub(crate) struct After<K, T> {
    /// There is something in it besides garbage and topics.
    has_more: bool,
    /// Their tasks are to be woken here and now.
    wake: Few<TopicArc<K, T>>,
    /// Sets of which a member was marked.
    sets: Few<Waker>,
    /// The relay's first step is to be done for it.
    mark: bool,
    /// Threads are parked there, or readers that are bound to a relay.
    aside: Few<TopicArc<K, T>>,
    /// The relay is asleep, and is to be woken.
    rouse: bool,
    /// The relay went while it was given something.
    drain: bool,
    garbage: Garbage<T>,
    /// Topics to be dropped, with their keys.
    topics: Few<TopicArc<K, T>>,
    /// How many topics were made.
    made: u32,
    /// What else came of that.
    later: Vec<Later<K, T>>,
}

impl<K, T> Default for After<K, T> {
    fn default() -> Self {
        Self {
            has_more: false,
            wake: Few::default(),
            sets: Few::default(),
            mark: false,
            aside: Few::default(),
            rouse: false,
            drain: false,
            garbage: Garbage::default(),
            topics: Few::default(),
            made: 0,
            later: Vec::new(),
        }
    }
}

impl<K, T> After<K, T> {
    #[inline]
    fn is_empty(&self) -> bool {
        !self.has_more && self.garbage.is_empty() && self.topics.is_empty()
    }

    /// The usual: there is one thing to do.
    #[inline]
    fn take_lone(&mut self) -> Option<ToSettle<K, T>> {
        if !self.topics.is_empty() || self.made != 0 || !self.aside.is_empty() || self.drain || self.mark {
            return None;
        }
        if !self.sets.is_empty() {
            let is_lone = !self.rouse && self.wake.is_empty() && self.garbage.is_empty();
            return if is_lone { self.sets.take_lone().map(ToSettle::WakeSet) } else { None };
        }
        match (self.rouse, self.wake.is_empty(), self.garbage.is_empty()) {
            (true, true, true) => {
                self.rouse = false;
                Some(ToSettle::Rouse)
            }
            (false, false, true) => self.wake.take_lone().map(ToSettle::Wake),
            (false, true, false) => self.garbage.take_lone().map(ToSettle::Free),
            _ => None,
        }
    }

    /// An append met somebody who waits.
    fn wake(&mut self, topic: &TopicArc<K, T>, before: State, queued: bool, pulse: &Pulse<K, T>) {
        if queued {
            topic.waiters.note_queued(before.count());
            // SAFETY: W4: the writer is in its exclusive section, and asked whether there is room since the last time.
            match unsafe { pulse.push(Arc::clone(topic)) } {
                Pushed::Awake => {}
                Pushed::Asleep => {
                    self.rouse = true;
                    let relay_wakes = &pulse.progress.relay_wakes;
                    relay_wakes.set(relay_wakes.get() + 1);
                }
                Pushed::Gone => self.drain = true,
            }
        } else if before.is_relayed() && pulse.has_relay() {
            if pulse.is_overdue(topic.waiters.queued_for(before.count())) {
                topic.waiters.note_queued(before.count());
                push_once(&mut self.wake, topic);
            } else {
                let coalesced = &pulse.progress.coalesced;
                coalesced.set(coalesced.get() + 1);
                pulse.count(topic, |counts| &counts.coalesced);
            }
        } else if before.has(Waiting::TASKS) {
            push_once(&mut self.wake, topic);
        }
        if before.has(Waiting::SETS) {
            self.mark(topic, before, queued, pulse);
        }
        if before.has(Waiting::ASIDE) {
            push_once(&mut self.aside, topic);
        }
        self.has_more = self.rouse
            || self.drain
            || self.mark
            || self.has_more
            || !self.wake.is_empty()
            || !self.sets.is_empty()
            || !self.aside.is_empty();
    }

    /// An append met members of sets.
    #[cold]
    fn mark(&mut self, topic: &TopicArc<K, T>, before: State, queued: bool, pulse: &Pulse<K, T>) {
        if !queued && !before.is_queued() {
            return Pulse::mark_here(topic, &mut self.sets);
        }
        let is_overdue = !queued && pulse.is_overdue(topic.waiters.queued_for(before.count()));
        if is_overdue {
            topic.waiters.note_queued(before.count());
        }
        self.mark |= is_overdue || pulse.roster.has_blocked();
    }

    fn drop_later(&mut self, topic: TopicArc<K, T>) {
        self.topics.push(topic);
    }
}

impl<K: Key, T: Send + Sync + 'static> Writer<K, T> {
    pub(crate) fn new(shared: Arc<Shared<K, T>>) -> Self {
        Self {
            index: (0..TABLES).map(|_| HashTable::new()).collect(),
            seen: vec![0; shared.registry.shard_count()].into(),
            patterns: 0,
            unread: 0,
            seq: shared.config.start_seq,
            budget: shared.config.total_bytes.map(Budget::new),
            after: After::default(),
            pulse: Arc::clone(&shared.pulse),
            shared,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<K, T>> {
        &self.shared
    }

    /// What is to be settled now, outside of every lock. `None`: nothing.
    #[inline]
    pub(crate) fn take_after(&mut self) -> Option<ToSettle<K, T>> {
        if self.after.is_empty() {
            return None;
        }
        let lone = self.after.take_lone();
        if lone.is_some() {
            self.after.has_more = false;
            return lone;
        }
        Some(ToSettle::All(Box::new(std::mem::take(&mut self.after))))
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.shared.config.epoch, self.seq)
    }

    /// Publishes under the hub's next number. An event that nobody keeps comes back, to be dropped outside of the lock.
    #[inline]
    pub(crate) fn publish(&mut self, key: &impl AsKey<K>, hash: u64, event: T, weight: u64) -> (Published, Option<T>) {
        let seq = self.next_seq();
        self.publish_as(seq, key, hash, event, weight)
    }

    #[inline]
    fn publish_as(&mut self, seq: u64, key: &impl AsKey<K>, hash: u64, event: T, weight: u64) -> (Published, Option<T>) {
        self.pulse.progress.issue(seq);
        let (readers, unread) =
            self.deliver(key, hash, seq, event, weight).map_or_else(|event| (0, event), |readers| (readers, None));
        self.finish(seq, 1);
        (Published { seq, readers }, unread)
    }

    /// Publishes several, each with its weight; the hub's position moves once. Keys, and events that nobody keeps, stay in `events`.
    pub(crate) fn publish_batch(&mut self, events: &mut [Weighed<K, T>]) -> Published {
        let mut readers = 0;
        let number = events.len() as u64;
        self.pulse.progress.issue(self.seq.saturating_add(number).min(Position::MAX_SEQ));
        for Weighed { key, hash, event, weight } in events {
            let seq = self.next_seq();
            let Some(taken) = event.take() else { continue };
            match self.deliver(key, *hash, seq, taken, *weight) {
                Ok(more) => readers += more,
                Err(unread) => *event = unread,
            }
        }
        self.finish(self.seq, number);
        Published { seq: self.seq, readers }
    }

    /// Publishes under the source's number.
    pub(crate) fn publish_at(
        &mut self,
        seq: u64,
        key: &impl AsKey<K>,
        hash: u64,
        event: T,
        weight: u64,
    ) -> Result<(Published, Option<T>), (T, SeqError)> {
        if let Err(error) = self.check(seq) {
            return Err((event, error));
        }
        self.seq = seq;
        Ok(self.publish_as(seq, key, hash, event, weight))
    }

    /// Moves the position without an event.
    pub(crate) fn advance_to(&mut self, seq: u64) -> Result<(), SeqError> {
        self.check(seq)?;
        self.seq = seq;
        self.pulse.progress.issue(seq);
        self.finish(seq, 0);
        Ok(())
    }

    /// Tells every reader of every key that `first..=last` is lost.
    pub(crate) fn lost(&mut self, first: u64, last: u64, cause: GapCause) -> Result<(), SeqError> {
        self.check(first)?;
        if last < first {
            return Err(SeqError::NotRising { seq: last, last: first });
        }
        self.check(last)?;
        self.seq = last;
        self.pulse.progress.issue(last);
        self.shared.note_loss(first, last, cause);
        // H2, for all keys: noted first, then the births of every shard looked into.
        self.shared.registry.note_source_loss(last);
        for shard in 0..self.seen.len() {
            let births = self.shared.registry.shard(shard).births();
            if births != self.seen[shard] {
                self.look_into(shard, births);
            }
        }
        let stamp = self.shared.stamp();
        for topic in self.index.iter().flatten() {
            let mark = Incoming { seq: last, event: None, weight: 0, stamp };
            let Shared { config, account, .. } = &*self.shared;
            let has_relay = || self.pulse.has_relay();
            if let Ok(appended) = topic.chain.append(mark, has_relay, &config.limits, account, &mut self.after.garbage) {
                if appended.before.has_any() {
                    self.after.wake(topic, appended.before, appended.queued, &self.pulse);
                }
            }
        }
        self.finish(last, 0);
        Ok(())
    }

    fn check(&self, seq: u64) -> Result<(), SeqError> {
        if seq > Position::MAX_SEQ {
            return Err(SeqError::TooLarge { seq });
        }
        if seq <= self.seq {
            return Err(SeqError::NotRising { seq, last: self.seq });
        }
        Ok(())
    }

    fn next_seq(&mut self) -> u64 {
        // 2^63 events are 292 years at one a nanosecond; and `start_seq` was bounded when the hub was built.
        assert!(self.seq < Position::MAX_SEQ, "the hub is out of sequence numbers");
        self.seq += 1;
        self.seq
    }

    fn finish(&self, seq: u64, events: u64) {
        let progress = &self.pulse.progress;
        progress.complete(seq);
        progress.published.set(progress.published.get() + events);
    }

    /// Appends to the key's topic, if it has one. `Err`: nobody keeps the event.
    #[inline]
    fn deliver(&mut self, key: &impl AsKey<K>, hash: u64, seq: u64, event: T, weight: u64) -> Result<usize, Option<T>> {
        let stamp = self.shared.stamp();
        match self.append(key, hash, Incoming { seq, event: Some(event), weight, stamp }) {
            Ok(readers) => Ok(readers),
            Err(refused) => {
                let is_noted = !refused.is_dead && !self.makes_topics();
                if is_noted && self.is_nobodys(hash, seq) {
                    return Err(self.give_up(refused));
                }
                self.deliver_unknown(key, hash, refused, is_noted)
            }
        }
    }

    /// Notes an event for a key that the index has no topic of, as one that nobody keeps. False: a topic of it may have been made.
    #[inline]
    fn is_nobodys(&self, hash: u64, seq: u64) -> bool {
        let registry = &self.shared.registry;
        let shard = registry.shard_of(hash);
        // H2: noted first, and then the births looked at.
        registry.note_unread(hash, seq);
        registry.shard(shard).births() == self.seen[shard]
    }

    /// Whether a publish may make a topic.
    #[inline]
    fn makes_topics(&self) -> bool {
        self.shared.config.retain_unread || !self.shared.patterns.is_empty()
    }

    /// Appends to the topic that the index has.
    #[inline]
    fn append(&mut self, key: &impl AsKey<K>, hash: u64, incoming: Incoming<T>) -> Result<usize, Refused<T>> {
        let table = &self.index[table_of(hash)];
        let Some(topic) = table.find(hash, |topic| key.is(topic.key())) else {
            return Err(Refused { incoming, is_dead: false });
        };
        let Shared { config, account, .. } = &*self.shared;
        let has_relay = || self.pulse.has_relay();
        let appended = match topic.chain.append(incoming, has_relay, &config.limits, account, &mut self.after.garbage) {
            Ok(appended) => appended,
            Err(incoming) => return Err(Refused { incoming, is_dead: true }),
        };
        if appended.before.has_any() {
            self.after.wake(topic, appended.before, appended.queued, &self.pulse);
        }
        if let Some(budget) = &mut self.budget {
            let After { garbage, topics, .. } = &mut self.after;
            budget.enforce(topic, &appended, account, garbage, topics);
        }
        Ok(topic.desk.readers())
    }

    /// An event for a key that the index has no living topic of.
    #[inline(never)]
    fn deliver_unknown(
        &mut self,
        key: &impl AsKey<K>,
        hash: u64,
        mut refused: Refused<T>,
        is_noted: bool,
    ) -> Result<usize, Option<T>> {
        let shard = self.shared.registry.shard_of(hash);
        // One that is noted may be told as lost already, by a topic that was made since: it is not to be put in there.
        if !is_noted {
            match self.deliver_made(key, hash, shard, refused) {
                Ok(readers) => return Ok(readers),
                Err(back) => refused = back,
            }
        }
        loop {
            // H2: noted first, and then the births looked at.
            let seq = refused.incoming.seq;
            let is_noted = refused.is_dead && self.find(key, hash).is_some_and(|tombstone| tombstone.unkept.note(seq));
            if !is_noted {
                self.shared.registry.note_unread(hash, seq);
            }
            let births = self.shared.registry.shard(shard).births();
            if births == self.seen[shard] {
                return Err(self.give_up(refused));
            }
            self.look_into(shard, births);
            if self.find(key, hash).is_some_and(|newborn| newborn.chain.floor() >= seq) {
                // It was born after our note: its readers are told of this event as lost, so it comes before them.
                return Err(self.give_up(refused));
            }
            match self.append(key, hash, refused.incoming) {
                Ok(readers) => return Ok(readers),
                Err(back) => refused = back,
            }
            // H7: the births may have been those of a pattern; and this event is noted.
            self.unread = seq;
            match self.deliver_made(key, hash, shard, refused) {
                Ok(readers) => return Ok(readers),
                Err(back) => refused = back,
            }
        }
    }

    /// Where events that nobody reads are kept, or a pattern names the key: makes the topic. `Err`: it is not to be made, or cannot be.
    #[inline]
    fn deliver_made(
        &mut self,
        key: &impl AsKey<K>,
        hash: u64,
        shard: usize,
        mut refused: Refused<T>,
    ) -> Result<usize, Refused<T>> {
        while self.makes_topics() {
            self.shared.patterns.adopt(&mut self.patterns, self.unread);
            refused = match self.make(key, hash, shard, refused) {
                Ok(readers) => return Ok(readers),
                // The topic that we made, or found, died before our event was in it; or the patterns have changed.
                Err((back, true)) => back,
                Err((back, false)) => return Err(back),
            }
        }
        Err(refused)
    }

    /// Nobody keeps the event.
    #[inline]
    fn give_up(&mut self, refused: Refused<T>) -> Option<T> {
        self.unread = refused.incoming.seq;
        let unread = &self.pulse.progress.unread;
        unread.set(unread.get() + 1);
        refused.incoming.event
    }

    /// One attempt at it. `Err`: whether to try again; if not, nobody wants it, there are too many, or the hub is shut down.
    #[cold]
    fn make(&mut self, key: &impl AsKey<K>, hash: u64, shard: usize, refused: Refused<T>) -> Result<usize, (Refused<T>, bool)> {
        let Shared { patterns, registry, config, .. } = &*Arc::clone(&self.shared);
        let seq = refused.incoming.seq;
        let own = key.to_key();
        let want = patterns.want(&own);
        if want.is_nobody() && !config.retain_unread {
            return Err((refused, false));
        }
        let births = registry.shard(shard).births();
        self.look_into(shard, births);
        let refused = match self.append(key, hash, refused.incoming) {
            Ok(readers) => return Ok(readers),
            Err(refused) => refused,
        };
        let topic = Arc::new(Topic::new(hash, own));
        let mut later = Later::default();
        let mut state = registry.shard(shard).lock();
        let is_open = state.shutdown().is_none();
        let is_in_vain = patterns.have_changed(&want) || state.find_living(hash, |other| key.is(other)).is_some();
        let made = if is_open && !is_in_vain {
            registry.insert(shard, &mut state, topic, Maker::Writer { seq }, |other| key.is(other))
        } else {
            Err(topic)
        };
        match &made {
            Ok(topic) => {
                want.join(topic, registry.source_floor(), &mut self.after.sets);
                self.after.has_more |= !self.after.sets.is_empty();
                if topic.desk.readers() > 0 {
                    later.wakers = state.arrived(Some(hash));
                } else if !config.retain_unread {
                    // The sets that wanted it are gone.
                    registry.remove(registry.shard(shard), &mut state, topic, Removal::Unread, &mut later);
                }
            }
            Err(_) if is_open && !is_in_vain => want.lose(seq),
            Err(_) => {}
        }
        let mut news = state.take_news();
        drop(state);
        if !later.is_empty() {
            self.after.later.push(later);
            self.after.has_more = true;
        }
        match made {
            Ok(topic) => {
                self.after.made += 1;
                self.after.has_more = true;
                news.newborns.push(topic);
                self.take_over(news);
                self.append(key, hash, refused.incoming).map_err(|back| (back, true))
            }
            Err(topic) => {
                self.take_over(news);
                self.after.drop_later(topic);
                Err((refused, is_open && is_in_vain))
            }
        }
    }

    fn find(&self, key: &impl AsKey<K>, hash: u64) -> Option<&TopicArc<K, T>> {
        self.index[table_of(hash)].find(hash, |topic| key.is(topic.key()))
    }

    /// Takes over what a shard has to tell. *All* its newborns: the births that are counted as seen are those of all of them.
    fn look_into(&mut self, shard: usize, births: u32) {
        self.seen[shard] = births;
        let news = self.shared.registry.shard(shard).lock().take_news();
        self.take_over(news);
    }

    /// Forgets dead topics, and adopts new ones. Runs no code of the key's: if that panicked, the rest of the news would be lost. So it
    /// goes by identity: a topic that a new one takes the place of is among the graves that come with it, or came before it.
    fn take_over(&mut self, news: News<K, T>) {
        let News { newborns, graves } = news;
        for topic in graves {
            if let Ok(entry) = self.index[table_of(topic.hash())].find_entry(topic.hash(), |other| Arc::ptr_eq(other, &topic)) {
                self.after.drop_later(entry.remove().0);
            }
            self.after.drop_later(topic);
        }
        for topic in newborns {
            let hash = topic.hash();
            self.index[table_of(hash)].insert_unique(hash, topic, |topic| topic.hash());
        }
    }

    /// The writer goes, and the hub with it if so wished.
    pub(crate) fn close(&self) {
        if self.shared.config.on_last_publisher == OnLastPublisher::Close {
            self.shared.shutdown(CloseReason::PublisherDropped);
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Writer<K, T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a publish left to be done.
pub(crate) enum ToSettle<K, T> {
    All(Box<After<K, T>>),
    /// A block is to be freed, or a chain of them.
    Free(Waste<T>),
    /// The relay is to be woken.
    Rouse,
    /// The tasks of one topic are to be woken.
    Wake(TopicArc<K, T>),
    /// A set is to be woken.
    WakeSet(Waker),
}

/// Does what a publish left to be done: wakes first, then drops.
pub(crate) fn settle<K: Key, T: Send + Sync + 'static>(shared: &Shared<K, T>, after: ToSettle<K, T>) {
    let mut panics = FirstPanic::default();
    match after {
        ToSettle::Rouse => shared.pulse.rouse(&mut panics),
        ToSettle::Wake(topic) => shared.pulse.wake_tasks(&topic, &mut panics),
        ToSettle::WakeSet(waker) => shared.pulse.wake_sets(Few::of(waker), &mut panics),
        ToSettle::Free(waste) => shared.free(waste),
        ToSettle::All(after) => settle_all(shared, *after, &mut panics),
    }
    panics.go_on();
}

#[cold]
fn settle_all<K: Key, T: Send + Sync + 'static>(shared: &Shared<K, T>, after: After<K, T>, panics: &mut FirstPanic) {
    let After { has_more: _, wake, sets, mark, aside, rouse, drain, garbage, topics, made, later } = after;
    trace::topics_made(made);
    shared.pulse.wake_sets(sets, panics);
    if mark {
        shared.pulse.mark_now(panics);
    }
    if rouse {
        shared.pulse.rouse(panics);
    }
    for topic in wake {
        shared.pulse.wake_tasks(&topic, panics);
    }
    for topic in aside {
        shared.pulse.wake_aside(&topic, panics);
    }
    if drain {
        shared.pulse.drain(panics);
    }
    panics.run(|| drop(topics));
    for later in later {
        shared.settle_quietly(later, panics);
    }
    shared.settle_quietly(Later { garbage, ..Later::default() }, panics);
}

/// Puts a topic onto a list, once.
fn push_once<K, T>(list: &mut Few<TopicArc<K, T>>, topic: &TopicArc<K, T>) {
    // A batch compares with the last few only: another fan-out finds nobody parked, and is cheap.
    if !list.has_lately(8, |other| Arc::ptr_eq(other, topic)) {
        list.push(Arc::clone(topic));
    }
}

/// An event that no topic took, and whether the index has a dead topic of its key.
struct Refused<T> {
    incoming: Incoming<T>,
    is_dead: bool,
}

/// An event of a batch.
pub(crate) struct Weighed<K, T> {
    pub(crate) key: Owned<K>,
    pub(crate) hash: u64,
    /// Taken once it is in a topic.
    pub(crate) event: Option<T>,
    pub(crate) weight: u64,
}

#[inline]
fn table_of(hash: u64) -> usize {
    // Not the bits of the tables' own use (the lowest for the place, the top seven for the tag), nor all of the shard's.
    usize::try_from(hash >> 40).unwrap_or(0) % TABLES
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Writer<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("seq", &self.seq).finish_non_exhaustive()
    }
}
