//! The worked examples A01 to A18, each by its number. Target 60 % unless said.

use std::time::{Duration, Instant};

use keywake::scaling::{
    ConfigError, Driver, Fate, Fleet, Instance, Reason, Sample, ScaleDown, Scaler, ScalerBuilder, Unusable, max_wait,
};

use crate::totals::{by_cpu, cores, count, decide, requests, seconds, vote};

fn cpus(cpus: f64) -> Scaler {
    ScalerBuilder::new().cpus(cpus).max(1000).build().expect("settings that work")
}

fn eighty() -> Scaler {
    ScalerBuilder::new().max_concurrency(80).build().expect("settings that work")
}

#[test]
fn a01_twelve_cores_of_two_each_ask_for_ten() {
    assert_eq!(count(&cpus(2.0), &cores(12.0), 6), 10);
}

#[test]
fn a02_four_point_one_needed_is_five_or_a_held_four() {
    assert_eq!([3, 5, 4].map(|running| count(&cpus(1.0), &cores(2.46), running)), [5, 5, 4]);
}

#[test]
fn a03_mean_of_ten_minutes_asks_for_six() {
    assert_eq!(count(&eighty(), &requests(200.0, 260.0), 4), 6);
}

#[test]
fn a04_edges_of_the_band_hold_and_beyond_them_it_moves() {
    assert_eq!([5.4, 6.6, 6.61, 5.39].map(|used| count(&cpus(1.0), &cores(used), 10)), [10, 10, 12, 9]);
}

#[test]
fn a05_four_point_two_cores_need_exactly_seven() {
    assert_eq!(count(&cpus(1.0), &cores(4.2), 3), 7);
}

#[test]
fn a06_adaptive_limits_ask_for_most() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).adaptive(true).build().unwrap();
    let mut sample = requests(240.0, 180.0);
    (sample.cpu_cores, sample.adaptive_limits) = (Some(1.5), Some([60, 60].into_iter().collect()));
    let decision = decide(&scaler, &sample, 2);
    let asked = [Driver::Cpu, Driver::Concurrency, Driver::Adaptive].map(|driver| vote(&decision, driver).count);
    assert_eq!((asked, decision.count, decision.driver), ([3, 5, 7], 7, Some(Driver::Adaptive)));
}

#[test]
fn a07_limits_come_last() {
    let within = |min, max| ScalerBuilder::new().cpus(1.0).min(min).max(max).build().unwrap();
    assert_eq!(count(&within(0, 5), &cores(4.2), 3), 5, "recommended 7");
    assert_eq!(count(&within(3, 5), &cores(0.6), 4), 3, "recommended 1");
    assert_eq!(count(&within(0, 8), &cores(7.2), 12), 8, "held at 12");
}

#[test]
fn a08_one_thread_on_two_cpus_is_full_at_half() {
    assert_eq!(count(&cpus(2.0), &cores(8.0), 8), 7);
    assert_eq!(count(&ScalerBuilder::new().cpus(2.0).runnable_threads(1).build().unwrap(), &cores(8.0), 8), 14);
}

#[test]
fn a09_wait_is_ten_seconds_or_three_and_a_half_start_ups() {
    let start_ups = [seconds(2), seconds(20) / 7, seconds(4), seconds(10)];
    assert_eq!(start_ups.map(max_wait), [10, 10, 14, 35].map(seconds));
    assert_eq!(max_wait(Duration::MAX), Duration::MAX / 2, "and never less than it was");
}

/// What `overload` makes of it; the two meet in a number.
#[cfg(feature = "overload")]
mod adaptive {
    use std::time::Instant;

    use keywake::overload::concurrency::{AdaptiveConcurrency, ConcurrencySample};

    use crate::totals::seconds;

    /// The limit after each second with that use and as many requests, from a limit at its ceiling that first fell to `from`.
    fn limits(from: usize, ceiling: usize, ticks: &[(f64, usize)]) -> Vec<usize> {
        let mut concurrency = AdaptiveConcurrency::new(1, ceiling).expect("settings that work");
        let began = Instant::now();
        let mut at = 0;
        let mut step = |cpu, active| {
            let limit = concurrency.step(&ConcurrencySample { cpu, active }, began + seconds(at));
            at += 1;
            limit
        };
        let mut limit = step(0.95, ceiling);
        while limit > from {
            limit = step(0.95, ceiling);
        }
        ticks.iter().map(|(cpu, active)| step(*cpu, *active)).collect()
    }

    #[test]
    fn a10_limit_falls_above_ninety_percent_only() {
        let ticks = [0.95, 0.95, 0.85, 0.90, 0.91].map(|cpu| (cpu, 80));
        assert_eq!(limits(80, 80, &ticks), [79, 78, 78, 78, 77]);
    }

