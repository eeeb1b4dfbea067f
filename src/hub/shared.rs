//! What the handles of one hub share.

use std::{
    any::Any,
    borrow::Borrow,
    fmt,
    hash::{BuildHasher, Hash},
    marker::PhantomData,
    panic,
    time::{Duration, Instant},
};

use super::{
    pulse::Pulse,
    registry::{Keep, Later, Registry, Removal},
    set::Patterns,
    snapshot::Flights,
    topic::Ending,
};
use crate::{
    CloseReason, Gap, GapCause, Key, OnLastPublisher, Position,
    buffer::{
        BlockRef,
        account::Account,
        chain::Waste,
        limits::Limits,
        reader::{Lost, Taker},
    },
    few::Few,
    sync::{Arc, Fixed, Mutex, Padded, PlainOnce, Tally},
    trace,
};

/// Blocks that the last reader of a topic frees by itself; what is longer is left to others, one block at a time.
const FREE_AT_ONCE: usize = 8;

/// What a user gives to tell how much an event weighs.
pub(crate) type Weigher<T> = Box<dyn Fn(&T) -> usize + Send + Sync>;

/// Whose numbers the events carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    Own,
    Source,
}

/// A hub's settings, as built.
pub(crate) struct Config<T> {
    pub(crate) limits: Limits,
    pub(crate) weigher: Option<Weigher<T>>,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) retain_unread: bool,
    pub(crate) keep_idle: Duration,
    pub(crate) max_topics: usize,
    pub(crate) max_tombstones: usize,
    pub(crate) on_last_publisher: OnLastPublisher,
    pub(crate) epoch: u64,
    pub(crate) start_seq: u64,
    pub(crate) numbering: Numbering,
    pub(crate) min_fanout_interval: Option<Duration>,
    pub(crate) counts_topics: bool,
}

/// See the module.
pub(crate) struct Shared<K, T> {
    /// Only read, once it is made: away from the count of handles, which changes with each that comes or goes.
    pub(crate) config: Padded<Fixed<Config<T>>>,
    pub(crate) registry: Registry<K, T>,
    /// Apart, for relays: see there.
    pub(crate) pulse: Arc<Pulse<K, T>>,
    pub(crate) account: Arc<Account>,
    /// Chains of blocks to be freed bit by bit. Readers of any key lock this and what follows: not beside what each publish reads.
    backlog: Padded<Mutex<Vec<BlockRef<T>>>>,
    /// How many those are. Each publish looks.
    backlog_length: Padded<Tally>,
    pub(crate) flights: Padded<Flights<T>>,
    /// Read by who makes a topic, and by a publish to a key that has none.
    pub(crate) patterns: Padded<Patterns<K, T>>,
    /// Ranges that the source lost, by their ends; the newest few.
    losses: Padded<Mutex<Vec<(u64, u64, GapCause)>>>,
    hasher: Fixed<KeyHasher>,
    started: Fixed<Instant>,
    /// Why it was shut down: the first reason.
    shut_down: PlainOnce<CloseReason>,
}

/// Losses whose ranges are remembered; of older ones a reader is told a range that begins at its own position.
const LOSSES: usize = 1024;

