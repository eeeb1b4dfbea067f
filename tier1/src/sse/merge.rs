//! Several keys read as one sequence, with a position after each item that is safe to resume from. Pure: no clock, no I/O;
//! the sources are a trait, so that tests can stage every race.
//!
//! # The rule
//!
//! Each source yields its items in rising order. A source's **bound** is the highest number up to which nothing of it is
//! still to be delivered:
//!
//! * it has a head (an item taken and not yet delivered) with number `n`: `n - 1`, since nothing of it lies before its head;
//!   while the loss that it begins with because its reader came from another epoch is its head, it has no bound: no number of
//!   ours says what is still to be told;
//! * it was seen empty: its [`position`](Source::position), read *after* it was seen empty. An item that came in between is
//!   above that position, because a source's position never passes an item that it has not handed out. The highest position
//!   ever read counts: what was true of it stays true, even if the source says less later on, when it has more to hand out.
//!   It has none if it ended before it began, with the position of another epoch that its reader came with.
//!
//! After an item the safe position is the least bound of all sources, and none where one has none (`None` is the least): the
//! client then keeps the position that it has. So it never passes an undelivered item, whatever is published meanwhile. The
//! race that matters, as numbered steps:
//!
//! 1. source A is looked at and is empty; its position is 4;
//! 2. number 5 is published to A, then 6 to B;
//! 3. B is looked at: its head is 6, and it is the lowest head there is.
//!
//! If 6 is delivered now, A's bound (at most 4) keeps the id at 4: whoever resumes from it gets 5, and 6 again. To deliver
//! in order whenever possible, an item above the least bound of the empty sources (the **floor**) makes the merge look at
//! them once more first: here it finds 5 and delivers it before 6. Only an item that is still above the floor after that
//! second look is delivered with an id that lags.
//!
//! Cost per item: one heap operation; a look at all empty sources only when the floor is passed, that is about once per wake.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    task::{Context, Poll},
};

use keywake::{CloseReason, GapCause};

use crate::payload::Payload;

/// What a stream delivers.
#[derive(Clone, Debug)]
pub enum Item {
    /// An event.
    Event {
        /// Its number.
        seq: u64,
        /// Its data.
        payload: Payload,
    },
    /// Lost events.
    Loss(Loss),
}

impl Item {
    /// Up to where nothing of its source is still to come, itself included; `None`: no number of ours says.
    pub(super) const fn bound(&self) -> Option<u64> {
        match self {
            Self::Event { seq, .. } => Some(seq.saturating_sub(1)),
            // What its reader missed, it missed elsewhere.
            Self::Loss(Loss { cause: GapCause::OtherEpoch, .. }) => None,
            Self::Loss(loss) => Some(loss.from),
        }
    }

    /// The number that the item brings its reader to.
    pub(super) const fn reaches(&self) -> u64 {
        match self {
            Self::Event { seq, .. } => *seq,
            Self::Loss(loss) => loss.to,
        }
    }
}

/// [`keywake::Gap`], which cannot be made outside its crate, as a value of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Nothing was lost up to and including this number.
    pub from: u64,
    /// Nothing is lost after this number.
    pub to: u64,
    /// How many events are lost, where that is known.
    pub missed: Option<u64>,
    /// Why.
    pub cause: GapCause,
}

/// What a look at a source finds.
#[derive(Debug)]
pub enum Next {
    /// Nothing now.
    Empty,
    /// The end; the source is not looked at again.
    Ended(CloseReason),
    /// The next item.
    Item(Item),
}

/// A sequence of items with rising numbers.
pub trait Source {
    /// Takes what is ready now, without waiting.
    fn take(&mut self) -> Next;

    /// Takes what is ready, or has the task woken when something is; then `Pending`.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Next>;

    /// The highest number up to which nothing of this source is still to be handed out; `None`: its position is of another
    /// epoch.
    fn position(&self) -> Option<u64>;
}

/// An item to be sent.
#[derive(Debug)]
pub struct Delivery {
    /// Which source it is of.
    pub source: usize,
    /// The item.
    pub item: Item,
    /// The number of the id to send with it: the item's own, or less where that is not yet safe; `None`: no id.
    pub id: Option<u64>,
}

/// The floor where no source is empty.
const NO_FLOOR: Option<u64> = Some(u64::MAX);

