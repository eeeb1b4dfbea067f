//! Snapshot, then follow: many who want a key's snapshot at once share one run of what makes it.

use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::shared::FirstPanic;
use crate::{
    Event, Position,
    sync::{Arc, Mutex, PlainArc},
};

/// Why there is no snapshot: what the function that was to make it said. All who shared its run get the same.
#[derive(Clone, Debug)]
pub struct SnapshotFailed(PlainArc<dyn Error + Send + Sync>);

impl SnapshotFailed {
    pub(crate) fn new(error: Box<dyn Error + Send + Sync>) -> Self {
        Self(PlainArc::from(error))
    }
}

impl fmt::Display for SnapshotFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the snapshot failed: {}", self.0)
    }
}

impl Error for SnapshotFailed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// A finished run: the items, and the position that they reflect.
pub(crate) struct Taken<T> {
    pub(crate) items: PlainArc<[Event<T>]>,
    pub(crate) position: Position,
}

impl<T> Clone for Taken<T> {
    fn clone(&self) -> Self {
        Self { items: PlainArc::clone(&self.items), position: self.position }
    }
}

enum State<T> {
    /// Its leader has gone without a result; whoever waits tries again.
    Abandoned,
    Done(Result<Taken<T>, SnapshotFailed>),
    Running {
        next_id: u64,
        waiting: Vec<(u64, Waker)>,
    },
}

/// One run of a snapshot function.
pub(crate) struct Flight<T>(Mutex<State<T>>);

/// The runs that are under way, by the topic they are for (its address: whoever takes part keeps it alive).
pub(crate) struct Flights<T>(Mutex<Vec<(usize, Arc<Flight<T>>)>>);

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

/// What somebody who wants a snapshot is to do.
pub(crate) enum Role<'a, T> {
    Join(Arc<Flight<T>>),
    Lead(Leader<'a, T>),
}

impl<T> Flights<T> {
    /// Joins the run for this topic, or begins one.
    pub(crate) fn enter(&self, topic: usize) -> Role<'_, T> {
        let mut flights = self.0.lock();
        if let Some((_, flight)) = flights.iter().find(|(other, _)| *other == topic) {
            return Role::Join(Arc::clone(flight));
        }
        let flight = Arc::new(Flight(Mutex::new(State::Running { next_id: 0, waiting: Vec::new() })));
        flights.push((topic, Arc::clone(&flight)));
        Role::Lead(Leader { flights: self, flight, topic, outcome: None })
    }
}

/// The right and duty to end a run; dropping it without a result hands over.
pub(crate) struct Leader<'a, T> {
    flights: &'a Flights<T>,
    flight: Arc<Flight<T>>,
    topic: usize,
    outcome: Option<Result<Taken<T>, SnapshotFailed>>,
}

impl<T> Leader<'_, T> {
    pub(crate) fn finish(mut self, outcome: Result<Taken<T>, SnapshotFailed>) {
        self.outcome = Some(outcome);
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        // Nobody joins a run that is over: out of the list first, or an abandoned one would be joined again and again.
        self.flights.0.lock().retain(|(topic, _)| *topic != self.topic);
        let next = self.outcome.take().map_or(State::Abandoned, State::Done);
        let before = std::mem::replace(&mut *self.flight.0.lock(), next);
        if let State::Running { waiting, .. } = before {
            let mut panics = FirstPanic::default();
            for (_, waker) in waiting {
                panics.run(|| waker.wake());
            }
            panics.go_on();
        }
    }
}

/// Waits for the end of a run. `None`: its leader has gone.
pub(crate) struct Landing<T> {
    flight: Arc<Flight<T>>,
    id: Option<u64>,
}

impl<T> Landing<T> {
    pub(crate) fn new(flight: Arc<Flight<T>>) -> Self {
        Self { flight, id: None }
    }
}

impl<T> Future for Landing<T> {
    type Output = Option<Result<Taken<T>, SnapshotFailed>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // User code, so before the lock.
        let waker = cx.waker().clone();
        let flight = Arc::clone(&self.flight);
        let mut state = flight.0.lock();
        match &mut *state {
            State::Abandoned => Poll::Ready(None),
            State::Done(outcome) => Poll::Ready(Some(outcome.clone())),
            State::Running { next_id, waiting } => {
                let id = *self.id.get_or_insert_with(|| {
                    *next_id += 1;
                    *next_id
                });
                let old = match waiting.iter_mut().find(|(other, _)| *other == id) {
                    Some((_, old)) => Some(std::mem::replace(old, waker)),
                    None => {
                        waiting.push((id, waker));
                        None
                    }
                };
                drop(state);
                // User code, so after the lock.
                drop(old);
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Landing<T> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.flight.0.lock();
        let State::Running { waiting, .. } = &mut *state else { return };
        let Some(index) = waiting.iter().position(|(other, _)| *other == id) else { return };
        let old = waiting.swap_remove(index);
        drop(state);
        // User code, so after the lock.
        drop(old);
    }
}