impl<K: Key, T: Send + Sync + 'static> Shared<K, T> {
    pub(crate) fn new(config: Config<T>) -> Self {
        let keep = Keep { idle: config.keep_idle, unread: config.retain_unread };
        Self {
            registry: Registry::new(config.max_topics, config.max_tombstones, keep, config.start_seq),
            pulse: Arc::new(Pulse::new(config.start_seq, config.limits.events, config.min_fanout_interval, config.counts_topics)),
            account: Arc::new(Account::new(config.epoch)),
            backlog: Padded::default(),
            backlog_length: Padded::default(),
            flights: Padded::default(),
            patterns: Padded::new(Patterns::new()),
            losses: Padded::default(),
            hasher: Fixed::default(),
            shut_down: PlainOnce::new(),
            started: Fixed::new(Instant::now()),
            config: Padded::new(Fixed::new(config)),
        }
    }

    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
    {
        self.hasher.hash_one(key)
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.config.epoch, self.pulse.progress.completed())
    }

    /// Whether nobody can have got this seq from this hub.
    pub(crate) fn is_ahead(&self, seq: u64) -> bool {
        seq > self.pulse.progress.issued().max(self.pulse.progress.completed())
    }

    /// Nanoseconds since the hub was made, for ages; 0 where no age is kept, and then no clock is read.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        if self.config.limits.has_age() { self.stamp_of(Instant::now()) } else { 0 }
    }

    pub(crate) fn stamp_of(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(*self.started).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Does what was put off until no lock is held: wakes, tears down, drops. The first panic of user code goes on when all is done.
    pub(crate) fn settle(&self, later: Later<K, T>) {
        if later.is_empty() {
            trace::topics_made(later.made);
            trace::topics_removed(later.removed);
            later.drop_empty();
            return;
        }
        let mut panics = FirstPanic::default();
        self.settle_quietly(later, &mut panics);
        panics.go_on();
    }

    /// The same, for who has more to do after it.
    pub(crate) fn settle_quietly(&self, later: Later<K, T>, panics: &mut FirstPanic) {
        let Later { mut garbage, dead, closed, topics, wakers, sets, made, removed } = later;
        trace::topics_made(made);
        trace::topics_removed(removed);
        for topic in closed {
            self.pulse.wake_all(&topic, panics);
        }
        self.pulse.wake_sets(sets, panics);
        for waker in wakers {
            panics.run(|| waker.wake());
        }
        for topic in dead {
            topic.chain.tear_down(&self.account, &mut garbage);
        }
        for waste in garbage {
            panics.run(|| self.free(waste));
        }
        panics.run(|| drop(topics));
    }

    /// Frees the beginning of a chain, and leaves a long rest to the backlog.
    pub(crate) fn free(&self, waste: Waste<T>) {
        let chain = match waste {
            Waste::Block(block) => return drop(block),
            Waste::Chain(chain) => chain,
        };
        if let Some(rest) = chain.take_apart(FREE_AT_ONCE) {
            self.backlog.lock().push(rest);
            self.backlog_length.add(1);
        }
    }

    /// Takes one block out of the backlog, if there is one: to be dropped by the caller.
    #[inline]
    pub(crate) fn free_one_block(&self) {
        if self.backlog_length.get() != 0 {
            self.free_from_backlog(1);
        }
    }

    /// Frees everything in the backlog.
    pub(crate) fn free_backlog(&self) {
        while self.backlog_length.get() != 0 {
            self.free_from_backlog(usize::MAX);
        }
    }

    #[cold]
    fn free_from_backlog(&self, blocks: usize) {
        let Some(block) = self.backlog.lock().pop() else { return };
        self.backlog_length.sub(1);
        if let Some(rest) = block.take_apart(blocks) {
            self.backlog.lock().push(rest);
            self.backlog_length.add(1);
        }
    }

    /// Remembers a range that the source lost.
    pub(crate) fn note_loss(&self, first: u64, last: u64, cause: GapCause) {
        let mut losses = self.losses.lock();
        if losses.len() == LOSSES {
            losses.remove(0);
        }
        losses.push((first, last, cause));
    }

    /// What a reader is told of a loss.
    pub(crate) fn gap(&self, lost: Lost) -> Gap {
        let Lost { from, to, missed, taker } = lost;
        if self.config.numbering == Numbering::Own && taker == Taker::Conflation {
            // Without a lock: a reader that conflates may do so all the time.
            return Gap { from, to, missed, cause: GapCause::Conflated };
        }
        // What the source lost takes the place of an event, and is none.
        let losses = self.losses.lock();
        let cause = match taker {
            Taker::Birth => losses.iter().find(|loss| loss.1 == to).map_or(GapCause::Unread, |loss| loss.2),
            // A loss that the reader has not asked for is the one to be told.
            Taker::Conflation => {
                losses.iter().rfind(|loss| from < loss.1 && loss.1 <= to).map_or(GapCause::Conflated, |loss| loss.2)
            }
            Taker::Retention => GapCause::Retention,
        };
        let is_exact = losses.len() < LOSSES && !losses.iter().any(|loss| from < loss.1 && loss.1 <= to);
        Gap { from, to, missed: missed.filter(|_| is_exact), cause }
    }

    /// What is known of the loss that ended with this seq: its first seq and its cause.
    pub(crate) fn loss(&self, last: u64) -> Option<(u64, GapCause)> {
        let losses = self.losses.lock();
        let index = losses.binary_search_by_key(&last, |loss| loss.1).ok()?;
        Some((losses[index].0, losses[index].2))
    }

    /// What a reader that had come to `from` is told of the loss that ended with this seq.
    pub(crate) fn gap_of_mark(&self, from: u64, to: u64) -> Gap {
        let (first, cause) = self.loss(to).unwrap_or((0, GapCause::Source));
        Gap { from: from.max(first.saturating_sub(1)), to, missed: None, cause }
    }

    /// Closes every topic, and the hub.
    pub(crate) fn shutdown(&self, reason: CloseReason) {
        // The first reason is everybody's, also where two come at once.
        let mut is_first = false;
        let reason = self.shut_down.get_or_init(|| {
            is_first = true;
            reason
        });
        if is_first {
            trace::shut_down(reason);
        }
        let mut panics = FirstPanic::default();
        for index in 0..self.registry.shard_count() {
            let mut later = Later::default();
            let shard = self.registry.shard(index);
            let mut state = shard.lock();
            state.set_shutdown(reason);
            let topics: Vec<_> = state.living().cloned().collect();
            for topic in &topics {
                let ending = Ending { reason: reason.clone(), seq: self.pulse.progress.completed(), of_hub: true };
                self.registry.remove(shard, &mut state, topic, Removal::Close(ending), &mut later);
            }
            later.wakers = state.arrived(None);
            drop(state);
            drop(topics);
            // A panicking waker must not keep the news from the keys of the other shards.
            self.settle_quietly(later, &mut panics);
        }
        // Those without keys; the others find out by their keys that all is over.
        for waker in self.pulse.roster.ring_all() {
            self.pulse.wake_sets(Few::of(waker), &mut panics);
        }
        self.pulse.end(&mut panics);
        panics.go_on();
    }

    pub(crate) fn shutdown_reason(&self) -> Option<CloseReason> {
        self.shut_down.get().cloned()
    }

    pub(crate) fn is_shutdown(&self) -> bool {
        self.shut_down.get().is_some()
    }
}

