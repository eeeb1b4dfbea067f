//! Sets against a plain model: what is owed to each key of each set, and what a set's one position promises.
//!
//! The model knows every event ever published and, for each key of each set, from where it is owed; it demands that what is delivered is
//! in order, not delivered twice and not made up, that what is not delivered is told as lost or still to come, and that at no time the
//! position passes something that is still to come. Which keys a pattern names is a table of its own; which of them have a topic is asked of
//! the hub before each step that may make one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use arbitrary::{Arbitrary, Result, Unstructured};
use keywake::{
    Builder, CloseReason, Gap, GapCause, Hub, Pattern, Position, Publisher, Received, ReceivedRef, Relay, SourcePublisher, Start,
    SubscriptionSet, TryRecvError,
};

const KEYS: [&str; 5] = ["a", "ab", "a.b", "c.b", "c.d.e"];
/// Patterns, and the keys that they name; those that end in `=` are prefixes.
const PATTERNS: [(&str, &[&str]); 9] = [
    ("*", &["a", "ab"]),
    (">", &KEYS),
    ("*.b", &["a.b", "c.b"]),
    ("c.>", &["c.b", "c.d.e"]),
    ("a.b", &["a.b"]),
    ("*.*.e", &["c.d.e"]),
    ("a=", &["a", "ab", "a.b"]),
    ("c.=", &["c.b", "c.d.e"]),
    ("x.*", &[]),
];
const EPOCH: u64 = 1;
/// More steps than this find nothing more.
const MAX_OPS: usize = 300;

/// The settings of the hub of a case.
#[derive(Clone, Debug)]
struct Settings {
    retain_events: usize,
    retain_unread: bool,
    keep_idle: bool,
    max_topics: Option<usize>,
    is_source: bool,
    start_seq: u64,
}

/// Where a key begins in a set.
#[derive(Clone, Copy, Debug)]
enum StartAt {
    Ahead(u8),
    Back(u8),
    Foreign,
    Latest,
    Next,
    Oldest,
    /// Where the set stands.
    Here,
}

/// How a set reads.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Way {
    Lent,
    Many,
    Owned,
    Parking,
    Recv,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Add(u8, u8, StartAt),
    /// A pattern.
    AddMatching(u8, u8, StartAt),
    /// A bookmark (source).
    Advance(u8),
    Close(u8),
    DropPublisher,
    DropSet(u8),
    /// So many numbers are lost (source).
    Lost(u8),
    NewSet,
    Publish(u8, u8),
    PublishBatch(u8, u8),
    /// A reader of a key alone: comes, or goes.
    Reader(u8),
    Receive(u8, u8, Way),
    /// The relay comes, is polled, or goes.
    Relay(u8),
    Remove(u8, u8),
    /// A set is dropped, and all its keys come back with its position.
    Resume(u8),
    Shutdown,
}

/// Settings and steps.
#[derive(Clone)]
pub struct SetCase {
    settings: Settings,
    ops: Vec<Op>,
}

impl SetCase {
    /// The case that these bytes say; every sequence of bytes says one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut u = Unstructured::new(bytes);
        let settings = Settings::arbitrary(&mut u).unwrap_or(Settings {
            retain_events: 4,
            retain_unread: false,
            keep_idle: false,
            max_topics: None,
            is_source: false,
            start_seq: 0,
        });
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < MAX_OPS {
            match Op::arbitrary(&mut u) {
                Ok(op) => ops.push(op),
                Err(_) => break,
            }
        }
        Self { settings, ops }
    }
}

/// A step a line, as one reads it.
impl fmt::Debug for SetCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.settings)?;
        self.ops.iter().try_for_each(|op| write!(f, "\n    {op:?}"))
    }
}

fn one_in(u: &mut Unstructured<'_>, n: u8) -> Result<bool> {
    Ok(u.int_in_range(0..=n - 1)? == n - 1)
}

impl<'a> Arbitrary<'a> for Settings {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            retain_events: if one_in(u, 2)? { u.int_in_range(1..=8)? } else { 1_000 },
            retain_unread: one_in(u, 3)?,
            keep_idle: one_in(u, 3)?,
            max_topics: if one_in(u, 5)? { Some(u.int_in_range(0..=4)?) } else { None },
            is_source: one_in(u, 3)?,
            start_seq: if one_in(u, 3)? { u.int_in_range(0..=50)? } else { 0 },
        })
    }
}

