//! One subscription and what it is owed.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use keywake::{CloseReason, Closed, Event, Gap, GapCause, Position, Received, ReceivedRef, Slow, Subscription, TryRecvError};

use crate::{
    case::{Settings, Way},
    ledger::{Payload, is_chosen},
    log::{Due, Log},
};

/// A waker that counts.
#[derive(Debug, Default)]
pub(crate) struct Alarm(AtomicUsize);

impl Alarm {
    fn count(&self) -> usize {
        // Relaxed: one thread.
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the next step may do to a parked reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakes {
    May,
    Must,
    MustNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parked {
    /// Nothing is known.
    Unknown,
    /// The waker is parked, at this count.
    Waiting(usize),
    /// Woken, or cancelled: not one wake more.
    Quiet(usize),
}

/// Whether a reader was just told of what it skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    Maybe,
    No,
    Yes,
}

/// The gap that must come before everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Anything,
    Gap(GapCause),
}

/// The items that must come before everything else.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) items: VecDeque<usize>,
    pub(crate) position: Position,
}

/// What a reader got, without its lifetime.
#[derive(Debug)]
enum Got {
    Event { seq: u64, position: Position, value: usize },
    Gap(Gap),
    SnapshotEnd(Position),
}

/// The outcome of one look.
#[derive(Debug)]
enum Look {
    Closed(Closed),
    Empty,
    Got(Vec<(Got, Option<Event<Payload>>)>),
    /// The reader has had so much in a row that it lets others go first.
    Yielded,
}

pub(crate) struct Reader {
    sub: Subscription<String, Payload>,
    pub(crate) key: usize,
    /// The topic holds no event up to here: it was not yet there.
    pub(crate) born: u64,
    /// Nothing up to here is owed any more: delivered, told as lost, or not asked for.
    told: u64,
    /// The last number delivered or told.
    received: u64,
    first: First,
    came_with: Option<Position>,
    snapshot: Option<Snapshot>,
    /// What is numbered above this is no longer for this reader, which ends for this reason.
    pub(crate) end: Option<(u64, CloseReason)>,
    /// Whether the topic counts it.
    pub(crate) counted: bool,
    /// It ended as soon as it was made.
    refused: bool,
    /// Started beyond the hub: events up to there pass by.
    ahead: bool,
    slow: Slow,
    /// Only what the predicate accepts is owed.
    chooses: bool,
    /// Something was received that is not what it began with.
    has_begun: bool,
    /// What was skipped is told, and an event comes next.
    skipped: Skipped,
    finished: bool,
    alarm: Arc<Alarm>,
    parked: Parked,
}

impl Reader {
    pub(crate) fn new(sub: Subscription<String, Payload>, key: usize, born: u64, told: u64, log: &Log) -> Self {
        Self {
            sub,
            key,
            born,
            told,
            received: 0,
            first: First::Anything,
            came_with: None,
            snapshot: None,
            end: None,
            counted: true,
            refused: false,
            ahead: told > log.last,
            slow: Slow::Gap,
            chooses: false,
            has_begun: false,
            skipped: Skipped::No,
            finished: false,
            alarm: Arc::default(),
            parked: Parked::Unknown,
        }
    }

    /// It came with a position that is not one of this hub, or not yet.
    pub(crate) fn expecting(self, cause: GapCause, came_with: Position) -> Self {
        Self { first: First::Gap(cause), came_with: Some(came_with), ..self }
    }

    /// It has the predicate.
    pub(crate) fn choosing(self) -> Self {
        Self { chooses: true, ..self }
    }

    fn is_mine(&self, event: &(u64, usize)) -> bool {
        !self.chooses || is_chosen(event.1)
    }

    /// What it is owed that was told all up to `told`.
    fn next_due(&self, log: &Log, told: u64) -> Option<Due> {
        let mut due = log.next_due(self.key, told);
        while let Some(Due::Event { seq, value }) = due {
            if self.is_mine(&(seq, value)) {
                break;
            }
            due = log.next_due(self.key, seq);
        }
        due
    }

    /// From now on it gets this where it does not keep up.
    pub(crate) fn slow(self, slow: Slow) -> Self {
        Self { sub: self.sub.slow(slow), slow, skipped: Skipped::No, ..self }
    }

