//! AS-05, AS-23 and AS-28: defaults, and what is refused before it runs.

use std::time::Duration;

use keywake::scaling::{ConfigError, Driver, ScalerBuilder};

use crate::totals::{cores, count, decide, requests, seconds};

#[test]
fn as_05_targets_are_sixty_percent_and_may_be_ten_to_ninety_five() {
    let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(10).build().unwrap();
    assert_eq!(count(&scaler, &requests(0.0, 0.0), 10), 10, "no cores are known");
    let mut sample = requests(30.0, 30.0);
    sample.cpu_cores = Some(6.0);
    let asked: Vec<_> = decide(&scaler, &sample, 1).votes.iter().map(|vote| vote.count).collect();
    assert_eq!(asked, [10, 5]);
    for (target, asked) in [(0.10, 60), (0.95, 7)] {
        let scaler = ScalerBuilder::new().cpus(1.0).cpu_target(target).build().unwrap();
        assert_eq!(count(&scaler, &cores(6.0), 1), asked);
    }
    for target in [0.0999, 0.9501, 0.0, -0.6, 60.0, f64::NAN, f64::INFINITY] {
        let of_cpu = ScalerBuilder::new().cpus(1.0).cpu_target(target).build().unwrap_err();
        assert!(matches!(of_cpu, ConfigError::Target { setting: "cpu_target", .. }), "{target}: {of_cpu}");
        let of_requests = ScalerBuilder::new().max_concurrency(1).concurrency_target(target).build().unwrap_err();
        assert!(matches!(of_requests, ConfigError::Target { setting: "concurrency_target", .. }), "{target}");
    }
}

#[test]
fn as_23_there_is_a_limit_by_default() {
    assert_eq!(count(&ScalerBuilder::new().cpus(1.0).build().unwrap(), &cores(1e6), 90), 100);
}

#[test]
fn as_28_what_cannot_work_is_refused_when_it_is_built() {
    let new = ScalerBuilder::new;
    for value in [0.0, -1.0, f64::INFINITY] {
        assert_eq!(new().cpus(value).build().unwrap_err(), ConfigError::Cpus { value });
    }
    assert!(matches!(new().cpus(f64::NAN).build().unwrap_err(), ConfigError::Cpus { .. }));
    for (containers, value) in [(&[][..], 0.0), (&[2.0, -1.0], -1.0), (&[2.0, 0.0], 0.0), (&[1.0, f64::INFINITY], f64::INFINITY)]
    {
        assert_eq!(new().containers(containers).build().unwrap_err(), ConfigError::Cpus { value }, "{containers:?}");
    }
    let zero = |setting| ConfigError::Zero { setting };
    assert_eq!(new().max_concurrency(0).build().unwrap_err(), zero("max_concurrency"));
    assert_eq!(new().cpus(1.0).runnable_threads(0).build().unwrap_err(), zero("runnable_threads"));
    assert_eq!(new().nominal(0).build().unwrap_err(), zero("nominal"));
    for (rate, within) in [(0.0, seconds(1)), (f64::NAN, seconds(1)), (1.0, Duration::ZERO)] {
        assert_eq!(new().backlog(rate, within).build().unwrap_err(), zero("backlog"));
    }
    for value in [1.0, -0.1, 7.0] {
        assert_eq!(new().cpus(1.0).tolerance(value).build().unwrap_err(), ConfigError::Tolerance { value });
    }
    assert_eq!(new().cpus(1.0).max(0).build().unwrap_err(), ConfigError::MaxZero);
    assert_eq!(new().cpus(1.0).min(6).max(5).build().unwrap_err(), ConfigError::MinAboveMax { min: 6, max: 5 });
    assert_eq!(count(&new().cpus(1.0).min(5).max(5).build().unwrap(), &cores(9.0), 5), 5, "which can work");
    assert_eq!(new().build().unwrap_err(), ConfigError::NoDriver);
}

#[test]
fn driver_without_its_capacity_is_refused_with_the_setting_that_lacks() {
    let new = ScalerBuilder::new;
    for (builder, driver, setting) in [
        (new().demand(true), Driver::Demand, "cpus"),
        (new().cpus(1.0).queue(true), Driver::Queue, "max_concurrency"),
        (new().refusals(true), Driver::Refusals, "max_concurrency"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error, ConfigError::NoCapacity { driver, setting });
        assert!(error.to_string().contains(setting), "{error}");
    }
}

#[test]
fn each_error_says_what_to_do() {
    let new = ScalerBuilder::new;
    for (builder, words) in [
        (new(), "nothing asks for instances: set cpus, max_concurrency, nominal or backlog, or a fixed count"),
        (new().cpus(1.0).cpu_target(0.05), "cpu_target is 0.05: say one from 0.10 to 0.95"),
        (new().cpus(1.0).max(0), "at most 0 instances: say at least 1, or fixed(0) to have none"),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), words);
    }
}
