//! What one metered future (or closure) was charged so far, and since when it is being polled.
//!
//! * **L1** One thread at a time writes: who polls, and polling needs `&mut`. The sampler reads at any time.
//! * **L2** `version` is odd while a bracket is being ended. A reader that finds it even and unchanged has seen a bracket either as open
//!   or as charged, and never as both or as neither.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// How often a reader looks again that meets the end of a bracket; it then takes what it saw: off by one bracket, until the next sample.
const LOOKS: usize = 64;

/// See the module. Times are nanoseconds of processor time, or stamps of the meter's clock.
#[derive(Debug)]
pub(super) struct Lane {
    version: AtomicU64,
    charged: AtomicU64,
    /// When the open bracket began; 0: none is open.
    start: AtomicU64,
    /// What wall time in the open bracket is scaled by (`timing::scaled`).
    ratio: AtomicU32,
}

/// What the sampler sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) charged: u64,
    /// When the open bracket began, if one is.
    pub(super) start: Option<u64>,
    pub(super) ratio: u32,
}

impl Lane {
    pub(super) fn new(ratio: u32) -> Self {
        Self { version: AtomicU64::new(0), charged: AtomicU64::new(0), start: AtomicU64::new(0), ratio: AtomicU32::new(ratio) }
    }

    /// A bracket begins.
    #[inline(always)]
    pub(super) fn open(&self, start: u64) {
        // Release (pairs with `seen`): who sees it open sees the end of the one before, hence a later version (L2).
        self.start.store(start, Ordering::Release);
    }

    /// It ends; all in all this much was charged.
    #[inline(always)]
    pub(super) fn close(&self, charged: u64, ratio: u32) {
        // Relaxed: only the writer stores here, and this is the writer (L1).
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1);
        // Relaxed: the stores below carry it.
        self.version.store(version, Ordering::Relaxed);
        // Release (pairs with `seen`): who sees this sees the odd version.
        self.charged.store(charged, Ordering::Release);
        // Release (pairs with `seen`): who sees this sees the odd version.
        self.start.store(0, Ordering::Release);
        // Relaxed: a ratio that comes a bracket late is as good.
        self.ratio.store(ratio, Ordering::Relaxed);
        // Release (pairs with `seen`): who sees this sees the whole end.
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }

    /// What it says now.
    pub(super) fn seen(&self) -> Seen {
        let (mut seen, mut whole) = self.look();
        for _ in 0..LOOKS {
            if whole {
                break;
            }
            std::hint::spin_loop();
            (seen, whole) = self.look();
        }
        seen
    }

    /// One look, and whether it met no end of a bracket (L2).
    fn look(&self) -> (Seen, bool) {
        // Acquire (pairs with `close`): what was stored before an even version is seen below.
        let before = self.version.load(Ordering::Acquire);
        // Acquire (pairs with `close`): if it is of a later bracket, so is the version below.
        let charged = self.charged.load(Ordering::Acquire);
        // Acquire (pairs with `open` and `close`): if it is of a later bracket, so is the version below.
        let start = self.start.load(Ordering::Acquire);
        // Relaxed: a ratio that comes a bracket late is as good.
        let ratio = self.ratio.load(Ordering::Relaxed);
        // Relaxed: the loads above that acquire keep it behind them.
        let after = self.version.load(Ordering::Relaxed);
        (Seen { charged, start: (start != 0).then_some(start), ratio }, before == after && before % 2 == 0)
    }
}

/// What `loom_tests/tests/lane_is_seen_whole.rs` models: one lane.
#[cfg(keywake_loom)]
#[derive(Debug)]
pub struct ModelledLane(Lane);

#[cfg(keywake_loom)]
impl Default for ModelledLane {
    fn default() -> Self {
        Self(Lane::new(1))
    }
}

#[cfg(keywake_loom)]
impl ModelledLane {
    /// A bracket begins.
    pub fn open(&self, start: u64) {
        self.0.open(start);
    }

    /// It ends.
    pub fn close(&self, charged: u64) {
        self.0.close(charged, 1);
    }

    /// One look: what was charged, and when the open bracket began; `None` if it met the end of a bracket.
    pub fn look(&self) -> Option<(u64, Option<u64>)> {
        let (seen, whole) = self.0.look();
        whole.then_some((seen.charged, seen.start))
    }
}

#[cfg(all(test, not(keywake_loom)))]
mod tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn open_bracket_is_seen_until_it_is_charged() {
        let lane = Lane::new(1);
        lane.open(7);
        assert_eq!(lane.seen(), Seen { charged: 0, start: Some(7), ratio: 1 });
        lane.close(5, 3);
        assert_eq!(lane.seen(), Seen { charged: 5, start: None, ratio: 3 });
    }

    #[test]
    fn no_bracket_is_seen_as_open_and_as_charged_or_as_neither() {
        // Bracket n begins at n and takes the charge to n, so an open one that is not yet charged begins one above the charge.
        const BRACKETS: u64 = 200_000;
        let lane = Arc::new(Lane::new(1));
        let writer = {
            let lane = Arc::clone(&lane);
            std::thread::spawn(move || {
                for n in 1..=BRACKETS {
                    lane.open(n);
                    lane.close(n, 1);
                }
            })
        };
        let mut last = 0;
        loop {
            let (seen, whole) = lane.look();
            if whole {
                assert!(seen.start.is_none_or(|start| start == seen.charged + 1), "{seen:?}");
                assert!(seen.charged >= last, "{seen:?} after {last}");
                last = seen.charged;
            }
            if seen.charged == BRACKETS {
                break;
            }
        }
        writer.join().unwrap();
    }
}
