//! The load model: a mean that adds up.

use std::time::Duration;

use super::cores::Cores;

/// A window: what is folded once.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// Windows in the mean's horizon: each counts a sixtieth.
const WINDOWS: u32 = 60;
/// More minutes at once are as many: 4 in 100,000 are left of what was before.
const MOST_MINUTES: u128 = 600;
/// Fractions of a nano-core that the sum keeps, so that rounding never shows.
const FINE: u32 = 32;
/// What `known` is of, when all is known.
const ALL: u128 = 1 << 45;
/// More than any process has, in nano-cores: a million cores. Keeps products within 128 bits.
const MOST: u64 = 1 << 50;

/// An exponentially weighted mean of cores, over windows of 60 s with a smoothing of 1/60: `mean += (cores - mean) / 60` for each minute, and
/// `(cores - mean) * rest / 3600 s` for what is left of one.
///
/// Formula and default are S1's, whose windows are all of a minute; the rest is there because windows are measured and never are. An
/// owner that is not in a window counts as 0 there. So means add up: those of a process's owners are that process's own, which peaks are
/// not; and one busy minute in the last hour costs at most a sixtieth. After 60 windows 63.5% of a step is charged (1 - (59/60)^60).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use keywake::placement::{Cores, Ewma};
/// let mut mean = Ewma::default();
/// (0..60).for_each(|_| mean.fold(Cores::from_milli(600), Duration::from_secs(60)));
/// assert_eq!(format!("{:.6}", mean.raw()), "0.381124");
/// assert_eq!(mean.corrected(), Some(Cores::from_milli(600)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ewma {
    /// In nano-cores, shifted by `FINE`.
    sum: u128,
    /// What the sum would be for a constant `ALL`: how much of the mean is measured, and not assumed to be 0.
    known: u128,
}

impl Ewma {
    /// A mean that was 0 for as long as `other` is known: that of an owner that is seen for the first time where others have been measured.
    #[must_use]
    pub fn absent_since(other: &Self) -> Self {
        Self { sum: 0, known: other.known }
    }

    /// `cores` were used for `window`.
    pub fn fold(&mut self, cores: Cores, window: Duration) {
        let value = u128::from(cores.nanos().min(MOST)) << FINE;
        let nanos = window.as_nanos();
        let minutes = (nanos / WINDOW.as_nanos()).min(MOST_MINUTES);
        for _ in 0..minutes {
            self.step(value, 1, WINDOWS.into());
        }
        let rest = nanos % WINDOW.as_nanos();
        if rest > 0 {
            self.step(value, rest, WINDOW.as_nanos() * u128::from(WINDOWS));
        }
    }

    /// `mean += (value - mean) * part / whole`, to the nearest.
    fn step(&mut self, value: u128, part: u128, whole: u128) {
        let blend = |mean: u128, value: u128| (mean * (whole - part) + value * part + whole / 2) / whole;
        self.sum = blend(self.sum, value);
        self.known = blend(self.known, ALL);
    }

    /// The mean where everything before the first window counts as 0.
    #[must_use]
    pub fn raw(&self) -> Cores {
        Cores::from_nanos(u64::try_from(self.sum >> FINE).unwrap_or(u64::MAX))
    }

    /// The mean of what was measured: `raw / (1 - (59/60)^k)` after k windows. `None` before the first.
    #[must_use]
    pub fn corrected(&self) -> Option<Cores> {
        let rounded = (self.sum * ALL).checked_div(self.known)? + (1 << (FINE - 1));
        Some(Cores::from_nanos(u64::try_from(rounded >> FINE).unwrap_or(u64::MAX)))
    }
}
