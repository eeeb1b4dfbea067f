//! A writer timed publish by publish while another thread subscribes and unsubscribes.

use std::{hint::black_box, time::Instant};

use super::peers::Peer;
use super::{
    clock::{median, percentile},
    companion::Companion,
    keys::{Cycle, shuffled},
    publishing::RETAINED,
};

/// What the other thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Churn {
    /// It makes and removes topics of another hub: what two busy threads cost each other on this machine (caches, memory,
    /// the allocator) even if they share nothing.
    AnotherHub,
    /// It subscribes to and leaves keys that nobody else reads: topics are made and removed.
    OtherKeysNew,
    /// It subscribes to and leaves keys that have another reader, and that are not published to.
    OtherKeysRead,
    /// It sleeps.
    Quiet,
    /// It subscribes to and leaves the very keys that are published to. No target; no design can be indifferent to it.
    SameKeys,
}

impl Churn {
    pub(crate) const ALL: [Self; 5] = [Self::Quiet, Self::AnotherHub, Self::OtherKeysNew, Self::OtherKeysRead, Self::SameKeys];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AnotherHub => "another hub",
            Self::OtherKeysNew => "other keys, made and removed",
            Self::OtherKeysRead => "other keys, further reader",
            Self::Quiet => "nothing",
            Self::SameKeys => "the published keys, further reader",
        }
    }
}

/// Nanoseconds of one publish, one look at the clock included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// How often per publish the other thread subscribed and left.
    pub(crate) churned: f64,
}

/// Both sides under each of `churns`, in turns; the medians over the rounds, after one that does not count.
pub(crate) fn compare<A: Peer, B: Peer>(keys: u64, rounds: usize, publishes: usize, churns: &[Churn]) -> [Vec<Latencies>; 2] {
    let (mut a, mut b) = (Churned::<A>::new(keys), Churned::<B>::new(keys));
    let mut samples = [vec![Vec::new(); churns.len()], vec![Vec::new(); churns.len()]];
    for round in 0..=rounds {
        for (at, &churn) in churns.iter().enumerate() {
            // After the other side each time, never after itself: what it finds in the caches is then always the same.
            let latencies = [a.publish(churn, publishes), b.publish(churn, publishes)];
            if round > 0 {
                samples.iter_mut().zip(latencies).for_each(|(side, latencies)| side[at].push(latencies));
            }
        }
    }
    samples.map(|side| side.iter().map(|samples| middle(samples)).collect())
}

fn middle(samples: &[Latencies]) -> Latencies {
    let of = |field: fn(&Latencies) -> f64| median(&mut samples.iter().map(field).collect::<Vec<_>>());
    Latencies { p50: of(|l| l.p50), p99: of(|l| l.p99), p999: of(|l| l.p999), churned: of(|l| l.churned) }
}

/// The writer's side: `keys` keys with one reader each that never reads; `keys` more keys of each kind for the other thread.
struct Churned<P: Peer> {
    writer: P::Writer,
    _readers: Vec<P::Reader>,
    cycle: Cycle,
    event: u64,
    nanos: Vec<u64>,
    companion: Companion,
}

impl<P: Peer> Churned<P> {
    fn new(keys: u64) -> Self {
        let (writer, hub) = P::open(RETAINED);
        // 0..keys are published to, keys..2 * keys are read by others, 2 * keys.. are nobody's.
        let readers = (0..2 * keys).map(|key| hub.subscribe(key)).collect();
        let mut same = Cycle::new(shuffled(0..keys));
        let mut read = Cycle::new(shuffled(keys..2 * keys));
        let mut new = Cycle::new(shuffled(2 * keys..3 * keys));
        let (other_writer, other_hub) = P::open(RETAINED);
        let companion = Companion::new(move |order| {
            let _open = &other_writer;
            let (hub, key) = match order {
                _ if order == Churn::AnotherHub as u8 => (&other_hub, new.next()),
                _ if order == Churn::OtherKeysNew as u8 => (&hub, new.next()),
                _ if order == Churn::OtherKeysRead as u8 => (&hub, read.next()),
                _ => (&hub, same.next()),
            };
            let reader = black_box(hub.subscribe(black_box(key)));
            hub.unsubscribe(key, reader);
        });
        let cycle = Cycle::new(shuffled(0..keys));
        Self { writer, _readers: readers, cycle, event: 0, nanos: Vec::new(), companion }
    }

    /// Times `count` publishes one by one, after one untimed publish to each key.
    fn publish(&mut self, churn: Churn, count: usize) -> Latencies {
        self.nanos.clear();
        self.nanos.reserve(count);
        let mut publish_all = || {
            // Once round first: the caches are then as this side leaves them, not as what ran before left them.
            for _ in 0..self.cycle.len() {
                self.event += 1;
                black_box(P::publish(&mut self.writer, self.cycle.next(), self.event));
            }
            let mut last = Instant::now();
            for _ in 0..count {
                self.event += 1;
                let key = self.cycle.next();
                black_box(P::publish(&mut self.writer, black_box(key), black_box(self.event)));
                let now = Instant::now();
                self.nanos.push(u64::try_from((now - last).as_nanos()).expect("not centuries"));
                last = now;
            }
        };
        let churned = if churn == Churn::Quiet {
            publish_all();
            0
        } else {
            self.companion.during(churn as u8, publish_all).1
        };
        // A few publishes fit in the time in which the other thread is off its core.
        assert!(churn == Churn::Quiet || churned > 0 || count < 100_000, "{}: the other thread did nothing", P::NAME);
        let mut percentile = |permille| percentile(&mut self.nanos, permille) as f64;
        let (p50, p99, p999) = (percentile(500), percentile(990), percentile(999));
        Latencies { p50, p99, p999, churned: churned as f64 / count as f64 }
    }
}
