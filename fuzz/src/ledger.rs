//! Payloads that account for themselves: each is dropped exactly once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What became of each payload ever made.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Vec<u32>>);

impl Ledger {
    /// A new payload; its value is its place in the ledger.
    pub(crate) fn payload(self: &Arc<Self>) -> Payload {
        let mut drops = self.drops();
        drops.push(0);
        let value = drops.len() - 1;
        drop(drops);
        Payload { value, ledger: Arc::clone(self) }
    }

    /// How often the payload was dropped.
    pub(crate) fn drops_of(&self, value: usize) -> u32 {
        self.drops()[value]
    }

    /// # Panics
    /// Where a payload lives on, or was dropped twice.
    pub(crate) fn assert_all_dropped_once(&self) {
        let drops = self.drops();
        let wrong: Vec<_> = drops.iter().enumerate().filter(|(_, drops)| **drops != 1).take(8).collect();
        assert!(wrong.is_empty(), "payloads (value, drops) not dropped exactly once, of {}: {wrong:?}", drops.len());
    }

    fn drops(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of all cases.
#[derive(Debug)]
pub(crate) struct Payload {
    value: usize,
    ledger: Arc<Ledger>,
}

/// What the predicate says of the payload with this value.
pub(crate) fn is_chosen(value: usize) -> bool {
    !value.is_multiple_of(3)
}

impl Payload {
    pub(crate) fn value(&self) -> usize {
        self.value
    }

    /// What the predicate says.
    pub(crate) fn is_chosen(&self) -> bool {
        is_chosen(self.value)
    }

    /// What the weigher says; some weigh nothing, some more than a block may.
    pub(crate) fn weight(&self) -> usize {
        match self.value % 16 {
            0 => 0,
            15 => 1_500,
            n => n * 20,
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.ledger.drops()[self.value] += 1;
    }
}
