//! Who waits on a key, and how they are woken.
//!
//! # What it means
//! A reader that has read all parks its waker in a *slot* of the topic, which it keeps for life: no registration per wait, no lock.
//! An append that finds PARKED in the topic's word is followed by a *fan-out*, which wakes exactly those that were parked before it
//! and have not seen the count it saw.
//!
//! # Who may touch what, and when
//! A slot has two bits in its row's word, P(arked) and H(eld).
//! * **W1 Cells.** Neither P nor H: the cell is empty and the slot owner's. P: it holds a waker (or what acts as one: [`row::Parked`]), and
//!   whoever takes P off by a read-modify-write has it: the owner (to empty it), or a fan-out, which sets H in the same step. H: the
//!   fan-out and the owner only read it, until the fan-out takes H off (or turns it back into P, the waker not taken out). A slot may
//!   change its owner at any time: the new one meets the same bits.
//! * **W2 Wakes.** Wakers are taken out of their cells, H is taken off for the whole row, and only then are they woken, without any
//!   lock; one that panics does not keep the others from theirs.
//! * **W3 Rows.** The seat, the first row, and the groups of further ones, once made, live as long as the topic. A row of a group is linked
//!   and unlinked with the free list locked: linked when a slot of it is given out, unlinked when none is any more and another such row
//!   is kept in spare. So the owner of a slot need not care. A fan-out looks for rows as a *visitor*, who is counted; what is
//!   unlinked lies in *limbo* until somebody finds that no visitor is there who came before (the cases are in `visitors.rs`). A row may
//!   be made anew in the place of one that is in limbo. A fan-out that is at the old one misses nobody: had its exchange on the summary
//!   come after a mention by a reader of the new one, it would have found the new one; so it came before, and that reader sees
//!   the count that made it come (P1). A summary may tell of a row that is gone: its bit is taken off for nothing.
//! * **P1 Parking against publishing.** The reader sets P, then the summary, then PARKED, then looks at the count; the publisher
//!   counts, then takes PARKED off, then the summary, then looks at P. All of these but the looks are read-modify-writes on the same
//!   words in opposite order, so one of the two sees the other. A reader may leave out a read-modify-write on the summary or on
//!   the word if it sees the bit set: then the fan-out that takes the bit off has yet to come to the reader's row, or has been there
//!   before the reader, who then sees the new count.
//!
//! # Lanes
//! Tasks park in slots of the topic's own; whoever waits in another way (a blocked thread, a reader bound to a relay, a member of a set, a
//! predicate) in a lane of his kind, which is made when first needed. A lane is one more level of P1: between its summaries and ASIDE (for
//! sets: SETS) in the topic's word stands its bit in `More::parked`.
//! * **W5 Threads.** Whoever wakes a thread leaves the others to it: a thread that finds its waker gone, however it then leaves, wakes the
//!   next two. So a wake that is given is never swallowed, and the publisher gives one. Whoever is woken by a pass that stops may be faster
//!   than the pass: of whom it has not come to, or cannot wake any more, the summaries tell before it takes anybody's P off.
//!
//! * **W6 Predicates.** What lies in their slots is no waker: a fan-out takes it out as one, and what came is looked at outside of every lock,
//!   perhaps by user code, before anybody is woken (`hub/filter.rs`). Those of tasks are told of by PARKED, so that a relay serves them within its budget;
//!   those of blocked threads, which depend on no relay, by ASIDE.
//! * **W7 Members.** A member of a set is in a slot of its key's topic, or in its set's list of those that were marked, or with its owner, and
//!   never in two of these. `next` is touched by whoever took it out of the slot and marks it, until it is in the list, and then by the set's
//!   owner, who takes the list as a whole. The list owns a reference to each.
//! * **P2 Marking before telling.** Of an event, members that wait for its key are marked before the writer tells it as completed, or before
//!   the relay counts as done what was pushed for it. So a set that takes a number up to which that is told, and *then* its list, knows of
//!   every event up to it (`hub/set/roster.rs`). Who marks beside the writer, for a close, says so before and after.
//!
//! # The relay
//! * **W4 Ring.** Only the hub's writer, in its exclusive section, pushes; only who has the turn takes out. A cell is the producer's until its
//!   item is counted in `pushed`, and the consumer's until the item is counted in `taken`.
//! * **R1 Queued.** An append that meets a waiter the relay serves says QUEUED in the same step, and is followed by a push: so QUEUED shows
//!   exactly while a push of the topic is to come, or in the ring. Whoever takes it out takes QUEUED off by a read-modify-write *before* it looks
//!   for waiters: an append either comes before that, and is in the count that is looked for, or after it, and pushes anew.
//! * **R2 Running.** RUNNING shows from then on until a pass over the topic's tasks is through. An append that meets it pushes
//!   nothing, and its event is in the count that is compared when RUNNING is taken off: a pass that was for less is followed by another.
//! * **R3 Alive.** ALIVE and `pushed` are one word. A push that comes before the relay goes is drained by who drops the relay; one that comes
//!   after by its publisher. Work is done by one at a time: who finds somebody at it raises the turn, and that one goes over all again.
//! * **R4 Asleep.** ASLEEP is in that word, too: of a push and a relay that falls asleep, its waker laid ready, one comes second and knows.
//! * **R5 Bound lanes.** As R1, with a word for each lane: 0, or DIRTY where an event came since the relay took the lane from its list.

mod filter;
mod group;
mod member;
mod members;
mod rest;
mod ring;
mod row;
mod slots;
mod visitors;
mod waiters;

pub(crate) use filter::{FilterRef, Offer};
pub(crate) use member::{Core, Member};
pub(crate) use members::Parking;
pub(crate) use ring::{Pushed, Ring};
pub(crate) use row::Woken;
#[cfg(keywake_loom)]
pub use slots::ModelledSlots;
pub(crate) use slots::SlotId;
pub(crate) use waiters::{Bell, Counts, FilterLane, Lane, Pass, Waiters};
