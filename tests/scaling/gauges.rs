//! AS-26 and AS-31: gauges that do not fall when load is shed, and means that are told right.

use std::time::Instant;

use keywake::scaling::{Backlog, Driver, History, Sample, Scaler, ScalerBuilder, Unusable, Verdict, refused_streams};

use crate::totals::{cores, count, decide, requests, seconds, vote};

fn by_streams() -> Scaler {
    ScalerBuilder::new().cpus(1.0).max_concurrency(80).queue(true).refusals(true).max(1000).build().expect("settings that work")
}

#[test]
fn as_31_effective_gauge_asks_where_the_count_of_streams_would_not() {
    // Substreams' example: 10, 5 and 4 streams are left, and what they burn is 42 of nominal cost, 12 an instance.
    let scaler = ScalerBuilder::new().nominal(12).build().unwrap();
    let of = |effective| {
        let mut sample = Sample::default();
        sample.effective_streams = Some(effective);
        sample
    };
    assert_eq!(count(&scaler, &of(10.0 + 16.0 + 16.0), 3), 4);
    assert_eq!(count(&scaler, &of(10.0 + 5.0 + 4.0), 3), 2, "the plain count would scale down");
    let at_target = decide(&scaler, &of(36.0), 3);
    assert_eq!(vote(&at_target, Driver::Effective).verdict, Verdict::Within, "its target is in the gauge");
}

#[test]
fn demand_asks_for_what_use_cannot_show() {
    let scaler = ScalerBuilder::new().cpus(1.0).demand(true).build().unwrap();
    let mut sample = cores(4.0);
    sample.demand_cores = Some(16.0);
    let decision = decide(&scaler, &sample, 4);
    assert_eq!((decision.count, decision.driver), (27, Some(Driver::Demand)));
    assert_eq!(vote(&decision, Driver::Demand).utilisation, Some(4.0), "it is not cut at what there is");
    sample.demand_cores = None;
    let decision = decide(&scaler, &sample, 4);
    assert_eq!((decision.count, decision.driver), (7, Some(Driver::Cpu)), "its silence does not hold others down");
    assert_eq!(decision.unusable().collect::<Vec<_>>(), [(Driver::Demand, Unusable::Missing)]);
}

#[test]
fn as_26_refused_and_queued_requests_count_as_load() {
    let mut sample = requests(80.0, 80.0);
    (sample.cpu_cores, sample.queued, sample.refused) = (Some(0.5), Some(0.0), Some(0.0));
    assert_eq!(count(&by_streams(), &sample, 1), 2);
    sample.queued = Some(160.0);
    let decision = decide(&by_streams(), &sample, 1);
    assert_eq!((decision.count, decision.driver), (5, Some(Driver::Queue)));
    sample.refused = Some(240.0);
    let decision = decide(&by_streams(), &sample, 1);
    assert_eq!((decision.count, decision.driver), (10, Some(Driver::Refusals)));
    assert_eq!(vote(&decision, Driver::Refusals).utilisation, Some(6.0));
}

#[test]
fn shedding_back_to_the_target_does_not_look_like_rest() {
    // 400 come to a fleet for 100; what is above is refused, so that concurrency and use stand at their targets.
    let mut sample = requests(48.0, 48.0);
    (sample.cpu_cores, sample.queued) = (Some(0.6), Some(0.0));
    sample.refused = refused_streams(3120, seconds(60), seconds(1));
    let decision = decide(&by_streams(), &sample, 1);
    assert_eq!([Driver::Cpu, Driver::Concurrency].map(|driver| vote(&decision, driver).verdict), [Verdict::Within; 2]);
    assert_eq!((decision.count, decision.driver), (3, Some(Driver::Refusals)), "100 / 80 / 0.6");
}

