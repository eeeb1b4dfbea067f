//! How a subscription waits: parked as a task, or with its thread blocked.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use super::{
    shared::{FirstPanic, Shared},
    subscription::{Found, Subscription},
    topic::TopicArc,
    watch::Watch,
};
use crate::{
    Closed, Key, Received,
    sync::{Arc, PlainArc, thread},
    wake::{FilterLane, Lane, SlotId},
};

#[cfg(not(feature = "tokio"))]
/// Results in a row after which a reader lets others run once.
const RUN: u8 = 128;
/// Events that a reader's predicate rejects in a row after which it lets others run once.
const LOOKS: u32 = 1024;

/// The lane that a reader parks in as a task, its slot there if it has one, and whether it is known to be parked there.
///
/// ```text
///   bit 31       PARKED
///   bit 30       USED    the slot was parked in before
///   bit 29       BOUND   bits 23..29 are the number of the relay's lane, and the slot has bits 0..23; otherwise it has bits 0..29
/// ```
/// All bits of the slot set: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parking(pub(super) u32);

impl Parking {
    const PARKED: u32 = 1 << 31;
    const USED: u32 = 1 << 30;
    const BOUND: u32 = 1 << 29;
    const LANE_SHIFT: u32 = 23;
    const SLOT: u32 = Self::BOUND - 1;
    const BOUND_SLOT: u32 = (1 << Self::LANE_SHIFT) - 1;

    /// Without a slot.
    pub(super) fn new(lane: Lane) -> Self {
        match lane {
            Lane::Bound(number) => Self(Self::BOUND | u32::from(number) << Self::LANE_SHIFT | Self::BOUND_SLOT),
            Lane::Task | Lane::Thread => Self(Self::SLOT),
        }
    }

    #[inline]
    fn slot_mask(self) -> u32 {
        if self.0 & Self::BOUND == 0 { Self::SLOT } else { Self::BOUND_SLOT }
    }

    #[inline]
    pub(super) fn lane(self) -> Lane {
        if self.0 & Self::BOUND == 0 {
            return Lane::Task;
        }
        let number = (self.0 & Self::SLOT) >> Self::LANE_SHIFT;
        u8::try_from(number).map_or(Lane::Task, Lane::Bound)
    }

    #[inline]
    pub(super) fn slot(self) -> Option<SlotId> {
        let number = self.0 & self.slot_mask();
        (number != self.slot_mask()).then(|| SlotId::from_number(number))
    }

    /// With this slot. `None`: its number is too large to be kept.
    fn with_slot(self, slot: SlotId) -> Option<Self> {
        (slot.number() < self.slot_mask()).then(|| Self(self.0 & !self.slot_mask() | slot.number()))
    }

    fn is_parked(self) -> bool {
        self.0 & Self::PARKED != 0
    }
}

