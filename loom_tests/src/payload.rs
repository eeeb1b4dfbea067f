//! Payloads that count: each must be dropped exactly once, and not be read after.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many payloads were made and dropped.
#[derive(Clone, Debug, Default)]
pub struct Payloads(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// One event's payload. It lies on the heap, where AddressSanitizer sees every use after its end.
#[derive(Debug)]
pub struct Payload {
    counts: Arc<Counts>,
    id: Box<u64>,
}

/// What a dropped payload would be read as.
const GONE: u64 = u64::MAX;

impl Payloads {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, that says `id`.
    #[must_use]
    pub fn make(&self, id: u64) -> Payload {
        // Relaxed: a count.
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Payload { counts: Arc::clone(&self.0), id: Box::new(id) }
    }

    /// How many are made and not dropped.
    #[must_use]
    pub fn alive(&self) -> usize {
        // Relaxed: asked when all threads are joined.
        let made = self.0.made.load(Ordering::Relaxed);
        // Relaxed: as above.
        made - self.0.dropped.load(Ordering::Relaxed)
    }

    /// Every one was dropped, and none twice.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn assert_all_dropped(&self) {
        // Relaxed: asked when all threads are joined.
        let counts = (self.0.made.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed));
        assert_eq!(counts.0, counts.1, "payloads made and dropped");
    }
}

impl Payload {
    /// What it was made with.
    ///
    /// # Panics
    /// If it was dropped.
    #[must_use]
    pub fn id(&self) -> u64 {
        assert_ne!(*self.id, GONE, "a payload is read after its end");
        *self.id
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        assert_ne!(*self.id, GONE, "a payload is dropped twice");
        *self.id = GONE;
        // Relaxed: a count.
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
