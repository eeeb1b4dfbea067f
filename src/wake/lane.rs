//! Slots with wakers of tasks, told of by PARKED in the topic's word.

use std::task::Waker;

use super::{
    row::{Parked, Put, Target, Woken},
    slots::{Place, SlotId, Slots},
};
use crate::buffer::word::{State, Word};

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
    fn wake(self) {
        self.wake();
    }
}

impl Slots<Waker> {
    /// Parks a reader that has seen `count` events. False: something came meanwhile, and it is not parked.
    ///
    /// `first`: as for `put`.
    pub(crate) fn park(&self, id: SlotId, first: bool, word: &Word, count: u64, waker: &Waker) -> bool {
        if self.put(id, first, count, waker) == Put::Coming {
            return true;
        }
        let has_come = |state: State| state.count() != count || state.is_closed();
        let mut state = word.observe();
        // A PARKED that is still set with the count still the same is as good as our own: the fan-out that takes it off has yet to
        // come, and its read-modify-write on our row comes after ours (P1). It must be told anew for a row it may not know.
        if first || (!state.has_parked() && !has_come(state)) {
            state = word.mark_parked();
        }
        if has_come(state) {
            self.take(id);
            return false;
        }
        true
    }

    /// Wakes every reader that was parked before and has something to read; once the topic is closed, every parked reader.
    #[cold]
    pub(crate) fn fan_out(&self, word: &Word) -> Woken {
        let mut woken = Woken::default();
        loop {
            let state = word.take_parked();
            let target = Target { count: state.count(), all: state.is_closed() };
            woken.left = false;
            self.wake_behind(target, &mut Place::default(), usize::MAX, &mut woken);
            if !woken.left {
                return woken;
            }
            // Those who have seen all stay parked, and PARKED must say so. If an event came since, it may not have seen PARKED.
            let now = word.mark_parked();
            if now.count() == target.count && now.is_closed() == target.all {
                return woken;
            }
        }
    }
}
