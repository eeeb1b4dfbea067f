//! AS-22 and AS-24, and the fixed count: to zero, from zero, and what is never ended.

use std::time::Instant;

use keywake::scaling::{Driver, Fleet, Reason, Sample, Scaler, ScalerBuilder, Verdict};

use crate::totals::{by_cpu, cores, count, decide, requests, seconds, vote};

fn by_all() -> Scaler {
    ScalerBuilder::new().cpus(1.0).max_concurrency(80).queue(true).build().expect("settings that work")
}

/// Idle for so many seconds, with an instance that burns a little.
fn idle(scaler: &Scaler, sample: &Sample, running: u32, for_seconds: u64) -> u32 {
    let began = Instant::now();
    let mut sample = sample.clone();
    sample.last_request = Some(began);
    scaler.decide(&sample, Fleet::settled(running), began + seconds(for_seconds)).count
}

fn quiet() -> Sample {
    let mut sample = requests(0.0, 0.0);
    (sample.cpu_cores, sample.queued, sample.in_flight) = (Some(0.02), Some(0.0), Some(0));
    sample
}

#[test]
fn as_24_cpu_alone_never_says_zero() {
    for used in [0.02, 1e-9, 5e-324] {
        assert_eq!([1, 2, 50].map(|running| count(&by_cpu(), &cores(used), running)), [1, 1, 1], "{used}");
    }
    let mut sample = quiet();
    sample.cpu_cores = Some(0.0);
    let decision = decide(&by_all(), &sample, 3);
    assert_eq!((decision.count, vote(&decision, Driver::Cpu).count), (1, 1), "also where zero is believed");
}

#[test]
fn as_24_last_step_looks_at_requests_only() {
    assert_eq!([899, 900].map(|idle_for| idle(&by_all(), &quiet(), 1, idle_for)), [1, 0]);
    let mut sample = quiet();
    sample.in_flight = Some(1);
    assert_eq!(idle(&by_all(), &sample, 1, 100_000), 1, "one request that lasts");
    sample.in_flight = None;
    assert_eq!(idle(&by_all(), &sample, 1, 100_000), 1, "nobody knows");
    (sample.in_flight, sample.queued) = (Some(0), Some(1.0));
    assert_eq!(idle(&by_all(), &sample, 1, 100_000), 1, "one that waits");
    for odd in [None, Some(f64::NAN), Some(0.0)] {
        let mut sample = quiet();
        (sample.cpu_cores, sample.concurrency_1m) = (odd, None);
        assert_eq!(idle(&by_all(), &sample, 1, 900), 0, "{odd:?}: it is not asked");
    }
    let mut busy = quiet();
    busy.cpu_cores = Some(1.2);
    assert_eq!(idle(&by_all(), &busy, 2, 900), 2, "work without requests keeps its instances");
}

#[test]
fn as_24_concurrency_of_zero_leaves_one_until_it_is_idle() {
    let scaler = ScalerBuilder::new().max_concurrency(80).build().unwrap();
    let decision = decide(&scaler, &requests(0.0, 0.0), 4);
    assert_eq!((decision.count, decision.reason), (1, Reason::NotIdle));
}

#[test]
fn as_17_from_zero_leads_only_a_request_that_waits() {
    let mut sample = quiet();
    // What the instance that has just ended used is still in the mean.
    for left_over in [None, Some(0.02), Some(3.0)] {
        sample.cpu_cores = left_over;
        let decision = decide(&by_all(), &sample, 0);
        assert_eq!((decision.count, vote(&decision, Driver::Cpu).verdict), (0, Verdict::Resting));
        assert!(decision.is_valid(), "nobody reports where nothing runs");
    }
    for (waiting, asked) in [(1.0, 1), (48.0, 1), (49.0, 2), (480.0, 10)] {
        sample.queued = Some(waiting);
        let decision = decide(&by_all(), &sample, 0);
        assert_eq!((decision.count, decision.driver), (asked, Some(Driver::Queue)));
    }
    sample.queued = Some(1.0);
    assert_eq!(count(&by_cpu(), &sample, 0), 1, "also where the queue is no driver");
}

#[test]
fn instance_that_is_starting_is_waited_for() {
    let starting = Fleet { desired: 3, running: 0 };
    let mut sample = quiet();
    assert_eq!(by_all().decide(&sample, starting, Instant::now()).count, 3);
    sample.queued = Some(48.0);
    let decision = by_all().decide(&sample, starting, Instant::now());
    assert_eq!((decision.count, vote(&decision, Driver::Queue).count), (3, 3), "48 would need one");
    sample.queued = Some(480.0);
    assert_eq!(by_all().decide(&sample, starting, Instant::now()).count, 10);
}

#[test]
fn as_22_minimum_stays_and_brings_itself_up() {
    let scaler = ScalerBuilder::new().cpus(1.0).min(2).build().unwrap();
    assert_eq!([0, 1, 2, 3].map(|running| idle(&scaler, &quiet(), running, 100_000)), [2; 4]);
}

#[test]
fn fixed_count_looks_at_nothing() {
    for fixed in [0, 1, 89] {
        let scaler = ScalerBuilder::new().fixed(fixed).min(3).max(5).build().unwrap();
        for sample in [Sample::default(), cores(1e9), cores(f64::NAN), quiet()] {
            assert_eq!([0, 1, 88, 1000].map(|running| idle(&scaler, &sample, running, 100_000)), [fixed; 4]);
        }
    }
}
