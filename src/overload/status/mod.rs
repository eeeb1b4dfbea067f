//! Why a stream ended, in one classification, and what each protocol calls it.
//!
//! Whatever ends a stream (an error of its handler, the reason for which it was cancelled, the end of what it read) is classified into a
//! [`StreamEnd`]: a [`Code`], which is gRPC's, since that is the field's finest common set of words, and where it is one that we know an
//! [`EndCause`]. One table ([`Code::wire`]) says what a code is in HTTP, in an event stream, on a WebSocket, and whether a client is to come
//! back.
//!
//! * Causes are found by their type, at any depth of a chain of sources, boxed or not. Nothing is ever found by its text: what
//!   another library calls the same is taught to the [`Classifier`] by type.
//! * The reason of a cancel beats whatever error the handler returned after it.
//! * A cancel that another server tells us of (its status is [`Code::Cancelled`]) is not a cancel of ours.
//! * What is not known is [`Code::Internal`], and its text stays here.

use std::{borrow::Cow, error::Error, fmt, time::Duration};

use super::evictor::EVICTED_MESSAGE;
use crate::{CloseReason, Closed, Position};

mod classify;

pub use classify::Classifier;

/// What kind of end it is: the codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A conflict with others; to try again from an earlier point may help.
    Aborted,
    /// What is to be made exists.
    AlreadyExists,
    /// Somebody wanted it to end, usually the client.
    Cancelled,
    /// Data is lost or corrupt.
    DataLoss,
    /// It took too long.
    DeadlineExceeded,
    /// The system is not in the state for it.
    FailedPrecondition,
    /// Something is broken here.
    Internal,
    /// The request is wrong whatever the state of the system.
    InvalidArgument,
    /// There is no such thing.
    NotFound,
    /// It is complete.
    Ok,
    /// Beyond what there is.
    OutOfRange,
    /// This client may not.
    PermissionDenied,
    /// A quota, or all the room that there is, is used up.
    ResourceExhausted,
    /// The client has not said who it is.
    Unauthenticated,
    /// Not now, or not here: come back.
    Unavailable,
    /// That is not built.
    Unimplemented,
    /// Not known.
    Unknown,
}

/// Whether a client is to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// After a longer wait: room comes slowly.
    Later,
    /// Not with the same request.
    Never,
    /// After a short wait.
    Soon,
}

/// A [`Code`] in each protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wire {
    /// gRPC's number.
    pub grpc: u8,
    /// The HTTP status, as long as no header has been sent (google.rpc.Code's; 499 is nginx's).
    pub http: u16,
    /// The name of the last message of an event stream (SSE). It is not `error`: a browser raises that for a broken connection.
    pub sse_event: &'static str,
    /// The WebSocket close code: below 3000 RFC 6455's, or (1013) as IANA's registry has it; above it the registry's 3000 Unauthorized,
    /// 3003 Forbidden and 3008 Timeout (<https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number>).
    pub websocket: u16,
    /// Whether a client is to come back.
    pub retry: Retry,
}

impl Code {
    /// All of them, by gRPC's number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The table: what the code is in each protocol.
    ///
    /// # Examples
    /// ```
    /// use keywake::overload::status::Code;
    /// let wire = Code::Unavailable.wire();
    /// assert_eq!((wire.grpc, wire.http, wire.sse_event, wire.websocket), (14, 503, "goaway", 1013));
    /// ```
    #[must_use]
    pub const fn wire(self) -> Wire {
        const fn row(grpc: u8, http: u16, websocket: u16, retry: Retry) -> Wire {
            Wire { grpc, http, sse_event: "goaway", websocket, retry }
        }
        match self {
            Self::Ok => row(0, 200, 1000, Retry::Never),
            Self::Cancelled => row(1, 499, 1000, Retry::Never),
            Self::Unknown => row(2, 500, 1011, Retry::Never),
            Self::InvalidArgument => row(3, 400, 1008, Retry::Never),
            Self::DeadlineExceeded => row(4, 504, 3008, Retry::Soon),
            Self::NotFound => row(5, 404, 1008, Retry::Never),
            Self::AlreadyExists => row(6, 409, 1008, Retry::Never),
            Self::PermissionDenied => row(7, 403, 3003, Retry::Never),
            Self::ResourceExhausted => row(8, 429, 1013, Retry::Later),
            Self::FailedPrecondition => row(9, 400, 1008, Retry::Never),
            Self::Aborted => row(10, 409, 1013, Retry::Soon),
            Self::OutOfRange => row(11, 400, 1008, Retry::Never),
            Self::Unimplemented => row(12, 501, 1003, Retry::Never),
            Self::Internal => row(13, 500, 1011, Retry::Never),
            Self::Unavailable => row(14, 503, 1013, Retry::Soon),
            Self::DataLoss => row(15, 500, 1011, Retry::Never),
            Self::Unauthenticated => row(16, 401, 3000, Retry::Never),
        }
    }

