//! What many keys are named by at once: segments with wildcards, by the rules of NATS, or a plain prefix.

use std::{fmt, str::FromStr};

/// The segment that stands for any one segment.
pub(crate) const ONE: &str = "*";
/// The last segment that stands for one or more.
pub(crate) const REST: &str = ">";
/// What the text form of a prefix begins with. No segment can: it would hold a wildcard and not be one.
const PREFIX_MARK: &str = ">>";

/// Names string-like keys: by segments and wildcards, or by what they begin with.
///
/// A key is read as segments with a separator between them, `.` unless [`with_separator`](Self::with_separator) says another: a key with
/// `n` separators has `n + 1` segments, some of which may be empty. A pattern is segments too:
///
/// | segment | matches |
/// |---|---|
/// | `*` | any one segment |
/// | `>`, as the last one | one or more segments: all the rest |
/// | any other | the segment that is the same, byte for byte |
///
/// | pattern | matches | does not match |
/// |---|---|---|
/// | `flight.UA.1` | `flight.UA.1` | every other key |
/// | `flight.*.1` | `flight.UA.1`, `flight..1` | `flight.1`, `flight.UA.x.1` |
/// | `flight.UA.>` | `flight.UA.1`, `flight.UA.1.gate` | `flight.UA`, `flight.UAL.1` |
/// | `*.*` | `a.b`, `.` | `a`, `a.b.c` |
/// | `>` | every key | |
///
/// A [`prefix`](Self::prefix) knows no segments: it matches every key that begins with its bytes.
///
/// ```
/// use keywake::Pattern;
/// let pattern: Pattern = "flight.UA.*".parse()?;
/// assert!(pattern.matches("flight.UA.1545"));
/// assert!(!pattern.matches("flight.DL.1545"));
/// assert!(!pattern.matches("flight.UA.1545.gate"));
/// # Ok::<_, keywake::ParsePatternError>(())
/// ```
/// Whatever key type gives its text (`AsRef<str>`: `String`, `Arc<str>`, `&'static str`) can be asked:
/// ```
/// # use std::sync::Arc;
/// # let pattern: keywake::Pattern = "flight.UA.*".parse()?;
/// let key: Arc<str> = "flight.UA.1545".into();
/// assert!(pattern.matches(key.as_ref()));
/// # Ok::<_, keywake::ParsePatternError>(())
/// ```
///
/// # Where the rules come from
/// From NATS: [Subject-Based Messaging](https://docs.nats.io/nats-concepts/subjects) has the wildcards, and
/// [ADR-6](https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-6.md) the grammar of names. Where NATS leaves
/// room, or its keys are of another kind:
///
/// * **A wildcard that is part of a segment** (`U*`, `**`) is an error. ADR-6 rules it out; the NATS server takes it literally, so that a
///   pattern that was meant as `U` and anything matches next to nothing, in silence.
/// * **Empty segments**: a pattern with one is an error, as there. A subject with one is none in NATS, and nothing matches it; here a key
///   may be any text, and a key that no pattern can find would be a hole. So an empty segment of a key is a segment: `*` matches it, and
///   `>` matches every key there is, the empty one too.
/// * **Wildcard characters in a key** mean nothing: `*` matches the segment `*` as it does any other.
/// * **White space and other characters** that NATS refuses are literals like all others.
///
/// # Limits
/// [`MAX_BYTES`](Self::MAX_BYTES) and [`MAX_SEGMENTS`](Self::MAX_SEGMENTS): several times what NATS recommends (256 characters, 16 tokens),
/// so that a pattern from a stranger costs little. Keys have no limit.
///
/// # Text form
/// What it was parsed from; a prefix is written `>>` and its bytes, which no segments can look like. [`FromStr`] reads it back, and
/// [`with_separator`](Self::with_separator) does where the separator is another: it is not part of the text, because it is a property
/// of the keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Without the mark of a prefix.
    text: Box<str>,
    /// Up to here the text is what keys begin with: to the first wildcard, or to the end.
    literal: usize,
    /// `None`: a prefix.
    separator: Option<char>,
}

