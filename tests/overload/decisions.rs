//! When it is unready, when it evicts whom, and when it is done: line by line of the checklist.

use keywake::{
    load::StreamClass,
    overload::evictor::{
        Action, Alert, Bound, ClassOrder, EVICTED_MESSAGE, Ended, EvictReason, EvictorBuilder, Fate, Mode, Phase, Spared,
    },
};

use crate::world::{World, alerts, evicted, evictions, first, is_ready, is_unready, seconds, would_evict};

/// Eight dev streams of half a core each, saturating four.
fn saturated(builder: EvictorBuilder) -> World {
    let mut world = World::new(builder);
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world
}

fn full() -> EvictorBuilder {
    EvictorBuilder::new().mode(Mode::Full)
}

#[test]
fn dip_below_the_threshold_begins_the_sustain_window_anew() {
    let mut world = saturated(full());
    for (after, ratio, unready) in
        [(5.0, 0.9, false), (7.5, 0.9, false), (2.5, 0.89, false), (5.0, 0.9, false), (10.0, 0.9, false), (5.0, 0.9, true)]
    {
        assert_eq!(is_unready(&world.tick(after, ratio)), unready, "at {}", world.time);
    }
}

#[test]
fn hot_twice_a_window_apart_fires_and_half_a_window_does_not() {
    let mut world = saturated(full());
    assert!([(5.0, 0.95), (7.5, 0.95)].iter().all(|(after, ratio)| !is_unready(&world.tick(*after, *ratio))));
    assert!(is_unready(&world.tick(7.5, 0.95)));
}

#[test]
fn sample_at_the_recover_ratio_begins_the_recovery_anew() {
    let mut world = saturated(full());
    world.ticks(4, 0.95);
    assert!(world.evictor.is_overloaded());
    world.ticks(6, 0.79);
    world.tick(5.0, 0.8);
    let all = world.ticks(7, 0.79);
    assert_eq!(first(&all, |action| matches!(action, Action::OverloadEnded { .. })), Some(world.time), "30 s after the last dip");
}

#[test]
fn fires_and_recovers_at_exactly_the_times_set() {
    let mut world = saturated(full());
    world.tick(5.0, 0.95);
    assert!(!is_unready(&world.tick(14.999, 0.95)));
    let mut world = saturated(full());
    world.tick(5.0, 0.95);
    assert!(is_unready(&world.tick(15.0, 0.95)));
    world.tick(5.0, 0.5);
    assert!(is_unready(&world.tick(29.999, 0.5)));
    let mut world = saturated(full());
    world.tick(5.0, 0.95);
    world.tick(15.0, 0.95);
    world.tick(5.0, 0.5);
    assert!(is_ready(&world.tick(30.0, 0.5)));
    assert_eq!(world.evictor.phase(), Phase::Healthy);
}

#[test]
fn between_recover_and_threshold_it_stays_overloaded_and_is_ready_again_after_the_bound() {
    let mut world = saturated(full());
    let began = first(&world.ticks(4, 0.95), |action| matches!(action, Action::OverloadBegan { .. })).unwrap();
    let all = world.ticks(120, 0.85);
    let ended = all.iter().find_map(|(time, action)| match action {
        Action::OverloadEnded { how, unready_for, enforced, .. } => Some((*time, *how, *unready_for, *enforced)),
        _ => None,
    });
    assert_eq!(ended, Some((began + 300.0, Ended::Forced, seconds(300.0), true)));
    assert!(all.iter().all(|(_, action)| !matches!(action, Action::Evict(_))));
    assert!(all.iter().filter(|(time, _)| *time > began + 300.0).all(|(_, action)| matches!(action, Action::Ready)));
}

#[test]
fn unready_is_told_a_drain_before_the_first_eviction() {
    // The source's 8 s fall between ticks, and are in effect 10 s.
    for builder in [full(), EvictorBuilder::s0().mode(Mode::Full)] {
        let mut world = saturated(builder);
        let all = world.ticks(10, 1.0);
        let unready = first(&all, |action| matches!(action, Action::Unready { .. })).unwrap();
        let cut = first(&all, |action| matches!(action, Action::Evict(_))).unwrap();
        assert_eq!((unready, cut), (20.0, 30.0));
    }
}

