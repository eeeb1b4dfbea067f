//! What a round must not exceed, and who is never sent around.

use keywake::{
    load::StreamClass,
    overload::evictor::{Alert, EvictorBuilder, Fate, Mode, Phase, Spared},
};

use crate::world::{World, alerts, evicted, evictions, is_ready, is_unready, seconds};

fn full() -> EvictorBuilder {
    EvictorBuilder::new().mode(Mode::Full)
}

/// One round, of as many as may go: four times the quota is wanted.
fn round(world: &mut World) -> Vec<u32> {
    let quota = world.quota;
    let all = (0..6).flat_map(|_| world.tick_with(5.0, quota, |sample| sample.full_stalled = Some(0.75)));
    evicted(&all.collect::<Vec<_>>())
}

#[test]
fn round_takes_50_streams_at_most_and_half_of_production() {
    let mut world = World::full();
    world.add_many(0..100, StreamClass::Dev, 0.06);
    world.quota = 6.0;
    assert_eq!(round(&mut world).len(), 50);
    let mut world = World::full();
    world.add_many(0..7, StreamClass::Live, 0.6);
    assert_eq!(round(&mut world).len(), 3, "half of seven, rounded down");
    let mut world = World::new(full().max_per_round(None).max_production_share(None));
    world.add_many(0..7, StreamClass::Live, 0.6);
    assert_eq!(round(&mut world).len(), 6, "without caps, what it takes to get from 4 x 4 cores to 3");
}

#[test]
fn lone_production_stream_stays_though_dev_goes() {
    let mut world = World::full();
    world.add(0, StreamClass::Live, 3.0);
    world.add(1, StreamClass::Dev, 1.0);
    assert_eq!(round(&mut world), [1]);
    let explanation = world.evictor.explain();
    let live = explanation.streams.iter().find(|stream| stream.id == 0).unwrap();
    assert_eq!(live.fate, Fate::Spared(Spared::Capped));
}

#[test]
fn cap_of_a_class_holds_besides_the_others() {
    let mut world = World::new(full().max_of_class(StreamClass::Dev, 3).max_of_class(StreamClass::Dev, 2));
    world.add_many(0..8, StreamClass::Dev, 0.5);
    assert_eq!(round(&mut world), [0, 1]);
}

#[test]
fn only_burner_that_fits_the_quota_stays_and_somebody_is_told() {
    let mut world = World::full();
    world.add(0, StreamClass::Dev, 3.7);
    world.add(1, StreamClass::Dev, 0.01);
    let all: Vec<_> = world.ticks(20, 0.93).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&all), [0; 0], "it would burn as much wherever it went");
    let [Alert::NothingToEvict { excess_cores, spared }] = &alerts(&all)[..] else { panic!("once: {:?}", alerts(&all)) };
    assert!((excess_cores - 0.72).abs() < 1e-9, "{excess_cores}");
    assert_eq!(spared[..], [(Spared::BelowFloor, 1), (Spared::OnlyBurner, 1)]);
}

#[test]
fn only_burner_alone_above_the_quota_goes_once_an_hour_and_stays_then() {
    let mut world = World::full();
    // Five cores are wanted of four.
    let overload = |world: &mut World, ticks: usize| {
        let all = (0..ticks).flat_map(|_| world.tick_with(5.0, 4.0, |sample| sample.full_stalled = Some(0.2)));
        all.collect::<Vec<_>>()
    };
    world.add(0, StreamClass::Dev, 4.0).sample.identity = Some(77);
    let first = overload(&mut world, 6);
    assert_eq!(evictions(&first).iter().map(|eviction| eviction.evictions).collect::<Vec<_>>(), [1]);
    // It comes back at once.
    world.add_at_age(1, StreamClass::Dev, 4.0, 0.0).sample.identity = Some(77);
    let hour = overload(&mut world, 719);
    assert_eq!(evicted(&hour), [0; 0]);
    assert!(
        alerts(&hour)
            .iter()
            .any(|alert| matches!(alert, Alert::NothingToEvict { spared, .. } if spared[..] == [(Spared::CoolsOff, 1)]))
    );
    let later = overload(&mut world, 80);
    assert_eq!(evictions(&later).iter().map(|eviction| eviction.evictions).collect::<Vec<_>>(), [2], "and it is counted");
}

#[test]
fn client_that_was_evicted_elsewhere_is_not_taken_again_within_the_cool_off() {
    let mut world = World::full();
    let now = world.now();
    let chased = world.add(0, StreamClass::Dev, 1.2);
    (chased.sample.evictions_so_far, chased.sample.last_evicted, chased.sample.identity) =
        (2, Some(now - seconds(60.0)), Some(5));
    world.add_many(1..4, StreamClass::Dev, 0.9);
    assert_eq!(round(&mut world), [1, 2, 3], "though it burns most");
    // With an old eviction it is one like any other, and the count goes on.
    let mut world = World::full();
    let now = world.now();
    let chased = world.add(0, StreamClass::Dev, 1.2);
    (chased.sample.evictions_so_far, chased.sample.last_evicted) = (2, Some(now - seconds(3_600.0)));
    world.add_many(1..4, StreamClass::Dev, 0.9);
    let all: Vec<_> = world.ticks(6, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evictions(&all).iter().map(|eviction| (eviction.id, eviction.evictions)).collect::<Vec<_>>(), [(0, 3)]);
}

#[test]
fn too_few_ready_peers_hold_it_back_until_there_are_enough() {
    let mut world = World::new(full().min_ready_share(Some(0.5)));
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world.evictor.observe_peers(Some(0.4));
    let held: Vec<_> = world.ticks(20, 1.0).into_iter().map(|(_, action)| action).collect();
    assert!(!is_unready(&held) && evicted(&held).is_empty() && !world.evictor.is_overloaded());
    assert_eq!(alerts(&held), [Alert::HeldBack { ready_share: Some(0.4) }], "once");
    assert!(matches!(world.evictor.phase(), Phase::HeldBack { .. }));
    world.evictor.observe_peers(Some(0.5));
    assert!(is_unready(&world.tick(5.0, 1.0)));
    // Unready already, it stays so: its own leaving must not bring it back.
    world.evictor.observe_peers(Some(0.3));
    assert!(!is_ready(&world.tick(5.0, 1.0)));
    assert_eq!(evicted(&world.tick(5.0, 1.0)).len(), 2, "a drain after it was told");
}

#[test]
fn neighbours_in_the_group_are_left_their_part_of_the_excess() {
    let mut world = World::full();
    world.add_many(0..4, StreamClass::Dev, 0.5);
    // Half of what the group uses is this process's: so is half of the one core that is too much.
    let all: Vec<_> = (0..6).flat_map(|_| world.tick_with(5.0, 4.0, |sample| sample.process_cores = 2.0)).collect();
    assert_eq!(evicted(&all), [0]);
}
