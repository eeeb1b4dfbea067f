//! Tables in PostgreSQL: a row per owner, and one per fleet that carries the version.

mod migrations;
mod statements;

use std::{fmt, pin::Pin, time::Duration};

use keywake::placement::{ApplyError, Changes, Fleet, StoreError, Table, TableStore, Version};
use tokio::{
    sync::{Mutex, MutexGuard},
    task::AbortHandle,
};
use tokio_postgres::{Client, Config, Error, NoTls};

use crate::deadline::Deadline;

const NAME: &str = "postgres";

/// A new connection.
type Connecting = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send>>;

/// A connection, and the task that drives its other half, if it is known here.
struct Connection {
    client: Client,
    driver: Option<AbortHandle>,
}

/// By itself, what drives a connection waits for every answer that is due, also if nobody wants it any more.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

/// Keeps the tables in PostgreSQL: `keywake_row`, and `keywake_fleet` for the versions.
///
/// It has one connection, made when it is first used. Calls take turns on it, and it is given up after every error, whatever error: what was
/// wrong with it (a primary that no longer is one, a socket that is half open) goes with it.
///
/// # Examples
/// ```no_run
/// # use keywake::placement::{Fleet, TableStore};
/// # use keywake_stores::PostgresTable;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresTable::new("host=10.0.0.7 user=keywake dbname=keywake")?;
/// // When a release is deployed; as often as you like, by as many as you like.
/// store.migrate().await?;
/// let table = store.read(&Fleet::new("ingest")?).await?;
/// # Ok(()) }
/// ```
pub struct PostgresTable {
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
    /// Taken out by whoever uses it, and put back by whoever had no error: who is cancelled takes it along, and with it what was begun.
    idle: Mutex<Option<Connection>>,
    deadline: Deadline,
}

impl fmt::Debug for PostgresTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTable").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl PostgresTable {
    /// A store at that address, `key=value ..` or `postgresql://..` as for `psql`, without TLS. Nothing is connected yet.
    ///
    /// With more than one host, say `target_session_attrs=read-write`, so that a server that was demoted is passed over.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let config: Config = address.parse().map_err(|error: Error| StoreError::new(NAME, "read its address", error))?;
        Ok(Self::connecting(move || {
            let config = config.clone();
            async move {
                let (client, connection) = config.connect(NoTls).await?;
                // Ends with the client, and tells it of errors.
                let driver = tokio::spawn(async { drop(connection.await) });
                Ok(Connection { client, driver: Some(driver.abort_handle()) })
            }
        }))
    }

    /// A store behind the connections that `connect` makes, with TLS, or from a pool; it spawns what drives them. (That ends when all that
    /// was asked is answered: set `tcp_user_timeout`, so that it ends on a socket that is half open too.)
    #[must_use]
    pub fn with_connector<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        Self::connecting(move || {
            let connected = connect();
            async { Ok(Connection { client: connected.await?, driver: None }) }
        })
    }

    fn connecting<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Connection, Error>> + Send + 'static,
    {
        Self { connect: Box::new(move || Box::pin(connect())), idle: Mutex::new(None), deadline: Deadline::new(NAME) }
    }

    /// How long a call may take, its wait for its turn and for a connection included; 5 s unless told otherwise. Then it is an error.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.deadline.limit = limit;
        self
    }

    /// Makes the tables, or brings them to this release's form. Of several that do it at once one does it, the others wait. What a newer
    /// release made of them stays: migrations only ever add.
    ///
    /// # Errors
    /// When the server cannot be asked, or refuses.
    ///
    /// # Cancel safety
    /// Cancelled, all of it is done or nothing.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let call = async {
            let mut turn = self.turn().await?;
            migrations::run(&mut turn.connection.client, self.deadline.limit).await?;
            turn.end();
            Ok(())
        };
        self.deadline.within(|| "migrate".to_owned(), call).await
    }

    async fn turn(&self) -> Result<Turn<'_>, Error> {
        let mut idle = self.idle.lock().await;
        let connection = match idle.take().filter(|connection| !connection.client.is_closed()) {
            Some(connection) => connection,
            None => (self.connect)().await?,
        };
        Ok(Turn { idle, connection })
    }
}

/// The use of the connection, which outlives it only if it ends well.
struct Turn<'a> {
    idle: MutexGuard<'a, Option<Connection>>,
    connection: Connection,
}

impl Turn<'_> {
    fn end(mut self) {
        *self.idle = Some(self.connection);
    }
}

impl TableStore for PostgresTable {
    async fn read(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        let call = async {
            let mut turn = self.turn().await?;
            let table = statements::read(&mut turn.connection.client, fleet, self.deadline.limit).await?;
            turn.end();
            Ok(table)
        };
        self.deadline.within(|| format!("read the table of {fleet}"), call).await
    }

    async fn apply(&self, changes: &Changes) -> Result<Version, ApplyError> {
        let call = async {
            let mut turn = self.turn().await?;
            let applied = statements::apply(&mut turn.connection.client, changes, self.deadline.limit).await?;
            turn.end();
            Ok(applied)
        };
        Ok(self.deadline.within(|| format!("change the table of {}", changes.fleet), call).await??)
    }
}