    /// The code with gRPC's number; [`Code::Unknown`] for a number that there is not, as gRPC has it.
    #[must_use]
    pub fn from_grpc(number: u32) -> Self {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied()).unwrap_or(Self::Unknown)
    }
}

/// Why a stream was ended, as far as we know causes: errors of their own, to be returned, wrapped, or given as the reason of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndCause {
    /// It was active for longer than anything may be, whatever its progress.
    ActiveTooLong,
    /// Its client, or somebody without a reason, cancelled it.
    Cancelled,
    /// Its deadline has passed.
    DeadlineExceeded,
    /// Its work fails, and will each time.
    Deterministic,
    /// It was chosen to relieve an overloaded process.
    Evicted,
    /// The client asks for something that makes no sense.
    InvalidArgument,
    /// It was not let in: the process has no room.
    Overloaded,
    /// The session says: this client may not.
    PermissionDenied,
    /// The state was saved in a hurry, since the process stops.
    QuickSaved,
    /// The session says: the quota is used up.
    QuotaExceeded,
    /// There is no session to be had now.
    SessionUnavailable,
    /// The process stops.
    ShuttingDown,
    /// It made no progress.
    Stalled,
    /// It would store more than a stream may.
    StoreTooLarge,
    /// The session says: the client has too many streams.
    TooManyStreams,
}

impl EndCause {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ActiveTooLong,
        Self::Cancelled,
        Self::DeadlineExceeded,
        Self::Deterministic,
        Self::Evicted,
        Self::InvalidArgument,
        Self::Overloaded,
        Self::PermissionDenied,
        Self::QuickSaved,
        Self::QuotaExceeded,
        Self::SessionUnavailable,
        Self::ShuttingDown,
        Self::Stalled,
        Self::StoreTooLarge,
        Self::TooManyStreams,
    ];

    /// The code that the client is told.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Cancelled => Code::Cancelled,
            Self::ActiveTooLong | Self::DeadlineExceeded | Self::Stalled => Code::DeadlineExceeded,
            Self::Deterministic | Self::InvalidArgument | Self::StoreTooLarge => Code::InvalidArgument,
            Self::PermissionDenied => Code::PermissionDenied,
            Self::QuotaExceeded | Self::TooManyStreams => Code::ResourceExhausted,
            Self::Evicted | Self::Overloaded | Self::QuickSaved | Self::SessionUnavailable | Self::ShuttingDown => {
                Code::Unavailable
            }
        }
    }

    /// Where several are in one chain, which counts: the lower one. (The order is the source's, its `error.go`.)
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::Cancelled => 2,
            Self::PermissionDenied | Self::QuotaExceeded | Self::SessionUnavailable | Self::TooManyStreams => 3,
            Self::ActiveTooLong | Self::Evicted | Self::Overloaded | Self::ShuttingDown | Self::Stalled => 4,
            Self::QuickSaved => 6,
            Self::DeadlineExceeded => 7,
            Self::Deterministic | Self::StoreTooLarge => 8,
            Self::InvalidArgument => 9,
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ActiveTooLong => "request active for too long",
            Self::Cancelled => "the stream was cancelled",
            Self::DeadlineExceeded => "the deadline of the stream has passed",
            Self::Deterministic => "the work of the stream fails each time (deterministic error)",
            Self::Evicted => EVICTED_MESSAGE,
            Self::InvalidArgument => "the request is not valid",
            Self::Overloaded => "service under heavy load, please try connecting again",
            Self::PermissionDenied => "permission denied",
            Self::QuickSaved => "the state was saved, since the server is shutting down, please reconnect",
            Self::QuotaExceeded => "the quota is used up",
            Self::SessionUnavailable => "no session is available, please try connecting again",
            Self::ShuttingDown => "the server is shutting down, please reconnect",
            Self::Stalled => "request stalled, no block progress",
            Self::StoreTooLarge => "the store is larger than a stream's may be (deterministic error)",
            Self::TooManyStreams => "too many streams of this client",
        })
    }
}

impl Error for EndCause {}

