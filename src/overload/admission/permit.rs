//! What stands for an admitted stream, for as long as the stream lives.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;

use super::{Seat, Shared};
use crate::{load::StreamClass, sync::Arc};

/// Stands for one admitted stream: while it lives, the stream is counted. Dropping it gives the room to the next.
///
/// It belongs to the stream and not to the request: keep it with what sends the body, or [`attach`](Self::attach) it. A server whose
/// permits end with the headers counts no stream at all. How long it was held is measured nowhere: the duration of a stream says nothing
/// about latency.
#[must_use = "the room is given back when it is dropped"]
pub struct Permit {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    seat: Option<Seat>,
}

impl Permit {
    pub(super) fn new(shared: Arc<Shared>, seat: Seat) -> Self {
        Self { shared, seat: Some(seat) }
    }

    /// The class that the stream is counted under.
    #[must_use]
    pub fn class(&self) -> StreamClass {
        self.seat.as_ref().map_or(StreamClass::Live, |seat| seat.class)
    }

    /// Whose stream it is.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.seat.as_ref()?.claim.identity().map(|identity| &**identity)
    }

    /// The stream is of another class from now on: with that of a catch-up that has reached the head its place among the catch-ups is free
    /// for the next. A stream that falls behind again stays, also above the cap on catch-ups.
    pub fn set_class(&mut self, class: StreamClass) {
        if let Some(seat) = &mut self.seat {
            Shared::change_class(&self.shared, seat, class);
        }
    }

    /// Binds it to a stream, a body or a future: it is given back when that ends or is dropped.
    pub fn attach<S>(self, inner: S) -> Permitted<S> {
        Permitted { inner, permit: Some(self) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            Shared::rise(&self.shared, seat);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("class", &self.class()).field("identity", &self.identity()).finish_non_exhaustive()
    }
}

/// A stream, a body or a future with its [`Permit`].
///
/// The permit is given back when what it is bound to has ended, also if this is kept: whoever looks at a finished future
/// for longer than he must holds no room with it.
#[derive(Debug)]
pub struct Permitted<S> {
    // Dropped first: the room is free when the stream is gone, and not before.
    inner: S,
    permit: Option<Permit>,
}

impl<S> Permitted<S> {
    /// What the permit is bound to.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// What the permit is bound to. (To give up the permit before its end is not foreseen.)
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The permit, as long as the end has not come.
    #[must_use]
    pub fn permit(&self) -> Option<&Permit> {
        self.permit.as_ref()
    }

    /// See [`Permit::set_class`].
    pub fn set_class(&mut self, class: StreamClass) {
        if let Some(permit) = &mut self.permit {
            permit.set_class(class);
        }
    }
}

impl<S: Stream + Unpin> Stream for Permitted<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let polled = Pin::new(&mut self.inner).poll_next(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.permit = None;
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<F: Future + Unpin> Future for Permitted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = Pin::new(&mut self.inner).poll(cx);
        if polled.is_ready() {
            self.permit = None;
        }
        polled
    }
}
