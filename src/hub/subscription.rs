//! One reader of one key.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::{
    RelayHandle,
    extra::{Extra, Slow, Snapshot, Untold},
    filter::Predicate,
    shared::{FirstPanic, Shared},
    topic::TopicArc,
    waiting::{Finding, Parking, Recv},
    watch::Watch,
};
use crate::{
    CloseReason, Closed, Event, Gap, GapCause, Key, Position, Received, ReceivedRef, RecvTimeoutError, TryRecvError,
    buffer::reader::{Reader, Step, Taker},
    sync::{Arc, PlainArc},
    trace,
    wake::Lane,
};

/// One reader of one key; from [`Hub::subscribe`](crate::Hub::subscribe) and its kin. Dropping it unsubscribes; a panic of the drop of
/// a waker, payload or key surfaces from that when the reader has left.
///
/// All ways to read may be mixed: [`recv`](Self::recv) and the other futures, [`recv_blocking`](Self::recv_blocking) for threads,
/// [`try_recv`](Self::try_recv), and `Stream`. A loss is a value ([`Received::Gap`]) and not an end; only [`Closed`] is one.
///
/// ```
/// use keywake::{Received, Start};
/// let (mut publisher, hub) = keywake::hub::<String, &str>();
/// let mut reader = hub.subscribe("sea");
/// publisher.publish("sea", "wave");
/// match reader.recv_blocking() {
///     Ok(Received::Event(event)) => assert_eq!(*event, "wave"),
///     Ok(Received::Gap(gap)) => println!("lost {gap:?}"),
///     Ok(_) => {}
///     Err(closed) => println!("{closed}"),
/// }
/// ```
pub struct Subscription<K: Key, T: Send + Sync + 'static> {
    pub(super) shared: Arc<Shared<K, T>>,
    /// `tag` holds its `Parking`, `run` its results in a row.
    pub(super) reader: Reader<TopicArc<K, T>, T>,
    /// What most subscriptions do not have.
    pub(super) extra: Option<Box<Extra<K, T>>>,
}

/// A step with what it needs of the snapshot.
pub(super) enum Found {
    Step,
    SnapshotItem(usize),
    SnapshotEnd(Position),
    Gap(Gap),
}