#[test]
fn room_that_instances_do_not_take_is_none() {
    let scaler = ScalerBuilder::new().max_concurrency(80).adaptive(true).queue(true).build().unwrap();
    let mut sample = requests(40.0, 40.0);
    (sample.queued, sample.adaptive_limits) = (Some(20.0), Some([20, 20].into_iter().collect()));
    assert_eq!(vote(&decide(&scaler, &sample, 2), Driver::Queue).count, 5, "60 / 20 / 0.6, not 60 / 80 / 0.6");
}

#[test]
fn refused_ones_are_counted_by_how_long_each_would_stay() {
    assert_eq!(refused_streams(600, seconds(60), seconds(3)), Some(30.0));
    assert_eq!(refused_streams(0, seconds(60), seconds(3)), Some(0.0));
    assert_eq!(refused_streams(5, seconds(0), seconds(3)), None, "not 5 / 0");
}

#[test]
fn backlog_asks_for_what_comes_and_for_what_lies() {
    let scaler = ScalerBuilder::new().backlog(1000.0, seconds(60)).build().unwrap();
    for (arriving, unread, asked) in [(600.0, 0.0, 1), (1800.0, 0.0, 3), (600.0, 72_000.0, 3), (600.0, 144_000.0, 5)] {
        let mut sample = Sample::default();
        sample.backlog = Some(Backlog { arriving, unread });
        let decision = decide(&scaler, &sample, 1);
        assert_eq!(decision.count, asked, "{arriving} a second and {unread}: {decision}");
    }
    for (arriving, unread, why) in [(f64::NAN, 0.0, Unusable::NotANumber), (1.0, -1.0, Unusable::Negative)] {
        let mut sample = Sample::default();
        sample.backlog = Some(Backlog { arriving, unread });
        assert_eq!(decide(&scaler, &sample, 7).unusable().collect::<Vec<_>>(), [(Driver::Backlog, why)]);
    }
}

#[test]
fn mean_is_over_what_was_measured_and_of_the_last_minute_only() {
    let began = Instant::now();
    let at = |second| began + seconds(second);
    let mut minute = History::new(seconds(60));
    assert_eq!((minute.mean(began), minute.is_complete(began)), (None, false));
    minute.observe(Some(9.0), at(0), at(30));
    let close = |mean: Option<f64>, to: f64| (mean.unwrap() - to).abs() < 1e-9;
    minute.observe(Some(1.0), at(30), at(60));
    assert!(close(minute.mean(at(60)), 5.0));
    assert!(close(minute.mean(at(45)), 19.0 / 3.0), "of a span, what lies before now");
    assert!(close(minute.mean(at(75)), 11.0 / 3.0), "15 s at 9 and 30 s at 1 are left");
    minute.observe(Some(1.0), at(60), at(90));
    assert!(close(minute.mean(at(90)), 1.0), "what is older is gone");
    assert!(minute.is_complete(at(90)) && minute.is_complete(at(96)) && !minute.is_complete(at(97)));
    assert_eq!(minute.mean(at(150)), None, "nothing of it was measured");
}

#[test]
fn mean_learns_nothing_of_clocks_that_go_back_and_numbers_that_are_none() {
    let began = Instant::now();
    let at = |second| began + seconds(second);
    let mut minute = History::new(seconds(60));
    minute.observe(Some(2.0), at(10), at(20));
    minute.observe(Some(50.0), at(30), at(25));
    minute.observe(Some(50.0), at(5), at(15));
    for odd in [None, Some(f64::NAN), Some(f64::INFINITY), Some(-3.0)] {
        minute.observe(odd, at(20), at(30));
    }
    assert_eq!(minute.mean(at(30)), Some(2.0));
}

#[test]
fn mean_goes_on_where_the_clock_has_gone_back_far() {
    let began = Instant::now();
    let at = |second| began + seconds(second);
    let mut minute = History::new(seconds(60));
    minute.observe(Some(2.0), at(1000), at(1010));
    minute.observe(Some(8.0), at(945), at(955));
    assert_eq!(minute.mean(at(1010)), Some(2.0), "a little: it waits");
    minute.observe(Some(8.0), at(0), at(10));
    assert_eq!(minute.mean(at(10)), Some(8.0));
}
