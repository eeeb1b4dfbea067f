//! Carries a case out on a hub and on the model, side by side.

use std::{
    future::ready,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use keywake::{CloseReason, Event, GapCause, Hub, Position, Published, SeqError, Slow, Start};

use crate::{
    case::{Case, Form, KEYS, Numbering, Op, Settings, StartAt},
    ledger::{Ledger, Payload},
    log::Log,
    reader::{Reader, Snapshot, Wakes},
    writer::{HOUR, Writer},
};

/// More readers than this find nothing more.
const MAX_READERS: usize = 12;

/// More positions than this need not be remembered.
const MAX_SEEN: usize = 64;

/// Retention drops whole blocks, and this is the most events that one holds.
const BLOCK: usize = 64;

/// Carries the case out.
///
/// # Panics
/// Where the hub does not do what the model says.
pub fn run(case: &Case) {
    let mut run = Run::new(case);
    for op in &case.ops {
        run.step(*op);
        run.check();
    }
    run.finish();
}

/// A topic that lives.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// It holds no event up to here: it was not yet there.
    born: u64,
    readers: usize,
}

struct Run<'a> {
    numbering: Numbering,
    settings: &'a Settings,
    hub: Hub<String, Payload>,
    writer: Option<Writer>,
    log: Log,
    lives: [Option<Life>; KEYS.len()],
    readers: Vec<Reader>,
    held: Vec<(Event<Payload>, u64, usize)>,
    seen: Vec<Position>,
    ledger: Arc<Ledger>,
    began: Instant,
    half_hours: u32,
    published: u64,
    ended: Option<CloseReason>,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case) -> Self {
        let (writer, hub) = Writer::build(case.numbering, &case.settings);
        Self {
            numbering: case.numbering,
            settings: &case.settings,
            hub,
            writer: Some(writer),
            log: Log::starting_at(case.settings.start_seq),
            lives: [None; KEYS.len()],
            readers: Vec::new(),
            held: Vec::new(),
            seen: Vec::new(),
            ledger: Arc::default(),
            began: Instant::now(),
            half_hours: 0,
            published: 0,
            ended: None,
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Advance(by) => self.advance(by.into()),
            Op::Close(key) => self.close(key.into()),
            Op::DropHeld(held) => {
                if let Some(held) = pick(self.held.len(), held) {
                    self.held.swap_remove(held);
                }
            }
            Op::DropPublisher => self.drop_publisher(),
            Op::DropReader(reader) => {
                if let Some(reader) = pick(self.readers.len(), reader) {
                    self.drop_reader(reader);
                }
            }
            Op::Lost(after, count) => self.lose(after.into(), count.into()),
            Op::NotRising(by) => self.publish_not_rising(by.into()),
            Op::Publish(key, count, form) => {
                for _ in 0..count {
                    self.publish(key.into(), form);
                }
            }
            Op::PublishBatch(keys, count) => self.publish_batch(keys, count),
            Op::Receive(reader, count, way, hold) => {
                if let Some(reader) = pick(self.readers.len(), reader) {
                    let got = self.readers[reader].receive(count.into(), way, hold, &self.log, self.settings);
                    self.held.extend(got.into_iter().map(|event| (event.clone(), event.seq(), event.value())));
                    self.let_slow_go(reader);
                }
            }
            Op::Remember(reader) => {
                if let Some(position) = pick(self.readers.len(), reader).and_then(|reader| self.readers[reader].standing()) {
                    self.remember(position);
                }
            }
            Op::Shutdown => self.shutdown(CloseReason::Shutdown),
            Op::Slow(reader, slow) => {
                if let Some(reader) = pick(self.readers.len(), reader) {
                    let reader = self.readers.remove(reader).slow(slow);
                    self.readers.push(reader);
                }
            }
            Op::Subscribe(key, start, form, slow, chooses) => self.subscribe(key.into(), start, form, slow, chooses),
            Op::SubscribeWithSnapshot(key, items, fail) => self.subscribe_with_snapshot(key.into(), items.into(), fail),
            Op::Sweep(half_hours) => self.sweep(half_hours.into()),
            Op::WaitForReader(key) => self.wait_for_reader(key.into()),
        }
    }

    fn publish(&mut self, key: usize, form: Form) {
        let Some(writer) = &mut self.writer else { return };
        // A source's numbers have holes of their own.
        let hole = if self.numbering == Numbering::Source { (self.log.last % 5) / 3 } else { 0 };
        let seq = self.log.last + 1 + hole;
        let event = self.ledger.payload();
        let value = event.value();
        match writer.publish(seq, key, form, event) {
            Ok(published) => self.was_published(key, seq, value, published),
            Err(error) => assert!(self.ended.is_some(), "number {seq} rises: {error:?}"),
        }
        let by_count_only = self.settings.by_count_only();
        self.check_wakes(
            |reader| if reader.key == key { reader.waits_for(&[(seq, value)], by_count_only) } else { Wakes::MustNot },
        );
    }

    fn was_published(&mut self, key: usize, seq: u64, value: usize, published: Published) {
        if self.ended.is_some() {
            assert_eq!(published.readers, 0, "after the end");
            // It may have used up a number or not; if so, no reader may stand past it.
            if published.seq > self.log.last {
                self.log.publish(key, published.seq, value);
            }
            assert_eq!(self.ledger.drops_of(value), 1, "after the end an event is dropped");
            return;
        }
        assert_eq!(published.seq, seq);
        assert_eq!(published.readers, self.lives[key].map_or(0, |life| life.readers));
        self.append(key, seq, value);
    }

    fn append(&mut self, key: usize, seq: u64, value: usize) {
        self.published += 1;
        self.log.publish(key, seq, value);
        if self.lives[key].is_none() && self.settings.retain_unread && self.has_room() {
            self.lives[key] = Some(Life { born: seq - 1, readers: 0 });
        }
        if self.lives[key].is_none() {
            assert_eq!(self.ledger.drops_of(value), 1, "an event that nobody keeps is dropped at once");
        }
    }

    fn publish_batch(&mut self, keys: u8, count: u8) {
        let Some(writer) = &mut self.writer else { return };
        if self.numbering == Numbering::Source {
            return;
        }
        // Runs of one or two keys out of the four.
        let keys: Vec<usize> = (0..count).map(|n| usize::from(keys.rotate_left(n.into()) % 4)).collect();
        let payloads: Vec<Payload> = keys.iter().map(|_| self.ledger.payload()).collect();
        let values: Vec<usize> = payloads.iter().map(Payload::value).collect();
        let events = keys.iter().map(|key| KEYS[*key].to_owned()).zip(payloads).collect();
        let Some(published) = writer.publish_batch(events) else { return };
        if self.ended.is_some() {
            assert_eq!(published.readers, 0, "after the end");
            let used = published.seq.saturating_sub(self.log.last);
            for (key, value) in keys.iter().zip(&values).take(usize::try_from(used).unwrap_or(usize::MAX)) {
                self.log.publish(*key, self.log.last + 1, *value);
            }
            return;
        }
        let readers: usize = keys.iter().filter_map(|key| self.lives[*key]).map(|life| life.readers).sum();
        for (key, value) in keys.iter().zip(&values) {
            self.append(*key, self.log.last + 1, *value);
        }
        assert_eq!(published.seq, self.log.last);
        assert_eq!(published.readers, readers);
        let (first, last) = (self.log.last - u64::from(count), self.log.last);
        let news: Vec<_> = (0..KEYS.len()).map(|key| self.log.between(key, first, last).to_vec()).collect();
        // Retention may be faster than the one look at the end.
        self.check_wakes(|reader| reader.waits_for(&news[reader.key], false));
    }

    fn publish_not_rising(&mut self, by: u64) {
        let (Some(writer), Numbering::Source, None) = (&mut self.writer, self.numbering, &self.ended) else { return };
        let seq = self.log.last.saturating_sub(by);
        let event = self.ledger.payload();
        let value = event.value();
        let Err(refused) = writer.publish(seq, 0, Form::Borrowed, event) else {
            panic!("number {seq} after {} was taken", self.log.last)
        };
        assert_eq!(refused.error, SeqError::NotRising { seq, last: self.log.last });
        assert_eq!(refused.event.value(), value, "the event comes back");
        let seq = Position::MAX_SEQ + 1 + by;
        let Err(refused) = writer.publish(seq, 0, Form::Owned, refused.event) else { panic!("number {seq} was taken") };
        assert_eq!(refused.error, SeqError::TooLarge { seq });
        assert_eq!(refused.event.value(), value, "the event comes back");
    }

    fn advance(&mut self, by: u64) {
        let (Some(writer), None) = (&mut self.writer, &self.ended) else { return };
        let seq = self.log.last + by;
        match writer.advance_to(seq) {
            Some(Ok(())) => self.log.advance_to(seq),
            Some(Err(error)) => assert!(by == 0, "a bookmark ahead: {error:?}"),
            None => {}
        }
    }

    fn lose(&mut self, after: u64, count: u64) {
        let (Some(writer), None) = (&mut self.writer, &self.ended) else { return };
        let start = self.log.last + 1 + after;
        let end = start + count - 1;
        match writer.lost(start, end) {
            Some(Ok(())) => self.log.lose(start, end),
            Some(Err(error)) => panic!("a loss ahead: {error:?}"),
            None => return,
        }
        self.check_wakes(|reader| reader.waits_for_loss(end));
    }

    fn subscribe(&mut self, key: usize, at: StartAt, form: Form, slow: Slow, chooses: bool) {
        if self.readers.len() == MAX_READERS {
            return;
        }
        let start = self.start(at);
        let attaches = self.attaches(key);
        let told = match start {
            Start::Next => self.log.last,
            Start::Oldest => self.before_retained(key).max(self.settings.start_seq),
            Start::Latest => self.before_newest(key),
            Start::After(position) if position.epoch() != self.settings.epoch => 0,
            Start::After(position) if self.numbering == Numbering::Own => position.seq().min(self.log.last),
            Start::After(position) => position.seq(),
        };
        let (hub, name) = (&self.hub, KEYS[key]);
        let sub = match (chooses, start, form) {
            (false, Start::Next, Form::Borrowed) => hub.subscribe(name),
            (false, Start::Next, Form::Owned) => hub.subscribe_owned(name.to_owned()),
            (false, _, Form::Borrowed) => hub.subscribe_from(name, start),
            (false, _, Form::Owned) => hub.subscribe_owned_from(name.to_owned(), start),
            (true, Start::Next, Form::Borrowed) => hub.subscribe_where(name, Payload::is_chosen),
            (true, Start::Next, Form::Owned) => hub.subscribe_owned_where(name.to_owned(), Payload::is_chosen),
            (true, _, Form::Borrowed) => hub.subscribe_where_from(name, start, Payload::is_chosen),
            (true, _, Form::Owned) => hub.subscribe_owned_where_from(name.to_owned(), start, Payload::is_chosen),
        };
        assert_eq!(sub.key(), KEYS[key]);
        let born = self.lives[key].map_or(self.log.last, |life| life.born);
        // Where losses stand among the events, what is newest may be one.
        let told = if start == Start::Latest && self.log.losses(born, self.log.last) > 0 { sub.position().seq() } else { told };
        let mut reader = Reader::new(sub, key, born, told, &self.log);
        if chooses {
            reader = reader.choosing();
        }
        match start {
            Start::After(position) if position.epoch() != self.settings.epoch => {
                reader = reader.expecting(GapCause::OtherEpoch, position)
            }
            Start::After(position) if position.seq() > told => reader = reader.expecting(GapCause::Ahead, position),
            _ => {}
        }
        self.join(reader.slow(slow), attaches);
    }

    /// Where a reader of all that is retained begins: what the topic holds is as the library says, what it must hold the stats' check
    /// has seen to.
    fn before_retained(&self, key: usize) -> u64 {
        self.lives[key].map_or(self.log.last, |life| self.log.before_newest(key, life.born, self.log.last, self.retained(key)))
    }

    /// Where a reader begins that wants the newest event that is retained.
    fn before_newest(&self, key: usize) -> u64 {
        let newest = self.lives[key].and_then(|life| self.log.between(key, life.born, self.log.last).last());
        newest.map_or(self.log.last, |(newest, _)| if self.before_retained(key) < *newest { newest - 1 } else { self.log.last })
    }

    fn retained(&self, key: usize) -> usize {
        let retained = self.hub.topic_stats(KEYS[key]).map_or(0, |stats| stats.retained_events);
        usize::try_from(retained).unwrap_or(usize::MAX)
    }

    fn start(&self, at: StartAt) -> Start {
        let after = |seq| Start::After(Position::new(self.settings.epoch, seq));
        match at {
            StartAt::Ahead(n) => after(self.log.last + u64::from(n)),
            StartAt::Back(n) => after(self.log.last.saturating_sub(n.into())),
            StartAt::Foreign(n) => Start::After(Position::new(self.settings.epoch ^ 1, n.into())),
            StartAt::Latest => Start::Latest,
            StartAt::Next => Start::Next,
            StartAt::Oldest => Start::Oldest,
            StartAt::Seen(n) => match pick(self.seen.len(), n) {
                Some(n) => Start::After(self.seen[n]),
                None => after(self.log.last),
            },
        }
    }

    /// Whether a reader of `key` will find or make a topic.
    fn attaches(&self, key: usize) -> bool {
        self.ended.is_none() && (self.lives[key].is_some() || self.has_room())
    }

    fn has_room(&self) -> bool {
        self.settings.max_topics.is_none_or(|max| self.lives.iter().flatten().count() < max)
    }

    fn join(&mut self, reader: Reader, attaches: bool) {
        let key = reader.key;
        if attaches {
            let life = self.lives[key].get_or_insert(Life { born: self.log.last, readers: 0 });
            life.readers += 1;
            self.readers.push(reader);
        } else {
            let reason = self.ended.clone().unwrap_or(CloseReason::TopicLimit);
            self.readers.push(reader.ended_at_once(reason));
        }
    }

    fn subscribe_with_snapshot(&mut self, key: usize, items: usize, fail: bool) {
        if self.readers.len() == MAX_READERS {
            return;
        }
        let attaches = self.attaches(key);
        let position = Position::new(self.settings.epoch, self.log.last);
        let payloads: Vec<Payload> = (0..items).map(|_| self.ledger.payload()).collect();
        let snapshot = Snapshot { items: payloads.iter().map(Payload::value).collect(), position };
        let polled = {
            let result = if fail { Err("no snapshot") } else { Ok((payloads, position)) };
            poll_once(self.hub.subscribe_with_snapshot(KEYS[key], || ready(result)))
        };
        match polled {
            Poll::Ready(Ok(sub)) => {
                assert!(!fail || !attaches, "a failed snapshot gave a subscription");
                let born = self.lives[key].map_or(self.log.last, |life| life.born);
                let reader = Reader::new(sub, key, born, self.log.last, &self.log).with_snapshot(snapshot);
                self.join(reader, attaches);
            }
            Poll::Ready(Err(error)) => {
                assert!(fail, "{error}");
                self.let_go(key);
            }
            Poll::Pending => panic!("the snapshot is ready, and nobody else takes one"),
        }
    }

    fn drop_reader(&mut self, reader: usize) {
        let reader = self.readers.swap_remove(reader);
        let (key, counted) = (reader.key, reader.counted);
        reader.unsubscribe();
        if counted {
            if let Some(life) = &mut self.lives[key] {
                life.readers -= 1;
            }
            self.let_go(key);
        }
    }

    /// A reader that was too slow, and is told so, has left its topic.
    fn let_slow_go(&mut self, reader: usize) {
        let reader = &mut self.readers[reader];
        if reader.counted && reader.is_finished() {
            reader.counted = false;
            let key = reader.key;
            if let Some(life) = &mut self.lives[key] {
                life.readers -= 1;
            }
            self.let_go(key);
        }
    }

    /// A reader of `key` left, or failed to come: where nothing keeps the topic, it is gone.
    fn let_go(&mut self, key: usize) {
        if self.ended.is_some() {
            return;
        }
        let is_there = self.hub.topic_stats(KEYS[key]).is_some();
        match self.lives[key] {
            Some(life) if life.readers == 0 => {
                let must_stay = self.settings.keep_idle || self.keeps_unread(key, life);
                assert!(is_there || !must_stay, "the topic of {} went early", KEYS[key]);
                assert!(!is_there || must_stay || self.settings.retain_unread, "the topic of {} stayed", KEYS[key]);
                if !is_there {
                    self.lives[key] = None;
                }
            }
            // The topic of a snapshot that failed.
            None if is_there => {
                assert!(self.settings.keep_idle || self.settings.retain_unread, "the topic of {} stayed", KEYS[key]);
                self.lives[key] = Some(Life { born: self.log.last, readers: 0 });
            }
            _ => {}
        }
    }

    fn close(&mut self, key: usize) {
        let reason = if self.log.last.is_multiple_of(2) { CloseReason::KeyClosed } else { CloseReason::Other("done".into()) };
        let closed = self.hub.close(KEYS[key], reason.clone());
        if self.ended.is_some() {
            return;
        }
        assert_eq!(closed, self.lives[key].is_some(), "close says whether there was a topic");
        self.check_wakes(|reader| if reader.key == key && reader.counted { Wakes::Must } else { Wakes::MustNot });
        self.lives[key] = None;
        for reader in self.readers.iter_mut().filter(|reader| reader.key == key) {
            reader.end(self.log.last, &reason);
        }
    }

    fn shutdown(&mut self, reason: CloseReason) {
        self.hub.shutdown(reason.clone());
        assert!(self.hub.is_shutdown());
        self.has_ended(reason);
    }

    fn drop_publisher(&mut self) {
        if self.writer.take().is_some() && !self.settings.keep_hub {
            self.has_ended(CloseReason::PublisherDropped);
        }
    }

    fn has_ended(&mut self, reason: CloseReason) {
        if self.ended.is_some() {
            return;
        }
        self.check_wakes(|reader| if reader.counted { Wakes::Must } else { Wakes::MustNot });
        for reader in &mut self.readers {
            reader.end(self.log.last, &reason);
        }
        self.lives = [None; KEYS.len()];
        self.ended = Some(reason);
    }

    fn sweep(&mut self, half_hours: u32) {
        self.half_hours += half_hours;
        // A quarter of an hour off the hours that the settings name, so that the run's own seconds do not matter.
        self.hub.sweep(self.began + HOUR / 2 * self.half_hours + Duration::from_secs(900));
        for (key, name) in KEYS.into_iter().enumerate() {
            let Some(life) = self.lives[key].filter(|life| life.readers == 0) else { continue };
            if self.hub.topic_stats(name).is_none() {
                // An unread topic that holds nothing goes at once.
                let is_kept = self.settings.keep_idle && self.half_hours < 2 && !self.settings.retain_unread;
                let is_kept = is_kept || self.keeps_unread(key, life);
                assert!(!is_kept, "the topic of {name} was swept early");
                self.lives[key] = None;
            }
        }
    }

    /// Whether events that nobody reads must hold the topic.
    fn keeps_unread(&self, key: usize, life: Life) -> bool {
        let has_events = !self.log.between(key, life.born, self.log.last).is_empty();
        self.settings.retain_unread && has_events && self.settings.by_count_only()
    }

    fn wait_for_reader(&self, key: usize) {
        let polled = poll_once(self.hub.wait_for_reader(KEYS[key]));
        if self.ended.is_some() {
            assert!(matches!(polled, Poll::Ready(Err(_))), "after the end: {polled:?}");
        } else {
            let has_reader = self.lives[key].is_some_and(|life| life.readers > 0);
            assert!(has_reader == polled.is_ready(), "has a reader: {has_reader}, {polled:?}");
        }
    }

    fn remember(&mut self, position: Position) {
        if self.seen.len() < MAX_SEEN {
            self.seen.push(position);
        }
    }

    fn check_wakes(&mut self, wakes: impl Fn(&Reader) -> Wakes) {
        for reader in &mut self.readers {
            let wakes = wakes(reader);
            reader.check_wakes(wakes);
        }
    }

    /// What must hold after every step.
    fn check(&mut self) {
        self.check_wakes(|_| Wakes::MustNot);
        for reader in &self.readers {
            reader.check(&self.log, self.settings);
        }
        for (event, seq, value) in &self.held {
            assert_eq!((event.seq(), event.value()), (*seq, *value), "a held event stays what it is");
            assert_eq!(self.ledger.drops_of(*value), 0, "a held event was dropped");
        }
        if self.ended.is_some() {
            return;
        }
        self.give_up_evicted();
        let here = Position::new(self.settings.epoch, self.log.last);
        assert_eq!(self.hub.position(), here);
        if let Some(writer) = &self.writer {
            assert_eq!(writer.position(), here);
        }
        for (key, life) in KEYS.into_iter().zip(&self.lives) {
            assert_eq!(self.hub.readers(key), life.map_or(0, |life| life.readers), "readers of {key}");
        }
        self.check_stats();
    }

    /// A budget may take all that an unread topic held, and the topic with it.
    fn give_up_evicted(&mut self) {
        if self.settings.by_count_only() {
            return;
        }
        for (life, key) in self.lives.iter_mut().zip(KEYS) {
            if life.is_some_and(|life| life.readers == 0) && self.hub.topic_stats(key).is_none() {
                *life = None;
            }
        }
    }

    fn check_stats(&self) {
        let topics = self.lives.iter().flatten().count();
        let readers = self.lives.iter().flatten().map(|life| life.readers).sum();
        assert_eq!(self.hub.topics(), topics, "topics; the model has {:?}", self.lives);
        let mut visited = Vec::new();
        self.hub.for_each_topic(|key, stats| visited.push((key.clone(), stats.readers)));
        visited.sort_unstable();
        let lives = KEYS.into_iter().zip(&self.lives).filter_map(|(key, life)| Some((key.to_owned(), (*life)?.readers)));
        assert_eq!(visited, lives.collect::<Vec<_>>(), "topics visited");
        let stats = self.hub.stats();
        assert_eq!((stats.topics, stats.readers, stats.published), (topics, readers, self.published), "{stats:?}");
        assert_eq!(stats.empty_wakes, 0, "{stats:?}");
        // The bound holds per shard of the registry; that there are none where none may be does not depend on shards.
        assert!(self.settings.max_tombstones != Some(0) || stats.tombstones == 0, "{stats:?}");
        for (key, life) in self.lives.iter().enumerate() {
            let stats = self.hub.topic_stats(KEYS[key]);
            let (Some(life), Some(stats)) = (life, &stats) else {
                assert_eq!((life.is_some(), stats.is_some()), (false, false), "topic {key}: {life:?} {stats:?}");
                continue;
            };
            assert_eq!(stats.readers, life.readers, "topic {key}: {stats:?}");
            let events = self.log.between(key, life.born, self.log.last);
            let kept = self.log.newest(key, life.born, self.log.last, self.settings.retain_events).len();
            let kept = if self.settings.by_count_only() { kept } else { 0 };
            // Losses may be counted with the events.
            let losses = self.log.losses(life.born, self.log.last);
            let published = usize::try_from(stats.published).unwrap_or(usize::MAX);
            assert!(
                events.len() <= published && published <= events.len() + losses,
                "topic {key}, {} events: {stats:?}",
                events.len()
            );
            let retained = usize::try_from(stats.retained_events).unwrap_or(usize::MAX);
            let most = (events.len() + losses).min(self.settings.retain_events + BLOCK);
            assert!(
                kept <= retained && retained <= most,
                "topic {key} retains {retained}, not {kept}..={most} of {}",
                events.len()
            );
            if let (Some((last, _)), 0) = (events.last(), losses) {
                assert_eq!(stats.last_seq, *last, "topic {key}: {stats:?}");
            }
        }
    }

    /// The end of every case: all is read to its end, then all is dropped, and nothing is left.
    fn finish(mut self) {
        if self.settings.readers_go_first {
            while !self.readers.is_empty() {
                self.drop_reader(0);
                self.check();
            }
        }
        self.drop_publisher();
        self.check();
        if self.ended.is_none() {
            self.shutdown(CloseReason::Other("the case is over".into()));
        }
        for reader in &mut self.readers {
            // Snapshot, gaps and events: there cannot be more things than numbers.
            let all = usize::try_from(self.log.last).unwrap_or(usize::MAX) + 100;
            reader.receive(all, crate::Way::Owned, false, &self.log, self.settings);
            assert!(reader.is_finished(), "drained, and not closed");
        }
        self.check();
        let Self { hub, writer, readers, held, ledger, .. } = self;
        for reader in readers {
            reader.unsubscribe();
        }
        drop((hub, writer));
        for (event, seq, value) in held {
            assert_eq!((event.seq(), event.value()), (seq, value), "a held event outlives its hub");
        }
        ledger.assert_all_dropped_once();
    }
}

/// Which of `len` a byte means.
fn pick(len: usize, byte: u8) -> Option<usize> {
    usize::from(byte).checked_rem(len)
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
