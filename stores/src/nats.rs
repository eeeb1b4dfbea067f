//! Tables and reports in NATS: two key-value buckets.

use std::{str, time::Duration};

use async_nats::{
    Client, ConnectOptions, ToServerAddrs,
    connection::State,
    jetstream::{
        Context,
        kv::{Config, Operation, Store, UpdateErrorKind},
        stream::LastRawMessageErrorKind,
    },
};
use futures_util::{StreamExt, TryStreamExt, stream};
use keywake::placement::{
    ApplyError, Changes, Fleet, Refused, Report, ReportStore, StoreError, StoreTime, Table, TableStore, Version,
    store::{MalformedReport, Reports},
};
use serde::Deserialize;

use crate::{
    deadline::{Cause, Deadline},
    reports,
};

const NAME: &str = "nats";
/// A connection on which nothing comes for three times as long, not even the answers to pings, is given up: it may be half open. The client's own
/// default is a minute.
const PING: Duration = Duration::from_secs(5);
/// How many reports are asked for at once.
const AT_ONCE: usize = 32;

/// Before the `attempt`th try to connect, the first is 1 since the last one that succeeded: from 0.1 to 5 s. (The client's own default begins
/// with none, so that a server that lets it in and throws it out again would be asked without a pause.)
fn pause_before(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(6);
    Duration::from_millis(100 << doublings).min(Duration::from_secs(5))
}

/// Keeps the tables in the bucket `keywake-tables`, one key a fleet, and the reports in `keywake-reports`, keys `FLEET.INDEX`; both as text.
///
/// A table's version is its key's revision, so that of two writers the server itself refuses the second. A table is one message: by the
/// server's `max_payload` of 1 MB it has room for some 25,000 rows, and a change beyond that is an error. The reads of a table are answered by
/// the stream's leader, those of reports by any replica.
///
/// The client connects in the background, and again after every loss, with 0.1 to 5 s between its tries; a call in between is an error, at once.
///
/// # Examples
/// ```no_run
/// # use keywake::placement::{Fleet, TableStore};
/// # use keywake_stores::NatsStore;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = NatsStore::connect("nats://10.0.0.7").await?;
/// // Once, when a fleet is set up.
/// store.create_buckets(1).await?;
/// let table = store.read(&Fleet::new("ingest")?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct NatsStore {
    client: Client,
    context: Context,
    tables: String,
    reports: String,
    deadline: Deadline,
}

impl NatsStore {
    /// A store at that address, or at one of several. The server need not be there yet.
    ///
    /// # Errors
    /// When the address is none.
    pub async fn connect(address: impl ToServerAddrs) -> Result<Self, StoreError> {
        let options = ConnectOptions::new().retry_on_initial_connect().max_reconnects(None).ping_interval(PING);
        let options = options.reconnect_delay_callback(pause_before);
        let client = options.connect(address).await.map_err(|error| StoreError::new(NAME, "connect", error))?;
        Ok(Self::with_client(client))
    }

    /// A store behind that client, which has its own options: let it reconnect without end, and ping every few seconds.
    #[must_use]
    pub fn with_client(client: Client) -> Self {
        let context = async_nats::jetstream::new(client.clone());
        let (tables, reports) = ("keywake-tables".to_owned(), "keywake-reports".to_owned());
        Self { client, context, tables, reports, deadline: Deadline::new(NAME) }
    }

