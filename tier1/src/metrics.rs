//! What Prometheus sees. No metric is ever labelled by key: keys come from clients and have no bound. `GET /v1/keys` shows
//! the busiest instead.
//!
//! What tier1 does is counted here; what the hub does is read from [`Hub::stats`] at each scrape. The counters of
//! `prometheus-client` are one relaxed addition each, once per frame and not per event.

use std::fmt;

use keywake::{GapCause, Hub};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::Registry,
};
use tokio_util::sync::CancellationToken;

use crate::{
    key::Key,
    payload::Payload,
    sse::{encode::cause_word, feed::End},
};

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A counter that could not count anything: what it shows follows from how streams wait.
const FOREIGN_HELP: &str = "Wakes given to streams by events of keys that are not theirs. Always 0: a stream waits in lists of its own \
    keys only, and an event wakes from the list of its key only, so there is no such wake that could be counted";

/// The label of what streams are counted by; gRPC and WebSocket will join.
const SSE: Protocol = Protocol { protocol: "sse" };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Protocol {
    protocol: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Closed {
    protocol: &'static str,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cause {
    cause: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// The counters of one process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    streams_active: Gauge,
    streams_opened: Counter,
    streams_closed: Family<Closed, Counter>,
    events_delivered: Counter,
    bytes_sent: Counter,
    gaps: Family<Cause, Counter>,
    resumes: Family<Outcome, Counter>,
    connections_active: Gauge,
    connections_refused: Counter,
}

impl Metrics {
    /// Counters at zero, and the hub to read at each scrape.
    #[must_use]
    pub fn new(hub: Hub<Key, Payload>, draining: CancellationToken) -> Self {
        let mut registry = Registry::with_prefix("tier1");
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running build", info);

        let active = Family::<Protocol, Gauge>::default();
        registry.register("streams_active", "Streams that are open now", active.clone());
        let opened = Family::<Protocol, Counter>::default();
        registry.register("streams_opened", "Streams opened", opened.clone());
        let streams_closed = Family::<Closed, Counter>::default();
        registry.register("streams_closed", "Streams closed, by reason; client: the client went away", streams_closed.clone());
        let delivered = Family::<Protocol, Counter>::default();
        registry.register("events_delivered", "Events handed to the connections of streams", delivered.clone());
        let sent = Family::<Protocol, Counter>::default();
        registry.register("bytes_sent", "Bytes of streams handed to their connections", sent.clone());
        let gaps = Family::<Cause, Counter>::default();
        registry.register("gaps", "Losses told to streams, by cause", gaps.clone());
        let resumes = Family::<Outcome, Counter>::default();
        registry.register("resume", "Streams opened with a position; ok: nothing was lost", resumes.clone());
        let connections_active = Gauge::default();
        registry.register("connections_active", "Connections that are open now", connections_active.clone());
        let connections_refused = Counter::default();
        registry.register("connections_refused", "Connections closed at once, at the limit", connections_refused.clone());
        registry.register_collector(Box::new(HubMetrics { hub, draining }));

        Self {
            registry,
            streams_active: active.get_or_create(&SSE).clone(),
            streams_opened: opened.get_or_create(&SSE).clone(),
            streams_closed,
            events_delivered: delivered.get_or_create(&SSE).clone(),
            bytes_sent: sent.get_or_create(&SSE).clone(),
            gaps,
            resumes,
            connections_active,
            connections_refused,
        }
    }

    /// All metrics in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// If a metric cannot be formatted.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// How many streams are open now.
    #[must_use]
    pub fn streams(&self) -> i64 {
        self.streams_active.get()
    }

    /// How many events have been handed to connections.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.events_delivered.get()
    }

    /// Counts a connection until the guard is dropped.
    #[must_use]
    pub fn connection_opened(&self) -> ConnectionGuard {
        self.connections_active.inc();
        ConnectionGuard { active: self.connections_active.clone() }
    }

    /// Counts a connection that was closed at once.
    pub fn connection_refused(&self) {
        self.connections_refused.inc();
    }

    /// Counts a stream until the guard is dropped.
    #[must_use]
    pub(crate) fn stream_opened(&self) -> StreamGuard {
        self.streams_opened.inc();
        self.streams_active.inc();
        StreamGuard { active: self.streams_active.clone(), closed: self.streams_closed.clone(), reason: "client" }
    }

    /// Counts a frame.
    pub(crate) fn sent(&self, events: u64, bytes: usize) {
        self.events_delivered.inc_by(events);
        self.bytes_sent.inc_by(bytes as u64);
    }

    /// Counts a loss that a stream is told of.
    pub(crate) fn gap(&self, cause: GapCause) {
        self.gaps.get_or_create(&Cause { cause: cause_word(cause) }).inc();
    }

    /// Counts how a resume went.
    pub(crate) fn resumed(&self, outcome: Resume) {
        let outcome = match outcome {
            Resume::Ok => "ok",
            Resume::Expired => "expired",
            Resume::Ahead => "ahead",
            Resume::Epoch => "epoch",
        };
        self.resumes.get_or_create(&Outcome { outcome }).inc();
    }
}

