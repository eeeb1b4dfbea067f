//! AS-01 to AS-16 and AS-26 to AS-31: what drivers ask for, and which wins.

use std::time::Instant;

use keywake::scaling::{AdaptiveLimits, Clamp, Driver, Fleet, Sample, ScalerBuilder, Unusable, Verdict, effective_cpus};

use crate::totals::{by_cpu, cores, count, decide, requests, vote};

#[test]
fn as_01_cpu_asks_for_the_fleets_sum_over_one_instance_over_the_target() {
    let scaler = ScalerBuilder::new().cpus(2.0).build().unwrap();
    for (used, running, asked) in [(12.0, 6, 10), (12.0, 100, 10), (1.2, 6, 1), (1.21, 6, 2)] {
        assert_eq!(count(&scaler, &cores(used), running), asked, "{used} cores of the whole fleet of {running}");
    }
}

#[test]
fn as_02_concurrency_takes_the_larger_of_its_two_means() {
    let scaler = ScalerBuilder::new().max_concurrency(80).build().unwrap();
    assert_eq!(count(&scaler, &requests(200.0, 260.0), 4), 6);
    assert_eq!(count(&scaler, &requests(260.0, 200.0), 4), 6);
    assert_eq!(count(&scaler, &requests(200.0, 200.0), 2), 5);
}

#[test]
fn as_03_adaptive_driver_takes_each_instances_limit_for_its_capacity() {
    let scaler = ScalerBuilder::new().max_concurrency(80).adaptive(true).build().unwrap();
    let mut sample = requests(240.0, 240.0);
    for (limits, asked) in [([80, 80], 5), ([60, 60], 7), ([40, 80], 7), ([1, 1], 400)] {
        sample.adaptive_limits = Some(limits.into_iter().collect());
        let decision = decide(&scaler, &sample, 2);
        assert_eq!(vote(&decision, Driver::Adaptive).count, asked, "{limits:?}");
    }
    // The last minute counts, and not the ten before.
    sample.concurrency_10m = Some(2400.0);
    assert_eq!(vote(&decide(&scaler, &sample, 2), Driver::Adaptive).count, 400);
}

#[test]
fn as_04_largest_vote_wins_and_its_driver_is_told() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).build().unwrap();
    let mut sample = requests(240.0, 240.0);
    for (used, winner, asked) in [(1.5, Driver::Concurrency, 5), (3.0, Driver::Cpu, 5), (3.1, Driver::Cpu, 6)] {
        sample.cpu_cores = Some(used);
        let decision = decide(&scaler, &sample, 2);
        assert_eq!((decision.count, decision.driver), (asked, Some(winner)), "{decision}");
        assert_eq!(decision.votes.len(), 2, "every driver is heard");
    }
}

#[test]
fn as_06_tolerance_is_a_tenth_of_the_target_and_includes_its_edges() {
    for (used, count_after, verdict) in [
        (5.4, 10, Verdict::Within),
        (6.0, 10, Verdict::Within),
        (6.6, 10, Verdict::Within),
        (6.61, 12, Verdict::Above),
        (5.39, 9, Verdict::Below),
    ] {
        let decision = decide(&by_cpu(), &cores(used), 10);
        assert_eq!((decision.count, vote(&decision, Driver::Cpu).verdict), (count_after, verdict), "{used} cores");
    }
    let strict = ScalerBuilder::new().cpus(1.0).tolerance(0.0).build().unwrap();
    assert_eq!([5.99, 6.0, 6.01].map(|used| count(&strict, &cores(used), 10)), [10, 10, 11]);
}

#[test]
fn as_07_outside_the_band_the_answer_is_of_use_alone_and_rounded_up() {
    for running in [1, 2, 3, 6, 17, 90] {
        assert_eq!(count(&by_cpu(), &cores(2.46), running), 5, "4.1 are needed, {running} run");
    }
}

#[test]
fn as_08_four_point_one_needed_has_two_counts_that_stay() {
    assert_eq!([3, 4, 5].map(|running| count(&by_cpu(), &cores(2.46), running)), [5, 4, 5]);
}

#[test]
fn as_09_count_falls_only_when_use_is_more_than_a_tenth_below_the_target() {
    assert_eq!([5.4, 5.399_999].map(|used| count(&by_cpu(), &cores(used), 10)), [10, 9]);
}

#[test]
fn as_10_no_driver_is_for_memory() {
    let names = Driver::ALL.map(Driver::name);
    assert_eq!(names, ["cpu", "concurrency", "adaptive", "queue", "refusals", "effective", "demand", "backlog"]);
}

#[test]
fn as_11_containers_limits_are_added() {
    let scaler = ScalerBuilder::new().containers(&[1.0, 0.5]).build().unwrap();
    assert_eq!(count(&scaler, &cores(4.5), 2), 5);
}

#[test]
fn as_12_cpus_that_no_thread_can_use_do_not_count() {
    assert_eq!([effective_cpus(2.0, Some(1)), effective_cpus(2.0, None), effective_cpus(0.5, Some(1))], [1.0, 2.0, 0.5]);
    assert!(effective_cpus(f64::NAN, Some(1)).is_nan(), "one thread does not make a number of it");
    let by_vcpu = ScalerBuilder::new().cpus(2.0).build().unwrap();
    let by_thread = ScalerBuilder::new().cpus(2.0).runnable_threads(1).build().unwrap();
    // Eight instances, each with its one thread at its wall.
    let (misled, right) = (decide(&by_vcpu, &cores(8.0), 8), decide(&by_thread, &cores(8.0), 8));
    assert_eq!((misled.count, vote(&misled, Driver::Cpu).utilisation), (7, Some(0.5)), "scales down a fleet that is full");
    assert_eq!((right.count, vote(&right, Driver::Cpu).utilisation), (14, Some(1.0)));
}