impl<'a> Arbitrary<'a> for StartAt {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=15_u8)? {
            0..=5 => Self::Next,
            6..=7 => Self::Oldest,
            8 => Self::Latest,
            9 => Self::Ahead(u.int_in_range(1..=20)?),
            10..=12 => Self::Back(u.int_in_range(0..=60)?),
            13 => Self::Foreign,
            _ => Self::Here,
        })
    }
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let kind = u.int_in_range(0..=127_u8)?;
        let key = u.int_in_range(0..=4_u8)?;
        let set = u.int_in_range(0..=3_u8)?;
        Ok(match kind {
            0..=29 => Self::Publish(key, u.int_in_range(1..=6)?),
            30..=37 => Self::PublishBatch(u.arbitrary()?, u.int_in_range(1..=20)?),
            38..=42 => Self::NewSet,
            43..=57 => Self::Add(set, key, u.arbitrary()?),
            58..=62 => Self::AddMatching(set, u.int_in_range(0..=8)?, u.arbitrary()?),
            63..=92 => Self::Receive(set, u.int_in_range(1..=20)?, u.arbitrary()?),
            93..=98 => Self::Remove(set, key),
            99..=101 => Self::DropSet(set),
            102..=106 => Self::Resume(set),
            107..=110 => Self::Close(key),
            111..=115 => Self::Relay(u.int_in_range(0..=5)?),
            116..=118 => Self::Reader(key),
            119..=120 => Self::Advance(u.int_in_range(0..=10)?),
            121..=122 => Self::Lost(u.int_in_range(1..=10)?),
            123 if one_in(u, 4)? => Self::Shutdown,
            124 if one_in(u, 4)? => Self::DropPublisher,
            _ => Self::Publish(key, 1),
        })
    }
}

/// Who publishes.
enum Ends {
    Own(Publisher<String, u64>),
    Source(SourcePublisher<String, u64>),
}

/// A waker that counts.
#[derive(Default)]
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a set owes for one of its keys.
#[derive(Clone, Debug)]
struct Owed {
    /// Events of the key after this are owed.
    from: u64,
    /// The position may have passed what was lost up to here, when the set had not the key.
    since: u64,
    /// Up to this; `None`: for ever.
    until: Option<u64>,
    /// Nothing up to here is to come (any more).
    at: u64,
    delivered: BTreeSet<u64>,
    lost: Vec<(u64, u64)>,
    /// It is to be told first that it came from elsewhere.
    foreign: Option<GapCause>,
    /// It may be told that there are too many topics.
    may_be_refused: bool,
    is_closed: bool,
    /// What is owed for the key's next topic, which a pattern has brought before the end of this one was told.
    next: Option<Box<Self>>,
}

impl Owed {
    /// Of a topic that a pattern has brought.
    fn brought(from: u64, since: u64) -> Self {
        Self {
            from,
            since,
            until: None,
            at: 0,
            delivered: BTreeSet::new(),
            lost: Vec::new(),
            foreign: None,
            may_be_refused: false,
            is_closed: false,
            next: None,
        }
    }

    /// This, and what is owed for topics after it.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |owed| owed.next.as_deref())
    }

    fn last_mut(&mut self) -> &mut Self {
        match self.next {
            Some(ref mut next) => next.last_mut(),
            None => self,
        }
    }

    /// Which of them this is of.
    fn of(&mut self, item: &Item) -> &mut Self {
        let is_later = match item {
            Item::Event(seq, _) => self.until.is_some_and(|until| *seq > until),
            Item::Gap(_) | Item::Ended(_) => false,
        };
        if !is_later || self.next.is_none() {
            return self;
        }
        self.next.as_mut().expect("it is there").of(item)
    }

    fn lose(&mut self, gap: &Gap) {
        let mut part = Some(self);
        let mut is_foreign = matches!(gap.cause, GapCause::Ahead | GapCause::OtherEpoch);
        while let Some(owed) = part {
            owed.lost.push((gap.from, gap.to));
            if is_foreign && owed.foreign == Some(gap.cause) {
                (owed.foreign, is_foreign) = (None, false);
            }
            part = owed.next.as_deref_mut();
        }
        assert!(!is_foreign, "it did not come from elsewhere: {gap:?}");
    }

    fn is_told(&self, seq: u64) -> bool {
        self.delivered.contains(&seq) || self.lost.iter().any(|(from, to)| *from < seq && seq <= *to)
    }
}

