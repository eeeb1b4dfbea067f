//! A process whose readings are made up, and a driver in it.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use keywake::{
    Received, Subscription,
    load::{CpuSample, StreamClass},
    meter::{Meter, Timing},
    overload::{
        driver::{CpuRead, CpuSource, Driver, DriverBuilder, Line, Registration, StreamInfo, Tick},
        events::{LoadEvent, LoadKey},
        evictor::{EvictorBuilder, Mode},
    },
};
use rustix::time::{ClockId, clock_gettime};

/// What the next reading says.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    Failed,
    Pending,
    /// This much of a quota of 4 cores is used.
    Ratio(f64),
}

pub(crate) struct Script {
    pub(crate) says: Says,
    pub(crate) reads: usize,
    last: Option<Instant>,
}

/// A source that a test writes.
#[derive(Clone)]
pub(crate) struct Scripted(pub(crate) Arc<Mutex<Script>>);

impl Scripted {
    pub(crate) fn new(says: Says) -> Self {
        Self(Arc::new(Mutex::new(Script { says, reads: 0, last: None })))
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().expect("nobody panics with it")
    }

    pub(crate) fn says(&self, says: Says) {
        self.script().says = says;
    }

    pub(crate) fn reads(&self) -> usize {
        self.script().reads
    }
}

impl CpuSource for Scripted {
    fn read(&mut self, now: Instant) -> CpuRead {
        let mut script = self.script();
        script.reads += 1;
        let last = script.last.replace(now);
        let ratio = match script.says {
            Says::Failed => return CpuRead::Failed,
            Says::Pending => return CpuRead::Pending,
            Says::Ratio(ratio) => ratio,
        };
        // The first reading, too, is over five seconds.
        let elapsed = last.map_or(Duration::from_secs(5), |last| now.saturating_duration_since(last));
        if elapsed.is_zero() {
            return CpuRead::Pending;
        }
        let mut sample = CpuSample::new(now, elapsed, 4.0 * ratio);
        sample.quota_cores = Some(4.0);
        CpuRead::Sample(sample)
    }

    fn process_cpu(&mut self) -> Option<Duration> {
        None
    }
}

pub(crate) struct World {
    pub(crate) driver: Driver,
    pub(crate) source: Scripted,
    pub(crate) base: Instant,
    /// Since `base`.
    pub(crate) time: f64,
}

/// Streams of any burn and any age may go, one a round: what a test burns is next to nothing.
pub(crate) fn evictor(mode: Mode) -> EvictorBuilder {
    EvictorBuilder::new().mode(mode).min_burn_cores(0.0).max_per_round(Some(1))
}

impl World {
    pub(crate) fn with(evictor: EvictorBuilder, more: impl FnOnce(DriverBuilder) -> DriverBuilder) -> Self {
        let source = Scripted::new(Says::Ratio(1.0));
        let meter = Meter::builder().timing(Timing::ThreadCpu).build();
        let builder = DriverBuilder::new(evictor).source(source.clone()).meter(meter);
        let driver = more(builder).build().expect("settings that work");
        // Away from the machine's own beginning, so that there is room before it.
        Self { driver, source, base: Instant::now() + Duration::from_secs(100_000), time: 0.0 }
    }

    /// A world that is saturated from its beginning on.
    pub(crate) fn new(mode: Mode) -> Self {
        Self::with(evictor(mode), |builder| builder)
    }

    pub(crate) fn now(&self) -> Instant {
        self.base + Duration::from_secs_f64(self.time)
    }

    /// A stream that is old enough to go.
    pub(crate) fn stream(&self, class: StreamClass, trace_id: &str) -> Registration {
        self.register(StreamInfo::new(class, trace_id))
    }

    pub(crate) fn register(&self, info: StreamInfo) -> Registration {
        self.driver.streams().register(info, self.base - Duration::from_secs(1_000))
    }

    pub(crate) fn tick(&mut self, after: f64) -> Tick {
        self.time += after;
        self.driver.tick(self.now())
    }

    /// Ticks of 5 s, in each of which all of `streams` burn something; the lines of all. (Who goes first is to be told by the classes: the
    /// machine may steal more time from a bracket than what is burnt in it.)
    pub(crate) fn ticks(&mut self, count: usize, streams: &[&Registration]) -> Vec<(f64, Line)> {
        let mut lines = Vec::new();
        for _ in 0..count {
            streams.iter().for_each(|stream| burn(stream, Duration::from_micros(40)));
            let tick = self.tick(5.0);
            lines.extend(tick.lines.into_iter().map(|line| (self.time, line)));
        }
        lines
    }
}

/// Uses so much processor time in a bracket of the stream.
pub(crate) fn burn(stream: &Registration, time: Duration) {
    let _scope = stream.meter().scope();
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time");
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

/// All that is there now.
pub(crate) fn events(follower: &mut Subscription<LoadKey, LoadEvent>) -> Vec<LoadEvent> {
    let mut events = Vec::new();
    while let Ok(received) = follower.try_recv() {
        match received {
            Received::Event(event) => events.push((*event).clone()),
            other => panic!("no event: {other:?}"),
        }
    }
    events
}

/// Who of `lines` was told to go, and when.
pub(crate) fn evicted(lines: &[(f64, Line)]) -> Vec<(f64, String)> {
    let victim = |(time, line): &(f64, Line)| match line {
        Line::Evicted(victim) => Some((*time, victim.trace_id.to_string())),
        _ => None,
    };
    lines.iter().filter_map(victim).collect()
}
