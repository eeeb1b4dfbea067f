//! A topic's one word: how many events it has, and who may do what with it.

use crate::sync::{AtomicU64, Ordering};

/// The word of a topic. Every change is a read-modify-write, so that all changes have one order and none is lost.
///
/// ```text
///   bits 10..64 count    events appended so far, evicted ones included
///   bit 9       RUNNING  the relay has it among those whose tasks it is to wake
///   bit 8       QUEUED   it stands in the relay's ring
///   bit 7       ASIDE    somebody may be parked in another lane: a thread, a predicate, a reader bound to a relay
///   bit 6       SETS     a member of a set may be parked
///   bit 5       VACANT   no reader is left and none can come: the buffer may be torn down
///   bit 4       SEALED   the tail block is no longer the writer's: the next append starts a new chain
///   bit 3       DEAD     nothing may be appended any more
///   bit 2       BUSY     the writer is inside `append`
///   bit 1       PARKED   a task may be parked
///   bit 0       CLOSED   readers that have read all are at the end
/// ```
/// 54 bits count the events of 57 years at ten million a second.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

const CLOSED: u64 = 1;
const PARKED: u64 = 1 << 1;
const BUSY: u64 = 1 << 2;
const DEAD: u64 = 1 << 3;
const SEALED: u64 = 1 << 4;
const VACANT: u64 = 1 << 5;
const SETS: u64 = 1 << 6;
const ASIDE: u64 = 1 << 7;
const QUEUED: u64 = 1 << 8;
const RUNNING: u64 = 1 << 9;
const COUNT_SHIFT: u32 = 10;

/// Which kind of waiter a bit of the word speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting(u64);

impl Waiting {
    /// PARKED.
    pub(crate) const TASKS: Self = Self(PARKED);
    /// SETS.
    pub(crate) const SETS: Self = Self(SETS);
    /// ASIDE.
    pub(crate) const ASIDE: Self = Self(ASIDE);
}

/// A copy of the word, to ask questions of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// Events appended so far.
    #[inline]
    pub(crate) fn count(self) -> u64 {
        self.0 >> COUNT_SHIFT
    }

    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether somebody of this kind may be parked.
    #[inline]
    pub(crate) fn has(self, waiting: Waiting) -> bool {
        self.0 & waiting.0 != 0
    }

    /// Whether anybody may be parked.
    #[inline]
    pub(crate) fn has_any(self) -> bool {
        self.0 & (PARKED | SETS | ASIDE) != 0
    }

    /// Whether an append that met this state is to put the topic into the relay's ring: somebody waits whom the relay serves, and it
    /// will not come by anyway.
    #[inline]
    pub(crate) fn is_to_queue(self) -> bool {
        self.0 & QUEUED == 0 && (self.0 & SETS != 0 || self.0 & (PARKED | RUNNING) == PARKED)
    }

    /// Whether the relay is to come by for tasks that wait: it is behind if it does not.
    #[inline]
    pub(crate) fn is_relayed(self) -> bool {
        self.0 & PARKED != 0 && self.0 & (QUEUED | RUNNING) != 0
    }

    /// Whether a push of the topic into the relay's ring is to come, or there.
    #[inline]
    pub(crate) fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    #[inline]
    pub(crate) fn is_running(self) -> bool {
        self.0 & RUNNING != 0
    }

    #[inline]
    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    #[inline]
    pub(crate) fn is_sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    #[inline]
    pub(crate) fn is_vacant(self) -> bool {
        self.0 & VACANT != 0
    }

    #[inline]
    pub(crate) fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }
}

/// How a topic dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Closed, with readers that still have to read what is buffered.
    Closed,
    /// Closed, and nobody is reading.
    ClosedVacant,
    /// Its last reader left; not a close, since nobody is there to be told.
    Vacant,
}