impl<K, T> Drop for Shared<K, T> {
    fn drop(&mut self) {
        let mut panics = FirstPanic::default();
        self.pulse.end(&mut panics);
        panics.go_on();
    }
}

/// The first panic of user code, held back until all that is to be done is done.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Runs user code.
    pub(crate) fn run(&mut self, f: impl FnOnce()) {
        // What `f` touches is either its own or dropped here.
        let result = panic::catch_unwind(panic::AssertUnwindSafe(f));
        self.note(result.err());
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn note(&mut self, panic: Option<Box<dyn Any + Send>>) {
        if self.0.is_none() {
            self.0 = panic;
        }
    }

    /// Lets it go on. (A panic on the way out of a panic would abort the process.)
    pub(crate) fn go_on(self) {
        match self.0 {
            Some(payload) if !std::thread::panicking() => panic::resume_unwind(payload),
            _ => {}
        }
    }
}

/// Seeded per hub.
#[cfg(not(keywake_loom))]
pub(crate) type KeyHasher = foldhash::fast::RandomState;
/// A model must take the same way in every run.
#[cfg(keywake_loom)]
pub(crate) type KeyHasher = foldhash::fast::FixedState;

/// A key as the caller has it.
pub(crate) trait AsKey<K> {
    fn is(&self, key: &K) -> bool;
    fn to_key(&self) -> K;
}

/// A borrowed form, cloned only when a topic is made.
pub(crate) struct Borrowed<'a, K, Q: ?Sized>(pub(crate) &'a Q, pub(crate) PhantomData<fn() -> K>);

impl<K, Q> AsKey<K> for Borrowed<'_, K, Q>
where
    K: Borrow<Q>,
    Q: Eq + ToOwned<Owned = K> + ?Sized,
{
    #[inline]
    fn is(&self, key: &K) -> bool {
        key.borrow() == self.0
    }

    fn to_key(&self) -> K {
        self.0.to_owned()
    }
}

/// The key itself.
pub(crate) struct Owned<K>(pub(crate) K);

impl<K: Eq + Clone> AsKey<K> for Owned<K> {
    #[inline]
    fn is(&self, key: &K) -> bool {
        *key == self.0
    }

    fn to_key(&self) -> K {
        self.0.clone()
    }
}

impl<K, T> fmt::Debug for Shared<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("registry", &self.registry).field("pulse", &self.pulse).finish_non_exhaustive()
    }
}
