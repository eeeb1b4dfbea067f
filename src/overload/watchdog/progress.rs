//! How a worker says that it gets on: counters that the watchdog reads, without a lock and without a clock.

use crate::sync::{Arc, Tally};

/// The counters of one source. They are numbers that are read for their own sake: what a check reads late, the next one reads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    count: Tally,
    begun: Tally,
    ended: Tally,
}

/// What a check reads of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Progress.
    pub(super) count: u64,
    /// Items that were begun.
    pub(super) begun: u64,
    /// Items that have ended, finished or not.
    pub(super) ended: u64,
}

impl Counters {
    pub(super) fn read(&self) -> Reading {
        // What has ended first: an item that begins or ends in between is then seen by its end when the next reading is compared, and
        // none seems to be under way that is not.
        let ended = self.ended.get();
        Reading { count: self.count.get(), begun: self.begun.get(), ended }
    }
}

/// One source of a task's progress, and the only thing that counts as such: a heartbeat, a keep-alive or a byte to the client has no way to
/// reach it. Cheap to clone and to use from any thread; it takes no lock, reads no clock, and never waits for the watchdog.
///
/// A phase that handles no items (a store that is loaded) has a source of its own, and counts what it does handle.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Counters>);

impl Progress {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self(counters)
    }

    /// So much more is done.
    pub fn advance(&self, n: u64) {
        self.0.count.add(n);
    }

    /// So much is done in all, where the caller counts by himself. Only what is above all that was reported before is progress: what was
    /// done once and is done again is none. One thread reports, and none [advances](Self::advance) the same source.
    pub fn report(&self, total: u64) {
        self.0.count.set(total);
    }

    /// Begins an item, for which the time-out for items runs until it ends. Workers that handle items side by side have a source each:
    /// of several items of one source, the one that ends hides those that hang.
    #[must_use = "it ends when it is dropped"]
    pub fn item(&self) -> Item<'_> {
        self.0.begun.add(1);
        Item(&self.0)
    }
}

/// An item that is being handled. Dropping it ends it without progress: it failed.
#[derive(Debug)]
pub struct Item<'a>(&'a Counters);

impl Item<'_> {
    /// It is done, which is progress.
    pub fn finish(self) {
        self.0.count.add(1);
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        self.0.ended.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_that_is_finished_is_progress_and_one_that_failed_is_none() {
        let counters = Arc::new(Counters::default());
        let progress = Progress::new(Arc::clone(&counters));
        let item = progress.item();
        assert_eq!(counters.read(), Reading { count: 0, begun: 1, ended: 0 });
        item.finish();
        assert_eq!(counters.read(), Reading { count: 1, begun: 1, ended: 1 });
        drop(progress.item());
        assert_eq!(counters.read(), Reading { count: 1, begun: 2, ended: 2 });
        progress.advance(5);
        assert_eq!(counters.read().count, 6);
        progress.report(3);
        assert_eq!(counters.read().count, 3);
    }

    #[test]
    fn advances_of_many_threads_all_count() {
        let counters = Arc::new(Counters::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let progress = Progress::new(Arc::clone(&counters));
                scope.spawn(move || (0..1_000).for_each(|_| progress.advance(1)));
            }
        });
        assert_eq!(counters.read().count, 4_000);
    }
}