    /// Another first part of the buckets' names than `keywake`: letters, digits, `-` and `_`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.tables = format!("{prefix}-tables");
        self.reports = format!("{prefix}-reports");
        self
    }

    /// How long a call may take, 5 s unless told otherwise; then it is an error.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.deadline.limit = limit;
        self
    }

    /// Makes the two buckets, on so many servers each, if they are not there. What else uses this store never does: a bucket that is gone is
    /// an outage, and not an empty table.
    ///
    /// # Errors
    /// When the server cannot be asked, or has buckets of those names with other settings.
    ///
    /// # Cancel safety
    /// Cancelled, each bucket is there or not; call it again.
    pub async fn create_buckets(&self, replicas: usize) -> Result<(), StoreError> {
        for bucket in [&self.tables, &self.reports] {
            let config = Config { bucket: bucket.clone(), history: 1, num_replicas: replicas, ..Config::default() };
            let call = async {
                self.connected()?;
                self.context.create_key_value(config).await?;
                Ok(())
            };
            self.deadline.within(|| format!("make the bucket {bucket}"), call).await?;
        }
        Ok(())
    }

    /// Without a connection a call fails at once: otherwise it would wait for its limit, and its first question be kept and sent when nobody
    /// waits for the answer any more.
    fn connected(&self) -> Result<(), Cause> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Disconnected | State::Pending => Err("not connected".into()),
        }
    }

    /// A bucket, and the time by the leader of its stream.
    async fn bucket(&self, name: &str) -> Result<(Store, StoreTime), Cause> {
        /// What of a stream's description the client leaves out.
        #[derive(Deserialize)]
        struct Now {
            ts: String,
        }
        self.connected()?;
        let bucket = self.context.get_key_value(name).await?;
        let now: Now = self.context.request(format!("STREAM.INFO.{}", bucket.stream_name), &()).await?;
        let now = async_nats::datetime::parse_rfc3339(&now.ts)?.unix_timestamp_nanos();
        let now = Duration::from_nanos(u64::try_from(now).unwrap_or_default());
        Ok((bucket, StoreTime(now)))
    }

    /// The newest state of a fleet's table: its rows, and as its version the revision that holds them.
    async fn table(&self, fleet: &Fleet) -> Result<(Store, Table), Cause> {
        let (bucket, now) = self.bucket(&self.tables).await?;
        let subject = format!("{}{fleet}", bucket.prefix);
        let message = match bucket.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok((bucket, Table::empty(fleet.clone()).with_read_at(now)));
            }
            Err(error) => return Err(error.into()),
        };
        let mut table = Table::new(fleet.clone(), Version(message.sequence), now);
        // Somebody deleted it: no rows, but not a table that nobody has written.
        if message.headers.get("KV-Operation").is_some_and(|operation| matches!(operation.as_str(), "DEL" | "PURGE")) {
            return Ok((bucket, table));
        }
        let text = Table::from_text(str::from_utf8(&message.payload)?, now)?;
        if text.fleet() != fleet {
            return Err(format!("it is the table of {}", text.fleet()).into());
        }
        table = table.with_hash_version(text.hash_version());
        for (owner, row) in text.rows() {
            table.insert(owner.clone(), *row);
        }
        for malformed in text.malformed() {
            table.insert_malformed(malformed.clone());
        }
        Ok((bucket, table))
    }

    /// The answer within is the table's own.
    async fn try_apply(&self, changes: &Changes) -> Result<Result<Version, Refused>, Cause> {
        let (bucket, mut table) = self.table(&changes.fleet).await?;
        let at = table.read_at();
        if let Err(refused) = table.apply(changes, changes.base, at) {
            return Ok(Err(refused));
        }
        let written = bucket.update(changes.fleet.as_str(), table.to_text().into(), changes.base.0).await;
        match written {
            Ok(revision) => Ok(Ok(Version(revision))),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                let found = self.table(&changes.fleet).await?.1.version();
                Ok(Err(Refused::Conflict { fleet: changes.fleet.clone(), base: changes.base, found }))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl TableStore for NatsStore {
    async fn read(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        let call = async { Ok(self.table(fleet).await?.1) };
        self.deadline.within(|| format!("read {fleet} in {}", self.tables), call).await
    }

    async fn apply(&self, changes: &Changes) -> Result<Version, ApplyError> {
        let doing = || format!("write {} in {}", changes.fleet, self.tables);
        Ok(self.deadline.within(doing, self.try_apply(changes)).await??)
    }
}

impl ReportStore for NatsStore {
    async fn put(&self, report: &Report) -> Result<(), StoreError> {
        let key = format!("{}.{}", report.fleet, report.index);
        let call = async {
            self.connected()?;
            self.context.get_key_value(&self.reports).await?.put(&key, report.to_text().into()).await?;
            Ok(())
        };
        self.deadline.within(|| format!("write {key} in {}", self.reports), call).await
    }

    async fn read_all(&self, fleet: &Fleet) -> Result<Reports, StoreError> {
        let call = async {
            self.connected()?;
            let bucket = self.context.get_key_value(&self.reports).await?;
            // Not by watching, which would leave a consumer on the server each time.
            let subjects = bucket.stream.info_with_subjects(format!("{}{fleet}.*", bucket.prefix)).await?;
            let keys = subjects.map_ok(|(subject, _)| subject.strip_prefix(&bucket.prefix).unwrap_or_default().to_owned());
            let keys: Vec<String> = keys.try_collect().await?;
            let index = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
            // The client refuses to ask for subjects that cannot be keys; anybody can write to them.
            let (keys, strange): (Vec<_>, Vec<_>) =
                keys.into_iter().partition(|key| index(key).bytes().all(|byte| byte.is_ascii_digit()));
            let mut found = Reports::default();
            let told = |at| MalformedReport { at, reason: "its key is no index of a process".to_owned() };
            found.malformed.extend(strange.into_iter().map(told));
            let mut entries = stream::iter(keys).map(|key| bucket.entry(key)).buffer_unordered(AT_ONCE);
            while let Some(entry) = entries.try_next().await? {
                let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) else { continue };
                let index = index(&entry.key);
                reports::file(&mut found, entry.key, fleet, &index, &entry.value);
            }
            Ok(found)
        };
        self.deadline.within(|| format!("read {fleet}.* in {}", self.reports), call).await
    }
}
