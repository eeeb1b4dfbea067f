//! Who waits for a key to have a reader.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::shared::Shared;
use crate::{Closed, Key, sync::Arc};

/// An id, the hash of a key, and who to wake.
type Waiting = (u64, u64, Waker);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    next_id: u64,
    waiting: Vec<Waiting>,
}

impl Arrivals {
    /// Adds or renews a waiter; `waker` was cloned outside of the lock. A waker that is replaced comes back, to be dropped there.
    pub(crate) fn wait(&mut self, id: &mut Option<u64>, hash: u64, waker: Waker) -> Option<Waker> {
        if let Some(found) = id.and_then(|id| self.waiting.iter_mut().find(|waiting| waiting.0 == id)) {
            return Some(std::mem::replace(&mut found.2, waker));
        }
        *id = Some(self.next_id);
        self.waiting.push((self.next_id, hash, waker));
        self.next_id += 1;
        None
    }

    pub(crate) fn cancel(&mut self, id: u64) -> Option<Waker> {
        let index = self.waiting.iter().position(|waiting| waiting.0 == id)?;
        Some(self.waiting.swap_remove(index).2)
    }

    /// Takes out those who wait for a key with this hash; all, without one.
    pub(crate) fn arrived(&mut self, hash: Option<u64>) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let (arrived, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| hash.is_none_or(|hash| hash == waiting.1));
        self.waiting = waiting;
        let arrived: Vec<Waiting> = arrived;
        arrived.into_iter().map(|waiting| waiting.2).collect()
    }
}

/// The future of [`Hub::wait_for_reader`].
pub(crate) struct ReaderArrives<K: Key, T: Send + Sync + 'static> {
    shared: Arc<Shared<K, T>>,
    hash: u64,
    key: K,
    id: Option<u64>,
}

impl<K: Key, T: Send + Sync + 'static> ReaderArrives<K, T> {
    pub(crate) fn new(shared: Arc<Shared<K, T>>, hash: u64, key: K) -> Self {
        Self { shared, hash, key, id: None }
    }
}

// Nothing points into it.
impl<K: Key, T: Send + Sync + 'static> Unpin for ReaderArrives<K, T> {}

impl<K: Key, T: Send + Sync + 'static> Future for ReaderArrives<K, T> {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // User code, so before the lock.
        let waker = cx.waker().clone();
        let mut state = this.shared.registry.shard(this.shared.registry.shard_of(this.hash)).lock();
        if let Some(reason) = state.shutdown() {
            return Poll::Ready(Err(Closed::new(reason.clone())));
        }
        if state.find_living(this.hash, |other| *other == this.key).is_some_and(|topic| topic.desk.readers() > 0) {
            return Poll::Ready(Ok(()));
        }
        let old = state.arrivals().wait(&mut this.id, this.hash, waker);
        drop(state);
        // User code, so after the lock.
        drop(old);
        Poll::Pending
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for ReaderArrives<K, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.shared.registry.shard(self.shared.registry.shard_of(self.hash)).lock();
            let old = state.arrivals().cancel(id);
            drop(state);
            drop(old);
        }
    }
}
