//! Where keys run: a table of owners over a frozen hash, and a planner that moves owners by their measured load.
//!
//! ```text
//!  every process                              one process
//!  ─────────────                              ───────────
//!  Recorder::close ── Report ── ReportStore ── Balancer::run: LoadModel ── FleetView ── Planner ── Plan
//!  TableReader::resolve ── Table ── TableStore ────────────────── Changes, on the version read ──────┘
//! ```
//!
//! * **Place**: an [`Owner`] has its row's process; without one, [`placement_hash`] modulo the fleet's size. A row that names no process of the
//!   reader's own fleet counts as none.
//! * **Load**: a process is its processor time over a measured window, in [`Cores`]; an owner is its share of that by what was seen of it
//!   ([`Busy`]). Means over an hour ([`Ewma`]) add up; they belong to the owner, and travel with it.
//! * **Moves** ([`Planner`]): owners leave a process above `high` until it is at or below `low`, to the coldest one below `high`, each only if the
//!   larger of both ends at least `min_gain` lower; the same owner not within its `cooldown`; `moves_per_run` at most. With none that
//!   helps, the process is [`Blocked`], with the reason.
//! * **Stores**: [`EmbeddedStore`] for one machine; the crate `keywake-stores` for Redis, PostgreSQL and NATS. Plans are written on the
//!   version that they were made of, or not at all. Reads of the table never fail for who resolves.
//!
//! The rules are those of Mergify's load-measured balancer, as its authors tell of it; it is called S1 in these pages. Where it leaves something
//! open, ARCHITECTURE.md says what was decided.
//!
//! # Examples
//! Forty tenants are on two processes by the hash alone, of which one is too hot; a few moves relieve it.
//! ```
//! use std::time::{Duration, Instant};
//!
//! use keywake::placement::{Balancer, EmbeddedStore, Fleet, Index, Owner, Planner, Recorder, ReportStore, Settings, TableReader};
//! # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
//! # fn block_on<F: Future>(f: F) -> F::Output {
//! #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("a file is ready") }
//! # }
//! # let directory = std::env::temp_dir().join(format!("keywake-placement-{}", std::process::id()));
//! # block_on(async {
//! let (fleet, store) = (Fleet::new("ingest")?, EmbeddedStore::open(&directory)?);
//! let tenants: Vec<_> = (0..40).map(|number| Owner::new(&format!("tenant-{number}"))).collect::<Result<_, _>>()?;
//! // In one process here; each has a recorder and a reader of its own.
//! let (mut recorders, reader) = ([0, 1].map(|index| Recorder::new(fleet.clone(), Index(index), 1)), TableReader::new(fleet.clone()));
//! let mut balancer = Balancer::new(fleet, Planner::new(Settings::default())?);
//! let (began, mut used, mut log) = (Instant::now(), [Duration::ZERO; 2], Vec::new());
//! for minute in 0..30 {
//!     let now = began + minute * Duration::from_secs(60);
//!     for (index, recorder) in recorders.iter_mut().enumerate() {
//!         for tenant in &tenants {
//!             // Each takes two seconds of a minute, wherever it runs.
//!             if reader.resolve(tenant, 2)?.index.0 as usize == index {
//!                 recorder.record(tenant, Duration::from_secs(2));
//!                 used[index] += Duration::from_secs(2);
//!             }
//!         }
//!         // The first window has no beginning, and is no report.
//!         if let Ok(report) = recorder.close(now, Some(used[index]), 2) {
//!             store.put(&report).await?;
//!         }
//!     }
//!     log.push(balancer.run(&reader, &store, &store, 2, now).await.plan.to_string());
//! }
//! log.dedup();
//! assert_eq!(log, [
//!     "ingest: 0 moves; 2 without reports",
//!     "ingest: 0 moves; 2 warming up",
//!     "ingest: 2 moves; tenant-13 (0.033) from 0 to 1: 0.766 -> 0.733, 0.566 -> 0.600; \
//!      tenant-17 (0.033) from 0 to 1: 0.733 -> 0.699, 0.600 -> 0.633",
//!     "ingest: 0 moves",
//! ]);
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod balancer;
mod cores;
mod ewma;
mod hash;
mod model;
mod name;
mod planner;
mod recorder;
mod report;
pub mod store;
mod table;
mod text;

pub use balancer::{Balancer, BalancerStats, Run, RunOutcome};
pub use cores::Cores;
pub use ewma::Ewma;
pub use hash::{HASH_VERSION, placement_hash};
pub use model::{Folded, LoadModel};
pub use name::{Fleet, Index, NameError, Owner};
pub use planner::{
    Blocked, BlockedReason, Confirmation, Figures, FleetView, Held, MarksBelow, Move, OwnerView, Plan, Planner, ProcessState,
    ProcessView, Settings, SettingsError,
};
pub use recorder::{Busy, Discarded, Recorder};
pub use report::{LOAD_MODEL, OwnerLoad, Pressure, Report};
pub use store::{ApplyError, EmbeddedStore, ReportStore, StoreError, TableReader, TableStore};
pub use table::{Change, Changes, EmptyFleet, MalformedRow, Refused, Resolved, ResolvedBy, Row, StoreTime, Table, Version};
pub use text::TextError;
