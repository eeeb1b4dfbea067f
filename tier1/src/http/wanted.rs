//! What a stream of several keys is to be of: keys by name, and patterns for those that are there and those to come.

use keywake::Pattern;

use super::{checked_key, error::ApiError};
use crate::{app::App, key::Key};

/// Keys and patterns, each once and checked.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) keys: Vec<Key>,
    pub(super) patterns: Vec<Pattern>,
}

impl Wanted {
    /// Checks what a query names.
    ///
    /// # Errors
    ///
    /// The first key or pattern that is none; `too_many_keys`, `too_many_patterns`; `no_keys` where neither is named.
    pub(super) fn new(app: &App, keys: &[String], patterns: &[String]) -> Result<Self, ApiError> {
        let limits = &app.config.limits;
        let most = limits.max_stream_keys;
        let too_many = || ApiError::bad_request("too_many_keys", format!("a stream has at most {most} keys"));
        let keys = each_once(keys, most, |key| checked_key(app, key), too_many)?;
        let most = limits.max_stream_patterns;
        let too_many = || ApiError::bad_request("too_many_patterns", format!("a stream has at most {most} patterns"));
        let patterns = each_once(patterns, most, checked_pattern, too_many)?;
        if keys.is_empty() && patterns.is_empty() {
            return Err(ApiError::bad_request("no_keys", "name the keys: ?key=..&key=.., or ?match=.. with a pattern"));
        }
        Ok(Self { keys, patterns })
    }
}

/// What the texts stand for, as long as it is not too much.
fn each_once<T: PartialEq>(
    texts: &[String],
    most: usize,
    checked: impl Fn(&str) -> Result<T, ApiError>,
    too_many: impl FnOnce() -> ApiError,
) -> Result<Vec<T>, ApiError> {
    let mut all = Vec::new();
    for text in texts {
        let one = checked(text)?;
        if !all.contains(&one) {
            all.push(one);
        }
        if all.len() > most {
            return Err(too_many());
        }
    }
    Ok(all)
}

fn checked_pattern(text: &str) -> Result<Pattern, ApiError> {
    let bad = |why: &str| {
        let text: String = text.chars().take(40).collect();
        ApiError::bad_request("bad_pattern", format!("{text:?}: {why}"))
    };
    if text.chars().any(char::is_control) {
        return Err(bad("a pattern must not hold control characters; no key does"));
    }
    text.parse().map_err(|error: keywake::ParsePatternError| bad(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::response::IntoResponse;
    use clap::Parser;
    use http_body_util::BodyExt;

    use super::*;
    use crate::config::Config;

    fn app() -> Arc<App> {
        App::new(Config::parse_from(["tier1", "--max-stream-keys", "2", "--max-stream-patterns", "3"]))
    }

    fn wanted(keys: &[&str], patterns: &[&str]) -> Result<Wanted, ApiError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Wanted::new(&app(), &owned(keys), &owned(patterns))
    }

    async fn error(keys: &[&str], patterns: &[&str]) -> String {
        let response = wanted(keys, patterns).unwrap_err().into_response();
        assert_eq!(response.status(), 400);
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn keys_and_patterns_are_taken_once_each() {
        let both = wanted(&["a", "b", "a"], &["flight.*", ">", "flight.*", ">>flight.UA", "flight.*"]).unwrap();
        assert_eq!(both.keys, ["a", "b"].map(Key::from));
        assert_eq!(both.patterns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["flight.*", ">", ">>flight.UA"]);
        assert!(wanted(&[], &["a"]).is_ok() && wanted(&["a"], &[]).is_ok());
        // A key is a name, whatever stands in it.
        assert_eq!(wanted(&["flight.*"], &[]).unwrap().keys, [Key::from("flight.*")]);
    }

    #[tokio::test]
    async fn what_is_no_pattern_is_named_and_explained() {
        for (pattern, code, word) in [
            ("", "bad_pattern", "alone"),
            (">>", "bad_pattern", "alone"),
            ("flight..1", "bad_pattern", "empty"),
            ("flight.>.1", "bad_pattern", "last"),
            ("flight.U*", "bad_pattern", "flight.U*"),
            ("a\n*", "bad_pattern", "control"),
            (">>a\u{85}", "bad_pattern", "control"),
            (&"x".repeat(1025), "bad_pattern", "1024 bytes"),
            (&"x.".repeat(65), "bad_pattern", "64 segments"),
        ] {
            let error = error(&["a"], &[pattern]).await;
            assert!(error.contains(code) && error.contains(word) && error.len() < 300, "{pattern:?}: {error}");
        }
    }

    #[tokio::test]
    async fn limits_of_keys_and_patterns_are_apart() {
        assert!(wanted(&["a", "b"], &["a", "b", "c"]).is_ok());
        assert!(error(&["a", "b", "c"], &["a"]).await.contains("too_many_keys"));
        assert!(error(&["a"], &["a", "b", "c", "d"]).await.contains("too_many_patterns"));
        assert!(error(&[], &[]).await.contains("no_keys"));
    }
}
