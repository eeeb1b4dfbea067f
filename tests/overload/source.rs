//! The source's own worked example, with its end-to-end settings: it comes out unchanged.

use keywake::{
    load::StreamClass,
    overload::evictor::{EvictorBuilder, Mode},
};

use crate::world::{World, evictions, seconds};

/// Quota 6, eight dev streams of nearly one core each (the source burns real processors under a faked file), two live ones that hardly burn.
fn end_to_end() -> World {
    let builder =
        EvictorBuilder::s0().mode(Mode::Full).target(0.6).recover(0.5).sustain(seconds(3.0)).recover_sustain(seconds(3.0));
    let builder = builder.interval(seconds(1.0)).cooldown(seconds(5.0)).drain(seconds(1.0)).min_age(seconds(2.0)).nominal(8);
    let mut world = World::new(builder);
    world.quota = 6.0;
    for (id, burn) in (0..8).zip([0.9821, 0.9817, 0.9811, 0.9804, 0.9797, 0.9790, 0.9785, 0.9780]) {
        world.add(id, StreamClass::Dev, burn);
    }
    world.add_many(8..10, StreamClass::Live, 0.02);
    world
}

/// One second at a usage that the file tells. The process burns that, or what its streams burn, if that is more.
fn second(world: &mut World, usage: f64) -> Vec<(u32, f64)> {
    let burnt: f64 = world.streams.iter().map(|stream| stream.burn).sum();
    let actions = world.tick_with(1.0, usage, |sample| sample.process_cores = burnt.max(usage));
    evictions(&actions).into_iter().map(|eviction| (eviction.id, eviction.burn_cores)).collect()
}

#[test]
fn worked_example_cuts_four_of_3_925_cores_and_its_second_round_what_is_left() {
    let mut world = end_to_end();
    let usage = 1.212 * 6.0;
    // Saturated for 3 s, unready for 1 s.
    let (mut first, mut at) = (Vec::new(), 0);
    while first.is_empty() && at < 20 {
        first = second(&mut world, usage);
        at += 1;
    }
    assert_eq!(at, 5, "hot at 1 s, unready at 4 s, cut at 5 s");
    assert_eq!(first.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for ((_, burn), expected) in first.iter().zip([0.9821, 0.9817, 0.9811, 0.9804]) {
        assert!((burn - expected).abs() < 1e-6, "{burn}");
    }
    let cut: f64 = first.iter().map(|(_, burn)| burn).sum();
    assert!((cut - 3.925).abs() < 0.001, "{cut}");
    assert!(cut - 0.9804 < (1.212 - 0.6) * 6.0, "three were not enough");
    // 3.9 cores were cut and usage fell by 1.5 only: still saturated, and one cooldown later the next round takes what is still too much.
    let (mut next, mut waited) = (Vec::new(), 0);
    while next.is_empty() && waited < 20 {
        next = second(&mut world, usage - 1.5);
        waited += 1;
    }
    assert_eq!(waited, 5, "the cooldown, and not a tick more or less");
    // (7.272 - 1.5) - 3.6 = 2.172 cores: two are not enough, and the live ones stay.
    assert_eq!(next.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [4, 5, 6]);
    assert!(world.streams.iter().any(|stream| stream.sample.id == 8) && world.streams.iter().any(|stream| stream.sample.id == 9));
}

#[test]
fn default_settings_take_the_same_four_where_target_and_quota_are_the_sources() {
    // No preset, so the ratios are in order; the round is the same.
    let builder = EvictorBuilder::new().mode(Mode::Full).target(0.6);
    let mut world = World::new(builder);
    world.quota = 6.0;
    for (id, burn) in (0..8).zip([0.9821, 0.9817, 0.9811, 0.9804, 0.9797, 0.9790, 0.9785, 0.9780]) {
        world.add(id, StreamClass::Dev, burn);
    }
    let mut gone = Vec::new();
    for _ in 0..6 {
        let actions = world.tick_with(5.0, 1.212 * 6.0, |sample| sample.process_cores = 8.0);
        gone.extend(evictions(&actions).into_iter().map(|eviction| eviction.id));
    }
    assert_eq!(gone, [0, 1, 2, 3]);
}
