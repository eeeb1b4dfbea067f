//! The lane of a topic in which members of sets are parked.

use super::{
    member::Member,
    row::{Budget, Put, Woken},
    slots::{Place, SlotId, Slots},
    waiters::{say_left, say_unless_told, target_of},
};
use crate::{
    buffer::word::{State, Waiting, Word},
    sync::Arc,
};

/// See the module.
pub(super) struct Members(Slots<Arc<Member>>);

/// What parking a member came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parking {
    /// Somebody is at the slot, for a member that had it before. It is not parked.
    Busy,
    /// Something came meanwhile. It is not parked.
    Came,
    /// Something came, and it is just being marked for it: not to be parked before that mark has come.
    Marked,
    /// It lies in its slot, and the next event marks it.
    Parked,
}

impl Members {
    pub(super) fn new() -> Self {
        Self(Slots::new())
    }

    pub(super) fn take_slot(&self) -> SlotId {
        self.0.take_slot()
    }

    pub(super) fn return_slot(&self, id: SlotId) {
        self.0.return_slot(id);
    }

    /// See `Waiters::park_member`.
    #[inline]
    pub(super) fn park(&self, id: SlotId, first: bool, word: &Word, count: u64, member: &Arc<Member>) -> Parking {
        if self.0.put(id, first, count, member) == Put::Coming {
            return Parking::Busy;
        }
        if say_unless_told(word, first, count, Waiting::SETS) {
            return Parking::Parked;
        }
        if self.0.take(id) { Parking::Came } else { Parking::Marked }
    }

    pub(super) fn unpark(&self, id: SlotId) {
        self.0.take(id);
    }

    /// See `Waiters::mark`.
    pub(super) fn mark(&self, state: State, word: &Word, woken: &mut Woken) {
        let mut target = target_of(state);
        loop {
            woken.left = false;
            self.0.wake_behind(target, &mut Place::default(), Budget::UNLIMITED, woken);
            // Those who have seen all stay parked, and the word must say so. If an event came since, it may not have seen that.
            if !woken.left || say_left(word, Waiting::SETS, target) {
                return;
            }
            target = target_of(word.take(Waiting::SETS));
        }
    }
}
