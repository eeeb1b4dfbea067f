//! The routes. Every error is JSON, `{"error":{"code","message"}}`, those of paths and methods that do not exist too; the
//! one exception is a request that is not HTTP at all, which the connection answers itself.

pub mod error;
mod keys;
mod probes;
mod publish;
mod query;
mod streams;
mod wanted;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Request},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hyper::StatusCode;

use self::error::ApiError;
use crate::{
    app::App,
    key::{self, Key},
};

/// All routes of the public port.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(probes::help))
        .route("/livez", get(probes::live))
        .route("/readyz", get(probes::ready))
        .route("/metrics", get(probes::metrics))
        .route("/v1/keys", get(keys::busiest))
        .route("/v1/keys/", get(no_key).post(no_key))
        .route("/v1/keys/{key}", get(streams::one_key).post(publish::one))
        .route("/v1/stream", get(streams::several_keys))
        .route("/v1/publish", post(publish::batch))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn(well_encoded))
        .with_state(app)
}

/// A key as it stands in a path, percent-encoded.
type PathKey = Result<Path<String>, axum::extract::rejection::PathRejection>;

/// The key of a path, checked.
fn path_key(app: &App, path: PathKey) -> Result<Key, ApiError> {
    let Path(key) = path.map_err(|_| ApiError::bad_request("bad_key", "the key in the path is not percent-encoded UTF-8"))?;
    checked_key(app, &key)
}

/// A key, checked.
fn checked_key(app: &App, key: &str) -> Result<Key, ApiError> {
    key::check(key, app.config.limits.max_key_bytes).map_err(|error| ApiError::bad_request(error.code(), error.to_string()))?;
    Ok(key.into())
}

/// Refuses a path with a `%` that encodes nothing: taken as it stands, it would be a stream of a key that nobody meant.
async fn well_encoded(request: Request, next: Next) -> Response {
    if query::is_well_encoded(request.uri().path()) {
        return next.run(request).await;
    }
    ApiError::bad_request(
        "bad_key",
        "the path holds a % that is not followed by two hexadecimal digits; a % itself is written %25",
    )
    .into_response()
}

async fn no_key() -> ApiError {
    let error = key::KeyError::Empty;
    ApiError::bad_request(error.code(), error.to_string())
}

async fn no_path() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "there is nothing here; GET / lists what there is, and a / in a key is written %2F",
    )
}

async fn no_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not take this method; the Allow header lists those it takes",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use clap::Parser;
    use http_body_util::BodyExt;
    use hyper::{Request, service::Service};
    use hyper_util::service::TowerToHyperService;
    use keywake::CloseReason;

    use super::*;
    use crate::{config::Config, sse::reference::Parser as Client};

    async fn answer(app: &Arc<App>, method: &str, path: &str, body: &'static str) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let response = TowerToHyperService::new(router(Arc::clone(app))).call(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn after_the_end_publishers_and_readers_are_told_to_come_back() {
        let app = App::new(Config::parse_from(["tier1"]));
        assert_eq!(answer(&app, "POST", "/v1/keys/k", "1").await.0, StatusCode::OK);
        app.hub.shutdown(CloseReason::Shutdown);
        for (path, body) in [("/v1/keys/k", "2"), ("/v1/publish", "{\"key\":\"k\",\"event\":2}")] {
            let (status, text) = answer(&app, "POST", path, body).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(text.contains("\"code\":\"draining\""), "{text}");
        }
        for path in ["/v1/keys/k", "/v1/stream?key=k&key=l"] {
            let (status, stream) = answer(&app, "GET", path, "").await;
            assert_eq!(status, StatusCode::OK);
            let messages = Client::default().feed(&stream);
            assert_eq!(messages.len(), 1, "{stream}");
            assert_eq!(messages[0].event, "goaway");
            assert!(messages[0].data.contains("\"reason\":\"shutdown\""), "{stream}");
        }
        assert_eq!(app.metrics.streams(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_come_as_often_as_set() {
        let app = App::new(Config::parse_from(["tier1", "--heartbeat", "10s"]));
        let request = Request::builder().uri("/v1/keys/k").body(Body::empty()).unwrap();
        let mut body = TowerToHyperService::new(router(app)).call(request).await.unwrap().into_body();
        let mut client = Client::default();
        let begin = tokio::time::Instant::now();
        for _ in 0..11 {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            client.feed(std::str::from_utf8(&frame).unwrap());
        }
        // The hello, the first beat early, nine more.
        let seconds = begin.elapsed().as_secs_f64();
        assert!((95.0..=100.1).contains(&seconds), "{seconds}");
        assert_eq!(client.comments, 11);
    }
}
