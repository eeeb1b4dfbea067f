//! The parking slots of one topic: the first inline, the others in rows.

use std::{fmt, ptr};

use super::{
    rest::{Found, Rest, publish_once},
    row::{Budget, Parked, Put, Row, Target, Woken, parked},
};
use crate::sync::{AtomicPtr, Ordering, Stamp};

/// The first slot, in the topic itself: most keys have one reader.
type Seat<P> = Row<P, 1>;
/// Bit of the seat's word that says whose it is: somebody's. (P and H of the one slot are bits 0 and 32.)
const TAKEN: u64 = 1 << 1;

/// A slot that a reader keeps: 0 is the seat, the others are counted through the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

impl SlotId {
    /// For a reader that keeps it as a bare number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The reverse of `number`.
    pub(crate) fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Where a pass goes on: at this row, the seat being 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// See the module.
pub(crate) struct Slots<P: Parked> {
    seat: Seat<P>,
    rest: AtomicPtr<Rest<P>>,
}

// SAFETY: W1: cells are handed from reader to fan-out and back by the bits; what lies in them is `Send + Sync`.
unsafe impl<P: Parked + Send + Sync> Send for Slots<P> {}
// SAFETY: W1 and W3: a cell is touched by whom the bits say, rows are found by an acquiring load; the rest is atomic or locked.
unsafe impl<P: Parked + Send + Sync> Sync for Slots<P> {}

impl<P: Parked> Slots<P> {
    pub(crate) fn new() -> Self {
        Self { seat: Seat::new(), rest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// See `Row::spare`.
    #[inline]
    pub(crate) fn spare(&self) -> &Stamp {
        &self.seat.spare
    }

    /// Gives out a slot.
    pub(crate) fn take_slot(&self) -> SlotId {
        // Relaxed: only a guess for the exchange below.
        if self.seat.bits.load(Ordering::Relaxed) & TAKEN == 0 {
            // AcqRel (pairs with `return_slot`): the owner before is done with the slot.
            if self.seat.bits.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0 {
                return SlotId(0);
            }
        }
        let number = u32::try_from(1 + self.rest_or_make().take());
        // Not reached: there are no more than 2^28 slots.
        SlotId(number.unwrap_or_else(|_| std::process::abort()))
    }

    /// Takes a slot back, out of which was taken what lay there.
    ///
    /// A panic of the drop of what an owner before has left in a row that is freed now surfaces when all is done.
    pub(crate) fn return_slot(&self, id: SlotId) {
        if id.0 == 0 {
            // Release (pairs with `take_slot`): the next owner comes after all we did.
            self.seat.bits.fetch_and(!TAKEN, Ordering::Release);
        } else if let Some(rest) = self.rest() {
            rest.give_back(id.0 as usize - 1);
        }
    }

    fn rest(&self) -> Option<&Rest<P>> {
        // Acquire (pairs with `publish_once`): its contents are visible.
        let rest = self.rest.load(Ordering::Acquire);
        // SAFETY: W3: once published it lives as long as `self`.
        unsafe { rest.as_ref() }
    }

    fn rest_or_make(&self) -> &Rest<P> {
        publish_once(&self.rest, Rest::new)
    }

    /// Lays `parked` of a reader that has seen `count` events into its slot, and mentions it in the summary. Does not know the topic's
    /// word: the rest of P1 is the caller's.
    ///
    /// `first` says that this is the first time in this slot: it then tells of itself by a read-modify-write, so that a fan-out
    /// that finds it told has also seen the row that the slot lies in.
    #[inline]
    pub(crate) fn put(&self, id: SlotId, first: bool, count: u64, parked: &P) -> Put {
        if id.0 == 0 {
            return self.seat.put(0, count, parked);
        }
        let Some(Found { row, slot, group }) = self.find(id) else { unreachable!("a slot that was given out has a row") };
        let put = row.row.put(slot, count, parked);
        if let (Put::Parked, Some((group, index))) = (put, group) {
            group.mention(index, first);
        }
        put
    }

    /// Takes out of a slot what lies there. False: it did not any more.
    #[inline]
    pub(crate) fn take(&self, id: SlotId) -> bool {
        if id.0 == 0 {
            return self.seat.take(0) & parked(0) != 0;
        }
        self.find(id).is_some_and(|Found { row, slot, .. }| row.row.take(slot) & parked(slot) != 0)
    }

    /// Where a slot lies that is not the seat.
    fn find(&self, id: SlotId) -> Option<Found<'_, P>> {
        self.rest()?.find(id.0 as usize - 1)
    }

    /// Wakes parked readers that `target` is for, from `place` on, within `budget`. True: the pass is through, and
    /// `place` at the beginning. False: there are more of them; they stay parked, and the summaries tell of them.
    ///
    /// Any number of these may run at once: a slot is woken by the one that turns its P into H. No lock is held.
    #[inline]
    pub(crate) fn wake_behind(&self, target: Target, place: &mut Place, budget: Budget, woken: &mut Woken) -> bool {
        let mut budget = budget;
        if place.0 == 0 {
            if !self.seat.wake_behind(target, &mut budget, woken, || ()) {
                return false;
            }
            place.0 = 1;
        }
        let mut from = place.0 as usize - 1;
        let is_through = self.rest().is_none_or(|rest| rest.wake_behind(target, &mut from, &mut budget, woken));
        #[expect(clippy::cast_possible_truncation, reason = "there are 2^24 rows")]
        let at = 1 + from as u32;
        place.0 = if is_through { 0 } else { at };
        is_through
    }
}

impl<P: Parked> Drop for Slots<P> {
    fn drop(&mut self) {
        // Acquire (pairs with `rest_or_make`): the contents are visible to us, who drop them.
        let rest = self.rest.load(Ordering::Acquire);
        if !rest.is_null() {
            // SAFETY: W3: made by `Box::into_raw`, published once, dropped here.
            drop(unsafe { Box::from_raw(rest) });
        }
    }
}

impl<P: Parked> fmt::Debug for Slots<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

/// What `loom_tests/tests/pass_that_stops.rs` models: a lane whose wakers go on with the pass that woke them.
#[cfg(keywake_loom)]
#[derive(Debug)]
pub struct ModelledSlots(Slots<std::task::Waker>);

#[cfg(keywake_loom)]
impl Default for ModelledSlots {
    fn default() -> Self {
        Self(Slots::new())
    }
}

#[cfg(keywake_loom)]
impl ModelledSlots {
    /// Parks a reader that has seen nothing, in the lowest free slot, and for the first time.
    pub fn park(&self, waker: &std::task::Waker) -> u32 {
        let id = self.0.take_slot();
        self.0.put(id, true, 0, waker);
        id.number()
    }

