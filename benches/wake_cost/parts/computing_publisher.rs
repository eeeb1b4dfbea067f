//! A task that publishes once and then computes without ever giving way, on a runtime with two workers: who has the event when?
//!
//! A relay that was woken by it stands in its worker's own place for the task to run next, from which nobody steals.

use std::{
    hint::spin_loop,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;

use crate::{
    Context,
    crowd::Setting,
    measure::{
        clock::median,
        peers::{
            Peer,
            keyed_broadcast::KeyedBroadcast,
            keywake::{Keywake, Relayed},
        },
        publishing::RETAINED,
        words::time,
    },
    table::Row,
};

const READERS: usize = 10;
const COMPUTES: Duration = Duration::from_millis(30);
const IN_TIME: f64 = 5e6;

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let rounds = 4 * context.options.scale.rounds;
    let mut sides: [Box<dyn Side>; 3] = [
        Box::new(Task::<Relayed>::new(context)),
        Box::new(Task::<Keywake>::new(context)),
        Box::new(Task::<KeyedBroadcast>::new(context)),
    ];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            times.push(side.round());
        }
    }
    let [relay, inline, broadcast] = times.map(Times::of);
    vec![
        Row::new(
            format!(
                "publisher task that publishes once and computes on for {} ms, {READERS} readers, 2 workers, relay",
                COMPUTES.as_millis()
            ),
            format!("keywake without a relay: {inline}; `DashMap<K, broadcast>`: {broadcast}"),
        )
        .with("all have it within 5 ms", relay.most <= IN_TIME, &relay),
    ]
}

/// One kind.
trait Side {
    /// When the last reader had the event, in ns.
    fn round(&mut self) -> f64;
}

struct Task<P: Peer> {
    runtime: Runtime,
    writer: Option<P::Writer>,
    /// Kept, so that nothing closes.
    _hub: P,
    arrivals: mpsc::Receiver<Instant>,
    event: u64,
}

impl<P: Peer> Task<P> {
    fn new(context: &Context) -> Self {
        let runtime = Setting::new(2, context.pins.as_ref()).runtime();
        let (writer, hub) = P::open(RETAINED);
        hub.serve(runtime.handle());
        let (arrived, arrivals) = mpsc::channel();
        for _ in 0..READERS {
            let (mut reader, arrived) = (hub.subscribe(0), arrived.clone());
            runtime.spawn(async move {
                while arrived.send(Instant::now()).is_ok() {
                    P::recv(&mut reader).await;
                }
            });
        }
        let this = Self { runtime, writer: Some(writer), _hub: hub, arrivals, event: 0 };
        this.last();
        this
    }

    fn last(&self) -> Instant {
        (0..READERS).map(|_| self.arrivals.recv().expect("readers live")).max().expect("some")
    }
}

impl<P: Peer> Side for Task<P> {
    fn round(&mut self) -> f64 {
        // All sleep.
        thread::sleep(Duration::from_millis(1));
        self.event += 1;
        let (mut writer, event) = (self.writer.take().expect("not lent"), self.event);
        let task = self.runtime.spawn(async move {
            let start = Instant::now();
            P::publish(&mut writer, 0, event);
            while start.elapsed() < COMPUTES {
                spin_loop();
            }
            (writer, start)
        });
        let last = self.last();
        let (writer, start) = self.runtime.block_on(task).expect("the publisher's task");
        self.writer = Some(writer);
        (last - start).as_nanos() as f64
    }
}

struct Times {
    rounds: usize,
    in_time: usize,
    middle: f64,
    most: f64,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        let middle = median(&mut times);
        let in_time = times.iter().filter(|time| **time <= IN_TIME).count();
        Self { rounds: times.len(), in_time, middle, most: times[times.len() - 1] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rounds, in_time, middle, most } = self;
        write!(f, "in {in_time} of {rounds} rounds; last reader p50 {}, worst {}", time(*middle), time(*most))
    }
}
