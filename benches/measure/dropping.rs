//! Readers that go while a million events are kept for them.

use std::time::{Duration, Instant};

use super::catch_up::RETAINED;
use super::peers::Peer;

/// Who goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaver {
    /// One that has read one event, and then fell behind; another reader stays.
    Behind,
    /// The last one: the topic and all that it keeps go as well. What keywake hands on to its writer to free is not timed.
    Last,
    /// One that never read; another reader stays.
    NeverRead,
}

impl Leaver {
    pub(crate) const ALL: [Self; 3] = [Self::Behind, Self::NeverRead, Self::Last];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Behind => "a reader far behind",
            Self::Last => "the last reader",
            Self::NeverRead => "a reader that never read",
        }
    }
}

/// A writer, and a reader that stays unless the last one shall go.
pub(crate) struct Dropping<P: Peer> {
    writer: P::Writer,
    hub: P,
    _stays: Option<P::Reader>,
    leaver: Leaver,
    event: u64,
}

impl<P: Peer> Dropping<P> {
    pub(crate) fn new(leaver: Leaver) -> Self {
        let (writer, hub) = P::open(RETAINED);
        let stays = (leaver != Leaver::Last).then(|| hub.subscribe(0));
        Self { writer, hub, _stays: stays, leaver, event: 0 }
    }

    /// A reader joins, `events` are published, and it is dropped: the time of the drop, on the dropping thread.
    pub(crate) fn drop_reader(&mut self, events: usize) -> Duration {
        let mut reader = self.hub.subscribe(0);
        if self.leaver != Leaver::NeverRead {
            self.publish();
            assert_eq!(P::try_recv(&mut reader), Some(self.event), "{}: the first event", P::NAME);
        }
        for _ in 0..events {
            self.publish();
        }
        let start = Instant::now();
        drop(reader);
        start.elapsed()
    }

    fn publish(&mut self) {
        self.event += 1;
        assert!(P::publish(&mut self.writer, 0, self.event) > 0, "{}: somebody reads", P::NAME);
    }
}
