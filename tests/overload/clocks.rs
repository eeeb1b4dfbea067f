//! Ticks that are late, bunched, or before the last one; readings that fail or are no numbers.

use std::time::Duration;

use keywake::{
    load::StreamClass,
    overload::evictor::{Action, Ended},
};

use crate::world::{World, alerts, evicted, is_ready, is_unready};

fn saturated() -> World {
    let mut world = World::full();
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world
}

#[test]
fn late_and_bunched_ticks_count_by_time() {
    let mut world = saturated();
    world.tick(5.0, 1.0);
    // 0.1 s behind the last: passed over, however calm or hot.
    assert!(!is_unready(&world.tick(0.1, 0.0)));
    assert_eq!(world.evictor.gauges().usage_ratio, Some(1.0), "the old sample is kept");
    // 25 s late, and hot all the while: the window has long passed.
    assert!(is_unready(&world.tick(24.9, 1.0)));
    // A burst of ticks is no drain.
    for _ in 0..100 {
        assert_eq!(evicted(&world.tick(0.05, 1.0)), [0; 0]);
    }
    assert_eq!(evicted(&world.tick(4.999, 1.0)), [0; 0]);
    assert_eq!(evicted(&world.tick(2.5, 1.0)).len(), 2);
}

#[test]
fn reading_right_behind_another_is_passed_over_and_divides_by_nothing() {
    let mut world = saturated();
    for _ in 0..20 {
        world.tick_with(5.0, f64::INFINITY, |sample| sample.elapsed = Duration::ZERO);
        world.tick_with(5.0, 100_000.0, |sample| sample.elapsed = Duration::from_nanos(1));
        world.tick_with(5.0, 4.0, |sample| sample.elapsed = Duration::from_micros(999));
    }
    assert_eq!((world.evictor.gauges().usage_ratio, world.evictor.gauges().signal_errors), (None, 0));
    assert!(!world.evictor.is_overloaded());
}

#[test]
fn clock_that_goes_back_only_waits() {
    let mut world = World::full();
    (0..8).for_each(|id| {
        world.add_at_age(id, StreamClass::Dev, 0.5, 10_000.0);
    });
    world.ticks(4, 1.0);
    assert!(world.evictor.is_overloaded());
    // Far back: time goes on from there, and the drain needs its 10 s still.
    assert_eq!(evicted(&world.tick(-3_600.0, 1.0)), [0; 0]);
    assert_eq!(evicted(&world.tick(5.0, 1.0)), [0; 0]);
    assert_eq!(evicted(&world.tick(5.0, 1.0)).len(), 2);
    // A little back and forth counts once.
    let mut world = saturated();
    for after in [5.0, 5.0, -1.0, 0.0, 1.0, 5.0] {
        assert!(!is_unready(&world.tick(after, 1.0)), "at {}", world.time);
    }
    assert!(is_unready(&world.tick(5.0, 1.0)), "15 s of real time");
    let explanation = world.evictor.explain();
    assert!(explanation.streams.iter().all(|stream| stream.candidate.burn_cores.is_finite()));
}

#[test]
fn one_or_two_failed_readings_change_nothing_in_a_drain() {
    let mut world = saturated();
    world.ticks(4, 1.0);
    assert!(is_unready(&world.lose(2.5)) && is_unready(&world.lose(2.5)));
    assert_eq!(evicted(&world.tick(5.0, 1.0)).len(), 2, "10 s after it was told, as if nothing had been");
}

#[test]
fn nothing_is_evicted_at_a_tick_without_a_reading() {
    let mut world = saturated();
    world.ticks(5, 1.0);
    assert_eq!(evicted(&world.lose(5.0)), [0; 0]);
}

#[test]
fn signal_that_comes_back_begins_with_a_whole_window() {
    let mut world = saturated();
    world.ticks(5, 1.0);
    (0..3).for_each(|_| drop(world.lose(5.0)));
    let all = world.ticks(4, 1.0);
    let unready: Vec<_> =
        all.iter().filter(|(_, action)| matches!(action, Action::Unready { .. })).map(|(time, _)| *time).collect();
    assert_eq!(unready, [world.time]);
}

#[test]
fn reading_that_is_no_number_counts_as_none() {
    let mut world = saturated();
    world.ticks(4, 1.0);
    let mut all = Vec::new();
    for usage in [f64::NAN, f64::INFINITY, -1.0] {
        all.extend(world.tick_with(5.0, usage, |_| {}));
    }
    assert!(all.iter().any(|action| matches!(action, Action::OverloadEnded { how: Ended::SignalLost, .. })), "{all:?}");
    for quota in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        all.extend(world.tick_with(5.0, 1.0, |sample| sample.quota_cores = Some(quota)));
    }
    assert_eq!(world.evictor.gauges().signal_errors, 7);
    assert_eq!(alerts(&all).len(), 1);
}

#[test]
fn bound_on_unreadiness_holds_though_nothing_can_be_read_in_time() {
    let mut world = saturated();
    world.ticks(4, 1.0);
    let all: Vec<_> = (0..200).flat_map(|_| world.tick_with(2.0, 4.0, |sample| sample.elapsed = Duration::ZERO)).collect();
    assert!(is_ready(&all));
}
