//! An amount of processor: whole nano-cores, so that marks are met exactly.

use std::{fmt, iter::Sum, ops::Add, time::Duration};

/// Processor time over real time, in whole nano-cores.
///
/// One core is one processor that is busy all the time. Sums, differences and comparisons are exact: 0.13 + 0.17 + 0.17 + 0.28 is 0.75, and not
/// above it, as it would be in `f64`. All arithmetic saturates.
///
/// # Examples
/// ```
/// use keywake::placement::Cores;
/// let load: Cores = [130, 170, 170, 280].map(Cores::from_milli).into_iter().sum();
/// assert_eq!(load, Cores::from_milli(750));
/// assert_eq!(load.to_string(), "0.75");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cores(u64);

impl Cores {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One processor, busy all the time.
    pub const ONE: Self = Self(1_000_000_000);
    /// More than there can be.
    pub const MAX: Self = Self(u64::MAX);

    /// So many billionths of a core.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many thousandths of a core.
    #[must_use]
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli.saturating_mul(1_000_000))
    }

    /// Processor time `used` over real time `window`, rounded down; `None` where the window is empty.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use keywake::placement::Cores;
    /// let seconds = Duration::from_secs;
    /// assert_eq!(Cores::over(seconds(48), seconds(60)), Some(Cores::from_milli(800)));
    /// assert_eq!(Cores::over(seconds(48), seconds(0)), None);
    /// ```
    #[must_use]
    pub fn over(used: Duration, window: Duration) -> Option<Self> {
        let nanos = used.as_nanos().saturating_mul(1_000_000_000).checked_div(window.as_nanos())?;
        Some(Self(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// In billionths of a core.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// For metrics and plots; decisions are made with the whole numbers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "to be shown")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// What is left, at least nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self * numerator / denominator`, rounded down; nothing where the denominator is 0.
    #[must_use]
    pub fn scale(self, numerator: u64, denominator: u64) -> Self {
        let scaled = (u128::from(self.0) * u128::from(numerator)).checked_div(denominator.into()).unwrap_or_default();
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl Add for Cores {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Cores {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// In cores, with as many decimals as it has (or as the format asks for, cut).
impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{rest:09}");
        let decimals = match f.precision() {
            Some(precision) => &digits[..precision.min(9)],
            None => digits.trim_end_matches('0'),
        };
        if decimals.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{decimals}") }
    }
}
