//! How long tasks waited: `cpu.pressure` of a group, or `/proc/pressure/cpu`.

use std::{str, time::Duration};

use super::{digits, lines, words};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const CPU_PRESSURE: &str = "cpu.pressure";

/// The kernel's averages of how large a share of time was waited, from 0 to 1, and the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Over ten seconds.
    pub avg10: f64,
    /// Over a minute.
    pub avg60: f64,
    /// Over five minutes.
    pub avg300: f64,
    /// The time waited since the group was made; its growth over any interval is that interval's exact share.
    pub total: Duration,
}

/// The pressure on processors. A line that is not there is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Some task waited.
    pub some: Option<Stall>,
    /// All tasks that had work waited. Of the whole machine it is always 0 (since Linux 5.13; before, there was no such line).
    pub full: Option<Stall>,
}

/// The lines `some` and `full`, each `avg10=0.10 avg60=2.00 avg300=3.85 total=15`: shares in percent, and microseconds.
///
/// # Errors
/// A line without `total`, or a known word whose value is no number.
pub fn pressure(text: &[u8]) -> Result<Pressure, ParseCgroupError> {
    let mut pressure = Pressure::default();
    for (at, line) in lines(text) {
        match words(line).next() {
            Some(b"some") => pressure.some = Some(stall(at, line)?),
            Some(b"full") => pressure.full = Some(stall(at, line)?),
            _ => {}
        }
    }
    Ok(pressure)
}

fn stall(at: usize, line: &[u8]) -> Result<Stall, ParseCgroupError> {
    let mut stall = Stall::default();
    let mut has_total = false;
    for field in words(line).skip(1) {
        let not_a_number = || ParseCgroupError::new(CPU_PRESSURE, at, field, ParseFault::NotANumber);
        let mut parts = field.splitn(2, |byte| *byte == b'=');
        let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match key {
            b"avg10" => stall.avg10 = percent(value).ok_or_else(not_a_number)?,
            b"avg60" => stall.avg60 = percent(value).ok_or_else(not_a_number)?,
            b"avg300" => stall.avg300 = percent(value).ok_or_else(not_a_number)?,
            b"total" => {
                stall.total = Duration::from_micros(digits(value).ok_or_else(not_a_number)?);
                has_total = true;
            }
            _ => {}
        }
    }
    if has_total { Ok(stall) } else { Err(ParseCgroupError::new(CPU_PRESSURE, at, line, ParseFault::MissingKey("total="))) }
}

/// `12.34` as .1234. Digits and a point: not all that `f64` can read is written by the kernel.
fn percent(word: &[u8]) -> Option<f64> {
    let plain = word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let value: f64 = plain.then(|| str::from_utf8(word).ok()?.parse().ok()).flatten()?;
    value.is_finite().then_some(value / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    /// F22, F25, F28.
    #[test]
    fn averages_are_shares_and_totals_are_times() {
        let text =
            b"some avg10=1.71 avg60=2.36 avg300=2.57 total=230548833\nfull avg10=1.00 avg60=1.01 avg300=1.00 total=157622356\n";
        let Pressure { some: Some(some), full: Some(full) } = pressure(text).unwrap() else { panic!() };
        assert!(near(some.avg10, 0.0171) && near(some.avg60, 0.0236) && near(some.avg300, 0.0257) && near(full.avg10, 0.01));
        assert_eq!((some.total, full.total), (Duration::from_micros(230_548_833), Duration::from_micros(157_622_356)));
        let text =
            b"some avg10=0.00 avg60=0.08 avg300=0.06 total=293391454\nfull avg10=0.00 avg60=0.08 avg300=0.05 total=277111656\n";
        assert!(near(pressure(text).unwrap().full.unwrap().avg300, 0.0005));
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=44618\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=44480\n";
        assert_eq!(pressure(text).unwrap().full.unwrap().total, Duration::from_micros(44_480));
    }

    /// F29.
    #[test]
    fn old_kernels_have_one_line() {
        let read = pressure(b"some avg10=0.10 avg60=2.00 avg300=3.85 total=15\n").unwrap();
        assert_eq!((read.some.map(|some| some.total), read.full), (Some(Duration::from_micros(15)), None));
        assert_eq!(pressure(b""), Ok(Pressure::default()));
    }

    #[test]
    fn what_is_no_pressure_is_a_typed_error() {
        for (text, fault) in [
            ("some", ParseFault::MissingKey("total=")),
            ("some avg10=1.00\n", ParseFault::MissingKey("total=")),
            ("some total=\n", ParseFault::NotANumber),
            ("some total=1.5\n", ParseFault::NotANumber),
            ("some avg10=nan total=1\n", ParseFault::NotANumber),
            ("some avg10=inf total=1\n", ParseFault::NotANumber),
            ("some avg10=-1 total=1\n", ParseFault::NotANumber),
            ("some avg10=1e400 total=1\n", ParseFault::NotANumber),
            ("some avg10=. total=1\n", ParseFault::NotANumber),
            ("full avg10=1.2.3 total=1\n", ParseFault::NotANumber),
        ] {
            assert_eq!(pressure(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
        assert!(pressure(b"idle x\nsome avg5=? total=1 more\n").is_ok(), "what is not known is passed over");
    }
}
