//! A reader that is polled by hand, with a waker that counts.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use keywake::{Closed, Received, Subscription};

use crate::{
    Payload, Told,
    atomic::{AtomicUsize, Ordering},
};

/// A waker that counts. As with an executor, who polls after a wake has seen what the waking thread did before it; loom checks the
/// readers on the strength of no more than that.
#[derive(Clone, Debug)]
pub struct Alarm {
    rings: Arc<Rings>,
    waker: Waker,
}

#[derive(Debug)]
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release (pairs with `rings`): as an executor's queue.
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

impl Alarm {
    /// A waker of its own.
    #[must_use]
    pub fn new() -> Self {
        let rings = Arc::new(Rings(AtomicUsize::new(0)));
        Self { waker: Waker::from(Arc::clone(&rings)), rings }
    }

    /// How often it was woken, up to now and not to some time before.
    #[must_use]
    pub fn rings(&self) -> usize {
        // Acquire (pairs with `wake`): a read-modify-write, since a load may miss the newest.
        self.rings.0.fetch_add(0, Ordering::Acquire)
    }

    /// How many copies of the waker are held elsewhere.
    #[must_use]
    pub fn copies(&self) -> usize {
        Arc::strong_count(&self.rings) - 2
    }

    /// Lays it where it is to be woken.
    pub fn park<R>(&self, park: impl FnOnce(&Waker) -> R) -> R {
        park(&self.waker)
    }

    /// Polls with it.
    pub fn poll<R>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Poll<R> {
        poll(&mut Context::from_waker(&self.waker))
    }
}

/// A reader, how it is woken, and what it was told.
#[derive(Debug)]
pub struct Sleeper {
    /// The reader.
    pub reader: Subscription<u8, Payload>,
    /// Its waker.
    pub alarm: Alarm,
    /// What it was told, since its beginning.
    pub told: Told,
    /// The rings before the last poll, if that left it asleep.
    asleep_at: Option<usize>,
    /// How often it was polled; each poll parks once at most, also one that then finds something after all.
    pub polls: usize,
}

impl Sleeper {
    /// Of a reader that has received nothing yet.
    #[must_use]
    pub fn new(reader: Subscription<u8, Payload>) -> Self {
        let told = Told::since(reader.position().seq());
        Self { reader, alarm: Alarm::new(), told, asleep_at: None, polls: 0 }
    }

    /// Polls `times`, also if it was not woken, or until the end.
    ///
    /// # Panics
    /// If something comes out of order.
    #[must_use]
    pub fn polled(mut self, times: usize) -> Self {
        for _ in 0..times {
            if self.poll().is_ready() && self.told.end.is_some() {
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
        let polled = self.alarm.poll(|cx| self.reader.poll_recv(cx));
        self.note(polled, rings)
    }

    /// Polls a `recv()` once and drops it.
    ///
    /// # Panics
    /// If something comes out of order.
    pub fn poll_and_cancel(&mut self) -> Poll<()> {
        let rings = self.alarm.rings();
        let polled = {
            let mut recv = std::pin::pin!(self.reader.recv());
            self.alarm.poll(|cx| recv.as_mut().poll(cx))
        };
        let polled = self.note(polled, rings);
        // Nobody waits any more.
        self.asleep_at = None;
        polled
    }

    fn note(&mut self, polled: Poll<Result<Received<Payload>, Closed>>, rings: usize) -> Poll<()> {
        self.asleep_at = None;
        self.polls += 1;
        match polled {
            Poll::Ready(Ok(received)) => self.told.note(&received),
            Poll::Ready(Err(closed)) => self.told.end = Some(closed.reason().clone()),
            Poll::Pending => {
                self.asleep_at = Some(rings);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Whether the last poll left it asleep.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.asleep_at.is_some()
    }

    /// Whether it was woken since it fell asleep (or while it did).
    #[must_use]
    pub fn was_woken(&self) -> bool {
        self.asleep_at.is_some_and(|rings| self.alarm.rings() > rings)
    }

    /// All threads are joined: receives what is left, and if that is anything, the reader was woken for it; and it was not woken
    /// more often than it was polled.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn judge(&mut self) {
        let (asleep, woken) = (self.is_asleep(), self.was_woken());
        let before = (self.told.seqs.len(), self.told.gaps.len(), self.told.end.clone());
        if self.told.end.is_none() {
            self.told.take_all(&mut self.reader);
        }
        let found_more = before != (self.told.seqs.len(), self.told.gaps.len(), self.told.end.clone());
        assert!(!asleep || woken || !found_more, "lost wake: it sleeps, and there was more: {:?}", self.told);
        assert!(self.alarm.rings() <= self.polls, "{} wakes for {} polls", self.alarm.rings(), self.polls);
    }
}
