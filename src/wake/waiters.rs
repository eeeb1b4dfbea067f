//! Everybody who waits on a topic: tasks in slots at hand, all others in lanes made when first needed.

use std::{fmt, ptr, task::Waker};

use super::{
    filter::FilterRef,
    member::Member,
    members::{Members, Parking},
    rest::publish_once,
    row::{Budget, Parked, Put, Row, Target, Woken},
    slots::{Place, SlotId, Slots},
};
use crate::{
    buffer::word::{State, Waiting, Word},
    few::Few,
    sync::{Arc, AtomicPtr, AtomicU64, Ordering, Tally},
};

// SAFETY: `will_wake` compares two addresses.
unsafe impl Parked for Waker {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        self.will_wake(other)
    }

    fn again(&self) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake(self, _: &mut Few<Waker>) {
        self.wake();
    }
}

/// Wakes that a woken thread gives before it goes on: a crowd of N threads is awake after log2(N) steps.
const HAND_ON: usize = 2;
/// Relays that readers of one key can be bound to; further ones are served as those that are bound to none.
pub(crate) const BOUND: usize = 62;

/// Where a reader parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A task, woken by the relay that is there, or by the publisher.
    Task,
    /// A blocked thread, woken by the publisher or by another thread.
    Thread,
    /// A task of a reader that is bound to a relay: the number of the relay's lane here.
    Bound(u8),
}

/// Where a reader with a predicate parks. It is not woken, but offered what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterLane {
    /// It waits as a task: as a task is woken it is offered what came, and it is told of by the same bit of the word.
    Tasks,
    /// Its thread is blocked, and depends on no relay: by the publisher.
    Threads,
}

/// See the module.
pub(crate) struct Waiters {
    tasks: Slots<Waker>,
    more: AtomicPtr<More>,
}

/// The other lanes.
struct More {
    /// Which of them somebody may be parked in: bit 0 threads, bit 1 threads with a predicate, bit 2 + n the bound lane n.
    parked: AtomicU64,
    threads: Slots<Waker>,
    thread_filters: Slots<FilterRef>,
    /// Told of as tasks are.
    task_filters: Slots<FilterRef>,
    bound: AtomicPtr<BoundLane>,
    /// Told of by a bit of the topic's word, and not by `parked`.
    sets: Members,
    counts: Counts,
}

/// What was done for the readers of one key, where that is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) fan_outs: Tally,
    pub(crate) wakes: Tally,
    pub(crate) empty: Tally,
    pub(crate) fall_backs: Tally,
    pub(crate) coalesced: Tally,
    pub(crate) gaps: Tally,
}

/// Readers that are bound to one relay.
struct BoundLane {
    /// Of which relay.
    relay: u64,
    slots: Slots<Waker>,
    /// Bits 1..64: 1 + the count at which it was put onto the relay's list, where it still stands; 0: it does not. Bit 0, DIRTY: a
    /// publish came after that.
    queued: AtomicU64,
    next: AtomicPtr<Self>,
}

const THREADS: u64 = 1;
const THREAD_FILTERS: u64 = 2;

const DIRTY: u64 = 1;

const fn bound_bit(lane: u8) -> u64 {
    4 << lane
}

/// Bound lanes that the publisher found somebody in, to be told their relays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundLanes(u64);

