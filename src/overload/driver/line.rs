//! What is to be logged, one value a line.

use std::fmt;

use crate::{
    meter::cgroup::Notice,
    overload::{
        events::{OverloadState, Victim},
        evictor::{Alert, Ended, Mode, SettingsWarning},
        watchdog::{LongActive, Verdict},
    },
    sync::PlainArc,
};

/// Something to be logged, with its data. As text it is a message and `name=value` pairs, whose names are the source's where it has one.
///
/// With the feature `tracing` each is an event of the target `keywake::overload` as well, with the pairs as fields.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Line {
    /// What an operator should know.
    Alert(PlainArc<Alert>),
    /// A stream was told to end.
    Evicted(PlainArc<Victim>),
    /// A stream is there for long; that is no fault.
    LongActive(LongActive),
    /// What the reader of control groups noticed.
    Notice(Notice),
    /// Overload begins.
    OverloadBegan(OverloadState),
    /// It is over, or was given up: [`OverloadState::ended`] says which.
    OverloadEnded(OverloadState),
    /// The first reading; in mode off, in which there is none, the first tick.
    Started {
        /// What is carried out.
        mode: Mode,
        /// In cores.
        quota_cores: Option<f64>,
    },
    /// A stream was told to end by the watchdog.
    TimedOut(Verdict),
    /// Of the settings something works otherwise than one may expect. Said once, at the first tick.
    Warning(SettingsWarning),
    /// In mode observe: a stream would be told to end.
    WouldEvict(PlainArc<Victim>),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alert(alert) => alert.fmt(f),
            Self::Evicted(victim) => write!(f, "evicting stream to relieve the processors {victim}"),
            Self::LongActive(active) => active.fmt(f),
            Self::Notice(notice) => notice.fmt(f),
            Self::OverloadBegan(state) => write!(f, "processors overloaded {state}"),
            Self::OverloadEnded(state) => write!(f, "{} {state}", ended(state)),
            Self::Started { mode, quota_cores } => {
                let quota = quota_cores.map_or_else(|| "none".to_owned(), |cores| format!("{cores:.3}"));
                write!(f, "evictor started mode={mode} quota_cores={quota}")
            }
            Self::TimedOut(verdict) => verdict.fmt(f),
            Self::Warning(warning) => warning.fmt(f),
            Self::WouldEvict(victim) => write!(f, "would evict stream to relieve the processors {victim}"),
        }
    }
}

/// Only one of the ways in which an overload ends says that the processors have recovered.
fn ended(state: &OverloadState) -> &'static str {
    match state.ended {
        Some(Ended::Forced) => "ready again by force, still overloaded",
        Some(Ended::NoQuota) => "overload given up, there is no quota any more",
        Some(Ended::SignalLost) => "overload given up, nothing could be read of the processors",
        Some(Ended::Recovered) | None => "processors recovered",
    }
}

impl Line {
    /// As an event of the feature `tracing`; without it, nothing.
    pub(super) fn trace(&self) {
        #[cfg(feature = "tracing")]
        trace(self);
    }
}

/// Fields that are not known are not there.
#[cfg(feature = "tracing")]
fn trace(line: &Line) {
    use tracing::{info, warn};
    macro_rules! victim {
        ($level:ident, $message:literal, $victim:expr) => {{
            let eviction = &$victim.eviction;
            $level!(
                target: "keywake::overload",
                trace_id = &*$victim.trace_id,
                class = %eviction.class,
                burn_cores = eviction.burn_cores,
                age = ?eviction.age,
                current_block = eviction.position,
                cpu_usage_ratio = eviction.usage_ratio,
                cpu_demand_ratio = eviction.demand_ratio,
                cost_cores = eviction.cost_cores,
                evictions = eviction.evictions,
                reason = %eviction.reason,
                $message
            );
        }};
    }
    macro_rules! ended {
        ($level:ident, $state:expr) => {{
            let OverloadState { enforced, usage_ratio, unready_for, ended: how, .. } = $state;
            $level!(
                target: "keywake::overload",
                enforced,
                cpu_usage_ratio = usage_ratio,
                unready_for = ?unready_for,
                because = how.map(tracing::field::debug),
                "{}", ended($state)
            );
        }};
    }
    match line {
        Line::Evicted(victim) => victim!(warn, "evicting stream to relieve the processors", victim),
        Line::WouldEvict(victim) => victim!(info, "would evict stream to relieve the processors", victim),
        Line::OverloadBegan(OverloadState { enforced, usage_ratio, demand_ratio, bound, .. }) => warn!(
            target: "keywake::overload",
            enforced,
            cpu_usage_ratio = usage_ratio,
            cpu_demand_ratio = demand_ratio,
            because = bound.map(tracing::field::debug),
            "processors overloaded"
        ),
        Line::OverloadEnded(state @ OverloadState { ended: Some(Ended::Forced | Ended::SignalLost), .. }) => ended!(warn, state),
        Line::OverloadEnded(state) => ended!(info, state),
        Line::Started { mode, quota_cores } => {
            info!(target: "keywake::overload", %mode, quota_cores, "evictor started");
        }
        Line::TimedOut(verdict) => warn!(
            target: "keywake::overload",
            trace_id = verdict.label,
            duration = ?verdict.active_for,
            since_last_progress = ?verdict.since_last_progress,
            is_retry_safe = verdict.is_retry_safe,
            "{}", verdict.timed_out
        ),
        Line::LongActive(active) => info!(
            target: "keywake::overload",
            trace_id = active.label,
            duration = ?active.duration,
            since_last_progress = ?active.since_last_progress,
            progress = ?active.progress,
            "request active for a long time"
        ),
        Line::Alert(_) | Line::Notice(_) | Line::Warning(_) => warn!(target: "keywake::overload", "{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_that_was_given_up_is_not_said_to_have_recovered() {
        let table = [
            (Ended::Forced, "ready again by force, still overloaded enforced=false "),
            (Ended::NoQuota, "overload given up, there is no quota any more enforced=false "),
            (Ended::Recovered, "processors recovered enforced=false "),
            (Ended::SignalLost, "overload given up, nothing could be read of the processors enforced=false "),
        ];
        for (how, said) in table {
            let line = Line::OverloadEnded(OverloadState { ended: Some(how), ..OverloadState::default() }).to_string();
            assert!(line.starts_with(said) && line.ends_with(&format!("because={how:?}")), "{line}");
        }
    }
}
