//! What other autoscalers did wrong (B32 to B50, and B25): each with its small input.

use std::time::{Duration, Instant};

use keywake::scaling::{Driver, Fleet, History, Reason, Sample, ScalerBuilder, Unusable, refused_streams};

use crate::totals::{by_cpu, cores, count, decide, requests, seconds, vote};

#[test]
fn b25_offered_load_is_what_is_read_where_most_is_refused() {
    // Knative 2579: limit 100, offered 400.
    let scaler = ScalerBuilder::new().max_concurrency(100).refusals(true).build().unwrap();
    let mut sample = requests(100.0, 100.0);
    sample.refused = refused_streams(18_000, seconds(60), seconds(1));
    let decision = decide(&scaler, &sample, 1);
    assert_eq!(vote(&decision, Driver::Refusals).utilisation, Some(4.0));
    assert_eq!(decision.count, 7);
}

#[test]
fn b32_no_instance_is_no_divisor() {
    let decision = by_cpu().decide(&cores(5.0), Fleet { desired: 5, running: 0 }, Instant::now());
    assert_eq!((decision.count, vote(&decision, Driver::Cpu).utilisation), (5, None));
}

#[test]
fn b33_limits_of_nobody_are_no_divisor() {
    let scaler = ScalerBuilder::new().max_concurrency(80).adaptive(true).build().unwrap();
    let mut sample = requests(240.0, 240.0);
    for (limits, why) in [(vec![], Unusable::Missing), (vec![0, 0], Unusable::Zero)] {
        sample.adaptive_limits = Some(limits.into_iter().collect());
        let decision = decide(&scaler, &sample, 5);
        assert_eq!((decision.count, decision.unusable().next()), (5, Some((Driver::Adaptive, why))));
    }
}

#[test]
fn b34_use_of_zero_at_the_minimum_does_not_flap() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).min(15).build().unwrap();
    let mut sample = requests(0.0, 0.0);
    sample.cpu_cores = Some(0.0);
    let mut running = 15;
    for _ in 0..10 {
        running = count(&scaler, &sample, running);
        assert_eq!(running, 15);
    }
}

#[test]
fn b35_one_silent_instance_of_seventy_does_not_stop_the_way_up() {
    let mut sample = cores(69.0 * 0.9);
    sample.reporting = Some(69);
    let scaler = ScalerBuilder::new().cpus(1.0).max(1000).build().unwrap();
    let decision = decide(&scaler, &sample, 70);
    assert_eq!(decision.count, 104, "62.1 / 0.6, as if the silent one were idle: {decision}");
    let mut sample = cores(6.5);
    sample.reporting = Some(9);
    assert_eq!(count(&scaler, &sample, 10), 10, "0.65 with an idle one is within, and 0.75 with a full one would not be");
}

#[test]
fn b36_one_silent_instance_does_not_stop_the_way_down() {
    let scaler = ScalerBuilder::new().cpus(1.0).max(1000).build().unwrap();
    let mut sample = cores(159.0 * 0.2);
    sample.reporting = Some(159);
    assert_eq!(count(&scaler, &sample, 160), 55, "(31.8 + 1) / 0.6, as if the silent one were full");
    // Where what is filled in would turn the direction, it holds.
    let mut sample = cores(5.0);
    sample.reporting = Some(9);
    assert_eq!(count(&scaler, &sample, 10), 10, "0.5 without it, 0.6 with it");
    sample.cpu_cores = Some(4.4);
    assert_eq!(count(&scaler, &sample, 10), 10, "0.44 without it, 0.54 with it, which is within: not 9");
    sample.reporting = Some(0);
    let decision = decide(&scaler, &sample, 10);
    assert_eq!((decision.count, decision.is_valid()), (10, false), "a sum over nobody");
}

#[test]
fn b37_to_hold_is_to_keep_what_was_wanted_and_not_what_runs() {
    let surge = Fleet { desired: 10, running: 12 };
    assert_eq!(by_cpu().decide(&cores(12.0 * 0.63), surge, Instant::now()).count, 10, "ratio 1.05");
}

#[test]
fn b38_use_far_below_the_target_never_raises() {
    // k8s 83698: 3 run and use 5 of 53.
    let scaler = ScalerBuilder::new().cpus(53.0 / 3.0).build().unwrap();
    assert_eq!(count(&scaler, &cores(5.0), 3), 1);
}

#[test]
fn b39_tolerance_does_not_hide_a_fixed_count() {
    assert_eq!(count(&ScalerBuilder::new().fixed(89).build().unwrap(), &cores(52.8), 88), 89);
    assert_eq!(count(&by_cpu(), &cores(53.4), 88), 88, "89 by use is within it, as the source has it");
}

#[test]
fn b40_nan_is_no_count() {
    for used in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
        assert_eq!([0, 1, 40].map(|running| count(&by_cpu(), &cores(used), running)), [0, 1, 40]);
    }
}

#[test]
fn b41_empty_answer_at_peak_is_not_rest() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).min(2).build().unwrap();
    assert_eq!(count(&scaler, &Sample::default(), 40), 40);
    // An adapter that makes 0 of it.
    let zero = ScalerBuilder::new().cpus(1.0).min(2).build().unwrap();
    assert_eq!(count(&zero, &cores(0.0), 40), 40);
}

