//! A hub whose relay and whose readers are polled by hand, on one thread, with wakers that do nothing (the readers') or count (the
//! relay's): what remains is the library's own part.

use std::{
    hint::black_box,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use keywake::{Builder, Hub, Publisher, Received, Relay, Subscription};

use crate::measure::publishing::RETAINED;

/// One key, its readers, all parked, and the relay.
pub(crate) struct Hand {
    publisher: Publisher<u64, u64>,
    /// Kept, so that nothing closes.
    _hub: Hub<u64, u64>,
    readers: Vec<Subscription<u64, u64>>,
    /// The one reader of another key.
    other: Subscription<u64, u64>,
    relay: HandRelay,
    event: u64,
}

impl Hand {
    pub(crate) fn new(readers: usize) -> Self {
        let (publisher, hub) = Builder::new().retain_events(RETAINED).build();
        let mut relay = HandRelay::new(&hub);
        relay.drive();
        let readers = (0..readers).map(|_| hub.subscribe(&0)).collect();
        let other = hub.subscribe(&1);
        let mut this = Self { publisher, _hub: hub, readers, other, relay, event: 0 };
        this.read_and_park();
        this.other_key();
        // Once round, so that the key is known and every slot was used.
        this.publish();
        this.fan_out();
        this.read_and_park();
        this
    }

    /// A publish to the other key, its wake and its receipt: what belongs to no key is warm then.
    pub(crate) fn other_key(&mut self) {
        black_box(self.publisher.publish(&1, 0));
        self.relay.drive();
        let mut context = Context::from_waker(Waker::noop());
        while self.other.poll_recv(&mut context).is_ready() {}
    }

    /// The writer's part, when all are parked and the relay sleeps.
    pub(crate) fn publish(&mut self) -> Duration {
        self.event += 1;
        let start = Instant::now();
        black_box(self.publisher.publish(black_box(&0), black_box(self.event)));
        start.elapsed()
    }

    /// The relay's part.
    pub(crate) fn fan_out(&mut self) -> Duration {
        let start = Instant::now();
        self.relay.drive();
        start.elapsed()
    }

    /// The readers' part: each takes what there is, and parks.
    pub(crate) fn read_and_park(&mut self) -> Duration {
        let mut context = Context::from_waker(Waker::noop());
        let (mut got, expected) = (0_u64, if self.event == 0 { 0 } else { self.readers.len() as u64 });
        let start = Instant::now();
        for reader in &mut self.readers {
            while let Poll::Ready(received) = reader.poll_recv(&mut context) {
                let Ok(Received::Event(event)) = received else { panic!("nothing was lost, nothing ended") };
                got += u64::from(*event == self.event);
            }
        }
        let took = start.elapsed();
        assert_eq!(got, expected, "each reader has the newest event");
        took
    }

    /// A callgrind run shall see this and nothing else.
    #[inline(never)]
    pub(crate) fn counted_publish(&mut self) {
        self.event += 1;
        black_box(self.publisher.publish(black_box(&0), black_box(self.event)));
    }

    /// As [`counted_publish`](Self::counted_publish).
    #[inline(never)]
    pub(crate) fn counted_fan_out(&mut self) {
        black_box(self.fan_out());
    }

    /// As [`counted_publish`](Self::counted_publish).
    #[inline(never)]
    pub(crate) fn counted_read_and_park(&mut self) {
        black_box(self.read_and_park());
    }
}

/// What timing nothing takes, in ns: to be taken off what is timed one by one.
pub(crate) fn time_nothing() -> f64 {
    let mut times: Vec<f64> = (0..1_001).map(|_| black_box(Instant::now()).elapsed().as_nanos() as f64).collect();
    crate::measure::clock::median(&mut times)
}

/// A relay polled by hand, with a waker that only remembers.
pub(crate) struct HandRelay {
    relay: Relay,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl HandRelay {
    pub(crate) fn new(hub: &Hub<u64, u64>) -> Self {
        let bell: Arc<Bell> = Arc::default();
        Self { relay: hub.relay(), waker: Waker::from(Arc::clone(&bell)), bell }
    }

    /// Polls it until it has nothing to do.
    pub(crate) fn drive(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        loop {
            let ended = Pin::new(&mut self.relay).poll(&mut context).is_ready();
            // Relaxed: one thread.
            if ended || !self.bell.0.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: one thread.
        self.0.store(true, Ordering::Relaxed);
    }
}