#[test]
fn as_16_limit_that_background_work_has_lowered_raises_the_count() {
    let scaler = ScalerBuilder::new().max_concurrency(80).adaptive(true).build().unwrap();
    let mut sample = requests(96.0, 96.0);
    sample.adaptive_limits = Some([80, 80].into_iter().collect());
    assert_eq!(count(&scaler, &sample, 2), 2);
    sample.adaptive_limits = Some([40, 40].into_iter().collect());
    let decision = decide(&scaler, &sample, 2);
    assert_eq!((decision.count, decision.driver), (4, Some(Driver::Adaptive)), "80 is never reached: the limits are why");
}

#[test]
fn as_26_capped_driver_grows_by_two_thirds_a_step_and_the_queue_says_all_at_once() {
    let mut grown = vec![1];
    for _ in 0..9 {
        let running = grown[grown.len() - 1];
        let scaler = ScalerBuilder::new().cpus(1.0).max(1000).build().unwrap();
        grown.push(count(&scaler, &cores(f64::from(running)), running));
    }
    assert_eq!(grown, [1, 2, 4, 7, 12, 20, 34, 57, 95, 159]);
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).queue(true).max(1000).build().unwrap();
    let mut sample = requests(80.0, 80.0);
    (sample.cpu_cores, sample.queued) = (Some(1.0), Some(7552.0));
    let decision = decide(&scaler, &sample, 1);
    assert_eq!((decision.count, decision.driver), (159, Some(Driver::Queue)), "in one step");
}

#[test]
fn as_27_what_says_nothing_keeps_the_count_and_is_told() {
    for (given, why) in [
        (Some(f64::NAN), Unusable::NotANumber),
        (Some(f64::INFINITY), Unusable::Infinite),
        (Some(f64::NEG_INFINITY), Unusable::Infinite),
        (Some(-0.1), Unusable::Negative),
        (Some(1e300), Unusable::TooLarge),
        (Some(0.0), Unusable::Zero),
        (None, Unusable::Missing),
    ] {
        let mut sample = Sample::default();
        sample.cpu_cores = given;
        let decision = decide(&by_cpu(), &sample, 6);
        assert_eq!((decision.count, decision.is_valid()), (6, false), "{given:?}");
        assert_eq!(decision.unusable().collect::<Vec<_>>(), [(Driver::Cpu, why)]);
        assert!(decision.to_string().contains(&why.to_string()), "{decision}");
    }
}

#[test]
fn as_27_one_drivers_silence_lets_others_raise_the_count_and_not_lower_it() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).build().unwrap();
    assert_eq!(count(&scaler, &requests(480.0, 480.0), 6), 10);
    let decision = decide(&scaler, &requests(48.0, 48.0), 6);
    assert_eq!((decision.count, decision.is_valid()), (6, false));
}

#[test]
fn as_29_limits_come_last_also_where_the_band_holds() {
    let within = |min, max| ScalerBuilder::new().cpus(1.0).min(min).max(max).build().unwrap();
    let held = decide(&within(0, 8), &cores(7.2), 12);
    assert_eq!((held.count, held.recommended, held.clamp, held.over_max), (8, 12, Clamp::Max, 4));
    let cut = decide(&within(0, 5), &cores(4.2), 3);
    assert_eq!((cut.count, cut.recommended, cut.clamp, cut.over_max), (5, 7, Clamp::Max, 0));
    let raised = decide(&within(3, 5), &cores(0.1), 3);
    assert_eq!((raised.count, raised.recommended, raised.clamp), (3, 1, Clamp::Min));
    assert_eq!(decide(&within(3, 5), &Sample::default(), 1).count, 3, "also where nothing is known");
}

#[test]
fn as_30_ceilings_and_edges_are_exact() {
    assert_eq!(count(&by_cpu(), &cores(4.2), 3), 7, "in floating point, 8");
    assert_eq!(count(&by_cpu(), &cores(0.66 * 10.0), 10), 10, "in floating point, 12");
    // All that are exactly a number of instances, in thousandths of a core.
    let scaler = ScalerBuilder::new().cpus(1.0).max(u32::MAX).build().unwrap();
    for needed in 1..2000_u32 {
        assert_eq!(count(&scaler, &cores(f64::from(needed * 600) / 1000.0), needed * 2), needed);
    }
}

#[test]
fn limits_of_instances_are_known_by_their_sum() {
    let limits: AdaptiveLimits = [79, 80].into_iter().collect();
    assert_eq!(limits, AdaptiveLimits { total: 159, instances: 2 });
}

#[test]
fn votes_tell_what_an_operator_needs() {
    let decision = by_cpu().decide(&cores(2.46), Fleet { desired: 3, running: 3 }, Instant::now());
    assert_eq!(decision.to_string(), "5 instances by cpu; cpu asks for 5: use 0.820, above its band");
    let blind = decide(&by_cpu(), &Sample::default(), 1);
    assert_eq!(blind.to_string(), "1 instance, held: no number can be used; cpu asks for 1: unusable (missing)");
}
