//! Where a reader stands: the hub's epoch and a sequence number, with one text form.

use std::{cmp::Ordering, fmt, str::FromStr};

/// A cursor: which hub (`epoch`) and how far in its one sequence (`seq`).
///
/// One number is a cursor for one key or a thousand, because a hub numbers all its events in one rising sequence.
/// Positions of different epochs do not compare: `partial_cmp` is `None`.
///
/// The text form is `v1.<epoch, lower-case hex>.<seq, decimal>`; it holds no character that an HTTP header, an SSE
/// `id:` line or a URL query must escape.
///
/// ```
/// use keywake::Position;
/// let p = Position::new(0xbeef, 42);
/// assert_eq!(p.to_string(), "v1.beef.42");
/// assert_eq!("v1.beef.42".parse(), Ok(p));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    epoch: u64,
    seq: u64,
}

impl Position {
    /// The highest sequence number there is, `i64::MAX`: one bit is kept free, and signed stores can hold it.
    pub const MAX_SEQ: u64 = i64::MAX as u64;

    /// A position from its parts; a `seq` above [`MAX_SEQ`](Self::MAX_SEQ) is taken as `MAX_SEQ`.
    #[must_use]
    pub const fn new(epoch: u64, seq: u64) -> Self {
        Self { epoch, seq: if seq > Self::MAX_SEQ { Self::MAX_SEQ } else { seq } }
    }

    /// The identity of the hub that gave this position.
    #[must_use]
    pub const fn epoch(self) -> u64 {
        self.epoch
    }

    /// The sequence number within the epoch; 0 is before the first event.
    #[must_use]
    pub const fn seq(self) -> u64 {
        self.seq
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.epoch == other.epoch).then(|| self.seq.cmp(&other.seq))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{:x}.{}", self.epoch, self.seq)
    }
}

/// Why a text is not a [`Position`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParsePositionError {
    /// The epoch is not 1 to 16 lower-case hexadecimal digits without a leading zero.
    Epoch,
    /// The sequence number is not a decimal number up to [`Position::MAX_SEQ`] without a leading zero.
    Seq,
    /// Not three parts separated by dots.
    Shape,
    /// The version is not one this crate knows; it knows `v1`.
    Version,
}

impl fmt::Display for ParsePositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoch => "the epoch of a position is 1 to 16 lower-case hexadecimal digits without a leading zero",
            Self::Seq => "the sequence number of a position is a decimal number up to 9223372036854775807 without a leading zero",
            Self::Shape => "a position looks like v1.<epoch>.<seq>",
            Self::Version => "the version of this position is not known; known is v1",
        })
    }
}

impl std::error::Error for ParsePositionError {}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (version, rest) = text.split_once('.').ok_or(ParsePositionError::Shape)?;
        // The version is looked at first: a later version may have another number of parts.
        if version != "v1" {
            let known_shape = version.len() > 1 && version.starts_with('v') && version[1..].bytes().all(|b| b.is_ascii_digit());
            return Err(if known_shape { ParsePositionError::Version } else { ParsePositionError::Shape });
        }
        let (epoch, seq) = rest.split_once('.').ok_or(ParsePositionError::Shape)?;
        if seq.contains('.') {
            return Err(ParsePositionError::Shape);
        }
        // One text per position: no sign, no upper case, no leading zero.
        let canonical = |s: &str| !s.is_empty() && (s.len() == 1 || !s.starts_with('0'));
        if !canonical(epoch) || !epoch.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ParsePositionError::Epoch);
        }
        let epoch = u64::from_str_radix(epoch, 16).map_err(|_| ParsePositionError::Epoch)?;
        if !canonical(seq) || !seq.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParsePositionError::Seq);
        }
        let seq: u64 = seq.parse().map_err(|_| ParsePositionError::Seq)?;
        if seq > Self::MAX_SEQ {
            return Err(ParsePositionError::Seq);
        }
        Ok(Self { epoch, seq })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Position {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Position;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a position like v1.beef.42")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Position, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_per_position() {
        for (epoch, seq) in [(0, 0), (1, 1), (u64::MAX, Position::MAX_SEQ), (0xbeef, 42)] {
            let position = Position::new(epoch, seq);
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        assert_eq!(Position::new(1, u64::MAX).seq(), Position::MAX_SEQ);
    }

    #[test]
    fn other_texts_are_typed_errors() {
        use ParsePositionError::{Epoch, Seq, Shape, Version};
        let cases = [
            ("", Shape),
            ("v1", Shape),
            ("v1.1", Shape),
            ("v1.1.2.3", Shape),
            ("x1.1.2", Shape),
            ("v.1.2", Shape),
            ("v2.1.2", Version),
            ("v2.anything", Version),
            ("v01.1.2", Version),
            ("v1..2", Epoch),
            ("v1.BEEF.2", Epoch),
            ("v1.0x1.2", Epoch),
            ("v1.01.2", Epoch),
            ("v1.+1.2", Epoch),
            ("v1.10000000000000000.2", Epoch),
            ("v1.1.", Seq),
            ("v1.1.-1", Seq),
            ("v1.1.01", Seq),
            ("v1.1. 1", Seq),
            ("v1.1.9223372036854775808", Seq),
            ("v1.1.99999999999999999999999", Seq),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Position>(), Err(error), "{text}");
        }
    }

    #[test]
    fn epochs_do_not_compare() {
        assert!(Position::new(1, 1) < Position::new(1, 2));
        assert_eq!(Position::new(1, 1).partial_cmp(&Position::new(2, 1)), None);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_uses_the_text_form() {
        use serde::de::{
            IntoDeserializer,
            value::{Error, StrDeserializer},
        };
        let text: StrDeserializer<'_, Error> = "v1.beef.42".into_deserializer();
        assert_eq!(<Position as serde::Deserialize>::deserialize(text), Ok(Position::new(0xbeef, 42)));
        let text: StrDeserializer<'_, Error> = "v1.beef".into_deserializer();
        assert!(<Position as serde::Deserialize>::deserialize(text).is_err());
    }
}
