//! What who comes is told.

use std::{error::Error, fmt, time::Duration};

use super::Permit;
use crate::overload::status::EndCause;

/// Whether a stream is let in.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub enum Decision {
    /// It is, for as long as the permit lives.
    Admit(Permit),
    /// It is not.
    Reject(Refusal),
}

impl Decision {
    /// As a result, for `?`.
    ///
    /// # Errors
    /// The refusal.
    pub fn into_result(self) -> Result<Permit, Refusal> {
        match self {
            Self::Admit(permit) => Ok(permit),
            Self::Reject(refusal) => Err(refusal),
        }
    }

    /// Whether it is let in.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admit(_))
    }
}

/// Why a stream is not let in, and when it may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: RefusalReason,
    retry_after: Duration,
}

impl Refusal {
    pub(super) fn new(reason: RefusalReason, retry_after: Duration) -> Self {
        Self { reason, retry_after }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &RefusalReason {
        &self.reason
    }

    /// How long the client should stay away (`Retry-After`, `grpc-retry-pushback-ms`): a random time of the range in
    /// [`AdmissionLimits`](super::AdmissionLimits), so that those who are refused together do not come back together. Whoever it is sent to
    /// should come on a new connection: on the old one he lands here again.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}; in {:.1?})", self.reason.cause(), self.reason, self.retry_after)
    }
}

impl Error for Refusal {}

/// Why a stream is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// As many streams catch up as may.
    CatchUpLimit {
        /// How many that are.
        limit: usize,
    },
    /// There are as many streams as the processors can do with at the moment
    /// ([`Admission::set_concurrency_limit`](super::Admission::set_concurrency_limit)).
    ConcurrencyLimit {
        /// How many that are.
        limit: usize,
    },
    /// There are as many streams as there may ever be.
    HardLimit {
        /// How many that are.
        limit: usize,
    },
    /// Its identity holds or waits for as many streams as one may.
    IdentityLimit {
        /// How many that are.
        limit: usize,
    },
    /// The process is overloaded ([`Admission::set_overloaded`](super::Admission::set_overloaded)).
    Overloaded,
    /// There is no room, and as many wait for it as may.
    QueueFull {
        /// How many that are.
        length: usize,
    },
    /// The process is going ([`Admission::shutdown`](super::Admission::shutdown)).
    ShuttingDown,
    /// It has waited for room as long as one may.
    WaitedTooLong {
        /// How long that is.
        limit: Duration,
    },
}

impl RefusalReason {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::CatchUpLimit { .. } => RefusalKind::CatchUpLimit,
            Self::ConcurrencyLimit { .. } => RefusalKind::ConcurrencyLimit,
            Self::HardLimit { .. } => RefusalKind::HardLimit,
            Self::IdentityLimit { .. } => RefusalKind::IdentityLimit,
            Self::Overloaded => RefusalKind::Overloaded,
            Self::QueueFull { .. } => RefusalKind::QueueFull,
            Self::ShuttingDown => RefusalKind::ShuttingDown,
            Self::WaitedTooLong { .. } => RefusalKind::WaitedTooLong,
        }
    }

    /// What the client is told: that it has too many streams, that the process stops, or else that there is no room. A
    /// [`Classifier`](crate::overload::status::Classifier) knows a [`Refusal`] by this.
    #[must_use]
    pub fn cause(&self) -> EndCause {
        match self {
            Self::IdentityLimit { .. } => EndCause::TooManyStreams,
            Self::ShuttingDown => EndCause::ShuttingDown,
            _ => EndCause::Overloaded,
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CatchUpLimit { limit } => write!(f, "limit of {limit} streams that catch up is reached"),
            Self::ConcurrencyLimit { limit } => write!(f, "adaptive limit of {limit} streams is reached"),
            Self::HardLimit { limit } => write!(f, "hard limit of {limit} streams is reached"),
            Self::IdentityLimit { limit } => write!(f, "limit of {limit} streams per identity is reached"),
            Self::Overloaded => write!(f, "processors are overloaded"),
            Self::QueueFull { length } => write!(f, "{length} wait already"),
            Self::ShuttingDown => write!(f, "shutting down"),
            Self::WaitedTooLong { limit } => write!(f, "no room within {limit:.1?}"),
        }
    }
}

/// A [`RefusalReason`] without its numbers: the label under which refusals are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RefusalKind {
    /// See [`RefusalReason::CatchUpLimit`].
    CatchUpLimit,
    /// See [`RefusalReason::ConcurrencyLimit`].
    ConcurrencyLimit,
    /// See [`RefusalReason::HardLimit`].
    HardLimit,
    /// See [`RefusalReason::IdentityLimit`].
    IdentityLimit,
    /// See [`RefusalReason::Overloaded`].
    Overloaded,
    /// See [`RefusalReason::QueueFull`].
    QueueFull,
    /// See [`RefusalReason::ShuttingDown`].
    ShuttingDown,
    /// See [`RefusalReason::WaitedTooLong`].
    WaitedTooLong,
}

impl RefusalKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::CatchUpLimit,
        Self::ConcurrencyLimit,
        Self::HardLimit,
        Self::IdentityLimit,
        Self::Overloaded,
        Self::QueueFull,
        Self::ShuttingDown,
        Self::WaitedTooLong,
    ];
}

impl fmt::Display for RefusalKind {
    /// As labels have it: `catch_up_limit`, `concurrency_limit`, `hard_limit`, `identity_limit`, `overloaded`, `queue_full`,
    /// `shutting_down`, `waited_too_long`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CatchUpLimit => "catch_up_limit",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::HardLimit => "hard_limit",
            Self::IdentityLimit => "identity_limit",
            Self::Overloaded => "overloaded",
            Self::QueueFull => "queue_full",
            Self::ShuttingDown => "shutting_down",
            Self::WaitedTooLong => "waited_too_long",
        })
    }
}

/// How many streams were refused, for each kind of reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts([u64; RefusalKind::ALL.len()]);

impl RefusalCounts {
    /// How many for reasons of this kind.
    #[must_use]
    pub fn of(&self, kind: RefusalKind) -> u64 {
        self.0[kind as usize]
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    pub(super) fn add(&mut self, kind: RefusalKind) {
        self.0[kind as usize] += 1;
    }
}
