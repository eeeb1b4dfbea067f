//! How much of the processors a group may use: `cpu.max`, or `cpu.cfs_quota_us` with `cpu.cfs_period_us`.

use std::{num::NonZeroU64, time::Duration};

use super::{number, only_number, only_word, words};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const CPU_MAX: &str = "cpu.max";
const CFS_QUOTA: &str = "cpu.cfs_quota_us";
const CFS_PERIOD: &str = "cpu.cfs_period_us";

/// So much processor time in each period, over all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The time, in microseconds.
    pub micros: NonZeroU64,
    /// The period, in microseconds; the kernel takes 1 ms to 1 s.
    pub period_micros: NonZeroU64,
}

impl Quota {
    /// The quota in cores, never rounded: finite, and above 0.
    #[must_use]
    pub fn cores(self) -> f64 {
        self.micros.get() as f64 / self.period_micros.get() as f64
    }
}

/// `cpu.max`: `max 100000` is no quota, `150000 100000` is one and a half cores.
///
/// # Errors
/// Anything but two fields (the kernel always writes two, though one may be written to it), a number that is none, or 0.
pub fn cpu_max(text: &[u8]) -> Result<Option<Quota>, ParseCgroupError> {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let mut fields = words(line);
    let (Some(quota), Some(period), None, false) = (fields.next(), fields.next(), fields.next(), line.contains(&b'\n')) else {
        return Err(ParseCgroupError::new(CPU_MAX, 1, line, ParseFault::Fields("two fields are")));
    };
    let period_micros = positive(CPU_MAX, period, number(CPU_MAX, 1, period)?)?;
    if quota == b"max" {
        return Ok(None);
    }
    let micros = positive(CPU_MAX, quota, number(CPU_MAX, 1, quota)?)?;
    Ok(Some(Quota { micros, period_micros }))
}

/// `cpu.cfs_quota_us`, in microseconds: `-1` is no quota.
///
/// # Errors
/// Not one number, or 0.
pub fn cfs_quota(text: &[u8]) -> Result<Option<NonZeroU64>, ParseCgroupError> {
    let word = only_word(CFS_QUOTA, text)?;
    if word == b"-1" {
        return Ok(None);
    }
    positive(CFS_QUOTA, word, number(CFS_QUOTA, 1, word)?).map(Some)
}

/// `cpu.cfs_period_us`, in microseconds.
///
/// # Errors
/// Not one number, or 0.
pub fn cfs_period(text: &[u8]) -> Result<NonZeroU64, ParseCgroupError> {
    let word = only_word(CFS_PERIOD, text)?;
    positive(CFS_PERIOD, word, number(CFS_PERIOD, 1, word)?)
}

/// `cpu.max.burst` or `cpu.cfs_burst_us`: what may be used beyond the quota of one period, saved up in those before.
///
/// # Errors
/// Not one number.
pub fn burst(text: &[u8]) -> Result<Duration, ParseCgroupError> {
    only_number("cpu.max.burst", text).map(Duration::from_micros)
}

fn positive(file: &str, word: &[u8], number: u64) -> Result<NonZeroU64, ParseCgroupError> {
    NonZeroU64::new(number).ok_or_else(|| ParseCgroupError::new(file, 1, word, ParseFault::Zero))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(text: &str) -> Option<f64> {
        cpu_max(text.as_bytes()).unwrap().map(Quota::cores)
    }

    /// C1; F01, F03, F04, F07; 3A 5, 21.
    #[test]
    fn quota_is_a_float_and_never_rounded() {
        assert_eq!(cores("max 100000\n"), None);
        assert_eq!(cores("max 100010\n"), None);
        assert_eq!(cores("400000 100000\n"), Some(4.0));
        assert_eq!(cores("50000 100000\n"), Some(0.5));
        assert_eq!(cores("250000 100000"), Some(2.5), "without a newline");
        assert_eq!(cores("150000 100000\n"), Some(1.5));
        assert_eq!(cores("600000 100000\n"), Some(6.0));
        assert_eq!(cores("200000 100000\n"), Some(2.0));
        assert_eq!(cores("20000 100010\n"), Some(20_000.0 / 100_010.0));
    }

    /// C1; F04, F06; 3A 11.
    #[test]
    fn what_is_no_quota_is_a_typed_error() {
        let two = ParseFault::Fields("two fields are");
        for (text, fault) in [
            ("", two),
            ("\n", two),
            (" \n", two),
            ("500000", two),
            ("max", two),
            ("garbage", two),
            ("250000 100000 100", two),
            ("250000 100000\n250000 100000\n", two),
            ("asdf 100000", ParseFault::NotANumber),
            ("500000 njn", ParseFault::NotANumber),
            ("max njn", ParseFault::NotANumber),
            ("-1 100000", ParseFault::NotANumber),
            ("600000 0", ParseFault::Zero),
            ("250000 0", ParseFault::Zero),
            ("0 100000", ParseFault::Zero),
            ("max 0", ParseFault::Zero),
        ] {
            assert_eq!(cpu_max(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
    }

    /// 3A 33: the kernel refuses less than a millisecond, so no group has such a file; as a text it means what it says.
    #[test]
    fn quota_below_a_millisecond_is_what_it_says() {
        assert_eq!(cores("500 100000"), Some(0.005));
    }

    /// C9; F20.
    #[test]
    fn first_version_has_its_numbers_in_two_files() {
        assert_eq!(cfs_quota(b"-1\n"), Ok(None));
        assert_eq!(cfs_quota(b"800000\n").unwrap().map(NonZeroU64::get), Some(800_000));
        assert_eq!(cfs_period(b"100000\n").unwrap().get(), 100_000);
        for (text, fault) in [
            ("non-an-integer", ParseFault::NotANumber),
            ("18446744073709551616", ParseFault::NotANumber),
            ("-2", ParseFault::NotANumber),
            ("0", ParseFault::Zero),
            ("", ParseFault::Fields("one field is")),
            ("1 2", ParseFault::Fields("one field is")),
            ("1\n2", ParseFault::Fields("one line is")),
        ] {
            assert_eq!(cfs_quota(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
            assert_eq!(cfs_period(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
    }

    #[test]
    fn burst_may_be_nothing() {
        assert_eq!(burst(b"0\n"), Ok(Duration::ZERO));
        assert_eq!(burst(b"50000\n"), Ok(Duration::from_millis(50)));
        assert!(burst(b"-1").is_err());
    }
}