/// A set, and what the model knows of it.
struct Reading {
    set: SubscriptionSet<String, u64>,
    owed: BTreeMap<&'static str, Owed>,
    patterns: Vec<Wanted>,
    /// The seq of the last event, since the position was last taken back.
    last: u64,
    rings: Arc<Rings>,
    /// The rings when it fell asleep.
    asleep_at: Option<usize>,
    has_ended: bool,
}

/// A pattern of a set.
struct Wanted {
    keys: &'static [&'static str],
    /// Nothing up to this.
    from: u64,
    /// Keys that the set has read since: a later topic is owed from its beginning.
    met: BTreeSet<&'static str>,
}

impl Reading {
    /// All that is owed, with its key.
    fn all_owed(&self) -> impl Iterator<Item = (&'static str, &Owed)> {
        self.owed.iter().flat_map(|(key, owed)| owed.all().map(|owed| (*key, owed)))
    }

    fn assert_len(&self) {
        assert_eq!(self.set.len(), self.all_owed().count());
    }

    /// A topic of this key is made, and what comes after `now` goes there.
    fn bring(&mut self, key: &'static str, now: u64) {
        let mut from = None;
        for wanted in self.patterns.iter_mut().filter(|wanted| wanted.keys.contains(&key)) {
            // Whichever of the patterns it comes by.
            let begin = if wanted.met.insert(key) { wanted.from } else { now.max(wanted.from) };
            from = from.max(Some(begin));
        }
        let Some(from) = from else { return };
        match self.owed.get_mut(key).map(Owed::last_mut) {
            None => drop(self.owed.insert(key, Owed::brought(from, now))),
            Some(owed) if owed.until.is_some() => owed.next = Some(Box::new(Owed::brought(from, now))),
            Some(_) => {}
        }
    }
}

/// The hub and the model side by side.
struct World {
    hub: Hub<String, u64>,
    ends: Option<Ends>,
    /// The events by their seqs: their keys.
    log: BTreeMap<u64, &'static str>,
    /// What the source lost.
    lost: Vec<(u64, u64)>,
    seq: u64,
    sets: Vec<Reading>,
    readers: BTreeMap<&'static str, keywake::Subscription<String, u64>>,
    relay: Option<(Pin<Box<Relay>>, Arc<Rings>, usize)>,
    settings: Settings,
    is_shut_down: bool,
}

fn key_of(key: u8) -> &'static str {
    KEYS[usize::from(key) % KEYS.len()]
}

/// Carries a case out on both, and panics at the first difference.
///
/// # Panics
/// See above.
pub fn run_sets(case: &SetCase) {
    let Settings { retain_events, retain_unread, keep_idle, max_topics, is_source, start_seq } = case.settings.clone();
    let mut builder = Builder::<String, u64>::new().epoch(EPOCH).retain_events(retain_events).retain_unread(retain_unread);
    builder = builder.start_seq(start_seq);
    if keep_idle {
        builder = builder.keep_idle(std::time::Duration::from_secs(3_600));
    }
    if let Some(max_topics) = max_topics {
        builder = builder.max_topics(max_topics);
    }
    let (ends, hub) = if is_source {
        let (publisher, hub) = builder.build_from_source();
        (Ends::Source(publisher), hub)
    } else {
        let (publisher, hub) = builder.build();
        (Ends::Own(publisher), hub)
    };
    let mut world = World {
        hub,
        ends: Some(ends),
        log: BTreeMap::new(),
        lost: Vec::new(),
        seq: start_seq,
        sets: Vec::new(),
        readers: BTreeMap::new(),
        relay: None,
        settings: case.settings.clone(),
        is_shut_down: false,
    };
    for op in &case.ops {
        world.step(*op);
        world.check_positions();
    }
    world.finish();
}

