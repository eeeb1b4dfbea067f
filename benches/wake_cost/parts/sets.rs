//! One reader over 10,000 keys of which one is busy, against a reader of that key alone; everything polled by hand.

use std::{
    hint::black_box,
    task::{Context as Polling, Poll, Waker},
    time::Instant,
};

use keywake::{Builder, Hub, Publisher, Received, Subscription, SubscriptionSet};

use crate::{
    Context,
    hand::HandRelay,
    measure::{
        clock::{median, per},
        words::{grouped, time},
    },
    table::Row,
};

const KEYS: u64 = 10_000;
const BUSY: u64 = 4_711;
/// So that a burst of events is neither lost nor ends at a block.
const BEHIND: u64 = 500;

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let keys = KEYS.min(context.options.scale.most_readers as u64);
    [(false, "without a relay"), (true, "relay")]
        .into_iter()
        .flat_map(|(relayed, how)| {
            let mut set = Busy::<SubscriptionSet<u64, u64>>::new(relayed, |hub| {
                let mut set = hub.subscribe_set();
                (0..keys - 1).for_each(|key| assert!(set.add(&key), "there is room"));
                set.add(&BUSY);
                set
            });
            let mut single = Busy::<Subscription<u64, u64>>::new(relayed, |hub| hub.subscribe(&BUSY));
            let mut samples = [const { Vec::new() }; 4];
            for round in 0..=8 * context.options.scale.rounds {
                let figures = [set.one_by_one(), single.one_by_one(), set.behind(), single.behind()];
                // The first one does not count.
                if round > 0 {
                    samples.iter_mut().zip(figures).for_each(|(samples, figure)| samples.push(figure));
                }
            }
            let [set, single, set_behind, single_behind] = samples.map(|mut samples| median(&mut samples));
            let work = format!("a set of {} keys with one busy key, per event, {how}", grouped(keys));
            let against = "a subscription to that key";
            [
                Row::new(format!("{work}: publish, wake, receive, park"), against).ratio(
                    set / single,
                    1.5,
                    format!("{} against {}", time(set), time(single)),
                ),
                Row::new(format!("{work}: receive, {BEHIND} events behind"), against).ratio(
                    set_behind / single_behind,
                    1.5,
                    format!("{} against {}", time(set_behind), time(single_behind)),
                ),
            ]
        })
        .collect()
}

/// What one key's events are read with.
trait Reading {
    /// The next event; others than events do not come here.
    fn next(&mut self, polling: &mut Polling<'_>) -> Poll<u64>;
}

impl Reading for Subscription<u64, u64> {
    fn next(&mut self, polling: &mut Polling<'_>) -> Poll<u64> {
        self.poll_recv(polling).map(|received| event(received.expect("it is open")))
    }
}

impl Reading for SubscriptionSet<u64, u64> {
    fn next(&mut self, polling: &mut Polling<'_>) -> Poll<u64> {
        self.poll_recv(polling).map(|received| {
            let (key, received) = received.expect("it is open");
            assert_eq!(*key, BUSY, "an event of another key");
            event(received)
        })
    }
}

fn event(received: Received<u64>) -> u64 {
    match received {
        Received::Event(event) => *event,
        _ => panic!("nothing was lost, nothing ended"),
    }
}

/// A hub with one busy key, and its one reader.
struct Busy<R> {
    publisher: Publisher<u64, u64>,
    reader: R,
    relay: Option<HandRelay>,
    event: u64,
    /// Kept, so that nothing closes.
    _hub: Hub<u64, u64>,
}

impl<R: Reading> Busy<R> {
    fn new(relayed: bool, subscribe: impl FnOnce(&Hub<u64, u64>) -> R) -> Self {
        let (publisher, hub) = Builder::new().build();
        let relay = relayed.then(|| HandRelay::new(&hub));
        let mut this = Self { publisher, reader: subscribe(&hub), relay, event: 0, _hub: hub };
        this.wake();
        assert!(this.reader.next(&mut Polling::from_waker(Waker::noop())).is_pending(), "nothing was published");
        this
    }

    fn publish(&mut self) {
        self.event += 1;
        black_box(self.publisher.publish(&BUSY, self.event));
    }

    fn wake(&mut self) {
        if let Some(relay) = &mut self.relay {
            relay.drive();
        }
    }

    /// The reader takes `count` events and parks.
    fn receive(&mut self, count: u64) {
        let mut polling = Polling::from_waker(Waker::noop());
        for _ in 0..count {
            assert!(black_box(self.reader.next(&mut polling)).is_ready(), "an event is missing");
        }
        let mut rest = self.reader.next(&mut polling);
        // A reader that had much to do lets others run in between; then it is asked again.
        if rest.is_pending() {
            rest = self.reader.next(&mut polling);
        }
        assert!(rest.is_pending(), "an event too many");
    }

    /// A publish, its wake, and its receipt, in ns.
    fn one_by_one(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..BEHIND {
            self.publish();
            self.wake();
            self.receive(1);
        }
        per(start.elapsed(), usize::try_from(BEHIND).expect("few"))
    }

    /// The receipt of one of many, in ns.
    fn behind(&mut self) -> f64 {
        (0..BEHIND).for_each(|_| self.publish());
        self.wake();
        let mut polling = Polling::from_waker(Waker::noop());
        let start = Instant::now();
        let mut got = 0;
        while got < BEHIND {
            // Pending in between: it lets others run.
            got += u64::from(black_box(self.reader.next(&mut polling)).is_ready());
        }
        let took = start.elapsed();
        self.wake();
        self.receive(0);
        per(took, usize::try_from(BEHIND).expect("few"))
    }
}
