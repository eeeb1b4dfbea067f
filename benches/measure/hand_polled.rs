//! N readers parked with wakers that do nothing: what a wake costs without an executor, the channel's own part.

use std::{
    hint::black_box,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    time::{Duration, Instant},
};

use super::peers::Peer;
use super::publishing::RETAINED;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A writer and its parked readers, all of one key.
pub(crate) struct HandPolled<P: Peer> {
    writer: P::Writer,
    _hub: P,
    tasks: Vec<Task>,
    received: Arc<AtomicU64>,
    event: u64,
}

impl<P: Peer> HandPolled<P> {
    pub(crate) fn new(readers: usize) -> Self {
        let (writer, hub) = P::open(RETAINED);
        let received = Arc::new(AtomicU64::new(0));
        let tasks = (0..readers).map(|_| Box::pin(read::<P>(hub.subscribe(0), Arc::clone(&received))) as Task).collect();
        let mut this = Self { writer, _hub: hub, tasks, received, event: 0 };

        // A first round with wakers that count shows that each reader is woken, and woken once.
        let wakes = Arc::new(Wakes(AtomicU64::new(0)));
        this.poll_all(&Waker::from(Arc::clone(&wakes)));
        this.publish();
        // Relaxed: one thread.
        assert_eq!(wakes.0.load(Ordering::Relaxed), readers as u64, "{}: one wake per reader", P::NAME);
        this.poll_all(Waker::noop());
        this
    }

    /// One publish that wakes all; the time of the call. The readers then read and park again, which is not timed.
    pub(crate) fn wake_all(&mut self) -> Duration {
        let took = self.publish();
        self.poll_all(Waker::noop());
        took
    }

    fn publish(&mut self) -> Duration {
        self.event += 1;
        let start = Instant::now();
        black_box(P::publish(&mut self.writer, black_box(0), black_box(self.event)));
        start.elapsed()
    }

    /// Every reader takes what there is and parks with `waker`.
    fn poll_all(&mut self, waker: &Waker) {
        let mut context = Context::from_waker(waker);
        for task in &mut self.tasks {
            assert!(task.as_mut().poll(&mut context).is_pending(), "{}: a reader ended", P::NAME);
        }
        // Relaxed: one thread.
        let received = self.received.load(Ordering::Relaxed);
        assert_eq!(received, self.event * self.tasks.len() as u64, "{}: every reader has every event", P::NAME);
    }
}

async fn read<P: Peer>(mut reader: P::Reader, received: Arc<AtomicU64>) {
    let mut event = 0;
    loop {
        let next = P::recv(&mut reader).await;
        assert_eq!(next, event + 1, "{}: another event than the next", P::NAME);
        event = next;
        // Relaxed: one thread.
        received.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts how often it is woken.
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
