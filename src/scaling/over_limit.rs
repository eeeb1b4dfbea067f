//! More instances than may be: for how long they stay, and how an update comes to have them.

use std::time::{Duration, Instant};

use super::settings::IDLE_LIMIT;

/// How long instances above the limit may stay. Source: Cloud Run, "15 minutes or the request timeout": the longer is taken, so that every
/// request that such an instance had when it became one too many can end by itself.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::scaling::{Extra, OverLimit};
///
/// let (over, minute) = (Instant::now(), Duration::from_secs(60));
/// let limit = OverLimit::new(60 * minute);
/// assert_eq!(limit.fate(over, Some(over), over + 14 * minute), Extra::Keep);
/// assert_eq!(limit.fate(over, Some(over), over + 15 * minute), Extra::EndIdle);
/// assert_eq!(limit.fate(over, None, over + 60 * minute), Extra::EndGrace);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    grace: Duration,
}

/// What becomes of an instance above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Extra {
    /// It ends: its grace is over.
    EndGrace,
    /// It ends: it had no request for 15 min.
    EndIdle,
    /// It stays, for the requests that it has.
    Keep,
}

impl OverLimit {
    /// For requests that may last so long.
    #[must_use]
    pub fn new(request_timeout: Duration) -> Self {
        Self { grace: request_timeout.max(IDLE_LIMIT) }
    }

    /// For how long one stays at most.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// What becomes of an instance that has been above the limit since `over_since`, and without a request since `idle_since`. `None`: it has
    /// requests.
    #[must_use]
    pub fn fate(&self, over_since: Instant, idle_since: Option<Instant>, now: Instant) -> Extra {
        let lasted = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
        if idle_since.is_some_and(|since| lasted(since, IDLE_LIMIT)) {
            Extra::EndIdle
        } else if lasted(over_since, self.grace) {
            Extra::EndGrace
        } else {
            Extra::Keep
        }
    }
}

/// How an update stands: the instances of the new version, beside those of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// How many instances there should be, of one version.
    pub wanted: u32,
    /// Of the new version, those that can take requests.
    pub new_ready: u32,
    /// Of the new version, those that are starting.
    pub new_starting: u32,
    /// Of the old version, those that run.
    pub old: u32,
}

impl Rollout {
    /// How many of the new version are still to be started. The old ones do not count: while both are there, they may be more than the limit.
    #[must_use]
    pub fn to_start(&self) -> u32 {
        self.wanted.saturating_sub(self.new_ready.saturating_add(self.new_starting))
    }

    /// Whether requests may go to the new version: as many of it are ready as are wanted. Source: Cloud Run.
    #[must_use]
    pub fn may_shift(&self) -> bool {
        self.new_ready >= self.wanted
    }

    /// Old ones that may end, each once its own requests are done: none before requests may go to the new version.
    #[must_use]
    pub fn to_end(&self) -> u32 {
        if self.may_shift() { self.old } else { 0 }
    }
}
