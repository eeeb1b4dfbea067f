//! Tells which tasks do not get on.
//!
//! A task that gets on lives, however slowly: one block in five minutes is enough. One that has not got on for [`WatchdogLimits::stall`],
//! or that is there for [`WatchdogLimits::absolute`], or that has handled one item for [`WatchdogLimits::item`], is told of once by
//! [`Watchdog::check`]; it is for the caller to end it. It keeps its slot until its [`Watched`] is dropped: what cannot be killed still
//! runs.
//!
//! * **W1** Only [`Progress`] counts, and only what is above all that its source had counted before. Heartbeats have no handle.
//! * **W2** Progress is seen by a check, and dated then: a task lives at most `stall` and a period beyond its last progress.
//! * **W3** A check waits for no worker, and no worker drives it: workers touch counters, and the lock is held to read them.
//! * **W4** After a gap between checks (a stopped process, a paused machine) no task is told to end before it had time for an item; if a
//!   further gap interrupts that time, it begins anew, up to the third. Checks that are always late end who is stalled all the same.
//! * **W5** Limits are exceeded, not reached: with a stall of ten minutes a task that got on ten minutes ago lives.
//!
//! `step.rs`: the rules, pure. `progress.rs`: what workers touch. `limits.rs`, `verdict.rs`, `retry.rs`: what users hold.

mod limits;
mod progress;
mod retry;
mod step;
#[cfg(test)]
mod tests;
mod verdict;

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

pub use limits::{WatchdogError, WatchdogLimits};
use progress::Counters;
pub use progress::{Item, Progress};
pub use retry::{Retries, RetryRefused};
use step::{Gaps, SourceState, TaskState};
pub use verdict::{LongActive, TimedOut, Verdict};

use crate::sync::{Arc, Mutex, Tally};

/// Names a task of one watchdog; never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source of a task.
struct Source {
    name: String,
    counters: Arc<Counters>,
    state: SourceState,
}

/// A task, from its beginning until its [`Watched`] is dropped.
struct Task {
    label: String,
    state: TaskState,
    sources: Vec<Source>,
    /// Data that has gone to the client.
    sent: Arc<Tally>,
}

#[derive(Default)]
struct Tasks {
    by_id: BTreeMap<TaskId, Task>,
    begun: u64,
    gaps: Gaps,
}

struct Shared {
    limits: WatchdogLimits,
    tasks: Mutex<Tasks>,
}

/// Watches tasks. A handle: its clones share everything.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::overload::{watchdog::{Watchdog, WatchdogLimits}};
///
/// let limits = WatchdogLimits { stall: Duration::from_secs(60), item: Duration::ZERO, ..WatchdogLimits::default() };
/// let (watchdog, began) = (Watchdog::new(limits)?, Instant::now());
/// let task = watchdog.watch("user=alice", began);
/// let blocks = task.source("blocks");
/// let check_at = |seconds| watchdog.check(began + Duration::from_secs(seconds));
///
/// assert!(check_at(30).verdicts.is_empty());
/// blocks.advance(1);
/// assert!(check_at(60).verdicts.is_empty() && check_at(120).verdicts.is_empty());
/// let verdicts = check_at(121).verdicts;
/// assert_eq!(verdicts[0].timed_out.to_string(), "request stalled, no block progress: for more than 60s");
/// # Ok::<(), keywake::overload::watchdog::WatchdogError>(())
/// ```
#[derive(Clone)]
pub struct Watchdog {
    shared: Arc<Shared>,
}

impl Watchdog {
    /// With these limits.
    ///
    /// # Errors
    /// If they cannot work together, see [`WatchdogError`].
    pub fn new(limits: WatchdogLimits) -> Result<Self, WatchdogError> {
        limits.check()?;
        Ok(Self { shared: Arc::new(Shared { limits, tasks: Mutex::new(Tasks::default()) }) })
    }

    /// The limits that it was made with.
    #[must_use]
    pub fn limits(&self) -> WatchdogLimits {
        self.shared.limits
    }

    /// Watches a task from now on, until what is returned is dropped. The label is for logs: whose it is, and what it does.
    pub fn watch(&self, label: impl Into<String>, now: Instant) -> Watched {
        let label = label.into();
        let sent = Arc::new(Tally::new(0));
        let mut tasks = self.shared.tasks.lock();
        tasks.gaps.begin(now);
        tasks.begun += 1;
        let id = TaskId(tasks.begun);
        let task = Task { label, state: TaskState::new(now), sources: Vec::new(), sent: Arc::clone(&sent) };
        tasks.by_id.insert(id, task);
        drop(tasks);
        Watched { shared: Arc::clone(&self.shared), id, sent }
    }

