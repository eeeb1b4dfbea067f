//! N tokio tasks that wait, somebody who publishes to them, and what that took.
//!
//! A closed loop: the next publish comes when all have the one before and the workers sleep again. A writer outside of the runtime
//! that has a core to itself spins meanwhile, so that its own going to sleep and waking up is in no figure; how much processor time
//! went into that is known, and taken off (`Figures::cpu`) or not (`Figures::cpu_with_spinning`). Where the workers take all
//! cores, it sleeps.

use std::{
    hint::{black_box, spin_loop},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
};

use crate::{
    counters::{self, Counts, counting, look_at_thread_cpu, switches_of_process, switches_of_thread},
    measure::{
        clock::{median, process_cpu, thread_cpu},
        peers::Peer,
        publishing::RETAINED,
        surroundings::cores,
    },
    pins::Pins,
    tally::Tally,
};

/// How many keys, and how many tasks wait for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) keys: u64,
    pub(crate) per_key: usize,
}

impl Shape {
    pub(crate) fn readers(self) -> usize {
        usize::try_from(self.keys).expect("as many keys as tasks") * self.per_key
    }
}

/// Where the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inside,
    Outside,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
        }
    }
}

/// What everything runs in.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) workers: usize,
    pub(crate) pins: Option<Arc<Pins>>,
    /// Whether a writer outside sleeps while it waits, although it might spin: where other work wants the cores, too.
    pub(crate) sleeps: bool,
}

impl Setting {
    pub(crate) fn new(workers: usize, pins: Option<&Arc<Pins>>) -> Self {
        Self { workers, pins: pins.cloned(), sleeps: workers >= cores() }
    }

    /// A runtime without an I/O driver, as there is no I/O.
    pub(crate) fn runtime(&self) -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(self.workers).enable_time();
        if let Some(pins) = self.pins.clone() {
            let started = AtomicUsize::new(0);
            // Relaxed: each thread takes another number.
            builder.on_thread_start(move || pins.pin_worker(started.fetch_add(1, Ordering::Relaxed)));
        }
        builder.build().expect("a runtime")
    }
}

/// What one side did in one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// The writer's time in its calls, each in ns.
    pub(crate) writer: Vec<f64>,
    /// From before the call until the last reader had the event, in ns.
    pub(crate) last: Vec<f64>,
    /// Processor time per delivery, the writer's spinning taken off, in ns.
    pub(crate) cpu: f64,
    /// The same with it.
    pub(crate) cpu_with_spinning: f64,
    /// Context switches per publish: of all threads, but for the writer's while it waits.
    pub(crate) switches: f64,
}

/// Over all rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) publishes: usize,
    pub(crate) writer_p50: f64,
    pub(crate) writer_p99: f64,
    pub(crate) last_p50: f64,
    pub(crate) last_p99: f64,
    pub(crate) cpu: f64,
    pub(crate) cpu_with_spinning: f64,
    pub(crate) switches: f64,
}

impl Figures {
    /// Of times the percentiles over all publishes, of the rest the medians over the rounds.
    fn of(rounds: &[Samples]) -> Self {
        let all = |which: fn(&Samples) -> &Vec<f64>| {
            let mut all: Vec<f64> = rounds.iter().flat_map(|round| which(round).iter().copied()).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let middle = |which: fn(&Samples) -> f64| median(&mut rounds.iter().map(which).collect::<Vec<_>>());
        let (writer, last) = (all(|round| &round.writer), all(|round| &round.last));
        let at = |sorted: &[f64], percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        Self {
            publishes: writer.len(),
            writer_p50: at(&writer, 50),
            writer_p99: at(&writer, 99),
            last_p50: at(&last, 50),
            last_p99: at(&last, 99),
            cpu: middle(|round| round.cpu),
            cpu_with_spinning: middle(|round| round.cpu_with_spinning),
            switches: middle(|round| round.switches),
        }
    }
}

/// A crowd of whatever kind.
pub(crate) trait Contender {
    fn name(&self) -> &'static str;

    /// Publishes that often, each to another key.
    fn round(&mut self, place: Place, publishes: usize) -> Samples;

    /// Wakes and polls of readers per publish from outside.
    fn wakes_and_polls(&mut self) -> (f64, f64);

