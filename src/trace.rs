//! Life-cycle events for the `tracing` feature; nothing without it. Called outside of every lock, since a subscriber is user code.

use crate::{CloseReason, Gap, Position};

/// Topics were made.
#[inline]
pub(crate) fn topics_made(number: u32) {
    if number > 0 {
        #[cfg(feature = "tracing")]
        tracing::trace!(target: "keywake", number, "topics made");
    }
}

/// Topics are gone.
#[inline]
pub(crate) fn topics_removed(number: u32) {
    if number > 0 {
        #[cfg(feature = "tracing")]
        tracing::trace!(target: "keywake", number, "topics removed");
    }
}

/// A reader was told of a loss.
#[inline]
pub(crate) fn gap_told(gap: &Gap) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "keywake", from = gap.from, to = gap.to, missed = gap.missed, cause = ?gap.cause, "gap told");
    let _ = gap;
}

/// A subscription ended, and its key did not.
#[inline]
pub(crate) fn ended_early(reason: &CloseReason, position: Position) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "keywake", %reason, seq = position.seq(), "subscription ended early");
    let _ = (reason, position);
}

/// The hub was shut down.
#[inline]
pub(crate) fn shut_down(reason: &CloseReason) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "keywake", %reason, "hub shut down");
    let _ = reason;
}

/// A relay that was polled is gone: publishers wake those whom it served by themselves. `serves_all`: those who are bound to none, too,
/// until another one is polled.
#[inline]
pub(crate) fn relay_gone(serves_all: bool) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "keywake", serves_all, "relay gone");
    let _ = serves_all;
}
