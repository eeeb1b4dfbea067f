//! A hub's figures for the `metrics` facade.

use metrics::{counter, gauge};

use super::{Hub, Stats};
use crate::Key;

impl<K: Key, T: Send + Sync + 'static> Hub<K, T> {
    /// Tells the recorder of the [`metrics`](https://docs.rs/metrics) facade the hub's [`stats`](Self::stats): to be called when they are
    /// collected, or every few seconds. Nothing is recorded in between, so a publish costs what it costs without the feature.
    ///
    /// All have the label `hub`, with the value given here, and none has one that grows with keys:
    ///
    /// | name | kind | field of [`Stats`] |
    /// |---|---|---|
    /// | `keywake_published_total` | counter | `published` |
    /// | `keywake_unread_total` | counter | `unread` |
    /// | `keywake_wakes_total` | counter | `wakes` |
    /// | `keywake_empty_wakes_total` | counter | `empty_wakes` |
    /// | `keywake_relay_wakes_total` | counter | `relay_wakes` |
    /// | `keywake_relay_panics_total` | counter | `relay_panics` |
    /// | `keywake_coalesced_total` | counter | `coalesced` |
    /// | `keywake_fan_outs_total` | counter | `fan_outs` |
    /// | `keywake_fall_backs_total` | counter | `fall_backs` |
    /// | `keywake_gaps_total` | counter | `gaps` |
    /// | `keywake_topics` | gauge | `topics` |
    /// | `keywake_readers` | gauge | `readers` |
    /// | `keywake_tombstones` | gauge | `tombstones` |
    /// | `keywake_retained_bytes` | gauge | `retained_bytes` |
    /// | `keywake_pinned_bytes` | gauge | `pinned_bytes` |
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// hub.record_metrics("flights"); // nothing happens where no recorder is installed
    /// # drop(publisher);
    /// ```
    pub fn record_metrics(&self, hub: &str) {
        let Stats {
            topics,
            readers,
            tombstones,
            published,
            unread,
            wakes,
            empty_wakes,
            fan_outs,
            fall_backs,
            relay_wakes,
            relay_panics,
            coalesced,
            gaps,
            retained_bytes,
            pinned_bytes,
        } = self.stats();
        let counters = [
            ("keywake_published_total", published),
            ("keywake_unread_total", unread),
            ("keywake_wakes_total", wakes),
            ("keywake_empty_wakes_total", empty_wakes),
            ("keywake_relay_wakes_total", relay_wakes),
            ("keywake_relay_panics_total", relay_panics),
            ("keywake_coalesced_total", coalesced),
            ("keywake_fan_outs_total", fan_outs),
            ("keywake_fall_backs_total", fall_backs),
            ("keywake_gaps_total", gaps),
        ];
        for (name, value) in counters {
            counter!(name, "hub" => hub.to_owned()).absolute(value);
        }
        let gauges = [
            ("keywake_topics", topics as u64),
            ("keywake_readers", readers as u64),
            ("keywake_tombstones", tombstones as u64),
            ("keywake_retained_bytes", retained_bytes),
            ("keywake_pinned_bytes", pinned_bytes),
        ];
        for (name, value) in gauges {
            #[expect(clippy::cast_precision_loss, reason = "the facade's gauges are floating point")]
            gauge!(name, "hub" => hub.to_owned()).set(value as f64);
        }
    }
}
