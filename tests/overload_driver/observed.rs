//! What is logged, and what is told as metrics.

use keywake::{
    load::StreamClass,
    overload::{
        evictor::Mode,
        watchdog::{Watchdog, WatchdogLimits},
    },
};

use crate::world::{Says, World, evictor};

/// E18: the source's fields, under its names.
#[test]
fn lines_have_the_sources_fields() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "3f2a"), world.stream(StreamClass::Live, "cool"));
    hot.set_position(19_000_123);
    let mut lines = world.ticks(6, &[&hot, &cool]);
    world.source.says(Says::Ratio(0.5));
    lines.extend(world.ticks(7, &[&cool]));
    let lines: Vec<_> = lines.into_iter().map(|(time, line)| (time, line.to_string())).collect();
    let [started, began, evicted, ended] = &lines[..] else { panic!("four lines: {lines:?}") };
    assert_eq!(*started, (5.0, "evictor started mode=full quota_cores=4.000".to_owned()));
    assert_eq!(began.0, 20.0);
    assert_eq!(began.1, "processors overloaded enforced=true cpu_usage_ratio=1.000 cpu_demand_ratio=1.000 because=Quota");
    assert_eq!(evicted.0, 30.0);
    let (head, tail) = evicted.1.split_once(" burn_cores=").expect("its burn");
    assert_eq!(head, "evicting stream to relieve the processors trace_id=3f2a class=dev");
    assert!(
        tail.contains(" age=1030s current_block=19000123 cpu_usage_ratio=1.000 cpu_demand_ratio=1.000 cost_cores="),
        "{tail}"
    );
    assert!(tail.ends_with(" reason=saturated"), "{tail}");
    let recovered = "processors recovered enforced=true cpu_usage_ratio=0.500 unready_for=45s because=Recovered";
    assert_eq!(*ended, (65.0, recovered.to_owned()));
}

#[test]
fn trace_id_of_a_client_makes_no_second_line() {
    let watchdog = Watchdog::new(WatchdogLimits::default()).unwrap();
    let mut world = World::with(evictor(Mode::Full), |builder| builder.watchdog(watchdog));
    let hostile = "a\nevicting stream trace_id=b\u{1b}[2J";
    let (hot, cool) = (world.stream(StreamClass::Dev, hostile), world.stream(StreamClass::Live, "cool"));
    let mut lines = world.ticks(6, &[&hot, &cool]);
    lines.extend(world.ticks(200, &[]));
    let of_it: Vec<_> = lines.iter().map(|(_, line)| line.to_string()).filter(|line| line.contains("trace_id=b")).collect();
    for kind in ["evicting stream", "request active", "request stalled"] {
        assert!(of_it.iter().any(|line| line.starts_with(kind)), "{kind}: {of_it:?}");
    }
    assert!(of_it.iter().all(|line| !line.contains(char::is_control) && line.contains("a\\nevicting")), "{of_it:?}");
}

#[cfg(feature = "metrics")]
mod recorded {
    use std::{collections::BTreeMap, time::Duration};

    use keywake::overload::admission::{Admission, AdmissionLimits};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;

