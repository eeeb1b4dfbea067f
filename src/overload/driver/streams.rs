//! The streams of a driver: each is registered for as long as it lives, and may be cancelled meanwhile.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use super::token::{CancelToken, Cancelled, Flag};
use crate::{
    hub::FirstPanic,
    load::StreamClass,
    meter::{Meter, Split, StreamMeter},
    overload::{
        admission::Permit,
        events::{LoadEvent, LoadHub, LoadKey, StreamId, Victim},
        evictor::{Eviction, StreamSample},
        status::EndCause,
        watchdog::{Progress, TaskId, Watchdog, Watched},
    },
    sync::{Arc, Mutex, PlainArc},
};

/// What is known of a stream when it begins.
#[derive(Debug)]
#[must_use]
pub struct StreamInfo {
    class: StreamClass,
    trace_id: PlainArc<str>,
    identity: Option<u64>,
    parallelism: Option<f64>,
    resume_cost: Duration,
    evicted: Option<(u32, Instant)>,
    permit: Option<Permit>,
}

impl StreamInfo {
    /// A stream of which nothing is known but its class and what logs call it.
    pub fn new(class: StreamClass, trace_id: impl Into<PlainArc<str>>) -> Self {
        let trace_id = trace_id.into();
        Self { class, trace_id, identity: None, parallelism: None, resume_cost: Duration::ZERO, evicted: None, permit: None }
    }

    /// See [`StreamSample::identity`].
    pub fn identity(mut self, identity: u64) -> Self {
        self.identity = Some(identity);
        self
    }

    /// On how many processors it can run at once. Not set: not known.
    pub fn parallelism(mut self, processors: f64) -> Self {
        self.parallelism = Some(processors);
        self
    }

    /// How much work would have to be done again if it were evicted. Not set: none.
    pub fn resume_cost(mut self, cost: Duration) -> Self {
        self.resume_cost = cost;
        self
    }

    /// How often it was evicted before, and when last, as a signed token of its client says.
    pub fn evicted_before(mut self, times: u32, last: Instant) -> Self {
        self.evicted = Some((times, last));
        self
    }

    /// The permit with which it was let in, given back when the stream's registration is dropped.
    pub fn permit(mut self, permit: Permit) -> Self {
        self.permit = Some(permit);
        self
    }
}

struct Entry {
    flag: Arc<Flag>,
    started: Instant,
    identity: Option<u64>,
    parallelism: Option<f64>,
    resume_cost: Duration,
    evicted: Option<(u32, Instant)>,
    /// What it used, as of the last split in which it was.
    cost: Option<(StreamClass, Duration)>,
}

impl Entry {
    fn sample(&self, id: StreamId) -> Option<StreamSample<StreamId>> {
        let (class, cpu) = self.cost?;
        let mut sample = StreamSample::new(id, class, self.started, cpu);
        sample.identity = self.identity;
        sample.parallelism = self.parallelism;
        sample.resume_cost = self.resume_cost;
        if let Some((times, last)) = self.evicted {
            (sample.evictions_so_far, sample.last_evicted) = (times, Some(last));
        }
        Some(sample)
    }
}

#[derive(Default)]
struct Entries {
    by_id: BTreeMap<StreamId, Entry>,
    by_task: BTreeMap<TaskId, StreamId>,
}

struct Shared {
    meter: Meter,
    load: LoadHub,
    watchdog: Option<Watchdog>,
    entries: Mutex<Entries>,
}

/// The streams of a driver. A handle: its clones share everything.
#[derive(Clone)]
pub struct Streams {
    shared: Arc<Shared>,
}

impl Streams {
    pub(super) fn new(meter: Meter, load: LoadHub, watchdog: Option<Watchdog>) -> Self {
        Self { shared: Arc::new(Shared { meter, load, watchdog, entries: Mutex::new(Entries::default()) }) }
    }

