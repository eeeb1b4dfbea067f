//! How a stream learns that it is to end: a subscription to its own key, and a cause that is set once.

use std::{
    error::Error,
    fmt,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Subscription,
    overload::{
        events::{LoadEvent, LoadKey, Victim},
        status::EndCause,
    },
    sync::{Arc, PlainArc, PlainOnce, Tally},
};

/// What a stream's handles share with what the driver keeps of it.
#[derive(Debug)]
pub(super) struct Flag {
    trace_id: PlainArc<str>,
    cancelled: PlainOnce<Cancelled>,
    /// One more than the position; 0: not told.
    position: Tally,
}

impl Flag {
    pub(super) fn new(trace_id: PlainArc<str>) -> Self {
        Self { trace_id, cancelled: PlainOnce::new(), position: Tally::new(0) }
    }

    pub(super) fn trace_id(&self) -> PlainArc<str> {
        PlainArc::clone(&self.trace_id)
    }

    /// Whether that was the first cause.
    pub(super) fn cancel(&self, cancelled: Cancelled) -> bool {
        self.cancelled.set(cancelled).is_ok()
    }

    pub(super) fn cancelled(&self) -> Option<Cancelled> {
        self.cancelled.get().cloned()
    }

    pub(super) fn set_position(&self, position: u64) {
        self.position.set(position.saturating_add(1));
    }

    pub(super) fn position(&self) -> Option<u64> {
        self.position.get().checked_sub(1)
    }
}

/// A stream was cancelled: the error that its handler is to return, or to give to a
/// [`Classifier`](crate::overload::status::Classifier) as the reason of the cancel beside an error of its own. A handler that returns no error
/// [counts as complete](crate::overload::status::Classifier::classify). Its source is the [`EndCause`], whose text is its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancelled {
    cause: EndCause,
    victim: Option<PlainArc<Victim>>,
}

impl Cancelled {
    pub(super) fn new(cause: EndCause, victim: Option<PlainArc<Victim>>) -> Self {
        Self { cause, victim }
    }

    /// Why.
    #[must_use]
    pub fn cause(&self) -> EndCause {
        self.cause
    }

    /// Of an eviction, what was decided of the stream: with how often it was evicted, for its client's token.
    #[must_use]
    pub fn victim(&self) -> Option<&Victim> {
        self.victim.as_deref()
    }

    /// Of an eviction, when its client should come again: those of one round are spread, so this goes before
    /// [`StreamEnd::retry_after`](crate::overload::status::StreamEnd::retry_after), which is for all other ends.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.victim().map(|victim| victim.eviction.retry_after)
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for Cancelled {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Tells when a stream is cancelled. Waiting costs nothing until then: it is a subscription to the stream's own key.
///
/// It may outlive its stream, and is then never told anything.
pub struct CancelToken {
    subscription: Subscription<LoadKey, LoadEvent>,
    flag: Arc<Flag>,
}

impl CancelToken {
    /// The subscription must have been made for it: what was said before it is in the flag.
    pub(super) fn new(subscription: Subscription<LoadKey, LoadEvent>, flag: Arc<Flag>) -> Self {
        Self { subscription, flag }
    }

    /// Why the stream was cancelled, if it was.
    #[must_use]
    pub fn get(&self) -> Option<Cancelled> {
        self.flag.cancelled()
    }

    /// Waits until the stream is cancelled. It says so each time it is asked. If the hub itself is shut down, that counts as a cancel for
    /// [`EndCause::ShuttingDown`], since nothing else could be told any more.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn cancelled(&mut self) -> Cancelled {
        poll_fn(|cx| self.poll_cancelled(cx)).await
    }

    /// The same for hand-written bodies and streams: the waker is kept until the stream is cancelled, or polled again.
    pub fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<Cancelled> {
        loop {
            // Set before the event is published: whoever does not see it here is woken by that.
            if let Some(cancelled) = self.flag.cancelled() {
                return Poll::Ready(cancelled);
            }
            match self.subscription.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Cancelled::new(EndCause::ShuttingDown, None)),
            }
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.get()).finish_non_exhaustive()
    }
}
