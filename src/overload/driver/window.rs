//! Samples of a faster pace, put together for a slower one.

use std::time::Duration;

use crate::load::CpuSample;

/// The samples since the evictor's last step. Rates are averaged by time, which is exact for all but `throttled_share` (a share of periods,
/// and of these there are more or fewer); the quota is the newest.
#[derive(Debug, Default)]
pub(super) struct Window {
    mean: Option<CpuSample>,
}

impl Window {
    pub(super) fn add(&mut self, sample: &CpuSample) {
        let Some(mean) = &mut self.mean else {
            self.mean = Some(*sample);
            return;
        };
        let elapsed = mean.elapsed.saturating_add(sample.elapsed);
        let mix = |before: f64, now: f64| weighted(before, mean.elapsed, now, sample.elapsed);
        let mix_known = |before: Option<f64>, now: Option<f64>| match (before, now) {
            (Some(before), Some(now)) => Some(mix(before, now)),
            (before, now) => now.or(before),
        };
        let mut mixed = *sample;
        mixed.elapsed = elapsed;
        mixed.usage_cores = mix(mean.usage_cores, sample.usage_cores);
        mixed.process_cores = mix(mean.process_cores, sample.process_cores);
        mixed.throttled_share = mix_known(mean.throttled_share, sample.throttled_share);
        mixed.throttled_cores = mix_known(mean.throttled_cores, sample.throttled_cores);
        mixed.some_stalled = mix_known(mean.some_stalled, sample.some_stalled);
        mixed.full_stalled = mix_known(mean.full_stalled, sample.full_stalled);
        *mean = mixed;
    }

    /// What happened since it was last taken; `None`: there was no sample.
    pub(super) fn take(&mut self) -> Option<CpuSample> {
        self.mean.take()
    }
}

fn weighted(a: f64, for_a: Duration, b: f64, for_b: Duration) -> f64 {
    let (for_a, for_b) = (for_a.as_secs_f64(), for_b.as_secs_f64());
    let mean = (a * for_a + b * for_b) / (for_a + for_b);
    if mean.is_finite() { mean } else { b }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn rates_are_averaged_by_time_and_the_newest_quota_counts() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut window = Window::default();
        assert_eq!(window.take(), None);
        for (seconds, usage, full, quota) in [(1, 1.0, Some(0.2), 4.0), (3, 2.0, None, 4.0), (1, 3.0, Some(0.6), 2.0)] {
            let mut sample = CpuSample::new(now, seconds * second, usage);
            (sample.full_stalled, sample.quota_cores) = (full, Some(quota));
            window.add(&sample);
        }
        let mean = window.take().unwrap();
        assert_eq!((mean.elapsed, mean.usage_cores, mean.quota_cores), (5 * second, 2.0, Some(2.0)));
        assert_eq!(mean.throttled_cores, None);
        assert!((mean.full_stalled.unwrap() - 0.28).abs() < 1e-12, "{mean:?}");
        assert_eq!(window.take(), None, "taken");
    }

    #[test]
    fn samples_over_no_time_make_no_figure_odd() {
        let mut window = Window::default();
        window.add(&CpuSample::new(Instant::now(), Duration::ZERO, 1.0));
        window.add(&CpuSample::new(Instant::now(), Duration::ZERO, 2.0));
        assert_eq!(window.take().unwrap().usage_cores, 2.0);
    }
}
