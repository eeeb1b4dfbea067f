//! Exact numbers: amounts in millionths, so that what stands at a boundary is at it. In `f64`, 4.2 / 0.6 is more than 7.

use std::fmt;

/// What `1.0` is in millionths.
pub(super) const MILLION: u64 = 1_000_000;
/// The most that is taken for an amount: with it, no product below leaves 128 bits.
const MOST: f64 = 1e9;

/// Why a number that was given says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unusable {
    /// It is infinite.
    Infinite,
    /// None was given.
    Missing,
    /// It is below zero.
    Negative,
    /// It is NaN, as comes of 0 / 0.
    NotANumber,
    /// It is above 10^9, in whatever unit: nothing here is.
    TooLarge,
    /// It is zero where there cannot be zero: no instance that runs uses no processor at all. Most likely an empty answer was read as 0.
    Zero,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Infinite => "infinite",
            Self::Missing => "missing",
            Self::Negative => "negative",
            Self::NotANumber => "not a number",
            Self::TooLarge => "too large",
            Self::Zero => "zero, which it cannot be",
        })
    }
}

impl std::error::Error for Unusable {}

/// At least 0, in millionths; at most 10^9 where it was read, and 2^32 where it is a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(u64);

impl Amount {
    /// To the nearest millionth. What is above 0 stays above it.
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^15, and not below 0")]
    pub(super) fn new(value: f64) -> Result<Self, Unusable> {
        if value.is_nan() {
            return Err(Unusable::NotANumber);
        }
        if value.is_infinite() {
            return Err(Unusable::Infinite);
        }
        if value < 0.0 {
            return Err(Unusable::Negative);
        }
        if value > MOST {
            return Err(Unusable::TooLarge);
        }
        let millionths = (value * 1e6).round() as u64;
        Ok(Self(if value > 0.0 { millionths.max(1) } else { 0 }))
    }

    /// Of a number that may not have been read.
    pub(super) fn read(value: Option<f64>) -> Result<Self, Unusable> {
        value.map_or(Err(Unusable::Missing), Self::new)
    }

    pub(super) fn whole(count: u32) -> Self {
        Self(u64::from(count) * MILLION)
    }

    pub(super) fn millionths(self) -> u64 {
        self.0
    }

    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    #[expect(clippy::cast_precision_loss, reason = "told to people")]
    pub(super) fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// What one instance can take: an amount over a number of instances, so that a mean is not rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    total: Amount,
    over: u32,
}

/// Where the use of a fleet stands beside its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Above,
    Below,
    Within,
}

impl Capacity {
    pub(super) fn each(total: Amount) -> Self {
        Self { total, over: 1 }
    }

    /// `total` over `over` instances; both must be above 0.
    pub(super) fn mean(total: Amount, over: u32) -> Result<Self, Unusable> {
        if total.is_zero() || over == 0 { Err(Unusable::Zero) } else { Ok(Self { total, over }) }
    }

    pub(super) fn as_f64(self) -> f64 {
        self.total.as_f64() / f64::from(self.over)
    }

    /// `used`, and `full` instances used wholly, in millionths times `over`: at most 10^16 * 2^32 + 2^32 * 10^15.
    fn scaled(self, used: Amount, full: u32) -> u128 {
        u128::from(used.0) * u128::from(self.over) + u128::from(full) * u128::from(self.total.0)
    }

    /// ceil(`used` / capacity / `target`), where `target` is in millionths and above 0.
    pub(super) fn needed(self, used: Amount, full: u32, target: u64) -> u32 {
        let needed = (self.scaled(used, full) * u128::from(MILLION)).div_ceil(u128::from(self.total.0) * u128::from(target));
        u32::try_from(needed).unwrap_or(u32::MAX)
    }

    /// Whether |utilisation / `target` - 1| is above `tolerance`, both in millionths. Exactly the tolerance is within.
    pub(super) fn side(self, used: Amount, full: u32, running: u32, target: u64, tolerance: u64) -> Side {
        let used = self.scaled(used, full) * u128::from(MILLION) * u128::from(MILLION);
        let aim = u128::from(running) * u128::from(self.total.0) * u128::from(target);
        if used > aim * u128::from(MILLION + tolerance) {
            Side::Above
        } else if used < aim * u128::from(MILLION.saturating_sub(tolerance)) {
            Side::Below
        } else {
            Side::Within
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(value: f64) -> Amount {
        Amount::new(value).unwrap()
    }

    #[test]
    fn ceiling_is_exact_where_floating_point_is_not() {
        assert!((4.2_f64 / 0.6).ceil() > 7.5, "the trap is there");
        assert_eq!(Capacity::each(amount(1.0)).needed(amount(4.2), 0, 600_000), 7);
        assert_eq!(Capacity::each(amount(1.0)).needed(amount(4.200_001), 0, 600_000), 8);
    }

    #[test]
    fn edges_of_the_band_are_within() {
        assert!(std::hint::black_box(0.66_f64) / 0.6 - 1.0 > 0.1, "the trap is there");
        let side = |used| Capacity::each(amount(1.0)).side(amount(used), 0, 10, 600_000, 100_000);
        assert_eq!([5.399_999, 5.4, 6.6, 6.600_001].map(side), [Side::Below, Side::Within, Side::Within, Side::Above]);
    }

    #[test]
    fn numbers_that_say_nothing_are_told_apart() {
        let why = |value| Amount::new(value).unwrap_err();
        assert_eq!(why(f64::NAN), Unusable::NotANumber);
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY].map(why), [Unusable::Infinite; 2]);
        assert_eq!([-1.0, -f64::MIN_POSITIVE].map(why), [Unusable::Negative; 2]);
        assert_eq!([1.1e9, f64::MAX].map(why), [Unusable::TooLarge; 2]);
        assert_eq!(Amount::read(None), Err(Unusable::Missing));
        assert_eq!(Amount::new(-0.0), Ok(Amount::default()));
    }

    #[test]
    fn smallest_positive_number_is_not_zero() {
        assert!(!amount(5e-324).is_zero());
        assert_eq!(amount(5e-324), amount(1e-6));
    }

    #[test]
    fn greatest_numbers_leave_no_bits() {
        let most = amount(MOST);
        let crowd = Capacity { total: most, over: u32::MAX };
        let sum = most.plus(most).plus(most);
        let widest = Capacity::each(Amount::whole(u32::MAX));
        assert_eq!(widest.side(sum, u32::MAX, u32::MAX, MILLION, MILLION), Side::Within);
        assert_eq!(widest.needed(sum, u32::MAX, 1), u32::MAX);
        assert_eq!(crowd.needed(sum, u32::MAX, 1), u32::MAX);
        assert_eq!(crowd.side(sum, u32::MAX, u32::MAX, MILLION, MILLION), Side::Above);
        assert_eq!(Capacity::each(amount(1e-6)).needed(sum, u32::MAX, 100_000), u32::MAX);
    }
}
