//! A driver's figures for the `metrics` facade.

use metrics::{counter, gauge};

use super::Driver;
use crate::{
    load::QuotaSource,
    overload::{admission::RefusalKind, evictor::Gauges, status::EndCause},
};

impl Driver {
    /// Tells the recorder of the [`metrics`](https://docs.rs/metrics) facade how it stands: to be called when metrics are collected, or every
    /// few seconds. Nothing is recorded in between. What is not known is `NaN`, never 0. The names are fixed; a recorder may add to them.
    ///
    /// | name | kind, labels | S0's name |
    /// |---|---|---|
    /// | `tier1_active_requests` | gauge | `substreams_active_requests` |
    /// | `tier1_requests_total` | counter | `substreams_counter` |
    /// | `tier1_rejected_requests_total` | counter; `reason`, see [`RefusalKind`] | rejected requests, by reason |
    /// | `tier1_ready` | gauge, 0 or 1 | `substreams_tier1` |
    /// | `tier1_cpu_quota_cores` | gauge, cores | `substreams_tier1_cpu_quota_cores` |
    /// | `tier1_cpu_usage_ratio` | gauge | `substreams_tier1_cpu_usage_ratio` |
    /// | `tier1_cpu_overloaded` | gauge, 0 or 1 | `substreams_tier1_cpu_overloaded` |
    /// | `tier1_evicted_requests_total` | counter; `class`, `action` (`cancelled`, `observed`), `reason` | `substreams_tier1_evicted_requests_counter` |
    /// | `tier1_effective_active_requests` | gauge | `substreams_tier1_effective_active_requests` |
    /// | `tier1_cpu_demand_cores` | gauge, cores | |
    /// | `tier1_cpu_demand_ratio` | gauge | |
    /// | `tier1_cpu_predicted_ratio` | gauge; the demand ratio without those that were just told to go, in mode observe without all that would be gone | |
    /// | `tier1_cpu_unattributed_ratio` | gauge | |
    /// | `tier1_cpu_psi_full_ratio` | gauge | |
    /// | `tier1_cpu_throttled_ratio` | gauge | |
    /// | `tier1_cpu_quota_source` | gauge, 1 for the one that holds; `source` | |
    /// | `tier1_cpu_signal_errors_total` | counter | |
    /// | `tier1_unready_seconds_total` | counter, whole seconds | |
    /// | `tier1_pending_requests`, `tier1_catch_up_requests`, `tier1_concurrency_limit` | gauges, with admission | |
    /// | `tier1_oldest_request_seconds` | gauge, with a watchdog; 0: there is none | |
    /// | `tier1_timed_out_requests_total` | counter, with a watchdog; `reason` (`stalled`, `active_too_long`, `item_too_long`) | |
    ///
    /// Those of admission are 0 or not there without one, `tier1_active_requests` then counts registered streams.
    ///
    /// # Examples
    /// ```
    /// use keywake::overload::{driver::DriverBuilder, evictor::{EvictorBuilder, Mode}};
    /// let driver = DriverBuilder::new(EvictorBuilder::new().mode(Mode::Observe)).build()?;
    /// driver.record_metrics(std::time::Instant::now()); // nothing happens where no recorder is installed
    /// # Ok::<(), keywake::overload::driver::DriverError>(())
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "the facade's gauges are floating point")]
    pub fn record_metrics(&self, now: std::time::Instant) {
        let Gauges {
            demand_cores,
            demand_ratio,
            full_stalled,
            overloaded,
            predicted_ratio,
            quota_cores,
            quota_source,
            signal_errors,
            throttled_share,
            unattributed_ratio,
            unready,
            usage_ratio,
            streams: _,
        } = self.gauges();
        for (name, value) in [
            ("tier1_cpu_demand_cores", demand_cores),
            ("tier1_cpu_demand_ratio", demand_ratio),
            ("tier1_cpu_predicted_ratio", predicted_ratio),
            ("tier1_cpu_psi_full_ratio", full_stalled),
            ("tier1_cpu_quota_cores", quota_cores),
            ("tier1_cpu_throttled_ratio", throttled_share),
            ("tier1_cpu_unattributed_ratio", unattributed_ratio),
            ("tier1_cpu_usage_ratio", usage_ratio),
        ] {
            gauge!(name).set(value.unwrap_or(f64::NAN));
        }
        gauge!("tier1_active_requests").set(self.active() as f64);
        gauge!("tier1_effective_active_requests").set(self.effective_active());
        gauge!("tier1_cpu_overloaded").set(f64::from(u8::from(overloaded)));
        gauge!("tier1_ready").set(f64::from(u8::from(self.load().is_ready())));
        counter!("tier1_cpu_signal_errors_total").absolute(signal_errors);
        counter!("tier1_unready_seconds_total").absolute(unready.as_secs());
        for source in QuotaSource::ALL {
            let holds = u8::from(quota_source == Some(source));
            gauge!("tier1_cpu_quota_source", "source" => source.to_string()).set(f64::from(holds));
        }
        for count in self.evictions() {
            let (class, reason) = (count.class.to_string(), count.reason.to_string());
            counter!("tier1_evicted_requests_total", "class" => class, "action" => count.action, "reason" => reason)
                .absolute(count.count);
        }
        if let Some(admission) = &self.shared.admission {
            let stats = admission.stats();
            counter!("tier1_requests_total").absolute(stats.admitted.saturating_add(stats.refused.total()));
            for reason in RefusalKind::ALL {
                let count = stats.refused.of(reason);
                counter!("tier1_rejected_requests_total", "reason" => reason.to_string()).absolute(count);
            }
            gauge!("tier1_pending_requests").set(stats.waiting as f64);
            gauge!("tier1_catch_up_requests").set(stats.catching_up as f64);
            gauge!("tier1_concurrency_limit").set(stats.concurrency_limit.map_or(f64::NAN, |limit| limit as f64));
        }
        if let Some(watchdog) = &self.shared.watchdog {
            let oldest = watchdog.active(now).oldest.unwrap_or_default();
            gauge!("tier1_oldest_request_seconds").set(oldest.as_secs_f64());
            let timed_out = self.shared.state.lock().timed_out();
            for (cause, count) in timed_out {
                let reason = match cause {
                    EndCause::ActiveTooLong => "active_too_long",
                    EndCause::Stalled => "stalled",
                    _ => "item_too_long",
                };
                counter!("tier1_timed_out_requests_total", "reason" => reason).absolute(count);
            }
        }
    }
}
