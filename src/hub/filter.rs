//! The reader of a subscription with a predicate, which others move on while it is parked.
//!
//! While it is not parked the cursor is the subscription's, and looks at events as it reads them. To park, the subscription leaves its
//! cursor and its waker in a [`Filter`], and the filter in a slot of its topic. A fan-out takes the filter out and [offers](Offer) it what came:
//! the cursor passes over what the predicate rejects, and the filter is parked again; or the reader is woken, and finds its cursor standing
//! before what it was woken for. So nobody is woken for what is rejected, and nobody who sleeps pins it.
//!
//! * **F1** The cursor and the slot are touched by one at a time: by the subscription while `Awake`; by whoever made the stage `Busy` (a
//!   fan-out that looks, or the subscription as it parks) until he makes it another; by nobody while `Parked`. `Gone` is `Busy` with the
//!   subscription dropped: whoever is at it unsubscribes.
//! * **F2** Who offers what came and meets `Busy` says so; whoever is at it makes it `Parked` only after the filter lies in its slot,
//!   and looks again if that was said. So an offer is never lost: it meets `Parked`, or is met.
//! * **F3** No user code, and no other lock, under the lock of a filter: predicates and wakers run outside.

use std::{
    fmt,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

use super::{
    shared::{FirstPanic, Shared},
    topic::TopicArc,
};
use crate::{
    Key,
    buffer::reader::{Reader, Step},
    sync::{Arc, Mutex, PlainArc},
    wake::{FilterLane, FilterRef, Offer, SlotId},
};

/// Events that a fan-out looks at beyond those that were there when it came: a publisher must not be kept by the publishes of others.
const MORE_LOOKS: u64 = if cfg!(keywake_loom) { 2 } else { 1024 };

pub(super) type TopicReader<K, T> = Reader<TopicArc<K, T>, T>;
/// What the user gave.
pub(super) type Predicate<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

/// See the module.
pub(super) struct Filter<K: Key, T: Send + Sync + 'static> {
    shared: Arc<Shared<K, T>>,
    topic: TopicArc<K, T>,
    predicate: Predicate<T>,
    desk: Mutex<Desk<K, T>>,
}

/// What the subscription, and those who look for it, leave to each other.
struct Desk<K, T> {
    stage: Stage,
    /// Where it is while `Parked`; and while `Awake`, until the subscription fetches it.
    cursor: Option<Cursor<K, T>>,
    /// Where it stood when it was last here: the number of the next entry, and the seq before it.
    stood: (u64, u64),
    /// Whom to wake. `None`: nobody waits.
    waker: Option<Waker>,
    /// Something came while `Busy`.
    is_offered: bool,
    /// How who waits does.
    lane: FilterLane,
    slot: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Awake,
    Busy,
    Gone,
    Parked,
}

#[derive(Clone, Copy)]
struct Slot {
    lane: FilterLane,
    id: SlotId,
    /// Something lay in it before.
    is_used: bool,
}

/// The reader, and what is known of the events that it stands before.
struct Cursor<K, T> {
    reader: TopicReader<K, T>,
    known: Known,
}

/// What the predicate has said already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Of the entry with this number, once it is asked for.
    pub(super) at: Option<(u64, Verdict)>,
    /// All other entries below this number are rejected.
    pub(super) up_to: u64,
}

/// What a predicate says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Panicked,
    Rejected,
}