impl World {
    fn step(&mut self, op: Op) {
        match op {
            Op::Add(set, key, start) => self.add(set, key_of(key), start),
            Op::AddMatching(set, pattern, start) => self.add_matching(set, pattern, start),
            Op::Advance(by) => {
                let seq = self.seq + u64::from(by);
                let Some(Ends::Source(publisher)) = &mut self.ends else { return };
                if by > 0 && publisher.advance_to(seq).is_ok() {
                    self.seq = seq;
                }
            }
            Op::Close(key) => self.close(key_of(key)),
            Op::DropPublisher => {
                if self.ends.take().is_some() {
                    self.shut_down();
                }
            }
            Op::DropSet(set) => {
                if let Some(index) = self.index(set) {
                    self.sets.remove(index);
                }
            }
            Op::Lost(number) => self.lose(number),
            Op::NewSet => self.new_set(),
            Op::Publish(key, number) => (0..number).for_each(|_| self.publish(key_of(key))),
            Op::PublishBatch(seed, number) => self.publish_batch(seed, number),
            Op::Reader(key) => {
                let key = key_of(key);
                if self.readers.remove(key).is_none() {
                    let had_topic = self.has_topic(key);
                    self.readers.insert(key, self.hub.subscribe(key));
                    self.note_topic(key, had_topic, self.seq);
                }
            }
            Op::Receive(set, number, way) => self.receive(set, number, way),
            Op::Relay(what) => self.relay(what),
            Op::Remove(set, key) => {
                if let Some(index) = self.index(set) {
                    let reading = &mut self.sets[index];
                    // Which of two goes is not said.
                    if reading.owed.get(key_of(key)).is_none_or(|owed| owed.next.is_none()) {
                        assert_eq!(reading.set.remove(key_of(key)), reading.owed.remove(key_of(key)).is_some());
                        reading.assert_len();
                    }
                }
            }
            Op::Resume(set) => self.resume(set),
            Op::Shutdown => {
                self.hub.shutdown(CloseReason::Shutdown);
                self.shut_down();
            }
        }
    }

    fn index(&self, set: u8) -> Option<usize> {
        (!self.sets.is_empty()).then(|| usize::from(set) % self.sets.len())
    }

    fn new_set(&mut self) {
        if self.sets.len() < 4 {
            self.sets.push(Reading {
                set: self.hub.subscribe_set(),
                owed: BTreeMap::new(),
                patterns: Vec::new(),
                last: 0,
                rings: Arc::default(),
                asleep_at: None,
                has_ended: false,
            });
        }
    }

    fn add(&mut self, set: u8, key: &'static str, start: StartAt) {
        let Some(index) = self.index(set) else { return };
        let start = self.start(index, start);
        self.add_at(index, key, start);
    }

    fn start(&self, index: usize, start: StartAt) -> Start {
        let here = self.sets[index].set.position();
        let now = self.seq;
        let position = |seq| Start::After(Position::new(EPOCH, seq));
        match start {
            StartAt::Ahead(by) => position(now + u64::from(by)),
            StartAt::Back(by) => position(now.saturating_sub(u64::from(by))),
            StartAt::Foreign => Start::After(Position::new(EPOCH + 1, 7)),
            StartAt::Here => Start::After(here),
            StartAt::Latest => Start::Latest,
            StartAt::Next => Start::Next,
            StartAt::Oldest => Start::Oldest,
        }
    }

    fn has_topic(&self, key: &str) -> bool {
        self.hub.topic_stats(key).is_some()
    }

    /// A step may have made the topic of this key: it is read by all sets that want it, from `before` on.
    fn note_topic(&mut self, key: &'static str, had_topic: bool, before: u64) {
        if !had_topic && self.has_topic(key) {
            self.sets.iter_mut().for_each(|reading| reading.bring(key, before));
        }
    }

    fn add_matching(&mut self, set: u8, pattern: u8, start: StartAt) {
        // Where there is no room for a topic, what a pattern wants depends on who else goes.
        let Some(index) = self.index(set).filter(|_| self.settings.max_topics.is_none()) else { return };
        let (text, keys) = PATTERNS[usize::from(pattern) % PATTERNS.len()];
        let pattern = match text.strip_suffix('=') {
            Some(prefix) => Pattern::prefix(prefix),
            None => text.parse(),
        };
        let start = self.start(index, start);
        let had_topic = KEYS.map(|key| self.has_topic(key));
        let reading = &mut self.sets[index];
        reading.set.add_matching_from(&pattern.expect("a pattern"), start);
        reading.asleep_at = None;
        let from = match start {
            Start::After(position) if position.epoch() == EPOCH && (self.settings.is_source || position.seq() <= self.seq) => {
                position.seq()
            }
            _ => self.seq,
        };
        let mut met = BTreeSet::new();
        let begin = self.owed_from(start);
        for key in keys {
            let reading = &mut self.sets[index];
            let had_topic = KEYS.iter().zip(had_topic).any(|(other, had_topic)| other == key && had_topic);
            if let Some(owed) = reading.owed.get_mut(key).map(Owed::last_mut) {
                if had_topic && owed.until.is_some() {
                    // It has ended, and is not told yet; but has a new topic, which may begin before where the set has come to.
                    reading.last = reading.last.min(begin.at);
                    owed.next = Some(Box::new(begin.clone()));
                }
                continue;
            }
            assert!(!had_topic || reading.set.contains(*key), "{text} names {key}, which has a topic");
            if reading.set.contains(*key) {
                let owed = begin.clone();
                reading.last = reading.last.min(owed.at);
                reading.owed.insert(key, owed);
                self.note_topic(key, had_topic, self.seq);
            }
        }
        let reading = &mut self.sets[index];
        met.extend(keys.iter().filter(|key| reading.owed.contains_key(*key)));
        reading.patterns.push(Wanted { keys, from, met });
    }