    /// The same as a round from outside, without a look at anything that would be a system call.
    fn publish_unwatched(&mut self, publishes: usize);
}

/// All of `contenders` in turns, another one first each time, `rounds` times. Each publishes as often as takes about `turn`, at
/// least 3 times, which is read off a round that does not count.
pub(crate) fn compare(contenders: &mut [Box<dyn Contender>], place: Place, rounds: usize, turn: Duration) -> Vec<Figures> {
    let counts: Vec<usize> = contenders
        .iter_mut()
        .map(|contender| {
            contender.round(place, 1);
            let start = Instant::now();
            contender.round(place, 3);
            let one = start.elapsed() / 3;
            usize::try_from(turn.as_nanos() / one.as_nanos().max(1)).expect("few").clamp(3, 500)
        })
        .collect();
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let side = (round + turn) % contenders.len();
            samples[side].push(contenders[side].round(place, counts[side]));
        }
    }
    samples.iter().map(|rounds| Figures::of(rounds)).collect()
}

/// The tasks and who publishes to them.
pub(crate) struct Crowd<P: Peer> {
    runtime: Runtime,
    writer: Option<P::Writer>,
    /// Kept, so that nothing closes.
    _hub: P,
    tally: Arc<Tally>,
    shape: Shape,
    /// How many tasks one publish wakes.
    woken: usize,
    event: u64,
    sleeps: bool,
}

impl<P: Peer> Crowd<P> {
    pub(crate) fn new(shape: Shape, setting: &Setting) -> Self {
        let runtime = setting.runtime();
        let (writer, hub) = P::open(RETAINED);
        hub.serve(runtime.handle());
        let tally = Arc::new(Tally::new(setting.sleeps));
        let all = shape.readers();
        tally.expect(all);
        for key in 0..shape.keys {
            for _ in 0..shape.per_key {
                runtime.spawn(counting(read::<P>(hub.subscribe(key), key, shape.keys, Arc::clone(&tally))));
            }
        }
        let woken = if P::KEYED { shape.per_key } else { all };
        let mut this = Self { runtime, writer: Some(writer), _hub: hub, tally, shape, woken, event: 0, sleeps: setting.sleeps };
        // Each task counts itself once before it waits for the first time.
        this.tally.wait();
        this.settle();
        if P::KEYED {
            this.publish_to_all_keys();
        }
        this
    }

    /// Once to each key: what its first publish costs more than another one is not in question here.
    fn publish_to_all_keys(&mut self) {
        self.tally.expect(self.shape.readers());
        for key in 0..self.shape.keys {
            self.event += 1;
            P::publish(self.writer.as_mut().expect("not lent"), key, self.event * self.shape.keys + key);
        }
        self.tally.wait();
        self.settle();
    }

    /// The next event and its key.
    fn next(&mut self) -> (u64, u64) {
        self.event += 1;
        event(self.event, self.shape.keys)
    }

    fn publish_from_outside(&mut self, publishes: usize) -> Samples {
        let (publishes_f, deliveries) = (publishes as f64, (publishes * self.shape.per_key) as f64);
        let mut samples = Samples::default();
        let overhead = clock_overhead();
        let (mut in_calls, mut waiting, mut own_switches) = (Duration::ZERO, Duration::ZERO, 0);
        let (switches, own_switches_before) = (switches_of_process(), switches_of_thread());
        let (cpu, own_cpu) = (process_cpu(), thread_cpu());
        for _ in 0..publishes {
            let (key, event) = self.next();
            self.tally.expect(self.woken);
            let writer = self.writer.as_mut().expect("not lent");
            let switches_before = switches_of_thread();
            let cpu_before = thread_cpu();
            let start = Instant::now();
            black_box(P::publish(writer, black_box(key), black_box(event)));
            let wrote = start.elapsed();
            let cpu_after = thread_cpu();
            own_switches += switches_of_thread() - switches_before;
            let last = self.tally.wait();
            waiting += thread_cpu() - cpu_after;
            in_calls += (cpu_after - cpu_before).saturating_sub(overhead);
            samples.writer.push(wrote.as_nanos() as f64);
            samples.last.push((last - start).as_nanos() as f64);
            self.settle();
        }
        let others = (process_cpu() - cpu).saturating_sub(thread_cpu() - own_cpu);
        samples.cpu = (others + in_calls).as_secs_f64() * 1e9 / deliveries;
        samples.cpu_with_spinning = (others + in_calls + waiting).as_secs_f64() * 1e9 / deliveries;
        let others = switches_of_process() - switches - (switches_of_thread() - own_switches_before);
        samples.switches = (others + own_switches) as f64 / publishes_f;
        samples
    }

