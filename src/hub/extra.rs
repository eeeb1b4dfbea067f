//! What most subscriptions do not have: something to be told before the topic is read, another way to be slow, a predicate, an end.

use std::fmt;

use super::watch::Watch;
use crate::{Closed, Event, Gap, Key, Position, sync::PlainArc};

/// What a reader gets that does not keep up; set by [`Subscription::slow`](crate::Subscription::slow).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slow {
    /// The subscription ends with [`CloseReason::SlowReader`](crate::CloseReason::SlowReader) when retention took events that it had not
    /// received. No gap is told: its position stays before the loss, and to come back with it is exact. Here the loss is then told
    /// as the gap that the new subscription begins with; where more is retained, nothing may be lost at all.
    Close,
    /// A [`Gap`](crate::Gap) over what retention took, and then what is still there.
    #[default]
    Gap,
    /// The newest event: where more than one is unread, all before the newest is skipped, and told as one gap with
    /// [`GapCause::Conflated`](crate::GapCause::Conflated).
    Latest,
}

/// What is told before the topic is read, and at the end.
pub(super) struct Extra<K: Key, T: Send + Sync + 'static> {
    pub(super) gap: Option<Untold>,
    pub(super) snapshot: Option<Snapshot<T>>,
    pub(super) closed: Option<Closed>,
    /// Where a subscription stands that ended before its topic did: one that was refused, with what it had come.
    pub(super) ended_at: Option<Position>,
    pub(super) slow: Slow,
    /// What was skipped is told, and the event after it comes next, whatever came since.
    pub(super) is_due: bool,
    /// It left its topic when it ended, and not when it is dropped.
    pub(super) has_left: bool,
    pub(super) watch: Option<Watch<K, T>>,
}

/// A gap that is still to be told, and the position with which the reader came: until it is told, coming back means coming with that.
pub(crate) struct Untold {
    pub(crate) gap: Gap,
    pub(crate) came: Position,
}

impl<K: Key, T: Send + Sync + 'static> Extra<K, T> {
    /// Whether a subscription is the same without it.
    pub(super) fn is_plain(&self) -> bool {
        let tells = self.gap.is_some() || self.snapshot.is_some() || self.closed.is_some();
        !tells && self.slow == Slow::Gap && self.watch.is_none()
    }

    /// The position, while something that comes before the topic's events is still to be told.
    pub(super) fn position(&self, epoch: u64) -> Option<Position> {
        // Nobody resumes in the middle of a snapshot.
        let unfinished = self.snapshot.as_ref().map(|_| Position::new(epoch, 0));
        unfinished.or(self.ended_at).or_else(|| self.gap.as_ref().map(|untold| untold.came))
    }
}

impl<K: Key, T: Send + Sync + 'static> Default for Extra<K, T> {
    fn default() -> Self {
        Self {
            gap: None,
            snapshot: None,
            closed: None,
            ended_at: None,
            slow: Slow::default(),
            is_due: false,
            has_left: false,
            watch: None,
        }
    }
}

pub(super) struct Snapshot<T> {
    pub(super) items: PlainArc<[Event<T>]>,
    pub(super) next: usize,
    pub(super) end: Position,
    /// What lies between the snapshot's end and the first event to follow, if that is a loss.
    pub(super) gap: Option<Untold>,
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Extra<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra")
            .field("gap", &self.gap.as_ref().map(|untold| untold.gap))
            .field("closed", &self.closed)
            .field("slow", &self.slow)
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}
