//! What a tick reads, steps and sets; when the next one should come.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use keywake::{
    load::StreamClass,
    meter::cgroup::{CgroupReader, Notice},
    overload::{
        admission::{Admission, AdmissionLimits, Decision, RefusalReason},
        concurrency::AdaptiveConcurrency,
        driver::{Driver, DriverBuilder, DriverError, Line, StreamInfo, Tick},
        events::{LoadHub, LoadKey, OVERLOAD, ROOM},
        evictor::{Alert, Ended, EvictorBuilder, Mode, SettingsWarning},
        readiness::Readiness,
        status::{Code, EndCause},
        watchdog::{Watchdog, WatchdogLimits},
    },
};

use crate::world::{Says, World, burn, events, evicted, evictor};

fn admission(limits: AdmissionLimits) -> Admission {
    Admission::with_seed(limits, 1).expect("limits that work")
}

/// E15.
#[test]
fn off_reads_nothing_and_has_nothing_to_tick_for_and_says_so_once() {
    let mut world = World::new(Mode::Off);
    let stream = world.stream(StreamClass::Dev, "one");
    let first = world.tick(5.0);
    assert_eq!((&first.lines[..], first.after), (&[Line::Started { mode: Mode::Off, quota_cores: None }][..], None));
    for _ in 0..20 {
        burn(&stream, Duration::from_micros(20));
        assert_eq!(world.tick(5.0), Tick::default());
    }
    assert_eq!(world.source.reads(), 0);
    assert!(world.driver.load().is_ready() && world.driver.load().readiness().conditions().is_empty());
    assert!(stream.cancelled().is_none() && world.driver.explain().streams.is_empty());
}

/// E14.
#[test]
fn observing_reads_and_tells_and_touches_neither_readiness_nor_admission_nor_streams() {
    let admission = admission(AdmissionLimits::default());
    let mut world = World::with(evictor(Mode::Observe), |builder| builder.admission(admission.clone()));
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    let catch_up = world.stream(StreamClass::CatchUp, "catch-up");
    let mut readiness = world.driver.load().follow(LoadKey::Readiness);
    let lines = world.ticks(6, &[&hot, &cool, &catch_up]);
    assert!(lines.iter().any(|(time, line)| *time == 20.0 && matches!(line, Line::OverloadBegan(state) if !state.enforced)));
    assert!(lines.iter().any(|(time, line)| *time == 30.0 && matches!(line, Line::WouldEvict(_))));
    assert_eq!(world.driver.evictions()[0].action, "observed");
    assert!(admission.is_accepting() && hot.cancelled().is_none() && !world.driver.gauges().overloaded);
    assert_eq!(events(&mut readiness).len(), 1, "as it began");
    assert!(world.driver.load().readiness().conditions().is_empty());
    // An operator may ask all the same.
    let explanation = world.driver.explain();
    let chosen: Vec<_> = explanation.chosen().map(|stream| stream.id).collect();
    assert_eq!(chosen, [cool.id()], "the first of them counts as gone");
    assert!(explanation.to_string().contains("stays, told to go already"), "{explanation}");
    assert_eq!(world.source.reads(), 6);
}

#[test]
fn condition_that_was_required_though_nothing_is_enforced_keeps_nobody_unready() {
    for mode in [Mode::Off, Mode::Observe, Mode::Full] {
        let now = Instant::now();
        let mut readiness = Readiness::new(now);
        readiness.require(OVERLOAD, now);
        let load = LoadHub::new(readiness);
        let mut world = World::with(evictor(mode), |builder| builder.load(load.clone()));
        assert!(!load.is_ready(), "nobody has spoken yet");
        world.tick(5.0);
        assert!(load.is_ready(), "{mode}");
    }
}

/// E30.
#[test]
fn what_somebody_else_sets_is_set_right_at_the_next_tick_also_between_two_steps() {
    let admission = admission(AdmissionLimits::default());
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    let load = world.driver.load().clone();
    let flip = |world: &World, met| {
        load.set(OVERLOAD, met, "somebody else", world.now());
        admission.set_overloaded(!met);
    };
    world.ticks(3, &[]);
    flip(&world, false);
    assert!(!load.is_ready() && !admission.is_accepting());
    world.tick(1.0);
    assert!(load.is_ready() && admission.is_accepting());
    world.time -= 1.0;
    world.ticks(2, &[]);
    assert!(!load.is_ready(), "overloaded");
    flip(&world, true);
    let reads = world.source.reads();
    world.tick(1.0);
    assert_eq!(world.source.reads(), reads, "nothing was read, and nothing stepped");
    assert!(!load.is_ready() && !admission.is_accepting());
    // For good.
    load.shut_down("SIGTERM", world.now());
    world.source.says(Says::Ratio(0.1));
    world.ticks(12, &[]);
    assert!(!load.is_ready() && admission.is_accepting());
}

