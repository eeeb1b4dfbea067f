//! What a process records and reports: PL-20 to PL-29, G10 to G13.

use std::time::{Duration, Instant};

use keywake::{
    load::StreamClass,
    meter::Meter,
    placement::{Busy, Cores, Discarded, Index, Pressure, Recorder, Report},
};

use crate::fleet::{Random, fleet, milli, owner};

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn recorder() -> Recorder {
    Recorder::new(fleet("ded"), Index(3), 77)
}

/// One window of a recorder.
fn window(mut recorder: Recorder, length: f64, cpu: f64, busy: &[(&str, f64)]) -> Report {
    let start = Instant::now();
    assert_eq!(recorder.close(start, Some(seconds(500.0)), 12), Err(Discarded::First));
    for (name, time) in busy {
        recorder.record(&owner(name), seconds(*time));
    }
    recorder.close(start + seconds(length), Some(seconds(500.0 + cpu)), 12).unwrap_or_else(|why| panic!("{why}"))
}

fn owners(report: &Report) -> Vec<(&str, Cores)> {
    report.owners.iter().map(|load| (load.owner.as_str(), load.cores)).collect()
}

#[test]
fn process_is_its_processor_time_over_the_window_and_owners_are_shares_of_it() {
    let report = window(recorder(), 60.0, 48.0, &[("c", 30.0), ("a", 30.0), ("b", 60.0)]);
    assert_eq!((report.process, report.unattributed), (milli(800), Cores::ZERO));
    assert_eq!(owners(&report), [("a", milli(200)), ("b", milli(400)), ("c", milli(200))]);
    assert_eq!((report.index, report.processes, report.run, report.number), (Index(3), 12, 77, 1));
}

#[test]
fn wall_time_of_overlapping_waits_is_a_share_and_never_an_amount() {
    let report = window(recorder(), 60.0, 30.0, &[("a", 300.0), ("b", 100.0)]);
    assert_eq!(owners(&report), [("a", milli(375)), ("b", milli(125))]);
    assert_eq!(report.process, milli(500), "and not 6.67 cores");
}

#[test]
fn window_in_which_no_owner_ran_has_no_division_and_all_is_unattributed() {
    let nobody = window(recorder(), 60.0, 0.6, &[]);
    assert_eq!((owners(&nobody), nobody.process, nobody.unattributed), (vec![], milli(10), milli(10)));
    let idle = window(recorder(), 60.0, 0.6, &[("a", 0.0)]);
    assert_eq!((owners(&idle), idle.process, idle.unattributed), (vec![("a", Cores::ZERO)], milli(10), milli(10)));
}

#[test]
fn weights_and_what_is_unattributed_sum_back_to_the_process_to_the_nano_core() {
    let mut random = Random(11);
    for round in 0..2_000 {
        let busy: Vec<_> = (0..random.below(12)).map(|name| (name.to_string(), random.below(1 << 36) as f64 / 1e9)).collect();
        let busy: Vec<_> = busy.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        let is = if round % 2 == 0 { Busy::Relative } else { Busy::Processor };
        let report =
            window(recorder().busy(is), 1.0 + random.below(100_000) as f64 / 997.0, random.below(100_000) as f64 / 991.0, &busy);
        let sum: Cores = report.owners.iter().map(|load| load.cores).sum();
        assert_eq!(sum + report.unattributed, report.process, "{busy:?}");
    }
}

#[test]
fn process_without_an_owner_reports_too() {
    let report = window(recorder(), 60.0, 0.0, &[]);
    assert_eq!((report.process, report.owners.len(), report.number), (Cores::ZERO, 0, 1));
}

#[test]
fn processor_time_of_owners_leaves_the_rest_unattributed() {
    let report = window(recorder().busy(Busy::Processor), 60.0, 48.0, &[("a", 6.0), ("b", 30.0)]);
    assert_eq!(owners(&report), [("a", milli(100)), ("b", milli(500))]);
    assert_eq!(report.unattributed, milli(200));
    let over = window(recorder().busy(Busy::Processor), 60.0, 30.0, &[("a", 60.0), ("b", 20.0)]);
    assert_eq!((owners(&over), over.unattributed), (vec![("a", milli(375)), ("b", milli(125))], Cores::ZERO));
}

#[test]
fn window_is_measured_and_one_of_no_length_goes_on() {
    let mut recorder = recorder();
    let start = Instant::now() + seconds(1_000.0);
    assert_eq!(recorder.close(start, Some(seconds(500.0)), 12), Err(Discarded::First));
    recorder.record(&owner("a"), seconds(1.0));
    assert_eq!(recorder.close(start, Some(seconds(510.0)), 12), Err(Discarded::WindowEmpty));
    assert_eq!(
        recorder.close(start - seconds(5.0), Some(seconds(510.0)), 12),
        Err(Discarded::WindowEmpty),
        "the clock went back"
    );
    let report = recorder.close(start + seconds(30.0), Some(seconds(515.0)), 12).unwrap();
    assert_eq!((report.window, report.process), (seconds(30.0), milli(500)));
    assert_eq!(owners(&report), [("a", milli(500))], "what was recorded before is in it");
}

