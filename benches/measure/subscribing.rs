//! Readers that join a key and leave it at once.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::peers::Peer;
use super::{
    companion::Companion,
    keys::{Cycle, shuffled},
    publishing::RETAINED,
};

/// Who is there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Nobody: the topic is made, and removed again.
    First,
    /// Another reader that stays.
    Further,
}

impl Join {
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Further];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "first reader",
            Self::Further => "further reader",
        }
    }
}

/// `keys` keys to join and leave in turn, and a thread that can publish to these same keys meanwhile.
pub(crate) struct Subscribing<P: Peer> {
    hub: P,
    _standing: Vec<P::Reader>,
    cycle: Cycle,
    publisher: Companion,
}

impl<P: Peer> Subscribing<P> {
    pub(crate) fn new(join: Join, keys: u64) -> Self {
        let (mut writer, hub) = P::open(RETAINED);
        let standing = match join {
            Join::First => Vec::new(),
            Join::Further => (0..keys).map(|key| hub.subscribe(key)).collect(),
        };
        let order = shuffled(0..keys);
        // Not in step with the joins.
        let mut published = Cycle::new(order.iter().rev().copied().collect());
        let mut event = 0;
        let publisher = Companion::new(move |_| {
            event += 1;
            black_box(P::publish(&mut writer, black_box(published.next()), black_box(event)));
        });
        Self { hub, _standing: standing, cycle: Cycle::new(order), publisher }
    }

    /// Once round, untimed: the caches are then as this side leaves them, not as the other one left them.
    pub(crate) fn warm_up(&mut self) {
        self.join_and_leave(self.cycle.len());
    }

    /// `count` joins and leaves, nobody publishes.
    pub(crate) fn alone(&mut self, count: usize) -> Duration {
        self.join_and_leave(count)
    }

    /// `count` joins and leaves while another thread publishes to the same keys, as fast as it can.
    pub(crate) fn while_published(&mut self, count: usize) -> Duration {
        let (hub, cycle) = (&self.hub, &mut self.cycle);
        let (took, published) = self.publisher.during(0, || join_and_leave(hub, cycle, count));
        // A few joins fit in the time in which the other thread is off its core.
        assert!(published > 0 || count < 100_000, "{}: nothing was published meanwhile", P::NAME);
        took
    }

    fn join_and_leave(&mut self, count: usize) -> Duration {
        join_and_leave(&self.hub, &mut self.cycle, count)
    }
}

fn join_and_leave<P: Peer>(hub: &P, cycle: &mut Cycle, count: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        let key = cycle.next();
        let reader = black_box(hub.subscribe(black_box(key)));
        hub.unsubscribe(black_box(key), reader);
    }
    start.elapsed()
}