/// E29.
#[test]
fn stopped_in_its_drain_it_reads_sets_tells_and_cancels_nothing_more() {
    let mut world = World::new(Mode::Full);
    let load = world.driver.load().clone();
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    world.ticks(5, &[&hot, &cool]);
    assert!(!load.is_ready());
    world.driver.stop();
    let (reads, published) = (world.source.reads(), load.hub().stats().published);
    load.set(OVERLOAD, true, "the host says so", world.now());
    assert_eq!(world.ticks(20, &[&hot, &cool]), []);
    assert_eq!((world.source.reads(), load.hub().stats().published), (reads, published + 1));
    assert!(load.is_ready(), "readiness is the host's");
    assert!(hot.cancelled().is_none() && cool.cancelled().is_none() && !world.driver.gauges().overloaded);
    // What hosts ask of it still works.
    assert_eq!(world.driver.streams().cancel_all(EndCause::ShuttingDown), 2);
}

#[test]
fn failed_readings_end_an_overload_after_three_and_a_first_reading_is_none() {
    let admission = admission(AdmissionLimits::default());
    let limit = AdaptiveConcurrency::new(1, 8).unwrap();
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()).concurrency(limit));
    world.source.says(Says::Pending);
    world.ticks(3, &[]);
    assert_eq!(world.driver.gauges().signal_errors, 0, "nothing to compare with is no failure");
    world.source.says(Says::Ratio(1.0));
    world.ticks(4, &[]);
    assert!(!admission.is_accepting() && admission.stats().concurrency_limit.is_some());
    world.source.says(Says::Failed);
    assert_eq!(world.ticks(2, &[]), []);
    assert!(!admission.is_accepting(), "one or two change nothing");
    let lines = world.ticks(1, &[]);
    assert!(matches!(&lines[0].1, Line::Alert(alert) if matches!(**alert, Alert::SignalLost { strikes: 3 })), "{lines:?}");
    assert!(matches!(lines[1].1, Line::OverloadEnded(state) if state.ended == Some(Ended::SignalLost)));
    assert!(admission.is_accepting() && world.driver.load().is_ready());
    assert_eq!(admission.stats().concurrency_limit, None, "what nobody can learn limits nobody");
}

/// Cloud Run's rule is per second, the evictor's per interval: both from one source.
#[test]
fn concurrency_falls_by_one_a_second_while_the_evictor_steps_at_its_own_pace() {
    let admission = admission(AdmissionLimits::default());
    let limit = AdaptiveConcurrency::new(1, 80).unwrap();
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()).concurrency(limit));
    let mut limits = Vec::new();
    let mut began = None;
    for second in 1..=24 {
        let tick = world.tick(1.0);
        assert_eq!(tick.after, Some(Duration::from_secs(1)));
        limits.extend(admission.stats().concurrency_limit);
        if tick.lines.iter().any(|line| matches!(line, Line::OverloadBegan(_))) {
            began = Some(second);
        }
    }
    assert_eq!((limits[0], limits[22]), (80, 58), "{limits:?}");
    // Steps at 1, 6, 11, 16, 21; hot since 1.
    assert_eq!((world.source.reads(), began), (24, Some(16)));
    // One second of nothing in five: the mean is what counts.
    world.source.says(Says::Ratio(0.0));
    world.tick(1.0);
    world.source.says(Says::Ratio(1.0));
    world.tick(1.0);
    let ratio = world.driver.gauges().usage_ratio.expect("it was read");
    assert!((ratio - 0.8).abs() < 1e-9, "{ratio}");
}

/// E27, E28.
#[test]
fn bunched_ticks_step_once_and_a_clock_that_goes_back_only_waits() {
    let mut world = World::new(Mode::Full);
    for (after, reads) in [(5.0, 1), (0.1, 1), (0.0, 1), (4.8, 2), (0.2, 2), (25.0, 3), (-1.0, 3), (1.0, 3), (4.0, 3), (1.0, 4)] {
        let tick = world.tick(after);
        assert_eq!(world.source.reads(), reads, "at {}", world.time);
        assert!(tick.after.is_some_and(|after| after <= Duration::from_secs(5)));
    }
    // Far back: it begins anew from there.
    world.tick(-30.0);
    assert_eq!(world.source.reads(), 5);
}

