//! What settings are refused because they cannot work, and which are taken with a warning.

use std::{fmt, time::Duration};

use super::settings::Settings;

/// Settings that cannot work: which, why, and what would.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// Two settings contradict each other.
    Conflict {
        /// The one to change, and the value it has.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The other one.
        with: &'static str,
        /// The other one's value.
        with_value: String,
        /// What would do, and why this does not.
        why: &'static str,
    },
    /// Less than zero.
    Negative {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: f64,
    },
    /// NaN, or infinite.
    NotANumber {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: f64,
    },
    /// More than makes sense.
    TooLarge {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// What is the most.
        most: f64,
        /// Why.
        why: &'static str,
    },
    /// Zero, where zero would not mean "none" but "never" or "always".
    Zero {
        /// Which.
        setting: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { setting, value, with, with_value, why } => {
                write!(f, "eviction setting {setting} = {value} does not go with {with} = {with_value}: {why}")
            }
            Self::Negative { setting, value } => write!(f, "eviction setting {setting} = {value} is less than zero"),
            Self::NotANumber { setting, value } => write!(f, "eviction setting {setting} = {value} is not a finite number"),
            Self::TooLarge { setting, value, most, why } => {
                write!(f, "eviction setting {setting} = {value} is more than {most}: {why}")
            }
            Self::Zero { setting, instead } => write!(f, "eviction setting {setting} = 0: {instead}"),
        }
    }
}

impl std::error::Error for SettingsError {}

/// Settings that work, but not as one may expect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// The cooldown is shorter than the interval: rounds come at every tick.
    CooldownBelowInterval {
        /// The cooldown.
        cooldown: Duration,
        /// The interval.
        interval: Duration,
    },
    /// Decisions fall on ticks: the drain is in effect longer than set.
    DrainInEffect {
        /// As set.
        drain: Duration,
        /// As it will be.
        in_effect: Duration,
    },
    /// A round that lands on its target does not recover; only the bound on unreadiness ends the overload then.
    TargetNotBelowRecover {
        /// The target.
        target: f64,
        /// The ratio to recover below.
        recover: f64,
    },
}

impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CooldownBelowInterval { cooldown, interval } => {
                write!(
                    f,
                    "eviction cooldown {cooldown:?} is shorter than the interval {interval:?}: a round may come at every tick"
                )
            }
            Self::DrainInEffect { drain, in_effect } => {
                write!(f, "eviction drain {drain:?} falls between two ticks and is in effect {in_effect:?}")
            }
            Self::TargetNotBelowRecover { target, recover } => write!(
                f,
                "eviction target {target} is not below recover {recover}: a round that lands on its target leaves the process unready until max_unready"
            ),
        }
    }
}

fn ratio(setting: &'static str, value: f64, why: &'static str) -> Result<(), SettingsError> {
    finite(setting, value)?;
    if value == 0.0 {
        return Err(SettingsError::Zero { setting, instead: "say a share above 0" });
    }
    if value > 1.0 {
        return Err(SettingsError::TooLarge { setting, value, most: 1.0, why });
    }
    Ok(())
}

fn finite(setting: &'static str, value: f64) -> Result<(), SettingsError> {
    if !value.is_finite() {
        return Err(SettingsError::NotANumber { setting, value });
    }
    if value < 0.0 { Err(SettingsError::Negative { setting, value }) } else { Ok(()) }
}

fn in_order(
    (setting, value): (&'static str, f64),
    (with, with_value): (&'static str, f64),
    why: &'static str,
) -> Result<(), SettingsError> {
    if value < with_value {
        return Ok(());
    }
    Err(SettingsError::Conflict { setting, value: format!("{value}"), with, with_value: format!("{with_value}"), why })
}

/// Refuses what cannot work, and tells what works otherwise than expected. `source`: where the source's own settings contradict each other,
/// that is a warning.
pub(super) fn check(settings: &Settings, source: bool) -> Result<Vec<SettingsWarning>, SettingsError> {
    let clipped = "the kernel lets no group use more than its quota for long, so it would never fire";
    ratio("threshold", settings.threshold, clipped)?;
    ratio("recover", settings.recover, clipped)?;
    ratio("target", settings.target, clipped)?;
    let shares = [
        ("throttled_threshold", settings.throttled_threshold),
        ("max_production_share", settings.max_production_share),
        ("node_stalled", settings.node_stalled),
        ("min_ready_share", settings.min_ready_share),
    ];
    for (setting, share) in shares {
        share.map_or(Ok(()), |share| ratio(setting, share, "it is a share; to switch it off, say None"))?;
    }
    finite("min_burn_cores", settings.min_burn_cores)?;
    let times = [
        ("sustain", settings.sustain, "one sample would decide; say at least the interval"),
        ("recover_sustain", settings.recover_sustain, "one sample would decide; say at least the interval"),
        ("interval", settings.interval, "say how often the driver steps"),
        ("drain", settings.drain, "load balancers would not have noticed; say at least the interval"),
        ("cooldown", settings.cooldown, "a round would not wait for what the one before it did; say at least the interval"),
        ("max_unready", settings.max_unready, "the process would never be unready; to only watch, say mode observe"),
    ];
    for (setting, time, instead) in times {
        if time.is_zero() {
            return Err(SettingsError::Zero { setting, instead });
        }
    }
    if settings.max_per_round == Some(0) {
        return Err(SettingsError::Zero {
            setting: "max_per_round",
            instead: "nothing would be evicted; to only watch, say mode observe",
        });
    }
    if settings.strikes == 0 {
        return Err(SettingsError::Zero { setting: "strikes", instead: "say after how many failed readings to give up" });
    }
    let gap = "a ratio between the two neither fires nor recovers, and there must be such a band";
    in_order(("recover", settings.recover), ("threshold", settings.threshold), gap)?;
    let mut warnings = Vec::new();
    let landing = "a round that lands on its target would not recover: say a target below recover";
    if let Err(limbo) = in_order(("target", settings.target), ("recover", settings.recover), landing) {
        if !source {
            return Err(limbo);
        }
        warnings.push(SettingsWarning::TargetNotBelowRecover { target: settings.target, recover: settings.recover });
    }
    // Also there: above the threshold, nothing that fires would find anything to evict.
    in_order(("target", settings.target), ("threshold", settings.threshold), "say a target below the threshold")?;
    check_times(settings, &mut warnings)?;
    Ok(warnings)
}

fn check_times(settings: &Settings, warnings: &mut Vec<SettingsWarning>) -> Result<(), SettingsError> {
    let conflict = |setting, value: Duration, with, with_value: Duration, why| {
        Err(SettingsError::Conflict { setting, value: format!("{value:?}"), with, with_value: format!("{with_value:?}"), why })
    };
    let Settings { interval, drain, cooldown, max_unready, .. } = *settings;
    if drain < interval {
        return conflict("drain", drain, "interval", interval, "no health check would see it unready before the first eviction");
    }
    let ticks = u32::try_from(drain.as_nanos().div_ceil(interval.as_nanos())).unwrap_or(u32::MAX);
    let in_effect = interval.saturating_mul(ticks);
    if in_effect != drain {
        warnings.push(SettingsWarning::DrainInEffect { drain, in_effect });
    }
    if max_unready <= in_effect {
        return conflict("max_unready", max_unready, "drain", in_effect, "it would be ready again before anything is evicted");
    }
    if cooldown < interval {
        warnings.push(SettingsWarning::CooldownBelowInterval { cooldown, interval });
    }
    Ok(())
}
