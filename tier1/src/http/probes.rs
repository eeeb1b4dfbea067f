//! `GET /`, `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::{extract::State, response::IntoResponse};
use hyper::{HeaderMap, header};

use super::error::ApiError;
use crate::{app::App, metrics::CONTENT_TYPE};

/// What there is.
pub(super) async fn help(headers: HeaderMap) -> impl IntoResponse {
    // Shown as it came, in a text of type text/plain.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7070");
    format!(
        "tier1 {version}: server-sent events of any number of keys\n\n\
         curl -N 'http://{host}/v1/keys/KEY?from=oldest'              a stream of one key (from: oldest, latest, next)\n\
         curl -N 'http://{host}/v1/stream?key=KEY&key=OTHER'          a stream of several keys\n\
         curl -N 'http://{host}/v1/stream?match=flight.UA.*'          all keys of a pattern, those to come, too: * is one segment,\n\
         curl -N 'http://{host}/v1/stream?match=flight.%3E'           and > the rest, written %3E in a URL\n\
         curl -N -H 'Last-Event-ID: v1.beef.7' 'http://{host}/v1/keys/KEY'  come back: what followed that id, or a gap\n\
         curl -d '{{\"any\":\"json\"}}' 'http://{host}/v1/keys/KEY'       publish an event\n\
         curl --data-binary @lines.ndjson 'http://{host}/v1/publish'  publish lines {{\"key\":..,\"event\":..}}, all or none\n\
         curl 'http://{host}/v1/keys?top=50'                          the busiest keys\n\
         curl 'http://{host}/metrics'                                 Prometheus; /livez and /readyz are probes\n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// 200 as long as the process answers at all.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// 200 until the process drains.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    if app.draining.is_cancelled() {
        return Err(ApiError::draining("the server is stopping"));
    }
    Ok("ok\n")
}

/// The metrics.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    // The hub's figures pass over all keys: not on a thread that serves streams.
    let text = tokio::task::spawn_blocking(move || app.metrics.text()).await;
    let Ok(Ok(text)) = text else {
        return Err(ApiError::internal("the metrics cannot be written"));
    };
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
