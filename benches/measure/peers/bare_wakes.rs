//! No channel: per key a list of wakers, and the newest event. What waking alone costs on this machine, below which nobody gets.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::runtime::Handle;

use super::Peer;

/// One key's newest event (0: none yet), and who waits for the next.
#[derive(Default)]
struct Cell {
    newest: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

/// The cells by key, made by subscribers.
type Cells = Arc<Mutex<Vec<Arc<Cell>>>>;

/// A cell's list that a publish takes and goes through. It has no memory, no close, and forgets no reader that left.
#[derive(Clone, Default)]
pub(crate) struct BareWakes(Cells);

/// What a writer has seen of the cells, and an empty list that keeps its room.
pub(crate) struct Writer {
    cells: Cells,
    seen: Vec<Arc<Cell>>,
    spare: Vec<Waker>,
}

/// A reader, and what it has seen.
pub(crate) struct Reader {
    cell: Arc<Cell>,
    seen: u64,
}

impl Writer {
    /// Leaves `event` in the key's cell.
    #[inline]
    fn write(&mut self, key: u64, event: u64) -> &Arc<Cell> {
        let key = usize::try_from(key).expect("an index");
        if key >= self.seen.len() {
            self.seen.clone_from(&self.cells.lock().expect("no panic under it"));
        }
        let cell = &self.seen[key];
        // Release (pairs with `take`): what the writer did before is seen by who reads the event.
        cell.newest.store(event, Ordering::Release);
        cell
    }
}

impl Reader {
    /// The newest event, unless it was seen.
    #[inline]
    fn take(&mut self) -> Option<u64> {
        // Acquire (pairs with `write`): the reader sees what the writer did before it published.
        let newest = self.cell.newest.load(Ordering::Acquire);
        let unseen = newest != self.seen;
        self.seen = newest;
        unseen.then_some(newest)
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<u64> {
        if let Some(event) = self.take() {
            return Poll::Ready(event);
        }
        self.cell.waiting.lock().expect("no panic under it").push(context.waker().clone());
        // Either the list is taken after this push, or the event is seen here: the mutex orders the two.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Peer for BareWakes {
    const NAME: &'static str = "bare wakes";
    const KEYED: bool = true;
    type Writer = Writer;
    type Reader = Reader;

    fn open(_retained: usize) -> (Self::Writer, Self) {
        let cells = Cells::default();
        (Writer { cells: Arc::clone(&cells), seen: Vec::new(), spare: Vec::new() }, Self(cells))
    }

    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize {
        let mut list = mem::take(&mut writer.spare);
        mem::swap(&mut *writer.write(key, event).waiting.lock().expect("no panic under it"), &mut list);
        let woken = list.len();
        list.drain(..).for_each(Waker::wake);
        writer.spare = list;
        woken
    }

    fn subscribe(&self, key: u64) -> Self::Reader {
        let key = usize::try_from(key).expect("an index");
        let mut cells = self.0.lock().expect("no panic under it");
        while cells.len() <= key {
            cells.push(Arc::default());
        }
        let cell = Arc::clone(&cells[key]);
        // Relaxed: only tells which event the reader need not see; it carries nothing else.
        let seen = cell.newest.load(Ordering::Relaxed);
        Reader { cell, seen }
    }

    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        reader.take()
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        poll_fn(|context| reader.poll(context)).await
    }
}

/// The same lists; a publish wakes one task, and that wakes the readers from inside the runtime.
#[derive(Clone, Default)]
pub(crate) struct BareInside {
    lists: BareWakes,
    desk: Arc<Desk>,
}

/// What the writer leaves for the task.
#[derive(Default)]
pub(crate) struct Desk {
    marked: Mutex<Vec<Arc<Cell>>>,
    task: OnceLock<Waker>,
}

/// How many readers the task wakes before it lets others run: more of them spill out of the queue that a worker of tokio has
/// for itself.
const BATCH: usize = 64;

impl Desk {
    /// One poll of the task; `work` is what it has taken over.
    fn poll(&self, context: &Context<'_>, work: &mut VecDeque<Waker>) {
        self.task.get_or_init(|| context.waker().clone());
        for cell in self.marked.lock().expect("no panic under it").drain(..) {
            work.extend(cell.waiting.lock().expect("no panic under it").drain(..));
        }
        let batch = work.len().min(BATCH);
        work.drain(..batch).for_each(Waker::wake);
        if !work.is_empty() {
            context.waker().wake_by_ref();
        }
    }
}

impl Peer for BareInside {
    const NAME: &'static str = "bare wakes inside";
    const KEYED: bool = true;
    type Writer = (Writer, Arc<Desk>);
    type Reader = Reader;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (writer, lists) = BareWakes::open(retained);
        let desk: Arc<Desk> = Arc::default();
        ((writer, Arc::clone(&desk)), Self { lists, desk })
    }

    fn serve(&self, runtime: &Handle) {
        let desk = Arc::clone(&self.desk);
        let mut work = VecDeque::new();
        runtime.spawn(poll_fn(move |context| {
            desk.poll(context, &mut work);
            Poll::<()>::Pending
        }));
    }

    fn publish((writer, desk): &mut Self::Writer, key: u64, event: u64) -> usize {
        let cell = Arc::clone(writer.write(key, event));
        desk.marked.lock().expect("no panic under it").push(cell);
        desk.task.get().map_or(0, |task| {
            task.wake_by_ref();
            1
        })
    }

    fn subscribe(&self, key: u64) -> Self::Reader {
        self.lists.subscribe(key)
    }

    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        reader.take()
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        poll_fn(|context| reader.poll(context)).await
    }
}
