//! Whatever comes: no limbo, no batch out of turn, no number that is none. Seeded, so that a failure can be run again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use keywake::{
    load::{CpuSample, StreamClass},
    overload::evictor::{Action, ClassOrder, EvictorBuilder, Mode, Phase, Settings, SignalLost, StreamSample},
};

use crate::{random::Random, world::seconds};

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        u32::try_from(self.next() % u64::from(most)).unwrap_or_default()
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        f64::from((self.next() >> 32) as u32) / f64::from(u32::MAX)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(u32::try_from(from.len()).unwrap_or_default()) as usize]
    }

    fn odd(&mut self, usual: f64) -> f64 {
        match self.below(40) {
            0 => self.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX, f64::MIN_POSITIVE, 0.0]),
            _ => usual,
        }
    }

    fn maybe(&mut self, usual: f64) -> Option<f64> {
        (self.below(3) > 0).then(|| self.odd(usual))
    }

    /// Settings that are accepted.
    fn builder(&mut self) -> EvictorBuilder {
        let builder = if self.below(3) == 0 { EvictorBuilder::s0() } else { EvictorBuilder::new() };
        let builder = builder.mode(self.pick(&[Mode::Full, Mode::Full, Mode::DevOnly, Mode::Observe]));
        let builder = builder.drain(self.pick(&[seconds(5.0), seconds(8.0), seconds(10.0), seconds(30.0)]));
        let builder = builder.cooldown(self.pick(&[seconds(5.0), seconds(15.0), seconds(40.0)]));
        let builder = builder.max_unready(self.pick(&[seconds(60.0), seconds(300.0)]));
        let builder = builder.max_per_round(self.pick(&[None, Some(1), Some(50)])).min_ready_share(self.pick(&[None, Some(0.5)]));
        builder.order(self.pick(&[ClassOrder::s0, ClassOrder::protect_live])())
    }

    fn sample(&mut self, now: Instant, elapsed: Duration) -> CpuSample {
        let usage = self.share() * 5.0;
        let mut sample = CpuSample::new(now, elapsed, self.odd(usage));
        let (quota, process, stalled) = (self.pick(&[0.5, 1.0, 4.0, 4.0]), self.share() * usage, self.share());
        sample.quota_cores = if self.below(20) == 0 { None } else { Some(self.odd(quota)) };
        sample.process_cores = self.odd(process);
        sample.full_stalled = self.maybe(stalled);
        sample.throttled_share = self.maybe(stalled);
        sample.throttled_cores = self.maybe(stalled);
        sample
    }

    fn stream(&mut self, id: u32, now: Instant) -> StreamSample<u32> {
        let class = self.pick(&[StreamClass::Cached, StreamClass::CatchUp, StreamClass::Dev, StreamClass::Live]);
        let age = seconds(self.share() * 400.0);
        let mut sample = StreamSample::new(id, class, if self.below(30) == 0 { now + age } else { now - age }, Duration::ZERO);
        sample.identity = (self.below(2) == 0).then(|| u64::from(self.below(40)));
        sample.parallelism = self.maybe(1.0);
        sample.evictions_so_far = self.below(3);
        sample.last_evicted = (self.below(5) == 0).then(|| now - age);
        sample
    }
}

/// What must hold whatever comes.
#[derive(Default)]
struct Watch {
    unready_since: Option<Duration>,
    last_round: Option<Duration>,
    evicted: bool,
    ready: bool,
}

impl Watch {
    fn look(&mut self, actions: &[Action<u32>], time: Duration, settings: &Settings) {
        let said_unready = actions.iter().any(|action| matches!(action, Action::Unready { .. }));
        (self.evicted, self.ready) = (false, !said_unready);
        for action in actions {
            match action {
                Action::Evict(eviction) => {
                    assert!(settings.mode.enforces());
                    let since = self.unready_since.expect("told unready in an earlier step");
                    assert!(time - since >= settings.drain, "drained for {:?}", time - since);
                    assert!(settings.mode == Mode::Full || eviction.class == StreamClass::Dev);
                    self.evicted = true;
                    let numbers = [eviction.burn_cores, eviction.cost_cores, eviction.usage_ratio, eviction.demand_ratio];
                    assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{eviction:?}");
                    assert!(eviction.age >= settings.min_age);
                }
                Action::WouldEvict(_) => {
                    assert_eq!(settings.mode, Mode::Observe);
                    self.evicted = true;
                }
                Action::Ready | Action::Unready { .. } => assert!(settings.mode.enforces()),
                _ => {}
            }
        }
        if self.evicted {
            assert!(self.last_round.is_none_or(|last| time - last >= settings.cooldown), "within the cooldown");
            self.last_round = Some(time);
        }
        self.unready_since = said_unready.then(|| self.unready_since.unwrap_or(time));
        let unready_for = self.unready_since.map_or(Duration::ZERO, |since| time - since);
        assert!(unready_for < settings.max_unready, "unready for {unready_for:?}");
    }
}

/// What a stretch of ticks is of.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Calm,
    Hot,
    Lost,
    Mixed,
    Node,
}

impl Kind {
    fn shape(self, sample: &mut CpuSample) {
        let usage = match self {
            Self::Calm => 1.0,
            Self::Hot => 4.0,
            Self::Lost | Self::Mixed => return,
            Self::Node => 2.0,
        };
        (sample.usage_cores, sample.quota_cores, sample.process_cores) = (usage, Some(4.0), usage);
        if self != Self::Hot {
            sample.throttled_share = Some(0.0);
            sample.full_stalled = Some(if self == Self::Node { 0.6 } else { 0.0 });
        }
    }
}

fn finite(numbers: &[Option<f64>]) -> bool {
    numbers.iter().flatten().all(|number| number.is_finite())
}

