//! An error as the API tells it.

use std::borrow::Cow;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use hyper::{HeaderMap, StatusCode, header};
use keywake::overload::status::{Code, EndCause};
use serde::Serialize;

/// An error: a status, a code for programs, a message for people, and in a batch the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    line: Option<usize>,
}

impl ApiError {
    /// An error with this status.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), line: None }
    }

    /// An error with the status that the library's table has for this code.
    pub fn of(code: Code, word: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        // The table has none that is no status.
        let status = StatusCode::from_u16(code.wire().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, word, message)
    }

    /// The server stops.
    pub fn draining(message: &'static str) -> Self {
        Self::of(EndCause::ShuttingDown.code(), "draining", message)
    }

    /// Something is broken here.
    pub fn internal(message: &'static str) -> Self {
        Self::of(Code::Internal, "internal", message)
    }

    /// An error with status 400.
    pub fn bad_request(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// The same error, said of a line of a batch, counted from 1.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.message = format!("line {line}: {}", self.message).into();
        self.line = Some(line);
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: Data<'a>,
        }
        #[derive(Serialize)]
        struct Data<'a> {
            code: &'a str,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            line: Option<usize>,
        }
        let mut headers = HeaderMap::new();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        let error = Data { code: self.code, message: &self.message, line: self.line };
        (self.status, headers, json(&Envelope { error })).into_response()
    }
}

/// A JSON body, ended by a line end so that it looks well in a terminal.
pub(super) fn json(value: &impl Serialize) -> Response {
    // The API's own structs of numbers and strings always serialise.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