#[test]
fn counter_that_went_back_is_discarded_and_the_next_window_begins_there() {
    let mut recorder = recorder();
    let start = Instant::now();
    assert_eq!(recorder.close(start, Some(seconds(500.0)), 12), Err(Discarded::First));
    recorder.record(&owner("a"), seconds(50.0));
    assert_eq!(recorder.close(start + seconds(60.0), Some(seconds(3.0)), 12), Err(Discarded::CpuWentBack));
    assert_eq!(recorder.close(start + seconds(120.0), None, 12), Err(Discarded::ClockMissing));
    assert_eq!(recorder.close(start + seconds(180.0), Some(seconds(9.0)), 12), Err(Discarded::First));
    let report = recorder.close(start + seconds(240.0), Some(seconds(15.0)), 12).unwrap();
    assert_eq!((report.process, report.unattributed, report.number), (milli(100), milli(100), 1), "nothing of before is left");
}

#[test]
fn process_at_its_ceiling_says_that_its_demand_is_not_known() {
    let capped = |cpu| window(recorder().ceiling(Cores::ONE), 60.0, cpu, &[("a", 1.0)]).capped;
    assert!(capped(57.0) && capped(60.4) && !capped(56.9));
    assert!(!window(recorder(), 60.0, 60.0, &[]).capped, "without a ceiling nobody knows");
}

#[test]
fn it_is_the_process_that_is_measured_and_not_its_container() {
    // One thread that is busy all the time, where two processors are granted: one core, which is its wall, and not half of something.
    let report = window(recorder().ceiling(Cores::ONE), 60.0, 60.0, &[("a", 60.0)]);
    assert_eq!((report.process, report.capped), (Cores::ONE, true));
}

#[test]
fn units_are_in_the_types() {
    assert_eq!(Cores::over(Duration::from_millis(30), Duration::from_secs(60)), Some(Cores::from_nanos(500_000)));
    assert_eq!(Cores::over(Duration::from_secs(30), Duration::from_secs(60)), Some(milli(500)));
    assert_eq!(Cores::over(Duration::MAX, Duration::from_nanos(1)), Some(Cores::MAX), "and never wraps");
    assert_eq!(format!("{} {:.3} {}", milli(750), Cores::from_nanos(1_999_999_999), Cores::ONE), "0.75 1.999 1");
}

#[test]
fn pressure_and_drain_are_told_with_the_window_that_they_were_in() {
    let mut recorder = recorder();
    let start = Instant::now();
    assert!(recorder.close(start, Some(seconds(0.0)), 2).is_err());
    let mut pressure = Pressure::unknown();
    pressure.refused = Some(3);
    recorder.pressure(pressure);
    recorder.drain();
    let first = recorder.close(start + seconds(60.0), Some(seconds(1.0)), 2).unwrap();
    let second = recorder.close(start + seconds(120.0), Some(seconds(2.0)), 2).unwrap();
    assert_eq!((first.pressure.refused, second.pressure.refused), (Some(3), None));
    assert!(first.draining && second.draining && second.number == 2);
}

#[test]
fn streams_of_a_meter_are_recorded_by_their_owner() {
    let meter = Meter::new();
    let (one, two, other) = (meter.track(StreamClass::Live), meter.track(StreamClass::Live), meter.track(StreamClass::Dev));
    let start = Instant::now();
    assert!(meter.sample(start, Some(Duration::ZERO)).is_none());
    let work = || std::hint::black_box((0..200_000_u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum)));
    for stream in [&one, &two, &other] {
        let _scope = stream.scope();
        work();
    }
    let split = meter.sample(start + seconds(60.0), Some(seconds(30.0))).expect("an interval");
    let mut recorder = recorder().busy(Busy::Processor);
    assert!(recorder.close(start, Some(Duration::ZERO), 1).is_err());
    let a = owner("a");
    recorder.record_streams(&split, |id| (id != other.id()).then_some(&a));
    let report = recorder.close(start + seconds(60.0), Some(seconds(30.0)), 1).unwrap();
    let used: Duration = split.streams.iter().filter(|stream| stream.id != other.id()).map(|stream| stream.used).sum();
    assert!(used > Duration::ZERO);
    let off = report.owners[0].cores.nanos().abs_diff(Cores::over(used, seconds(60.0)).unwrap().nanos());
    assert!(off <= 1 && report.owners.len() == 1, "{report:?}");
    assert_eq!(report.owners[0].cores + report.unattributed, milli(500));
}
