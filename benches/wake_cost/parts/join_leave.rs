//! One reader subscribes, parks and leaves, where many stay and where few do; and what of the waiters' memory is left when a crowd
//! has gone.

use std::{
    hint::black_box,
    task::{Context as Polling, Waker},
    time::Instant,
};

use keywake::{Builder, Hub, Publisher, Subscription};

use crate::{
    Context,
    measure::{
        allocator::{live_so_far, while_counting},
        clock::{median, per},
        words::{grouped, rounded, time},
    },
    table::Row,
};

type Reader = Subscription<u64, u64>;

const STAY: usize = 150_000;
const CROWD: usize = 100_000;
const FEW: usize = 10;

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let scale = context.options.scale;
    let stay = STAY.min(scale.most_readers);
    let keys = [Key::new(FEW), Key::new(stay)];
    let (rounds, times) = (4 * scale.rounds, 2_000);
    let mut samples = [const { Vec::new() }; 2];
    for round in 0..=rounds {
        for (key, samples) in keys.iter().zip(&mut samples) {
            let took = key.join_park_leave(times);
            if round > 0 {
                samples.push(took);
            }
        }
    }
    drop(keys);
    let [few, many] = samples.map(|mut samples| median(&mut samples));
    let crowd = CROWD.min(scale.most_readers);
    let (peak, left) = memory_of_waiters(crowd);
    vec![
        Row::new(
            format!("one reader joins, parks and leaves a key on which {} stay", grouped(stay as u64)),
            format!("the same where {FEW} stay"),
        )
        .ratio(many / few, 1.15, format!("{} against {}", time(many), time(few))),
        Row::new(
            format!("memory of the waiters after {} of them left and {FEW} stayed", grouped(crowd as u64)),
            "the same at its peak",
        )
        .with(
            "< 10 %",
            left < 0.1 * peak,
            format!("{:.1} % ({} of {} bytes)", 100.0 * left / peak, rounded(left.max(0.0)), rounded(peak)),
        ),
    ]
}

/// A key and those who stay on it, parked.
struct Key {
    _publisher: Publisher<u64, u64>,
    hub: Hub<u64, u64>,
    _stay: Vec<Reader>,
}

impl Key {
    fn new(readers: usize) -> Self {
        let (publisher, hub) = Builder::new().build();
        let stay = (0..readers).map(|_| parked(&hub)).collect();
        Self { _publisher: publisher, hub, _stay: stay }
    }

    /// Per time, in ns.
    fn join_park_leave(&self, times: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..times {
            drop(black_box(parked(&self.hub)));
        }
        per(start.elapsed(), times)
    }
}

fn parked(hub: &Hub<u64, u64>) -> Reader {
    let mut reader = hub.subscribe(&0);
    assert!(reader.poll_recv(&mut Polling::from_waker(Waker::noop())).is_pending(), "there is nothing to read");
    reader
}

/// Bytes of what the waiters take beyond their handles, at the peak, and after the crowd has gone and one publish found the rest.
fn memory_of_waiters(crowd: usize) -> (f64, f64) {
    let (mut publisher, hub) = Builder::new().build();
    let mut context = Polling::from_waker(Waker::noop());
    let mut stay: Vec<Reader> = (0..FEW).map(|_| parked(&hub)).collect();
    let mut crowded = Vec::with_capacity(crowd);
    let (peak, left) = while_counting(|| {
        crowded.extend((0..crowd).map(|_| parked(&hub)));
        let peak = live_so_far();
        crowded.clear();
        // Those who stay are woken, and park again: whoever tidies up may do it then.
        for event in 0..3 {
            publisher.publish(&0, event);
            for reader in &mut stay {
                while reader.poll_recv(&mut context).is_ready() {}
            }
        }
        peak
    });
    (peak as f64, left as f64)
}
