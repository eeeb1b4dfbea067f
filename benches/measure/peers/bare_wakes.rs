//! No channel: a list of wakers, and the newest event. What waking alone costs on this machine, below which nobody gets.

use std::{
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

use super::Peer;

/// The newest event (0: none yet) and who waits for the next.
#[derive(Default)]
struct Cell {
    newest: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

/// Wakers in a list that a publish takes and goes through. It has no memory, no close, and forgets no reader that left.
#[derive(Clone)]
pub(crate) struct BareWakes(Arc<Cell>);

/// The writer, and an empty list that keeps its room.
pub(crate) struct Writer {
    cell: Arc<Cell>,
    spare: Vec<Waker>,
}

/// A reader, and what it has seen.
pub(crate) struct Reader {
    cell: Arc<Cell>,
    seen: u64,
}

impl Peer for BareWakes {
    const NAME: &'static str = "bare wakes";
    const KEYED: bool = false;
    type Writer = Writer;
    type Reader = Reader;

    fn open(_retained: usize) -> (Self::Writer, Self) {
        let cell: Arc<Cell> = Arc::default();
        (Writer { cell: Arc::clone(&cell), spare: Vec::new() }, Self(cell))
    }

    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        // Release (pairs with `try_recv`): what the writer did before is seen by who reads the event.
        writer.cell.newest.store(event, Ordering::Release);
        mem::swap(&mut *writer.cell.waiting.lock().expect("no panic under it"), &mut writer.spare);
        let woken = writer.spare.len();
        writer.spare.drain(..).for_each(Waker::wake);
        woken
    }

    fn subscribe(&self, _key: u64) -> Self::Reader {
        // Relaxed: only tells which event the reader need not see; it carries nothing else.
        let seen = self.0.newest.load(Ordering::Relaxed);
        Reader { cell: Arc::clone(&self.0), seen }
    }

    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        // Acquire (pairs with `publish`): the reader sees what the writer did before it published.
        let newest = reader.cell.newest.load(Ordering::Acquire);
        let unseen = newest != reader.seen;
        reader.seen = newest;
        unseen.then_some(newest)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        poll_fn(|context| {
            if let Some(event) = Self::try_recv(reader) {
                return Poll::Ready(event);
            }
            reader.cell.waiting.lock().expect("no panic under it").push(context.waker().clone());
            // Either the writer takes the list after this push, or its event is seen here: the mutex orders the two.
            Self::try_recv(reader).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
