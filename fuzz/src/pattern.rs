//! Patterns against a matcher that splits everything and calls itself.

use arbitrary::{Arbitrary, Result, Unstructured};
use keywake::{ParsePatternError, Pattern};

/// What segments are made of where they are to meet: alike, empty, parts of each other, with wildcards in them, and some that share
/// bytes with a separator.
const PIECES: [&str; 12] = ["a", "b", "aa", "", "*", ">", "a*", ">>", "é", "←", "a.b", "x"];
const SEPARATORS: [char; 6] = ['.', '/', 'é', '→', '*', '>'];

/// A text for a pattern, what separates its segments, and a key.
#[derive(Clone, Debug)]
pub struct PatternCase {
    /// Perhaps a pattern.
    pub text: String,
    /// Perhaps a separator.
    pub separator: char,
    /// Any text.
    pub key: String,
}

impl PatternCase {
    /// The case that these bytes say; every sequence of bytes says one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let nothing = Self { text: String::new(), separator: Pattern::SEPARATOR, key: String::new() };
        Self::arbitrary(&mut Unstructured::new(bytes)).unwrap_or(nothing)
    }
}

impl Arbitrary<'_> for PatternCase {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let separator = if u.ratio(7, 8)? { *u.choose(&SEPARATORS)? } else { u.arbitrary()? };
        if u.ratio(1, 8)? {
            return Ok(Self { text: u.arbitrary()?, separator, key: u.arbitrary()? });
        }
        // Few of the pieces that make a text no pattern, or most would be none.
        let wanted =
            segments(u, |u| if u.ratio(1, 24)? { u.choose(&PIECES) } else { u.choose(&["a", "b", "*", "*", "é", "aa"]) })?;
        let rest = if u.ratio(1, 4)? { &[">"][..] } else { &[] };
        let mark = if u.ratio(1, 8)? { ">>" } else { "" };
        let text = mark.to_owned() + &joined(&[&wanted, rest].concat(), separator);
        // A key that is made from the pattern, with a fault now and then; or one that is not.
        let key = if u.ratio(3, 4)? {
            let mut key = Vec::new();
            for segment in &wanted {
                let same = *segment != "*" && !u.ratio(1, 8)?;
                key.push(if same { *segment } else { u.choose(&PIECES)? });
            }
            if !rest.is_empty() || u.ratio(1, 8)? {
                key.extend(segments(u, |u| u.choose(&PIECES))?);
            }
            joined(&key, separator)
        } else {
            joined(&segments(u, |u| u.choose(&PIECES))?, separator)
        };
        Ok(Self { text, separator, key })
    }
}

type Choose = fn(&mut Unstructured<'_>) -> Result<&'static &'static str>;

fn segments(u: &mut Unstructured<'_>, choose: Choose) -> Result<Vec<&'static str>> {
    let count = if u.ratio(1, 64)? { u.int_in_range(60..=70)? } else { u.int_in_range(0..=4)? };
    (0..count).map(|_| choose(u).copied()).collect()
}

fn joined(segments: &[&str], separator: char) -> String {
    segments.join(&separator.to_string())
}

/// Parses the text and asks whether it matches the key: never a panic, an error exactly where the model has one, the same answer as the
/// model's, and a text form that reads back.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_pattern(case: &PatternCase) {
    let PatternCase { text, separator, key } = case;
    check_prefix(text, key);
    let parsed = Pattern::with_separator(text, *separator);
    if let Some(prefix) = text.strip_prefix(">>") {
        assert_eq!(parsed, Pattern::prefix(prefix), "the text form of a prefix");
        return;
    }
    let faults = faults(text, *separator);
    let pattern = match parsed {
        Err(error) => return assert!(faults.contains(&error), "{error:?} is none of {faults:?}"),
        Ok(pattern) => pattern,
    };
    assert_eq!(faults, [], "an error was due");
    assert_eq!(pattern.to_string(), *text, "one text per pattern");
    assert_eq!(pattern.separator(), Some(*separator));
    if *separator == Pattern::SEPARATOR {
        assert_eq!(text.parse().as_ref(), Ok(&pattern));
    }
    let wanted: Vec<&str> = text.split(*separator).collect();
    let key_segments: Vec<&str> = key.split(*separator).collect();
    assert_eq!(pattern.matches(key), segments_match(&wanted, &key_segments), "whether it matches");
    // It is a key like any other: `*` is one segment of it, and so is `>`.
    assert!(pattern.matches(text), "a pattern matches its own text");
}

fn check_prefix(prefix: &str, key: &str) {
    let too_long = prefix.len() > Pattern::MAX_BYTES;
    match Pattern::prefix(prefix) {
        Err(error) if prefix.is_empty() => assert_eq!(error, ParsePatternError::Empty),
        Err(error) => assert!(too_long && error == ParsePatternError::TooLong, "{error:?}"),
        Ok(pattern) => {
            assert!(!prefix.is_empty() && !too_long);
            assert_eq!(pattern.matches(key), key.as_bytes().starts_with(prefix.as_bytes()), "whether the key begins so");
            assert!(pattern.matches(prefix) && pattern.matches(&format!("{prefix}{key}")));
            assert_eq!(pattern.separator(), None);
            assert_eq!(pattern.to_string().parse(), Ok(pattern), "round trip");
        }
    }
}

/// Everything that is wrong with a text as segments.
fn faults(text: &str, separator: char) -> Vec<ParsePatternError> {
    use ParsePatternError::{Empty, EmptySegment, RestNotLast, Separator, TooLong, TooManySegments, WildcardInSegment};
    let segments: Vec<&str> = text.split(separator).collect();
    let rest_not_last = segments.iter().rev().skip(1).any(|segment| *segment == ">");
    let in_segment = segments.iter().any(|segment| segment.len() > 1 && segment.contains(['*', '>']));
    let all = [
        (text.is_empty(), Empty),
        (!text.is_empty() && segments.contains(&""), EmptySegment),
        (rest_not_last, RestNotLast),
        (matches!(separator, '*' | '>'), Separator),
        (text.len() > Pattern::MAX_BYTES, TooLong),
        (segments.len() > Pattern::MAX_SEGMENTS, TooManySegments),
        (in_segment, WildcardInSegment),
    ];
    all.into_iter().filter_map(|(is_so, fault)| is_so.then_some(fault)).collect()
}

/// The rules as they are told.
fn segments_match(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        (["*", pattern @ ..], [_, key @ ..]) => segments_match(pattern, key),
        ([wanted, pattern @ ..], [segment, key @ ..]) => wanted == segment && segments_match(pattern, key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator whose keys hardly ever match would test nothing.
    #[test]
    fn cases_match_and_fail_to_match_often_enough() {
        let (mut patterns, mut matching, mut wild, mut faulty) = (0, 0, 0, 0);
        let mut state = 1_u64;
        for _ in 0..4_000 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                state.to_be_bytes()[0]
            })
            .take(200)
            .collect();
            let case = PatternCase::from_bytes(&bytes);
            match Pattern::with_separator(&case.text, case.separator) {
                Err(_) => faulty += 1,
                Ok(pattern) => {
                    patterns += 1;
                    let is_match = pattern.matches(&case.key);
                    matching += u32::from(is_match);
                    wild += u32::from(is_match && case.key != case.text && pattern.separator().is_some());
                }
            }
        }
        let counts = format!("{patterns} patterns, {matching} match, {wild} by a wildcard, {faulty} no pattern");
        assert!(patterns > 1_000 && matching > 400 && wild > 200 && faulty > 400 && patterns - matching > 400, "{counts}");
    }
}
