//! What ticks: reads the processors, splits what was used over the streams, steps the policies, does what they ask for, and tells the hub.
//!
//! A [`Driver`] has no runtime, clock or thread of its own: somebody calls [`tick`](Driver::tick), as [`Driver::run`] does in a task of tokio
//! (feature `tokio`). Hosts register each stream ([`Driver::streams`]) for as long as it lives.
//!
//! Off is not free: in every mode a registration opens an account of the meter, the first [token](Registration::token) of a stream a topic
//! (about 280 bytes), and [`meter().run`](crate::meter::StreamMeter::run) is a bracket around each poll. What that costs is in the README.
//!
//! * **D1** A tick's effects are in this order: what began or ended is published; readiness is set, told, and after it admission; streams
//!   are cancelled. So who follows readiness has been woken before the first stream is told to go, and that is a drain earlier (O1).
//! * **D2** Readiness and admission are set at every tick, not only when something changes: what somebody else set is set right within one.
//! * **D3** The [mode](Mode) is the evictor's alone. In mode observe it touches neither, and cancels no stream; in mode off it is not stepped,
//!   and without adaptive concurrency nothing is read. Admission's own limits, adaptive concurrency and the watchdog act in every mode:
//!   to have none of them, do not give them to the builder.
//! * **D4** What has ended is not cancelled, and not counted: an end and a cancel take one lock, and what comes first holds.
//! * **D5** One tick at a time. A second one meanwhile, from a waker say, does nothing.
//! * **D6** After [`stop`](Driver::stop) nothing is read, set, told or cancelled.
//! * **D7** Wakers, and whatever else is told, run under no lock of the driver. The victim policy and the source do: they must not call it.
//! * **D8** A waker that panics costs nobody but itself anything: the tick does all it has to, and the panic goes on from there.
//!
//! `builder.rs`: what it is made of. `state.rs`: what a tick reads and steps, under the lock. `source.rs`: where readings come from.
//! `window.rs`: samples of a faster pace. `streams.rs`, `token.rs`: what hosts hold of a stream. `line.rs`: what is to be logged.
//! `metrics.rs`, `run.rs`: with the features `metrics` and `tokio`.

mod builder;
mod line;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tokio")]
mod run;
mod source;
mod state;
mod streams;
mod token;
mod window;

use std::{
    fmt, mem,
    time::{Duration, Instant},
};

pub use builder::{DriverBuilder, DriverError};
pub use line::Line;
pub use source::{CpuRead, CpuSource};
pub use state::EvictionCount;
use state::{State, Step};
pub use streams::{Registration, StreamInfo, Streams};
pub use token::{CancelToken, Cancelled};

use super::{
    admission::Admission,
    events::{LoadEvent, LoadHub, LoadKey, OVERLOAD, OverloadState, StreamId},
    evictor::{Action, Bound, Explanation, Gauges, Mode},
    watchdog::Watchdog,
};
use crate::{
    hub::FirstPanic,
    sync::{Arc, Mutex, PlainArc},
};

/// How often those are looked at who wait for admission.
const SWEEP: Duration = Duration::from_secs(1);

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Tick {
    /// What is to be logged.
    pub lines: Vec<Line>,
    /// When the next tick should come; `None`: there is nothing to tick for.
    pub after: Option<Duration>,
}

struct Shared {
    load: LoadHub,
    streams: Streams,
    admission: Option<Admission>,
    watchdog: Option<Watchdog>,
    mode: Mode,
    state: Mutex<State>,
}

/// Drives the evictor and what stands beside it; see the [module](self). A handle: its clones share everything.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use keywake::load::{CpuSample, StreamClass};
/// use keywake::overload::{driver::{CpuRead, CpuSource, DriverBuilder, StreamInfo}, evictor::{EvictorBuilder, Mode}};
///
/// /// A quota of one core, all used.
/// struct Full;
/// impl CpuSource for Full {
///     fn read(&mut self, now: Instant) -> CpuRead {
///         let mut sample = CpuSample::new(now, Duration::from_secs(5), 1.0);
///         sample.quota_cores = Some(1.0);
///         CpuRead::Sample(sample)
///     }
/// }
///
/// let driver = DriverBuilder::new(EvictorBuilder::new().mode(Mode::Full)).source(Full).build()?;
/// let began = Instant::now();
/// let stream = driver.streams().register(StreamInfo::new(StreamClass::Dev, "request-1"), began);
/// assert!(driver.load().is_ready());
/// for tick in 0..4 {
///     for line in driver.tick(began + tick * Duration::from_secs(5)).lines {
///         eprintln!("{line}");
///     }
/// }
/// assert!(!driver.load().is_ready(), "full for 15 s");
/// # drop(stream);
/// # Ok::<(), keywake::overload::driver::DriverError>(())
/// ```
#[derive(Clone)]
pub struct Driver {
    shared: Arc<Shared>,
}