    fn add_at(&mut self, index: usize, key: &'static str, start: Start) {
        let (now, had_topic, owed) = (self.seq, self.has_topic(key), self.owed_from(start));
        let reading = &mut self.sets[index];
        let before = reading.set.position();
        let is_new = reading.set.add_from(key, start);
        // What a pattern brings may tell of a loss where the set last looked, before the position that it told since.
        let may_go_back = start != Start::Next || !reading.patterns.is_empty();
        assert!(may_go_back || reading.set.position() >= before, "{before}, then {}", reading.set.position());
        assert_eq!(is_new, !reading.owed.contains_key(key));
        assert!(reading.set.contains(key));
        if !is_new {
            return;
        }
        // It was told by its owner, who asks again.
        reading.asleep_at = None;
        if !had_topic && matches!(start, Start::Next | Start::Latest) && !self.is_shut_down {
            // By a pattern, if one names it.
            reading.bring(key, now);
        }
        if !reading.owed.contains_key(key) {
            reading.last = reading.last.min(owed.at);
            reading.owed.insert(key, owed);
        }
        for wanted in reading.patterns.iter_mut().filter(|wanted| wanted.keys.contains(&key)) {
            wanted.met.insert(key);
        }
        reading.assert_len();
        self.note_topic(key, had_topic, self.seq);
    }

    /// What is owed of a key that begins to be read here.
    fn owed_from(&self, start: Start) -> Owed {
        let now = self.seq;
        let may_be_refused = self.settings.max_topics.is_some();
        let (from, at, foreign) = match start {
            Start::After(position) if position.epoch() != EPOCH => (now, 0, Some(GapCause::OtherEpoch)),
            Start::After(position) if !self.settings.is_source && position.seq() > now => (now, now, Some(GapCause::Ahead)),
            Start::After(position) => (position.seq(), position.seq(), None),
            Start::Latest | Start::Oldest => (now, 0, None),
            Start::Next => (now, now, None),
        };
        // Over before it began: nothing is told then.
        let until = self.is_shut_down.then_some(0);
        Owed { until, at, foreign, may_be_refused, ..Owed::brought(from, from) }
    }

    fn publish(&mut self, key: &'static str) {
        let seq = self.seq + 1;
        let had_topic = self.has_topic(key);
        match &mut self.ends {
            None => return,
            Some(Ends::Own(publisher)) => assert_eq!(publisher.publish(key, seq).seq, seq),
            Some(Ends::Source(publisher)) => {
                assert_eq!(publisher.publish_at(seq, key, seq).map(|published| published.seq), Ok(seq))
            }
        }
        self.note_topic(key, had_topic, self.seq);
        self.note(key);
    }

    fn publish_batch(&mut self, seed: u8, number: u8) {
        let keys: Vec<_> = (0..number).map(|n| key_of(seed.wrapping_mul(7).wrapping_add(n.wrapping_mul(n)))).collect();
        let had_topic = KEYS.map(|key| self.has_topic(key));
        if let Some(Ends::Own(publisher)) = &mut self.ends {
            publisher.publish_batch(keys.iter().zip(self.seq + 1..).map(|(key, seq)| ((*key).to_owned(), seq)));
            for (key, had_topic) in KEYS.into_iter().zip(had_topic) {
                self.note_topic(key, had_topic, self.seq);
            }
            keys.iter().for_each(|key| self.note(key));
        } else {
            keys.iter().for_each(|key| self.publish(key));
        }
    }

    fn note(&mut self, key: &'static str) {
        self.seq += 1;
        if !self.is_shut_down {
            self.log.insert(self.seq, key);
        }
    }

    fn lose(&mut self, number: u8) {
        if let Some(Ends::Source(publisher)) = &mut self.ends {
            let (first, last) = (self.seq + 1, self.seq + u64::from(number));
            assert_eq!(publisher.lost(first..=last, GapCause::Source), Ok(()));
            self.seq = last;
            if !self.is_shut_down {
                self.lost.push((first, last));
            }
        }
    }

