//! A subscription of the hub, seen as a source of the merge.

use std::task::{Context, Poll};

use keywake::{Gap, Received, ReceivedRef, Subscription, TryRecvError};

use super::merge::{Item, Loss, Next, Source};
use crate::{key::Key, payload::Payload};

/// What a stream subscribes with.
pub type Reader = Subscription<Key, Payload>;

impl Source for Reader {
    fn take(&mut self) -> Next {
        loop {
            // Lent: the payload's bytes are shared, and the block it came in is not pinned while a slow client reads.
            return match self.try_recv_ref() {
                Ok(ReceivedRef::Event(event)) => Next::Item(Item::Event { seq: event.seq(), payload: Payload::clone(&event) }),
                Ok(ReceivedRef::Gap(gap)) => Next::Item(Item::Loss(gap.into())),
                // Cursors without an event: `position` says the same.
                Ok(_) => continue,
                Err(TryRecvError::Empty) => Next::Empty,
                Err(TryRecvError::Closed(closed)) => Next::Ended(closed.reason().clone()),
            };
        }
    }

    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            let Poll::Ready(received) = self.poll_recv(cx) else { return Poll::Pending };
            return Poll::Ready(match received {
                Ok(Received::Event(event)) => Next::Item(Item::Event { seq: event.seq(), payload: Payload::clone(&event) }),
                Ok(Received::Gap(gap)) => Next::Item(Item::Loss(gap.into())),
                Ok(_) => continue,
                Err(closed) => Next::Ended(closed.reason().clone()),
            });
        }
    }

    fn position(&self) -> u64 {
        self.position().seq()
    }
}

impl From<Gap> for Loss {
    fn from(gap: Gap) -> Self {
        Self { from: gap.from, to: gap.to, missed: gap.missed, cause: gap.cause }
    }
}
