//! Whether work that failed may be done once more.

use std::{error::Error, fmt};

use crate::Position;

/// Counts the attempts at one piece of work, and knows what the client has seen of it. Pure.
///
/// Once data has gone to the client the same work is not done again behind his back: he would get it twice. He is told where to resume
/// instead.
///
/// # Examples
/// ```
/// use keywake::overload::{watchdog::{Retries, RetryRefused}};
/// let mut retries = Retries::default();
/// assert_eq!(retries.failed(false), Ok(()));
/// retries.data_sent(None);
/// assert_eq!(retries.failed(false), Err(RetryRefused::DataSent { resume: None }));
/// ```
#[derive(Clone, Debug)]
pub struct Retries {
    max_retries: u32,
    max_timeouts: u32,
    retries: u32,
    timeouts: u32,
    sent: Option<Option<Position>>,
}

impl Default for Retries {
    /// The source's caps: 720 retries, and the third time-out is the last.
    fn default() -> Self {
        Self::new(720, 3)
    }
}

impl Retries {
    /// At most `max_retries` of them, and none from the `max_timeouts`th time-out on. 0 retries: none; 0 time-outs: any number.
    #[must_use]
    pub fn new(max_retries: u32, max_timeouts: u32) -> Self {
        Self { max_retries, max_timeouts, retries: 0, timeouts: 0, sent: None }
    }

    /// Data has gone to the client, who can resume behind this position if there is one.
    pub fn data_sent(&mut self, resume: Option<Position>) {
        self.sent = Some(resume.or_else(|| self.sent.flatten()));
    }

    /// No data has gone to the client yet.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        self.sent.is_none()
    }

    /// An attempt has failed, by a time-out or otherwise: whether there may be another.
    ///
    /// # Errors
    /// If there may not.
    pub fn failed(&mut self, by_timeout: bool) -> Result<(), RetryRefused> {
        self.timeouts = self.timeouts.saturating_add(u32::from(by_timeout));
        if let Some(resume) = self.sent {
            return Err(RetryRefused::DataSent { resume });
        }
        if self.max_timeouts > 0 && self.timeouts >= self.max_timeouts {
            return Err(RetryRefused::TooManyTimeouts { timeouts: self.timeouts });
        }
        if self.retries >= self.max_retries {
            return Err(RetryRefused::TooManyRetries { retries: self.retries });
        }
        self.retries += 1;
        Ok(())
    }
}

/// Why work that failed is not done once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryRefused {
    /// Data of it has gone to the client.
    DataSent {
        /// Behind which position the client can resume.
        resume: Option<Position>,
    },
    /// It was tried as often as it may be.
    TooManyRetries {
        /// How often it was tried again.
        retries: u32,
    },
    /// It has timed out as often as it may.
    TooManyTimeouts {
        /// How often that was.
        timeouts: u32,
    },
}

impl fmt::Display for RetryRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataSent { resume: None } => write!(f, "not retried: data was sent to the client already"),
            Self::DataSent { resume: Some(position) } => {
                write!(f, "not retried: data was sent to the client already; resume behind {position}")
            }
            Self::TooManyRetries { retries } => write!(f, "not retried: {retries} retries failed"),
            Self::TooManyTimeouts { timeouts } => write!(f, "not retried: {timeouts} time-outs"),
        }
    }
}

impl Error for RetryRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_is_allowed_before_the_first_datum() {
        let mut retries = Retries::default();
        assert!((0..720).all(|_| retries.is_retry_safe() && retries.failed(false).is_ok()));
        assert_eq!(retries.failed(false), Err(RetryRefused::TooManyRetries { retries: 720 }));
    }

    #[test]
    fn retry_is_forbidden_once_data_was_sent_and_says_where_to_resume() {
        let mut retries = Retries::default();
        let position = Position::new(7, 3);
        retries.data_sent(Some(Position::new(7, 1)));
        retries.data_sent(Some(position));
        retries.data_sent(None);
        let refused = retries.failed(false).unwrap_err();
        assert_eq!(refused, RetryRefused::DataSent { resume: Some(position) });
        assert_eq!(refused.to_string(), format!("not retried: data was sent to the client already; resume behind {position}"));
        assert!(!retries.is_retry_safe());
    }

    #[test]
    fn third_time_out_is_the_last() {
        let mut retries = Retries::default();
        assert_eq!([(); 3].map(|()| retries.failed(true).is_ok()), [true, true, false]);
        assert_eq!(retries.failed(false), Err(RetryRefused::TooManyTimeouts { timeouts: 3 }));
        let mut unbounded = Retries::new(10, 0);
        assert!((0..10).all(|_| unbounded.failed(true).is_ok()));
        assert_eq!(Retries::new(0, 3).failed(false), Err(RetryRefused::TooManyRetries { retries: 0 }));
    }
}
