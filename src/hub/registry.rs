//! Which topics there are: shards of a map that publishing to a known key never touches, and what is remembered of the unread.

use std::{
    collections::VecDeque,
    fmt,
    task::Waker,
    time::{Duration, Instant},
};

use hashbrown::HashTable;

use super::{
    arrivals::Arrivals,
    topic::{Ending, TopicArc},
};
use crate::{
    CloseReason,
    buffer::{chain::Garbage, word::Death},
    few::Few,
    sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Padded, Tally},
    trace,
};

/// Shards, by hash: readers of other keys rarely meet on one.
const SHARDS: usize = if cfg!(keywake_loom) { 1 } else { 256 };
/// Counters of unread events, by hash: keys that share one may be told of a gap that was none.
const STRIPES: usize = if cfg!(keywake_loom) { 1 } else { 4096 };
/// A shard calls the writer by itself after this many dead topics that the writer still has in its index.
const GRAVES: usize = 64;

/// The registry of a hub.
pub(crate) struct Registry<K, T> {
    shards: Box<[Shard<K, T>]>,
    /// Per stripe, what is known of events that nobody kept.
    stripes: Box<[Stripe]>,
    /// Everything up to this seq may be lost for any key: it is of a time before the hub, or the source said so.
    source_floor: AtomicU64,
    /// Changes with every topic: not beside what is only read.
    topics: Padded<Tally>,
    max_topics: u64,
    /// Per shard.
    max_tombstones: usize,
    keep: Keep,
}

/// Who makes a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Maker {
    /// A subscriber; the writer will find it among the newborns.
    Reader,
    /// The writer, for the event with this seq.
    Writer { seq: u64 },
}

/// Why a topic is taken out.
pub(crate) enum Removal {
    /// It is closed.
    Close(Ending),
    /// Nobody reads it; it stays if it holds something.
    IfEmpty,
    /// Nobody reads it.
    Unread,
}

/// When a topic without readers goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// After this long.
    pub(crate) idle: Duration,
    /// Only when it holds nothing.
    pub(crate) unread: bool,
}

/// Seqs of the newest events of its keys that nobody kept. Two words, so that the writer, who comes by with each such event, needs
/// no read-modify-write.
struct Stripe {
    /// Noted by the writer, who alone stores.
    noted: AtomicU64,
    /// Handed on by topics and tombstones that went.
    handed_on: AtomicU64,
}

pub(crate) struct Shard<K, T> {
    /// Goes up when a topic is made, or when the writer should come by for another reason.
    births: AtomicU32,
    state: Mutex<ShardState<K, T>>,
}

pub(crate) struct ShardState<K, T> {
    /// Living topics and tombstones, one per key.
    table: HashTable<TopicArc<K, T>>,
    /// Topics that the writer has not taken into its index yet.
    newborns: Vec<TopicArc<K, T>>,
    /// Dead topics that are of no more use in the writer's index.
    graves: Vec<TopicArc<K, T>>,
    tombstones: VecDeque<TopicArc<K, T>>,
    /// How many of these are not folded.
    living_tombstones: usize,
    /// Topics without readers, by when they became so.
    idle: VecDeque<(Instant, TopicArc<K, T>)>,
    arrivals: Arrivals,
    shutdown: Option<CloseReason>,
}

/// What is to be done once no lock is held: drops and wakes are user code.
pub(crate) struct Later<K, T> {
    pub(crate) garbage: Garbage<T>,
    /// To be torn down.
    pub(crate) dead: Few<TopicArc<K, T>>,
    /// Closed: everybody who is parked there is to be woken.
    pub(crate) closed: Few<TopicArc<K, T>>,
    /// Only to be dropped, with their keys.
    pub(crate) topics: Few<TopicArc<K, T>>,
    pub(crate) wakers: Vec<Waker>,
    /// Sets for which a topic was joined.
    pub(crate) sets: Few<Waker>,
    /// How many topics were made.
    pub(crate) made: u32,
    /// How many topics died.
    pub(crate) removed: u32,
}

impl<K, T> Default for Later<K, T> {
    fn default() -> Self {
        Self {
            garbage: Garbage::default(),
            dead: Few::default(),
            closed: Few::default(),
            topics: Few::default(),
            wakers: Vec::new(),
            sets: Few::default(),
            made: 0,
            removed: 0,
        }
    }
}

impl<K, T> Later<K, T> {
    /// Whether there is nothing to do.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let is_quiet = self.garbage.is_empty() && self.dead.is_empty() && self.closed.is_empty();
        is_quiet && self.topics.is_empty() && self.wakers.is_empty() && self.sets.is_empty()
    }

    /// Drops one that `is_empty`, without asking each of its lists once more: a `Few` without a first item has allocated nothing.
    #[inline]
    pub(crate) fn drop_empty(self) {
        drop(std::mem::take(&mut std::mem::ManuallyDrop::new(self).wakers));
    }
}

