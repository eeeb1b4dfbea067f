//! A day of a fleet whose load is noisy, a decision every 15 s: how often the count changes, and turns.

use std::time::Instant;

use keywake::scaling::{Decision, Fleet, History, Reason, Sample, Scaler, ScalerBuilder, Stabilization};

use crate::{
    random::Random,
    totals::{by_cpu, cores, count, decide, requests, seconds},
};

const TICK: u64 = 15;
const DAY: std::ops::Range<u64> = 0..5760;

/// What came of a day.
#[derive(Debug, Default)]
struct Day {
    changes: u32,
    /// Changes the other way than the one before.
    turns: u32,
    /// Instances, on average.
    mean: f64,
    /// Decisions at which more than nine tenths of the fleet were wanted.
    short: u32,
}

/// A fleet of one CPU each, 12 cores wanted on average and 6 more or less with the hour; `noise` makes of a tick a number from -1 to 1, of
/// which `share` counts.
fn day(share: f64, noise: impl Fn(u64, &mut Random) -> f64, mut window: Option<Stabilization>) -> Day {
    let (mut random, scaler, began) = (Random(11), by_cpu(), Instant::now());
    let (mut minute, mut running, mut last) = (History::new(seconds(60)), 20_u32, std::cmp::Ordering::Equal);
    let mut day = Day::default();
    for tick in DAY {
        let (since, now) = (began + seconds(TICK * tick), began + seconds(TICK * (tick + 1)));
        let hour = (tick as f64 / DAY.end as f64 * std::f64::consts::TAU).sin();
        let wanted = (12.0 + 6.0 * hour) * (1.0 + share * noise(tick, &mut random));
        minute.observe(Some(wanted.min(f64::from(running))), since, now);
        let mut sample = cores(minute.mean(now).expect("it was measured"));
        sample.stabilized = window.as_ref().and_then(|window| window.most(now));
        let decision = scaler.decide(&sample, Fleet::settled(running), now);
        if let Some(window) = &mut window {
            window.observe(&decision, now);
        }
        let way = decision.count.cmp(&running);
        day.changes += u32::from(way.is_ne());
        day.turns += u32::from(way.is_ne() && way == last.reverse());
        last = if way.is_ne() { way } else { last };
        running = decision.count;
        day.short += u32::from(wanted > 0.9 * f64::from(running));
        day.mean += f64::from(running) / DAY.end as f64;
    }
    day
}

