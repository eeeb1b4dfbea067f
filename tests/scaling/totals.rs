//! Short ways to say what a fleet uses.

use std::time::{Duration, Instant};

use keywake::scaling::{Decision, Driver, Fleet, Sample, Scaler, ScalerBuilder, Vote};

pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Of one CPU per instance.
pub(crate) fn by_cpu() -> Scaler {
    ScalerBuilder::new().cpus(1.0).build().expect("settings that work")
}

pub(crate) fn cores(cores: f64) -> Sample {
    let mut sample = Sample::default();
    sample.cpu_cores = Some(cores);
    sample
}

pub(crate) fn requests(minute: f64, ten_minutes: f64) -> Sample {
    let mut sample = Sample::default();
    (sample.concurrency_1m, sample.concurrency_10m) = (Some(minute), Some(ten_minutes));
    sample
}

/// What is decided where `count` are wanted and run.
pub(crate) fn decide(scaler: &Scaler, sample: &Sample, count: u32) -> Decision {
    scaler.decide(sample, Fleet::settled(count), Instant::now())
}

pub(crate) fn count(scaler: &Scaler, sample: &Sample, of: u32) -> u32 {
    decide(scaler, sample, of).count
}

#[track_caller]
pub(crate) fn vote(decision: &Decision, driver: Driver) -> Vote {
    *decision.votes.iter().find(|vote| vote.driver == driver).expect("it is there")
}
