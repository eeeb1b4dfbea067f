//! The future of one who waits for room.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::Place;
use crate::{
    overload::admission::{Decision, Shared},
    sync::Arc,
};

/// Waits for room: what [`Admission::admit`](crate::overload::admission::Admission::admit) gives.
///
/// It has its place in the queue from then on, whether it is polled or not. No timer is needed: it ends when room is given to it, or
/// when [`Admission::sweep`](crate::overload::admission::Admission::sweep) finds that it has waited too long.
///
/// # Cancel safety
/// Dropping it gives its place up, and hands on the room that it was given and did not take.
#[must_use = "it gives its place up when it is dropped"]
pub struct Admitting(State);

enum State {
    /// It is known; `None`: it was told.
    Decided(Option<Decision>),
    Queued(Arc<Shared>, Place),
}

impl Admitting {
    pub(in crate::overload) fn decided(decision: Decision) -> Self {
        Self(State::Decided(Some(decision)))
    }

    pub(in crate::overload) fn queued(shared: Arc<Shared>, place: Place) -> Self {
        Self(State::Queued(shared, place))
    }

    /// Whether it waits or is given something, rather than being decided at once.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(self.0, State::Queued(..))
    }
}

impl Future for Admitting {
    type Output = Decision;

    /// After the decision it is pending for ever.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Decision> {
        let decision = match &mut self.0 {
            State::Decided(decision) => decision.take(),
            State::Queued(shared, place) => Shared::take(shared, *place, cx.waker()),
        };
        let Some(decision) = decision else { return Poll::Pending };
        self.0 = State::Decided(None);
        Poll::Ready(decision)
    }
}

impl Drop for Admitting {
    fn drop(&mut self) {
        // In the same way as above: once decided nothing is left in the queue.
        if let State::Queued(shared, place) = &self.0 {
            Shared::forget(shared, *place);
        }
    }
}

impl fmt::Debug for Admitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitting").field("is_queued", &self.is_queued()).finish_non_exhaustive()
    }
}