/// The end of a stream, classified.
///
/// It is an error itself, so that it can go on up through layers and be classified again: it stays what it is.
///
/// # Examples
/// ```
/// use std::io;
///
/// use keywake::overload::{status::{Classifier, Code, EndCause}};
/// let error = io::Error::other(EndCause::ShuttingDown);
/// let end = Classifier::new().classify(Some(&error), None);
/// assert_eq!((end.code(), end.cause()), (Code::Unavailable, Some(EndCause::ShuttingDown)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    code: Code,
    cause: Option<EndCause>,
    message: Cow<'static, str>,
    data_sent: bool,
    cursor: Option<Position>,
}

impl StreamEnd {
    /// An end with this code. The message is for the client.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, cause: None, message: message.into(), data_sent: false, cursor: None }
    }

    /// The same end of a stream that has sent data, or not yet, and may be resumed from `cursor`. This is what the client is told; the
    /// watchdog's log has it from [`Registration::data_sent`](crate::overload::driver::Registration::data_sent).
    #[must_use]
    pub fn after(mut self, data_sent: bool, cursor: Option<Position>) -> Self {
        (self.data_sent, self.cursor) = (data_sent, cursor);
        self
    }

    /// The same end in other words.
    pub(super) fn told(mut self, message: String) -> Self {
        self.message = message.into();
        self
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The cause, if it is one that we know. A status from elsewhere has none, whatever its code.
    #[must_use]
    pub const fn cause(&self) -> Option<EndCause> {
        self.cause
    }

    /// What the client is told in words. It holds nothing of an error that is not known.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where to resume from.
    #[must_use]
    pub const fn cursor(&self) -> Option<Position> {
        self.cursor
    }

    /// Whether the client may come back with its cursor.
    #[must_use]
    pub fn may_resume(&self) -> bool {
        self.code.wire().retry != Retry::Never
    }

    /// Whether somebody between here and the client may try again in its stead: no data has been sent yet. Afterwards a second try
    /// would send it twice; only the client can go on, from the [`cursor`](Self::cursor).
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        self.may_resume() && !self.data_sent
    }

    /// After how long the client is to come back, if it is. `base` is the server's setting; `spread`, from 0 to 1, is to be random,
    /// so that those who left together do not return together: from once to three times `base`, and ten times that for want of
    /// room.
    ///
    /// This is for ends that bring no hint of their own. Who was not let in is sent
    /// [`Refusal::retry_after`](crate::overload::admission::Refusal::retry_after), who was evicted
    /// [`Cancelled::retry_after`](crate::overload::driver::Cancelled::retry_after).
    #[must_use]
    pub fn retry_after(&self, base: Duration, spread: f64) -> Option<Duration> {
        // A spread that is no number is none.
        let spread = if spread > 0.0 { spread.min(1.0) } else { 0.0 };
        let wait = Duration::try_from_secs_f64(base.as_secs_f64() * (1.0 + 2.0 * spread)).unwrap_or(Duration::MAX);
        match self.code.wire().retry {
            Retry::Later => Some(wait.saturating_mul(10)),
            Retry::Never => None,
            Retry::Soon => Some(wait),
        }
    }
}

impl From<EndCause> for StreamEnd {
    fn from(cause: EndCause) -> Self {
        Self { cause: Some(cause), ..Self::new(cause.code(), cause.to_string()) }
    }
}

/// Whether the stream may be resumed is as [`CloseReason::may_resume`] says.
impl From<&CloseReason> for StreamEnd {
    fn from(reason: &CloseReason) -> Self {
        let code = match reason {
            CloseReason::KeyClosed => Code::Ok,
            CloseReason::PredicatePanicked => Code::Internal,
            CloseReason::PublisherDropped | CloseReason::SlowReader => Code::Unavailable,
            CloseReason::Shutdown => return EndCause::ShuttingDown.into(),
            CloseReason::TopicLimit => Code::ResourceExhausted,
            // Somebody's words, which may not be meant for clients.
            CloseReason::Other(_) => return Self::new(Code::Unknown, "the stream was closed"),
        };
        Self::new(code, reason.to_string())
    }
}

impl From<&Closed> for StreamEnd {
    fn from(closed: &Closed) -> Self {
        closed.reason().into()
    }
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.data_sent && self.may_resume() {
            f.write_str("; data was sent, so it must not be tried again")?;
            if let Some(cursor) = self.cursor {
                write!(f, ", but resumed from {cursor}")?;
            }
        }
        Ok(())
    }
}

impl Error for StreamEnd {}