    /// False: it is not parked any more.
    pub fn unpark(&self, slot: u32) -> bool {
        self.0.take(SlotId::from_number(slot))
    }

    /// A pass from the beginning for who has seen nothing. False: it stopped.
    pub fn wake(&self, budget: usize) -> bool {
        self.0.wake_behind(Target { count: 1, all: false }, &mut Place::default(), Budget::exactly(budget), &mut Woken::default())
    }
}

#[cfg(all(test, not(keywake_loom)))]
mod tests {
    use super::*;
    use crate::{
        sync::{PlainArc, Tally},
        wake::row::WIDTH,
    };

    /// Counts its wakes.
    #[derive(Clone)]
    struct Bell(PlainArc<Tally>);

    // SAFETY: addresses are compared.
    unsafe impl Parked for Bell {
        fn is_same(&self, other: &Self) -> bool {
            PlainArc::ptr_eq(&self.0, &other.0)
        }

        fn again(&self) {
            unreachable!("nobody is woken meanwhile");
        }

        fn wake(self, _later: &mut crate::few::Few<std::task::Waker>) {
            self.0.add(1);
        }
    }

    impl Bell {
        fn new() -> Self {
            Self(PlainArc::new(Tally::new(0)))
        }

        /// How often it was woken, and how many copies there are elsewhere.
        fn state(&self) -> (u64, usize) {
            (self.0.get(), PlainArc::strong_count(&self.0) - 1)
        }
    }