    /// Reads what the tasks have done, and says which are to end, each once, and which are there for long.
    ///
    /// To be called every [`WatchdogLimits::period`] by a timer that depends on no task.
    #[must_use = "nothing ends a task but who is told"]
    pub fn check(&self, now: Instant) -> Check {
        let limits = &self.shared.limits;
        let mut tasks = self.shared.tasks.lock();
        let is_grace = tasks.gaps.is_grace(now, limits);
        let mut check = Check { verdicts: Vec::new(), long_active: Vec::new() };
        for (id, task) in &mut tasks.by_id {
            task.observe(now);
            if !is_grace {
                check.verdicts.extend(task.judge(*id, now, limits));
            }
            check.long_active.extend(task.long_active(*id, now, limits.long_active));
        }
        check
    }

    /// The tasks that are there, those included that were told to end and still run.
    #[must_use]
    pub fn active(&self, now: Instant) -> ActiveTasks {
        let tasks = self.shared.tasks.lock();
        let ages = tasks.by_id.values().map(|task| now.saturating_duration_since(task.state.began));
        ActiveTasks { tasks: tasks.by_id.len(), oldest: ages.max() }
    }
}

impl Task {
    fn observe(&mut self, now: Instant) {
        for source in &mut self.sources {
            if source.state.observe(source.counters.read(), now) {
                self.state.progress(now);
            }
        }
    }

    fn judge(&mut self, id: TaskId, now: Instant, limits: &WatchdogLimits) -> Option<Verdict> {
        let overdue = self.sources.iter().find(|source| source.state.is_overdue(now, limits.item));
        let timed_out = self.state.judge(now, limits, overdue.map(|source| &*source.name))?;
        Some(Verdict {
            task: id,
            label: self.label.clone(),
            timed_out,
            active_for: now.saturating_duration_since(self.state.began),
            since_last_progress: now.saturating_duration_since(self.state.progressed),
            is_retry_safe: self.sent.get() == 0,
        })
    }

    fn long_active(&mut self, id: TaskId, now: Instant, every: Duration) -> Option<LongActive> {
        self.state.is_long(now, every).then(|| LongActive {
            task: id,
            label: self.label.clone(),
            duration: now.saturating_duration_since(self.state.began),
            since_last_progress: now.saturating_duration_since(self.state.progressed),
            progress: self.sources.iter().map(|source| (source.name.clone(), source.state.best())).collect(),
        })
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.tasks.lock().by_id.len();
        f.debug_struct("Watchdog").field("limits", &self.shared.limits).field("tasks", &tasks).finish()
    }
}

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Tasks that are to end. Each is told of once.
    pub verdicts: Vec<Verdict>,
    /// Tasks that are there for long, to be logged.
    pub long_active: Vec<LongActive>,
}

/// A gauge of the tasks that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveTasks {
    /// How many.
    pub tasks: usize,
    /// How long the oldest is there.
    pub oldest: Option<Duration>,
}

/// A task that is watched. It belongs to what does the work: its slot is free when this is dropped, on whatever path.
#[must_use = "it is watched until this is dropped"]
pub struct Watched {
    shared: Arc<Shared>,
    id: TaskId,
    sent: Arc<Tally>,
}

impl Watched {
    /// What verdicts call it.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// A further source of progress. That it comes is no progress; sources stay as long as the task.
    #[must_use]
    pub fn source(&self, name: impl Into<String>) -> Progress {
        let name = name.into();
        let counters = Arc::new(Counters::default());
        if let Some(task) = self.shared.tasks.lock().by_id.get_mut(&self.id) {
            task.sources.push(Source { name, counters: Arc::clone(&counters), state: SourceState::default() });
        }
        Progress::new(counters)
    }

    /// Data of it has gone to the client: what fails from here on is not retry-safe. That is no progress.
    pub fn data_sent(&self) {
        self.sent.set(1);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let task = self.shared.tasks.lock().by_id.remove(&self.id);
        drop(task);
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("id", &self.id).finish_non_exhaustive()
    }
}