#[test]
fn within_a_step_what_is_told_comes_before_what_is_done() {
    let mut world = saturated(full());
    let all = world.ticks(6, 1.0);
    let last: Vec<_> = all.iter().filter(|(time, _)| *time == 30.0).map(|(_, action)| action).collect();
    assert!(
        matches!(last[..], [Action::Unready { bound: Bound::Quota, since }, Action::Evict(_), ..] if *since == world.base + seconds(20.0))
    );
}

#[test]
fn nothing_is_evicted_at_a_tick_that_is_not_saturated() {
    let mut world = saturated(full());
    world.ticks(5, 1.0);
    assert_eq!(evicted(&world.tick(5.0, 0.89)), [0; 0], "the drain has passed, and it holds");
    assert!(world.evictor.is_overloaded());
    assert_ne!(evicted(&world.tick(5.0, 1.0)), [0; 0]);
}

#[test]
fn empty_round_does_not_begin_the_cooldown() {
    let mut world = World::full();
    (0..4).for_each(|id| {
        world.add_at_age(id, StreamClass::Dev, 1.0, 58.0);
    });
    let all = world.ticks(6, 1.0);
    assert_eq!(alerts(&all.into_iter().map(|(_, action)| action).collect::<Vec<_>>()).len(), 1, "too young, all of them");
    assert_ne!(evicted(&world.tick(5.0, 1.0)), [0; 0], "5 s later they are old enough");
}

#[test]
fn only_old_burning_and_twice_seen_streams_are_candidates() {
    let mut world = World::full();
    world.quota = 8.0;
    world.add(0, StreamClass::Dev, 1.0);
    world.add_at_age(1, StreamClass::Dev, 1.0, 60.0);
    world.add_at_age(2, StreamClass::Dev, 1.0, 59.999);
    world.add(3, StreamClass::Dev, 0.05);
    world.add(4, StreamClass::Dev, 0.049);
    world.add(5, StreamClass::Cached, 1.0);
    world.ticks(5, 1.0);
    world.add(6, StreamClass::Dev, 1.0);
    // Far more is wanted than there is, so that all go that may.
    let actions = world.tick_with(5.0, 8.0, |sample| sample.full_stalled = Some(0.7));
    assert_eq!(evicted(&actions), [0, 1, 3]);
    let why: Vec<_> = world.evictor.explain().streams.iter().map(|stream| (stream.id, stream.fate)).collect();
    for spared in [(2, Spared::TooYoung), (4, Spared::BelowFloor), (5, Spared::Unranked), (6, Spared::Unsampled)] {
        assert!(why.contains(&(spared.0, Fate::Spared(spared.1))), "{spared:?} in {why:?}");
    }
}

#[test]
fn cached_streams_have_no_floor_and_end_their_round() {
    let mut world = World::new(full().protect_live());
    world.add(0, StreamClass::Dev, 0.5);
    world.add(1, StreamClass::Cached, 0.0);
    world.add(2, StreamClass::Cached, 0.0);
    world.add(3, StreamClass::CatchUp, 1.5);
    world.add(4, StreamClass::Live, 2.0);
    let all = world.ticks(6, 1.0);
    let round: Vec<_> = all.into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&round), [0, 1], "0.5 of 1.0, then one of unknown cost");
    let later: Vec<_> = world.ticks(3, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&later), [2]);
    let later: Vec<_> = world.ticks(9, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&later), [3], "and live never");
}

#[test]
fn dev_only_evicts_dev_whatever_the_order() {
    let order = ClassOrder::new(&[StreamClass::Live, StreamClass::Dev]).unwrap();
    let mut world = World::new(full().mode(Mode::DevOnly).order(order));
    world.add_many(0..4, StreamClass::Live, 0.9);
    world.add(4, StreamClass::Dev, 0.4);
    let all: Vec<_> = world.ticks(20, 1.0).into_iter().map(|(_, action)| action).collect();
    assert_eq!(evicted(&all), [4]);
}