impl Word {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The word of a topic that was never alive: what a subscription that ends at once reads.
    pub(crate) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED | DEAD))
    }

    #[inline]
    pub(crate) fn observe(&self) -> State {
        // Acquire (pairs with `append` and `retire`): the entries below the count, and the reason of a close, are visible.
        State(self.0.load(Ordering::Acquire))
    }

    /// The writer comes in. Unless the answer is dead, nobody else touches the writer's part until `append` or `exit`.
    #[inline]
    pub(crate) fn enter(&self) -> State {
        // Relaxed: the one order of changes to the word tells whose the writer's part is; a writer that finds SEALED or DEAD leaves what
        // others then touch alone. An addition, which is one instruction where an `or` that answers is a loop: BUSY is not set, since
        // only the writer sets it.
        State(self.0.fetch_add(BUSY, Ordering::Relaxed))
    }

    /// The writer makes one more event visible and goes out, unless the topic has died meanwhile: what readers can see cannot be
    /// taken back, so this must be one step. `inside` is what `enter` returned. The answer is the state before, or `None` if dead.
    ///
    /// Where the state before `is_to_queue`, and there is a relay, it says QUEUED in the same step, which the answer tells, too: the caller
    /// then puts the topic into the ring. Whether there is one is not asked where nobody waits: the answer lies where relays write.
    #[inline]
    pub(crate) fn append(&self, inside: State, has_relay: impl Fn() -> bool) -> Option<(State, bool)> {
        let mut word = inside.0 | BUSY;
        while word & DEAD == 0 {
            let queued = if State(word).has_any() && State(word).is_to_queue() && has_relay() { QUEUED } else { 0 };
            let next = (word & !(BUSY | SEALED) | queued) + (1 << COUNT_SHIFT);
            // Release (pairs with `observe`, `take`, `retire`, `seal`): the entry is written before it is counted. Failure
            // Relaxed: nothing is read on the strength of it.
            match self.0.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some((State(word), queued != 0)),
                Err(current) => word = current,
            }
        }
        None
    }

    /// The writer goes out without an event. If the answer is vacant, the buffer is the writer's to tear down.
    pub(crate) fn exit(&self) -> State {
        // Release (pairs with `retire` and `vacate`): whichever of the two comes second tears the buffer down. If that is the other, it
        // sees what we did with it; if we are it, what readers did is told by the lock of the ends and the blocks' own counts.
        State(self.0.fetch_and(!BUSY, Ordering::Release))
    }

    /// The topic dies; called with the registry's shard locked. If the answer is not busy and the death a vacant one, the buffer
    /// is the caller's to tear down; if busy, the writer's.
    pub(crate) fn retire(&self, death: Death) -> State {
        let flags = match death {
            Death::Closed => CLOSED | DEAD,
            Death::ClosedVacant => CLOSED | DEAD | VACANT,
            Death::Vacant => DEAD | VACANT,
        };
        // AcqRel (pairs with `append`, `exit` and `observe`): we see every entry and the last seq of every append that came
        // before; readers that see CLOSED see the reason.
        State(self.0.fetch_or(flags, Ordering::AcqRel))
    }

    /// The topic dies a vacant death, if it has still `count` events, as observed, and the writer is out. False: it has more or is just
    /// about to, and lives on.
    pub(crate) fn retire_at(&self, count: u64) -> bool {
        // Relaxed: only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & BUSY == 0 && word >> COUNT_SHIFT == count {
            // Relaxed: the appends up to `count` were acquired with it, and there is no other; that `enter` finds our DEAD is told by the
            // one order of changes to the word. Failure Relaxed: we look again, or give up.
            match self.0.compare_exchange_weak(word, word | DEAD | VACANT, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }

    /// The last reader of a closed topic leaves. Who tears down: as for `retire`.
    pub(crate) fn vacate(&self) -> State {
        // Acquire (pairs with `append` and `exit`): if the writer is out, we see all that it did.
        State(self.0.fetch_or(VACANT, Ordering::Acquire))
    }

    /// Takes the tail block away from the writer, if the writer is out, the topic alive and its count still `count`.
    pub(crate) fn seal(&self, count: u64) -> bool {
        // Relaxed: only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & (BUSY | DEAD | SEALED) == 0 && word >> COUNT_SHIFT == count {
            // Acquire (pairs with `append`, whose entries we are about to drop). That `enter` finds our SEALED is told by the one order of
            // changes to the word. Failure Relaxed: we look again, or give up.
            match self.0.compare_exchange_weak(word, word | SEALED, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }

    /// A reader says that it is parked.
    #[inline]
    pub(crate) fn say(&self, waiting: Waiting) -> State {
        // AcqRel (pairs with `take` and `append`): either the append comes first, and we see its count and take our bit
        // back; or we come first, and the appender finds the bit and, in the slots, us.
        State(self.0.fetch_or(waiting.0, Ordering::AcqRel))
    }

    /// A fan-out begins: whoever parks after this says so again.
    #[inline]
    pub(crate) fn take(&self, waiting: Waiting) -> State {
        // AcqRel (pairs with `say`): what was written before the bit was said, such as a new row of slots, is visible;
        // a parker that finds the bit gone must see the count that made us come.
        State(self.0.fetch_and(!waiting.0, Ordering::AcqRel))
    }

    /// The relay has taken the topic out of its ring, and is about to mark the sets that wait here.
    pub(crate) fn unqueue(&self) -> State {
        // AcqRel (pairs with `say` and `append`): as for `take`; an append that comes after it puts the topic into the ring again.
        State(self.0.fetch_and(!(QUEUED | SETS), Ordering::AcqRel))
    }

    /// The relay is going to wake its tasks; or has been through, and will not come again by itself.
    pub(crate) fn set_running(&self, running: bool) -> State {
        // AcqRel (pairs with `append`): an append that still met RUNNING is in the count that this returns; one that comes later
        // puts the topic into the ring.
        State(if running { self.0.fetch_or(RUNNING, Ordering::AcqRel) } else { self.0.fetch_and(!RUNNING, Ordering::AcqRel) })
    }
}