    fn close(&mut self, key: &'static str) {
        let was_there = self.hub.close(key, CloseReason::KeyClosed);
        self.readers.remove(key);
        for owed in self.sets.iter_mut().filter_map(|reading| reading.owed.get_mut(key)) {
            let owed = owed.last_mut();
            if was_there && !owed.is_closed && owed.until.is_none() {
                owed.until = Some(self.seq);
                owed.is_closed = true;
            }
        }
    }

    fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.is_shut_down, true) {
            for owed in self.sets.iter_mut().flat_map(|reading| reading.owed.values_mut()) {
                owed.last_mut().until.get_or_insert(self.seq);
            }
        }
    }

    fn relay(&mut self, what: u8) {
        if self.relay.is_none() {
            self.relay = Some((Box::pin(self.hub.relay()), Arc::default(), 0));
        }
        if what == 0 {
            self.relay = None;
        } else {
            self.poll_relay();
        }
    }

    fn poll_relay(&mut self) {
        let Some((relay, rings, seen)) = &mut self.relay else { return };
        for _ in 0..100 {
            *seen = rings.0.load(Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(rings));
            if relay.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.relay = None;
                return;
            }
            if rings.0.load(Ordering::SeqCst) == *seen {
                return;
            }
        }
        panic!("the relay wakes itself for ever");
    }

    /// The relay has done all that it was woken for.
    fn is_settled(&self) -> bool {
        self.relay.as_ref().is_none_or(|(_, rings, seen)| rings.0.load(Ordering::SeqCst) == *seen)
    }

    fn receive(&mut self, set: u8, number: u8, way: Way) {
        let Some(index) = self.index(set) else { return };
        for _ in 0..number {
            let is_settled = self.is_settled();
            let reading = &mut self.sets[index];
            let asleep = reading.asleep_at.take();
            let before = reading.rings.0.load(Ordering::SeqCst);
            let got = take(&mut reading.set, &reading.rings, way, number);
            let was_woken = asleep.is_none_or(|rings| before > rings);
            match got {
                Taken::Some(items) => {
                    assert!(was_woken || !is_settled, "it sleeps, and there is {items:?}");
                    for (key, item) in items {
                        self.told(index, &key, item);
                    }
                }
                Taken::Ended(reason) => {
                    assert!(was_woken || !is_settled, "it sleeps, and is over");
                    return self.ended(index, &reason);
                }
                // It lets others run, and asks to be polled again.
                Taken::Empty { .. } if reading.rings.0.load(Ordering::SeqCst) > before => {}
                Taken::Empty { parked } => {
                    reading.asleep_at = parked.then_some(before);
                    return self.empty(index);
                }
            }
        }
    }

    fn told(&mut self, index: usize, key: &str, item: Item) {
        let reading = &mut self.sets[index];
        assert!(!reading.has_ended, "{item:?} comes after the end");
        let Some(key) = KEYS.into_iter().find(|other| *other == key) else { panic!("{key} is no key") };
        let Some(owed) = reading.owed.get_mut(key) else { panic!("{key} is not of the set: {item:?}") };
        if let (Item::Gap(gap), true) = (&item, owed.next.is_some()) {
            // Of which of its topics is not said.
            return owed.lose(gap);
        }
        let owed = owed.of(&item);
        match item {
            Item::Event(seq, payload) => {
                assert_eq!((self.log.get(&seq), payload), (Some(&key), seq), "{key}");
                assert_eq!(owed.foreign, None, "{key} is to be told first that it came from elsewhere");
                assert!(seq > owed.at, "{key}: {seq} comes after {owed:?}");
                assert!(seq > reading.last, "{key}: {seq} comes after {}", reading.last);
                owed.at = seq;
                owed.delivered.insert(seq);
                reading.last = seq;
                let position = reading.set.position();
                assert!(position.epoch() != EPOCH || position.seq() >= seq || self.is_shut_down, "{position} after {seq}");
            }
            Item::Gap(gap) => {
                match (owed.foreign.take(), gap.cause) {
                    (Some(cause), _) => assert_eq!(gap.cause, cause),
                    (None, GapCause::Ahead | GapCause::OtherEpoch) => panic!("{key} did not come from elsewhere: {gap:?}"),
                    (None, _) => assert!(gap.from < gap.to && owed.delivered.last().is_none_or(|last| gap.from >= *last)),
                }
                if let Some(missed) = gap.missed {
                    let events = self.log.range(gap.from + 1..=gap.to).filter(|(_, of)| **of == key).count();
                    assert_eq!(missed, events as u64, "{gap:?}");
                }
                let is_ahead = gap.cause == GapCause::Ahead;
                assert!(if is_ahead { gap.from == gap.to && gap.to <= self.seq } else { gap.to >= owed.at }, "{gap:?}, {owed:?}");
                owed.at = owed.at.max(gap.to);
                owed.lost.push((gap.from, gap.to));
            }
            Item::Ended(reason) => {
                let is_limit = reason == CloseReason::TopicLimit;
                assert!(if is_limit { owed.may_be_refused } else { owed.is_closed }, "{key}: {reason}, {owed:?}");
                if !is_limit {
                    let until = owed.until.unwrap_or(self.seq);
                    if let Some(seq) = first_untold(&self.log, &self.lost, key, owed, until) {
                        panic!("{key} ended, and {seq} was not told");
                    }
                }
                let next = owed.next.take();
                reading.owed.remove(key);
                assert!(!reading.set.contains(key) || next.is_some());
                reading.owed.extend(next.map(|next| (key, *next)));
            }
        }
    }

    /// It has nothing now: nothing is owed.
    fn empty(&self, index: usize) {
        let reading = &self.sets[index];
        for (key, owed) in reading.all_owed() {
            assert_eq!(owed.foreign, None, "{key}");
            assert!(!owed.is_closed, "{key} was closed, and its end is told");
            let until = owed.until.unwrap_or(self.seq).min(self.seq);
            if let Some(seq) = first_untold(&self.log, &self.lost, key, owed, until) {
                panic!("{key}: nothing comes, and {seq} was not told: {owed:?}");
            }
        }
        assert!(!self.is_shut_down, "it should have ended");
        let position = reading.set.position();
        assert_eq!(position, Position::new(EPOCH, self.seq), "all is read");
    }

    fn ended(&mut self, index: usize, reason: &CloseReason) {
        assert!(self.is_shut_down, "{reason}");
        let reading = &mut self.sets[index];
        reading.has_ended = true;
        for (key, owed) in reading.all_owed() {
            let until = owed.until.unwrap_or(self.seq);
            assert!(!owed.is_closed, "{key} was closed, and its end is told");
            if let Some(seq) = first_untold(&self.log, &self.lost, key, owed, until) {
                panic!("{key}: over, and {seq} was not told: {owed:?}");
            }
        }
    }

    /// Drops a set, and takes up all its keys where it stood.
    fn resume(&mut self, set: u8) {
        let Some(index) = self.index(set) else { return };
        let old = self.sets.remove(index);
        let position = old.set.position();
        let keys: Vec<_> = old.owed.keys().copied().collect();
        // Half of them before the old one goes: their topics live on.
        self.new_set();
        let index = self.sets.len() - 1;
        let (early, late) = keys.split_at(keys.len() / 2);
        for key in early {
            self.add_at(index, key, Start::After(position));
        }
        drop(old);
        for key in late {
            self.add_at(index, key, Start::After(position));
        }
    }

    fn check_positions(&self) {
        for reading in &self.sets {
            let position = reading.set.position();
            if position.epoch() != EPOCH {
                assert!(reading.all_owed().any(|(_, owed)| owed.foreign.is_some()));
                continue;
            }
            if reading.all_owed().any(|(_, owed)| owed.foreign.is_some()) {
                // As it came, from ahead.
                continue;
            }
            assert!(position.seq() <= self.seq.max(self.settings.start_seq), "{position} is ahead of {}", self.seq);
            let goes_back = position.seq() < reading.last && !self.is_shut_down;
            assert!(!goes_back, "{position}, and {} was received", reading.last);
            for (key, owed) in reading.all_owed() {
                let until = owed.until.unwrap_or(u64::MAX).min(position.seq());
                let untold = first_untold_after(owed.from.max(owed.since), &self.log, &self.lost, key, owed, until);
                if let Some(seq) = untold {
                    panic!("{position} passes {seq} of {key}, which was not told: {owed:?}");
                }
            }
        }
    }

    fn finish(mut self) {
        self.poll_relay();
        for index in 0..self.sets.len() {
            for _ in 0..100_000 {
                match take(&mut self.sets[index].set, &Arc::default(), Way::Owned, 1) {
                    Taken::Some(items) => items.into_iter().for_each(|(key, item)| self.told(index, &key, item)),
                    Taken::Ended(reason) => {
                        self.ended(index, &reason);
                        break;
                    }
                    Taken::Empty { .. } => {
                        self.empty(index);
                        break;
                    }
                }
            }
            self.check_positions();
        }
        let stats = self.hub.stats();
        assert_eq!(stats.empty_wakes, 0, "a wake for nothing");
        self.sets.clear();
        self.readers.clear();
        assert_eq!(self.hub.stats().readers, 0);
    }
}