    fn recorded(world: &World) -> BTreeMap<String, f64> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || world.driver.record_metrics(world.now()));
        let value = |value| match value {
            #[expect(clippy::cast_precision_loss, reason = "counts of a test")]
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(gauge) => gauge.into_inner(),
            DebugValue::Histogram(_) => panic!("there is none"),
        };
        let name = |key: &metrics::Key| {
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            format!("{}{{{}}}", key.name(), labels.join(","))
        };
        let all = snapshotter.snapshot().into_vec();
        all.into_iter().map(|(key, _, _, recorded)| (name(key.key()), value(recorded))).collect()
    }

    /// E19; section 7.8.
    #[test]
    fn metrics_say_how_it_stands_and_what_is_not_known_is_no_number() {
        let admission = Admission::new(AdmissionLimits { soft: 14, ..AdmissionLimits::default() }).unwrap();
        let watchdog = Watchdog::new(WatchdogLimits::default()).unwrap();
        let mut world =
            World::with(evictor(Mode::Full), |builder| builder.admission(admission.clone()).watchdog(watchdog.clone()));
        let before = recorded(&world);
        assert!(before["tier1_cpu_usage_ratio{}"].is_nan() && before["tier1_cpu_quota_cores{}"].is_nan());
        assert_eq!((before["tier1_ready{}"], before["tier1_cpu_overloaded{}"]), (1.0, 0.0));
        let permit = admission.try_admit(StreamClass::Dev, None);
        let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
        world.ticks(6, &[&hot, &cool]);
        assert!(!admission.try_admit(StreamClass::Dev, None).is_admitted());
        let after = recorded(&world);
        let expected = [
            ("tier1_active_requests{}", 1.0),
            ("tier1_catch_up_requests{}", 0.0),
            ("tier1_cpu_demand_cores{}", 4.0),
            ("tier1_cpu_demand_ratio{}", 1.0),
            ("tier1_cpu_overloaded{}", 1.0),
            ("tier1_cpu_quota_cores{}", 4.0),
            ("tier1_cpu_quota_source{source=leaf}", 0.0),
            ("tier1_cpu_signal_errors_total{}", 0.0),
            ("tier1_cpu_usage_ratio{}", 1.0),
            ("tier1_evicted_requests_total{class=dev,action=cancelled,reason=saturated}", 1.0),
            ("tier1_oldest_request_seconds{}", 1_030.0),
            ("tier1_pending_requests{}", 0.0),
            ("tier1_ready{}", 0.0),
            ("tier1_rejected_requests_total{reason=hard_limit}", 0.0),
            ("tier1_rejected_requests_total{reason=overloaded}", 1.0),
            ("tier1_requests_total{}", 2.0),
            ("tier1_timed_out_requests_total{reason=stalled}", 0.0),
            ("tier1_unready_seconds_total{}", 10.0),
        ];
        for (name, value) in expected {
            assert!((after[name] - value).abs() < 1e-9, "{name} is {}", after[name]);
        }
        assert!((after["tier1_effective_active_requests{}"] - 14.0 / 0.75).abs() < 1e-9);
        assert!(after["tier1_cpu_psi_full_ratio{}"].is_nan() && after["tier1_cpu_throttled_ratio{}"].is_nan());
        assert!(after["tier1_concurrency_limit{}"].is_nan());
        assert!(after["tier1_cpu_unattributed_ratio{}"] > 0.99, "what the test burns is next to nothing");
        drop((permit, Duration::ZERO));
    }

    /// E19: fail open.
    #[test]
    fn overloaded_is_0_again_when_nothing_can_be_read() {
        let mut world = World::new(Mode::Full);
        world.ticks(5, &[]);
        assert_eq!(recorded(&world)["tier1_cpu_overloaded{}"], 1.0);
        world.source.says(Says::Failed);
        world.ticks(3, &[]);
        let lost = recorded(&world);
        assert_eq!((lost["tier1_cpu_overloaded{}"], lost["tier1_cpu_signal_errors_total{}"]), (0.0, 3.0));
        assert!(lost["tier1_cpu_usage_ratio{}"].is_nan());
    }

    /// The table in the docs is what is recorded.
    #[test]
    fn documented_metrics_are_those_that_there_are() {
        let text = include_str!("../../src/overload/driver/metrics.rs");
        let documented: Vec<_> = text
            .lines()
            .filter(|line| line.trim_start().starts_with("/// | `tier1_"))
            .flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`').filter(|part| part.starts_with("tier1_")))
            .collect();
        let admission = Admission::new(AdmissionLimits::default()).unwrap();
        let watchdog = Watchdog::new(WatchdogLimits::default()).unwrap();
        let mut world = World::with(evictor(Mode::Observe), |builder| builder.admission(admission).watchdog(watchdog));
        let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
        world.ticks(6, &[&hot, &cool]);
        let recorded = recorded(&world);
        let names: std::collections::BTreeSet<_> =
            recorded.keys().map(|name| name.split('{').next().unwrap_or_default()).collect();
        assert_eq!(documented.iter().copied().collect::<std::collections::BTreeSet<_>>(), names);
        assert_eq!(recorded["tier1_evicted_requests_total{class=dev,action=observed,reason=saturated}"], 1.0);
    }
}
