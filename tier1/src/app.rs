//! What all requests share: the hub, its publisher, the settings, the counters, and whether the process is draining.

use std::{sync::Arc, time::Duration};

use keywake::{Builder, Hub, Position, SharedPublisher};
use tokio_util::sync::CancellationToken;

use crate::{config::Config, key::Key, metrics::Metrics, payload::Payload};

/// How often quiet keys are looked after.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The shared state; one per process, in an [`Arc`].
#[derive(Debug)]
pub struct App {
    /// The settings.
    pub config: Config,
    /// Where streams subscribe.
    pub hub: Hub<Key, Payload>,
    /// What has been counted.
    pub metrics: Metrics,
    /// Cancelled when the process is about to stop: `/readyz` answers 503 from then on.
    pub draining: CancellationToken,
    publisher: SharedPublisher<Key, Payload>,
}

impl App {
    /// A hub with the configured limits, and all that goes with it.
    #[must_use]
    pub fn new(config: Config) -> Arc<Self> {
        let keep = &config.retention;
        let (publisher, hub) = Builder::new()
            .retain_unread(true)
            .retain_events(keep.retain_events)
            .retain_bytes(keep.retain_bytes(), Payload::weight)
            .retain_total_bytes(keep.retain_total_bytes())
            .max_topics(keep.max_keys)
            .keep_idle(keep.keep_idle)
            .build();
        let draining = CancellationToken::new();
        let metrics = Metrics::new(hub.clone(), draining.clone());
        Arc::new(Self { config, hub, metrics, draining, publisher: publisher.shared() })
    }

    /// Publishes one event; `None` where the hub is shut down, so that the event may have been dropped.
    pub fn publish(&self, key: Key, payload: Payload) -> Option<Position> {
        let seq = self.publisher.publish_owned(key, payload).seq;
        self.accepted(seq)
    }

    /// Publishes a batch, each key's readers woken once; `None` as for [`publish`](Self::publish).
    pub fn publish_batch(&self, events: Vec<(Key, Payload)>) -> Option<Position> {
        let seq = self.publisher.publish_batch(events).seq;
        self.accepted(seq)
    }

    /// Looked at after the publish: a hub that is open now was open then. The reverse is not known, and a publisher that is
    /// told so sends its event again, which is the better of the two errors.
    fn accepted(&self, seq: u64) -> Option<Position> {
        (!self.hub.is_shutdown()).then(|| Position::new(self.hub.position().epoch(), seq))
    }

    /// Removes idle keys every second until the process drains.
    pub async fn sweep_regularly(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.draining.run_until_cancelled(ticks.tick()).await.is_some() {
            let hub = self.hub.clone();
            let now = tokio::time::Instant::now().into_std();
            // It passes over all keys: not on a thread that serves streams.
            let swept = tokio::task::spawn_blocking(move || hub.sweep(now)).await;
            if let Err(error) = swept {
                tracing::error!(%error, "sweeping failed");
            }
        }
    }
}