/// What the writer finds when it comes by.
pub(crate) struct News<K, T> {
    pub(crate) newborns: Vec<TopicArc<K, T>>,
    pub(crate) graves: Vec<TopicArc<K, T>>,
}

impl<K, T> Registry<K, T> {
    pub(crate) fn new(max_topics: usize, max_tombstones: usize, keep: Keep, start_seq: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::new()).collect(),
            stripes: (0..STRIPES).map(|_| Stripe { noted: AtomicU64::new(0), handed_on: AtomicU64::new(0) }).collect(),
            source_floor: AtomicU64::new(start_seq),
            topics: Padded::default(),
            max_topics: max_topics as u64,
            max_tombstones: max_tombstones.div_ceil(SHARDS),
            keep,
        }
    }

    /// How many topics live.
    pub(crate) fn topics(&self) -> usize {
        usize::try_from(self.topics.get()).unwrap_or(usize::MAX)
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a hash. Not the bits that the tables use, nor those of the writer's index.
    #[inline]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        usize::try_from(hash >> 24).unwrap_or(0) % SHARDS
    }

    #[inline]
    pub(crate) fn shard(&self, index: usize) -> &Shard<K, T> {
        &self.shards[index]
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        &self.stripes[usize::try_from(hash >> 12).unwrap_or(0) % STRIPES]
    }

    /// The writer notes an event that nobody keeps, before it asks whether a topic was born (H2).
    #[inline]
    pub(crate) fn note_unread(&self, hash: u64, seq: u64) {
        // Relaxed: the writer's next step, on `births`, releases it; only the writer stores, and its seqs rise.
        self.stripe(hash).noted.store(seq, Ordering::Relaxed);
    }

    /// What a topic or tombstone held, or knew of, is remembered by the stripe (shard locked).
    fn hand_on(&self, hash: u64, seq: u64) {
        // Relaxed: read with the same shard locked.
        self.stripe(hash).handed_on.fetch_max(seq, Ordering::Relaxed);
    }

    /// The source lost everything up to `seq`, of any key. As `note_unread` for all keys.
    pub(crate) fn note_source_loss(&self, seq: u64) {
        // Relaxed: the writer's next steps, on the `births` of every shard, release it; only the writer stores, and its seqs rise.
        self.source_floor.store(seq, Ordering::Relaxed);
    }

    fn unread_floor(&self, hash: u64) -> u64 {
        // Relaxed: read after a step on `births` that acquires; what the writer noted before its own step there is visible.
        let noted = self.stripe(hash).noted.load(Ordering::Relaxed);
        // Relaxed: changed with this shard locked, as far as it matters to this key.
        let handed_on = self.stripe(hash).handed_on.load(Ordering::Relaxed);
        noted.max(handed_on).max(self.source_floor())
    }

    pub(crate) fn source_floor(&self) -> u64 {
        // Relaxed: read after a step on `births` that acquires, where it matters.
        self.source_floor.load(Ordering::Relaxed)
    }

    /// Adds a topic (shard locked). `Err` gives it back: there are too many.
    pub(crate) fn insert(
        &self,
        shard: usize,
        state: &mut ShardState<K, T>,
        topic: TopicArc<K, T>,
        maker: Maker,
        eq: impl Fn(&K) -> bool,
    ) -> Result<TopicArc<K, T>, TopicArc<K, T>> {
        let hash = topic.hash();
        // First: the key's own code, which may panic.
        let found = state.table.find_entry(hash, |other| other.hash() == hash && eq(other.key()));
        if self.topics.add(1) >= self.max_topics {
            self.topics.sub(1);
            return Err(topic);
        }
        if matches!(maker, Maker::Reader) {
            // Acquire (pairs with `births`): H2: either the writer's step comes later and it finds the newborn (it takes the lock that
            // we hold), or it came before, and the floor read below covers its event.
            self.shards[shard].births.fetch_add(1, Ordering::Acquire);
        }
        let floor = match found {
            Ok(mut entry) => {
                // A tombstone: exact, if it still is one.
                let floor = entry.get().unkept.fold();
                state.living_tombstones -= usize::from(floor.is_some());
                let old = std::mem::replace(entry.get_mut(), Arc::clone(&topic));
                if old.desk.newborn().is_none() {
                    state.graves.push(old);
                }
                floor.map_or_else(|| self.unread_floor(hash), |floor| floor.max(self.source_floor()))
            }
            Err(_) => {
                state.table.insert_unique(hash, Arc::clone(&topic), |topic| topic.hash());
                self.unread_floor(hash)
            }
        };
        if let Maker::Writer { seq } = maker {
            // It will hold this event, which may be what a dead topic of the key thought of as its last.
            topic.chain.be_born_at(floor.min(seq - 1));
        } else {
            topic.chain.be_born_at(floor);
            topic.desk.set_newborn(Some(state.newborns.len()));
            state.newborns.push(Arc::clone(&topic));
        }
        Ok(topic)
    }

    /// The writer is to come by at every shard: a pattern was registered.
    pub(crate) fn call_writer(&self) {
        for shard in &self.shards {
            // AcqRel (pairs with `births`): H7: either the writer's step comes later and it finds the pattern, or it came before, and we
            // see what it noted and completed.
            shard.births.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The time, if topics go by it.
    pub(crate) fn now_if_idle_matters(&self) -> Option<Instant> {
        (!self.keep.idle.is_zero()).then(Instant::now)
    }

    /// A reader leaves. `None`: nothing is to be done later.
    pub(crate) fn leave(&self, topic: &TopicArc<K, T>) -> Option<Later<K, T>> {
        let now = self.now_if_idle_matters();
        let shard = self.shard(self.shard_of(topic.hash()));
        let mut state = shard.lock();
        let is_last = topic.desk.leave() == 0;
        if !is_last && now.is_none() {
            return None;
        }
        let mut later = Later::default();
        if is_last {
            if topic.is_dead() {
                if topic.chain.vacate() {
                    later.dead.push(Arc::clone(topic));
                }
            } else if let Some(now) = now {
                if topic.desk.queue() {
                    state.idle.push_back((now, Arc::clone(topic)));
                }
            } else {
                let how = if self.keep.unread { Removal::IfEmpty } else { Removal::Unread };
                self.remove(shard, &mut state, topic, how, &mut later);
            }
        }
        if let Some(now) = now {
            self.expire_idle(shard, &mut state, now, 2, &mut later);
        }
        drop(state);
        if later.is_empty() {
            trace::topics_removed(later.removed);
            return None;
        }
        Some(later)
    }

    /// Takes a living topic out (shard locked). Only one that is `IfEmpty` may live on.
    pub(crate) fn remove(
        &self,
        shard: &Shard<K, T>,
        state: &mut ShardState<K, T>,
        topic: &TopicArc<K, T>,
        how: Removal,
        later: &mut Later<K, T>,
    ) {
        let to_tear_down = match how {
            Removal::Close(ending) => {
                topic.set_ending(ending);
                later.closed.push(Arc::clone(topic));
                let is_vacant = topic.desk.readers() == 0;
                topic.chain.retire(if is_vacant { Death::ClosedVacant } else { Death::Closed })
            }
            Removal::IfEmpty => {
                let Some(to_tear_down) = topic.chain.retire_empty() else { return };
                to_tear_down
            }
            Removal::Unread => topic.chain.retire(Death::Vacant),
        };
        self.topics.sub(1);
        later.removed += 1;
        // H2: what a new topic of the key will not hold: all that this one held, and what it did not hold itself.
        let floor = topic.chain.last_seq();
        let is_tombstone = topic.desk.newborn().is_none() && self.max_tombstones > 0;
        if is_tombstone {
            topic.unkept.note(floor);
            state.tombstones.push_back(Arc::clone(topic));
            state.living_tombstones += 1;
            self.limit_tombstones(shard, state, later);
        } else {
            // The writer may have noted an event here since the topic died.
            let noted = topic.unkept.fold().unwrap_or(0);
            self.hand_on(topic.hash(), floor.max(noted));
            Self::unlink(state, topic);
            Self::bury(shard, state, topic);
        }
        if to_tear_down {
            later.dead.push(Arc::clone(topic));
        }
    }

    fn limit_tombstones(&self, shard: &Shard<K, T>, state: &mut ShardState<K, T>, later: &mut Later<K, T>) {
        while state.living_tombstones > self.max_tombstones {
            let Some(oldest) = state.tombstones.pop_front() else { return };
            // A key that came back has folded it, and replaced it in the table.
            if let Some(seq) = oldest.unkept.fold() {
                state.living_tombstones -= 1;
                self.hand_on(oldest.hash(), seq);
                Self::unlink(state, &oldest);
                Self::bury(shard, state, &oldest);
            }
            later.topics.push(oldest);
        }
        if state.tombstones.len() > 2 * state.living_tombstones + 64 {
            let all = std::mem::take(&mut state.tombstones);
            for topic in all {
                if topic.unkept.is_folded() {
                    later.topics.push(topic);
                } else {
                    state.tombstones.push_back(topic);
                }
            }
        }
    }

    /// Takes a dead topic out of the table. The caller has a reference, so that no key is dropped here.
    fn unlink(state: &mut ShardState<K, T>, topic: &TopicArc<K, T>) {
        if let Ok(entry) = state.table.find_entry(topic.hash(), |other| Arc::ptr_eq(other, topic)) {
            drop(entry.remove());
        }
    }

    /// Gets a dead topic out of the writer's way: out of the newborns, or onto the list of what its index may forget. The caller has a
    /// reference, so that no key is dropped here.
    fn bury(shard: &Shard<K, T>, state: &mut ShardState<K, T>, topic: &TopicArc<K, T>) {
        let Some(index) = topic.desk.newborn() else {
            state.graves.push(Arc::clone(topic));
            if state.graves.len() % GRAVES == 0 {
                // Relaxed: only to make the writer come by.
                shard.births.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        drop(state.newborns.swap_remove(index));
        topic.desk.set_newborn(None);
        if let Some(moved) = state.newborns.get(index) {
            moved.desk.set_newborn(Some(index));
        }
    }

    /// Removes topics that have been idle for too long, `limit` at most.
    pub(crate) fn expire_idle(
        &self,
        shard: &Shard<K, T>,
        state: &mut ShardState<K, T>,
        now: Instant,
        limit: usize,
        later: &mut Later<K, T>,
    ) {
        for _ in 0..limit {
            let due = state.idle.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= self.keep.idle);
            if !due {
                return;
            }
            let Some((_, topic)) = state.idle.pop_front() else { return };
            let touched = topic.desk.unqueue();
            if topic.is_dead() || topic.desk.readers() > 0 {
                later.topics.push(topic);
            } else if touched || self.keep.unread && topic.chain.retained() > 0 {
                topic.desk.queue();
                state.idle.push_back((now, topic));
            } else {
                self.remove(shard, state, &topic, if self.keep.unread { Removal::IfEmpty } else { Removal::Unread }, later);
                later.topics.push(topic);
            }
        }
    }

    /// How many topics are remembered exactly.
    pub(crate) fn tombstones(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().living_tombstones).sum()
    }
}

impl<K, T> Shard<K, T> {
    fn new() -> Self {
        Self {
            births: AtomicU32::new(0),
            state: Mutex::new(ShardState {
                table: HashTable::new(),
                newborns: Vec::new(),
                graves: Vec::new(),
                tombstones: VecDeque::new(),
                living_tombstones: 0,
                idle: VecDeque::new(),
                arrivals: Arrivals::default(),
                shutdown: None,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ShardState<K, T>> {
        self.state.lock()
    }

    /// How often the writer was to come by. A read-modify-write, which the writer's note of an unread event must precede.
    #[inline]
    pub(crate) fn births(&self) -> u32 {
        // AcqRel (pairs with `insert` and `call_writer`): H2; a load could be passed by a birth that does not see our note. What a birth that
        // came before did is seen under the lock; but a pattern that called us before shows by this alone (H7).
        self.births.fetch_add(0, Ordering::AcqRel)
    }
}

impl<K, T> ShardState<K, T> {
    /// The topic or tombstone of a key.
    pub(crate) fn find(&self, hash: u64, eq: impl Fn(&K) -> bool) -> Option<&TopicArc<K, T>> {
        self.table.find(hash, |topic| topic.hash() == hash && eq(topic.key()))
    }

    /// The living topic of a key.
    pub(crate) fn find_living(&self, hash: u64, eq: impl Fn(&K) -> bool) -> Option<&TopicArc<K, T>> {
        self.find(hash, eq).filter(|topic| !topic.is_dead())
    }

    /// All living topics.
    pub(crate) fn living(&self) -> impl Iterator<Item = &TopicArc<K, T>> {
        self.table.iter().filter(|topic| !topic.is_dead())
    }

    /// All living topics, and the tombstones of keys that had an event after this seq which nobody kept.
    pub(crate) fn living_or_lost_after(&self, seq: Option<u64>) -> Vec<TopicArc<K, T>> {
        let is_wanted = |topic: &&TopicArc<K, T>| !topic.is_dead() || seq.is_some_and(|seq| topic.unkept.is_after(seq));
        self.table.iter().filter(is_wanted).cloned().collect()
    }

    pub(crate) fn shutdown(&self) -> Option<&CloseReason> {
        self.shutdown.as_ref()
    }

    pub(crate) fn set_shutdown(&mut self, reason: &CloseReason) {
        self.shutdown.get_or_insert_with(|| reason.clone());
    }

    pub(crate) fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Wakers of those who wait for a reader of this key; of all, without one.
    pub(crate) fn arrived(&mut self, hash: Option<u64>) -> Vec<Waker> {
        self.arrivals.arrived(hash)
    }

    /// All that the writer should know; the newborns are not newborn any more.
    pub(crate) fn take_news(&mut self) -> News<K, T> {
        let newborns = std::mem::take(&mut self.newborns);
        for topic in &newborns {
            topic.desk.set_newborn(None);
        }
        News { newborns, graves: std::mem::take(&mut self.graves) }
    }
}

impl<K, T> fmt::Debug for Registry<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("topics", &self.topics()).finish_non_exhaustive()
    }
}