/// What comes of a tick: what is to be logged, and the first panic of those it wakes, which waits until all is done.
#[derive(Default)]
struct Deeds {
    lines: Vec<Line>,
    panics: FirstPanic,
}

/// A tick under way; ended also by a panic on the way: of what is told by the feature `tracing`, say.
struct Turn<'a>(&'a Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_ticking = false;
    }
}

impl Driver {
    /// One tick, at this time; see the [module](self) for what it does, in which order.
    ///
    /// To be called when [`Tick::after`] has passed since the last one. What comes sooner or later is counted by time: the evictor is stepped
    /// about every [interval](super::evictor::EvictorBuilder::interval), adaptive concurrency every second.
    ///
    /// It blocks for as long as the kernel takes for a few small files, and passes over all streams when the evictor is stepped: 20 to
    /// 23 ms with 70,000 of them (`cargo bench --bench evictor --features overload`, two quiet runs, 2 cores of a Xeon, 2026-11-30).
    ///
    /// # Panics
    /// If a waker panics that it wakes (or a hook of admission's), when all is done that the tick had to do; its lines are then told by the
    /// feature `tracing` only. And if the victim policy or the source panics. The next tick goes on.
    pub fn tick(&self, now: Instant) -> Tick {
        let shared = &*self.shared;
        let Some(mut step) = State::begin(&shared.state, now, &shared.streams, shared.watchdog.as_ref()) else {
            return Tick::default();
        };
        let _turn = Turn(shared);
        let mut deeds = Deeds { lines: mem::take(&mut step.lines), ..Deeds::default() };
        self.act(&mut step, now, &mut deeds);
        let mut after = step.after;
        if let Some(admission) = &shared.admission {
            if let Some(limit) = step.concurrency {
                deeds.panics.run(|| admission.set_concurrency_limit(limit));
            }
            let mut swept = SWEEP;
            deeds.panics.run(|| swept = admission.sweep(now).unwrap_or(SWEEP).min(SWEEP));
            after = Some(after.map_or(swept, |after| after.min(swept)));
            if admission.limits().soft > 0 {
                deeds.panics.run(|| drop(shared.load.set_room(admission, now)));
            }
        }
        if let Some(watchdog) = shared.watchdog.as_ref().filter(|_| step.is_check_due) {
            self.watch(watchdog, now, &mut deeds);
        }
        let Deeds { lines, mut panics } = deeds;
        panics.run(|| drop(shared.load.tick(now)));
        lines.iter().for_each(Line::trace);
        panics.go_on();
        Tick { lines, after }
    }

    fn act(&self, step: &mut Step, now: Instant, deeds: &mut Deeds) {
        let mut is_said = false;
        for action in mem::take(&mut step.actions) {
            match action {
                Action::Started { mode, quota_cores } => deeds.lines.push(Line::Started { mode, quota_cores }),
                Action::OverloadBegan { bound, enforced, usage_ratio, demand_ratio } => {
                    let bound = Some(bound);
                    let state = OverloadState {
                        overloaded: true,
                        enforced,
                        bound,
                        usage_ratio,
                        demand_ratio,
                        ..OverloadState::default()
                    };
                    self.publish(LoadKey::Overload, LoadEvent::Overload(state), deeds);
                    deeds.lines.push(Line::OverloadBegan(state));
                }
                Action::OverloadEnded { how, enforced, usage_ratio, unready_for } => {
                    let ended = Some(how);
                    let state = OverloadState { enforced, ended, usage_ratio, unready_for, ..OverloadState::default() };
                    self.publish(LoadKey::Overload, LoadEvent::Overload(state), deeds);
                    deeds.lines.push(Line::OverloadEnded(state));
                }
                Action::Ready | Action::Unready { .. } => {
                    is_said = true;
                    self.set_level(step.unready, now, deeds);
                }
                Action::Alert(alert) => {
                    let alert = PlainArc::new(alert);
                    deeds.lines.push(Line::Alert(PlainArc::clone(&alert)));
                    self.publish(LoadKey::Alerts, LoadEvent::Alert(alert), deeds);
                }
                Action::Evict(eviction) => {
                    let streams = &self.shared.streams;
                    let Some(victim) = streams.victim(eviction).and_then(|victim| streams.evict(victim)) else { continue };
                    self.shared.state.lock().count(&victim, "cancelled");
                    deeds.lines.push(Line::Evicted(PlainArc::clone(&victim)));
                    self.publish(LoadKey::Stream(victim.eviction.id), LoadEvent::Evict(PlainArc::clone(&victim)), deeds);
                    self.publish(LoadKey::Evictions, LoadEvent::Evict(victim), deeds);
                }
                Action::WouldEvict(eviction) => {
                    let Some(victim) = self.shared.streams.victim(eviction).map(PlainArc::new) else { continue };
                    self.shared.state.lock().count(&victim, "observed");
                    deeds.lines.push(Line::WouldEvict(PlainArc::clone(&victim)));
                    self.publish(LoadKey::Evictions, LoadEvent::WouldEvict(victim), deeds);
                }
            }
        }
        if !is_said && self.shared.mode.enforces() {
            self.set_level(step.unready, now, deeds);
        } else if !self.shared.mode.enforces() && step.is_first {
            // Who has required the condition nevertheless would wait for ever.
            let is_required = self.shared.load.readiness().conditions().iter().any(|condition| condition.name == OVERLOAD);
            if is_required {
                let reason = format!("mode is {}", self.shared.mode);
                deeds.panics.run(|| drop(self.shared.load.set(OVERLOAD, true, reason, now)));
            }
        }
    }