impl<K: Key, T: Send + Sync + 'static> Filter<K, T> {
    pub(super) fn new(shared: Arc<Shared<K, T>>, topic: TopicArc<K, T>, predicate: Predicate<T>) -> PlainArc<Self> {
        let desk = Desk {
            stage: Stage::Awake,
            cursor: None,
            stood: (0, 0),
            waker: None,
            is_offered: false,
            lane: FilterLane::Tasks,
            slot: None,
        };
        PlainArc::new(Self { shared, topic, predicate, desk: Mutex::new(desk) })
    }

    /// What the predicate says of the event that the reader has just stepped to.
    pub(super) fn judge(&self, reader: &TopicReader<K, T>, known: &mut Known) -> Verdict {
        let number = reader.next() - 1;
        if let Some((_, verdict)) = known.at.take_if(|(at, _)| *at == number) {
            return verdict;
        }
        if number < known.up_to {
            return Verdict::Rejected;
        }
        let Some(event) = reader.lend() else { unreachable!("a step that found an event stands at it") };
        match catch_unwind(AssertUnwindSafe(|| (self.predicate)(&event))) {
            Ok(true) => Verdict::Accepted,
            Ok(false) => Verdict::Rejected,
            Err(payload) => {
                // The drop of what it panicked with is user code, too.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(ManuallyDrop::new);
                Verdict::Panicked
            }
        }
    }

    // The subscription's side.

    /// Parks: the reader, which has looked at all that there was, changes places with the spare one. False: something came, or may have.
    pub(super) fn park(
        self: &PlainArc<Self>,
        reader: &mut TopicReader<K, T>,
        spare: &mut Option<TopicReader<K, T>>,
        known: Known,
        lane: FilterLane,
        waker: &Waker,
    ) -> bool {
        // User code, so before the lock.
        let waker = waker.clone();
        let mut desk = self.desk.lock();
        desk.stage = Stage::Busy;
        desk.is_offered = false;
        desk.lane = lane;
        let old = desk.waker.replace(waker);
        let slot = desk.slot;
        drop(desk);
        // Whatever user code does, it is not left busy.
        let mut panics = FirstPanic::default();
        panics.run(|| drop(old));
        let mut is_parked = false;
        panics.run(|| is_parked = self.lie_down(reader, lane, slot));
        let mut desk = self.desk.lock();
        if is_parked && !desk.is_offered && !panics.is_some() {
            let spare = spare.take().unwrap_or_else(|| Reader::at(Arc::clone(&self.topic), 0, 0, true));
            desk.cursor = Some(Cursor { reader: std::mem::replace(reader, spare), known });
            desk.stage = Stage::Parked;
            return true;
        }
        desk.stage = Stage::Awake;
        let waker = desk.waker.take();
        drop(desk);
        panics.run(|| drop(waker));
        panics.go_on();
        false
    }

    /// Waits on, while somebody looks with the cursor. False: he does not any more.
    pub(super) fn wait_on(&self, lane: FilterLane, waker: &Waker) -> bool {
        // User code, so before the lock.
        let waker = waker.clone();
        let mut desk = self.desk.lock();
        if desk.stage != Stage::Busy {
            return false;
        }
        desk.lane = lane;
        let old = desk.waker.replace(waker);
        drop(desk);
        drop(old);
        true
    }

    /// Takes the cursor back, in exchange for the spare one, and what is known. `None`: somebody is just looking with it, and wakes
    /// whoever waits if he finds something.
    pub(super) fn fetch(&self, reader: &mut TopicReader<K, T>, spare: &mut Option<TopicReader<K, T>>) -> Option<Known> {
        let mut desk = self.desk.lock();
        if desk.stage == Stage::Busy {
            return None;
        }
        let was_parked = std::mem::replace(&mut desk.stage, Stage::Awake) == Stage::Parked;
        let cursor = desk.cursor.take();
        let waker = desk.waker.take();
        let slot = desk.slot.filter(|_| was_parked);
        drop(desk);
        let known = cursor.map_or_else(Known::default, |cursor| {
            *spare = Some(std::mem::replace(reader, cursor.reader));
            cursor.known
        });
        if let Some(Slot { lane, id, .. }) = slot {
            self.topic.waiters.unpark_filter(lane, id);
        }
        drop(waker);
        Some(known)
    }

    /// Nobody waits any more; the cursor is away. The waker is to be dropped.
    pub(super) fn forget_waker(&self) -> Option<Waker> {
        self.desk.lock().waker.take()
    }

    /// Where the cursor stands that is away, or stood when somebody began to look with it: the number of the next entry, and the seq
    /// before it.
    pub(super) fn stands(&self) -> (u64, u64) {
        let desk = self.desk.lock();
        desk.cursor.as_ref().map_or(desk.stood, |cursor| (cursor.reader.next(), cursor.reader.seq()))
    }

    /// The subscription goes. True: somebody is at the cursor, and does the rest. The waker is to be dropped.
    pub(super) fn leave_to_others(&self) -> (bool, Option<Waker>) {
        let mut desk = self.desk.lock();
        let is_away = desk.stage == Stage::Busy;
        if is_away {
            desk.stage = Stage::Gone;
        }
        (is_away, desk.waker.take())
    }

    // Both sides.

    /// Lays the filter into its slot. False: something came.
    fn lie_down(self: &PlainArc<Self>, reader: &TopicReader<K, T>, lane: FilterLane, slot: Option<Slot>) -> bool {
        let Slot { lane, id, is_used } = slot.filter(|slot| slot.lane == lane).unwrap_or_else(|| self.change_lane(lane));
        if !is_used {
            self.desk.lock().slot = Some(Slot { lane, id, is_used: true });
        }
        let filter = FilterRef::new(PlainArc::clone(self) as PlainArc<dyn Offer>);
        self.topic.waiters.park_filter(lane, id, !is_used, &self.topic.chain.word, reader.next(), &filter)
    }

    #[cold]
    fn change_lane(&self, lane: FilterLane) -> Slot {
        let slot = Slot { lane, id: self.topic.waiters.take_filter_slot(lane), is_used: false };
        let old = self.desk.lock().slot.replace(slot);
        if let Some(old) = old {
            self.topic.waiters.unpark_filter(old.lane, old.id);
            self.topic.waiters.return_filter_slot(old.lane, old.id);
        }
        slot
    }

    /// Gives the slot back, by whoever has the cursor.
    pub(super) fn give_slot_back(&self) {
        let slot = self.desk.lock().slot.take();
        if let Some(Slot { lane, id, .. }) = slot {
            self.topic.waiters.unpark_filter(lane, id);
            self.topic.waiters.return_filter_slot(lane, id);
        }
    }

    // The side of who looks for it.

    /// Passes over what is rejected. True: there is something for the reader, which stands before it, or may be.
    fn look(&self, cursor: &mut Cursor<K, T>, until: u64) -> bool {
        let Cursor { reader, known } = cursor;
        while reader.next() < until {
            let (next, seq) = (reader.next(), reader.seq());
            match reader.advance() {
                Step::Empty => return false,
                Step::Closed => return true,
                Step::Event => {
                    let number = reader.next() - 1;
                    let verdict = self.judge(reader, known);
                    if verdict != Verdict::Rejected {
                        reader.step_back(seq);
                        known.at = Some((number, verdict));
                        return true;
                    }
                }
                Step::Mark { from, .. } => {
                    reader.step_back(from);
                    return true;
                }
                Step::Lost(_) => {
                    reader.go_back(next, seq);
                    return true;
                }
            }
        }
        // The reader sees to the rest by itself.
        true
    }

    /// Leaves the cursor to the subscription, which is woken if it waits.
    fn hand_over(&self, cursor: Cursor<K, T>, panics: &mut FirstPanic) {
        let mut desk = self.desk.lock();
        if desk.stage == Stage::Gone {
            drop(desk);
            return self.unsubscribe(cursor, panics);
        }
        desk.stage = Stage::Awake;
        desk.cursor = Some(cursor);
        let waker = desk.waker.take();
        drop(desk);
        if let Some(waker) = waker {
            self.shared.pulse.count_wake(&self.topic);
            panics.run(|| waker.wake());
        }
    }

    /// The subscription was dropped, and left that to us.
    #[cold]
    fn unsubscribe(&self, cursor: Cursor<K, T>, panics: &mut FirstPanic) {
        let Cursor { mut reader, .. } = cursor;
        panics.run(|| reader.leave());
        panics.run(|| self.give_slot_back());
        if let Some(later) = self.shared.registry.leave(&self.topic) {
            self.shared.settle_quietly(later, panics);
        }
    }

    /// Looks, and parks again, until there is something for the reader or nobody waits.
    fn attend(self: &PlainArc<Self>, mut cursor: Cursor<K, T>, panics: &mut FirstPanic) {
        let until = self.topic.chain.word.observe().count() + MORE_LOOKS;
        loop {
            // The drop of a payload that it was the last to hold is user code. Nothing is lost by it: the look goes on.
            let mut found = None;
            while found.is_none() {
                panics.run(|| found = Some(self.look(&mut cursor, until)));
            }
            let desk = self.desk.lock();
            let (stage, waits, lane, slot) = (desk.stage, desk.waker.is_some(), desk.lane, desk.slot);
            drop(desk);
            if found == Some(true) || stage == Stage::Gone || !waits {
                return self.hand_over(cursor, panics);
            }
            let mut is_parked = false;
            panics.run(|| is_parked = self.lie_down(&cursor.reader, lane, slot));
            let mut desk = self.desk.lock();
            if desk.stage == Stage::Gone {
                drop(desk);
                return self.hand_over(cursor, panics);
            }
            if !std::mem::take(&mut desk.is_offered) && is_parked {
                desk.cursor = Some(cursor);
                desk.stage = Stage::Parked;
                return;
            }
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> Offer for Filter<K, T> {
    fn offer(self: PlainArc<Self>) {
        let mut desk = self.desk.lock();
        match desk.stage {
            Stage::Awake | Stage::Gone => return,
            Stage::Busy => {
                desk.is_offered = true;
                return;
            }
            Stage::Parked => {}
        }
        let Some(cursor) = desk.cursor.take() else { unreachable!("the cursor of a filter that is parked is here") };
        desk.stage = Stage::Busy;
        desk.is_offered = false;
        desk.stood = (cursor.reader.next(), cursor.reader.seq());
        drop(desk);
        let mut panics = FirstPanic::default();
        self.attend(cursor, &mut panics);
        panics.go_on();
    }

    fn again(&self) {
        let waker = self.forget_waker();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Filter<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}