/// The merge of some sources.
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    /// Items taken and not delivered, at most one of each source.
    heads: Vec<Option<Item>>,
    /// The bounds of the heads, lowest first.
    order: BinaryHeap<Reverse<(Option<u64>, usize)>>,
    /// The highest position that each source has had when it was empty.
    reached: Vec<Option<u64>>,
    /// The least of these, over the sources that were empty when they were last looked at.
    floor: Option<u64>,
    /// Sources that have ended, and why the first of them did.
    ended: Vec<bool>,
    reason: Option<CloseReason>,
}

impl<S: Source> Merge<S> {
    /// A merge of these sources.
    #[must_use]
    pub fn new(sources: Vec<S>) -> Self {
        let count = sources.len();
        let mut merge = Self {
            sources,
            heads: (0..count).map(|_| None).collect(),
            order: BinaryHeap::with_capacity(count),
            reached: vec![None; count],
            floor: NO_FLOOR,
            ended: vec![false; count],
            reason: None,
        };
        merge.look_at_empty();
        merge
    }

    /// The losses that stand at the beginning: what a resume could not bring back.
    pub fn first_losses(&self) -> impl Iterator<Item = &Loss> {
        self.heads.iter().filter_map(|head| match head {
            Some(Item::Loss(loss)) => Some(loss),
            _ => None,
        })
    }

    /// The next item that is ready, in order of the numbers; `None` if none is.
    pub fn take_next(&mut self) -> Option<Delivery> {
        if self.lowest_head().is_none_or(|bound| bound >= self.floor) {
            self.look_at_empty();
        }
        let Reverse((_, source)) = self.order.pop()?;
        let item = self.heads[source].take()?;
        self.look_at(source);
        let id = Some(item.reaches()).min(self.safe());
        Some(Delivery { source, item, id })
    }

    /// The highest number that is safe to resume from now: the least bound of all sources.
    #[must_use]
    pub fn safe(&self) -> Option<u64> {
        self.lowest_head().map_or(self.floor, |bound| bound.min(self.floor))
    }

    /// Why the stream is over: some source has ended. What others had ready is delivered first, so this is asked when
    /// [`take_next`](Self::take_next) has nothing.
    #[must_use]
    pub const fn end(&self) -> Option<&CloseReason> {
        self.reason.as_ref()
    }

    /// Has the task woken when any source has something; ready if one has something (or has ended) now.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.floor = NO_FLOOR;
        for source in 0..self.sources.len() {
            if self.heads[source].is_none() && !self.ended[source] {
                let found = match self.sources[source].poll_take(cx) {
                    Poll::Ready(next) => next,
                    Poll::Pending => Next::Empty,
                };
                self.note(source, found);
            } else if self.ended[source] {
                self.note(source, Next::Empty);
            }
        }
        if self.order.is_empty() && self.reason.is_none() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// The least bound of the heads, if there is one.
    fn lowest_head(&self) -> Option<Option<u64>> {
        self.order.peek().map(|Reverse((bound, _))| *bound)
    }

    /// Looks once at every source without a head, and finds the floor anew.
    fn look_at_empty(&mut self) {
        self.floor = NO_FLOOR;
        for source in 0..self.sources.len() {
            if self.heads[source].is_none() {
                self.look_at(source);
            }
        }
    }

    fn look_at(&mut self, source: usize) {
        let found = if self.ended[source] { Next::Empty } else { self.sources[source].take() };
        self.note(source, found);
    }