#[test]
fn next_tick_is_due_when_the_first_of_all_parts_is() {
    let after =
        |builder: EvictorBuilder, more: &dyn Fn(DriverBuilder) -> DriverBuilder| World::with(builder, more).tick(0.0).after;
    let (on, off) = (|| evictor(Mode::Full), || evictor(Mode::Off));
    let watchdog = |builder: DriverBuilder| builder.watchdog(Watchdog::new(WatchdogLimits::default()).unwrap());
    let admitting = |builder: DriverBuilder| builder.admission(admission(AdmissionLimits::default()));
    assert_eq!(after(on(), &|builder| builder), Some(Duration::from_secs(5)));
    assert_eq!(after(on().interval(Duration::from_secs(2)), &watchdog), Some(Duration::from_secs(2)));
    assert_eq!(after(off(), &watchdog), Some(Duration::from_secs(30)));
    assert_eq!(after(on(), &admitting), Some(Duration::from_secs(1)), "those who wait");
    let mut world = World::new(Mode::Full);
    world.tick(5.0);
    assert_eq!(world.tick(2.0).after, Some(Duration::from_secs(3)));
}

#[test]
fn those_who_wait_are_refused_in_time_though_the_evictor_is_off() {
    let admission = admission(AdmissionLimits { hard: 1, ..AdmissionLimits::default() });
    let mut world = World::with(evictor(Mode::Off), |builder| builder.admission(admission.clone()));
    let permit = admission.try_admit(StreamClass::Live, None);
    let mut waiting = std::pin::pin!(admission.admit(StreamClass::Live, None, world.now()));
    let waker = Waker::from(crate::support::CountingWaker::new());
    let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(&waker));
    for _ in 0..9 {
        world.tick(1.0);
        assert!(poll().is_pending());
    }
    world.tick(1.1);
    let Poll::Ready(decision) = poll() else { panic!("10 s are over") };
    assert!(!decision.is_admitted());
    assert_eq!(world.source.reads(), 0);
    drop((permit, decision));
}

#[test]
fn overload_refuses_those_who_wait_and_new_ones_with_its_reason() {
    let admission = admission(AdmissionLimits { hard: 1, ..AdmissionLimits::default() });
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    let permit = admission.try_admit(StreamClass::Live, None);
    let mut waiting = std::pin::pin!(admission.admit(StreamClass::Live, None, world.now() + Duration::from_secs(15)));
    world.ticks(4, &[]);
    let waker = Waker::from(crate::support::CountingWaker::new());
    let Poll::Ready(Decision::Reject(refusal)) = waiting.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("it lasts longer than one would wait")
    };
    assert_eq!(*refusal.reason(), RefusalReason::Overloaded);
    drop(permit);
    let Decision::Reject(refusal) = admission.try_admit(StreamClass::Live, None) else { panic!("it is overloaded") };
    assert_eq!(*refusal.reason(), RefusalReason::Overloaded);
}

#[test]
fn soft_limit_makes_unready_as_a_condition_of_its_own() {
    let admission = admission(AdmissionLimits { soft: 1, ..AdmissionLimits::default() });
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    world.source.says(Says::Ratio(0.1));
    world.tick(5.0);
    let permit = admission.try_admit(StreamClass::Live, None);
    assert!(world.driver.load().is_ready(), "not told yet");
    world.driver.load().set_room(&admission, world.now());
    assert!(!world.driver.load().is_ready(), "as a hook would");
    assert_eq!(world.driver.load().readiness().verdict().reason, format!("{ROOM}: 1 streams, soft limit 1"));
    drop(permit);
    world.tick(5.0);
    assert!(world.driver.load().is_ready(), "and at the next tick at the latest");
}

/// E20.
#[test]
fn autoscaler_is_told_of_the_streams_that_admission_counts() {
    let admission = admission(AdmissionLimits { soft: 12, ..AdmissionLimits::default() });
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    let permits: Vec<_> = (0..7).map(|_| admission.try_admit(StreamClass::Live, None)).collect();
    let streams: Vec<_> = (0..3).map(|_| world.stream(StreamClass::Live, "one")).collect();
    world.source.says(Says::Ratio(0.1));
    world.ticks(2, &[]);
    assert_eq!(world.driver.effective_active(), 7.0, "not the three that are registered");
    world.source.says(Says::Ratio(1.0));
    world.ticks(3, &[]);
    assert!((world.driver.effective_active() - 16.0).abs() < 1e-9, "12 x 1.0 / 0.75");
    drop((permits, streams));
    let world = World::new(Mode::Full);
    let _stream = world.stream(StreamClass::Live, "one");
    assert_eq!(world.driver.effective_active(), 1.0, "without admission those that are registered");
}

