//! `POST /v1/keys/{key}` and `POST /v1/publish`: publishing.
//!
//! Both answer when the event is in the hub, with its position. Neither waits for a reader.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::HttpBody,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{HeaderMap, StatusCode, header};
use keywake::Position;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    PathKey, checked_key,
    error::{ApiError, json},
    path_key,
};
use crate::{app::App, key::Key, payload::Payload};

/// One event: the body, whatever it is.
pub(super) async fn one(State(app): State<Arc<App>>, path: PathKey, request: Request) -> Result<Response, ApiError> {
    #[derive(Serialize)]
    struct Answer {
        position: String,
    }
    let key = path_key(&app, path)?;
    let media_type = media_type(request.headers())?;
    let body = read(&app, request).await?;
    if is_json(&media_type) {
        let checked = serde_json::from_slice::<&RawValue>(&body);
        checked.map_err(|error| ApiError::bad_request("bad_json", format!("the body is not the JSON it says it is: {error}")))?;
    }
    let payload = Payload::from_body(&body).ok_or_else(|| ApiError::bad_request("empty_body", "an event must not be empty"))?;
    let position = app.publish(key, payload).ok_or_else(draining)?;
    Ok(json(&Answer { position: position.to_string() }))
}

/// A batch: a line of JSON per event, all published or none.
pub(super) async fn batch(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    #[derive(Serialize)]
    struct Answer {
        position: String,
        events: usize,
    }
    let media_type = media_type(request.headers())?;
    if !may_hold_lines(&media_type) {
        return Err(unsupported("a batch is application/x-ndjson"));
    }
    let body = read(&app, request).await?;
    let events = lines(&app, &body)?;
    let count = events.len();
    let position: Position = app.publish_batch(events).ok_or_else(draining)?;
    Ok(json(&Answer { position: position.to_string(), events: count }))
}

/// The events of a batch; empty lines are passed over.
fn lines(app: &App, body: &[u8]) -> Result<Vec<(Key, Payload)>, ApiError> {
    let most = app.config.limits.max_batch_lines;
    let mut events = Vec::new();
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if events.len() == most {
            let message = format!("a batch has at most {most} lines");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_lines", message).at_line(number));
        }
        events.push(event(app, line).map_err(|error| error.at_line(number))?);
    }
    if events.is_empty() {
        return Err(ApiError::bad_request("empty_body", "the batch holds no line"));
    }
    Ok(events)
}

fn event(app: &App, line: &[u8]) -> Result<(Key, Payload), ApiError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line<'a> {
        #[serde(borrow)]
        key: Cow<'a, str>,
        #[serde(borrow)]
        event: &'a RawValue,
    }
    let bad = |why: String| ApiError::bad_request("bad_line", format!("not {{\"key\":..,\"event\":..}}: {why}"));
    let text = std::str::from_utf8(line).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| bad(explain(&error)))?;
    Ok((checked_key(app, &line.key)?, Payload::from_json(line.event.get())))
}

/// What is wrong with a line. Its number in the batch is told elsewhere, so not the parser's own, which is always 1.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line 1").next().unwrap_or_default();
    let hint = if what.starts_with("trailing characters") {
        "; one object per line (with curl: --data-binary, -d drops line ends)"
    } else {
        ""
    };
    format!("{what} at column {}{hint}", error.column())
}

/// The whole body, within the limits of size and time.
async fn read(app: &App, request: Request) -> Result<Bytes, ApiError> {
    let limits = &app.config.limits;
    let timeout = limits.body_timeout;
    tokio::time::timeout(timeout, collect(request, limits.max_body())).await.unwrap_or_else(|_| {
        let message = format!("the body did not come within {} s", timeout.as_secs_f64());
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message))
    })
}

/// How much of a body that is too large is read all the same, and thrown away. Clients send a body before they look for an
/// answer, and some never see one that comes earlier.
const READ_AWAY: usize = 8 * 1024 * 1024;

async fn collect(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let too_large =
        || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", format!("a body has at most {limit} bytes"));
    // This client asks first, and must not be told to go on.
    let asks_first = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    if asks_first && body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad_request("broken_body", format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length <= limit {
            bytes.extend_from_slice(&data);
        } else if length - limit > READ_AWAY {
            break;
        }
    }
    if length > limit { Err(too_large()) } else { Ok(bytes.into()) }
}

/// The media type without its parameters, in lower case; empty if there is none. Refuses what would be taken for what it is
/// not: a compressed body, and a form with parts around the event.
fn media_type(headers: &HeaderMap) -> Result<String, ApiError> {
    let text =
        |name| headers.get(name).map_or(Ok(""), |value| value.to_str().map_err(|_| unsupported("the header is not ASCII")));
    let coding = text(header::CONTENT_ENCODING)?.trim();
    if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
        return Err(unsupported("a compressed body is not taken"));
    }
    let media_type = text(header::CONTENT_TYPE)?.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media_type.starts_with("multipart/") {
        return Err(unsupported("a body is taken as it is, without parts: curl --data-binary"));
    }
    Ok(media_type)
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// The types that batches come with; the last two are what curl and browsers say when they are not told.
fn may_hold_lines(media_type: &str) -> bool {
    const KNOWN: [&str; 8] = [
        "",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
    ];
    KNOWN.contains(&media_type)
}

fn unsupported(message: &'static str) -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

fn draining() -> ApiError {
    ApiError::draining("the server is stopping; the event may not have been published")
}
