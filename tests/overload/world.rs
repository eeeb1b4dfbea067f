//! A process on a quota, of which every number is given: what the other files turn.

use std::time::{Duration, Instant};

use keywake::{
    load::{CpuSample, StreamClass},
    overload::evictor::{Action, Alert, Eviction, Evictor, EvictorBuilder, Mode, SignalLost, StreamSample},
};

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) struct Stream {
    pub(crate) sample: StreamSample<u32>,
    /// In cores.
    pub(crate) burn: f64,
}

pub(crate) struct World {
    pub(crate) evictor: Evictor<u32>,
    pub(crate) base: Instant,
    /// Since `base`.
    pub(crate) time: f64,
    pub(crate) quota: f64,
    pub(crate) streams: Vec<Stream>,
    /// Whether streams that are told to go do.
    pub(crate) obedient: bool,
}

impl World {
    pub(crate) fn new(builder: EvictorBuilder) -> Self {
        // Away from the machine's own beginning, so that there is room before it.
        let base = Instant::now() + Duration::from_secs(100_000);
        Self {
            evictor: builder.build().expect("settings that work"),
            base,
            time: 0.0,
            quota: 4.0,
            streams: Vec::new(),
            obedient: true,
        }
    }

    /// With the defaults, in full.
    pub(crate) fn full() -> Self {
        Self::new(EvictorBuilder::new().mode(Mode::Full))
    }

    pub(crate) fn now(&self) -> Instant {
        if self.time < 0.0 { self.base - seconds(-self.time) } else { self.base + seconds(self.time) }
    }

    /// A stream that began 1,000 s before the world, or at an age that is told.
    pub(crate) fn add(&mut self, id: u32, class: StreamClass, burn: f64) -> &mut Stream {
        self.add_at_age(id, class, burn, 1_000.0)
    }

    pub(crate) fn add_many(&mut self, ids: std::ops::Range<u32>, class: StreamClass, burn: f64) {
        for id in ids {
            self.add(id, class, burn);
        }
    }

    pub(crate) fn add_at_age(&mut self, id: u32, class: StreamClass, burn: f64, age: f64) -> &mut Stream {
        let sample = StreamSample::new(id, class, self.now() - seconds(age), Duration::ZERO);
        self.streams.push(Stream { sample, burn });
        self.streams.last_mut().expect("just pushed")
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.streams.retain(|stream| stream.sample.id != id);
    }

    /// After so many seconds, a sample that `shape` completes. All of what is used is the process's own.
    pub(crate) fn tick_with(&mut self, after: f64, usage: f64, shape: impl FnOnce(&mut CpuSample)) -> Vec<Action<u32>> {
        self.pass(after);
        let mut sample = CpuSample::new(self.now(), seconds(after.max(0.0)), usage);
        sample.quota_cores = Some(self.quota);
        shape(&mut sample);
        self.step(Ok(&sample))
    }

    /// After so many seconds, with this share of the quota in use.
    pub(crate) fn tick(&mut self, after: f64, ratio: f64) -> Vec<Action<u32>> {
        self.tick_with(after, ratio * self.quota, |_| {})
    }

    /// After 5 s each: the actions of all ticks, with their times.
    pub(crate) fn ticks(&mut self, count: usize, ratio: f64) -> Vec<(f64, Action<u32>)> {
        let mut all = Vec::new();
        for _ in 0..count {
            let actions = self.tick(5.0, ratio);
            all.extend(actions.into_iter().map(|action| (self.time, action)));
        }
        all
    }

    pub(crate) fn lose(&mut self, after: f64) -> Vec<Action<u32>> {
        self.pass(after);
        self.step(Err(SignalLost))
    }

    fn pass(&mut self, after: f64) {
        self.time += after;
        for stream in &mut self.streams {
            stream.sample.cpu += seconds(stream.burn * after.max(0.0));
        }
    }

    fn step(&mut self, sample: Result<&CpuSample, SignalLost>) -> Vec<Action<u32>> {
        let streams: Vec<_> = self.streams.iter().map(|stream| stream.sample.clone()).collect();
        let actions = self.evictor.step(sample, &streams, self.now());
        if self.obedient {
            for eviction in evictions(&actions) {
                self.remove(eviction.id);
            }
        }
        actions
    }
}

pub(crate) fn evictions(actions: &[Action<u32>]) -> Vec<Eviction<u32>> {
    actions.iter().filter_map(|action| if let Action::Evict(eviction) = action { Some(eviction.clone()) } else { None }).collect()
}

pub(crate) fn would_evict(actions: &[Action<u32>]) -> Vec<u32> {
    actions.iter().filter_map(|action| if let Action::WouldEvict(eviction) = action { Some(eviction.id) } else { None }).collect()
}

pub(crate) fn evicted(actions: &[Action<u32>]) -> Vec<u32> {
    evictions(actions).into_iter().map(|eviction| eviction.id).collect()
}

pub(crate) fn alerts(actions: &[Action<u32>]) -> Vec<Alert> {
    actions.iter().filter_map(|action| if let Action::Alert(alert) = action { Some(alert.clone()) } else { None }).collect()
}

pub(crate) fn is_unready(actions: &[Action<u32>]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Unready { .. }))
}

pub(crate) fn is_ready(actions: &[Action<u32>]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Ready))
}

/// When the first action of that kind came.
pub(crate) fn first(all: &[(f64, Action<u32>)], of: impl Fn(&Action<u32>) -> bool) -> Option<f64> {
    all.iter().find(|(_, action)| of(action)).map(|(time, _)| *time)
}
