//! A trace, decided row by row.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use keywake::scaling::{ConfigError, Decision, Driver, Fleet, Sample, Scaler, ScalerBuilder, Stabilization};

use crate::{
    options::Options,
    trace::{Gauge, Row, Trace},
};

/// What was decided at a time.
pub(crate) struct Step {
    pub(crate) seconds: f64,
    pub(crate) running: u32,
    pub(crate) decision: Decision,
}

/// A scaler with the drivers that the trace has numbers for.
pub(crate) fn scaler(trace: &Trace, options: &Options) -> Result<Scaler, ConfigError> {
    let requests = trace.has(Gauge::ConcurrencyOne);
    let mut builder = ScalerBuilder::new().min(options.min).max(options.max);
    if trace.has(Gauge::CpuCores) || trace.has(Gauge::DemandCores) {
        builder = builder.cpus(options.cpus).demand(trace.has(Gauge::DemandCores));
    }
    if requests {
        builder = builder.max_concurrency(options.max_concurrency);
        builder = builder.queue(trace.has(Gauge::Queued)).refusals(trace.has(Gauge::Refused));
    }
    if trace.has(Gauge::Effective) {
        builder = builder.nominal(options.nominal);
    }
    builder.build()
}

/// Decides every row. What runs is what the trace says of it, so that each row is what would have been said then; where it says nothing, it
/// is what was wanted, a start-up later.
pub(crate) fn replay(scaler: &Scaler, trace: &Trace, options: &Options) -> Vec<Step> {
    let began = Instant::now();
    let mut fleet = Fleet::settled(options.from);
    let mut starting: Vec<(f64, u32)> = Vec::new();
    let mut last_request = None;
    let mut window = (options.stabilize > 0.0).then(|| Stabilization::new(Duration::from_secs_f64(options.stabilize)));
    let step = |row: &Row| {
        let now = began + Duration::from_secs_f64(row.seconds);
        starting.retain(|(ready, count)| {
            let is_ready = *ready <= row.seconds;
            if is_ready {
                fleet.running = fleet.running.max(*count);
            }
            !is_ready
        });
        if let Some(running) = row.running {
            // Whoever decided then, wanted what ran.
            fleet = Fleet::settled(running);
        }
        if row.in_flight.is_some_and(|requests| requests > 0) {
            last_request = Some(now);
        }
        let mut sample = sample(row, last_request.or(Some(began)));
        sample.stabilized = window.as_ref().and_then(|window| window.most(now));
        let decision = scaler.decide(&sample, fleet, now);
        if let Some(window) = &mut window {
            window.observe(&decision, now);
        }
        let running = fleet.running;
        fleet.desired = decision.count;
        // What is not wanted any more does not come.
        starting.iter_mut().for_each(|(_, count)| *count = decision.count.min(*count));
        if decision.count < fleet.running {
            fleet.running = decision.count;
        } else if decision.count > fleet.running {
            starting.push((row.seconds + options.start_up, decision.count));
        }
        Step { seconds: row.seconds, running, decision }
    };
    trace.rows.iter().map(step).collect()
}

fn sample(row: &Row, last_request: Option<Instant>) -> Sample {
    let mut sample = Sample::default();
    sample.cpu_cores = row.gauge(Gauge::CpuCores);
    sample.demand_cores = row.gauge(Gauge::DemandCores);
    sample.concurrency_1m = row.gauge(Gauge::ConcurrencyOne);
    sample.concurrency_10m = row.gauge(Gauge::ConcurrencyTen).or(sample.concurrency_1m);
    sample.queued = row.gauge(Gauge::Queued);
    sample.refused = row.gauge(Gauge::Refused);
    sample.effective_streams = row.gauge(Gauge::Effective);
    (sample.in_flight, sample.last_request) = (row.in_flight, last_request);
    sample
}

/// The steps at which another count is wanted than before.
pub(crate) fn changes(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let mut before = None;
    steps.iter().filter(move |step| before.replace(step.decision.count) != Some(step.decision.count))
}

/// For how many rows each driver had the say.
pub(crate) fn winners(steps: &[Step]) -> BTreeMap<Driver, usize> {
    let mut winners = BTreeMap::new();
    for driver in steps.iter().filter_map(|step| step.decision.driver) {
        *winners.entry(driver).or_default() += 1;
    }
    winners
}

#[cfg(test)]
mod tests {
    use keywake::scaling::{Clamp, Reason};

    use super::*;

    fn steps(text: &[u8], options: &Options) -> Vec<Step> {
        let trace = Trace::read(text).unwrap();
        replay(&scaler(&trace, options).unwrap(), &trace, options)
    }

    fn counts(steps: &[Step]) -> Vec<(u32, u32)> {
        steps.iter().map(|step| (step.running, step.decision.count)).collect()
    }

    #[test]
    fn what_is_wanted_runs_a_start_up_later() {
        let options = Options { from: 1, start_up: 90.0, ..Options::default() };
        let text = b"seconds,cpu_cores\n0,1\n60,1\n120,2\n180,2\n240,0.1\n";
        assert_eq!(counts(&steps(text, &options)), [(1, 2), (1, 2), (2, 4), (2, 4), (4, 1)]);
    }

    #[test]
    fn what_is_not_wanted_any_more_does_not_come() {
        let options = Options { start_up: 90.0, ..Options::default() };
        // 20 are asked for, and one before they are there.
        let text = b"seconds,concurrency_1m,queued\n0,48,912\n60,10,0\n120,10,0\n";
        assert_eq!(counts(&steps(text, &options)), [(1, 20), (1, 1), (1, 1)]);
    }

    #[test]
    fn way_down_waits_for_the_window() {
        let options = Options { start_up: 0.0, stabilize: 100.0, ..Options::default() };
        let text = b"seconds,cpu_cores\n0,6\n60,3\n120,3\n";
        assert_eq!(counts(&steps(text, &options)), [(1, 10), (10, 10), (10, 5)]);
    }

    #[test]
    fn what_ran_is_what_the_trace_says() {
        let options = Options { from: 1, ..Options::default() };
        let text = b"seconds,cpu_cores,running\n0,1,1\n60,1,3\n120,1,2\n";
        assert_eq!(counts(&steps(text, &options)), [(1, 2), (3, 2), (2, 2)]);
    }

    #[test]
    fn shipped_day_tells_its_story() {
        let steps = steps(include_bytes!("day.csv"), &Options { max: 40, ..Options::default() });
        let at = |minute: usize| (steps[minute].decision.count, steps[minute].decision.reason);
        assert_eq!([at(14).0, at(15).0, at(16).0], [1, 0, 0], "nobody is there");
        assert_eq!(at(15).1, Reason::Idle);
        // The rush: the processors do not say how much is missing, and whoever is refused does.
        let rush = &steps[180].decision;
        let cpu = rush.votes.iter().find(|vote| vote.driver == Driver::Cpu).unwrap();
        assert_eq!((cpu.count, rush.count, rush.driver), (12, 28, Some(Driver::Refusals)), "{rush}");
        assert!(steps.iter().all(|step| step.decision.clamp == Clamp::None));
        let blind: Vec<_> = steps.iter().filter(|step| !step.decision.is_valid()).collect();
        assert_eq!(blind.len(), 6);
        assert!(blind.iter().all(|step| step.decision.count == 7 && step.running == 7), "blind, it holds");
    }
}
