//! No call of a store waits for ever: a connection may be half open, and then says nothing.

use std::{error::Error, fmt, time::Duration};

use keywake::placement::StoreError;

/// How long a call may take unless its store was told otherwise.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// What a store is called, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) store: &'static str,
    pub(crate) limit: Duration,
}

impl Deadline {
    pub(crate) fn new(store: &'static str) -> Self {
        Self { store, limit: LIMIT }
    }

    /// The result of `call`, or an error when it takes too long; `doing` is told with an error.
    pub(crate) async fn within<T>(
        self,
        doing: impl FnOnce() -> String,
        call: impl Future<Output = Result<T, Cause>>,
    ) -> Result<T, StoreError> {
        // Futures of these clients are of ten thousand bytes and more; callers' own should not be.
        let result = tokio::time::timeout(self.limit, Box::pin(call)).await;
        result.unwrap_or_else(|_| Err(TimedOut(self.limit).into())).map_err(|cause| StoreError::new(self.store, doing(), cause))
    }
}

/// Any error of a client.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// A store took too long.
#[derive(Debug)]
struct TimedOut(Duration);

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer in {:?}", self.0)
    }
}

impl Error for TimedOut {}