    fn publish(&self, key: LoadKey, event: LoadEvent, deeds: &mut Deeds) {
        deeds.panics.run(|| self.shared.load.publish(key, event));
    }

    fn set_level(&self, unready: Option<Bound>, now: Instant, deeds: &mut Deeds) {
        let reason = unready.map_or_else(|| "not overloaded".to_owned(), |bound| bound.to_string());
        deeds.panics.run(|| drop(self.shared.load.set(OVERLOAD, unready.is_none(), reason, now)));
        if let Some(admission) = &self.shared.admission {
            deeds.panics.run(|| admission.set_overloaded(unready.is_some()));
        }
    }

    fn watch(&self, watchdog: &Watchdog, now: Instant, deeds: &mut Deeds) {
        let check = watchdog.check(now);
        for verdict in check.verdicts {
            let cause = verdict.timed_out.cause();
            if let Some(id) = self.shared.streams.of_task(verdict.task) {
                deeds.panics.run(|| _ = self.shared.streams.cancel(id, cause));
            }
            self.shared.state.lock().count_timed_out(cause);
            deeds.lines.push(Line::TimedOut(verdict));
        }
        deeds.lines.extend(check.long_active.into_iter().map(Line::LongActive));
    }

    /// Stops for good: nothing is read, set, told or cancelled from here on. A drain that was under way evicts nobody; readiness stays as it
    /// is (it is the host's to [shut it down](LoadHub::shut_down)), and so does admission. Only a tick that is under way, on
    /// another thread or because a waker calls this, still does what it has decided.
    pub fn stop(&self) {
        let mut state = self.shared.state.lock();
        state.is_stopped = true;
        state.evictor.stop();
    }

    /// Where streams are registered and cancelled.
    #[must_use]
    pub fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// Where it is told how it stands.
    #[must_use]
    pub fn load(&self) -> &LoadHub {
        &self.shared.load
    }

    /// Who would go, who would be next, and why the others stay, as of the last step; also in mode observe.
    #[must_use]
    pub fn explain(&self) -> Explanation<StreamId> {
        self.shared.state.lock().evictor.explain()
    }

    /// What the evictor knows.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.shared.state.lock().evictor.gauges()
    }

    /// How many streams were let go, or in mode observe would have been, by class and reason. What had ended before is not among them.
    #[must_use]
    pub fn evictions(&self) -> Vec<EvictionCount> {
        self.shared.state.lock().counts().to_vec()
    }

    /// What an autoscaler is to be told: see [`effective_active`](super::evictor::effective_active). The streams are those that admission counts,
    /// or without it those that are registered.
    #[must_use]
    pub fn effective_active(&self) -> f64 {
        let soft = self.shared.admission.as_ref().map(|admission| admission.limits().soft).filter(|soft| *soft > 0);
        let active = self.active();
        self.shared.state.lock().evictor.effective_active(active, soft)
    }

    fn active(&self) -> usize {
        self.shared.admission.as_ref().map_or_else(|| self.shared.streams.len(), Admission::active)
    }

    /// What share of the fleet is ready, for the evictor's and the readiness's guards.
    ///
    /// # Panics
    /// As [`LoadHub::set`].
    pub fn observe_peers(&self, ready_share: Option<f64>, now: Instant) {
        self.shared.state.lock().evictor.observe_peers(ready_share);
        self.shared.load.observe_peers(ready_share, now);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.shared.state.lock().evictor.phase();
        let Shared { load, streams, mode, .. } = &*self.shared;
        f.debug_struct("Driver")
            .field("mode", mode)
            .field("phase", &phase)
            .field("streams", streams)
            .field("load", load)
            .finish_non_exhaustive()
    }
}
