//! tier1: a streaming server on [`keywake`]. Server-sent events of any number of keys over HTTP, resumable from any
//! position, each reader woken only for its own keys.
//!
//! What it offers and how to run it stands in the crate's README; this library is the server in parts, so that tests can
//! drive them in-process. The binary puts them together, in the order of a process's life:
//!
//! | part | its one idea |
//! |---|---|
//! | [`config`] | every flag and environment variable, with its limit and its default |
//! | [`limits`] | how many files the process may hold open, and so how many connections |
//! | [`app`] | what all requests share: the hub, its publisher, the settings, the counters |
//! | [`key`], [`payload`] | what may be a key; an event's bytes, encoded once for all its readers |
//! | [`sse`] | the event stream: encoder, what it reads from, response body |
//! | [`http`] | the routes, and errors as JSON |
//! | [`serve`] | the accept loop, one connection, the drain |
//! | [`flights`] | the bundled data and its replay |
//! | [`banner`], [`metrics`] | what a person sees; what Prometheus sees |

#![forbid(unsafe_code)]

pub mod app;
pub mod banner;
pub mod config;
pub mod flights;
pub mod http;
pub mod key;
pub mod limits;
pub mod logging;
pub mod metrics;
pub mod payload;
pub mod serve;
pub mod signals;
pub mod sse;