/// How a resume went, best first: as the worst of the losses that it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resume {
    Ok,
    Expired,
    Ahead,
    Epoch,
}

impl Resume {
    /// It begins with this loss, too.
    #[must_use]
    pub(crate) fn lost(self, cause: GapCause) -> Self {
        self.max(match cause {
            GapCause::OtherEpoch => Self::Epoch,
            GapCause::Ahead => Self::Ahead,
            _ => Self::Expired,
        })
    }
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct StreamGuard {
    active: Gauge,
    closed: Family<Closed, Counter>,
    reason: &'static str,
}

impl StreamGuard {
    /// The server has ended the stream; without this, its end is the client's doing.
    pub(crate) const fn ended(&mut self, end: &End) {
        self.reason = end.word();
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.active.dec();
        self.closed.get_or_create(&Closed { protocol: SSE.protocol, reason: self.reason }).inc();
    }
}

/// An open connection.
#[derive(Debug)]
pub struct ConnectionGuard {
    active: Gauge,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.active.dec();
    }
}

/// What the hub says of itself.
#[derive(Debug)]
struct HubMetrics {
    hub: Hub<Key, Payload>,
    draining: CancellationToken,
}

impl Collector for HubMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.hub.stats();
        let ready = u64::from(!self.draining.is_cancelled());
        for (name, help, value) in [
            ("events_published", "Events published", stats.published),
            ("events_unread", "Events published and not kept by anybody", stats.unread),
            ("wakeups", "Wakes given to parked streams", stats.wakes),
            (
                "empty_wakeups",
                "Of these, wakes of streams that had already seen everything when it was their turn",
                stats.empty_wakes,
            ),
            ("foreign_wakeups", FOREIGN_HELP, 0),
            ("relay_wakeups", "Wakes of the relay, the task that wakes the streams", stats.relay_wakes),
            (
                "coalesced",
                "Events that found the streams of their key about to be woken, and needed no wake of their own",
                stats.coalesced,
            ),
            ("fan_outs", "Passes over the parked streams of a key", stats.fan_outs),
            (
                "fall_backs",
                "Of these, passes that a publisher made itself, since the relay was late or had too many keys",
                stats.fall_backs,
            ),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        for (name, help, value) in [
            ("keys", "Keys that are read, kept for late readers, or idle for a short time", stats.topics as u64),
            ("subscriptions", "Subscriptions of all streams", stats.readers as u64),
            ("retained_bytes", "Bytes of events kept for late readers", stats.retained_bytes),
            ("pinned_bytes", "Bytes that retention has let go of and readers still hold", stats.pinned_bytes),
            ("ready", "1 while the process takes new streams, 0 while it drains", ready),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