    struct Reader {
        id: SlotId,
        bell: Bell,
    }

    fn join(slots: &Slots<Bell>) -> Reader {
        Reader { id: slots.take_slot(), bell: Bell::new() }
    }

    fn park(slots: &Slots<Bell>, reader: &Reader, count: u64) {
        assert_eq!(slots.put(reader.id, true, count, &reader.bell), Put::Parked);
    }

    fn leave(slots: &Slots<Bell>, reader: &Reader) {
        slots.take(reader.id);
        slots.return_slot(reader.id);
        assert_eq!(reader.bell.state().1, 0, "what was parked is gone");
    }

    fn crowd(slots: &Slots<Bell>, number: usize) -> Vec<Reader> {
        (0..number).map(|_| join(slots)).collect()
    }

    /// A pass from the beginning to the end; how many it wakes.
    fn wake_all(slots: &Slots<Bell>, count: u64) -> Woken {
        let mut woken = Woken::default();
        assert!(slots.wake_behind(Target { count, all: false }, &mut Place::default(), Budget::UNLIMITED, &mut woken));
        assert_eq!(woken.empty, 0);
        woken
    }

    /// The same numbers in each run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let high = usize::try_from(self.0 >> 33).expect("31 bits");
            high % end
        }
    }

    #[test]
    fn the_lowest_free_slot_is_given_first() {
        let slots = Slots::new();
        let readers = crowd(&slots, 5_000);
        assert!(readers.iter().zip(0..).all(|(reader, number)| reader.id.number() == number));
        for number in [4_999, 161, 32, 3_000, 0, 33] {
            leave(&slots, &readers[number]);
        }
        assert_eq!([(); 7].map(|()| join(&slots).id.number()), [0, 32, 33, 161, 3_000, 4_999, 5_000]);
    }

    #[test]
    fn a_pass_keeps_to_its_budget_and_goes_on_where_it_stopped() {
        for step in [1, 7, 31, 32, 33, 64, 1_000] {
            let slots = Slots::new();
            let readers = crowd(&slots, 3_000);
            // Every third one has seen all.
            for (number, reader) in readers.iter().enumerate() {
                park(&slots, reader, u64::from(number % 3 == 0));
            }
            let (target, mut place, mut woken) = (Target { count: 1, all: false }, Place::default(), Woken::default());
            let mut is_through = false;
            while !is_through {
                let before = woken.wakes;
                is_through = slots.wake_behind(target, &mut place, Budget::exactly(step), &mut woken);
                let wakes = usize::try_from(woken.wakes - before).expect("few");
                assert!(if is_through { wakes <= step } else { wakes == step }, "{wakes} wakes");
            }
            assert_eq!((woken.wakes, woken.empty, woken.left, place), (2_000, 0, true, Place::default()));
            for (number, reader) in readers.iter().enumerate() {
                assert_eq!(reader.bell.state(), if number % 3 == 0 { (0, 1) } else { (1, 0) });
            }
            // Who has seen all was left where the next one finds him.
            assert_eq!(wake_all(&slots, 2).wakes, 1_000);
        }
    }

    #[test]
    fn a_budget_in_rows_is_spent_by_whole_rows_and_never_exceeded() {
        let slots = Slots::new();
        let readers = crowd(&slots, 1 + 4 * WIDTH);
        readers.iter().for_each(|reader| park(&slots, reader, 0));
        let (target, mut place, mut woken) = (Target { count: 1, all: false }, Place::default(), Woken::default());
        // The seat is a row by itself.
        let turns = [
            (0, 0, false),
            (2, 1, false),
            (1, 1, false),
            (WIDTH, WIDTH - 1, false),
            (2 * WIDTH + 1, 2 * WIDTH, false),
            (WIDTH, WIDTH, true),
        ];
        for (budget, wakes, is_through) in turns {
            let before = woken.wakes;
            assert_eq!(slots.wake_behind(target, &mut place, Budget::in_rows(budget), &mut woken), is_through, "{budget}");
            assert_eq!(woken.wakes - before, wakes as u64, "{budget}");
        }
        assert_eq!((woken.empty, woken.left, place), (0, false, Place::default()));
    }

