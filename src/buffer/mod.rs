//! One key's events: linked blocks, one writer, many readers.
//!
//! # What it means
//! A [`Chain`](chain::Chain) is a run of entries numbered from 0 by the topic's *count*; each carries the hub's `seq`. The writer
//! appends; retention drops whole blocks at the old end; a [`Reader`](reader::Reader) walks from block to block at its own pace
//! and never holds up either. A reader whose next block is gone learns which seqs it lost and goes on at the oldest block.
//!
//! # Who may touch what, and when
//! * **B1 Entries.** An entry is written once, by the writer, before the count covers it; from then on it is immutable until the
//!   block's last reference is gone. A reader reads an entry only after acquiring a count beyond it, and `Header::len` says
//!   whether that entry is in this block. (The one exception, an entry taken out again, was never counted: the topic is dead.)
//! * **B2 Writer's part.** `Chain::tail`, and the entries and `len` of the block it points to, belong to the writer between a
//!   [`Word::enter`](word::Word::enter) that did not find DEAD and the `append` or `exit` after it. While the topic is alive and not
//!   SEALED, the chain holds a reference to the tail block. A writer that finds SEALED does not follow `tail` any more.
//! * **B3 Blocks.** A block lives while it has a reference: the chain's head, the link of the block before it, a reader standing in
//!   it, an owned event. Dropping a chain is a loop.
//! * **B4 Ends.** `Ends` changes under its mutex. The writer never waits for it: a block that continues no chain is laid into
//!   `Chain::first`, where the next one with the lock finds it. There is at most one such block, since a chain with a tail that the
//!   writer may use is linked to, and only a thread with the lock, which has emptied `first`, takes the tail away (SEALED).
//! * **B5 Links.** A link owns a reference to its target and is cut once: by whoever severs the block, or by the last reader that
//!   was inside the gate at that time. A reader counts the target up only inside the gate, before the cut. So a sleeping reader pins
//!   one block, not all that came after. Who severs has acquired the link: while the topic lives by `is_linked` (or a seal, and then
//!   there is none), later by the word.
//! * **B6 Death.** DEAD is set once, under the registry's lock. After it no entry is counted. The buffer is torn down once nobody
//!   can read it (VACANT) and the writer is out: by whichever of the two comes second.
//!
//! Nothing in here runs user code but the drop of payloads, and that outside of every lock.

pub(crate) mod account;
mod block;
pub(crate) mod chain;
mod event;
pub(crate) mod limits;
pub(crate) mod reader;
pub(crate) mod word;

pub(crate) use block::BlockRef;
pub use event::{Event, EventRef};
