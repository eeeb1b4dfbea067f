//! A set that is polled by hand, with a waker that counts, and what it says of its position.

use std::{fmt::Debug, task::Poll};

use keywake::{CloseReason, Closed, Gap, Key, Received, SubscriptionSet, TryRecvError};

use crate::{Alarm, EPOCH, Payload};

/// What a set said at one moment: how many things it had been told, and its position.
type Said = (usize, u64);

/// A set, how it is woken, and what it was told.
#[derive(Debug)]
pub struct SetSleeper<K: Key = u8> {
    /// The set.
    pub set: SubscriptionSet<K, Payload>,
    /// Its waker.
    pub alarm: Alarm,
    /// Key and seq of the events, in order; what else was told stands for 0.
    pub told: Vec<(K, u64)>,
    /// The gaps, with their keys.
    pub gaps: Vec<(K, Gap)>,
    /// Keys that ended, and what had been told before.
    pub ended: Vec<(K, usize)>,
    /// Why it ended.
    pub end: Option<CloseReason>,
    said: Vec<Said>,
    /// The rings before the last poll, if that left it asleep.
    asleep_at: Option<usize>,
    polls: usize,
}

impl<K: Key + Copy + Debug> SetSleeper<K> {
    /// Of a set that has received nothing yet.
    #[must_use]
    pub fn new(set: SubscriptionSet<K, Payload>) -> Self {
        Self {
            set,
            alarm: Alarm::new(),
            told: Vec::new(),
            gaps: Vec::new(),
            ended: Vec::new(),
            end: None,
            said: Vec::new(),
            asleep_at: None,
            polls: 0,
        }
    }

    /// Polls `times`, also if it was not woken, or until the end.
    ///
    /// # Panics
    /// If something comes out of order.
    #[must_use]
    pub fn polled(mut self, times: usize) -> Self {
        for _ in 0..times {
            if self.poll().is_ready() && self.end.is_some() {
                break;
            }
        }
        self
    }

    /// Polls once.
    ///
    /// # Panics
    /// If something comes out of order.
    pub fn poll(&mut self) -> Poll<()> {
        let rings = self.alarm.rings();
        self.asleep_at = None;
        self.polls += 1;
        match self.alarm.poll(|cx| self.set.poll_recv(cx)) {
            Poll::Ready(Ok((key, received))) => self.note(*key, &received),
            Poll::Ready(Err(closed)) => self.note_end(&closed),
            Poll::Pending => {
                self.asleep_at = Some(rings);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Writes down what the set says of its position.
    ///
    /// # Panics
    /// If that is of another hub.
    pub fn say(&mut self) {
        let position = self.set.position();
        assert_eq!(position.epoch(), EPOCH);
        self.said.push((self.told.len(), position.seq()));
    }

    /// The position that it said first.
    ///
    /// # Panics
    /// If it said none.
    #[must_use]
    pub fn first_said(&self) -> u64 {
        self.said.first().expect("it said one").1
    }

    fn note(&mut self, key: K, received: &Received<Payload>) {
        assert_eq!(self.end, None, "something comes after the end: {received:?}");
        match received {
            Received::Event(event) => {
                let last = self.told.iter().map(|(_, seq)| *seq).max().unwrap_or(0);
                assert!(event.seq() > last, "{} comes after {:?}", event.seq(), self.told);
                assert!(event.id() > 0);
                self.told.push((key, event.seq()));
            }
            Received::Gap(gap) => {
                self.gaps.push((key, *gap));
                self.told.push((key, 0));
            }
            Received::Ended(_) => {
                self.ended.push((key, self.told.len()));
                self.told.push((key, 0));
            }
            other => panic!("not expected of a set: {other:?}"),
        }
        self.say();
    }

    fn note_end(&mut self, closed: &Closed) {
        self.end = Some(closed.reason().clone());
    }

    /// All threads are joined: receives what is left, and if that is anything, the set was woken for it; and it was not woken
    /// more often than it was polled.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn judge(&mut self) {
        let woken = self.asleep_at.is_none_or(|rings| self.alarm.rings() > rings);
        let before = (self.told.len(), self.end.is_some());
        while self.end.is_none() {
            match self.set.try_recv() {
                Ok((key, received)) => self.note(*key, &received),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed(closed)) => self.note_end(&closed),
            }
        }
        self.say();
        let found_more = before != (self.told.len(), self.end.is_some());
        assert!(woken || !found_more, "lost wake: it sleeps, and there was more: {:?}", self.told);
        assert!(self.alarm.rings() <= self.polls, "{} wakes for {} polls", self.alarm.rings(), self.polls);
    }

    /// It was told exactly these events, and at no time did its position pass one that it had not been told yet.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn assert_told(&self, published: &[(K, u64)]) {
        let mut published = published.to_vec();
        published.sort_unstable_by_key(|(_, seq)| *seq);
        let events: Vec<_> = self.told.iter().copied().filter(|(_, seq)| *seq > 0).collect();
        assert_eq!(events, published, "{self:?}");
        self.assert_positions(&published);
    }

    /// At no time did its position pass one of these that it had not been told yet, as an event, or as lost, or by the end of its key.
    ///
    /// # Panics
    /// If it did.
    #[track_caller]
    pub fn assert_positions(&self, published: &[(K, u64)]) {
        for (told, position) in &self.said {
            for event in published.iter().filter(|(_, seq)| seq <= position) {
                let is_told = self.told[..*told].contains(event)
                    || self.gaps.iter().any(|(key, gap)| *key == event.0 && gap.from < event.1 && event.1 <= gap.to);
                assert!(is_told, "position {position} passes {event:?}, told {:?}", &self.told[..*told]);
            }
        }
    }
}
