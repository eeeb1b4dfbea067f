//! Reports in Redis: one hash per fleet, one field per process.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::redis::{
    AsyncCommands, Client, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use keywake::placement::{Fleet, Report, ReportStore, StoreError, store::Reports};

use crate::{
    deadline::{Cause, Deadline},
    reports,
};

const NAME: &str = "redis";

/// Keeps the reports in Redis: a hash `keywake:reports:FLEET`, its fields the indexes, its values [`Report::to_text`].
///
/// What is in it is worth a window: after a restart that lost it, every process says the next minute where it stands. It connects when it is
/// first used, and again after every loss; a call in between is an error.
///
/// # Examples
/// ```no_run
/// # use keywake::placement::{Fleet, ReportStore};
/// # use keywake_stores::RedisReports;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisReports::new("redis://10.0.0.7/")?;
/// let reports = store.read_all(&Fleet::new("ingest")?).await?.reports;
/// # Ok(()) }
/// ```
pub struct RedisReports {
    client: Client,
    /// Given up after every call that does not end well, see [`Turn`].
    manager: Mutex<Option<ConnectionManager>>,
    prefix: String,
    deadline: Deadline,
}

impl fmt::Debug for RedisReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("RedisReports").field("prefix", &self.prefix).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl RedisReports {
    /// A store at that address, `redis://[user:password@]host[:port][/database]`. Nothing is connected yet.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let client = Client::open(address).map_err(|error| StoreError::new(NAME, "read its address", error))?;
        Ok(Self::with_client(client))
    }

    /// A store behind that client.
    #[must_use]
    pub fn with_client(client: Client) -> Self {
        Self { client, manager: Mutex::new(None), prefix: "keywake".to_owned(), deadline: Deadline::new(NAME) }
    }

    /// Another first part of the keys than `keywake`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a call may take, 5 s unless told otherwise; then it is an error.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.deadline.limit = limit;
        self
    }

    fn key(&self, fleet: &Fleet) -> String {
        format!("{}:reports:{fleet}", self.prefix)
    }

    /// The connection, as it is; within a runtime.
    fn turn(&self) -> Result<Turn<'_>, RedisError> {
        let mut held = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        let manager = match &*held {
            Some(manager) => manager.clone(),
            None => {
                // The call's own limit is the one that counts, and the next call is the next try.
                let config = ConnectionManagerConfig::new()
                    .set_number_of_retries(0)
                    .set_connection_timeout(Some(self.deadline.limit))
                    .set_response_timeout(Some(self.deadline.limit));
                held.insert(ConnectionManager::new_lazy_with_config(self.client.clone(), config)?).clone()
            }
        };
        Ok(Turn { manager, held: &self.manager, ended: false })
    }
}

/// The use of the connection, which outlives it only if it ends well.
///
/// The manager connects again after some errors only: not after those of the server itself (too many clients, a password that is being
/// changed), by which it would answer for ever, and not while a half-open socket says nothing.
struct Turn<'a> {
    manager: ConnectionManager,
    held: &'a Mutex<Option<ConnectionManager>>,
    ended: bool,
}

impl Turn<'_> {
    fn end<T>(mut self, result: Result<T, RedisError>) -> Result<T, Cause> {
        self.ended = result.is_ok();
        result.map_err(Into::into)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.ended {
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl ReportStore for RedisReports {
    async fn put(&self, report: &Report) -> Result<(), StoreError> {
        let key = self.key(&report.fleet);
        let call = async {
            let mut turn = self.turn()?;
            let put = turn.manager.hset(&key, report.index.0, report.to_text()).await;
            turn.end(put)
        };
        self.deadline.within(|| format!("HSET {key} {}", report.index), call).await
    }

    async fn read_all(&self, fleet: &Fleet) -> Result<Reports, StoreError> {
        let key = self.key(fleet);
        let call = async {
            let mut turn = self.turn()?;
            let fields = turn.manager.hgetall::<_, Vec<(Vec<u8>, Vec<u8>)>>(&key).await;
            turn.end(fields)
        };
        let fields = self.deadline.within(|| format!("HGETALL {key}"), call).await?;
        let mut found = Reports::default();
        for (field, value) in fields {
            let field = String::from_utf8_lossy(&field);
            reports::file(&mut found, format!("{key} {field}"), fleet, &field, &value);
        }
        Ok(found)
    }
}
