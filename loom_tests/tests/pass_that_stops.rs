//! A pass over parked readers that stops at its budget is gone on with by those it wakes, at once, and nobody is left out.

#![cfg(keywake_loom)]

use std::sync::Arc;

use keywake::ModelledSlots;
use loom_tests::{Alarm, model, race, race3};

/// One who waits, and who goes on with the pass when he finds himself woken.
struct Waiter {
    slot: u32,
    alarm: Alarm,
    is_done: bool,
}

/// Who waits in each of the first slots; `false`: the slot is given out, and nobody waits there.
fn waiters(slots: &ModelledSlots, waiting: &[bool]) -> Vec<Waiter> {
    let mut waiters = Vec::new();
    for is_waiting in waiting {
        let alarm = Alarm::new();
        let slot = alarm.park(|waker| slots.park(waker));
        if *is_waiting {
            waiters.push(Waiter { slot, alarm, is_done: false });
        } else {
            slots.unpark(slot);
        }
    }
    waiters
}

impl Waiter {
    /// Looks whether it was woken: then it wakes the next. Otherwise it goes, and was not to be woken.
    fn leave(mut self, slots: &ModelledSlots) -> Self {
        self.is_done = true;
        if !slots.unpark(self.slot) {
            slots.wake(1);
        }
        self
    }
}

/// All threads are joined. Those who were woken and have not yet gone on do so, one after the other: then all have been.
#[track_caller]
fn judge(slots: &ModelledSlots, mut waiters: Vec<Waiter>) {
    while let Some(next) = waiters.iter().position(|waiter| !waiter.is_done && waiter.alarm.rings() > 0) {
        waiters[next].is_done = true;
        slots.wake(1);
    }
    for waiter in waiters {
        assert!(waiter.is_done, "nobody goes on, and {} sleeps", waiter.slot);
        assert!(waiter.alarm.rings() <= 1, "{} wakes", waiter.alarm.rings());
    }
}

/// Slots 3 and 4 are one row with a summary, and 5 and 6 another.
#[track_caller]
fn one_is_faster_than_the_pass(waiting: &[bool]) {
    let waiting = waiting.to_vec();
    model(move || {
        let slots = Arc::new(ModelledSlots::default());
        let mut others = waiters(&slots, &waiting);
        let first = others.remove(0);
        let (passing, leaving) = (Arc::clone(&slots), Arc::clone(&slots));
        let (_, first) = race(move || passing.wake(1), move || first.leave(&leaving));
        others.push(first);
        judge(&slots, others);
    });
}

#[test]
fn who_is_woken_goes_on_in_the_same_row() {
    one_is_faster_than_the_pass(&[false, false, false, true, true]);
}

#[test]
fn who_is_woken_goes_on_in_the_next_row() {
    one_is_faster_than_the_pass(&[false, false, false, true, false, true, true]);
}

#[test]
fn who_is_woken_goes_on_behind_the_seat() {
    one_is_faster_than_the_pass(&[true, true, false, true]);
}

#[test]
fn two_are_faster_than_the_pass() {
    model(|| {
        let slots = Arc::new(ModelledSlots::default());
        let mut others = waiters(&slots, &[false, false, false, true, true, true]);
        let (first, second) = (others.remove(0), others.remove(0));
        let [passing, one, two] = [(); 3].map(|()| Arc::clone(&slots));
        let (_, first, second) = race3(move || passing.wake(2), move || first.leave(&one), move || second.leave(&two));
        others.extend([first, second]);
        judge(&slots, others);
    });
}
