//! What may be a key: 1 byte up to the configured length of UTF-8 without control characters.
//!
//! Everything else is allowed, `/`, spaces and quotes too: keys travel percent-encoded in URLs and escaped in JSON, and
//! never stand bare in a line of an event stream. Control characters are refused because no such escaping protects a
//! terminal or a log that shows a key.

use std::{fmt, sync::Arc};

/// A key of the hub.
pub type Key = Arc<str>;

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It holds a control character.
    Control,
    /// It is empty.
    Empty,
    /// It is longer than the limit, in bytes.
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl KeyError {
    /// The error's code in the API.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Control => "bad_key",
            Self::Empty => "empty_key",
            Self::TooLong { .. } => "key_too_long",
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control => f.write_str("a key must not hold control characters"),
            Self::Empty => f.write_str("a key must not be empty"),
            Self::TooLong { limit } => write!(f, "a key is at most {limit} bytes long"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Checks a key against the rules.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn check(key: &str, limit: usize) -> Result<(), KeyError> {
    if key.is_empty() {
        Err(KeyError::Empty)
    } else if key.len() > limit {
        Err(KeyError::TooLong { limit })
    } else if key.chars().any(char::is_control) {
        Err(KeyError::Control)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_fine_and_control_characters_are_not() {
        for key in ["a", "a/b", "a b", "\"quoted\"", "ключ", "data: x", "100%", "\u{2028}", &"x".repeat(256)] {
            assert_eq!(check(key, 256), Ok(()), "{key:?}");
        }
        for (key, error) in [
            ("", KeyError::Empty),
            ("a\nb", KeyError::Control),
            ("a\rb", KeyError::Control),
            ("\0", KeyError::Control),
            ("a\u{85}b", KeyError::Control),
            (&"é".repeat(129), KeyError::TooLong { limit: 256 }),
        ] {
            assert_eq!(check(key, 256), Err(error), "{key:?}");
        }
    }
}
