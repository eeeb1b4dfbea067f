//! What is let in, as the operator says it.

use std::{error::Error, fmt, time::Duration};

use crate::overload::pending::PendingLimits;

/// How much is let in. A limit of 0 is off.
///
/// # Examples
/// ```
/// use keywake::overload::{admission::{Admission, AdmissionLimits}};
/// let admission = Admission::new(AdmissionLimits { soft: 60, hard: 64, ..AdmissionLimits::default() })?;
/// # assert!(admission.is_accepting());
/// # Ok::<(), keywake::overload::admission::AdmissionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// With this many streams the instance is no more [accepting](super::Admission::is_accepting), and is to say that it is not ready; who
    /// comes all the same is let in. Default 0 (off), as with `substreams-tier1-active-requests-soft-limit`.
    pub soft: usize,
    /// With this many streams no further one is let in. Default 0 (off), as with `substreams-tier1-active-requests-hard-limit`.
    pub hard: usize,
    /// Streams that one identity may hold or wait for. Default 0 (off).
    pub per_identity: usize,
    /// Streams of the classes `CatchUp` and `Cached` together: after a rollout everybody catches up at once. Default 0 (off).
    pub catch_ups: usize,
    /// Who waits where there is no room, for [`Admission::admit`](super::Admission::admit).
    pub pending: PendingLimits,
    /// The shortest time after which one who is refused is asked to come back. Default 1 s.
    pub retry_min: Duration,
    /// The longest such time. Default 5 s. The hints are spread evenly between the two: the source sleeps as long, at random, before it
    /// refuses "to prevent heavy reconnections".
    pub retry_max: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            soft: 0,
            hard: 0,
            per_identity: 0,
            catch_ups: 0,
            pending: PendingLimits::default(),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(5),
        }
    }
}

impl AdmissionLimits {
    /// # Errors
    /// If a limit could never be reached, or the retry hints have no range.
    pub(super) fn check(&self) -> Result<(), AdmissionError> {
        if self.hard > 0 {
            // Not that of identities: it counts who waits, too.
            let named = [("soft", self.soft), ("catch_ups", self.catch_ups)];
            if let Some((name, value)) = named.into_iter().find(|(_, value)| *value > self.hard) {
                return Err(AdmissionError::AboveHardLimit { name, value, hard: self.hard });
            }
        }
        if self.retry_min > self.retry_max {
            return Err(AdmissionError::RetryRange { min: self.retry_min, max: self.retry_max });
        }
        Ok(())
    }
}

/// Why there is no [`Admission`](super::Admission) with these limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A limit lies above the hard one: it would never be reached.
    AboveHardLimit {
        /// Which of [`AdmissionLimits`].
        name: &'static str,
        /// Its value.
        value: usize,
        /// The hard limit.
        hard: usize,
    },
    /// The shortest retry hint is longer than the longest.
    RetryRange {
        /// `retry_min`.
        min: Duration,
        /// `retry_max`.
        max: Duration,
    },
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AboveHardLimit { name, value, hard } => write!(
                f,
                "admission: {name} is {value}, above the hard limit of {hard}: it would never be reached; lower it, or set it to 0 (off)"
            ),
            Self::RetryRange { min, max } => write!(f, "admission: retry_min ({min:?}) is longer than retry_max ({max:?})"),
        }
    }
}

impl Error for AdmissionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let expected = AdmissionLimits {
            soft: 0,
            hard: 0,
            per_identity: 0,
            catch_ups: 0,
            pending: PendingLimits { length: 1024, start_up: Duration::ZERO },
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(5),
        };
        assert_eq!(AdmissionLimits::default(), expected);
        assert_eq!(expected.check(), Ok(()));
    }

    #[test]
    fn limits_that_could_never_be_reached_are_refused() {
        let default = AdmissionLimits::default();
        let table = [
            (AdmissionLimits { soft: 11, hard: 10, ..default.clone() }, "soft is 11, above the hard limit of 10"),
            (AdmissionLimits { catch_ups: 13, hard: 10, ..default.clone() }, "catch_ups is 13"),
            (
                AdmissionLimits { retry_min: Duration::from_secs(6), ..default.clone() },
                "retry_min (6s) is longer than retry_max (5s)",
            ),
        ];
        for (limits, text) in table {
            let error = limits.check().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        assert_eq!(AdmissionLimits { soft: 10, hard: 10, per_identity: 12, catch_ups: 10, ..default }.check(), Ok(()));
    }
}