#[test]
fn observing_tells_and_does_nothing() {
    let mut world = saturated(full().mode(Mode::Observe));
    let all = world.ticks(12, 1.0);
    let began = all.iter().find_map(|(time, action)| match action {
        Action::OverloadBegan { enforced, .. } => Some((*time, *enforced)),
        _ => None,
    });
    assert_eq!(began, Some((20.0, false)));
    assert_eq!(first(&all, |action| matches!(action, Action::WouldEvict(_))), Some(30.0));
    let does = |action: &Action<u32>| matches!(action, Action::Ready | Action::Unready { .. } | Action::Evict(_));
    assert!(!all.iter().any(|(_, action)| does(action)));
    assert!(!world.evictor.is_overloaded() && !world.evictor.gauges().overloaded);
    assert!(matches!(world.evictor.phase(), Phase::Evicting { .. }), "the state is kept all the same");
    let ended = world.ticks(7, 0.2);
    assert!(
        ended.iter().any(|(_, action)| matches!(action, Action::OverloadEnded { enforced: false, how: Ended::Recovered, .. }))
    );
}

#[test]
fn off_looks_at_nothing() {
    let mut world = saturated(EvictorBuilder::new());
    assert!(!world.evictor.wants_samples(), "a driver reads no file");
    assert_eq!(world.ticks(20, 1.0), []);
    assert_eq!(world.evictor.gauges(), keywake::overload::evictor::Gauges::default());
    assert!(!world.evictor.is_overloaded());
}

#[test]
fn overloaded_it_refuses_at_once_and_cuts_only_after_the_drain() {
    let mut world = saturated(full());
    world.ticks(3, 1.0);
    assert!(!world.evictor.is_overloaded());
    let at_once = world.tick(5.0, 1.0);
    assert!(world.evictor.is_overloaded() && is_unready(&at_once));
    for after in [1.0, 3.0] {
        assert_eq!(evicted(&world.tick(after, 1.0)), [0; 0]);
        assert!(world.evictor.is_overloaded(), "what comes at +1 and +4 s is refused");
    }
    assert!(matches!(world.evictor.phase(), Phase::Draining { .. }));
}

#[test]
fn evicted_clients_are_told_the_sources_words() {
    assert_eq!(EVICTED_MESSAGE, "server CPU overloaded, please reconnect");
    assert_eq!(Bound::Quota.to_string(), "server CPU overloaded");
}

#[test]
fn eviction_carries_the_sources_log_fields() {
    let mut world = World::full();
    world.add(7, StreamClass::Dev, 3.0).sample.position = Some(19_000_000);
    world.add(8, StreamClass::Live, 1.0);
    let mut all = world.ticks(6, 1.0);
    let Some((_, Action::Started { mode: Mode::Full, quota_cores: Some(4.0) })) = all.first() else { panic!("{all:?}") };
    let began = all.iter().find(|(_, action)| matches!(action, Action::OverloadBegan { .. })).unwrap();
    assert!(matches!(began.1, Action::OverloadBegan { enforced: true, usage_ratio: Some(1.0), bound: Bound::Quota, .. }));
    let Some((_, Action::Evict(eviction))) = all.pop() else { panic!("{all:?}") };
    assert_eq!((eviction.id, eviction.class, eviction.position), (7, StreamClass::Dev, Some(19_000_000)));
    assert_eq!((eviction.age, eviction.reason, eviction.usage_ratio), (seconds(1_030.0), EvictReason::Saturated, 1.0));
    assert!((eviction.burn_cores - 3.0).abs() < 1e-9, "{}", eviction.burn_cores);
    let ended = world.ticks(7, 0.25).pop().unwrap();
    assert!(matches!(ended.1, Action::Ready));
}

#[test]
fn overloaded_gauge_is_off_when_the_signal_is_lost() {
    let mut world = saturated(full());
    world.ticks(5, 1.0);
    assert!(world.evictor.gauges().overloaded);
    let lost: Vec<_> = (0..3).flat_map(|_| world.lose(5.0)).collect();
    assert_eq!(alerts(&lost), [Alert::SignalLost { strikes: 3 }]);
    assert!(lost.iter().any(|action| matches!(action, Action::OverloadEnded { how: Ended::SignalLost, .. })));
    let gauges = world.evictor.gauges();
    assert_eq!((gauges.overloaded, gauges.usage_ratio, gauges.signal_errors), (false, None, 3));
    assert_eq!(alerts(&world.lose(5.0)), [], "told once");
    assert_eq!(world.evictor.phase(), Phase::SignalLost);
}