    #[test]
    fn a11_limit_rises_only_where_it_is_reached_below_seventy_percent() {
        let after = [(60, 60, 0.65), (60, 59, 0.65), (60, 60, 0.70), (1, 1, 0.99), (80, 80, 0.10)];
        let after = after.map(|(limit, requests, cpu)| limits(limit, 80, &[(cpu, requests)])[0]);
        assert_eq!(after, [61, 60, 60, 1, 80]);
    }
}

#[test]
fn a12_fleet_that_is_full_grows_by_two_thirds() {
    let mut running = 1;
    for grown in [2, 4, 7, 12, 20, 34, 57, 95, 159] {
        running = count(&cpus(1.0), &cores(f64::from(running)), running);
        assert_eq!(running, grown);
    }
}

#[test]
fn a13_containers_limits_add_up() {
    assert_eq!(count(&ScalerBuilder::new().containers(&[1.0, 0.5]).build().unwrap(), &cores(4.5), 2), 5);
}

#[test]
fn a14_last_instance_goes_after_fifteen_minutes_without_a_request() {
    let began = Instant::now();
    let mut sample = cores(0.02);
    (sample.in_flight, sample.last_request) = (Some(0), Some(began));
    let after = |min, idle| {
        let scaler = ScalerBuilder::new().cpus(1.0).min(min).build().unwrap();
        scaler.decide(&sample, Fleet::settled(1), began + seconds(idle)).count
    };
    assert_eq!([after(0, 899), after(0, 900), after(1, 899), after(1, 900)], [1, 0, 1, 1]);
}

#[test]
fn a15_up_at_once_and_down_slowly() {
    assert_eq!(count(&eighty(), &requests(30.0, 120.0), 2), 3);
    assert_eq!(count(&eighty(), &requests(120.0, 30.0), 1), 3);
}

#[test]
fn a16_nan_holds_and_what_cannot_work_is_not_built() {
    let decision = decide(&by_cpu(), &cores(f64::NAN), 6);
    assert_eq!(decision.count, 6);
    assert_eq!(decision.unusable().collect::<Vec<_>>(), [(Driver::Cpu, Unusable::NotANumber)]);
    for value in [0.0, 0.05, 0.96] {
        let error = ScalerBuilder::new().cpus(1.0).cpu_target(value).build().unwrap_err();
        assert_eq!(error, ConfigError::Target { setting: "cpu_target", value });
    }
}

#[test]
fn a17_unused_ones_end_and_one_stays_in_reserve() {
    let now = Instant::now() + seconds(7200);
    let utilisations = [0.62, 0.58, 0.55, 0.12, 0.08, 0.0, 0.0];
    let ago = [0, 0, 0, 0, 5, 16 * 60, 3 * 60];
    let instances: Vec<_> = (0..7)
        .map(|id| {
            let in_flight = u64::from(id < 3);
            Instance { id, utilisation: Some(utilisations[id]), in_flight, last_active: now - seconds(ago[id]) }
        })
        .collect();
    let policy = ScaleDown::new().reserve(1);
    let fates = policy.plan(&instances, 3, now);
    assert_eq!(fates[..3], [Fate::Recommended; 3]);
    assert_eq!(fates[3..], [Fate::KeepUsed, Fate::KeepReserve, Fate::EndLow, Fate::EndLow]);
    let left = &instances[..5];
    assert_eq!(policy.plan(left, 3, now + seconds(894))[4], Fate::KeepReserve, "899 s idle");
    assert_eq!(policy.plan(left, 3, now + seconds(895))[4], Fate::EndIdle, "900 s idle");
}

#[cfg(feature = "overload")]
#[test]
fn a18_gauge_of_an_instance_that_let_streams_go_says_that_it_is_full() {
    use keywake::overload::evictor::effective_active;
    let (first, second) = (effective_active(6, Some(10), Some(1.21), 0.75), effective_active(3, Some(10), Some(0.75), 0.75));
    assert!((first - 16.13).abs() < 0.005, "{first}");
    assert!((second - 10.0).abs() < 1e-9, "{second}");
    let mut sample = Sample::default();
    sample.effective_streams = Some(first + second);
    let scaler = ScalerBuilder::new().nominal(10).build().unwrap();
    assert_eq!(count(&scaler, &sample, 2), 3, "9 streams are there, and they would need 26.13 / 10");
}

#[test]
fn fixed_count_is_that_count() {
    let scaler = ScalerBuilder::new().fixed(4).build().unwrap();
    let decision = decide(&scaler, &Sample::default(), 9);
    assert_eq!((decision.count, decision.reason, decision.driver, decision.over_max), (4, Reason::Fixed, None, 5));
}
