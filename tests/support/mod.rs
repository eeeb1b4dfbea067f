//! What the integration tests share: wakers that count, payloads that count their drops, and ways to wait with a limit.

use std::{
    panic::resume_unwind,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use keywake::{Closed, Event, Gap, Key, Received, Subscription, TryRecvError};

/// Far above what any test needs on a busy machine: reaching it means a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A waker that only counts how often it was woken.
#[derive(Default)]
pub(crate) struct CountingWaker {
    wakes: AtomicUsize,
}

impl CountingWaker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }
}

/// One poll of `sub` on behalf of `waker`.
pub(crate) fn poll<K: Key, T: Send + Sync + 'static>(
    sub: &mut Subscription<K, T>,
    waker: &Arc<CountingWaker>,
) -> Poll<Result<Received<T>, Closed>> {
    let waker = Waker::from(Arc::clone(waker));
    sub.poll_recv(&mut Context::from_waker(&waker))
}

/// Polls `sub`, which must have nothing, so that `waker` is registered with it.
pub(crate) fn park<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>, waker: &Arc<CountingWaker>) {
    match poll(sub, waker) {
        Poll::Pending => {}
        Poll::Ready(Ok(got)) => panic!("expected nothing to receive, got {}", name_of(&got)),
        Poll::Ready(Err(closed)) => panic!("expected an open subscription: {closed}"),
    }
}

fn name_of<T>(received: &Received<T>) -> String {
    match received {
        Received::Event(event) => format!("event {}", event.seq()),
        Received::Gap(gap) => format!("{gap:?}"),
        Received::SnapshotEnd(position) => format!("the end of the snapshot at {position}"),
        Received::Bookmark(position) => format!("a bookmark at {position}"),
        _ => "something unknown".to_owned(),
    }
}

/// What must be an event.
pub(crate) fn event<T>(received: Received<T>) -> Event<T> {
    match received {
        Received::Event(event) => event,
        other => panic!("expected an event, got {}", name_of(&other)),
    }
}

/// What must be a gap.
pub(crate) fn gap<T>(received: Received<T>) -> Gap {
    match received {
        Received::Gap(gap) => gap,
        other => panic!("expected a gap, got {}", name_of(&other)),
    }
}

fn next<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) -> Received<T> {
    sub.try_recv().unwrap_or_else(|error| panic!("expected something to receive: {error}"))
}

/// The next thing of `sub`, which must be there and an event.
pub(crate) fn next_event<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) -> Event<T> {
    event(next(sub))
}

/// The next thing of `sub`, which must be there and a gap.
pub(crate) fn next_gap<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) -> Gap {
    gap(next(sub))
}

/// `sub` must be open and have nothing.
pub(crate) fn assert_empty<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) {
    match sub.try_recv() {
        Err(TryRecvError::Empty) => {}
        Err(TryRecvError::Closed(closed)) => panic!("expected an open subscription: {closed}"),
        Ok(got) => panic!("expected nothing to receive, got {}", name_of(&got)),
    }
}

/// `sub` must have ended.
pub(crate) fn assert_closed<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) -> Closed {
    match sub.try_recv() {
        Err(TryRecvError::Closed(closed)) => closed,
        Err(TryRecvError::Empty) => panic!("expected a closed subscription, it is open and empty"),
        Ok(got) => panic!("expected a closed subscription, got {}", name_of(&got)),
    }
}

/// The sequence numbers of all events that are there now; anything but an event fails.
pub(crate) fn drain<K: Key, T: Send + Sync + 'static>(sub: &mut Subscription<K, T>) -> Vec<u64> {
    let mut seqs = Vec::new();
    while let Ok(received) = sub.try_recv() {
        seqs.push(event(received).seq());
    }
    seqs
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, without any runtime; fails instead of hanging.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    let end = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nobody woke the future");
        thread::park_timeout(left);
    }
}

/// Runs `work` on a thread of its own; a deadlock fails the test instead of hanging it.
pub(crate) fn within_limit<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    within_limit_on_stack(2 << 20, work)
}

/// [`within_limit`] with a stack of so many bytes.
pub(crate) fn within_limit_on_stack<R: Send + 'static>(stack: usize, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel::<()>();
    let worker = thread::Builder::new()
        .stack_size(stack)
        .spawn(move || {
            // Dropped, and so told, also when `work` panics.
            let _done = done;
            work()
        })
        .expect("a thread can be spawned");
    assert_ne!(wait.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Timeout), "deadlock: not done within {LIMIT:?}");
    worker.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Counts how often each of a fixed number of payloads was dropped.
pub(crate) struct Ledger {
    dropped: AtomicUsize,
    drops: Vec<AtomicUsize>,
}

impl Ledger {
    pub(crate) fn new(payloads: usize) -> Arc<Self> {
        Arc::new(Self { dropped: AtomicUsize::new(0), drops: (0..payloads).map(|_| AtomicUsize::new(0)).collect() })
    }

    /// The payload with this number; make each only once.
    pub(crate) fn payload(self: &Arc<Self>, number: usize) -> Counted {
        Counted { number, ledger: Arc::clone(self) }
    }

    /// How many payloads were dropped so far.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Every payload must have been dropped, and none twice.
    pub(crate) fn assert_each_dropped_once(&self) {
        for (number, drops) in self.drops.iter().enumerate() {
            assert_eq!(drops.load(Ordering::SeqCst), 1, "drops of payload {number}");
        }
    }
}

/// A payload that enters its drop into a [`Ledger`]; not `Clone`.
pub(crate) struct Counted {
    pub(crate) number: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.drops[self.number].fetch_add(1, Ordering::SeqCst);
        self.ledger.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