#[test]
fn active_streams_for_the_autoscaler_are_the_hosts_count() {
    let mut world = saturated(full().nominal(14));
    world.tick(5.0, 0.3);
    assert!((world.evictor.effective_active(7, None) - 7.0).abs() < 1e-9, "not the 8 that it knows, nor 5.6");
    assert!((world.evictor.effective_active(3, None) - 5.6).abs() < 1e-9);
    let mut unset = saturated(full());
    unset.tick(5.0, 0.75);
    assert!((unset.evictor.effective_active(3, Some(14)) - 14.0).abs() < 1e-9, "the soft limit");
    assert!((unset.evictor.effective_active(3, None) - 3.0).abs() < 1e-9, "the plain count");
    let mut zero = saturated(full().nominal(0));
    zero.tick(5.0, 0.75);
    assert!((zero.evictor.effective_active(3, Some(14)) - 3.0).abs() < 1e-9, "zero is said, and is not the soft limit");
}

#[test]
fn quiet_live_streams_are_never_candidates() {
    let mut world = World::full();
    world.add_many(0..8, StreamClass::Dev, 0.5);
    world.add_many(8..10, StreamClass::Live, 0.04);
    let all: Vec<_> = world.ticks(40, 1.0).into_iter().map(|(_, action)| action).collect();
    let gone = evicted(&all);
    assert!(gone.len() > 4 && gone.iter().all(|id| *id < 8), "{gone:?}");
}

#[test]
fn second_round_comes_after_the_cooldown_and_not_within() {
    let mut world = saturated(full());
    let all = world.ticks(13, 1.0);
    let mut rounds: Vec<_> = all.iter().filter(|(_, action)| matches!(action, Action::Evict(_))).map(|(time, _)| *time).collect();
    rounds.dedup();
    assert_eq!(rounds, [30.0, 45.0, 60.0]);
}

#[test]
fn cooldown_lasts_over_a_recovery() {
    let hurried = full().recover_sustain(seconds(1.0)).sustain(seconds(1.0)).cooldown(seconds(60.0));
    let mut world = saturated(hurried);
    let cut = first(&world.ticks(6, 1.0), |action| matches!(action, Action::Evict(_))).unwrap();
    world.ticks(2, 0.1);
    assert!(!world.evictor.is_overloaded());
    let again = first(&world.ticks(20, 1.0), |action| matches!(action, Action::Evict(_))).unwrap();
    assert_eq!(again - cut, 60.0);
}

#[test]
fn victim_that_lingers_is_not_taken_twice() {
    let mut world = saturated(full());
    world.obedient = false;
    let all: Vec<_> = world.ticks(30, 1.0).into_iter().map(|(_, action)| action).collect();
    let mut gone = evicted(&all);
    let count = gone.len();
    gone.sort_unstable();
    gone.dedup();
    assert_eq!(gone.len(), count, "each once");
}

#[test]
fn streams_that_end_leave_no_state() {
    let mut world = World::full();
    for round in 0..1_000_u32 {
        world.streams.clear();
        world.add_many(round * 1_000..(round + 1) * 1_000, StreamClass::Dev, 0.001);
        world.tick(5.0, 0.5);
        assert_eq!(world.evictor.gauges().streams, 1_000);
    }
    world.streams.clear();
    world.tick(5.0, 0.5);
    assert_eq!(world.evictor.gauges().streams, 0);
    assert_eq!(world.evictor.explain().streams, []);
}

#[test]
fn id_that_comes_back_begins_unsampled() {
    let mut world = World::full();
    world.add(1, StreamClass::Dev, 1.0);
    world.add(2, StreamClass::Dev, 1.0);
    world.ticks(5, 0.5);
    world.remove(1);
    world.add_at_age(1, StreamClass::Dev, 1.0, 500.0).sample.cpu = seconds(10_000.0);
    world.tick(5.0, 0.5);
    let explanation = world.evictor.explain();
    let one = explanation.streams.iter().find(|stream| stream.id == 1).unwrap();
    assert_eq!(one.fate, Fate::Spared(Spared::Unsampled), "it is not held against the old counter");
}