/// A random run, and then the same input for ever: it must be ready, or evict, within the bound. The rounds of the first part, and where it
/// ended.
fn run(seed: u64) -> Option<(u32, Phase)> {
    let mut random = Random(seed);
    let mut evictor = random.builder().build::<u32>().expect("settings that work");
    let settings = evictor.settings().clone();
    let base = Instant::now() + Duration::from_secs(100_000);
    let (mut time, mut latest, mut watch, mut rounds) = (Duration::ZERO, base, Watch::default(), 0);
    let mut streams: Vec<StreamSample<u32>> = Vec::new();
    // Biased, so that overloads come about: long stretches of the same kind.
    let mut kind = Kind::Mixed;
    // It ends anywhere in a stretch.
    for tick in 0..285 + random.below(15) {
        let elapsed = random.pick(&[5.0, 5.0, 5.0, 5.0, 2.5, 0.1, 0.0, 31.0]);
        time += seconds(elapsed);
        let now = base + time;
        while streams.len() < 12 {
            let id = random.below(60);
            streams.push(random.stream(id, now));
        }
        for stream in &mut streams {
            let used = seconds(random.share() * elapsed);
            stream.cpu = if random.below(50) == 0 { Duration::ZERO } else { stream.cpu + used };
        }
        if random.below(4) == 0 {
            streams.swap_remove(random.below(12) as usize);
        }
        if tick % 15 == 0 {
            kind = random.pick(&[Kind::Mixed, Kind::Hot, Kind::Hot, Kind::Hot, Kind::Hot, Kind::Calm, Kind::Lost, Kind::Node]);
        }
        if random.below(10) == 0 {
            let share = random.share();
            evictor.observe_peers(random.maybe(share));
        }
        let mut sample = random.sample(now, seconds(elapsed));
        if random.below(30) > 0 {
            kind.shape(&mut sample);
        }
        let lost = kind == Kind::Lost || random.below(25) == 0;
        // A clock that goes back, now and then: only `now`, which is what a step sees.
        let seen = if random.below(60) == 0 { now - seconds(random.share() * 3.0) } else { now };
        let actions = evictor.step(if lost { Err(SignalLost) } else { Ok(&sample) }, &streams, seen);
        // What the evictor can know of time: the latest it was told.
        latest = latest.max(seen);
        watch.look(&actions, latest - base, &settings);
        rounds += u32::from(watch.evicted);
        let gauges = evictor.gauges();
        assert!(finite(&[
            gauges.usage_ratio,
            gauges.demand_ratio,
            gauges.demand_cores,
            gauges.predicted_ratio,
            gauges.unattributed_ratio
        ]));
        let explanation = evictor.explain();
        assert!(finite(&[explanation.excess_cores]));
        assert!(explanation.streams.iter().all(|stream| stream.candidate.cost_cores.is_finite()), "{explanation:?}");
        for action in &actions {
            if let Action::Evict(eviction) = action {
                streams.retain(|stream| stream.id != eviction.id);
            }
        }
    }
    // From wherever that has led: the same reading and the same streams, for ever.
    let (constant, lost) = (random.sample(base, seconds(5.0)), random.below(8) == 0);
    let bound = settings.sustain + settings.drain + settings.cooldown + settings.max_unready + 8 * settings.interval;
    let (began, phase) = (time, evictor.phase());
    loop {
        time += seconds(5.0);
        let mut sample = constant;
        sample.at = base + time;
        let actions = evictor.step(if lost { Err(SignalLost) } else { Ok(&sample) }, &streams, base + time);
        watch.look(&actions, time, &settings);
        if watch.evicted || watch.ready {
            return Some((rounds, phase));
        }
        if time - began > bound {
            return None;
        }
    }
}

#[test]
fn from_any_state_a_constant_input_leads_to_ready_or_to_a_round() {
    let (mut rounds, mut phases) = (0, BTreeMap::new());
    for seed in 0..400 {
        let (more, phase) = run(seed).unwrap_or_else(|| panic!("limbo, seed {seed}"));
        rounds += more;
        *phases.entry(phase.to_string()).or_insert(0) += 1;
    }
    assert!(rounds > 400, "the runs must come to something: {rounds} rounds");
    // Any state: the constant input met each of them.
    let all = [
        "draining",
        "evicting",
        "healthy",
        "held back",
        "hot",
        "machine contended",
        "ready by force",
        "recovering",
        "signal lost",
    ];
    assert_eq!(phases.keys().collect::<Vec<_>>(), all, "{phases:?}");
    assert!(phases.values().all(|times| *times >= 4), "{phases:?}");
}

#[test]
fn constant_heat_with_a_stream_that_may_go_evicts_within_sustain_drain_and_cooldown() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut evictor = random.builder().mode(Mode::Full).min_ready_share(None).build::<u32>().unwrap();
        let settings = evictor.settings().clone();
        let base = Instant::now() + Duration::from_secs(100_000);
        let (mut time, mut cut) = (Duration::ZERO, None);
        let bound = settings.sustain + settings.drain + settings.cooldown + 4 * settings.interval;
        while cut.is_none() && time <= bound {
            time += seconds(5.0);
            let mut sample = CpuSample::new(base + time, seconds(5.0), 4.0);
            sample.quota_cores = Some(4.0);
            let stream = |id, class| StreamSample::new(id, class, base - seconds(500.0), time);
            let streams = [stream(0, StreamClass::Dev), stream(1, StreamClass::Live), stream(2, StreamClass::CatchUp)];
            let actions = evictor.step(Ok(&sample), &streams, base + time);
            cut = actions.iter().any(|action| matches!(action, Action::Evict(_))).then_some(time);
        }
        assert!(cut.is_some(), "nothing within {bound:?}, seed {seed}");
    }
}
