//! What a group used, and how often it was stopped: `cpu.stat` of both versions, and `cpuacct.usage`.

use std::time::Duration;

use super::{lines, number, only_number, words};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const CPU_STAT: &str = "cpu.stat";

/// The counters of a group, since it was made. What the file does not say is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// Processor time used.
    pub usage: Option<Duration>,
    /// Of it, outside the kernel.
    pub user: Option<Duration>,
    /// Of it, within the kernel.
    pub system: Option<Duration>,
    /// Periods of the quota in which the group had work.
    pub periods: Option<u64>,
    /// Of these, the ones in which it was throttled.
    pub throttled_periods: Option<u64>,
    /// For how long it was throttled, summed over processors.
    pub throttled: Option<Duration>,
    /// Periods in which it used more than the quota.
    pub bursts: Option<u64>,
    /// What it used beyond the quota.
    pub burst: Option<Duration>,
}

impl CpuStat {
    /// Of all periods there ever were, the share in which the group was throttled; `None` where there was none.
    #[must_use]
    pub fn throttled_share(&self) -> Option<f64> {
        let (periods, throttled) = (self.periods?, self.throttled_periods?);
        (periods > 0).then(|| (throttled as f64 / periods as f64).min(1.0))
    }
}

/// `cpu.stat` of version 2: `usage_usec` must be there, all else may.
///
/// # Errors
/// No `usage_usec`, or a line with a known key and not one number.
pub fn cpu_stat(text: &[u8]) -> Result<CpuStat, ParseCgroupError> {
    let stat = scan(text)?;
    if stat.usage.is_none() {
        return Err(ParseCgroupError::new(CPU_STAT, 1, b"", ParseFault::MissingKey("usage_usec")));
    }
    Ok(stat)
}

/// `cpu.stat` of version 1, which says nothing of usage; its times are in nanoseconds (`throttled_time`).
///
/// # Errors
/// A line with a known key and not one number.
pub fn cpu_stat_v1(text: &[u8]) -> Result<CpuStat, ParseCgroupError> {
    scan(text).map(|stat| CpuStat { usage: None, user: None, system: None, ..stat })
}

/// `cpuacct.usage` of version 1, in nanoseconds. (`cpuacct.stat` is sampled by ticks and charges whoever runs at one.)
///
/// # Errors
/// Not one number.
pub fn cpuacct_usage(text: &[u8]) -> Result<Duration, ParseCgroupError> {
    only_number("cpuacct.usage", text).map(Duration::from_nanos)
}

