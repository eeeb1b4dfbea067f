//! Who walks through rows that may be taken away, and whether such a row may be freed yet.

use crate::sync::{AtomicU64, Ordering};

/// Counts the fan-outs that are at it.
///
/// ```text
///   bits 1..64  how many there are
///   bit 0       LIMBO   something waits to be freed: the last one to go has to look
/// ```
///
/// A row is first made unfindable, then it is asked here who is there. All of this is read-modify-writes of one word, so a fan-out came either
/// 1. before the question: it is counted, and whether it has seen the row or not, the row stays until it is gone; or
/// 2. after it: it has acquired what the asker released, and finds the row no more.
///
/// One that had gone before the question has released what it did with the row, and the asker acquires it.
#[derive(Debug)]
pub(super) struct Visitors(AtomicU64);

const LIMBO: u64 = 1;
const ONE: u64 = 1 << 1;

impl Visitors {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A fan-out comes.
    pub(super) fn come(&self) {
        // Acquire (pairs with `are_gone`): case 2.
        self.0.fetch_add(ONE, Ordering::Acquire);
    }

    /// It goes. True: it was the last one, and something waits.
    pub(super) fn go(&self) -> bool {
        // Release (pairs with `are_gone`): it uses no row after this.
        self.0.fetch_sub(ONE, Ordering::Release) == ONE | LIMBO
    }

    /// Whether what was made unfindable before this is used by nobody. If not, the last one to go is told. Asked with the free list locked.
    pub(super) fn are_gone(&self) -> bool {
        // AcqRel (pairs with `come` and `go`): see the cases.
        let are_gone = self.0.fetch_or(LIMBO, Ordering::AcqRel) < ONE;
        if are_gone {
            // Relaxed: it tells nobody anything.
            self.0.fetch_and(!LIMBO, Ordering::Relaxed);
        }
        are_gone
    }
}