    /// Registers a stream that begins now, until what is returned is dropped. That opens an account of the meter, whatever the evictor's mode.
    pub fn register(&self, info: StreamInfo, now: Instant) -> Registration {
        let Shared { meter, watchdog, entries, .. } = &*self.shared;
        let StreamInfo { class, trace_id, identity, parallelism, resume_cost, evicted, permit } = info;
        let meter = meter.track(class);
        let id = StreamId::new(meter.id());
        let watched = watchdog.as_ref().map(|watchdog| watchdog.watch(&*trace_id, now));
        let flag = Arc::new(Flag::new(trace_id));
        let kept = Arc::clone(&flag);
        let entry = Entry { flag: kept, started: now, identity, parallelism, resume_cost, evicted, cost: None };
        let mut entries = entries.lock();
        entries.by_id.insert(id, entry);
        if let Some(watched) = &watched {
            entries.by_task.insert(watched.id(), id);
        }
        drop(entries);
        Registration { streams: self.clone(), id, flag, meter, watched, permit }
    }

    /// How many streams are registered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.entries.lock().by_id.len()
    }

    /// Whether no stream is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What logs call the stream; `None`: it has ended.
    #[must_use]
    pub fn trace_id(&self, id: StreamId) -> Option<PlainArc<str>> {
        self.shared.entries.lock().by_id.get(&id).map(|entry| entry.flag.trace_id())
    }

    /// Cancels a stream. Whether that was it: `false` if the stream has ended or was cancelled before, whose cause stays.
    ///
    /// # Panics
    /// If the waker of a task that waits for it panics, after it was cancelled.
    pub fn cancel(&self, id: StreamId, cause: EndCause) -> bool {
        let is_first = self.set(id, || Cancelled::new(cause, None));
        if is_first {
            self.shared.load.publish(LoadKey::Stream(id), LoadEvent::Cancel(cause));
        }
        is_first
    }

    /// Cancels all streams that are there: when the process stops, and its time to drain is over. How many were not cancelled before.
    ///
    /// # Panics
    /// As [`cancel`](Self::cancel), when all are cancelled.
    pub fn cancel_all(&self, cause: EndCause) -> usize {
        let ids: Vec<_> = self.shared.entries.lock().by_id.keys().copied().collect();
        let (mut cancelled, mut panics) = (0, FirstPanic::default());
        for id in ids {
            panics.run(|| cancelled += usize::from(self.cancel(id, cause)));
        }
        panics.go_on();
        cancelled
    }

    /// Whether there is still somebody to cancel is asked and answered under the lock that the end of a stream takes.
    fn set(&self, id: StreamId, cancelled: impl FnOnce() -> Cancelled) -> bool {
        let entries = self.shared.entries.lock();
        entries.by_id.get(&id).is_some_and(|entry| entry.flag.cancel(cancelled()))
    }

    /// What the evictor decided of a stream, with its name, and where it is. `None`: it has ended.
    ///
    /// Where streams are is asked here and not for samples: that would look at memory of each one's own at every tick.
    pub(super) fn victim(&self, mut eviction: Eviction<StreamId>) -> Option<Victim> {
        let entries = self.shared.entries.lock();
        let flag = &entries.by_id.get(&eviction.id)?.flag;
        eviction.position = flag.position();
        Some(Victim { eviction, trace_id: flag.trace_id() })
    }

    /// Sets a victim's cause, which is then to be published. `None`: that was nothing, since it has ended or was cancelled before.
    pub(super) fn evict(&self, victim: Victim) -> Option<PlainArc<Victim>> {
        let (id, victim) = (victim.eviction.id, PlainArc::new(victim));
        self.set(id, || Cancelled::new(EndCause::Evicted, Some(PlainArc::clone(&victim)))).then_some(victim)
    }

    /// Whose task of the watchdog it is.
    pub(super) fn of_task(&self, task: TaskId) -> Option<StreamId> {
        self.shared.entries.lock().by_task.get(&task).copied()
    }

    /// What the evictor is to know, after what was used was split. Streams that were in no split yet are not among them.
    pub(super) fn samples(&self, split: Option<&Split>) -> Vec<StreamSample<StreamId>> {
        let mut entries = self.shared.entries.lock();
        let mut samples = Vec::with_capacity(entries.by_id.len());
        // Both are in the order of their ids.
        let mut costs = split.map_or(&[][..], |split| &split.streams).iter().peekable();
        for (id, entry) in &mut entries.by_id {
            while costs.next_if(|cost| cost.id < id.number()).is_some() {}
            if let Some(cost) = costs.next_if(|cost| cost.id == id.number()) {
                entry.cost = Some((cost.class, cost.cpu));
            }
            samples.extend(entry.sample(*id));
        }
        samples
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.shared.meter
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("len", &self.len()).field("meter", &self.shared.meter).finish_non_exhaustive()
    }
}