    pub(crate) fn with_snapshot(self, snapshot: Snapshot) -> Self {
        Self { snapshot: Some(snapshot), ..self }
    }

    /// A subscription that ended as soon as it was made: owed nothing but the reason.
    pub(crate) fn ended_at_once(self, reason: CloseReason) -> Self {
        Self { end: Some((0, reason)), counted: false, refused: true, ..self }
    }

    /// Its topic is closed: it drains, then ends.
    pub(crate) fn end(&mut self, last: u64, reason: &CloseReason) {
        if self.counted {
            self.counted = false;
            self.end = Some((last, reason.clone()));
        }
    }

    /// Where it stands, if that is a position of this hub.
    pub(crate) fn standing(&self) -> Option<Position> {
        (self.first == First::Anything && self.snapshot.is_none()).then(|| self.sub.position())
    }

    /// Events of its topic that retention by count must have kept.
    fn kept<'log>(&self, log: &'log Log, settings: &Settings) -> &'log [(u64, usize)] {
        if !settings.by_count_only() {
            return &[];
        }
        log.newest(self.key, self.born, self.last_for_me(log), settings.retain_events)
    }

    fn last_for_me(&self, log: &Log) -> u64 {
        self.end.as_ref().map_or(log.last, |(last, _)| *last)
    }

    /// Reads up to `count` things; returns owned events where `hold`.
    pub(crate) fn receive(&mut self, count: usize, way: Way, hold: bool, log: &Log, settings: &Settings) -> Vec<Event<Payload>> {
        let mut held = Vec::new();
        let mut left = count;
        while left > 0 {
            match self.look(way, left, hold) {
                Look::Got(things) => {
                    assert!(!self.finished, "something came after the end");
                    left -= things.len();
                    for (got, event) in things {
                        self.got(&got, log, settings);
                        held.extend(event);
                    }
                }
                Look::Empty => {
                    self.found_empty(log, settings);
                    break;
                }
                Look::Closed(closed) => {
                    self.found_closed(&closed, log, settings);
                    break;
                }
                Look::Yielded => break,
            }
            self.check(log, settings);
        }
        held
    }

    fn look(&mut self, way: Way, max: usize, hold: bool) -> Look {
        self.parked = Parked::Unknown;
        let before = self.alarm.count();
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut cx = Context::from_waker(&waker);
        let polled = match way {
            Way::Owned => match self.sub.try_recv() {
                Ok(received) => Poll::Ready(Ok(vec![owned(received, hold)])),
                Err(TryRecvError::Closed(closed)) => Poll::Ready(Err(closed)),
                Err(TryRecvError::Empty) => return Look::Empty,
            },
            Way::Lent => match self.sub.try_recv_ref() {
                Ok(received) => Poll::Ready(Ok(vec![lent(received, hold)])),
                Err(TryRecvError::Closed(closed)) => Poll::Ready(Err(closed)),
                Err(TryRecvError::Empty) => return Look::Empty,
            },
            Way::Parking => self.sub.poll_recv(&mut cx).map_ok(|received| vec![owned(received, hold)]),
            Way::Recv => Pin::new(&mut self.sub.recv()).poll(&mut cx).map_ok(|received| vec![owned(received, hold)]),
            Way::Many => {
                let mut buf = Vec::new();
                let polled = pin!(self.sub.recv_many(&mut buf, max)).poll(&mut cx);
                if let Poll::Ready(Ok(n)) = &polled {
                    assert!(*n == buf.len() && *n > 0 && *n <= max, "recv_many(max {max}) says {n}, gave {}", buf.len());
                } else {
                    assert!(buf.is_empty(), "recv_many gave something, and {polled:?}");
                }
                polled.map_ok(|_| buf.into_iter().map(|received| owned(received, hold)).collect())
            }
        };
        match polled {
            Poll::Ready(Ok(things)) => Look::Got(things),
            Poll::Ready(Err(closed)) => Look::Closed(closed),
            Poll::Pending if self.alarm.count() > before => Look::Yielded,
            Poll::Pending => {
                self.parked = if matches!(way, Way::Parking) { Parked::Waiting(before) } else { Parked::Quiet(before) };
                Look::Empty
            }
        }
    }

    fn got(&mut self, got: &Got, log: &Log, settings: &Settings) {
        if let Some(snapshot) = &mut self.snapshot {
            match (got, snapshot.items.pop_front()) {
                (Got::Event { value, .. }, Some(item)) => assert_eq!(*value, item, "the snapshot's items in their order"),
                (Got::SnapshotEnd(position), None) => {
                    assert_eq!(*position, snapshot.position);
                    self.told = position.seq();
                    self.snapshot = None;
                    self.has_begun = false;
                }
                (_, item) => panic!("in a snapshot, before item {item:?}: {got:?}"),
            }
            return;
        }
        match got {
            Got::Event { seq, position, value } => {
                assert_eq!(self.first, First::Anything, "event {seq} came before the gap that is to be told first");
                assert_eq!(*position, Position::new(settings.epoch, *seq));
                let due = self.next_due(log, self.told);
                assert_eq!(
                    due,
                    Some(Due::Event { seq: *seq, value: *value }),
                    "told up to {}; left: due, right: delivered",
                    self.told
                );
                assert!(*seq <= self.last_for_me(log), "event {seq} was published after the end {:?}", self.end);
                if self.slow == Slow::Latest && self.skipped == Skipped::No {
                    self.check_newest(*seq, log, settings);
                }
                self.told = *seq;
                self.received = *seq;
                self.has_begun = true;
                self.skipped = Skipped::No;
            }
            Got::Gap(gap) => self.got_gap(gap, log, settings),
            Got::SnapshotEnd(position) => panic!("there is no snapshot that could end at {position}"),
        }
    }

    /// Nothing newer than `seq` could be delivered.
    fn check_newest(&self, seq: u64, log: &Log, settings: &Settings) {
        let kept = self.kept(log, settings);
        let newest = kept.iter().rfind(|event| self.is_mine(event)).map_or(0, |(newest, _)| *newest);
        // One that chooses looks up to the next loss.
        let may_stop =
            self.chooses && (log.losses(seq, self.last_for_me(log)) > 0 || kept.first().is_some_and(|(first, _)| seq < *first));
        assert!(may_stop || seq >= newest, "{seq} came where {newest} is the newest");
    }

    fn got_gap(&mut self, gap: &Gap, log: &Log, settings: &Settings) {
        assert!(gap.from <= gap.to && gap.to <= log.last, "a gap within the numbers given (last {}): {gap:?}", log.last);
        if let First::Gap(cause) = self.first {
            assert_eq!(gap.cause, cause, "the gap to be told first");
            assert_eq!(gap.missed.unwrap_or(0), 0, "nobody can know what was missed: {gap:?}");
            self.first = First::Anything;
            if cause == GapCause::Ahead {
                assert_eq!(gap.from, gap.to);
                return;
            }
        } else {
            assert!(gap.from >= self.received, "told up to {} already: {gap:?}", self.received);
            if let Some(due) = self.next_due(log, self.told) {
                assert!(due.seq() > gap.from, "told up to {}, a hole before the gap: {due:?} {gap:?}", self.told);
            }
            if gap.cause != GapCause::Unread {
                let due = log.next_due(self.key, gap.from);
                assert!(due.is_some_and(|due| due.seq() <= gap.to), "a gap that holds nothing: {gap:?}");
            }
        }
        self.check_slow(gap, log, settings);
        self.told = self.told.max(gap.to);
        self.received = gap.to;
        let mut lost = log.between(self.key, gap.from, gap.to).to_vec();
        if gap.cause == GapCause::Conflated {
            // Of one that chooses, those that it would have got.
            lost.retain(|event| self.is_mine(event));
        }
        if let Some(missed) = gap.missed {
            assert_eq!(missed, lost.len() as u64, "{gap:?} holds {lost:?}");
            assert!(missed == 0 || !log.lost_between(gap.from, gap.to), "a number where the source lost more: {gap:?}");
        }
        let kept = self.kept(log, settings);
        let skips = self.slow == Slow::Latest && gap.cause != GapCause::Retention;
        let kept = if skips { kept.iter().rfind(|event| self.is_mine(event)) } else { kept.first() };
        if let (Some((first_kept, _)), Some((last_lost, _))) = (kept, lost.last()) {
            assert!(last_lost < first_kept, "retention keeps from {first_kept} on: {gap:?}");
        }
    }

    /// Whether this kind of reader may be told this gap now.
    fn check_slow(&mut self, gap: &Gap, log: &Log, settings: &Settings) {
        assert!(self.skipped != Skipped::Yes, "two gaps in a row, the first of them of a reader that skips: {gap:?}");
        let is_retention = gap.cause == GapCause::Retention;
        assert!(
            self.slow != Slow::Close || !self.has_begun || !is_retention,
            "a reader that is to be closed then is told of {gap:?}"
        );
        let has_loss = log.losses(gap.from, gap.to) > 0;
        let is_conflated = gap.cause == GapCause::Conflated;
        assert!(!is_conflated || self.slow == Slow::Latest && !has_loss, "nobody asked for that: {gap:?}");
        if is_conflated && !log.lost_between(gap.from, gap.to) {
            assert!(gap.missed.is_some(), "skipped, and not counted: {gap:?}");
        }
        let last = self.last_for_me(log);
        let later: Vec<_> = log.between(self.key, gap.to, last).iter().filter(|event| self.is_mine(event)).collect();
        // One that chooses skips up to the next loss.
        let first_kept = self.kept(log, settings).first();
        let is_evicted = first_kept.zip(later.first()).is_some_and(|(kept, next)| next.0 < kept.0);
        let may_stop = self.chooses && (is_evicted || log.losses(gap.to, last) > 0);
        self.skipped = match gap.cause {
            GapCause::Conflated => Skipped::Yes,
            // A loss of the source, alone or with what was skipped.
            _ if self.slow == Slow::Latest && has_loss => Skipped::Maybe,
            _ => Skipped::No,
        };
        if is_conflated && !may_stop && !self.kept(log, settings).is_empty() {
            assert_eq!(later.len(), 1, "the newest comes next: {gap:?}, then {later:?}");
        }
        self.has_begun = true;
    }

    fn found_empty(&self, log: &Log, settings: &Settings) {
        assert_eq!(self.first, First::Anything, "empty before the gap that is to be told first");
        assert!(self.snapshot.is_none(), "empty within a snapshot: {:?}", self.snapshot);
        assert!(self.end.is_none(), "empty, not closed: {:?}", self.end);
        assert_eq!(self.next_due(log, self.told), None, "told up to {}; empty, but owed", self.told);
        let here = Position::new(settings.epoch, log.last.max(self.told));
        assert_eq!(self.sub.position(), here, "a reader that has read all stands where the hub does");
        if !self.ahead {
            assert_eq!(self.sub.lag(), 0, "a reader that has read all does not lag");
        }
    }

    fn found_closed(&mut self, closed: &Closed, log: &Log, settings: &Settings) {
        if self.slow == Slow::Close && *closed.reason() == CloseReason::SlowReader && !self.finished {
            let due = log.next_due(self.key, self.told);
            let first_kept = self.kept(log, settings).first().copied();
            assert!(due.is_some(), "closed as too slow, and nothing is owed");
            if let (Some(Due::Event { seq, .. }), Some((first_kept, _))) = (due, first_kept) {
                assert!(seq < first_kept, "closed as too slow, and {seq} is still there");
            }
            // Whoever comes back with it is told of the loss, and of all of it.
            let position = self.sub.position();
            assert_eq!(position.epoch(), settings.epoch);
            let (from, to) = (position.seq().min(self.told), position.seq().max(self.told));
            let between = log.between(self.key, from, to);
            assert!(!between.iter().any(|event| self.is_mine(event)), "{position}, told up to {}: {between:?}", self.told);
            assert_eq!(self.sub.lag(), 0, "nothing will come");
            self.end = Some((self.told, CloseReason::SlowReader));
        }
        let (last, reason) = self.end.as_ref().unwrap_or_else(|| panic!("nobody closed it: {closed:?}"));
        assert_eq!(closed.reason(), reason);
        assert_eq!(self.sub.close_reason(), Some(reason));
        assert!(self.refused || self.first == First::Anything, "closed before the gap that is to be told first");
        if let Some(due) = self.next_due(log, self.told) {
            assert!(due.seq() > *last, "told up to {}, published up to {last}; closed, but owed: {due:?}", self.told);
        }
        self.finished = true;
    }

    /// What must hold at any time.
    pub(crate) fn check(&self, log: &Log, settings: &Settings) {
        if self.snapshot.is_some() {
            return;
        }
        let position = self.sub.position();
        if self.first != First::Anything {
            // Whoever is cut now and comes back with it must be told the same again.
            assert_eq!(Some(position), self.came_with, "position before the gap that is to be told first");
            return;
        }
        assert_eq!(position.epoch(), settings.epoch);
        let seq = position.seq();
        match self.next_due(log, self.told) {
            Some(due) => assert!(seq < due.seq(), "told up to {}: position {seq} is past {due:?}", self.told),
            None => assert!(seq <= log.last.max(self.told), "position {seq} is past the hub's {}", log.last),
        }
        // It may go back: with nothing unread it is the hub's, and an event later that of the last delivered.
        assert!(seq >= self.received, "position {seq} is before what was received, {}", self.received);
        // Where a reader that starts after a position comes in is looked up at its first receive.
        if self.ahead || self.received == 0 {
            return;
        }
        if self.sub.close_reason() == Some(&CloseReason::SlowReader) {
            return;
        }
        let last = self.last_for_me(log);
        let from = self.told.max(self.born);
        let unread = (log.between(self.key, from, last).len() + log.losses(from, last)) as u64;
        let kept = self.kept(log, settings).iter().filter(|event| event.0 > self.told && self.is_mine(event)).count() as u64;
        let lag = self.sub.lag();
        assert!(
            kept <= lag && lag <= unread,
            "told up to {}: lag {lag}, unread and surely kept {kept}, unread {unread}",
            self.told
        );
    }

    /// Looks at the waker after a step.
    pub(crate) fn check_wakes(&mut self, wakes: Wakes) {
        let now = self.alarm.count();
        match self.parked {
            Parked::Unknown => {}
            Parked::Quiet(count) => assert_eq!(now, count, "woken though not parked"),
            Parked::Waiting(count) => {
                match wakes {
                    Wakes::May => assert!(now == count || now == count + 1, "woken {} times", now - count),
                    Wakes::Must => assert_eq!(now, count + 1, "woken once, not {} times", now - count),
                    Wakes::MustNot => assert_eq!(now, count, "woken for nothing"),
                }
                if now > count {
                    self.parked = Parked::Quiet(now);
                }
            }
        }
    }

    /// Whether it waits for one of these events of its key, which were published just now, and `looked` at one by one.
    pub(crate) fn waits_for(&self, news: &[(u64, usize)], looked: bool) -> Wakes {
        let is_new = |event: &&(u64, usize)| event.0 > self.told;
        if !self.counted || news.is_empty() {
            Wakes::MustNot
        } else if news.iter().filter(is_new).any(|event| self.is_mine(event)) {
            Wakes::Must
        } else if self.chooses && looked {
            Wakes::MustNot
        } else {
            Wakes::May
        }
    }

    /// Whether it waits for a loss that ends at `end`.
    pub(crate) fn waits_for_loss(&self, end: u64) -> Wakes {
        if !self.counted {
            Wakes::MustNot
        } else if end > self.told {
            Wakes::Must
        } else {
            Wakes::May
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Unsubscribes; nothing of the waker may stay behind.
    pub(crate) fn unsubscribe(self) {
        let Self { sub, alarm, .. } = self;
        drop(sub);
        assert_eq!(Arc::strong_count(&alarm), 1, "a waker stayed behind");
    }
}

fn owned(received: Received<Payload>, hold: bool) -> (Got, Option<Event<Payload>>) {
    match received {
        Received::Event(event) => {
            let got = Got::Event { seq: event.seq(), position: event.position(), value: event.value() };
            (got, hold.then(|| event.clone()))
        }
        Received::Gap(gap) => (Got::Gap(gap), None),
        Received::SnapshotEnd(position) => (Got::SnapshotEnd(position), None),
        // A bookmark among them: only readers over many keys yield those.
        other => panic!("a plain subscription does not yield {other:?}"),
    }
}

fn lent(received: ReceivedRef<'_, Payload>, hold: bool) -> (Got, Option<Event<Payload>>) {
    match received {
        ReceivedRef::Event(event) => {
            let got = Got::Event { seq: event.seq(), position: event.position(), value: event.value() };
            (got, hold.then(|| event.to_event()))
        }
        ReceivedRef::Gap(gap) => (Got::Gap(gap), None),
        ReceivedRef::SnapshotEnd(position) => (Got::SnapshotEnd(position), None),
        other => panic!("a plain subscription does not yield {other:?}"),
    }
}
