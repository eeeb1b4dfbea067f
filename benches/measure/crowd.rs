//! N tokio tasks that wait, and one publish that wakes those of its key.
//!
//! The runtime has one worker. So when the last of the woken tasks has counted itself, all the others wait again, and the next
//! round begins from the same state: everybody parked, the worker asleep.

use std::{
    hint::black_box,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
};

use super::peers::Peer;
use super::{clock::thread_cpu, publishing::RETAINED};

/// What one publish took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The writer, in its call.
    pub(crate) writer: Duration,
    /// The processor time of that, where the writer is a thread of its own. Time in which a woken task had pushed it off its
    /// core is not in it; one look at that clock is.
    pub(crate) writer_cpu: Duration,
    /// From before the call until the last reader had the event.
    pub(crate) last: Duration,
}

/// The tasks and who publishes to them.
pub(crate) struct Crowd<P: Peer> {
    runtime: Runtime,
    writer: Option<P::Writer>,
    gathering: Arc<Gathering>,
    keys: u64,
    /// How many tasks one publish wakes.
    woken: usize,
    event: u64,
}

impl<P: Peer> Crowd<P> {
    /// `per_key` tasks wait for each of `keys` keys.
    pub(crate) fn new(keys: u64, per_key: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (writer, hub) = P::open(RETAINED);
        let all = usize::try_from(keys).expect("as many keys as tasks") * per_key;
        let gathering = Arc::new(Gathering::new(all));
        for key in 0..keys {
            for _ in 0..per_key {
                runtime.spawn(read::<P>(hub.subscribe(key), key, keys, Arc::clone(&gathering)));
            }
        }
        let woken = if P::KEYED { per_key } else { all };
        // Each task counts itself once before it waits for the first time.
        gathering.wait();
        let this = Self { runtime, writer: Some(writer), gathering, keys, woken, event: 0 };
        this.settle();
        this
    }

    /// One publish by this thread, which is not of the runtime.
    pub(crate) fn publish_from_outside(&mut self) -> Times {
        self.event += 1;
        let key = self.event.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.keys;
        let event = self.event * self.keys + key;
        let writer = self.writer.as_mut().expect("not lent");
        self.gathering.expect(self.woken);
        let cpu_before = thread_cpu();
        let start = Instant::now();
        black_box(P::publish(writer, black_box(key), black_box(event)));
        let wrote = start.elapsed();
        let writer_cpu = thread_cpu() - cpu_before;
        let last = self.gathering.wait() - start;
        self.settle();
        Times { writer: wrote, writer_cpu, last }
    }

    /// `count` publishes by a task of the runtime, one after the other, each when all have the one before. Sums.
    pub(crate) fn publish_from_inside(&mut self, count: u64) -> Times {
        let mut writer = self.writer.take().expect("not lent");
        let gathering = Arc::clone(&self.gathering);
        let (first, keys, woken) = (self.event + 1, self.keys, self.woken);
        self.event += count;
        let task = self.runtime.spawn(async move {
            let mut sums = Times::default();
            for event in first..first + count {
                let key = event.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
                gathering.expect(woken);
                let start = Instant::now();
                black_box(P::publish(&mut writer, black_box(key), black_box(event * keys + key)));
                sums.writer += start.elapsed();
                sums.last += gathering.wait_inside().await - start;
            }
            (writer, sums)
        });
        let (writer, sums) = self.runtime.block_on(task).expect("the writer's task");
        self.writer = Some(writer);
        sums
    }

    /// `count` publishes from outside; sums.
    pub(crate) fn publish_many_from_outside(&mut self, count: u64) -> Times {
        let mut sums = Times::default();
        for _ in 0..count {
            let times = self.publish_from_outside();
            sums.writer += times.writer;
            sums.writer_cpu += times.writer_cpu;
            sums.last += times.last;
        }
        sums
    }

    /// Waits until every task and the worker sleep.
    pub(crate) fn settle(&self) {
        // When a task that came after the last of the woken ones has run, that one waits again: there is one worker.
        self.runtime.block_on(self.runtime.spawn(async {})).expect("an empty task");
        // Then nothing is left to do, and the worker goes to sleep.
        thread::sleep(Duration::from_micros(200));
    }
}

/// One reader: counts itself, waits, checks what it got, and so on. Where everybody gets everything, it looks at the key.
async fn read<P: Peer>(mut reader: P::Reader, key: u64, keys: u64, gathering: Arc<Gathering>) {
    let mut newest = 0;
    loop {
        gathering.arrive();
        let event = P::recv(&mut reader).await;
        assert!(event > newest, "{}: an event came twice", P::NAME);
        newest = event;
        let is_mine = event % keys == key;
        assert!(is_mine || !P::KEYED, "{}: an event of another key", P::NAME);
        black_box(is_mine);
    }
}

/// Where the tasks count themselves; the last one notes the time.
struct Gathering {
    expected: AtomicUsize,
    arrived: AtomicUsize,
    last: Mutex<Option<Instant>>,
    outside: Thread,
    inside: Notify,
}

impl Gathering {
    fn new(expected: usize) -> Self {
        Self {
            expected: AtomicUsize::new(expected),
            arrived: AtomicUsize::new(0),
            last: Mutex::new(None),
            outside: thread::current(),
            inside: Notify::new(),
        }
    }

    /// Begins a round in which `tasks` will come.
    fn expect(&self, tasks: usize) {
        // Relaxed: nobody arrives between two rounds, and the publish that follows orders this before the arrivals.
        self.expected.store(tasks, Ordering::Relaxed);
        // Relaxed: as above.
        self.arrived.store(0, Ordering::Relaxed);
    }

    fn arrive(&self) {
        // Relaxed: only the sum matters; the time is handed over by the mutex.
        let arrived = self.arrived.fetch_add(1, Ordering::Relaxed) + 1;
        // Relaxed: see `expect`.
        if arrived == self.expected.load(Ordering::Relaxed) {
            let now = Instant::now();
            *self.last.lock().expect("no panic under it") = Some(now);
            self.inside.notify_one();
            self.outside.unpark();
        }
    }

    /// Blocks until the last has come, and gives the time of that.
    fn wait(&self) -> Instant {
        let give_up = Instant::now() + Duration::from_secs(20);
        loop {
            let last = self.last.lock().expect("no panic under it").take();
            if let Some(last) = last {
                return last;
            }
            assert!(Instant::now() < give_up, "a reader was not woken, or panicked");
            thread::park_timeout(Duration::from_secs(1));
        }
    }

    /// The same for a task.
    async fn wait_inside(&self) -> Instant {
        loop {
            let last = self.last.lock().expect("no panic under it").take();
            if let Some(last) = last {
                return last;
            }
            self.inside.notified().await;
        }
    }
}