    /// By a task of the runtime, which nowhere spins. Its own going to sleep and being woken is in the processor time.
    fn publish_from_inside(&mut self, publishes: usize) -> Samples {
        let mut writer = self.writer.take().expect("not lent");
        let tally = Arc::clone(&self.tally);
        let (first, keys, woken) = (self.event + 1, self.shape.keys, self.woken);
        self.event += publishes as u64;
        let (switches, cpu) = (switches_of_process(), process_cpu());
        let task = self.runtime.spawn(async move {
            let mut samples = Samples::default();
            for number in first..first + publishes as u64 {
                // Those who come after the last one have then run, and wait again.
                for _ in 0..3 {
                    yield_now().await;
                }
                let (key, event) = event(number, keys);
                tally.expect(woken);
                let start = Instant::now();
                black_box(P::publish(&mut writer, black_box(key), black_box(event)));
                samples.writer.push(start.elapsed().as_nanos() as f64);
                samples.last.push((tally.wait_inside().await - start).as_nanos() as f64);
            }
            (writer, samples)
        });
        let (writer, mut samples) = self.runtime.block_on(task).expect("the writer's task");
        self.writer = Some(writer);
        samples.cpu = (process_cpu() - cpu).as_secs_f64() * 1e9 / (publishes * self.shape.per_key) as f64;
        samples.cpu_with_spinning = samples.cpu;
        samples.switches = (switches_of_process() - switches) as f64 / publishes as f64;
        samples
    }

    /// Waits until every worker sleeps.
    fn settle(&self) {
        /// From when a worker says that it parks until it does, with much to spare.
        const FALLING_ASLEEP: Duration = Duration::from_micros(20);
        if self.sleeps {
            return thread::sleep(Duration::from_micros(200));
        }
        let metrics = self.runtime.metrics();
        let give_up = Instant::now() + Duration::from_millis(20);
        while (0..metrics.num_workers()).any(|worker| metrics.worker_park_unpark_count(worker) % 2 == 0)
            && Instant::now() < give_up
        {
            spin_loop();
        }
        let asleep = Instant::now() + FALLING_ASLEEP;
        while Instant::now() < asleep {
            spin_loop();
        }
    }
}

impl<P: Peer> Contender for Crowd<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn round(&mut self, place: Place, publishes: usize) -> Samples {
        match place {
            Place::Inside => self.publish_from_inside(publishes),
            Place::Outside => self.publish_from_outside(publishes),
        }
    }

    fn publish_unwatched(&mut self, publishes: usize) {
        for _ in 0..publishes {
            let (key, event) = self.next();
            self.tally.expect(self.woken);
            black_box(P::publish(self.writer.as_mut().expect("not lent"), key, event));
            self.tally.wait();
            self.settle();
        }
    }

    fn wakes_and_polls(&mut self) -> (f64, f64) {
        const KEYS: u64 = 3;
        let keys = self.shape.keys.min(KEYS);
        let publish_to_each = |this: &mut Self| {
            for key in 0..keys {
                this.event += 1;
                this.tally.expect(this.woken);
                let event = this.event * this.shape.keys + key;
                P::publish(this.writer.as_mut().expect("not lent"), key, event);
                this.tally.wait();
                this.settle();
            }
        };
        counters::count(true);
        // Those who are woken now park with wakers that count.
        publish_to_each(self);
        let before = counters::counted();
        publish_to_each(self);
        let Counts { wakes, polls } = counters::counted();
        counters::count(false);
        publish_to_each(self);
        ((wakes - before.wakes) as f64 / keys as f64, (polls - before.polls) as f64 / keys as f64)
    }
}

/// The key that event `number` goes to, and the event itself.
fn event(number: u64, keys: u64) -> (u64, u64) {
    let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
    (key, number * keys + key)
}

/// What is found between two looks at the processor time and two at the clock.
fn clock_overhead() -> Duration {
    static OVERHEAD: OnceLock<Duration> = OnceLock::new();
    *OVERHEAD.get_or_init(look_at_thread_cpu)
}

/// One reader: counts itself, waits, checks what it got, and so on. Where everybody gets everything, it looks at the key.
async fn read<P: Peer>(mut reader: P::Reader, key: u64, keys: u64, tally: Arc<Tally>) {
    let mut newest = 0;
    loop {
        tally.arrive();
        let event = P::recv(&mut reader).await;
        assert!(event > newest, "{}: an event came twice", P::NAME);
        newest = event;
        let is_mine = event % keys == key;
        assert!(is_mine || !P::KEYED, "{}: an event of another key", P::NAME);
        black_box(is_mine);
    }
}
