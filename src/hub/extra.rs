//! What most subscriptions do not have: something to be told before the topic is read, or an end.

use std::fmt;

use crate::{Closed, Event, Gap, Position, sync::PlainArc};

/// What is told before the topic is read, and at the end.
pub(super) struct Extra<T> {
    pub(super) gap: Option<Untold>,
    pub(super) snapshot: Option<Snapshot<T>>,
    pub(super) closed: Option<Closed>,
    /// The position with which a subscription that was refused had come.
    pub(super) refused_at: Option<Position>,
}

/// A gap that is still to be told, and the position with which the reader came: until it is told, coming back means coming with that.
pub(crate) struct Untold {
    pub(crate) gap: Gap,
    pub(crate) came: Position,
}

impl<T> Extra<T> {
    /// The position, while something that comes before the topic's events is still to be told.
    pub(super) fn position(&self, epoch: u64) -> Option<Position> {
        // Nobody resumes in the middle of a snapshot.
        let unfinished = self.snapshot.as_ref().map(|_| Position::new(epoch, 0));
        unfinished.or(self.refused_at).or_else(|| self.gap.as_ref().map(|untold| untold.came))
    }
}

impl<T> Default for Extra<T> {
    fn default() -> Self {
        Self { gap: None, snapshot: None, closed: None, refused_at: None }
    }
}

pub(super) struct Snapshot<T> {
    pub(super) items: PlainArc<[Event<T>]>,
    pub(super) next: usize,
    pub(super) end: Position,
    /// What lies between the snapshot's end and the first event to follow, if that is a loss.
    pub(super) gap: Option<Untold>,
}

impl<T> fmt::Debug for Extra<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra")
            .field("gap", &self.gap.as_ref().map(|untold| untold.gap))
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