fn any(_: u64, random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Two minutes of much, two of little.
fn wave(tick: u64, _: &mut Random) -> f64 {
    if tick / 8 % 2 == 0 { 1.0 } else { -1.0 }
}

fn five_minutes() -> Option<Stabilization> {
    Some(Stabilization::new(seconds(300)))
}

#[test]
fn use_within_the_band_changes_nothing_all_day() {
    let mut random = Random(7);
    for running in [1, 3, 20, 97] {
        for _ in DAY {
            // From the lower edge of the band to the upper one, both included.
            let share = 0.54 + 0.001 * (random.next() % 121) as f64;
            assert_eq!(count(&by_cpu(), &cores(share * f64::from(running)), running), running, "{share}");
        }
    }
}

#[test]
fn noise_as_wide_as_the_band_does_not_turn_the_count() {
    let calm = day(0.05, any, None);
    assert!(calm.changes <= 24 && calm.turns <= 6 && calm.short == 0, "{calm:?}: one a step of the day's 12 cores, and a few");
}

#[test]
fn stabilization_keeps_waves_from_turning_the_count() {
    for (share, noise, swings) in [(0.2, any as fn(u64, &mut Random) -> f64, 400), (0.2, wave, 700), (0.3, wave, 700)] {
        let (plain, stable) = (day(share, noise, None), day(share, noise, five_minutes()));
        assert!(plain.turns > swings, "the trap is there: {plain:?}");
        assert!(stable.turns <= 25 && stable.changes <= 45, "{stable:?}, without it {plain:?}");
        assert!(stable.mean <= plain.mean * 1.3, "and costs less than a third: {stable:?}, {plain:?}");
        assert_eq!(stable.short, 0, "{stable:?}");
    }
}

/// What `docs/placement_and_scaling.md` and ARCHITECTURE.md tell of it.
#[test]
fn stabilization_over_a_day_is_as_operators_are_told() {
    for (noise, turns, more) in [(any as fn(u64, &mut Random) -> f64, (438, 18), 1.0 / 12.0), (wave, (719, 2), 1.0 / 5.0)] {
        let (plain, stable) = (day(0.2, noise, None), day(0.2, noise, five_minutes()));
        assert_eq!((plain.turns, stable.turns), turns);
        assert!((stable.mean / plain.mean - 1.0 - more).abs() < 0.01, "{stable:?}, {plain:?}");
    }
}

/// With what was asked for of late, where `desired` are wanted and run.
fn stabilized(scaler: &Scaler, mut sample: Sample, most: u32, desired: u32) -> Decision {
    sample.stabilized = Some(most);
    decide(scaler, &sample, desired)
}

#[test]
fn count_does_not_fall_below_what_was_asked_for_of_late() {
    let held = stabilized(&by_cpu(), cores(3.0), 8, 10);
    assert_eq!((held.count, held.reason), (8, Reason::Stabilized));
    assert!(held.to_string().starts_with("8 instances, as were asked for a short while ago; cpu asks for 5"), "{held}");
    assert_eq!(stabilized(&by_cpu(), cores(9.0), 8, 10).count, 15, "up at once");
    assert_eq!(stabilized(&by_cpu(), cores(3.0), 50, 10).count, 10, "and raises nothing by itself");
    let limited = ScalerBuilder::new().cpus(1.0).max(6).build().unwrap();
    assert_eq!(stabilized(&limited, cores(3.0), 8, 10).count, 6, "limits come last");
}

#[test]
fn last_instance_goes_by_its_idle_time_whatever_was_asked_for() {
    let (scaler, began) = (ScalerBuilder::new().max_concurrency(80).build().unwrap(), Instant::now());
    let mut sample = requests(0.0, 0.0);
    (sample.in_flight, sample.last_request, sample.stabilized) = (Some(0), Some(began), Some(1));
    let after = |idle| scaler.decide(&sample, Fleet::settled(1), began + seconds(idle)).count;
    assert_eq!([after(899), after(900)], [1, 0]);
}

#[test]
fn window_knows_the_most_that_drivers_asked_for_and_not_what_it_held() {
    let (began, mut window) = (Instant::now(), Stabilization::new(seconds(300)));
    let at = |second| began + seconds(second);
    assert_eq!(window.most(began), None);
    for (second, used) in [(0, 6.6), (60, 5.0), (120, 3.0), (180, 4.0)] {
        let mut sample = cores(used);
        sample.stabilized = window.most(at(second));
        window.observe(&by_cpu().decide(&sample, Fleet::settled(20), at(second)), at(second));
    }
    let most = [180, 300, 301, 360, 361, 480, 481].map(|second| window.most(at(second)));
    assert_eq!(most, [Some(11), Some(11), Some(9), Some(9), Some(7), Some(7), None], "5 gave way to the 7 that came after it");
}

#[test]
fn number_that_is_missing_now_and_then_does_not_keep_the_count_up() {
    let (began, mut window, mut running) = (Instant::now(), Stabilization::new(seconds(300)), 12);
    let counts: Vec<_> = (0..12)
        .map(|minute| {
            let now = began + seconds(60 * minute);
            let mut sample = if minute % 3 == 2 { Sample::default() } else { cores(if minute == 0 { 7.2 } else { 3.0 }) };
            sample.stabilized = window.most(now);
            let decision = by_cpu().decide(&sample, Fleet::settled(running), now);
            window.observe(&decision, now);
            running = decision.count;
            running
        })
        .collect();
    assert_eq!(counts, [12, 12, 12, 12, 12, 12, 5, 5, 5, 5, 5, 5], "a vote that is held asks for nothing");
}

#[test]
fn window_begins_anew_where_the_clock_has_gone_back_far() {
    let (began, mut window) = (Instant::now(), Stabilization::new(seconds(300)));
    let mut observe = |used, second| {
        let now = began + seconds(second);
        window.observe(&decide(&by_cpu(), &cores(used), 50), now);
        window.most(now)
    };
    assert_eq!(observe(6.0, 1000), Some(10));
    assert_eq!(observe(3.0, 700), Some(10), "a little: it waits");
    assert_eq!(observe(3.0, 699), Some(5));
    let fixed = ScalerBuilder::new().fixed(40).build().unwrap();
    window.observe(&decide(&fixed, &cores(3.0), 50), began + seconds(699));
    assert_eq!(window.most(began + seconds(699)), Some(5), "a fixed count was not asked for");
}