/// The first event, or end of a loss, that is owed up to `until` and was not told.
fn first_untold(log: &BTreeMap<u64, &'static str>, lost: &[(u64, u64)], key: &str, owed: &Owed, until: u64) -> Option<u64> {
    first_untold_after(owed.from, log, lost, key, owed, until)
}

fn first_untold_after(
    from: u64,
    log: &BTreeMap<u64, &'static str>,
    lost: &[(u64, u64)],
    key: &str,
    owed: &Owed,
    until: u64,
) -> Option<u64> {
    if until <= from {
        return None;
    }
    let event = log.range(from + 1..=until).find(|(seq, of)| **of == key && !owed.is_told(**seq)).map(|(seq, _)| *seq);
    let lost = lost.iter().map(|(_, last)| *last).find(|last| *last > from && *last <= until && !owed.is_told(*last));
    event.min(lost).or(event).or(lost)
}

/// Something that a set told.
#[derive(Debug)]
enum Item {
    Ended(CloseReason),
    Event(u64, u64),
    Gap(Gap),
}

enum Taken {
    Empty { parked: bool },
    Ended(CloseReason),
    Some(Vec<(String, Item)>),
}

fn item(received: &Received<u64>) -> Item {
    match received {
        Received::Event(event) => Item::Event(event.seq(), **event),
        Received::Gap(gap) => Item::Gap(*gap),
        Received::Ended(closed) => Item::Ended(closed.reason().clone()),
        other => panic!("not expected of a set: {other:?}"),
    }
}