impl<K: Key, T: Send + Sync + 'static> Subscription<K, T> {
    pub(super) fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<Result<Found, Closed>> {
        self.poll_with(cx, |this| this.find_within(LOOKS))
    }

    /// What `find` gives; where it gives nothing, parks.
    #[inline]
    #[cfg_attr(not(feature = "tokio"), expect(clippy::needless_pass_by_ref_mut, reason = "tokio's budget takes the context so"))]
    pub(super) fn poll_with<R>(&mut self, cx: &mut Context<'_>, mut find: impl FnMut(&mut Self) -> Option<R>) -> Poll<R> {
        // A reader that always finds something must let the others of its thread run.
        #[cfg(feature = "tokio")]
        let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        #[cfg(not(feature = "tokio"))]
        if self.reader.run >= RUN {
            self.reader.run = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(found) = find(self) {
                #[cfg(feature = "tokio")]
                budget.made_progress();
                #[cfg(not(feature = "tokio"))]
                {
                    self.reader.run += 1;
                }
                return Poll::Ready(found);
            }
            if self.watch().is_some_and(|watch| watch.is_tired) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.park(cx.waker()) {
                #[cfg(not(feature = "tokio"))]
                {
                    self.reader.run = 0;
                }
                return Poll::Pending;
            }
        }
    }

    fn watch(&mut self) -> Option<&mut Watch<K, T>> {
        self.extra.as_mut()?.watch.as_mut()
    }

    /// Parks, having read all. False: something came.
    fn park(&mut self, waker: &Waker) -> bool {
        if self.extra.is_some() {
            if let Some(is_parked) = self.park_watching(FilterLane::Tasks, waker) {
                return is_parked;
            }
        }
        let parking = Parking(self.reader.tag);
        let (parking, slot) = parking.slot().map_or_else(|| self.take_slot(parking), |slot| (parking, slot));
        // Before anything of the user's runs: whatever it does, the slot is ours to give back.
        self.reader.tag = parking.0 | Parking::USED | Parking::PARKED;
        let is_first = parking.0 & Parking::USED == 0;
        let topic = self.reader.home();
        let is_parked = topic.waiters.park(parking.lane(), slot, is_first, &topic.chain.word, self.reader.next(), waker);
        if !is_parked {
            self.reader.tag &= !Parking::PARKED;
        }
        is_parked
    }

    /// As `park`; `None`: it has no predicate.
    fn park_watching(&mut self, lane: FilterLane, waker: &Waker) -> Option<bool> {
        let Self { reader, extra, .. } = self;
        let watch = extra.as_mut()?.watch.as_mut()?;
        Some(watch.park(reader, lane, waker))
    }

    #[cold]
    fn take_slot(&self, parking: Parking) -> (Parking, SlotId) {
        let waiters = &self.topic().waiters;
        let slot = waiters.take_slot(parking.lane());
        if let Some(parking) = parking.with_slot(slot) {
            return (parking, slot);
        }
        // Eight million readers are bound to this relay: further ones are as bound to none, of which there may be 2^29.
        waiters.return_slot(parking.lane(), slot);
        let slot = waiters.take_slot(Lane::Task);
        let Some(parking) = Parking::new(Lane::Task).with_slot(slot) else { unreachable!("slots are fewer than 2^28") };
        (parking, slot)
    }

    /// Takes the waker back, if it is still there.
    pub(super) fn unpark(&mut self) {
        let Self { reader, extra, .. } = self;
        if let Some(watch) = extra.as_mut().and_then(|extra| extra.watch.as_mut()) {
            return watch.unpark(reader);
        }
        let parking = Parking(self.reader.tag);
        if !parking.is_parked() {
            return;
        }
        self.reader.tag &= !Parking::PARKED;
        if let Some(slot) = parking.slot() {
            self.topic().waiters.unpark(parking.lane(), slot);
        }
    }

    /// Whether it has a slot as a task, as it has from when it first parked.
    pub(super) fn has_slot(&self) -> bool {
        Parking(self.reader.tag).slot().is_some()
    }

    /// Gives the slot back, out of which the waker was taken.
    pub(super) fn give_slot_back(&mut self) {
        let parking = Parking(self.reader.tag);
        if let Some(slot) = parking.slot() {
            self.reader.tag = Parking::new(parking.lane()).0;
            self.topic().waiters.return_slot(parking.lane(), slot);
        }
    }

    /// Blocks; `None` at the deadline.
    pub(super) fn block_until(&mut self, deadline: Option<Instant>) -> Result<Option<Found>, Closed> {
        if let Some(found) = self.find() {
            return found.map(Some);
        }
        // A waker of a task that waited here before is not needed any more.
        self.unpark();
        if self.watch().is_some() {
            return self.block_watching(deadline);
        }
        let mut blocked = Blocked::new(&self.shared, self.topic());
        loop {
            if let Some(found) = self.find() {
                return found.map(Some);
            }
            if !blocked.park(self.reader.next()) {
                continue;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match left {
                None => thread::park(),
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                Some(_) => {}
            }
            blocked.unpark();
            if left.is_some_and(|left| left.is_zero()) {
                // What came since the last look is received, and not timed out.
                return self.find().transpose();
            }
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> Subscription<K, T> {
    /// As `block_until`, with a predicate: what comes is offered to each such reader, so nobody hands anything on.
    fn block_watching(&mut self, deadline: Option<Instant>) -> Result<Option<Found>, Closed> {
        let waker = Waker::from(PlainArc::new(Unpark(thread::current())));
        loop {
            if let Some(found) = self.find() {
                return found.map(Some);
            }
            if self.park_watching(FilterLane::Threads, &waker) == Some(false) {
                continue;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                Some(_) => {
                    self.unpark();
                    // What came since the last look is received, and not timed out.
                    return self.find().transpose();
                }
            }
        }
    }
}

/// A blocked thread's place among those of its key, of which each that is woken wakes the next two. However it leaves: a wake that it was
/// given is handed on.
struct Blocked<K: Key, T: Send + Sync + 'static> {
    shared: Arc<Shared<K, T>>,
    topic: TopicArc<K, T>,
    slot: SlotId,
    waker: Waker,
    is_first: bool,
    is_parked: bool,
}

impl<K: Key, T: Send + Sync + 'static> Blocked<K, T> {
    fn new(shared: &Arc<Shared<K, T>>, topic: &TopicArc<K, T>) -> Self {
        Self {
            slot: topic.waiters.take_slot(Lane::Thread),
            shared: Arc::clone(shared),
            topic: Arc::clone(topic),
            waker: Waker::from(PlainArc::new(Unpark(thread::current()))),
            is_first: true,
            is_parked: false,
        }
    }

    /// False: something came.
    fn park(&mut self, count: u64) -> bool {
        let is_first = std::mem::take(&mut self.is_first);
        self.is_parked = true;
        if self.topic.waiters.park(Lane::Thread, self.slot, is_first, &self.topic.chain.word, count, &self.waker) {
            return true;
        }
        // It may have been taken out by a fan-out before it could be taken back.
        self.unpark();
        false
    }

    /// Takes the waker back; where it is gone, a wake was given, and is handed on.
    fn unpark(&mut self) {
        if std::mem::take(&mut self.is_parked) && !self.topic.waiters.unpark(Lane::Thread, self.slot) {
            let mut panics = FirstPanic::default();
            self.shared.pulse.hand_on(&self.topic, &mut panics);
            panics.go_on();
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Blocked<K, T> {
    fn drop(&mut self) {
        self.unpark();
        self.topic.waiters.return_slot(Lane::Thread, self.slot);
    }
}

/// Wakes a blocked thread.
pub(super) struct Unpark(pub(super) thread::Thread);

impl Wake for Unpark {
    fn wake(self: PlainArc<Self>) {
        self.0.unpark();
    }
}

/// The future of [`Subscription::recv`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Recv<'a, K: Key, T: Send + Sync + 'static>(pub(super) Finding<'a, K, T>);

impl<K: Key, T: Send + Sync + 'static> Future for Recv<'_, K, T> {
    type Output = Result<Received<T>, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.subscription.poll_recv(cx)
    }
}

/// What all the futures wait for.
pub(super) struct Finding<'a, K: Key, T: Send + Sync + 'static> {
    pub(super) subscription: &'a mut Subscription<K, T>,
}

impl<K: Key, T: Send + Sync + 'static> Future for Finding<'_, K, T> {
    type Output = Result<Found, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.subscription.poll_found(cx)
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Finding<'_, K, T> {
    fn drop(&mut self) {
        // A cancelled wait leaves no waker behind.
        self.subscription.unpark();
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Recv<'_, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}