#[test]
fn stream_that_does_not_get_on_is_cancelled_by_the_watchdog_and_one_that_does_is_not() {
    let watchdog = Watchdog::new(WatchdogLimits::default()).unwrap();
    let mut world = World::with(evictor(Mode::Off), |builder| builder.watchdog(watchdog.clone()));
    let register = |trace_id| world.driver.streams().register(StreamInfo::new(StreamClass::Live, trace_id), world.now());
    let (stalled, alive) = (register("stalled"), register("alive"));
    let blocks = alive.progress("blocks").expect("there is a watchdog");
    let mut lines = Vec::new();
    for _ in 0..22 {
        blocks.advance(1);
        lines.extend(world.tick(30.0).lines);
    }
    assert_eq!(stalled.cancelled().map(|cancelled| cancelled.cause()), Some(EndCause::Stalled));
    assert_eq!(stalled.cancelled().map(|cancelled| cancelled.cause().code()), Some(Code::DeadlineExceeded));
    assert!(alive.cancelled().is_none());
    let verdicts: Vec<_> = lines.iter().filter(|line| matches!(line, Line::TimedOut(_))).map(ToString::to_string).collect();
    assert_eq!(verdicts.len(), 1, "{lines:?}");
    assert!(verdicts[0].starts_with("request stalled, no block progress: for more than 600s (stalled: "), "{verdicts:?}");
    assert!(lines.iter().any(|line| line.to_string().starts_with("request active for a long time alive ")), "{lines:?}");
    // What takes an hour for one item is ended for that.
    let item = blocks.item();
    for _ in 0..9 {
        world.tick(30.0);
    }
    assert_eq!(alive.cancelled().map(|cancelled| cancelled.cause()), Some(EndCause::DeadlineExceeded));
    drop(item);
}

/// Ticks when it is woken.
struct Ticks(Driver, Instant);

impl Wake for Ticks {
    fn wake(self: Arc<Self>) {
        assert_eq!(self.0.tick(self.1), Tick::default(), "one is under way");
        // Looking is no tick.
        assert!(!self.0.explain().streams.is_empty() && self.0.streams().len() == 2);
    }
}

/// D5, D7.
#[test]
fn waker_may_use_the_driver_and_its_tick_does_nothing() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    let mut token = hot.token();
    let waker = Waker::from(Arc::new(Ticks(world.driver.clone(), world.base + Duration::from_secs(1_000))));
    assert!(token.poll_cancelled(&mut Context::from_waker(&waker)).is_pending());
    let lines = world.ticks(6, &[&hot, &cool]);
    assert_eq!(evicted(&lines), [(30.0, "hot".to_owned())]);
    let lines = world.ticks(3, &[&cool]);
    assert!(!lines.iter().any(|(_, line)| matches!(line, Line::Evicted(_))), "the last burner of all stays");
    assert_eq!(world.source.reads(), 9, "the driver goes on");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[test]
fn tick_in_which_a_waker_panics_is_over_and_the_next_goes_on() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    let mut token = hot.token();
    assert!(token.poll_cancelled(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    world.ticks(5, &[&hot, &cool]);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.ticks(1, &[&hot, &cool])));
    assert!(result.is_err() && hot.cancelled().is_some());
    assert!(world.tick(5.0).after.is_some());
    assert_eq!(world.source.reads(), 7);
}

/// D8.
#[test]
fn waker_that_panics_costs_the_others_of_its_round_nothing() {
    let mut world = World::with(evictor(Mode::Full).max_per_round(Some(2)), |builder| builder);
    let streams = [StreamClass::Dev, StreamClass::Live, StreamClass::CatchUp].map(|class| world.stream(class, "one"));
    let [first, second, third] = &streams;
    let (mut all, mut own) = (world.driver.load().follow(LoadKey::Evictions), second.token());
    let mut token = first.token();
    assert!(token.poll_cancelled(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    let woken = crate::support::CountingWaker::new();
    let waker = Waker::from(Arc::clone(&woken));
    assert!(own.poll_cancelled(&mut Context::from_waker(&waker)).is_pending());
    world.ticks(5, &[first, second, third]);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.ticks(1, &[first, second, third])));
    assert!(result.is_err());
    assert!(first.cancelled().is_some() && second.cancelled().is_some() && third.cancelled().is_none());
    assert_eq!((events(&mut all).len(), woken.wakes()), (2, 1));
    assert_eq!(world.driver.evictions().iter().map(|count| count.count).sum::<u64>(), 2);
    // Nor does it when all are told to go.
    let mut token = third.token();
    assert!(token.poll_cancelled(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    let fourth = world.stream(StreamClass::Live, "one");
    let all = || world.driver.streams().cancel_all(EndCause::ShuttingDown);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)).is_err());
    assert!(third.cancelled().is_some() && fourth.cancelled().is_some());
}