fn take(set: &mut SubscriptionSet<String, u64>, rings: &Arc<Rings>, way: Way, max: u8) -> Taken {
    let waker = Waker::from(Arc::clone(rings));
    let mut cx = Context::from_waker(&waker);
    let one = |key: &String, item| Taken::Some(vec![(key.clone(), item)]);
    match way {
        Way::Lent => match set.try_recv_ref() {
            Ok((key, ReceivedRef::Event(event))) => one(key, Item::Event(event.seq(), *event)),
            Ok((key, ReceivedRef::Gap(gap))) => one(key, Item::Gap(gap)),
            Ok((key, ReceivedRef::Ended(closed))) => one(key, Item::Ended(closed.reason().clone())),
            Ok((_, other)) => panic!("not expected of a set: {other:?}"),
            Err(TryRecvError::Empty) => Taken::Empty { parked: false },
            Err(TryRecvError::Closed(closed)) => Taken::Ended(closed.reason().clone()),
        },
        Way::Owned => match set.try_recv() {
            Ok((key, received)) => one(&key, item(&received)),
            Err(TryRecvError::Empty) => Taken::Empty { parked: false },
            Err(TryRecvError::Closed(closed)) => Taken::Ended(closed.reason().clone()),
        },
        Way::Parking => match set.poll_recv(&mut cx) {
            Poll::Ready(Ok((key, received))) => one(&key, item(&received)),
            Poll::Ready(Err(closed)) => Taken::Ended(closed.reason().clone()),
            Poll::Pending => Taken::Empty { parked: true },
        },
        Way::Recv => match pin!(set.recv()).poll(&mut cx) {
            Poll::Ready(Ok((key, received))) => one(&key, item(&received)),
            Poll::Ready(Err(closed)) => Taken::Ended(closed.reason().clone()),
            Poll::Pending => Taken::Empty { parked: false },
        },
        Way::Many => {
            let mut buffer = Vec::new();
            let polled = pin!(set.recv_many(&mut buffer, usize::from(max))).poll(&mut cx);
            match polled {
                Poll::Ready(Ok(number)) => {
                    assert_eq!(number, buffer.len());
                    // The position is behind all of them: they are told one by one.
                    Taken::Some(buffer.iter().map(|(key, received)| (key.to_string(), item(received))).collect())
                }
                Poll::Ready(Err(closed)) => Taken::Ended(closed.reason().clone()),
                Poll::Pending => Taken::Empty { parked: false },
            }
        }
    }
}
