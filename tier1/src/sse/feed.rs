//! What a stream reads from: one subscription, or a set of them.
//!
//! One alone needs no set: an event's own number is its id, and safe, since nothing of its key lies before it and is still to
//! come. Both lend what they have: events are written where they lie, so that a thousand readers of one key touch no counter
//! that they share.

use std::task::{Context, Poll, ready};

use keywake::{
    CloseReason, Gap, Pattern, Received, ReceivedRef, Start, Subscription, TryRecvError,
    overload::status::{Code, StreamEnd},
};

use super::{encode::reason_word, several::Several};
use crate::{app::App, key::Key, payload::Payload};

/// Where the events of a stream come from.
#[derive(Debug)]
pub enum Feed {
    /// One key.
    One(One),
    /// Several.
    Several(Box<Several>),
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The key that it is of.
    pub key: &'a Key,
    /// The number of its id; `None`: it has none, the client keeps the one that it has.
    pub id: Option<u64>,
    /// The thing itself.
    pub what: What<'a>,
}

/// An event or a loss.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// An event.
    Event(&'a Payload),
    /// Lost events.
    Loss(Gap),
}

/// Why a stream is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The hub, or the first of its keys that ended, says why.
    Closed(CloseReason),
    /// Its patterns match more keys than one stream may read.
    TooManyMatches,
}

impl End {
    /// The reason, as it stands in a goaway and as a metric's label: a fixed word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Closed(reason) => reason_word(reason),
            Self::TooManyMatches => "too_many_matches",
        }
    }

    /// The same in the library's classification: whether to come back with the same position, and when. Room comes only as keys go
    /// idle, so that takes longest.
    #[must_use]
    pub fn status(&self) -> StreamEnd {
        match self {
            Self::Closed(reason) => reason.into(),
            Self::TooManyMatches => StreamEnd::new(Code::ResourceExhausted, "the patterns match too many keys"),
        }
    }
}

impl Feed {
    /// Reads these keys, and those that match.
    #[must_use]
    pub fn new(app: &App, mut keys: Vec<Key>, patterns: &[Pattern], start: Start) -> Self {
        match keys.pop() {
            Some(key) if keys.is_empty() && patterns.is_empty() => Self::One(One::new(app, key, start)),
            last => {
                keys.extend(last);
                Self::Several(Box::new(Several::new(app, keys, patterns, start)))
            }
        }
    }

    /// Hands the next thing that is ready to `send`; `None` if nothing is.
    pub fn next_with<R>(&mut self, send: impl FnOnce(Sent<'_>) -> R) -> Option<R> {
        match self {
            Self::One(one) => one.next_with(send),
            Self::Several(several) => several.next_with(send),
        }
    }

    /// As [`next_with`](Self::next_with), or has the task woken when something is ready; then `Pending`. `None` at the end.
    pub fn poll_next_with<R>(&mut self, cx: &mut Context<'_>, send: impl FnOnce(Sent<'_>) -> R) -> Poll<Option<R>> {
        match self {
            Self::One(one) => one.poll_next_with(cx, send),
            Self::Several(several) => several.poll_next_with(cx, send),
        }
    }

    /// The highest number that is safe to resume from now; `None`: only the position that the client came with is.
    #[must_use]
    pub fn safe(&mut self) -> Option<u64> {
        match self {
            Self::One(one) => one.safe(),
            Self::Several(several) => several.safe(),
        }
    }

    /// Why the stream is over; asked when nothing is ready.
    #[must_use]
    pub const fn end(&self) -> Option<&End> {
        match self {
            Self::One(one) => one.end.as_ref(),
            Self::Several(several) => several.end(),
        }
    }
}

/// One subscription.
#[derive(Debug)]
pub struct One {
    key: Key,
    subscription: Subscription<Key, Payload>,
    /// The hub's.
    epoch: u64,
    end: Option<End>,
}

impl One {
    fn new(app: &App, key: Key, start: Start) -> Self {
        let subscription = app.hub.subscribe_owned_from(Key::clone(&key), start);
        Self { key, subscription, epoch: app.hub.position().epoch(), end: None }
    }

    fn next_with<R>(&mut self, send: impl FnOnce(Sent<'_>) -> R) -> Option<R> {
        let key = &self.key;
        loop {
            return match self.subscription.try_recv_ref() {
                Ok(ReceivedRef::Event(event)) => Some(send(Sent { key, id: Some(event.seq()), what: What::Event(&event) })),
                Ok(ReceivedRef::Gap(gap)) => Some(send(Sent { key, id: Some(gap.to), what: What::Loss(gap) })),
                // Cursors without an event: the position says the same.
                Ok(_) => continue,
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Closed(closed)) => {
                    self.end = Some(End::Closed(closed.reason().clone()));
                    None
                }
            };
        }
    }

    fn poll_next_with<R>(&mut self, cx: &mut Context<'_>, send: impl FnOnce(Sent<'_>) -> R) -> Poll<Option<R>> {
        let key = &self.key;
        loop {
            return Poll::Ready(match ready!(self.subscription.poll_recv(cx)) {
                Ok(Received::Event(event)) => Some(send(Sent { key, id: Some(event.seq()), what: What::Event(&event) })),
                Ok(Received::Gap(gap)) => Some(send(Sent { key, id: Some(gap.to), what: What::Loss(gap) })),
                Ok(_) => continue,
                Err(closed) => {
                    self.end = Some(End::Closed(closed.reason().clone()));
                    None
                }
            });
        }
    }

    fn safe(&self) -> Option<u64> {
        let position = self.subscription.position();
        // Of another epoch: where its reader came from, as long as it is not told so, and for good if it was refused.
        (position.epoch() == self.epoch).then(|| position.seq())
    }
}
