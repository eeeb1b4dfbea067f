//! `event-listener` beside an atomic: no buffer at all, so it bounds from below what waking alone costs its kind.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use event_listener::{Event, EventListener as Listener};

use super::Peer;

/// The newest event, and how one learns of it.
#[derive(Default)]
struct Cell {
    changed: Event,
    newest: AtomicU64,
}

/// `event_listener::Event` with the newest event in an atomic (0: none yet); readers listen again before they look.
#[derive(Clone)]
pub(crate) struct EventListener(Arc<Cell>);

/// A reader, and what it has seen.
pub(crate) struct Reader {
    cell: Arc<Cell>,
    seen: u64,
    listener: Option<Listener>,
}

impl Peer for EventListener {
    const NAME: &'static str = "event-listener";
    const KEYED: bool = false;
    type Writer = Self;
    type Reader = Reader;

    fn open(_retained: usize) -> (Self::Writer, Self) {
        let hub = Self(Arc::default());
        (hub.clone(), hub)
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        // Release (pairs with `try_recv`): what the writer did before is seen by who reads the event.
        writer.0.newest.store(event, Ordering::Release);
        writer.0.changed.notify(usize::MAX)
    }

    #[inline]
    fn subscribe(&self, _key: u64) -> Self::Reader {
        // Relaxed: only tells which event the reader need not see; it carries nothing else.
        let seen = self.0.newest.load(Ordering::Relaxed);
        Reader { cell: Arc::clone(&self.0), seen, listener: None }
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        // Acquire (pairs with `publish`): the reader sees what the writer did before it published.
        let newest = reader.cell.newest.load(Ordering::Acquire);
        let unseen = newest != reader.seen;
        reader.seen = newest;
        unseen.then_some(newest)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        loop {
            if let Some(event) = Self::try_recv(reader) {
                return event;
            }
            match reader.listener.take() {
                Some(listener) => listener.await,
                None => reader.listener = Some(reader.cell.changed.listen()),
            }
        }
    }
}