    /// Writes down what was found. The position is read after the source was seen empty: that is what the rule rests on.
    fn note(&mut self, source: usize, found: Next) {
        match found {
            Next::Item(item) => {
                self.order.push(Reverse((item.bound(), source)));
                self.heads[source] = Some(item);
                return;
            }
            Next::Ended(reason) => {
                self.ended[source] = true;
                self.reason.get_or_insert(reason);
            }
            Next::Empty => {}
        }
        let reached = &mut self.reached[source];
        *reached = self.sources[source].position().max(*reached);
        self.floor = self.floor.min(*reached);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

    use proptest::prelude::*;

    use super::*;

    /// What happens between two looks: a hub whose publisher runs whenever a source is asked anything.
    #[derive(Debug, Default)]
    struct World {
        /// Key of each event; the number of an event is its index + 1.
        events: Vec<usize>,
        /// How far the hub says it has published: it may lag behind what is already visible.
        published: u64,
        /// One entry is used up at each question: the keys that are published to just before it is answered.
        schedule: Vec<Vec<usize>>,
        lags: bool,
    }

    impl World {
        fn tick(&mut self) {
            self.published = self.events.len() as u64;
            if let Some(keys) = self.schedule.pop() {
                self.events.extend(keys);
            }
            if !self.lags {
                self.published = self.events.len() as u64;
            }
        }

        fn unread(&self, key: usize, after: u64) -> Option<u64> {
            let mut later = (after + 1..).zip(&self.events[usize::try_from(after).unwrap()..]);
            later.find(|(_, k)| **k == key).map(|(seq, _)| seq)
        }
    }

    #[derive(Debug)]
    struct Scripted {
        world: Rc<RefCell<World>>,
        key: usize,
        taken: u64,
    }

    impl Source for Scripted {
        fn take(&mut self) -> Next {
            self.world.borrow_mut().tick();
            let Some(seq) = self.world.borrow().unread(self.key, self.taken) else { return Next::Empty };
            self.taken = seq;
            Next::Item(Item::Event { seq, payload: Payload::from_body(b"x").unwrap() })
        }

        fn poll_take(&mut self, _: &mut Context<'_>) -> Poll<Next> {
            match self.take() {
                Next::Empty => Poll::Pending,
                found => Poll::Ready(found),
            }
        }

        fn position(&self) -> Option<u64> {
            self.world.borrow_mut().tick();
            let world = self.world.borrow();
            // Caught up: the hub's position, but never past an event that is visible and unread.
            Some(match world.unread(self.key, self.taken) {
                Some(_) => self.taken,
                None => self.taken.max(world.published),
            })
        }
    }

    fn world(schedule: &[&[usize]]) -> Rc<RefCell<World>> {
        let schedule = schedule.iter().rev().map(|keys| keys.to_vec()).collect();
        Rc::new(RefCell::new(World { schedule, ..World::default() }))
    }

    fn merge_of(world: &Rc<RefCell<World>>, keys: usize) -> Merge<Scripted> {
        Merge::new((0..keys).map(|key| Scripted { world: Rc::clone(world), key, taken: 0 }).collect())
    }

    /// These items, and then its end at this position.
    #[derive(Debug)]
    struct Once(Vec<Item>, Option<u64>);

    impl Source for Once {
        fn take(&mut self) -> Next {
            if self.0.is_empty() { Next::Ended(CloseReason::Shutdown) } else { Next::Item(self.0.remove(0)) }
        }

        fn poll_take(&mut self, _: &mut Context<'_>) -> Poll<Next> {
            Poll::Ready(self.take())
        }

        fn position(&self) -> Option<u64> {
            self.1
        }
    }

    fn event(seq: u64) -> Item {
        Item::Event { seq, payload: Payload::from_body(b"x").unwrap() }
    }

    fn ids(merge: &mut Merge<Once>) -> Vec<Option<u64>> {
        std::iter::from_fn(|| merge.take_next()).map(|delivery| delivery.id).collect()
    }

    fn drain(merge: &mut Merge<Scripted>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        while let Some(Delivery { item: Item::Event { seq, .. }, id, .. }) = merge.take_next() {
            all.push((seq, id.unwrap()));
        }
        all
    }

    #[test]
    fn what_is_ready_comes_in_order_and_each_id_is_its_own() {
        let world = world(&[&[1, 0, 2, 2, 0, 1]]);
        let mut merge = merge_of(&world, 3);
        assert_eq!(drain(&mut merge), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]);
        assert_eq!(merge.safe(), Some(6));
    }

    #[test]
    fn a_key_seen_empty_holds_the_id_back_until_it_is_looked_at_again() {
        // The race of the module's docs: A (0) is seen empty, then 1 goes to A and 2 to B, then B is looked at.
        let world = world(&[&[], &[], &[0, 1]]);
        let mut merge = merge_of(&world, 2);
        assert!(merge.safe() == Some(0), "{merge:?}");
        // The second look finds A's event: both come in order.
        assert_eq!(drain(&mut merge), [(1, 1), (2, 2)]);
    }

    #[test]
    fn an_item_above_the_floor_lags_its_id_rather_than_leads() {
        // The same race once more during the second look, so that B's 4 is delivered while A's 3 is not yet seen.
        let world = Rc::new(RefCell::new(World { lags: true, ..World::default() }));
        world.borrow_mut().schedule = vec![vec![], vec![0, 1], vec![], vec![], vec![0, 1], vec![], vec![]];
        let mut merge = merge_of(&world, 2);
        let mut delivered = BTreeSet::new();
        for (seq, id) in drain(&mut merge) {
            delivered.insert(seq);
            assert!((1..=id).all(|seq| delivered.contains(&seq)), "{seq} with id {id}");
        }
        assert_eq!(delivered.len(), world.borrow().events.len());
    }

