//! A subscription of the hub, seen as a source of the merge.

use std::task::{Context, Poll};

use keywake::{Gap, Received, ReceivedRef, Subscription, TryRecvError};

use super::merge::{Item, Loss, Next, Source};
use crate::{key::Key, payload::Payload};

/// What a stream reads a key with.
#[derive(Debug)]
pub struct Reader {
    subscription: Subscription<Key, Payload>,
    /// The hub's.
    epoch: u64,
}

impl Reader {
    /// A subscription of the hub with this epoch.
    #[must_use]
    pub const fn new(subscription: Subscription<Key, Payload>, epoch: u64) -> Self {
        Self { subscription, epoch }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.subscription.key()
    }

    /// The subscription itself.
    pub const fn subscription(&mut self) -> &mut Subscription<Key, Payload> {
        &mut self.subscription
    }
}

impl Source for Reader {
    fn take(&mut self) -> Next {
        loop {
            // Lent: the payload's bytes are shared, and the block it came in is not pinned while a slow client reads.
            return match self.subscription.try_recv_ref() {
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
            let Poll::Ready(received) = self.subscription.poll_recv(cx) else { return Poll::Pending };
            return Poll::Ready(match received {
                Ok(Received::Event(event)) => Next::Item(Item::Event { seq: event.seq(), payload: Payload::clone(&event) }),
                Ok(Received::Gap(gap)) => Next::Item(Item::Loss(gap.into())),
                Ok(_) => continue,
                Err(closed) => Next::Ended(closed.reason().clone()),
            });
        }
    }

    fn position(&self) -> Option<u64> {
        let position = self.subscription.position();
        // A subscription that was refused stands where its reader came from, which may be another epoch: no number of ours.
        (position.epoch() == self.epoch).then(|| position.seq())
    }
}

impl From<Gap> for Loss {
    fn from(gap: Gap) -> Self {
        Self { from: gap.from, to: gap.to, missed: gap.missed, cause: gap.cause }
    }
}
