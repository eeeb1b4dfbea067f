//! Patterns: what they name, what is none, and the text form.

use std::{collections::HashSet, sync::Arc};

use keywake::{ParsePatternError, Pattern};

#[track_caller]
fn pattern(text: &str) -> Pattern {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[track_caller]
fn assert_matches(pattern: &Pattern, yes: &[&str], no: &[&str]) {
    for key in yes {
        assert!(pattern.matches(key), "{pattern} does not match {key:?}");
    }
    for key in no {
        assert!(!pattern.matches(key), "{pattern} matches {key:?}");
    }
}

#[test]
fn examples_of_the_nats_documentation_hold() {
    assert_matches(
        &pattern("time.*.east"),
        &["time.us.east", "time.eu.east"],
        &["time.us.east.atlanta", "time.east", "time.us.west"],
    );
    assert_matches(&pattern("time.us.>"), &["time.us.east", "time.us.east.atlanta"], &["time.us", "time.eu.east", "time"]);
    assert_matches(&pattern("time.us.*"), &["time.us.east"], &["time.us.east.atlanta", "time.us"]);
    assert_matches(&pattern("*.*.east.>"), &["time.us.east.atlanta"], &["time.us.east", "time.us.west.atlanta"]);
    assert_matches(&pattern(">"), &["time", "time.us", "time.us.east.atlanta"], &[]);
    assert_eq!("time.New*.east".parse::<Pattern>(), Err(ParsePatternError::WildcardInSegment));
}

#[test]
fn pattern_without_wildcards_names_one_key() {
    assert_matches(&pattern("a.b"), &["a.b"], &["", "a", "a.", "a.b.", "a.b.c", "a.bc", "A.b", ".a.b", "xa.b", "a..b"]);
    assert_matches(&pattern("a"), &["a"], &["", "aa", "a.a", ".a", "a.", "*"]);
}

#[test]
fn star_is_exactly_one_segment() {
    assert_matches(&pattern("*"), &["a", "a b", "é", "*"], &["a.b", "a.", ".a", "."]);
    assert_matches(&pattern("a.*"), &["a.b", "a.bc"], &["a", "a.b.c", "ab", "b.a", "aa.b"]);
    assert_matches(&pattern("*.a"), &["b.a"], &["a", "b.aa", "b.a.a", "b.b.a", "a.b"]);
    assert_matches(&pattern("*.a.*.b"), &["x.a.y.b", "a.a.a.b"], &["x.a.y.z.b", "x.a.b", "x.a.y.b.b"]);
}

#[test]
fn rest_is_one_segment_at_least() {
    assert_matches(&pattern("a.>"), &["a.b", "a.b.c", "a.>"], &["a", "ab", "ab.c", "b.a.b", ">"]);
    assert_matches(&pattern("*.>"), &["a.b", "a.b.c"], &["a", ""]);
}

#[test]
fn every_text_is_a_key_and_empty_segments_are_segments() {
    assert_matches(&pattern(">"), &["", ".", "..", "a.", ".a"], &[]);
    assert_matches(&pattern("*"), &[""], &["."]);
    assert_matches(&pattern("*.*"), &[".", "a.", ".a"], &["", ".."]);
    assert_matches(&pattern("a.*.b"), &["a..b"], &["a.b", "a...b"]);
    assert_matches(&pattern("a.>"), &["a.", "a.."], &["a", ".a"]);
    assert_matches(&pattern("a.*"), &["a."], &["a..", "a"]);
}

#[test]
fn wildcard_characters_in_a_key_mean_nothing() {
    assert_matches(&pattern("a.b"), &[], &["a.*", "*.b", "a.>", ">", "*.*"]);
    assert_matches(&pattern("a.*"), &["a.*", "a.>", "a.b*", "a.>>"], &["*.b", ">"]);
}

#[test]
fn separator_may_be_any_character_but_a_wildcard() {
    for separator in ['/', ':', ' ', '\0', '\n', 'x', 'é', '→', '\u{10ffff}'] {
        let text = |parts: &[&str]| parts.join(&separator.to_string());
        let pattern = Pattern::with_separator(&text(&["a", "*", ">"]), separator).expect("a pattern");
        assert_eq!(pattern.separator(), Some(separator));
        assert!(pattern.matches(&text(&["a", "b", "c"])));
        assert!(pattern.matches(&text(&["a", "b.c", "", ""])));
        assert!(!pattern.matches(&text(&["a", "b"])));
        assert!(!pattern.matches("a.b.c"));
        assert_eq!(Pattern::with_separator(&pattern.to_string(), separator), Ok(pattern));
    }
    for separator in ['*', '>'] {
        for text in ["a", "", "a*b"] {
            assert_eq!(Pattern::with_separator(text, separator), Err(ParsePatternError::Separator));
        }
    }
    // Characters that share bytes with the separator do not separate.
    assert_matches(&Pattern::with_separator("*→a", '→').expect("a pattern"), &["↑→a", "←→a"], &["↑a", "←a", "→→a"]);
    assert_matches(&Pattern::with_separator("éaé", 'a').expect("a pattern"), &["éaé"], &["éa", "aé", "èaé"]);
}

#[test]
fn prefix_knows_no_segments_and_no_wildcards() {
    let prefix = |text| Pattern::prefix(text).expect("a prefix");
    assert_matches(&prefix("flight.UA"), &["flight.UA", "flight.UA.1", "flight.UAL.1"], &["flight.U", "", "x.flight.UA"]);
    assert_matches(&prefix("a."), &["a.", "a.b", "a.b.c"], &["a", "ab"]);
    assert_matches(&prefix("a.*"), &["a.*", "a.*.b"], &["a.b"]);
    assert_matches(&prefix(">"), &[">", ">>"], &["a"]);
    assert_matches(&prefix("é"), &["éa"], &["e", "\u{e8}"]);
    assert_eq!(Pattern::prefix(""), Err(ParsePatternError::Empty));
    assert_eq!(prefix("a").separator(), None);
}

#[test]
fn bad_texts_are_typed_errors() {
    use ParsePatternError::{Empty, EmptySegment, RestNotLast, TooLong, TooManySegments, WildcardInSegment};
    for (text, error) in [
        ("", Empty),
        (">>", Empty),
        (".", EmptySegment),
        (".a", EmptySegment),
        ("a.", EmptySegment),
        ("a..b", EmptySegment),
        ("*.", EmptySegment),
        (">.", RestNotLast),
        (">.a", RestNotLast),
        ("a.>.b", RestNotLast),
        (">.>", RestNotLast),
        ("a*", WildcardInSegment),
        ("*a", WildcardInSegment),
        ("a*b", WildcardInSegment),
        ("**", WildcardInSegment),
        ("a.**", WildcardInSegment),
        ("a>", WildcardInSegment),
        (">a", WildcardInSegment),
        ("*>", WildcardInSegment),
        ("a.>>", WildcardInSegment),
        (" >", WildcardInSegment),
    ] {
        assert_eq!(text.parse::<Pattern>(), Err(error), "{text:?}");
    }
    let longest = "x".repeat(Pattern::MAX_BYTES);
    assert_matches(&pattern(&longest), &[&longest], &["x"]);
    assert_matches(&Pattern::prefix(&longest).expect("a prefix"), &[&longest, &(longest.clone() + "y")], &["x"]);
    assert_eq!(Pattern::prefix(&longest).expect("a prefix").to_string().parse(), Pattern::prefix(&longest));
    assert_eq!((longest.clone() + "x").parse::<Pattern>(), Err(TooLong));
    assert_eq!(Pattern::prefix(&(longest + "x")), Err(TooLong));
    let most = vec!["*"; Pattern::MAX_SEGMENTS].join(".");
    assert_matches(&pattern(&most), &[&most, &".".repeat(Pattern::MAX_SEGMENTS - 1)], &["*", &(most.clone() + ".")]);
    assert_eq!((most + ".*").parse::<Pattern>(), Err(TooManySegments));
}

#[test]
fn errors_say_what_to_write_instead() {
    for (text, word) in [("", "> alone"), ("a..b", "empty"), (">.a", "last"), ("U*", "whole segments")] {
        let error = text.parse::<Pattern>().expect_err("no pattern").to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn pattern_text_round_trips() {
    for text in ["a", "*", ">", "a.*.>", "a b.\t", "é.→", ">>a", ">>a.*", ">>>", ">>*.>.", ">> "] {
        assert_eq!(pattern(text).to_string(), text);
    }
    assert_eq!(pattern(">>a"), Pattern::prefix("a").expect("a prefix"));
    assert_eq!(Pattern::with_separator(">>a", '/'), Pattern::prefix("a"));
    assert_eq!(format!("{:?}", pattern("a.*")), r#"Pattern("a.*")"#);
    assert_eq!(format!("{:?}", Pattern::with_separator("a", '/').expect("a pattern")), r#"Pattern("a", '/')"#);
}

#[test]
fn patterns_are_equal_when_text_and_separator_are() {
    let slash = Pattern::with_separator("a", '/').expect("a pattern");
    let prefix = Pattern::prefix("a").expect("a prefix");
    let all: HashSet<Pattern> = [pattern("a"), pattern("a"), pattern("b"), slash.clone(), slash, prefix.clone(), prefix].into();
    assert_eq!(all.len(), 4);
}

#[test]
fn any_key_that_gives_its_text_can_be_asked() {
    fn asks<K: AsRef<str>>(pattern: &Pattern, key: &K) -> bool {
        pattern.matches(key.as_ref())
    }
    let pattern = pattern("a.*");
    assert!(asks(&pattern, &"a.b") && asks(&pattern, &"a.b".to_owned()) && asks(&pattern, &Arc::<str>::from("a.b")));
}

#[test]
fn key_may_be_of_any_length() {
    let key = "a.".repeat(1 << 20);
    assert_matches(&pattern(">"), &[&key], &[]);
    assert_matches(&pattern("*.*.b"), &[], &[&key]);
    assert_matches(&pattern(&vec!["*"; Pattern::MAX_SEGMENTS].join(".")), &[], &[&key]);
}
