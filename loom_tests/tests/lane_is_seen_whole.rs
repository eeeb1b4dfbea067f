//! Who looks at what a stream is charged, while it is polled, sees each bracket as open or as charged, never as both or as neither.

#![cfg(keywake_loom)]

use std::sync::Arc;

use keywake::meter::ModelledLane;
use loom_tests::{model, race};

/// Bracket n begins at n and takes the charge to n.
fn poll(lane: &ModelledLane, brackets: u64) {
    for n in 1..=brackets {
        lane.open(n);
        lane.close(n);
    }
}

/// A look that met no end of a bracket: what is open is the one after those that are charged.
fn look(lane: &ModelledLane, last: u64) -> u64 {
    let Some((charged, start)) = lane.look() else { return last };
    assert!(start.is_none_or(|start| start == charged + 1), "charged {charged}, open {start:?}");
    assert!(charged >= last, "charged {charged} after {last}");
    charged
}

#[test]
fn two_looks_beside_two_brackets() {
    model(|| {
        let lane = Arc::new(ModelledLane::default());
        let seen = Arc::clone(&lane);
        race(
            move || poll(&lane, 2),
            move || {
                let last = look(&seen, 0);
                look(&seen, last);
            },
        );
    });
}

#[test]
fn lane_that_is_at_rest_is_seen_with_one_look() {
    model(|| {
        let lane = Arc::new(ModelledLane::default());
        let poller = Arc::clone(&lane);
        race(move || poll(&poller, 1), || ());
        assert_eq!(lane.look(), Some((1, None)));
    });
}