/// What a pattern consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// Every key that begins so.
    Prefix(&'a str),
    /// The segments of `text`, none of them empty.
    Segments { text: &'a str, separator: char },
}

impl Pattern {
    /// How long a pattern may be, in bytes. The mark of a prefix is not counted.
    pub const MAX_BYTES: usize = 1024;
    /// How many segments a pattern may have.
    pub const MAX_SEGMENTS: usize = 64;
    /// What separates segments unless [`with_separator`](Self::with_separator) says otherwise.
    pub const SEPARATOR: char = '.';

    /// A pattern of keys whose segments are separated by this character: any but `*` and `>`.
    ///
    /// # Errors
    /// The first fault in the text, as a [`ParsePatternError`].
    ///
    /// # Examples
    /// ```
    /// use keywake::Pattern;
    /// let pattern = Pattern::with_separator("flight/*/1545", '/')?;
    /// assert!(pattern.matches("flight/UA/1545"));
    /// assert!(pattern.matches("flight/U.A/1545"));
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    pub fn with_separator(text: &str, separator: char) -> Result<Self, ParsePatternError> {
        if let Some(prefix) = text.strip_prefix(PREFIX_MARK) {
            return Self::prefix(prefix);
        }
        if is_wildcard(separator) {
            return Err(ParsePatternError::Separator);
        }
        check_length(text)?;
        let mut wild = None;
        let mut has_rest = false;
        let mut at = 0;
        for (index, segment) in text.split(separator).enumerate() {
            if index == Self::MAX_SEGMENTS {
                return Err(ParsePatternError::TooManySegments);
            }
            if has_rest {
                return Err(ParsePatternError::RestNotLast);
            }
            match segment {
                "" => return Err(ParsePatternError::EmptySegment),
                ONE | REST => {
                    wild.get_or_insert(at);
                    has_rest = segment == REST;
                }
                _ if segment.contains(is_wildcard) => return Err(ParsePatternError::WildcardInSegment),
                _ => {}
            }
            at += segment.len() + separator.len_utf8();
        }
        Ok(Self { text: text.into(), literal: wild.unwrap_or(text.len()), separator: Some(separator) })
    }

    /// A pattern that matches every key that begins with these bytes, whatever stands in them.
    ///
    /// # Errors
    /// [`ParsePatternError::Empty`] (the pattern `>` says that every key is meant), [`ParsePatternError::TooLong`].
    ///
    /// # Examples
    /// ```
    /// use keywake::Pattern;
    /// let pattern = Pattern::prefix("flight.UA")?;
    /// assert!(pattern.matches("flight.UA") && pattern.matches("flight.UA.1545") && pattern.matches("flight.UAL.1"));
    /// assert!(!pattern.matches("flight.U"));
    /// assert_eq!(pattern.to_string().parse(), Ok(pattern));
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    pub fn prefix(prefix: &str) -> Result<Self, ParsePatternError> {
        check_length(prefix)?;
        Ok(Self { text: prefix.into(), literal: prefix.len(), separator: None })
    }

    /// What separates the segments; `None`: it is a prefix.
    ///
    /// # Examples
    /// ```
    /// use keywake::Pattern;
    /// assert_eq!("a.*".parse::<Pattern>()?.separator(), Some('.'));
    /// assert_eq!(Pattern::prefix("a.")?.separator(), None);
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    #[must_use]
    pub const fn separator(&self) -> Option<char> {
        self.separator
    }

    /// Whether it names this key. Allocates nothing, and takes at most one pass over the key, however long.
    ///
    /// # Examples
    /// ```
    /// let pattern: keywake::Pattern = "*.*.east.>".parse()?;
    /// assert!(pattern.matches("time.us.east.atlanta"));
    /// assert!(!pattern.matches("time.us.east"));
    /// # Ok::<_, keywake::ParsePatternError>(())
    /// ```
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let (literal, wild) = self.text.split_at(self.literal);
        let Some(rest) = key.strip_prefix(literal) else { return false };
        let Some(separator) = self.separator else { return true };
        // The literal part ended behind a separator, so a segment begins here, in the key as in the pattern. Or it was all: then both are
        // to be empty, which is one empty segment.
        let mut segments = rest.split(separator);
        for wanted in wild.split(separator) {
            let Some(segment) = segments.next() else { return false };
            match wanted {
                REST => return true,
                ONE => {}
                _ if wanted == segment => {}
                _ => return false,
            }
        }
        segments.next().is_none()
    }

    pub(crate) fn form(&self) -> Form<'_> {
        match self.separator {
            None => Form::Prefix(&self.text),
            Some(separator) => Form::Segments { text: &self.text, separator },
        }
    }
}

const fn is_wildcard(c: char) -> bool {
    matches!(c, '*' | '>')
}

const fn check_length(text: &str) -> Result<(), ParsePatternError> {
    match text.len() {
        0 => Err(ParsePatternError::Empty),
        1..=Pattern::MAX_BYTES => Ok(()),
        _ => Err(ParsePatternError::TooLong),
    }
}

impl FromStr for Pattern {
    type Err = ParsePatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::with_separator(text, Self::SEPARATOR)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.separator.is_none() {
            f.write_str(PREFIX_MARK)?;
        }
        f.write_str(&self.text)
    }
}

/// The text form, and the separator where it is not the usual one.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Pattern");
        tuple.field(&self.to_string());
        if let Some(separator) = self.separator.filter(|separator| *separator != Self::SEPARATOR) {
            tuple.field(&separator);
        }
        tuple.finish()
    }
}

/// Why a text is not a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParsePatternError {
    /// It is empty, or the prefix is.
    Empty,
    /// A segment is empty: a separator at an end, or two in a row.
    EmptySegment,
    /// `>` is followed by further segments.
    RestNotLast,
    /// The separator is `*` or `>`.
    Separator,
    /// It is longer than [`Pattern::MAX_BYTES`].
    TooLong,
    /// It has more segments than [`Pattern::MAX_SEGMENTS`].
    TooManySegments,
    /// `*` or `>` is part of a longer segment.
    WildcardInSegment,
}

impl fmt::Display for ParsePatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a pattern is not empty; > alone matches every key"),
            Self::EmptySegment => f.write_str("no segment of a pattern is empty"),
            Self::RestNotLast => f.write_str("> stands for all the rest, so it is the last segment of a pattern"),
            Self::Separator => f.write_str("the separator of segments is not * or >"),
            Self::TooLong => write!(f, "a pattern is at most {} bytes long", Pattern::MAX_BYTES),
            Self::TooManySegments => write!(f, "a pattern has at most {} segments", Pattern::MAX_SEGMENTS),
            Self::WildcardInSegment => f.write_str(
                "* and > stand for whole segments, not for a part of one; a plain prefix is written with >> before it",
            ),
        }
    }
}

impl std::error::Error for ParsePatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_begin_with_goes_up_to_the_first_wildcard() {
        for (text, separator, literal) in [("a.b", '.', 3), ("*", '.', 0), ("a.*.b.>", '.', 2), ("aß*", 'ß', 3), ("é→>", '→', 5)]
        {
            assert_eq!(Pattern::with_separator(text, separator).unwrap().literal, literal, "{text}");
        }
        assert_eq!(Pattern::prefix("a.*").unwrap().literal, 3);
    }
}