#[test]
fn b42_floor_while_blind_lifts_from_zero_too() {
    let scaler = ScalerBuilder::new().max_concurrency(80).queue(true).blind_floor(1).build().unwrap();
    let decision = decide(&scaler, &Sample::default(), 0);
    assert_eq!((decision.count, decision.reason), (1, Reason::Blind));
    assert_eq!(count(&scaler, &Sample::default(), 7), 7, "and lowers nothing");
    let mut known = requests(0.0, 0.0);
    known.queued = Some(0.0);
    assert_eq!(count(&scaler, &known, 0), 0);
    // Where the queue is no driver, it leads up from zero all the same.
    let scaler = ScalerBuilder::new().cpus(1.0).blind_floor(2).build().unwrap();
    assert_eq!((count(&scaler, &Sample::default(), 0), count(&scaler, &known, 0)), (2, 0));
    assert_eq!(count(&scaler, &cores(0.6), 1), 1, "one that runs and tells its use is not blind");
}

#[test]
fn b43_missed_reading_is_not_zero() {
    let began = Instant::now();
    let mut minute = History::new(seconds(60));
    for (index, read) in (0..).zip([Some(0.7), Some(0.7), Some(f64::NAN), None]) {
        minute.observe(read, began + seconds(10 * index), began + seconds(10 * (index + 1)));
    }
    assert_eq!(minute.mean(began + seconds(40)), Some(0.7));
}

#[test]
fn b44_no_request_is_a_valid_zero() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).build().unwrap();
    let mut sample = requests(0.0, 0.0);
    (sample.cpu_cores, sample.in_flight) = (Some(0.0), Some(0));
    let decision = decide(&scaler, &sample, 4);
    assert_eq!((decision.count, decision.is_valid()), (1, true), "zero cores are believed beside zero requests");
    sample.last_request = Some(Instant::now());
    let later = Instant::now() + seconds(901);
    assert_eq!(scaler.decide(&sample, Fleet::settled(1), later).count, 0);
}

#[test]
fn b45_restart_of_who_decides_lowers_nothing_until_the_means_are_complete() {
    let began = Instant::now();
    let mut minute = History::new(seconds(60));
    let mut running = 7;
    let mut trace = Vec::new();
    for second in (0..120).step_by(10) {
        // 4.2 cores are used, but the first seconds read low.
        let used = if second < 30 { 0.6 } else { 4.2 };
        minute.observe(Some(used), began + seconds(second), began + seconds(second + 10));
        let now = began + seconds(second + 10);
        let mut sample = cores(minute.mean(now).unwrap());
        sample.complete = minute.is_complete(now);
        let decision = by_cpu().decide(&sample, Fleet::settled(running), now);
        running = decision.count;
        trace.push((running, decision.reason));
    }
    assert_eq!(trace[..5], [(7, Reason::Incomplete); 5]);
    assert_eq!(trace[11], (7, Reason::Driver));
    let mut sample = cores(6.0);
    sample.complete = false;
    assert_eq!(count(&by_cpu(), &sample, 7), 10, "and it may rise at once");
}

#[test]
fn b46_few_that_are_ready_do_not_undo_a_plan_that_is_starting() {
    let scaler = ScalerBuilder::new().cpus(1.0).max(2000).build().unwrap();
    let starting = Fleet { desired: 1000, running: 40 };
    assert_eq!(scaler.decide(&cores(40.0), starting, Instant::now()).count, 1000, "40 that are full ask for 67");
}

#[test]
fn b47_report_that_is_read_twice_counts_once() {
    let began = Instant::now();
    let mut minute = History::new(seconds(60));
    minute.observe(Some(1.0), began, began + seconds(10));
    for _ in 0..3 {
        minute.observe(Some(9.0), began + seconds(10), began + seconds(20));
    }
    assert_eq!(minute.mean(began + seconds(20)), Some(5.0));
}

#[test]
fn b48_shorter_mean_does_not_hide_the_longer_one() {
    let scaler = ScalerBuilder::new().max_concurrency(10).concurrency_target(0.95).build().unwrap();
    let stable = 2000.0 / 6.0;
    assert_eq!(count(&scaler, &requests(200.0, stable), 1), 36, "not the 22 of the last minute");
}

#[test]
fn b49_traffic_of_next_to_nothing_goes_to_zero_by_its_idle_time() {
    let scaler = ScalerBuilder::new().max_concurrency(80).build().unwrap();
    let began = Instant::now();
    let (mut running, mut ends) = (1, 0);
    for minute in 0..60_u64 {
        // The gauge flickers for half an hour; the last request was at the tenth minute.
        let mut sample = requests(if minute % 2 == 0 && minute < 30 { 0.051 } else { 0.0 }, 0.0);
        (sample.in_flight, sample.last_request) = (Some(0), Some(began + seconds(60 * minute.min(10))));
        let next = scaler.decide(&sample, Fleet::settled(running), began + seconds(60 * minute)).count;
        ends += u32::from(next != running);
        running = next;
        assert_eq!(running, u32::from(minute < 25), "minute {minute}");
    }
    assert_eq!(ends, 1, "it goes once and does not come back");
}

#[test]
fn b50_ten_short_requests_after_each_other_are_one_at_once() {
    let began = Instant::now();
    let mut mean = History::new(Duration::from_millis(100));
    for index in 0..10 {
        let at = |index: u32| began + Duration::from_millis(10) * index;
        mean.observe(Some(1.0), at(index), at(index + 1));
    }
    let mean = mean.mean(began + Duration::from_millis(100)).unwrap();
    assert!((mean - 1.0).abs() < 1e-9, "{mean}");
}