    #[test]
    fn a_pass_that_ends_with_its_budget_is_through() {
        let slots = Slots::new();
        let readers = crowd(&slots, 100);
        for reader in [0, 1, 40, 99] {
            park(&slots, &readers[reader], 0);
        }
        let mut woken = Woken::default();
        assert!(slots.wake_behind(Target { count: 1, all: false }, &mut Place::default(), Budget::exactly(4), &mut woken));
        assert_eq!((woken.wakes, woken.left), (4, false));
    }

    #[test]
    fn what_a_pass_has_not_come_to_is_found_by_others() {
        for budget in [0, 1, 2, 50, 2_085] {
            let slots = Slots::new();
            let readers = crowd(&slots, 2_200);
            readers.iter().for_each(|reader| park(&slots, reader, 0));
            let (mut place, mut woken) = (Place::default(), Woken::default());
            assert!(!slots.wake_behind(Target { count: 1, all: false }, &mut place, Budget::exactly(budget), &mut woken));
            assert!(!woken.left, "nobody has seen all");
            assert_eq!((woken.wakes, wake_all(&slots, 1).wakes), (budget as u64, 2_200 - budget as u64));
            // It finds nobody when it goes on, but who came and has seen less.
            park(&slots, &readers[2_199], 0);
            assert!(slots.wake_behind(Target { count: 1, all: false }, &mut place, Budget::exactly(5), &mut woken));
            assert_eq!(woken.wakes, budget as u64 + 1);
        }
    }

    #[test]
    fn everybody_is_woken_at_the_end() {
        let slots = Slots::new();
        let readers = crowd(&slots, 100);
        readers.iter().for_each(|reader| park(&slots, reader, 7));
        let mut woken = Woken::default();
        assert!(slots.wake_behind(Target { count: 7, all: true }, &mut Place::default(), Budget::UNLIMITED, &mut woken));
        assert_eq!((woken.wakes, woken.empty, woken.left), (100, 0, false));
    }

    #[test]
    fn a_row_whose_readers_have_left_is_given_back_but_one() {
        let slots = Slots::new();
        let rows = || slots.rest().map_or(0, Rest::rows);
        let readers = crowd(&slots, 1 + WIDTH + 100 * WIDTH);
        readers.iter().for_each(|reader| park(&slots, reader, 0));
        assert_eq!(rows(), 100);
        // Every second row, and one of the readers of every other row.
        let of_row = |row: usize| 1 + WIDTH + row * WIDTH..1 + WIDTH + (row + 1) * WIDTH;
        for row in 0..100 {
            let leavers = if row % 2 == 0 { of_row(row) } else { of_row(row).start..of_row(row).start + 1 };
            leavers.for_each(|number| leave(&slots, &readers[number]));
        }
        assert_eq!(rows(), 51, "the odd rows, and a spare one");
        assert_eq!(wake_all(&slots, 1).wakes, 1 + WIDTH as u64 + 50 * (WIDTH as u64 - 1));
        // The spare one is the lowest: its slots are given next, and then no row is spare.
        let first = join(&slots);
        assert_eq!((first.id.number() as usize, rows()), (of_row(0).start, 51));
        for row in (1..100).step_by(2) {
            (of_row(row).start + 1..of_row(row).end).for_each(|number| leave(&slots, &readers[number]));
        }
        assert_eq!(rows(), 2);
        leave(&slots, &first);
        assert_eq!(rows(), 1);
    }

