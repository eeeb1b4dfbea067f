//! AS-17 to AS-19: what becomes of requests that no instance can take.

use std::time::Duration;

use keywake::scaling::{Placing, Starting, Supply, place};

use crate::totals::seconds;

/// One instance that is full, of at most two; another takes 4 s to start, so that one waits for 14 s at most.
fn full() -> Supply {
    Supply { free: 0, frees_every: None, starting: Vec::new(), instances: 1, max: 2, start_up: seconds(4), max_concurrency: 2 }
}

fn placed(supply: &Supply, count: usize) -> Vec<Placing> {
    place(supply, &vec![seconds(1); count])
}

#[test]
fn as_17_starting_instance_is_asked_first_then_a_running_one_then_another_is_started() {
    let soon = Starting { ready_in: seconds(3), room: 1 };
    let supply = Supply { starting: vec![soon], frees_every: Some(seconds(2)), max: 9, instances: 2, ..full() };
    let expected = [
        Placing::WaitForStarting,
        Placing::WaitForRunning,
        Placing::WaitForRunning,
        Placing::Start,
        Placing::WaitForStarting,
        Placing::Start,
    ];
    assert_eq!(placed(&supply, 6), expected, "one place in 3 s, then in 2 s and 4 s, then 4 s for two each");
}

#[test]
fn as_17_what_takes_longer_than_another_instance_is_not_waited_for() {
    let late = Starting { ready_in: seconds(5), room: 80 };
    let supply = Supply { starting: vec![late], frees_every: Some(seconds(5)), max: 9, instances: 2, ..full() };
    assert_eq!(placed(&supply, 1), [Placing::Start]);
    let as_soon = Starting { ready_in: seconds(4), room: 80 };
    assert_eq!(
        placed(&Supply { starting: vec![late, as_soon], ..supply }, 1),
        [Placing::WaitForStarting],
        "whatever their order"
    );
}

#[test]
fn as_17_it_leads_from_none_to_one_and_not_to_one_for_each() {
    let none = Supply { instances: 0, max: 100, max_concurrency: 80, ..full() };
    let placed = placed(&none, 81);
    assert_eq!(placed.iter().filter(|placing| **placing == Placing::Start).count(), 2);
    assert_eq!((placed[0], placed[79], placed[80]), (Placing::Start, Placing::WaitForStarting, Placing::Start));
}

#[test]
fn as_18_who_has_waited_for_as_long_as_one_may_starts_an_instance() {
    // It was thought that the running one would have room.
    let supply = Supply { frees_every: Some(seconds(1)), ..full() };
    let [before, at] = [13_999, 14_000].map(|waited| place(&supply, &[Duration::from_millis(waited)])[0]);
    assert_eq!((before, at), (Placing::WaitForRunning, Placing::Start));
}

#[test]
fn as_18_where_no_more_may_be_it_is_refused_after_the_same_time() {
    let supply = Supply { max: 1, ..full() };
    let [before, at] = [13_999, 14_000].map(|waited| place(&supply, &[Duration::from_millis(waited)])[0]);
    assert_eq!((before, at), (Placing::Wait, Placing::Refuse));
    let over = Supply { instances: 7, max: 1, ..full() };
    assert_eq!(place(&over, &[seconds(14), seconds(0)]), [Placing::Refuse, Placing::Wait], "more than may be");
}

#[test]
fn as_18_one_that_is_starting_is_not_started_twice() {
    let supply = Supply { starting: vec![Starting { ready_in: seconds(2), room: 2 }], instances: 2, max: 9, ..full() };
    let expected = [Placing::WaitForStarting, Placing::WaitForStarting, Placing::Start];
    assert_eq!(place(&supply, &[seconds(20); 3]), expected);
    let taken = Supply { starting: vec![Starting { ready_in: seconds(1), room: 0 }], ..supply };
    assert_eq!(placed(&taken, 1), [Placing::Start], "one whose room is taken is none");
}

#[test]
fn as_19_room_that_is_free_serves_who_waits_longest() {
    let supply = Supply { free: 2, max: 1, ..full() };
    let waited = [seconds(20), seconds(3), seconds(14), seconds(1)];
    assert_eq!(place(&supply, &waited), [Placing::Serve, Placing::Serve, Placing::Refuse, Placing::Wait]);
}

#[test]
fn supply_at_its_extremes_places_everybody() {
    let most = Supply {
        free: u32::MAX,
        frees_every: Some(Duration::MAX),
        starting: vec![Starting { ready_in: Duration::MAX, room: u32::MAX }; 3],
        instances: u32::MAX,
        max: 0,
        start_up: Duration::MAX,
        max_concurrency: 0,
    };
    assert_eq!(place(&most, &[Duration::MAX, Duration::ZERO]), [Placing::Serve; 2]);
    assert_eq!(
        place(&Supply { free: 0, ..most.clone() }, &[Duration::MAX, Duration::ZERO]),
        [Placing::Refuse, Placing::WaitForStarting]
    );
    let none = Supply { instances: 0, max: 2, max_concurrency: 0, starting: Vec::new(), free: 0, frees_every: None, ..most };
    assert_eq!(place(&none, &[Duration::ZERO; 3]), [Placing::Start, Placing::Start, Placing::Wait], "one each, at least");
    assert!(place(&none, &[]).is_empty());
}
