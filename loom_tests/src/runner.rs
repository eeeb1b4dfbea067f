//! A future that is polled by hand when it was woken, as an executor does it.

use std::{future::Future, pin::Pin, task::Poll};

use crate::Alarm;

/// See the module.
pub struct Runner<F> {
    future: Pin<Box<F>>,
    alarm: Alarm,
    /// The rings before the last poll; `None`: it has ended.
    seen: Option<usize>,
    /// Polls so far.
    polls: usize,
}

impl<F: Future<Output = ()>> Runner<F> {
    /// A future that was not polled yet.
    #[must_use]
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), alarm: Alarm::new(), seen: Some(0), polls: 0 }
    }

    /// Polls it once, also if it was not woken.
    pub fn poll(&mut self) {
        if self.seen.is_none() {
            return;
        }
        self.polls += 1;
        let rings = self.alarm.rings();
        let polled = self.alarm.poll(|cx| self.future.as_mut().poll(cx));
        self.seen = if polled == Poll::Ready(()) { None } else { Some(rings) };
    }

    /// Another task has it from now on, with another waker.
    pub fn change_task(&mut self) {
        self.alarm = Alarm::new();
        self.seen = self.seen.map(|_| 0);
    }

    /// Polls it for as long as it was woken since it was last polled.
    ///
    /// # Panics
    /// If that does not end.
    pub fn run(&mut self) {
        let before = self.polls;
        while self.seen.is_some_and(|seen| self.alarm.rings() > seen) {
            self.poll();
            assert!(self.polls < before + 100, "it wakes itself for ever");
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.seen.is_none()
    }

    /// How often it was polled.
    #[must_use]
    pub fn polls(&self) -> usize {
        self.polls
    }
}

impl<F> std::fmt::Debug for Runner<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("seen", &self.seen).finish_non_exhaustive()
    }
}
