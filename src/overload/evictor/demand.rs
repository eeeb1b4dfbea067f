//! What the group would use if it were let: the kernel cuts usage to the quota, however much more is wanted.

use std::{collections::VecDeque, time::Duration};

use super::MOST_CORES;
use crate::load::CpuSample;

/// Over how many ticks demand and burn are averaged: one tick of 5 s misjudges bursts.
pub(super) const TICKS: usize = 3;
/// The most by which usage is corrected: near a share of 1, the smallest error of pressure would make it anything.
const MAX_CORRECTION: f64 = 4.0;

/// A share that a machine told, if it can be one.
pub(super) fn share(told: Option<f64>) -> Option<f64> {
    told.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0))
}

/// The demand behind one sample, in cores.
///
/// With pressure it is usage / (1 - f), f being the share of time in which all tasks were stalled; measured, that came within 3% of what
/// was wanted of quotas of 1 to 1.5 cores. Without, what stood throttled is added to the usage. Without either, it is the usage.
pub(super) fn demand_cores(sample: &CpuSample) -> f64 {
    let usage = sample.usage_cores;
    if let Some(stalled) = share(sample.full_stalled) {
        return usage * (1.0 / (1.0 - stalled)).min(MAX_CORRECTION);
    }
    let throttled = sample.throttled_cores.filter(|cores| cores.is_finite() && *cores > 0.0);
    throttled.map_or(usage, |throttled| (usage + throttled).min(usage * MAX_CORRECTION))
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    elapsed: Duration,
    demand: f64,
    usage: f64,
    own: f64,
}

/// Demand and usage over the last ticks.
#[derive(Debug, Default)]
pub(super) struct Demand {
    ticks: VecDeque<Tick>,
}

impl Demand {
    pub(super) fn observe(&mut self, sample: &CpuSample) {
        if self.ticks.len() == TICKS {
            self.ticks.pop_front();
        }
        // What a process cannot have used is not what it used.
        let own = Some(sample.process_cores).filter(|own| (0.0..=MOST_CORES).contains(own)).unwrap_or(sample.usage_cores);
        let (elapsed, demand, usage) = (sample.elapsed, demand_cores(sample), sample.usage_cores);
        self.ticks.push_back(Tick { elapsed, demand, usage, own });
    }

    /// After an eviction: what was wanted before says nothing of what is wanted now.
    pub(super) fn forget(&mut self) {
        self.ticks.clear();
    }

    fn mean(&self, of: impl Fn(&Tick) -> f64) -> Option<f64> {
        let time: f64 = self.ticks.iter().map(|tick| tick.elapsed.as_secs_f64()).sum();
        let sum: f64 = self.ticks.iter().map(|tick| tick.elapsed.as_secs_f64() * of(tick)).sum();
        (time > 0.0).then(|| sum / time)
    }

    /// In cores. `None`: no tick yet.
    pub(super) fn cores(&self) -> Option<f64> {
        self.mean(|tick| tick.demand)
    }

    /// The group's usage, in cores.
    pub(super) fn usage_cores(&self) -> Option<f64> {
        self.mean(|tick| tick.usage)
    }

    /// The process's own usage, in cores.
    pub(super) fn own_cores(&self) -> Option<f64> {
        self.mean(|tick| tick.own)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn sample(usage: f64) -> CpuSample {
        CpuSample::new(Instant::now(), Duration::from_secs(5), usage)
    }

    #[test]
    fn pressure_tells_the_demand_of_the_quiet_box_within_3_percent() {
        // C, D, F, I: usage, full, what was wanted.
        for (usage, full, wanted) in [(1.0, 0.5, 2.0), (1.0, 0.5, 2.0), (1.001, 0.43, 1.8), (1.5, 0.25, 2.0)] {
            let sample = CpuSample { full_stalled: Some(full), ..sample(usage) };
            let demand = demand_cores(&sample);
            assert!((demand / wanted - 1.0).abs() < 0.03, "{demand} for {wanted}");
        }
    }

    #[test]
    fn without_pressure_throttled_time_tells_the_demand() {
        // I: 2.44 s over 5 s, summed over its processors.
        let throttled = CpuSample { throttled_cores: Some(2.44 / 5.0), ..sample(1.5) };
        assert!((demand_cores(&throttled) - 2.0).abs() < 0.02);
        assert!((demand_cores(&sample(1.5)) - 1.5).abs() < 1e-12, "without either, what is used");
    }

    #[test]
    fn correction_stops_at_four_times_and_never_yields_what_is_no_number() {
        for full in [0.76, 0.999, 1.0, 7.0, f64::INFINITY] {
            let demand = demand_cores(&CpuSample { full_stalled: Some(full), ..sample(1.0) });
            assert!((1.0..=4.0).contains(&demand), "{full}: {demand}");
        }
        for odd in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            let sample = CpuSample { full_stalled: Some(odd), throttled_cores: Some(odd), ..sample(1.0) };
            assert!((demand_cores(&sample) - 1.0).abs() < 1e-12, "{odd}");
        }
        assert!((demand_cores(&CpuSample { throttled_cores: Some(1e9), ..sample(1.0) }) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn demand_is_the_mean_of_three_ticks_by_their_time() {
        let mut demand = Demand::default();
        assert_eq!(demand.cores(), None);
        for (seconds, usage) in [(5, 100.0), (5, 1.0), (5, 2.0), (10, 3.0)] {
            demand.observe(&CpuSample { elapsed: Duration::from_secs(seconds), ..sample(usage) });
        }
        assert!((demand.cores().unwrap() - 45.0 / 20.0).abs() < 1e-12, "the first is forgotten");
        demand.forget();
        assert_eq!(demand.cores(), None);
    }
}
