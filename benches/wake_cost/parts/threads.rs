//! 512 threads that block on one key, against waking each of them by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use keywake::{Builder, Publisher, Received};

use crate::{
    Context,
    measure::{clock::median, publishing::RETAINED, words::time},
    table::Row,
    tally::Tally,
};

const THREADS: usize = 512;
/// Until all of them have gone to sleep again.
const FALLING_ASLEEP: Duration = Duration::from_millis(4);

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let mut key = Blocked::on_a_key();
    let mut unparks = Blocked::in_park();
    let mut samples = [const { (Vec::new(), Vec::new()) }; 2];
    for round in 0..=6 * context.options.scale.rounds {
        for (side, (writer, last)) in [&mut key, &mut unparks].into_iter().zip(&mut samples) {
            let (wrote, came) = side.wake_all();
            // The first one does not count.
            if round > 0 {
                writer.push(wrote.as_nanos() as f64);
                last.push(came.as_nanos() as f64);
            }
        }
    }
    key.end();
    unparks.end();
    let [(writer, last), (unparks_writer, unparks_last)] =
        samples.map(|(mut writer, mut last)| (median(&mut writer), median(&mut last)));
    let against = |own, other| format!("{} against {}", time(own), time(other));
    let work = |what: &str| format!("{THREADS} blocked threads on one key, {what}");
    vec![
        Row::new(work("writer's time"), format!("{THREADS} unparks")).fraction(
            writer / unparks_writer,
            1.0 / 50.0,
            against(writer, unparks_writer),
        ),
        Row::new(work("until all ran, p50"), format!("{THREADS} unparks")).ratio(
            last / unparks_last,
            1.5,
            against(last, unparks_last),
        ),
    ]
}

/// Threads that all wait for the same, and how to let them go.
struct Blocked {
    tally: Arc<Tally>,
    wake: Box<dyn FnMut(u64)>,
    round: u64,
    threads: Vec<JoinHandle<()>>,
}

/// What ends them.
const END: u64 = u64::MAX;

impl Blocked {
    fn on_a_key() -> Self {
        let (publisher, hub) = Builder::new().retain_events(RETAINED).build();
        let mut publisher: Publisher<u64, u64> = publisher;
        let tally = Arc::new(Tally::new(true));
        tally.expect(THREADS);
        let threads = (0..THREADS).map(|_| {
            let (mut reader, tally) = (hub.subscribe(&0), Arc::clone(&tally));
            spawn(move || {
                tally.arrive();
                while matches!(reader.recv_blocking(), Ok(Received::Event(event)) if *event != END) {
                    tally.arrive();
                }
            })
        });
        let threads = threads.collect();
        Self::all_asleep(tally, Box::new(move |event| assert_eq!(publisher.publish(&0, event).readers, THREADS)), threads)
    }

    fn in_park() -> Self {
        let newest = Arc::new(AtomicU64::new(0));
        let tally = Arc::new(Tally::new(true));
        tally.expect(THREADS);
        let threads = (0..THREADS).map(|_| {
            let (newest, tally) = (Arc::clone(&newest), Arc::clone(&tally));
            spawn(move || {
                let mut seen = 0;
                while seen != END {
                    tally.arrive();
                    seen = park_until_other(&newest, seen);
                }
            })
        });
        let threads: Vec<JoinHandle<()>> = threads.collect();
        let handles: Vec<_> = threads.iter().map(|thread| thread.thread().clone()).collect();
        let wake = move |event| {
            // Release (pairs with `park_until_other`): see there.
            newest.store(event, Ordering::Release);
            handles.iter().for_each(thread::Thread::unpark);
        };
        Self::all_asleep(tally, Box::new(wake), threads)
    }

    fn all_asleep(tally: Arc<Tally>, wake: Box<dyn FnMut(u64)>, threads: Vec<JoinHandle<()>>) -> Self {
        tally.wait();
        thread::sleep(FALLING_ASLEEP);
        Self { tally, wake, round: 0, threads }
    }

    /// The writer's time, and that until the last thread ran.
    fn wake_all(&mut self) -> (Duration, Duration) {
        self.round += 1;
        self.tally.expect(THREADS);
        let start = Instant::now();
        (self.wake)(self.round);
        let wrote = start.elapsed();
        let last = self.tally.wait() - start;
        thread::sleep(FALLING_ASLEEP);
        (wrote, last)
    }

    fn end(mut self) {
        (self.wake)(END);
        for thread in self.threads {
            thread.join().expect("no thread panics");
        }
    }
}

fn park_until_other(newest: &AtomicU64, seen: u64) -> u64 {
    loop {
        // Acquire (pairs with the store in `in_park`): what the writer did before is seen.
        match newest.load(Ordering::Acquire) {
            still if still == seen => thread::park(),
            other => return other,
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().stack_size(128 * 1_024).spawn(work).expect("a thread more")
}
