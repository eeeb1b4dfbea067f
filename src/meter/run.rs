//! A future whose polls are charged to a stream.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use super::stream::PollTimer;

pin_project! {
    /// A future whose polls, and whose drop, are charged to a stream: [`StreamMeter::run`](super::StreamMeter::run).
    #[must_use = "a future does nothing unless it is polled"]
    pub struct Metered<F> {
        // Gone only while `self` is dropped.
        #[pin]
        future: Option<F>,
        timer: PollTimer,
    }

    impl<F> PinnedDrop for Metered<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            this.timer.time(|| this.future.set(None));
        }
    }
}

impl<F> Metered<F> {
    pub(super) fn new(timer: PollTimer, future: F) -> Self {
        Self { future: Some(future), timer }
    }

    /// The timer, which names the stream.
    #[must_use]
    pub fn timer(&self) -> &PollTimer {
        &self.timer
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.future.as_pin_mut() {
            Some(future) => this.timer.time(|| future.poll(cx)),
            None => Poll::Pending,
        }
    }
}

impl<F> fmt::Debug for Metered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered").field("timer", &self.timer).finish_non_exhaustive()
    }
}
