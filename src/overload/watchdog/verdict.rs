//! What a check says of a task.

use std::{error::Error, fmt, time::Duration};

use super::TaskId;
use crate::overload::status::EndCause;

/// A task is to end: its time is up. Whichever that is, a [`Classifier`](crate::overload::status::Classifier) makes `DEADLINE_EXCEEDED`
/// of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Which.
    pub task: TaskId,
    /// What it was called when it began.
    pub label: String,
    /// Why.
    pub timed_out: TimedOut,
    /// How long it is there.
    pub active_for: Duration,
    /// How long ago its last progress was seen; as long as it is there, if none was.
    pub since_last_progress: Duration,
    /// No data of it has gone to the client: it may be done once more without a client seeing something twice.
    pub is_retry_safe: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, timed_out, active_for, since_last_progress, is_retry_safe, .. } = self;
        let retry = if *is_retry_safe { "may be retried" } else { "data was sent: not to be retried, but resumed" };
        let label = label.escape_debug();
        write!(f, "{timed_out} ({label}: active for {active_for:.0?}, last progress {since_last_progress:.0?} ago, {retry})")
    }
}

impl Error for Verdict {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.timed_out)
    }
}

/// Whose time is up, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimedOut {
    /// It is there for longer than any task may be.
    ActiveTooLong {
        /// How long that is.
        limit: Duration,
    },
    /// One of its items takes longer than one may.
    ItemTooLong {
        /// How long that is.
        limit: Duration,
        /// The source whose item it is.
        source: String,
    },
    /// It has not got on for longer than it may.
    Stalled {
        /// How long that is.
        limit: Duration,
    },
}

impl TimedOut {
    /// For which cause the task's stream is to be cancelled.
    #[must_use]
    pub fn cause(&self) -> EndCause {
        match self {
            Self::ActiveTooLong { .. } => EndCause::ActiveTooLong,
            Self::ItemTooLong { .. } => EndCause::DeadlineExceeded,
            Self::Stalled { .. } => EndCause::Stalled,
        }
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ActiveTooLong { limit } => write!(f, "request active for too long: more than {limit:?}"),
            Self::ItemTooLong { limit, source } => write!(f, "request item took too long: more than {limit:?} in {source}"),
            Self::Stalled { limit } => write!(f, "request stalled, no block progress: for more than {limit:?}"),
        }
    }
}

impl Error for TimedOut {}

/// A task that is there for long: something to log, and no fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongActive {
    /// Which.
    pub task: TaskId,
    /// What it was called when it began (user, modules).
    pub label: String,
    /// How long it is there.
    pub duration: Duration,
    /// How long ago its last progress was seen; as long as it is there, if none was.
    pub since_last_progress: Duration,
    /// What each source has counted.
    pub progress: Vec<(String, u64)>,
}

impl fmt::Display for LongActive {
    /// One line of `name=value` pairs behind the source's own message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, duration, since_last_progress, progress, .. } = self;
        write!(f, "request active for a long time {}", label.escape_debug())?;
        write!(f, " duration={duration:.0?} since_last_progress={since_last_progress:.0?}")?;
        progress.iter().try_for_each(|(source, count)| write!(f, " {source}={count}"))
    }
}