impl<K: Key, T: Send + Sync + 'static> Subscription<K, T> {
    pub(crate) fn new(shared: Arc<Shared<K, T>>, mut reader: Reader<TopicArc<K, T>, T>, gap: Option<Untold>) -> Self {
        reader.tag = Parking::new(Lane::Task).0;
        let extra = gap.map(|gap| Box::new(Extra { gap: Some(gap), ..Extra::default() }));
        Self { shared, reader, extra }
    }

    /// A subscription that ends at once.
    pub(crate) fn refused(
        shared: Arc<Shared<K, T>>,
        reader: Reader<TopicArc<K, T>, T>,
        came: Position,
        reason: CloseReason,
    ) -> Self {
        let mut refused = Self::new(shared, reader, None);
        refused.extra = Some(Box::new(Extra { closed: Some(Closed::new(reason)), ended_at: Some(came), ..Extra::default() }));
        refused
    }

    /// With a predicate, before anything was received.
    pub(crate) fn chosen_by(mut self, predicate: Predicate<T>) -> Self {
        if !self.is_refused() {
            let watch = Watch::new(&self.shared, self.topic(), predicate);
            self.extra.get_or_insert_default().watch = Some(watch);
        }
        self
    }

    /// Whether it was over before it began.
    pub(crate) fn is_refused(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.ended_at.is_some())
    }

    pub(crate) fn topic(&self) -> &TopicArc<K, T> {
        self.reader.home()
    }

    /// Puts a snapshot before what follows it.
    pub(crate) fn follow_snapshot(
        &mut self,
        items: PlainArc<[Event<T>]>,
        end: Position,
        reader: Reader<TopicArc<K, T>, T>,
        gap: Option<Untold>,
    ) {
        let tag = std::mem::replace(&mut self.reader, reader).tag;
        self.reader.tag = tag;
        self.extra = Some(Box::new(Extra { snapshot: Some(Snapshot { items, next: 0, end, gap }), ..Extra::default() }));
    }

    /// Has its waiting tasks woken by this relay, and by no other: for programs with several runtimes. A relay that is gone, or was never
    /// polled, is as none: publishers wake by themselves then. More than 62 relays on one key, those
    /// that are gone counted, or one of another hub: as if this had not been called.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let relay = hub.relay(); // to be spawned on the runtime that reads
    /// let mut reader = hub.subscribe("key").on(&relay.handle());
    /// publisher.publish("key", 1);
    /// assert!(reader.try_recv().is_ok());
    /// ```
    #[must_use]
    pub fn on(mut self, relay: &RelayHandle) -> Self {
        if relay.hub == Arc::as_ptr(&self.shared.pulse).addr() {
            if let Some(lane) = self.topic().waiters.bind(relay.relay) {
                self.unpark();
                self.give_slot_back();
                self.reader.tag = Parking::new(lane).0;
            }
        }
        self
    }

    /// Says what this reader gets when it does not keep up: [`Slow::Gap`] unless set. It may be set anew at any time, and applies to what
    /// is received from then on.
    ///
    /// * With [`Slow::Latest`], a reader that finds more than one event unread receives one [`Gap`] and then the newest event. (One that
    ///   came after the gap was told waits for the next call.) `missed` is the number of events skipped, those that retention had
    ///   taken before included. A loss that the source told of is not hidden by it: where one lies in the range, the gap has that one's
    ///   cause, and `missed` is not known; where one lies behind the newest event, it is told after it.
    /// * With [`Slow::Close`], a reader from which retention took events receives [`Closed`] with [`CloseReason::SlowReader`], and the
    ///   subscription is over: it has left its key, and holds no memory of it. [`position`](Self::position) is that of the last event
    ///   received, which is safe to come back with. What was lost already when the subscription began is told as a gap, not as an end: who
    ///   comes back is not closed again for what closed it before.
    ///
    /// # Examples
    /// ```
    /// use keywake::{CloseReason, GapCause, Received, Slow, TryRecvError};
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_events(4).build();
    /// let mut latest = hub.subscribe("price").slow(Slow::Latest);
    /// let mut strict = hub.subscribe("price").slow(Slow::Close);
    /// publisher.publish_batch((1..=100).map(|number| ("price".to_owned(), number)));
    /// let Ok(Received::Gap(gap)) = latest.try_recv() else { panic!("a gap") };
    /// assert_eq!((gap.cause, gap.missed), (GapCause::Conflated, Some(99)));
    /// assert!(matches!(latest.try_recv(), Ok(Received::Event(event)) if *event == 100));
    /// let Err(TryRecvError::Closed(closed)) = strict.try_recv() else { panic!("the end") };
    /// assert_eq!(closed.reason(), &CloseReason::SlowReader);
    /// assert_eq!(strict.position().seq(), 0, "nothing was received");
    /// ```
    #[must_use]
    pub fn slow(mut self, slow: Slow) -> Self {
        if self.extra.is_some() || slow != Slow::Gap {
            let extra = self.extra.get_or_insert_default();
            extra.slow = slow;
            extra.is_due = false;
            self.forget_extra();
        }
        self
    }

    /// Receives the next thing, waiting for it.
    ///
    /// # Errors
    /// [`Closed`], for good, once the key or the hub is closed and what was buffered has been received.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped: the place in the buffer moves only when it is ready.
    ///
    /// # Panics
    /// If the drop of a payload that this reader was the last to hold does, or the waker's `Clone`, `Drop` or `wake`: nothing is lost by
    /// it, and the next call goes on.
    ///
    /// # Memory ordering
    /// What the publishing thread did before it published happens-before the receipt of the event; and what was done before a
    /// [`close`](crate::Hub::close), before that of [`Closed`].
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// let (mut publisher, hub) = keywake::hub::<u8, &str>();
    /// let mut reader = hub.subscribe(&7);
    /// publisher.publish(&7, "hello");
    /// let Ok(keywake::Received::Event(event)) = reader.recv().await else { panic!("an event") };
    /// assert_eq!(*event, "hello");
    /// # });
    /// ```
    pub fn recv(&mut self) -> Recv<'_, K, T> {
        Recv(Finding { subscription: self })
    }

    /// As [`recv`](Self::recv), in the form of a poll. The waker of the last call is the one that is woken.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// There is no future to drop: after `Pending` the waker stays with the subscription until it is woken, another call that waits
    /// replaces it, or the subscription is dropped. Nothing is lost by not calling again.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// In a future of one's own:
    /// ```
    /// # use std::task::Waker;
    /// use std::task::{Context, Poll};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(reader.poll_recv(&mut cx).is_pending());
    /// publisher.publish("key", 1); // wakes the task of `cx`
    /// assert!(matches!(reader.poll_recv(&mut cx), Poll::Ready(Ok(keywake::Received::Event(event))) if *event == 1));
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received<T>, Closed>> {
        if self.extra.is_some() {
            return self.poll_found(cx).map(|found| found.map(|found| self.own(found)));
        }
        // The same in one, which is what most readers do all day.
        self.poll_with(cx, |this| match this.reader.advance() {
            Step::Event => this.reader.own().map(|event| Ok(Received::Event(event))),
            Step::Empty => None,
            step => Some(this.find_slow(step).map(|found| this.own(found))),
        })
    }

    /// Receives the next thing if it is there. Takes no lock but when it begins on a block that its last one does not lead to.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if it is not, [`TryRecvError::Closed`] if nothing will come.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, TryRecvError};
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// assert!(matches!(reader.try_recv(), Err(TryRecvError::Empty)));
    /// publisher.publish("key", 1);
    /// let Ok(Received::Event(event)) = reader.try_recv() else { panic!("an event") };
    /// drop(reader);
    /// assert_eq!(*event, 1, "it is owned: it stays for as long as it is wanted");
    /// ```
    #[inline]
    pub fn try_recv(&mut self) -> Result<Received<T>, TryRecvError> {
        match self.find() {
            Some(Ok(found)) => Ok(self.own(found)),
            Some(Err(closed)) => Err(TryRecvError::Closed(closed)),
            None => Err(TryRecvError::Empty),
        }
    }

    /// As [`try_recv`](Self::try_recv), without a reference count: the event is lent until the next call.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::ReceivedRef;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish_batch((1..=4).map(|number| ("key".to_owned(), number)));
    /// let mut sum = 0;
    /// while let Ok(received) = reader.try_recv_ref() {
    ///     if let ReceivedRef::Event(event) = received {
    ///         sum += *event;
    ///     }
    /// }
    /// assert_eq!(sum, 10);
    /// ```
    #[inline]
    pub fn try_recv_ref(&mut self) -> Result<ReceivedRef<'_, T>, TryRecvError> {
        match self.find() {
            Some(Ok(found)) => Ok(self.lend(found)),
            Some(Err(closed)) => Err(TryRecvError::Closed(closed)),
            None => Err(TryRecvError::Empty),
        }
    }

    /// As [`recv`](Self::recv), without a reference count: the event is lent until the next call.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// use keywake::ReceivedRef;
    /// let (mut publisher, hub) = keywake::hub::<String, Vec<u8>>();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish("key", b"hello".to_vec());
    /// if let ReceivedRef::Event(event) = reader.recv_ref().await? {
    ///     assert_eq!(event.len(), 5);
    /// }
    /// # Ok::<_, keywake::Closed>(()) }).unwrap();
    /// ```
    pub async fn recv_ref(&mut self) -> Result<ReceivedRef<'_, T>, Closed> {
        let found = Finding { subscription: self }.await?;
        Ok(self.lend(found))
    }

    /// Waits for at least one thing, then takes what is there, up to `max`; appends to `buffer`. The answer is how many were
    /// appended; 0 only for a `max` of 0, at once.
    ///
    /// # Errors
    /// As [`recv`](Self::recv); nothing was appended then.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped: it waits for the first thing only, and appends when it is ready.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     match pin!(f).poll(&mut Context::from_waker(Waker::noop())) { Poll::Ready(r) => r, Poll::Pending => panic!("not ready") }
    /// # }
    /// # block_on(async {
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish_batch((1..=100).map(|number| ("key".to_owned(), number)));
    /// let mut buffer = Vec::new();
    /// assert_eq!(reader.recv_many(&mut buffer, 64).await?, 64);
    /// assert_eq!(reader.recv_many(&mut buffer, 64).await?, 36); // what is there; it does not wait for more
    /// assert_eq!(buffer.len(), 100);
    /// # Ok::<_, keywake::Closed>(()) }).unwrap();
    /// ```
    pub async fn recv_many(&mut self, buffer: &mut Vec<Received<T>>, max: usize) -> Result<usize, Closed> {
        if max == 0 {
            return Ok(0);
        }
        let found = Finding { subscription: self }.await?;
        buffer.push(self.own(found));
        let mut received = 1;
        while received < max {
            // An end is told by the next call.
            let Some(Ok(found)) = self.find() else { break };
            buffer.push(self.own(found));
            received += 1;
        }
        Ok(received)
    }

    /// As [`recv`](Self::recv), blocking the thread. Not for the threads of an executor.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use keywake::Received;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// let thread = std::thread::spawn(move || {
    ///     let mut sum = 0;
    ///     while let Ok(received) = reader.recv_blocking() {
    ///         if let Received::Event(event) = received {
    ///             sum += *event;
    ///         }
    ///     }
    ///     sum
    /// });
    /// publisher.publish("key", 1);
    /// publisher.publish("key", 2);
    /// drop(publisher); // the end of the loop
    /// assert_eq!(thread.join().expect("it does not panic"), 3);
    /// ```
    pub fn recv_blocking(&mut self) -> Result<Received<T>, Closed> {
        let Some(found) = self.block_until(None)? else { unreachable!("without a deadline there is no time-out") };
        Ok(self.own(found))
    }

    /// As [`recv_blocking`](Self::recv_blocking), for at most this long. A `timeout` beyond what the clock can hold is for ever.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] if nothing came, [`RecvTimeoutError::Closed`] as [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Memory ordering
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use keywake::RecvTimeoutError;
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// let nothing = reader.recv_timeout(Duration::from_millis(1));
    /// assert!(matches!(nothing, Err(RecvTimeoutError::Timeout)));
    /// publisher.publish("key", 1);
    /// assert!(reader.recv_timeout(Duration::ZERO).is_ok(), "what is there is received without a wait");
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Received<T>, RecvTimeoutError> {
        match self.block_until(Instant::now().checked_add(timeout)) {
            Ok(Some(found)) => Ok(self.own(found)),
            Ok(None) => Err(RecvTimeoutError::Timeout),
            Err(closed) => Err(RecvTimeoutError::Closed(closed)),
        }
    }

    /// The highest position up to which this reader provably missed nothing: of the last event received or loss told while more is
    /// unread, the hub's published position once all is read. It moves without events, so that a quiet reader does not carry an old
    /// number; [`Start::After`](crate::Start::After) it is exact. Before the first receive, with something unread, it is that of the key's
    /// last event before the subscription. While a gap that the subscription began with is still to be received, it
    /// is the position that it began with; until the end of a snapshot was received, it is before everything.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish("key", 1);
    /// assert_eq!(reader.position().seq(), 0, "an event is unread");
    /// assert!(reader.try_recv().is_ok());
    /// publisher.publish("another", 2);
    /// assert_eq!(reader.position().seq(), 2, "of this key nothing was missed up to there");
    /// // What a client keeps, and comes back with.
    /// let kept = reader.position().to_string();
    /// let again = hub.subscribe_from("key", keywake::Start::After(kept.parse()?));
    /// assert_eq!(again.lag(), 0);
    /// # Ok::<_, keywake::ParsePositionError>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        // First: what is appended later than this may be unread, and is not covered.
        let completed = self.shared.pulse.progress.completed();
        let state = self.topic().chain.word.observe();
        let (next, seq) = self.stands();
        let reads_all = next >= state.count();
        let epoch = self.shared.config.epoch;
        if let Some(position) = self.extra.as_ref().and_then(|extra| extra.position(epoch)) {
            return position;
        }
        let seq = if !reads_all {
            seq
        } else if state.is_dead() {
            // What the hub published later, this key's reader may have missed.
            self.topic().ending().map_or(0, |ending| ending.seq).max(seq)
        } else {
            completed.max(seq)
        };
        Position::new(epoch, seq)
    }

    /// How many retained events of the key this reader has not received. Takes no lock. A loss told by a source counts as one.
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// publisher.publish("key", 1);
    /// publisher.publish("key", 2);
    /// assert_eq!(reader.lag(), 2);
    /// assert!(reader.try_recv().is_ok());
    /// assert_eq!(reader.lag(), 1);
    /// ```
    #[must_use]
    pub fn lag(&self) -> u64 {
        if self.has_left() { 0 } else { self.topic().chain.lag(self.stands().0) }
    }

    /// The number of the next entry that it looks at, and the seq before it.
    fn stands(&self) -> (u64, u64) {
        let away = self.extra.as_ref().and_then(|extra| extra.watch.as_ref()?.stands());
        away.unwrap_or_else(|| (self.reader.next(), self.reader.seq()))
    }

    fn has_left(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.has_left)
    }

    /// The key.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// assert_eq!(hub.subscribe("key").key(), "key");
    /// # drop(publisher);
    /// ```
    #[must_use]
    pub fn key(&self) -> &K {
        self.topic().key()
    }

    /// Why it ended, once it did: after `Err(Closed)`, or `None` of the stream.
    ///
    /// # Examples
    /// ```
    /// use keywake::CloseReason;
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let mut reader = hub.subscribe("key");
    /// drop(publisher);
    /// assert_eq!(reader.close_reason(), None, "not before it was received");
    /// while reader.try_recv().is_ok() {}
    /// assert_eq!(reader.close_reason(), Some(&CloseReason::PublisherDropped));
    /// ```
    #[must_use]
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.extra.as_ref()?.closed.as_ref().map(Closed::reason)
    }

    /// The next thing; `None`: nothing now.
    #[inline]
    pub(super) fn find(&mut self) -> Option<Result<Found, Closed>> {
        self.find_within(u32::MAX)
    }

    /// The same, but `None` also after looking at `most` events that a predicate rejects: `is_tired` then.
    #[inline]
    pub(super) fn find_within(&mut self, most: u32) -> Option<Result<Found, Closed>> {
        if self.extra.is_some() { self.find_with_extra(most) } else { self.find_next() }
    }

    #[inline]
    fn find_next(&mut self) -> Option<Result<Found, Closed>> {
        match self.reader.advance() {
            Step::Event => Some(Ok(Found::Step)),
            Step::Empty => None,
            step => Some(self.find_slow(step)),
        }
    }

    #[inline(never)]
    fn find_with_extra(&mut self, most: u32) -> Option<Result<Found, Closed>> {
        let found = self.find_extra();
        if found.is_some() {
            return found;
        }
        if let Some(extra) = &mut self.extra {
            if extra.watch.is_some() {
                return self.find_chosen(most);
            }
            if extra.slow == Slow::Latest && !std::mem::take(&mut extra.is_due) {
                if let Some(lost) = self.reader.conflate() {
                    return Some(self.find_slow(Step::Lost(lost)));
                }
            }
        }
        self.find_next()
    }

    #[cold]
    pub(super) fn find_slow(&mut self, step: Step) -> Result<Found, Closed> {
        let gap = match step {
            Step::Lost(lost) => {
                if let Some(extra) = &mut self.extra {
                    if extra.slow == Slow::Close && lost.taker == Taker::Retention {
                        return Err(self.end_early(lost.from, CloseReason::SlowReader));
                    }
                    extra.is_due = lost.taker == Taker::Conflation;
                }
                self.shared.gap(lost)
            }
            Step::Mark { from, to } => self.shared.gap_of_mark(from, to),
            Step::Closed => {
                let reason = self.topic().ending().map_or(CloseReason::Shutdown, |ending| ending.reason.clone());
                return Err(self.end(reason));
            }
            Step::Event | Step::Empty => return Ok(Found::Step),
        };
        self.tell(&gap);
        Ok(Found::Gap(gap))
    }

    pub(super) fn tell(&self, gap: &Gap) {
        self.shared.pulse.tallies.gaps.add(1);
        self.shared.pulse.count(self.topic(), |counts| &counts.gaps);
        // A reader that conflates is told of gaps about as often as of events.
        if gap.cause != GapCause::Conflated {
            trace::gap_told(gap);
        }
    }

    fn end(&mut self, reason: CloseReason) -> Closed {
        let closed = Closed::new(reason);
        self.extra.get_or_insert_default().closed = Some(closed.clone());
        closed
    }

    /// Ends by what happened to this reader alone, at this seq. The topic is left first, so that whoever keeps hold of a subscription that
    /// is over keeps nothing else.
    #[cold]
    pub(super) fn end_early(&mut self, seq: u64, reason: CloseReason) -> Closed {
        let closed = self.end(reason);
        let position = Position::new(self.shared.config.epoch, seq);
        trace::ended_early(closed.reason(), position);
        let extra = self.extra.get_or_insert_default();
        extra.ended_at = Some(position);
        extra.has_left = true;
        self.leave();
        closed
    }

    /// Leaves the topic.
    fn leave(&mut self) {
        // The drop of a waker or predicate is user code, and must not keep the reader from leaving.
        let mut panics = FirstPanic::default();
        if let Some(mut watch) = self.extra.as_mut().and_then(|extra| extra.watch.take()) {
            let is_here = watch.leave(&mut self.reader, &mut panics);
            panics.run(|| drop(watch));
            if !is_here {
                return panics.go_on();
            }
        }
        // Most readers that leave at once have neither.
        let has_slot = self.has_slot();
        if has_slot {
            panics.run(|| self.unpark());
        }
        if self.reader.has_block() {
            panics.run(|| self.reader.leave());
        }
        if has_slot {
            panics.run(|| self.give_slot_back());
        }
        if let Some(later) = self.shared.registry.leave(self.topic()) {
            self.shared.settle_quietly(later, &mut panics);
        }
        panics.go_on();
    }

    fn forget_extra(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_plain()) {
            self.extra = None;
        }
    }

    /// What comes before the topic's events, or the end.
    fn find_extra(&mut self) -> Option<Result<Found, Closed>> {
        let extra = self.extra.as_mut()?;
        if let Some(closed) = &extra.closed {
            return Some(Err(closed.clone()));
        }
        if let Some(snapshot) = &mut extra.snapshot {
            if snapshot.next < snapshot.items.len() {
                snapshot.next += 1;
                return Some(Ok(Found::SnapshotItem(snapshot.next - 1)));
            }
            let end = snapshot.end;
            extra.gap = snapshot.gap.take();
            extra.snapshot = None;
            self.forget_extra();
            return Some(Ok(Found::SnapshotEnd(end)));
        }
        let Untold { gap, .. } = extra.gap.take()?;
        self.forget_extra();
        self.tell(&gap);
        Some(Ok(Found::Gap(gap)))
    }

    #[inline]
    fn own(&mut self, found: Found) -> Received<T> {
        match found {
            Found::Step => match self.reader.own() {
                Some(event) => Received::Event(event),
                None => unreachable!("a step that found an event stands at it"),
            },
            Found::SnapshotItem(index) => Received::Event(self.snapshot_item(index).clone()),
            Found::SnapshotEnd(end) => Received::SnapshotEnd(end),
            Found::Gap(gap) => Received::Gap(gap),
        }
    }

    #[inline]
    fn lend(&self, found: Found) -> ReceivedRef<'_, T> {
        match found {
            Found::Step => match self.reader.lend() {
                Some(event) => ReceivedRef::Event(event),
                None => unreachable!("a step that found an event stands at it"),
            },
            Found::SnapshotItem(index) => ReceivedRef::Event(self.snapshot_item(index).lend()),
            Found::SnapshotEnd(end) => ReceivedRef::SnapshotEnd(end),
            Found::Gap(gap) => ReceivedRef::Gap(gap),
        }
    }

    fn snapshot_item(&self, index: usize) -> &Event<T> {
        match self.extra.as_ref().and_then(|extra| extra.snapshot.as_ref()) {
            Some(snapshot) => &snapshot.items[index],
            None => unreachable!("a snapshot stays until its end is told"),
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Subscription<K, T> {
    fn drop(&mut self) {
        if !self.has_left() {
            self.leave();
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> futures_core::Stream for Subscription<K, T> {
    type Item = Received<T>;

    /// Ends when the key or the hub is closed; [`Subscription::close_reason`] says why.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Received<T>>> {
        self.poll_recv(cx).map(Result::ok)
    }
}

// Nothing points into it.
impl<K: Key, T: Send + Sync + 'static> Unpin for Subscription<K, T> {}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Subscription<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("position", &self.position()).field("lag", &self.lag()).finish_non_exhaustive()
    }
}
