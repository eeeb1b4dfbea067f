//! A store in a directory: one file per table and per report, replaced atomically, tables behind a lock.
//!
//! For one machine, or a file system that all processes share and that locks. Files are written under another name, synced, and renamed, so
//! that a reader sees the old one or the new one, whole. A process that is killed leaves at most a file under a temporary name. The lock
//! is the system's (`flock`), on a file beside the table, and goes with its holder.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

#[cfg(target_os = "linux")]
use std::time::Duration;

use super::{ApplyError, MalformedReport, ReportStore, Reports, StoreError, TableStore};
use crate::{
    placement::{
        name::Fleet,
        report::Report,
        table::{Changes, StoreTime, Table, Version},
    },
    sync::unique_number,
};

const NAME: &str = "embedded";
/// How long a writer waits for another one, which holds the lock for as long as it takes to write one file.
#[cfg(target_os = "linux")]
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Tables and reports as files of one directory, which replace what stands in their place, also a link; their text is that of [`Table::to_text`] and [`Report::to_text`].
///
/// Its calls block: a read for as long as the file takes to read, a change for as long as it takes to be synced, at most a second longer if
/// another writer is at it. Run them where blocking is allowed. Linux only: elsewhere changes are refused, for want of a lock.
///
/// # Examples
/// ```
/// use keywake::placement::{Fleet, TableStore, store::EmbeddedStore};
/// # let directory = std::env::temp_dir().join(format!("keywake-embedded-{}", std::process::id()));
/// let store = EmbeddedStore::open(&directory)?;
/// let fleet = Fleet::new("ingest")?;
/// # async fn read(store: EmbeddedStore, fleet: Fleet) {
/// let table = store.read(&fleet).await.expect("no file is a table that nobody has written");
/// assert!(table.is_empty());
/// # }
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    directory: PathBuf,
}

impl EmbeddedStore {
    /// A store in that directory, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| failed("make", &directory, error))?;
        Ok(Self { directory })
    }

    fn table(&self, fleet: &Fleet) -> PathBuf {
        self.directory.join(format!("{fleet}.table"))
    }

    fn read_now(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        let path = self.table(fleet);
        match read_table(&path, now())? {
            Some(table) if table.fleet() == fleet => Ok(table),
            Some(table) => Err(failed("read", &path, format!("it is the table of {}", table.fleet()))),
            // A directory that is gone is an outage, and not an empty table.
            None if self.directory.is_dir() => Ok(Table::empty(fleet.clone()).with_read_at(now())),
            None => Err(failed("read", &path, "its directory is gone")),
        }
    }

    fn apply_now(&self, changes: &Changes) -> Result<Version, ApplyError> {
        let path = self.table(&changes.fleet);
        let lock = path.with_extension("table.lock");
        let _held = lock_file(&lock).map_err(|error| failed("lock", &lock, error))?;
        let mut table = self.read_now(&changes.fleet)?;
        let next = Version(table.version().0.saturating_add(1));
        table.apply(changes, next, now())?;
        replace(&path, &table.to_text(), true).map_err(|error| failed("write", &path, error))?;
        Ok(next)
    }

    fn put_now(&self, report: &Report) -> Result<(), StoreError> {
        let path = self.directory.join(format!("{}.report.{}", report.fleet, report.index));
        // Not synced: the next one comes in a minute.
        replace(&path, &report.to_text(), false).map_err(|error| failed("write", &path, error))
    }

    fn read_all_now(&self, fleet: &Fleet) -> Result<Reports, StoreError> {
        let prefix = format!("{fleet}.report.");
        let mut reports = Reports::default();
        let entries = fs::read_dir(&self.directory).map_err(|error| failed("list", &self.directory, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", &self.directory, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(index) = name.strip_prefix(&prefix) else { continue };
            match read_report(&entry.path()) {
                Ok(report) if report.fleet == *fleet && report.index.to_string() == index => reports.reports.push(report),
                Ok(report) => {
                    let reason = format!("it is the report of {} {}", report.fleet, report.index);
                    reports.malformed.push(MalformedReport { at: name, reason });
                }
                Err(reason) => reports.malformed.push(MalformedReport { at: name, reason }),
            }
        }
        Ok(reports)
    }
}

impl TableStore for EmbeddedStore {
    async fn read(&self, fleet: &Fleet) -> Result<Table, StoreError> {
        self.read_now(fleet)
    }

    async fn apply(&self, changes: &Changes) -> Result<Version, ApplyError> {
        self.apply_now(changes)
    }
}

impl ReportStore for EmbeddedStore {
    async fn put(&self, report: &Report) -> Result<(), StoreError> {
        self.put_now(report)
    }

    async fn read_all(&self, fleet: &Fleet) -> Result<Reports, StoreError> {
        self.read_all_now(fleet)
    }
}

fn failed(doing: &str, path: &Path, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::new(NAME, format!("{doing} {}", path.display()), cause)
}

/// The machine's clock; before 1970 it is 1970.
fn now() -> StoreTime {
    StoreTime(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// The table in a file; `None` where there is no file.
pub(super) fn read_table(path: &Path, read_at: StoreTime) -> Result<Option<Table>, StoreError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, error)),
    };
    Table::from_text(&text, read_at).map(Some).map_err(|error| failed("read", path, error))
}

fn read_report(path: &Path) -> Result<Report, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    Report::from_text(&text).map_err(|error| error.to_string())
}

/// Writes `text` beside `path` and renames it there. Synced, it is there after a power failure too.
pub(super) fn replace(path: &Path, text: &str, sync: bool) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (temporary, mut file) = loop {
        // The leading dot keeps it out of every listing here.
        let temporary = path.with_file_name(format!(".{name}.{}.{}", std::process::id(), unique_number()));
        // Never one that is there: another machine's process may have the same number, and a link may lead anywhere.
        match File::create_new(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => break (temporary, created?),
        }
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| if sync { file.sync_all() } else { Ok(()) });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        drop(fs::remove_file(&temporary));
        return renamed;
    }
    if !sync {
        return Ok(());
    }
    // A bare name is in the directory that the process is in.
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Holds the lock for as long as the file is open.
#[cfg(target_os = "linux")]
fn lock_file(path: &Path) -> io::Result<File> {
    use rustix::{
        fs::{FlockOperation, flock},
        io::Errno,
    };

    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    let mut waited = Duration::ZERO;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if waited < LOCK_WAIT => {
                let pause = Duration::from_millis(2);
                std::thread::sleep(pause);
                waited += pause;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn lock_file(_: &Path) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "there is a lock on Linux only"))
}