/// Lines of a key and a number, in any order. Of two with one key the later counts.
fn scan(text: &[u8]) -> Result<CpuStat, ParseCgroupError> {
    let mut stat = CpuStat::default();
    for (at, line) in lines(text) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        let mut value = || match (words.next(), words.next()) {
            (Some(word), None) => number(CPU_STAT, at, word),
            _ => Err(ParseCgroupError::new(CPU_STAT, at, line, ParseFault::Fields("a key and a number are"))),
        };
        match key {
            b"usage_usec" => stat.usage = Some(Duration::from_micros(value()?)),
            b"user_usec" => stat.user = Some(Duration::from_micros(value()?)),
            b"system_usec" => stat.system = Some(Duration::from_micros(value()?)),
            b"nr_periods" => stat.periods = Some(value()?),
            b"nr_throttled" => stat.throttled_periods = Some(value()?),
            b"throttled_usec" => stat.throttled = Some(Duration::from_micros(value()?)),
            b"throttled_time" => stat.throttled = Some(Duration::from_nanos(value()?)),
            b"nr_bursts" => stat.bursts = Some(value()?),
            b"burst_usec" => stat.burst = Some(Duration::from_micros(value()?)),
            b"burst_time" => stat.burst = Some(Duration::from_nanos(value()?)),
            _ => {}
        }
    }
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the tables of fixtures write them, with slashes between.
    fn stat(lines: &str) -> CpuStat {
        cpu_stat(lines.replace(" / ", "\n").as_bytes()).unwrap()
    }

    /// C2; F26.
    #[test]
    fn usage_that_is_not_there_is_an_error_and_not_zero() {
        for text in ["", "\n", "nr_periods 500\n", "usage 5\n", "user_usec 5\n"] {
            assert_eq!(cpu_stat(text.as_bytes()).unwrap_err().fault(), ParseFault::MissingKey("usage_usec"), "{text:?}");
        }
        for text in ["usage_usec\n", "usage_usec x\n", "usage_usec 1 2\n", "usage_usec -1\n", "usage_usec 1\nnr_periods\n"] {
            assert!(cpu_stat(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    /// C2; F23; what newer kernels add (`run_delay_usec`) too.
    #[test]
    fn keys_come_in_any_order_and_unknown_ones_are_passed_over() {
        let text = "burst_usec 0 / run_delay_usec 9 / nr_bursts 12 / core_sched.force_idle_usec 0 / system_usec 2658438000 / \
                    user_usec 10191064000 / usage_usec 12849502000 / unknown a b c / throttled_usec 7";
        let stat = stat(text);
        assert_eq!(stat.usage, Some(Duration::from_secs_f64(12_849.502)));
        assert_eq!((stat.bursts, stat.throttled), (Some(12), Some(Duration::from_micros(7))));
    }

    /// F21.
    #[test]
    fn group_without_a_single_period_has_no_throttled_share() {
        let stat = stat(
            "usage_usec 113416298204 / user_usec 48455409189 / system_usec 64960889014 / nice_usec 7981521954 / \
             core_sched.force_idle_usec 0 / nr_periods 0 / nr_throttled 0 / throttled_usec 0 / nr_bursts 0 / burst_usec 0",
        );
        assert_eq!(stat.usage, Some(Duration::from_micros(113_416_298_204)));
        assert_eq!(stat.throttled_share(), None);
    }

    /// F22.
    #[test]
    fn user_and_system_time_are_the_usage() {
        let stat = stat(
            "usage_usec 62338613 / user_usec 35884530 / system_usec 26454083 / nice_usec 0 / core_sched.force_idle_usec 0 / \
             nr_periods 0 / nr_throttled 0 / throttled_usec 0 / nr_bursts 0 / burst_usec 0",
        );
        assert_eq!(stat.user.unwrap() + stat.system.unwrap(), stat.usage.unwrap());
    }

    /// F24.
    #[test]
    fn group_without_the_controller_has_no_throttling_rather_than_none_of_it() {
        let stat = stat(
            "usage_usec 38354643000 / user_usec 29454747000 / system_usec 8899896000 / nice_usec 47780000 / \
             core_sched.force_idle_usec 0",
        );
        assert_eq!((stat.periods, stat.throttled_periods, stat.throttled, stat.throttled_share()), (None, None, None, None));
    }

    /// F25, F26.
    #[test]
    fn throttled_share_is_that_of_the_periods() {
        let busy = stat(
            "usage_usec 98701325189 / user_usec 61355716211 / system_usec 37345608977 / nr_periods 3936904 / nr_throttled 6004 / \
             throttled_usec 19175137007 / nr_bursts 0 / burst_usec 0",
        );
        assert!((busy.throttled_share().unwrap() - 0.001_525).abs() < 1e-6);
        let old = stat(
            "usage_usec 1000000 / user_usec 800000 / system_usec 200000 / nr_periods 500 / nr_throttled 50 / throttled_usec 123456",
        );
        assert_eq!((old.usage, old.throttled_share()), (Some(Duration::from_secs(1)), Some(0.1)));
    }

    /// C9; F10; 3A 24, 32.
    #[test]
    fn first_version_counts_nanoseconds_and_its_usage_is_elsewhere() {
        let text = b"nr_periods 4\nnr_throttled 2\nthrottled_time 1500\nnr_bursts 0\nburst_time 0\nusage_usec 5\n";
        let stat = cpu_stat_v1(text).unwrap();
        assert_eq!((stat.usage, stat.throttled), (None, Some(Duration::from_nanos(1500))));
        assert_eq!(stat.throttled_share(), Some(0.5));
        assert_eq!(cpuacct_usage(b"69609281262\n"), Ok(Duration::from_secs_f64(69.609_281_262)));
        assert!(cpuacct_usage(b"user 5\nsystem 6\n").is_err(), "cpuacct.stat");
    }
}