    #[test]
    fn who_comes_into_a_row_made_anew_is_found() {
        let slots = Slots::new();
        let (settlers, crowd) = (crowd(&slots, 1 + WIDTH), crowd(&slots, 3 * WIDTH));
        let ids: Vec<_> = crowd.iter().map(|reader| reader.id).collect();
        crowd.iter().for_each(|reader| park(&slots, reader, 0));
        crowd.iter().for_each(|reader| leave(&slots, reader));
        assert_eq!(slots.rest().map_or(0, Rest::rows), 1);
        let anew: Vec<_> = (0..3 * WIDTH).map(|_| join(&slots)).collect();
        assert_eq!(anew.iter().map(|reader| reader.id).collect::<Vec<_>>(), ids);
        anew.iter().for_each(|reader| park(&slots, reader, 0));
        assert_eq!(wake_all(&slots, 1).wakes, 3 * WIDTH as u64);
        drop(settlers);
    }

    /// Does something when it is woken.
    #[derive(Clone)]
    struct OnWake(&'static dyn Fn());

    // SAFETY: nothing is compared.
    unsafe impl Parked for OnWake {
        fn is_same(&self, _: &Self) -> bool {
            false
        }

        fn again(&self) {}

        fn wake(self, _later: &mut crate::few::Few<std::task::Waker>) {
            (self.0)();
        }
    }

    #[test]
    fn rows_that_are_left_during_a_fan_out_are_freed_when_it_ends() {
        let slots: &Slots<OnWake> = Box::leak(Box::new(Slots::new()));
        let ids: Vec<_> = (0..1 + 5 * WIDTH).map(|_| slots.take_slot()).collect();
        let (stay, go) = ids.split_at(1 + WIDTH + 1);
        let go = go.to_vec();
        let leave = Box::leak(Box::new(move || go.iter().for_each(|id| slots.return_slot(*id))));
        slots.put(stay[1 + WIDTH], true, 0, &OnWake(leave));
        let mut woken = Woken::default();
        assert!(slots.wake_behind(Target { count: 1, all: false }, &mut Place::default(), Budget::UNLIMITED, &mut woken));
        assert_eq!((woken.wakes, slots.rest().map_or(0, Rest::rows)), (1, 2), "the one with a reader, and a spare one");
    }

    /// Joins, parks, passes of any budget and leaves in any order, against a list.
    #[test]
    fn any_order_does_what_a_list_does() {
        let mut random = Random(1);
        for _ in 0..20 {
            let slots = Slots::new();
            let mut count = 0;
            // With the count at which each is parked.
            let mut readers: Vec<(Reader, Option<u64>)> = Vec::new();
            let most = 1 + random.below(300);
            for _ in 0..2_000 {
                match random.below(8) {
                    0..3 if readers.len() < most => readers.push((join(&slots), None)),
                    0..5 if !readers.is_empty() => {
                        let index = random.below(readers.len());
                        let (reader, parked_at) = &mut readers[index];
                        park(&slots, reader, count);
                        *parked_at = Some(count);
                    }
                    5 if !readers.is_empty() => {
                        let (reader, _) = readers.swap_remove(random.below(readers.len()));
                        leave(&slots, &reader);
                    }
                    6 => count += 1,
                    _ => {
                        let mut woken = Woken::default();
                        let budget = random.below(most + 10);
                        let is_through = slots.wake_behind(
                            Target { count, all: false },
                            &mut Place::default(),
                            Budget::exactly(budget),
                            &mut woken,
                        );
                        let behind = readers.iter().filter(|(_, at)| at.is_some_and(|at| at < count)).count();
                        assert_eq!((woken.wakes, is_through), (behind.min(budget) as u64, behind <= budget));
                        let woken = readers.iter_mut().filter(|(reader, _)| reader.bell.state().1 == 0);
                        woken.for_each(|(_, at)| assert!(at.take().is_none_or(|at| at < count)));
                    }
                }
            }
            let parked = readers.iter().filter(|(_, at)| at.is_some()).count();
            assert_eq!(wake_all(&slots, count + 1).wakes, parked as u64);
            readers.iter().for_each(|(reader, _)| leave(&slots, reader));
            assert!(slots.rest().map_or(0, Rest::rows) <= 1);
        }
    }
}
