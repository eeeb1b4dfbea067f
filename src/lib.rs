#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "blocks are one allocation each, shared without a lock; see the invariants in buffer/mod.rs")]
mod buffer;
mod few;
#[expect(unsafe_code, reason = "a topic keeps its chain where it is, and one box that is set once")]
mod hub;
#[cfg(any(feature = "meter", feature = "overload"))]
pub mod load;
#[cfg(feature = "meter")]
pub mod meter;
#[cfg(feature = "overload")]
pub mod overload;
mod pattern;
#[cfg(feature = "placement")]
pub mod placement;
mod position;
mod received;
#[cfg(feature = "scaling")]
pub mod scaling;
mod sync;
mod trace;
#[expect(unsafe_code, reason = "wakers are handed over without a lock; see the invariants in wake/mod.rs")]
mod wake;

pub use buffer::{Event, EventRef};
pub use hub::{
    Builder, Hub, OnLastPublisher, PublishAtError, Publisher, Recv, Relay, RelayHandle, SeqError, SetRecv, SharedPublisher, Slow,
    SnapshotFailed, SourcePublisher, Start, Stats, Subscription, SubscriptionSet, TopicCounts, TopicStats, hub,
};
pub use pattern::{ParsePatternError, Pattern};
pub use position::{ParsePositionError, Position};
pub use received::{CloseReason, Closed, Gap, GapCause, Published, Received, ReceivedRef, RecvTimeoutError, TryRecvError};

/// The reference count, for its model.
#[cfg(keywake_loom)]
#[doc(hidden)]
pub use sync::ModelledArc;
/// Which cache lines were touched.
#[cfg(keywake_count)]
#[doc(hidden)]
pub use sync::counting;
/// Slots by themselves, for the models of passes that stop.
#[cfg(keywake_loom)]
#[doc(hidden)]
pub use wake::ModelledSlots;

/// How it is built.
#[cfg(doc)]
#[doc = include_str!("../ARCHITECTURE.md")]
pub mod architecture {}

/// Pairs of what does not compile and what does.
#[cfg(doctest)]
#[doc = include_str!("../tests/contract.md")]
pub mod contract {}

/// What a key must be able to do; every type that can is one.
///
/// Methods that take a borrowed key want `K: Borrow<Q>` and `Q: ToOwned<Owned = K>`, as `String` and `str` are. For keys that are not the
/// owned form of anything (`Arc<str>`, `&'static str`) there are the `_owned` methods.
pub trait Key: Eq + std::hash::Hash + Clone + Send + Sync + 'static {}

impl<K: Eq + std::hash::Hash + Clone + Send + Sync + 'static> Key for K {}
