//! What a stream reads from: one subscription, or the merge of several.
//!
//! One alone needs no merge: its events are written where they lie, lent by the subscription, so that a thousand readers of
//! one key touch no counter that they share. An event's own number is then its id, and safe: nothing of its key lies before
//! it and is still to come.

use std::task::{Context, Poll};

use keywake::{CloseReason, ReceivedRef, TryRecvError};

use super::{
    merge::{Delivery, Item, Loss, Merge, Next, Source},
    subscriptions::Reader,
};
use crate::payload::Payload;

/// Where the events of a stream come from.
#[derive(Debug)]
pub enum Feed {
    /// One subscription.
    One(One),
    /// Several.
    Several(Merge<Reader>),
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Which subscription it is of.
    pub source: usize,
    /// The number of its id; `None`: it has none, the client keeps the one that it has.
    pub id: Option<u64>,
    /// The thing itself.
    pub what: What<'a>,
}

/// An [`Item`], lent.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// An event.
    Event(&'a Payload),
    /// Lost events.
    Loss(&'a Loss),
}

impl<'a> From<&'a Item> for What<'a> {
    fn from(item: &'a Item) -> Self {
        match item {
            Item::Event { payload, .. } => Self::Event(payload),
            Item::Loss(loss) => Self::Loss(loss),
        }
    }
}

impl Feed {
    /// Reads from these.
    #[must_use]
    pub fn new(mut readers: Vec<Reader>) -> Self {
        match readers.pop() {
            Some(reader) if readers.is_empty() => Self::One(One::new(reader)),
            last => {
                readers.extend(last);
                Self::Several(Merge::new(readers))
            }
        }
    }

    /// Hands the next thing that is ready to `send`; `None` if nothing is.
    pub fn next_with<R>(&mut self, send: impl FnOnce(Sent<'_>) -> R) -> Option<R> {
        match self {
            Self::One(one) => one.next_with(send),
            Self::Several(merge) => {
                let Delivery { source, item, id } = merge.take_next()?;
                Some(send(Sent { source, id, what: (&item).into() }))
            }
        }
    }

    /// The losses that stand at the beginning: what a resume could not bring back.
    #[must_use]
    pub fn first_losses(&self) -> Vec<Loss> {
        match self {
            Self::One(One { head: Some(Item::Loss(loss)), .. }) => vec![*loss],
            Self::One(_) => Vec::new(),
            Self::Several(merge) => merge.first_losses().copied().collect(),
        }
    }

    /// The highest number that is safe to resume from now; `None`: only the position that the client came with is.
    #[must_use]
    pub fn safe(&self) -> Option<u64> {
        match self {
            Self::One(one) => one.safe(),
            Self::Several(merge) => merge.safe(),
        }
    }

    /// Why the stream is over; asked when nothing is ready.
    #[must_use]
    pub const fn end(&self) -> Option<&CloseReason> {
        match self {
            Self::One(one) => one.end.as_ref(),
            Self::Several(merge) => merge.end(),
        }
    }

    /// Has the task woken when something is ready, or the end is there; ready if that is so now.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::One(one) => one.poll_ready(cx),
            Self::Several(merge) => merge.poll_ready(cx),
        }
    }
}

/// One subscription.
#[derive(Debug)]
pub struct One {
    reader: Reader,
    /// What was taken while looking whether there is something.
    head: Option<Item>,
    end: Option<CloseReason>,
}

impl One {
    fn new(mut reader: Reader) -> Self {
        let first = reader.take();
        let mut one = Self { reader, head: None, end: None };
        one.note(first);
        one
    }

    fn note(&mut self, found: Next) {
        match found {
            Next::Item(item) => self.head = Some(item),
            Next::Ended(reason) => self.end = Some(reason),
            Next::Empty => {}
        }
    }

    fn next_with<R>(&mut self, send: impl FnOnce(Sent<'_>) -> R) -> Option<R> {
        if let Some(item) = self.head.take() {
            return Some(send(Sent { source: 0, id: Some(item.reaches()), what: (&item).into() }));
        }
        if self.end.is_some() {
            return None;
        }
        loop {
            match self.reader.subscription().try_recv_ref() {
                Ok(ReceivedRef::Event(event)) => {
                    return Some(send(Sent { source: 0, id: Some(event.seq()), what: What::Event(&event) }));
                }
                Ok(ReceivedRef::Gap(gap)) => {
                    let loss = Loss::from(gap);
                    return Some(send(Sent { source: 0, id: Some(loss.to), what: What::Loss(&loss) }));
                }
                // Cursors without an event: the position says the same.
                Ok(_) => {}
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Closed(closed)) => {
                    self.end = Some(closed.reason().clone());
                    return None;
                }
            }
        }
    }

    fn safe(&self) -> Option<u64> {
        self.head.as_ref().map_or_else(|| self.reader.position(), Item::bound)
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.head.is_none() && self.end.is_none() {
            let Poll::Ready(found) = self.reader.poll_take(cx) else { return Poll::Pending };
            self.note(found);
        }
        Poll::Ready(())
    }
}
