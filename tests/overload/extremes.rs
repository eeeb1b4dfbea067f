//! Numbers, counts and ids that no sound host sends: nothing panics, nothing is evicted for them, and they are forgotten.

use std::time::{Duration, Instant};

use keywake::{
    load::{CpuSample, StreamClass},
    overload::evictor::{Action, Candidate, Evictor, EvictorBuilder, Fate, Mode, Rank, Spared, StreamSample, VictimPolicy},
};

use crate::{
    random::Random,
    world::{World, alerts, evicted, evictions, is_ready, is_unready, seconds},
};

fn full() -> EvictorBuilder {
    EvictorBuilder::new().mode(Mode::Full)
}

#[test]
fn explanation_after_a_round_counts_those_that_were_told_to_go_as_gone() {
    let mut world = World::full();
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world.obedient = false;
    let gone = |world: &World| world.evictor.explain().chosen().map(|stream| stream.id).collect::<Vec<_>>();
    world.ticks(5, 1.0);
    assert_eq!(gone(&world), [0, 1]);
    assert_eq!(evicted(&world.tick(5.0, 1.0)), [0, 1]);
    assert_eq!(gone(&world), [0; 0], "nobody else has to go for what these two are told to go for");
    assert_eq!(world.evictor.explain().next().map(|stream| stream.id), Some(2));
    assert!((world.evictor.gauges().predicted_ratio.unwrap() - 0.75).abs() < 1e-6);
    // They linger, and are a burden like any other from the next reading on.
    world.tick(5.0, 1.0);
    assert_eq!(gone(&world), [2, 3]);
    assert!((world.evictor.gauges().predicted_ratio.unwrap() - 1.0).abs() < 1e-6);
}

/// Scores what cannot be scored.
#[derive(Debug)]
struct Careless;

impl VictimPolicy for Careless {
    fn rank(&self, candidate: &Candidate) -> Option<Rank> {
        let loss = candidate.resume_cost.as_secs_f64();
        Some(Rank { tier: 0, score: loss * (1.0 / loss), cost_known: true })
    }
}

#[test]
fn score_that_is_no_number_lets_nobody_go() {
    let mut world = World::new(full().policy(Careless));
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world.streams[5].sample.resume_cost = seconds(1.0);
    let all: Vec<_> = world.ticks(6, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&all), [5], "the one whose score is one");
    let explanation = world.evictor.explain();
    assert_eq!(explanation.streams.iter().filter(|stream| stream.fate == Fate::Spared(Spared::Unranked)).count(), 7);
}

#[test]
fn round_of_two_hundred_thousand_streams_lets_go_no_more_than_it_takes() {
    // A quota that shrinks to a quarter, no caps, no floor; each with an identity of its own.
    let builder = full().max_per_round(None).max_production_share(None).min_burn_cores(0.0);
    let mut world = World::new(builder);
    world.obedient = false;
    world.add_many(0..200_000, StreamClass::Live, 0.000_08);
    for (number, stream) in (0..).zip(&mut world.streams) {
        stream.sample.identity = Some(number);
    }
    let mut all = Vec::new();
    for _ in 0..6 {
        all.extend(world.tick(5.0, 4.0));
    }
    // 16 cores are used of 4: 13 of them are to go.
    let gone = evicted(&all);
    assert_eq!((gone.len(), gone.first(), gone.last()), (162_500, Some(&0), Some(&162_499)));
}

