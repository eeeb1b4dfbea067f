//! tokio's `Notify` beside an atomic: no buffer either.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync;

use super::Peer;

/// The newest event, and how one learns of it.
#[derive(Default)]
struct Cell {
    changed: sync::Notify,
    newest: AtomicU64,
}

/// `tokio::sync::Notify` with the newest event in an atomic (0: none yet); readers ask to be told before they look.
#[derive(Clone)]
pub(crate) struct Notify(Arc<Cell>);

/// A reader, and what it has seen.
pub(crate) struct Reader {
    cell: Arc<Cell>,
    seen: u64,
}

fn take(newest: &AtomicU64, seen: &mut u64) -> Option<u64> {
    // Acquire (pairs with `publish`): the reader sees what the writer did before it published.
    let newest = newest.load(Ordering::Acquire);
    let unseen = newest != *seen;
    *seen = newest;
    unseen.then_some(newest)
}

impl Peer for Notify {
    const NAME: &'static str = "tokio Notify";
    const KEYED: bool = false;
    type Writer = Self;
    type Reader = Reader;

    fn open(_retained: usize) -> (Self::Writer, Self) {
        let hub = Self(Arc::default());
        (hub.clone(), hub)
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        // Release (pairs with `take`): what the writer did before is seen by who reads the event.
        writer.0.newest.store(event, Ordering::Release);
        writer.0.changed.notify_waiters();
        0
    }

    #[inline]
    fn subscribe(&self, _key: u64) -> Self::Reader {
        // Relaxed: only tells which event the reader need not see; it carries nothing else.
        let seen = self.0.newest.load(Ordering::Relaxed);
        Reader { cell: Arc::clone(&self.0), seen }
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        take(&reader.cell.newest, &mut reader.seen)
    }

    async fn recv(Reader { cell, seen }: &mut Self::Reader) -> u64 {
        loop {
            let mut changed = pin!(cell.changed.notified());
            changed.as_mut().enable();
            if let Some(event) = take(&cell.newest, seen) {
                return event;
            }
            changed.await;
        }
    }
}
