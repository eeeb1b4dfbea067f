//! A reader that takes a million events in one go, all published before it begins.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use keywake::{Received, ReceivedRef, Subscription, TryRecvError};

use super::peers::Peer;

/// Enough for a million, and a power of two.
pub(crate) const RETAINED: usize = 1 << 20;

/// Events that `recv_many` may take at once.
pub(crate) const BATCH: usize = 256;

/// A writer, and a second reader that stays, never reads, and keeps the topic and its million events.
pub(crate) struct CatchUp<P: Peer> {
    writer: P::Writer,
    hub: P,
    _stays: P::Reader,
    event: u64,
}

impl<P: Peer> CatchUp<P> {
    pub(crate) fn new() -> Self {
        let (writer, hub) = P::open(RETAINED);
        let stays = hub.subscribe(0);
        Self { writer, hub, _stays: stays, event: 0 }
    }

    /// A reader that joins, falls `events` behind, and is timed while `read` takes all of them and gives their sum. The
    /// publishes just before, which leave the same events in the same caches, are not timed.
    pub(crate) fn read(&mut self, events: usize, read: impl Fn(&mut P::Reader) -> u64) -> Duration {
        let mut reader = self.hub.subscribe(0);
        let mut published = 0_u64;
        for _ in 0..events {
            self.event += 1;
            P::publish(&mut self.writer, 0, self.event);
            published = published.wrapping_add(self.event);
        }
        let start = Instant::now();
        let sum = read(&mut reader);
        let took = start.elapsed();
        assert_eq!(sum, published, "{}: the reader got something else than what was published", P::NAME);
        took
    }
}

/// Reads owned events (or, of peers, clones) one by one.
pub(crate) fn owned<P: Peer>(reader: &mut P::Reader) -> u64 {
    let mut sum = 0_u64;
    while let Some(event) = P::try_recv(reader) {
        sum = sum.wrapping_add(event);
    }
    sum
}

/// Reads lent events one by one.
pub(crate) fn lent(reader: &mut Subscription<u64, u64>) -> u64 {
    let mut sum = 0_u64;
    loop {
        match reader.try_recv_ref() {
            Ok(ReceivedRef::Event(event)) => sum = sum.wrapping_add(*event),
            Ok(other) => panic!("nothing but events was published: {other:?}"),
            Err(TryRecvError::Empty) => return sum,
            Err(TryRecvError::Closed(closed)) => panic!("the hub is open: {closed}"),
        }
    }
}

/// Reads owned events, up to [`BATCH`] at once, into one buffer that is emptied in between; until there is nothing to take.
pub(crate) fn many(reader: &mut Subscription<u64, u64>) -> u64 {
    let mut sum = 0_u64;
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(taken) = recv_many_now(reader, &mut batch) {
        assert_eq!(taken, batch.len(), "the number of events taken");
        for received in batch.drain(..) {
            match received {
                Received::Event(event) => sum = sum.wrapping_add(*event),
                other => panic!("nothing but events was published: {other:?}"),
            }
        }
    }
    sum
}

/// Polls `recv_many` without a runtime. It may yield once after a run of results although there is more.
fn recv_many_now(reader: &mut Subscription<u64, u64>, batch: &mut Vec<Received<u64>>) -> Option<usize> {
    let mut recv = pin!(reader.recv_many(batch, BATCH));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        if let Poll::Ready(taken) = recv.as_mut().poll(&mut context) {
            return Some(taken.expect("the hub is open"));
        }
    }
    None
}