/// A stream that is registered. It belongs to what does the stream's work: whatever the driver knows of the stream goes when this is dropped,
/// on whatever path.
#[must_use = "the stream is known until this is dropped"]
pub struct Registration {
    streams: Streams,
    id: StreamId,
    flag: Arc<Flag>,
    meter: StreamMeter,
    watched: Option<Watched>,
    /// Given back last, when the stream is gone everywhere else.
    permit: Option<Permit>,
}

impl Registration {
    /// Which stream it is.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// What charges its work to it.
    #[must_use]
    pub fn meter(&self) -> &StreamMeter {
        &self.meter
    }

    /// It is of another class from now on, with its permit: a catch-up that has reached the head is live.
    pub fn set_class(&mut self, class: StreamClass) {
        self.meter.set_class(class);
        if let Some(permit) = &mut self.permit {
            permit.set_class(class);
        }
    }

    /// Where it is, for logs: a block, a sequence number.
    pub fn set_position(&self, position: u64) {
        self.flag.set_position(position);
    }

    /// A source of progress for the driver's watchdog; `None`: there is no watchdog. With one, a stream of which no source gets on is cancelled
    /// after [`stall`](crate::overload::watchdog::WatchdogLimits::stall), also if it has none.
    #[must_use]
    pub fn progress(&self, source: impl Into<String>) -> Option<Progress> {
        Some(self.watched.as_ref()?.source(source))
    }

    /// Data has gone to the client; see [`Watched::data_sent`]. This is for the watchdog's
    /// [verdict](crate::overload::watchdog::Verdict::is_retry_safe) and its line in the log. The client is told by
    /// [`StreamEnd::after`](crate::overload::status::StreamEnd::after), from what the handler knows itself: say it to both.
    pub fn data_sent(&self) {
        if let Some(watched) = &self.watched {
            watched.data_sent();
        }
    }

    /// Tells when it is cancelled; any number of them may be made, at any time. The first makes the stream's topic in the hub (about 280 bytes),
    /// each is a subscriber of it.
    #[must_use]
    pub fn token(&self) -> CancelToken {
        CancelToken::new(self.streams.shared.load.hub().subscribe(&LoadKey::Stream(self.id)), Arc::clone(&self.flag))
    }

    /// Why it was cancelled, if it was.
    #[must_use]
    pub fn cancelled(&self) -> Option<Cancelled> {
        self.flag.cancelled()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.streams.shared.entries.lock();
        let entry = entries.by_id.remove(&self.id);
        if let Some(watched) = &self.watched {
            entries.by_task.remove(&watched.id());
        }
        drop(entries);
        drop(entry);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("id", &self.id).field("cancelled", &self.cancelled()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::{readiness::Readiness, watchdog::WatchdogLimits};

    #[test]
    fn tasks_of_the_watchdog_are_forgotten_with_their_streams() {
        let now = Instant::now();
        let watchdog = Watchdog::new(WatchdogLimits::default()).unwrap();
        let streams = Streams::new(Meter::new(), LoadHub::new(Readiness::new(now)), Some(watchdog));
        let stream = streams.register(StreamInfo::new(StreamClass::Dev, "one"), now);
        let task = stream.watched.as_ref().map(Watched::id).expect("it is watched");
        assert_eq!(streams.of_task(task), Some(stream.id()));
        drop(stream);
        let entries = streams.shared.entries.lock();
        assert!(entries.by_task.is_empty() && entries.by_id.is_empty());
    }
}
