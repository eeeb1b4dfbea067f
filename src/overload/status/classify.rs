//! Finds why a stream ended in whatever its handler returned.

use std::{error::Error, fmt, io::Error as IoError};

use super::{Code, EndCause, StreamEnd};
use crate::{
    Closed,
    overload::{admission::Refusal, watchdog::TimedOut},
    sync::PlainArc,
};

/// How many errors of one chain are looked at: an error that is its own source ends there.
const DEPTH: usize = 1_000;

/// Says of an error of another library what it is, if it is of that type.
type Rule = Box<dyn Fn(&(dyn Error + 'static)) -> Option<StreamEnd> + Send + Sync>;

/// Classifies ends. It knows [`EndCause`], [`StreamEnd`], [`Closed`], admission's [`Refusal`] and the watchdog's
/// [`Verdict`](crate::overload::watchdog::Verdict); other types are taught to it. So must be an error that shows neither itself nor what it
/// wraps: one that is `transparent`, whose source is its content's source.
///
/// # Examples
/// ```
/// use std::{error::Error, fmt};
///
/// use keywake::overload::{status::{Classifier, Code, EndCause}};
///
/// /// A status of some RPC library.
/// #[derive(Debug)]
/// struct Status(u32);
/// # impl fmt::Display for Status {
/// #     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "status {}", self.0) }
/// # }
/// impl Error for Status {}
///
/// let classifier = Classifier::new().status(|status: &Status| Code::from_grpc(status.0));
/// let end = classifier.classify(Some(&Status(5)), None);
/// assert_eq!((end.code(), end.message()), (Code::NotFound, "status 5"));
/// // An evicted stream fails in some way; what counts is that it was evicted.
/// let end = classifier.classify(Some(&Status(5)), Some(&EndCause::Evicted));
/// assert_eq!(end.code(), Code::Unavailable);
/// ```
#[derive(Default)]
pub struct Classifier {
    causes: Vec<Rule>,
    statuses: Vec<Rule>,
    last: Vec<Rule>,
}

impl Classifier {
    /// One that has been taught nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Errors of type `E` may be one of our causes: a library's time-out, the sentinel of a module that fails each time.
    /// The client is told their text; for [`EndCause::Deterministic`] and [`EndCause::StoreTooLarge`] with the words "(deterministic
    /// error)", by which the source's clients know not to come back.
    #[must_use]
    pub fn cause<E: Error + 'static>(mut self, cause: impl Fn(&E) -> Option<EndCause> + Send + Sync + 'static) -> Self {
        self.causes.push(of_type(move |error: &E| {
            let cause = cause(error)?;
            let message = match cause {
                EndCause::Deterministic | EndCause::StoreTooLarge => format!("{error} (deterministic error)"),
                _ => error.to_string(),
            };
            Some(StreamEnd::from(cause).told(message))
        }));
        self
    }

    /// Errors of type `E` are statuses of an RPC, and passed on with their code and text.
    #[must_use]
    pub fn status<E: Error + 'static>(mut self, code: impl Fn(&E) -> Code + Send + Sync + 'static) -> Self {
        self.statuses.push(of_type(move |error: &E| Some(StreamEnd::new(code(error), error.to_string()))));
        self
    }

    /// As [`status`](Self::status), where nothing else in the chain is known. (The source treats errors of Connect so.)
    #[must_use]
    pub fn last_resort<E: Error + 'static>(mut self, code: impl Fn(&E) -> Code + Send + Sync + 'static) -> Self {
        self.last.push(of_type(move |error: &E| Some(StreamEnd::new(code(error), error.to_string()))));
        self
    }

    /// Classifies what a handler returned (`None`: no error), when its stream had been cancelled for this reason, or not.
    ///
    /// The first of these that holds: no error, [`Code::Ok`]; a reason of a cancel, that; a cancel without one; what the
    /// session says; the process's own reasons (shutdown, eviction, overload, stalls); a status; a quick save; a deadline; what fails
    /// each time; an invalid argument; the end of what was read ([`Closed`]); a last resort; or else [`Code::Internal`].
    ///
    /// A handler that returns no error counts as complete, also where its stream had been cancelled: it may have been done before it noticed.
    /// So a handler that ends because it was cancelled returns the [`Cancelled`](crate::overload::driver::Cancelled) as its error.
    ///
    /// Of an `error: E` hand in `Some(&error)`; of a box of an error, `Some(&*error)`.
    ///
    /// # Examples
    /// ```
    /// use std::io;
    /// use keywake::overload::status::{Classifier, Code, EndCause};
    ///
    /// let classifier = Classifier::new();
    /// // What `Cancelled` is in a driver's stream; its cause alone does as well.
    /// let cancelled = EndCause::Evicted;
    /// // The handler gave up because it was told to, and says so; or it failed in some way of its own after that.
    /// assert_eq!(classifier.classify(Some(&cancelled), None).code(), Code::Unavailable);
    /// let error: Box<dyn std::error::Error> = io::Error::other("broken pipe").into();
    /// assert_eq!(classifier.classify(Some(&*error), Some(&cancelled)).code(), Code::Unavailable);
    /// // It was done before it noticed.
    /// assert_eq!(classifier.classify(None, Some(&cancelled)).code(), Code::Ok);
    /// ```
    #[must_use]
    pub fn classify(&self, returned: Option<&(dyn Error + 'static)>, cancelled_for: Option<&(dyn Error + 'static)>) -> StreamEnd {
        match (returned, cancelled_for) {
            (None, _) => StreamEnd::new(Code::Ok, "the stream is complete"),
            (Some(_), Some(reason)) => self.of_chain(reason),
            (Some(error), None) => self.of_chain(error),
        }
    }

    fn of_chain(&self, error: &(dyn Error + 'static)) -> StreamEnd {
        let mut best: Option<(u8, StreamEnd)> = None;
        for error in chain(error) {
            let Some((rank, end)) = self.known(error) else { continue };
            // The outermost of several that are alike.
            if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                best = Some((rank, end));
            }
        }
        best.map_or_else(|| StreamEnd::new(Code::Internal, "internal error"), |(_, end)| end)
    }

    /// What this one error is, without its sources, and the rank of that.
    fn known(&self, error: &(dyn Error + 'static)) -> Option<(u8, StreamEnd)> {
        const STATUS: u8 = 5;
        const CLOSED: u8 = 10;
        const LAST: u8 = 11;
        let by = |rules: &[Rule]| rules.iter().find_map(|rule| rule(error));
        let ranked = |end: StreamEnd| (end.cause().map_or(STATUS, EndCause::rank), end);
        if let Some(cause) = downcast::<EndCause>(error) {
            return Some(ranked((*cause).into()));
        }
        if let Some(end) = downcast::<StreamEnd>(error) {
            return Some(ranked(end.clone()));
        }
        if let Some(closed) = downcast::<Closed>(error) {
            return Some((CLOSED, closed.into()));
        }
        let refused = || downcast::<Refusal>(error).map(|refusal| refusal.reason().cause());
        if let Some(cause) = refused().or_else(|| downcast::<TimedOut>(error).map(TimedOut::cause)) {
            return Some(ranked(cause.into()));
        }
        by(&self.causes).or_else(|| by(&self.statuses)).map(ranked).or_else(|| Some((LAST, by(&self.last)?)))
    }
}

