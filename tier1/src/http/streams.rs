//! `GET /v1/keys/{key}` and `GET /v1/stream?key=..&match=..`: the event streams.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use hyper::{HeaderMap, header};
use keywake::{Position, Start};

use super::{PathKey, error::ApiError, path_key, query, wanted::Wanted};
use crate::{
    app::App,
    sse::{body::StreamBody, feed::Feed},
};

/// The header with which a client that reconnects says how far it has read.
const LAST_EVENT_ID: &str = "last-event-id";

/// A stream of one key.
pub(super) async fn one_key(
    State(app): State<Arc<App>>,
    path: PathKey,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = path_key(&app, path)?;
    let asked = Asked::parse(query.as_deref().unwrap_or_default(), false)?;
    let start = asked.start(&headers)?;
    let feed = Feed::new(&app, vec![key], &[], start);
    Ok(stream(app, feed, start, false))
}

/// A stream of several keys.
pub(super) async fn several_keys(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let asked = Asked::parse(query.as_deref().unwrap_or_default(), true)?;
    let start = asked.start(&headers)?;
    let Wanted { keys, patterns } = Wanted::new(&app, &asked.keys, &asked.patterns)?;
    if patterns.is_empty() {
        let feed = Feed::new(&app, keys, &patterns, start);
        return Ok(stream(app, feed, start, true));
    }
    let here = Arc::clone(&app);
    // It passes over all keys: not on a thread that serves streams.
    let feed = tokio::task::spawn_blocking(move || Feed::new(&here, keys, &patterns, start)).await;
    let fails = |_| ApiError::internal("the stream cannot be opened");
    Ok(stream(app, feed.map_err(fails)?, start, true))
}

/// Answers. The status is 200 whatever the hub says: a browser's EventSource never comes back after any other,
/// so a full or stopped hub is told by the stream itself.
fn stream(app: Arc<App>, feed: Feed, start: Start, named: bool) -> Response {
    let resumes = matches!(start, Start::After(_));
    let body = StreamBody::new(app, feed, resumes, named);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    // No copy kept, and no proxy that compresses or collects what should be seen at once.
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    response
}

/// What the query asks for.
#[derive(Debug, Default)]
struct Asked {
    keys: Vec<String>,
    patterns: Vec<String>,
    from: Option<String>,
    last_event_id: Option<String>,
}

impl Asked {
    fn parse(query: &str, with_keys: bool) -> Result<Self, ApiError> {
        let mut asked = Self::default();
        for (name, value) in query::parameters(query)? {
            match name.as_str() {
                "key" if with_keys => asked.keys.push(value),
                "match" if with_keys => asked.patterns.push(value),
                "from" => query::once(&mut asked.from, "from", value)?,
                "last_event_id" => query::once(&mut asked.last_event_id, "last_event_id", value)?,
                _ if with_keys => return Err(query::unknown(&name, "key, match, from, last_event_id")),
                _ => return Err(query::unknown(&name, "from, last_event_id")),
            }
        }
        Ok(asked)
    }

    /// Where to begin: after the header's position, else the query's, else as `from` says. A browser that reconnects sends the
    /// header with the query of its first request, so the header wins. An empty position is none.
    fn start(&self, headers: &HeaderMap) -> Result<Start, ApiError> {
        let from = match self.from.as_deref() {
            None | Some("next") => Start::Next,
            Some("oldest") => Start::Oldest,
            Some("latest") => Start::Latest,
            Some(_) => return Err(ApiError::bad_request("bad_from", "from is oldest, latest or next")),
        };
        let header = match headers.get(LAST_EVENT_ID).map(header::HeaderValue::to_str) {
            Some(Err(_)) => return Err(bad_position("it is not ASCII")),
            Some(Ok(text)) => Some(text.trim()),
            None => None,
        };
        let id = [header, self.last_event_id.as_deref()].into_iter().flatten().find(|id| !id.is_empty());
        match id.map(str::parse::<Position>) {
            None => Ok(from),
            Some(Ok(position)) => Ok(Start::After(position)),
            Some(Err(error)) => Err(bad_position(&error.to_string())),
        }
    }
}

fn bad_position(why: &str) -> ApiError {
    ApiError::bad_request("bad_position", format!("the last event id is not a position of this server: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(query: &str, header: Option<&str>) -> Result<Start, ApiError> {
        let mut headers = HeaderMap::new();
        if let Some(id) = header {
            headers.insert(LAST_EVENT_ID, id.parse().unwrap());
        }
        Asked::parse(query, true)?.start(&headers)
    }

    #[test]
    fn the_header_wins_over_the_query_and_any_position_over_from() {
        let at = |seq| Ok(Start::After(Position::new(1, seq)));
        assert_eq!(start("", None), Ok(Start::Next));
        assert_eq!(start("from=oldest", None), Ok(Start::Oldest));
        assert_eq!(start("from=latest", None), Ok(Start::Latest));
        assert_eq!(start("from=oldest&last_event_id=v1.1.5", None), at(5));
        assert_eq!(start("from=oldest&last_event_id=v1.1.5", Some("v1.1.9")), at(9));
        assert_eq!(start("from=oldest&last_event_id=", Some("")), Ok(Start::Oldest));
        assert_eq!(start("last_event_id=v1.1.5", Some("")), at(5));
    }

    #[test]
    fn keys_and_patterns_mix_in_any_order() {
        let asked = Asked::parse("match=flight.UA.*&key=a&from=oldest&match=%3E%3Eroute.J&key=b+c&match=*.%3E", true).unwrap();
        assert_eq!(asked.keys, ["a", "b c"]);
        assert_eq!(asked.patterns, ["flight.UA.*", ">>route.J", "*.>"]);
        assert_eq!(asked.from.as_deref(), Some("oldest"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (query, header) in [
            ("from=newest", None),
            ("from=", None),
            ("form=oldest", None),
            ("from=next&from=next", None),
            ("last_event_id=7", None),
            ("last_event_id=v2.1.1", None),
            ("", Some("v1.1")),
            ("last_event_id=v1.1.1", Some("x")),
            ("from=never", Some("v1.1.1")),
        ] {
            assert!(start(query, header).is_err(), "{query} {header:?}");
        }
        assert!(Asked::parse("key=a", false).is_err());
        assert!(Asked::parse("match=a", false).is_err());
    }
}