impl Iterator for BoundLanes {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        u8::try_from(lane).ok()
    }
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { tasks: Slots::new(), more: AtomicPtr::new(ptr::null_mut()) }
    }

    fn more(&self) -> Option<&More> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let more = self.more.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { more.as_ref() }
    }

    fn more_or_make(&self) -> &More {
        publish_once(&self.more, || More {
            parked: AtomicU64::new(0),
            threads: Slots::new(),
            thread_filters: Slots::new(),
            task_filters: Slots::new(),
            bound: AtomicPtr::new(ptr::null_mut()),
            sets: Members::new(),
            counts: Counts::default(),
        })
    }

    /// For who counts.
    pub(crate) fn counts(&self) -> &Counts {
        &self.more_or_make().counts
    }

    /// For who reads what was counted.
    pub(crate) fn counted(&self) -> Option<&Counts> {
        self.more().map(|more| &more.counts)
    }

    fn slots(&self, lane: Lane) -> Option<&Slots<Waker>> {
        match lane {
            Lane::Task => Some(&self.tasks),
            Lane::Thread => self.more().map(|more| &more.threads),
            Lane::Bound(number) => self.more()?.lane(number).map(|lane| &lane.slots),
        }
    }

    /// The lane of readers that are bound to this relay. `None`: there are too many relays.
    pub(crate) fn bind(&self, relay: u64) -> Option<Lane> {
        let mut place = &self.more_or_make().bound;
        for number in 0..BOUND {
            let lane = publish_once(place, || BoundLane {
                relay,
                slots: Slots::new(),
                queued: AtomicU64::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
            });
            if lane.relay == relay {
                return u8::try_from(number).ok().map(Lane::Bound);
            }
            place = &lane.next;
        }
        None
    }

    /// Gives out a slot.
    pub(crate) fn take_slot(&self, lane: Lane) -> SlotId {
        if lane == Lane::Thread {
            return self.more_or_make().threads.take_slot();
        }
        self.slots(lane).unwrap_or(&self.tasks).take_slot()
    }

    /// Takes a slot back, out of which the waker was taken.
    pub(crate) fn return_slot(&self, lane: Lane, id: SlotId) {
        if let Some(slots) = self.slots(lane) {
            slots.return_slot(id);
        }
    }

    /// Parks a reader that has seen `count` events. False: something came meanwhile, and it is not parked.
    ///
    /// `first` says that this is the first time in this slot: it then tells of itself by read-modify-writes, so that a fan-out
    /// that finds it told has also seen the row that the slot lies in.
    #[inline]
    pub(crate) fn park(&self, lane: Lane, id: SlotId, first: bool, word: &Word, count: u64, waker: &Waker) -> bool {
        if lane == Lane::Task {
            if self.tasks.put(id, first, count, waker) == Put::Coming {
                return true;
            }
            if say_unless_told(word, first, count, Waiting::TASKS) {
                return true;
            }
            self.tasks.take(id);
            return false;
        }
        self.park_aside(lane, id, first, word, count, waker)
    }

    fn park_aside(&self, lane: Lane, id: SlotId, first: bool, word: &Word, count: u64, waker: &Waker) -> bool {
        let (Some(more), Some(slots)) = (self.more(), self.slots(lane)) else { return false };
        if slots.put(id, first, count, waker) == Put::Coming {
            return true;
        }
        more.mention(lane_bit(lane), first);
        if say_unless_told(word, first, count, Waiting::ASIDE) {
            return true;
        }
        slots.take(id);
        false
    }

    /// Takes a reader's waker out. False: it was not there any more: a wake was given, or is just being given.
    pub(crate) fn unpark(&self, lane: Lane, id: SlotId) -> bool {
        self.slots(lane).is_some_and(|slots| slots.take(id))
    }

    fn filters(&self, lane: FilterLane) -> &Slots<FilterRef> {
        let more = self.more_or_make();
        match lane {
            FilterLane::Tasks => &more.task_filters,
            FilterLane::Threads => &more.thread_filters,
        }
    }

    /// Gives out a slot for a reader with a predicate.
    pub(crate) fn take_filter_slot(&self, lane: FilterLane) -> SlotId {
        self.filters(lane).take_slot()
    }

    /// Takes it back; nothing lies there.
    pub(crate) fn return_filter_slot(&self, lane: FilterLane, id: SlotId) {
        self.filters(lane).return_slot(id);
    }

    /// As `park`, for a reader with a predicate that has looked at `count` events.
    pub(crate) fn park_filter(
        &self,
        lane: FilterLane,
        id: SlotId,
        first: bool,
        word: &Word,
        count: u64,
        filter: &FilterRef,
    ) -> bool {
        let more = self.more_or_make();
        let slots = self.filters(lane);
        if slots.put(id, first, count, filter) == Put::Coming {
            return true;
        }
        let waiting = if lane == FilterLane::Tasks {
            Waiting::TASKS
        } else {
            more.mention(THREAD_FILTERS, first);
            Waiting::ASIDE
        };
        if say_unless_told(word, first, count, waiting) {
            return true;
        }
        slots.take(id);
        false
    }

    /// Takes out what a reader with a predicate parked, if it still lies there.
    pub(crate) fn unpark_filter(&self, lane: FilterLane, id: SlotId) {
        self.filters(lane).take(id);
    }

    /// Wakes every task that was parked before and has something to read; once the topic is closed, every parked task.
    ///
    /// Any number of these may run at once: a slot is woken by the one that turns its P into H. No lock is held.
    #[cold]
    pub(crate) fn wake_tasks(&self, word: &Word, woken: &mut Woken) {
        loop {
            let target = target_of(word.take(Waiting::TASKS));
            woken.left = false;
            self.tasks.wake_behind(target, &mut Place::default(), Budget::UNLIMITED, woken);
            if let Some(more) = self.more() {
                offer_behind(&more.task_filters, target, &mut Place::default(), Budget::UNLIMITED, woken);
            }
            if !woken.left || say_left(word, Waiting::TASKS, target) {
                return;
            }
        }
    }

    /// One part of the same, for the relay: at most `budget` wakes and offers, by whole rows. The pass is made by `Pass::begin`.
    pub(crate) fn wake_some_tasks(&self, pass: &mut Pass, budget: usize, woken: &mut Woken) -> bool {
        woken.left = false;
        let mut is_through = pass.is_at_filters;
        let mut budget = Budget::in_rows(budget);
        if !is_through {
            let before = woken.wakes;
            is_through = self.tasks.wake_behind(pass.target, &mut pass.place, budget, woken);
            budget.spend(usize::try_from(woken.wakes - before).unwrap_or(usize::MAX));
        }
        if is_through {
            if let Some(more) = self.more() {
                pass.is_at_filters = true;
                is_through = offer_behind(&more.task_filters, pass.target, &mut pass.place, budget, woken);
            }
        }
        pass.left |= woken.left;
        is_through
    }

    /// Wakes one thread, which wakes the next, and tells which bound lanes somebody is parked in.
    #[cold]
    pub(crate) fn wake_aside(&self, word: &Word, woken: &mut Woken) -> BoundLanes {
        // First: whoever finds ASIDE by this finds the lanes. (The append that met it acquired nothing.)
        let state = word.take(Waiting::ASIDE);
        let Some(more) = self.more() else { return BoundLanes(0) };
        // AcqRel (pairs with `mention`): as the summary of a group, one level up.
        let lanes = more.parked.swap(0, Ordering::AcqRel);
        if lanes & THREADS != 0 {
            let budget = if state.is_closed() { Budget::UNLIMITED } else { Budget::exactly(1) };
            more.wake(&more.threads, THREADS, word, budget, woken);
        }
        if lanes & THREAD_FILTERS != 0 {
            let mut offered = Woken::default();
            more.wake(&more.thread_filters, THREAD_FILTERS, word, Budget::UNLIMITED, &mut offered);
            woken.add_offered(offered);
        }
        let bound = lanes & !(THREADS | THREAD_FILTERS);
        if bound != 0 {
            // They stay told until they are woken, so that a publish that finds their relay overdue comes here.
            // AcqRel (pairs with `begin_bound` and `wake_bound`): as `mention`.
            more.parked.fetch_or(bound, Ordering::AcqRel);
            word.say(Waiting::ASIDE);
        }
        BoundLanes(bound >> 2)
    }

    /// A thread that was woken, or that finds its waker gone as it leaves, wakes the next ones.
    pub(crate) fn hand_on(&self, word: &Word, woken: &mut Woken) {
        if let Some(more) = self.more() {
            more.wake(&more.threads, THREADS, word, Budget::exactly(HAND_ON), woken);
        }
    }

    /// Of which relay a bound lane is.
    pub(crate) fn relay_of(&self, lane: u8) -> Option<u64> {
        Some(self.more()?.lane(lane)?.relay)
    }

    /// Says that a bound lane is put onto its relay's list. `Err`: it stands there already, since this count.
    pub(crate) fn queue_bound(&self, lane: u8, count: u64) -> Result<(), u64> {
        let Some(lane) = self.more().and_then(|more| more.lane(lane)) else { return Ok(()) };
        // Relaxed: only a guess for the exchange below.
        let mut queued = lane.queued.load(Ordering::Relaxed);
        loop {
            let next = if queued == 0 { (count + 1) << 1 } else { queued | DIRTY };
            // AcqRel (pairs with `end_bound`): either it comes first, and we put the lane onto the list again; or it sees our event, and
            // goes over the lane again. Failure Relaxed: we look again.
            match lane.queued.compare_exchange_weak(queued, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(0) => return Ok(()),
                Ok(since) => return Err((since >> 1) - 1),
                Err(current) => queued = current,
            }
        }
    }

    /// The bound lane stands on no list after all.
    pub(crate) fn unqueue_bound(&self, lane: u8) {
        if let Some(lane) = self.more().and_then(|more| more.lane(lane)) {
            // AcqRel (pairs with `queue_bound`): see there.
            lane.queued.swap(0, Ordering::AcqRel);
        }
    }

    /// The relay begins a pass over a bound lane.
    pub(crate) fn begin_bound(&self, lane: u8, word: &Word) -> Pass {
        if let Some(more) = self.more() {
            // AcqRel (pairs with `mention`): as the swap in `wake_aside`: who parks after this says so again.
            more.parked.fetch_and(!bound_bit(lane), Ordering::AcqRel);
            if let Some(lane) = more.lane(lane) {
                // AcqRel (pairs with `queue_bound`): what was counted before it was called is in the count below.
                lane.queued.fetch_and(!DIRTY, Ordering::AcqRel);
            }
        }
        Pass { target: target_of(word.observe()), place: Place::default(), is_at_filters: false, left: false }
    }

    /// At most `budget` wakes of it, by whole rows. True: it is through.
    pub(crate) fn wake_some_bound(&self, lane: u8, pass: &mut Pass, budget: usize, woken: &mut Woken) -> bool {
        let Some(lane) = self.more().and_then(|more| more.lane(lane)) else { return true };
        woken.left = false;
        let is_through = lane.slots.wake_behind(pass.target, &mut pass.place, Budget::in_rows(budget), woken);
        pass.left |= woken.left;
        is_through
    }

    /// It is through. True: something came meanwhile, and the lane still counts as being on the list.
    pub(crate) fn end_bound(&self, lane: u8, pass: Pass, word: &Word) -> bool {
        let Some(more) = self.more() else { return false };
        let mut is_behind = false;
        if pass.left {
            // AcqRel (pairs with the swap in `wake_aside`): as `mention`.
            more.parked.fetch_or(bound_bit(lane), Ordering::AcqRel);
            is_behind = !say_left(word, Waiting::ASIDE, pass.target);
        }
        let Some(lane) = more.lane(lane) else { return false };
        if is_behind {
            return true;
        }
        // AcqRel (pairs with `queue_bound`): see there.
        let queued = lane.queued.swap(0, Ordering::AcqRel);
        if queued & DIRTY == 0 {
            return false;
        }
        // AcqRel (pairs with `queue_bound`): whoever was faster has put it onto the list. Failure Relaxed: nothing is done then.
        lane.queued.compare_exchange(0, queued, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Wakes the readers of a bound lane, as `wake_tasks`.
    pub(crate) fn wake_bound(&self, lane: u8, word: &Word, woken: &mut Woken) {
        if let Some(more) = self.more() {
            if let Some(bound) = more.lane(lane) {
                // AcqRel (pairs with `mention`): as in `begin_bound`. Where its relay is gone nobody else takes it off.
                more.parked.fetch_and(!bound_bit(lane), Ordering::AcqRel);
                more.wake(&bound.slots, bound_bit(lane), word, Budget::UNLIMITED, woken);
            }
        }
    }

    /// Gives out a slot for a member of a set.
    pub(crate) fn take_set_slot(&self) -> SlotId {
        self.more_or_make().sets.take_slot()
    }

    /// Takes it back; the member was taken out of it.
    pub(crate) fn return_set_slot(&self, id: SlotId) {
        if let Some(more) = self.more() {
            more.sets.return_slot(id);
        }
    }

    /// Parks a member whose set has seen `count` events. `first`: as for `park`.
    #[inline]
    pub(crate) fn park_member(&self, id: SlotId, first: bool, word: &Word, count: u64, member: &Arc<Member>) -> Parking {
        self.more().map_or(Parking::Busy, |more| more.sets.park(id, first, word, count, member))
    }

    /// Takes a member out, if it is still there.
    pub(crate) fn unpark_member(&self, id: SlotId) {
        if let Some(more) = self.more() {
            more.sets.unpark(id);
        }
    }

    /// Marks the members of sets that were parked before and have something to read; once the topic is closed, every parked one. `state` is
    /// that of the word when SETS was taken off. Those whose sets sleep put their wakers into `woken`: no user code runs. Who may
    /// call this, and when, is P2.
    pub(crate) fn mark(&self, state: State, word: &Word, woken: &mut Woken) {
        if let Some(more) = self.more() {
            more.sets.mark(state, word, woken);
        }
    }

    /// The count at which the topic was last given to the relay, or the relay last came by.
    pub(crate) fn note_queued(&self, count: u64) {
        self.tasks.spare().set(count);
    }

    /// How many events ago that is.
    pub(crate) fn queued_for(&self, count: u64) -> u64 {
        self.tasks.spare().until(count)
    }
}

/// A pass of the relay over a topic's tasks.
#[derive(Debug)]
pub(crate) struct Pass {
    target: Target,
    place: Place,
    /// Those who are just woken have been; now what came is offered to those with a predicate.
    is_at_filters: bool,
    left: bool,
}

impl Pass {
    /// The count of those that it is for.
    pub(crate) fn count(&self) -> u64 {
        self.target.count
    }

    /// A pass begins.
    pub(crate) fn begin(word: &Word) -> Self {
        Self { target: target_of(word.take(Waiting::TASKS)), place: Place::default(), is_at_filters: false, left: false }
    }

    /// A pass is through. True: there is a reason for another one, and RUNNING still shows.
    pub(crate) fn end(self, word: &Word) -> bool {
        if self.left {
            word.say(Waiting::TASKS);
        }
        let state = word.set_running(false);
        // An append that met RUNNING has put the topic into no ring: it is in this count.
        let is_over = !state.has(Waiting::TASKS) || target_of(state) == self.target;
        if !is_over {
            word.set_running(true);
        }
        !is_over
    }
}

fn lane_bit(lane: Lane) -> u64 {
    match lane {
        Lane::Task => 0,
        Lane::Thread => THREADS,
        Lane::Bound(number) => bound_bit(number),
    }
}

/// As `wake_behind`; what is counted are no wakes.
fn offer_behind(slots: &Slots<FilterRef>, target: Target, place: &mut Place, budget: Budget, woken: &mut Woken) -> bool {
    let mut offered = Woken::default();
    let is_through = slots.wake_behind(target, place, budget, &mut offered);
    woken.add_offered(offered);
    is_through
}

pub(super) fn target_of(state: State) -> Target {
    Target { count: state.count(), all: state.is_closed() }
}

/// P1, the last step of parking. False: something has come.
#[inline]
pub(super) fn say_unless_told(word: &Word, first: bool, count: u64, waiting: Waiting) -> bool {
    let has_come = |state: State| state.count() != count || state.is_closed();
    let mut state = word.observe();
    // A bit that is still set with the count still the same is as good as our own: the fan-out that takes it off has yet to
    // come, and its read-modify-write on our row comes after ours (P1). It must be told anew for a row it may not know.
    if first || (!state.has(waiting) && !has_come(state)) {
        state = word.say(waiting);
    }
    !has_come(state)
}

/// Those who have seen all stay parked, and the word must say so. False: an event came since, which may not have seen it.
pub(super) fn say_left(word: &Word, waiting: Waiting, target: Target) -> bool {
    target_of(word.say(waiting)) == target
}

impl More {
    fn lane(&self, number: u8) -> Option<&BoundLane> {
        let mut place = &self.bound;
        for index in 0..=number {
            // Acquire (pairs with `publish_once`): its contents are visible.
            let lane = place.load(Ordering::Acquire);
            // SAFETY: W3: once published it lives as long as the topic.
            let lane = unsafe { lane.as_ref() }?;
            if index == number {
                return Some(lane);
            }
            place = &lane.next;
        }
        None
    }

    /// Says that somebody may be parked in a lane.
    fn mention(&self, bit: u64, first: bool) {
        // Acquire (pairs with the swap in `wake_aside`): a bit that is still set has its fan-out yet to come (P1).
        if first || self.parked.load(Ordering::Acquire) & bit == 0 {
            // AcqRel (pairs with the swap in `wake_aside`): if the swap came first, we see the count that made it come.
            self.parked.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Wakes up to `budget` of a lane. Whoever stays parked there is told again, and with it the lane.
    fn wake<P: Parked>(&self, slots: &Slots<P>, bit: u64, word: &Word, budget: Budget, woken: &mut Woken) {
        let mut state = word.observe();
        loop {
            let target = target_of(state);
            woken.left = false;
            let is_through = slots.wake_behind(target, &mut Place::default(), budget, woken);
            if is_through && !woken.left {
                return;
            }
            // AcqRel (pairs with the swap in `wake_aside`): as `mention`.
            self.parked.fetch_or(bit, Ordering::AcqRel);
            state = word.say(Waiting::ASIDE);
            // Where more are to be woken somebody was, who comes by again (a budget is spent on wakes alone). Where somebody was left, an
            // event that came since may have found nobody.
            if !woken.left || target_of(state) == target {
                return;
            }
        }
    }
}

impl Drop for More {
    fn drop(&mut self) {
        let mut place = &self.bound;
        let mut lanes = Vec::new();
        loop {
            // Acquire (pairs with `publish_once`): the lane's contents are visible to us, who drop it.
            let lane = place.load(Ordering::Acquire);
            if lane.is_null() {
                break;
            }
            lanes.push(lane);
            // SAFETY: W3: published, and not dropped before the loop below.
            place = unsafe { &(*lane).next };
        }
        for lane in lanes {
            // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
            drop(unsafe { Box::from_raw(lane) });
        }
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        // Acquire (pairs with `publish_once`): the contents are visible to us, who drop them.
        let more = self.more.load(Ordering::Acquire);
        if !more.is_null() {
            // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
            drop(unsafe { Box::from_raw(more) });
        }
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

/// The waker of one task, which others ring: a slot by itself.
pub(crate) struct Bell(Row<Waker, 1>);

// SAFETY: W1: the cell is handed from the task to whoever rings and back by the bits; the waker in it is `Send + Sync`.
unsafe impl Send for Bell {}
// SAFETY: W1: as above.
unsafe impl Sync for Bell {}

impl Bell {
    pub(crate) fn new() -> Self {
        Self(Row::new())
    }

    /// Lays the waker ready; its owner alone calls this, and looks afterwards whether there is something to do.
    pub(crate) fn put(&self, waker: &Waker) {
        if !self.0.lies_there(0, waker) {
            self.0.put(0, 0, waker);
        }
    }

    /// Takes the waker back.
    pub(crate) fn take(&self) {
        self.0.take(0);
    }

    /// Wakes the task, if its waker lies ready. User code may run.
    #[inline]
    pub(crate) fn ring(&self, woken: &mut Woken) {
        if let Some(waker) = self.0.take_if(0, || true) {
            woken.wake(std::iter::once(waker));
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}