fn of_type<E: Error + 'static>(end: impl Fn(&E) -> Option<StreamEnd> + Send + Sync + 'static) -> Rule {
    Box::new(move |error| downcast(error).and_then(&end))
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { causes, statuses, last } = self;
        f.debug_struct("Classifier")
            .field("causes", &causes.len())
            .field("statuses", &statuses.len())
            .field("last_resorts", &last.len())
            .finish()
    }
}

/// The error, if it is an `E`, also behind a reference, in a box or in an `Arc` of its own.
fn downcast<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let borrowed = || error.downcast_ref::<&'static E>().copied();
    let boxed = || error.downcast_ref::<Box<E>>().map(|error| &**error);
    let shared = || error.downcast_ref::<PlainArc<E>>().map(|error| &**error);
    error.downcast_ref::<E>().or_else(borrowed).or_else(boxed).or_else(shared)
}

/// The error and all that it comes from.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| within(*error)).take(DEPTH)
}

/// What it wraps, or else its source. (The source of an `io::Error` and of an `Arc` is that of what they wrap, which would be
/// passed over.)
fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(wrapped) = downcast::<IoError>(error).and_then(IoError::get_ref) {
        return Some(wrapped);
    }
    if let Some(wrapped) = downcast::<PlainArc<dyn Error + Send + Sync>>(error) {
        return Some(&**wrapped);
    }
    if let Some(wrapped) = downcast::<PlainArc<dyn Error>>(error) {
        return Some(&**wrapped);
    }
    error.source()
}
