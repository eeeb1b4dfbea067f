//! A task that publishes once and then computes without ever giving way, on a runtime with two workers: who has the event when?
//!
//! A relay that was woken by it stands in its worker's own place for the task to run next, from which nobody steals.

use std::{
    hint::spin_loop,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

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
    let mut sides = [Side::new::<Relayed>(context), Side::new::<Keywake>(context), Side::new::<KeyedBroadcast>(context)];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            times.push((side.round)());
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

/// Rounds of one kind, each giving when the last reader had the event, in ns.
struct Side {
    round: Box<dyn FnMut() -> f64>,
}

impl Side {
    fn new<P: Peer>(context: &Context) -> Self {
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
        let all = move || (0..READERS).map(|_| arrivals.recv().expect("readers live")).max().expect("some");
        all();
        let (mut writer, mut event) = (Some(writer), 0);
        let round = move || {
            let _keep = &hub;
            // All sleep.
            thread::sleep(Duration::from_millis(1));
            event += 1;
            let mut lent = writer.take().expect("not lent");
            let (back, returned) = oneshot::channel();
            runtime.spawn(async move {
                let start = Instant::now();
                P::publish(&mut lent, 0, event);
                while start.elapsed() < COMPUTES {
                    spin_loop();
                }
                let _ = back.send((lent, start));
            });
            let last = all();
            let (lent, start) = runtime.block_on(returned).expect("the publisher's task");
            writer = Some(lent);
            (last - start).as_nanos() as f64
        };
        Self { round: Box::new(round) }
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