    #[test]
    fn a_loss_comes_before_what_is_above_its_beginning() {
        let loss = Item::Loss(Loss { from: 2, to: 10, missed: None, cause: GapCause::Retention });
        let mut merge = Merge::new(vec![Once(vec![loss, event(11)], Some(20)), Once(vec![event(5), event(12)], Some(20))]);
        assert_eq!(merge.first_losses().count(), 1);
        let first = merge.take_next().unwrap();
        assert!(matches!(first.item, Item::Loss(_)));
        assert_eq!(first.id, Some(4), "the other key's 5 is still to come");
        assert_eq!(ids(&mut merge), [Some(5), Some(11), Some(12)]);
        assert_eq!(merge.end(), Some(&CloseReason::Shutdown));
        assert_eq!(merge.safe(), Some(20));
    }

    #[test]
    fn no_id_is_given_until_every_key_has_told_what_was_lost_with_the_other_epoch() {
        let loss = |to| Item::Loss(Loss { from: 0, to, missed: None, cause: GapCause::OtherEpoch });
        let sources = vec![
            Once(vec![loss(0), event(1), event(4)], Some(9)),
            Once(vec![loss(2), event(3)], Some(9)),
            Once(vec![loss(9)], Some(9)),
        ];
        let mut merge = Merge::new(sources);
        assert_eq!(merge.safe(), None);
        assert_eq!(ids(&mut merge), [None, None, Some(0), Some(1), Some(3), Some(4)]);
        assert_eq!(merge.safe(), Some(9));
    }

    #[test]
    fn key_that_ended_before_it_began_holds_back_every_id_if_its_reader_came_from_another_epoch() {
        let mut merge = Merge::new(vec![Once(vec![event(3)], Some(9)), Once(Vec::new(), None)]);
        assert_eq!(ids(&mut merge), [None]);
        assert_eq!((merge.safe(), merge.end()), (None, Some(&CloseReason::Shutdown)));
        // A position of ours is known, and bounds the ids.
        let mut merge = Merge::new(vec![Once(vec![event(3)], Some(9)), Once(Vec::new(), Some(2))]);
        assert_eq!(ids(&mut merge), [Some(2)]);
        assert_eq!(merge.safe(), Some(2));
    }

    proptest! {
        /// Whatever is published while the merge looks: nothing is lost or delivered twice, ids never go back, and all
        /// events up to an id have been delivered before it or with it.
        #[test]
        fn no_id_passes_an_undelivered_event(
            schedule in prop::collection::vec(prop::collection::vec(0_usize..4, 0..3), 0..60),
            keys in 1_usize..4,
            lags in any::<bool>(),
            parks in any::<bool>(),
        ) {
            let world = Rc::new(RefCell::new(World { schedule, lags, ..World::default() }));
            let mut merge = merge_of(&world, keys);
            let mut delivered = BTreeSet::new();
            let mut last_id = 0;
            let mut idle = 0;
            let mut cx = Context::from_waker(std::task::Waker::noop());
            while idle < 3 {
                let Some(delivery) = merge.take_next() else {
                    idle += u32::from(world.borrow().schedule.is_empty());
                    if parks {
                        let _ = merge.poll_ready(&mut cx);
                    }
                    let safe = merge.safe().unwrap();
                    let world = world.borrow();
                    let missing = (1..=safe).find(|s| world.events[usize::try_from(*s - 1).unwrap()] < keys && !delivered.contains(s));
                    prop_assert_eq!(missing, None, "safe {}", safe);
                    continue;
                };
                idle = 0;
                let Item::Event { seq, .. } = delivery.item else { unreachable!() };
                prop_assert!(delivered.insert(seq), "{seq} twice");
                let id = delivery.id.unwrap();
                prop_assert!(id <= seq && id >= last_id, "id {id} after {last_id} with {seq}");
                last_id = id;
                let world = world.borrow();
                let missing = (1..=last_id).find(|s| world.events[usize::try_from(*s - 1).unwrap()] < keys && !delivered.contains(s));
                prop_assert_eq!(missing, None, "id {}", last_id);
            }
            let world = world.borrow();
            let wanted = world.events.iter().filter(|key| **key < keys).count();
            prop_assert_eq!(delivered.len(), wanted);
        }
    }
}
