//! The model of batch sizing: streams that share processors fairly, until the evictor has let enough of them go.

use keywake::{
    load::{CpuSample, StreamClass},
    overload::evictor::{EvictorBuilder, Mode},
};

use crate::world::{World, evicted, seconds};

/// What each gets of `quota` when it is shared max-min: nobody more than he wants, and who wants more gets as much as any other.
fn shares(wanted: &[f64], quota: f64) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..wanted.len()).collect();
    ascending.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let (mut left, mut shares) = (quota, vec![0.0; wanted.len()]);
    for (place, index) in ascending.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a few streams")]
        let equal = left / (wanted.len() - place) as f64;
        shares[*index] = wanted[*index].min(equal);
        left -= shares[*index];
    }
    shares
}

struct Run {
    rounds: usize,
    last_cut: f64,
    ends_at: f64,
    gone: usize,
    recovered: bool,
}

/// Ten minutes of it, a tick a second.
fn run(quota: f64, wanted: &[f64], unattributed: f64, shape: impl Fn(&mut CpuSample, f64)) -> Run {
    let second = seconds(1.0);
    let builder = EvictorBuilder::new().mode(Mode::Full).interval(second).drain(seconds(8.0));
    let mut world = World::new(builder.max_per_round(None).max_production_share(None));
    world.quota = quota;
    for (id, _) in (0..).zip(wanted) {
        world.add(id, StreamClass::Live, 0.0);
    }
    let mut run = Run { rounds: 0, last_cut: 0.0, ends_at: 0.0, gone: 0, recovered: false };
    for at in 0..600_u32 {
        // Work that no stream accounts for comes first, and is never let go.
        let left: Vec<f64> = world.streams.iter().map(|stream| wanted[stream.sample.id as usize]).collect();
        let demand = left.iter().sum::<f64>() + unattributed;
        let got = shares(&left, quota - unattributed);
        for (stream, got) in world.streams.iter_mut().zip(got) {
            stream.burn = got;
        }
        let usage = demand.min(quota);
        let actions = world.tick_with(1.0, usage, |sample| {
            sample.full_stalled = Some(1.0 - usage / demand);
            sample.throttled_share = Some(if demand > quota { 1.0 } else { 0.0 });
            shape(sample, demand);
        });
        let cut = evicted(&actions).len();
        if cut > 0 {
            (run.rounds, run.last_cut, run.gone) = (run.rounds + 1, f64::from(at), run.gone + cut);
        }
        run.ends_at = world.streams.iter().map(|stream| wanted[stream.sample.id as usize]).sum::<f64>() / quota;
        run.recovered = !world.evictor.is_overloaded();
    }
    run
}

/// Quota, what is wanted.
fn loads() -> [(f64, Vec<f64>); 4] {
    [(4.0, vec![0.5; 20]), (4.0, vec![0.2; 40]), (1.0, vec![0.4; 8]), (4.0, [vec![1.0; 2], vec![0.1; 30]].concat())]
}

#[test]
fn one_round_after_sustain_and_drain_is_enough_for_every_load_of_the_model() {
    for ((quota, wanted), fewest) in loads().into_iter().zip([14, 25, 7, 2]) {
        let run = run(quota, &wanted, 0.0, |_, _| {});
        assert_eq!((run.rounds, run.last_cut), (1, 23.0), "{} streams on {quota}", wanted.len());
        assert!(run.ends_at <= 0.75 + 1e-9, "ends at {}", run.ends_at);
        assert_eq!(run.gone, fewest, "no more than it takes, of {} streams on {quota}", wanted.len());
        assert!(run.recovered, "no limbo");
    }
}

#[test]
fn without_pressure_throttled_time_does_as_well() {
    for (quota, wanted) in loads() {
        let run = run(quota, &wanted, 0.0, |sample, demand| {
            sample.full_stalled = None;
            sample.throttled_cores = Some(demand - sample.usage_cores);
        });
        assert_eq!((run.rounds, run.last_cut), (1, 23.0), "{} streams on {quota}", wanted.len());
        assert!(run.ends_at <= 0.75 + 1e-9 && run.recovered);
    }
}

#[test]
fn clipped_usage_alone_takes_several_rounds_and_ends_out_of_limbo() {
    for (quota, wanted) in loads() {
        let run = run(quota, &wanted, 0.0, |sample, _| (sample.full_stalled, sample.throttled_share) = (None, None));
        assert!(run.rounds <= 5 && run.last_cut <= 83.0, "{} rounds, {} s", run.rounds, run.last_cut);
        assert!(run.ends_at < 0.9 && run.recovered, "ends at {}", run.ends_at);
    }
}

#[test]
fn work_that_no_stream_accounts_for_adds_few_rounds_and_no_limbo() {
    for (quota, wanted) in loads() {
        let run = run(quota, &wanted, 0.3 * quota, |_, _| {});
        assert!(run.rounds <= 2, "{} rounds for {} streams on {quota}", run.rounds, wanted.len());
        assert!(run.ends_at + 0.3 < 0.9 && run.recovered, "ends at {}", run.ends_at + 0.3);
    }
}

#[test]
fn those_that_get_what_they_want_are_not_held_to_want_more() {
    // 2 x 1.0, of which each gets half, and 30 x 0.1, which get it all: five cores are wanted of four, and two must go.
    let builder = EvictorBuilder::new().mode(Mode::Full).max_per_round(None);
    let mut world = World::new(builder);
    world.add_many(0..2, StreamClass::Live, 0.5);
    world.add_many(2..32, StreamClass::Dev, 0.1);
    let all = (0..6).flat_map(|_| world.tick_with(5.0, 4.0, |sample| sample.full_stalled = Some(0.2)));
    assert_eq!(evicted(&all.collect::<Vec<_>>()).len(), 20, "of the small ones, which go first, as many as make two cores");
}

#[test]
fn demand_of_before_a_round_does_not_size_the_next() {
    let builder = EvictorBuilder::new().mode(Mode::Full).cooldown(seconds(5.0)).max_per_round(Some(1));
    let mut world = World::new(builder);
    world.add_many(0..40, StreamClass::Dev, 0.1);
    let mut tick = |stalled| evicted(&world.tick_with(5.0, 3.8, |sample| sample.full_stalled = Some(stalled)));
    let first: usize = (0..6).map(|_| tick(0.75).len()).sum();
    assert_eq!(first, 1);
    assert_eq!(tick(0.0).len(), 1);
    let excess = world.evictor.explain().excess_cores;
    // 3.8 - 3.0, whatever was wanted before; and of that, one of 39 was just told to go.
    assert!(excess.is_some_and(|excess| (excess - (0.8 - 3.8 / 39.0)).abs() < 1e-9), "{excess:?}");
}