#[test]
fn nobody_there_and_nobody_who_may_go_are_said_once_and_bounded() {
    let mut world = World::full();
    let nobody: Vec<_> = world.ticks(70, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!((evicted(&nobody).len(), alerts(&nobody).len()), (0, 1));
    assert!(is_unready(&nobody) && is_ready(&nobody[nobody.len() - 2..]));
    let mut world = World::new(full().min_age(seconds(1e9)));
    world.add_many(0..70_000, StreamClass::Dev, 0.000_05);
    let immune: Vec<_> = world.ticks(10, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!((evicted(&immune).len(), alerts(&immune).len()), (0, 1));
}

#[test]
fn id_that_is_told_twice_in_one_tick_is_one_stream() {
    let mut evictor = full().build::<u32>().unwrap();
    let base = Instant::now() + Duration::from_secs(100_000);
    let mut gone = Vec::new();
    for tick in 1..=6 {
        let now = base + tick * seconds(5.0);
        let mut sample = CpuSample::new(now, seconds(5.0), 4.0);
        sample.quota_cores = Some(4.0);
        let stream = |id, cpu: f64| StreamSample::new(id, StreamClass::Dev, base - seconds(1_000.0), seconds(cpu) * tick);
        let mut twice = [stream(1, 7.5), stream(1, 50.0), stream(2, 7.5), stream(2, 0.0)];
        // Nor does it begin anew for that, or become another.
        (twice[1].started, twice[1].class) = (now, StreamClass::Live);
        let actions = evictor.step(Ok(&sample), &twice, now);
        gone.extend(evictions(&actions).into_iter().map(|eviction| (eviction.id, eviction.class, eviction.burn_cores)));
        assert_eq!(evictor.gauges().streams, 2);
    }
    let [(1, StreamClass::Dev, burn)] = gone[..] else { panic!("once: {gone:?}") };
    assert!((burn - 1.5).abs() < 1e-9, "as it was told first: {burn}");
}

#[test]
fn streams_may_come_go_and_be_told_in_any_order() {
    let mut random = Random(7);
    let (mut sorted, mut shuffled) = (full().build::<u32>().unwrap(), full().build::<u32>().unwrap());
    let base = Instant::now() + Duration::from_secs(100_000);
    // Some come, with ids below and above those there are, and some go.
    let mut ids: Vec<u32> = (0..40).map(|id| id * 10).collect();
    for tick in 1..60_u32 {
        let now = base + tick * seconds(5.0);
        let before = if tick == 1 { Vec::new() } else { ids.clone() };
        ids.retain(|_| random.next() % 9 > 0);
        ids.extend((0..4).map(|_| (random.next() % 1_000) as u32));
        ids.sort_unstable();
        ids.dedup();
        let stream = |id: &u32| StreamSample::new(*id, StreamClass::Dev, base, seconds(f64::from(*id) / 5_000.0) * tick);
        let streams: Vec<_> = ids.iter().map(stream).collect();
        let mut other = streams.clone();
        other.sort_by_cached_key(|_| random.next());
        let mut sample = CpuSample::new(now, seconds(5.0), 2.0);
        (sample.quota_cores, sample.process_cores) = (Some(4.0), 100.0);
        assert_eq!(sorted.step(Ok(&sample), &streams, now), shuffled.step(Ok(&sample), &other, now));
        let explained = |evictor: &Evictor<u32>| {
            let mut streams = evictor.explain().streams;
            streams.sort_by_key(|stream| stream.id);
            streams
        };
        let known = explained(&sorted);
        assert_eq!(known, explained(&shuffled));
        assert_eq!(known.iter().map(|stream| stream.id).collect::<Vec<_>>(), ids);
        for one in known.iter().filter(|stream| before.contains(&stream.id)) {
            assert_ne!(one.fate, Fate::Spared(Spared::Unsampled), "{one:?}");
            assert!((one.candidate.burn_cores - f64::from(one.id) / 25_000.0).abs() < 1e-6, "{one:?}");
        }
    }
}

#[test]
fn figures_beyond_all_bounds_make_nothing_that_is_no_number() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, -1e308, 1e308, f64::MIN_POSITIVE, f64::MAX];
    let mut world = World::full();
    world.add_many(0..6, StreamClass::Dev, 0.6);
    world.add(6, StreamClass::Dev, 0.6).sample.cpu = Duration::from_secs(u64::MAX / 2);
    for (number, odd) in odd.into_iter().cycle().take(64).enumerate() {
        world.streams[0].sample.parallelism = Some(odd);
        let hours = if number % 7 == 0 { 40_000.0 } else { 5.0 };
        let actions = world.tick_with(hours, 4.0, |sample| match number / 8 {
            0 => sample.usage_cores = odd,
            1 => sample.process_cores = odd,
            2 => sample.quota_cores = Some(odd),
            3 => sample.throttled_cores = Some(odd),
            4 => sample.throttled_share = Some(odd),
            5 => sample.full_stalled = Some(odd),
            6 => sample.elapsed = Duration::MAX,
            _ => (sample.usage_cores, sample.process_cores) = (0.0, odd),
        });
        let gauges = world.evictor.gauges();
        let told =
            [gauges.demand_cores, gauges.demand_ratio, gauges.predicted_ratio, gauges.unattributed_ratio, gauges.usage_ratio];
        assert!(told.iter().flatten().all(|figure| figure.is_finite() && *figure >= 0.0), "{odd}: {gauges:?}");
        assert!(gauges.throttled_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{odd}: {gauges:?}");
        for stream in world.evictor.explain().streams {
            assert!(stream.candidate.burn_cores.is_finite() && stream.candidate.cost_cores.is_finite(), "{odd}: {stream:?}");
        }
        assert!(world.evictor.effective_active(3, Some(usize::MAX)).is_finite());
        for action in actions {
            let Action::Evict(eviction) = action else { continue };
            assert!(eviction.cost_cores <= 16.0, "no more than four times what is used: {eviction:?}");
        }
    }
}