#[test]
fn burn_is_over_real_time_and_a_counter_that_falls_burns_nothing() {
    let mut world = World::full();
    world.add(1, StreamClass::Dev, 0.4);
    world.add(2, StreamClass::Dev, 0.4);
    let burn = |world: &World, id| {
        let explanation = world.evictor.explain();
        explanation.streams.iter().find(|stream| stream.id == id).unwrap().candidate.burn_cores
    };
    for after in [5.0, 7.3, 31.0, 2.6] {
        world.tick(after, 0.5);
    }
    assert!((burn(&world, 1) - 0.4).abs() < 1e-6, "{}", burn(&world, 1));
    world.streams[0].sample.cpu = seconds(1.0);
    world.streams[0].burn = 0.0;
    world.tick(5.0, 0.5);
    assert!(burn(&world, 1).abs() < 1e-12);
    world.streams[0].burn = 0.8;
    world.tick(5.0, 0.5);
    assert!((burn(&world, 1) - 0.4).abs() < 1e-6, "over the two ticks since: {}", burn(&world, 1));
    world.ticks(3, 0.5);
    assert!((burn(&world, 1) - 0.8).abs() < 0.01, "based anew: {}", burn(&world, 1));
}

#[test]
fn stopped_in_its_drain_it_evicts_nobody_and_leaves_readiness_alone() {
    let mut world = saturated(full());
    world.ticks(5, 1.0);
    assert!(world.evictor.is_overloaded());
    world.evictor.stop();
    assert_eq!(world.ticks(10, 1.0), []);
    assert!(!world.evictor.is_overloaded() && !world.evictor.wants_samples());
}

#[test]
fn readiness_is_said_at_every_step_of_an_enforcing_evictor() {
    let mut world = saturated(full());
    for ratio in [0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.85, 0.1, 0.1] {
        for actions in [world.tick(5.0, ratio), world.tick(0.1, ratio)] {
            let said = actions.iter().filter(|action| matches!(action, Action::Ready | Action::Unready { .. })).count();
            assert_eq!(said, 1, "{actions:?}");
        }
    }
    assert!(is_unready(&world.lose(5.0)) && is_unready(&world.lose(5.0)) && is_ready(&world.lose(5.0)));
}

#[test]
fn explanation_says_who_goes_who_is_next_and_why_the_others_stay() {
    for mode in [Mode::Observe, Mode::Full] {
        let mut world = World::new(full().mode(mode));
        world.add(1, StreamClass::Dev, 0.9);
        world.add(2, StreamClass::Dev, 0.8);
        world.add(3, StreamClass::Live, 2.3);
        world.add(4, StreamClass::Live, 0.01);
        world.ticks(5, 1.0);
        let explanation = world.evictor.explain();
        assert_eq!(explanation.chosen().map(|stream| stream.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(explanation.next().map(|stream| stream.id), Some(3));
        assert!((explanation.excess_cores.unwrap() - 1.0).abs() < 1e-9);
        let text = explanation.to_string();
        assert!(text.contains("4 live burns 0.010") && text.contains("stays, burns less than the floor"), "{text}");
        let actions = world.tick(5.0, 1.0);
        let went = if mode == Mode::Observe { would_evict(&actions) } else { evicted(&actions) };
        assert_eq!(went, [1, 2], "as it was explained");
    }
}

#[test]
fn quota_that_changes_is_told_and_restarts_no_window() {
    let mut world = saturated(full());
    world.ticks(3, 1.0);
    world.quota = 2.0;
    let actions = world.tick(5.0, 1.0);
    assert_eq!(alerts(&actions), [Alert::QuotaChanged { from: Some(4.0), to: Some(2.0) }]);
    assert!(is_unready(&actions));
    let gone = world.tick_with(5.0, 4.0, |sample| sample.quota_cores = None);
    assert!(gone.iter().any(|action| matches!(action, Action::OverloadEnded { how: Ended::NoQuota, .. })));
    assert!(is_ready(&gone) && world.evictor.gauges().usage_ratio.is_none());
}

#[test]
fn retry_hints_of_one_round_are_spread() {
    let mut world = saturated(full().retry(seconds(2.0), seconds(9.0)));
    world.ticks(5, 1.0);
    let hints: Vec<_> = evictions(&world.tick_with(5.0, 4.0, |sample| sample.full_stalled = Some(0.2)));
    let hints: Vec<_> = hints.into_iter().map(|eviction| eviction.retry_after.as_secs_f64()).collect();
    assert_eq!(hints, [2.0, 5.0, 8.0]);
}