#[test]
fn reading_that_never_has_anything_to_compare_with_keeps_nobody_unready_for_longer_than_the_bound() {
    let admission = admission(AdmissionLimits::default());
    let mut world = World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    world.ticks(4, &[]);
    world.source.says(Says::Pending);
    world.ticks(59, &[]);
    assert!(!world.driver.load().is_ready() && !admission.is_accepting());
    let lines = world.ticks(1, &[]);
    assert!(matches!(lines[..], [(320.0, Line::OverloadEnded(state))] if state.ended == Some(Ended::Forced)), "{lines:?}");
    let said = "ready again by force, still overloaded enforced=true cpu_usage_ratio=1.000 unready_for=300s because=Forced";
    assert_eq!(lines[0].1.to_string(), said);
    assert!(world.driver.load().is_ready() && admission.is_accepting());
    assert_eq!(world.driver.gauges().signal_errors, 0);
}

#[test]
fn parts_that_do_not_fit_are_refused_in_words() {
    let lonely = DriverBuilder::new(EvictorBuilder::new()).concurrency(AdaptiveConcurrency::new(1, 2).unwrap());
    let error = lonely.build().expect_err("nothing would apply it");
    assert_eq!(error, DriverError::ConcurrencyWithoutAdmission);
    assert!(error.to_string().contains("give both, or neither") && error.source().is_none());
    let error = DriverBuilder::new(EvictorBuilder::new().target(0.9)).build().expect_err("target is not below recover");
    assert!(matches!(error, DriverError::Evictor(_)) && error.source().is_some());
}

#[test]
fn warnings_of_the_settings_are_said_once() {
    let mut world = World::with(EvictorBuilder::s0().mode(Mode::Full), |builder| builder);
    let lines = world.ticks(3, &[]);
    let warnings: Vec<_> = lines.iter().filter(|(_, line)| matches!(line, Line::Warning(_))).collect();
    assert!(matches!(warnings[..], [(5.0, Line::Warning(SettingsWarning::TargetNotBelowRecover { .. })), ..]), "{warnings:?}");
    assert!(warnings.iter().all(|(time, _)| *time == 5.0));
}

/// The process's own clock, without groups, and an override: what there is everywhere.
#[test]
fn reader_of_control_groups_is_a_source() {
    let used = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&used);
    let reader = CgroupReader::builder()
        .root("/nowhere/at/all")
        .override_cores(2.0)
        .process_clock(move || Some(Duration::from_millis(clock.load(Ordering::SeqCst))));
    let reader = reader.build().unwrap();
    let driver = DriverBuilder::new(evictor(Mode::Full)).groups(reader).build().unwrap();
    let base = Instant::now();
    let mut lines = Vec::new();
    for tick in 0..=4 {
        lines.extend(driver.tick(base + tick * Duration::from_secs(5)).lines);
        used.fetch_add(9_500, Ordering::SeqCst);
    }
    let gauges = driver.gauges();
    assert_eq!((gauges.quota_cores, gauges.usage_ratio), (Some(2.0), Some(0.95)));
    assert!(matches!(lines[0], Line::Notice(Notice::NoGroups(_))), "{lines:?}");
    assert!(lines.iter().any(|line| matches!(line, Line::Started { mode: Mode::Full, quota_cores: Some(_) })));
    assert!(!driver.load().is_ready(), "0.95 from 5 s on, for 15 s");
}

#[test]
fn too_few_ready_peers_keep_it_ready() {
    let mut world = World::with(evictor(Mode::Full).min_ready_share(Some(0.5)), |builder| builder);
    world.driver.observe_peers(Some(0.2), world.now());
    let lines = world.ticks(6, &[]);
    assert!(world.driver.load().is_ready());
    assert!(lines.iter().any(|(_, line)| line.to_string().contains("0.200 of the fleet is ready, too few")), "{lines:?}");
    world.driver.observe_peers(Some(0.9), world.now());
    world.ticks(1, &[]);
    assert!(!world.driver.load().is_ready());
}
