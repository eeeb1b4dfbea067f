//! Events as users hold them: owned, or lent.

use std::{fmt, ops::Deref};

use super::{account::Account, block::BlockRef};
use crate::{Position, sync::Arc};

/// Items of a snapshot that share a block.
const SNAPSHOT_BLOCK: u32 = 64;

/// An event of a key, shared with all its readers: a reference into the block that holds it.
///
/// Holding it keeps its block in memory (at most 64 events, and with a weigher at most 64 KiB or the one event), also after the hub is
/// gone; to keep only the value,
/// clone `T`. Cloning an event counts up once; the payload is never cloned.
pub struct Event<T> {
    block: BlockRef<T>,
    index: u32,
}

impl<T> Event<T> {
    /// # Safety
    /// The entry is written and not a mark, and whoever gets the event sees it written (B1: a reader of the topic has acquired a
    /// count beyond it; a snapshot's is written before the event is shared).
    #[inline]
    pub(super) unsafe fn new(block: BlockRef<T>, index: u32) -> Self {
        Self { block, index }
    }

    /// Lays out the items of a snapshot, each with seq 0: a reader cannot resume in the middle of it.
    pub(crate) fn snapshot(items: impl IntoIterator<Item = T>, account: &Arc<Account>) -> Vec<Self> {
        let items: Vec<T> = items.into_iter().collect();
        let mut events = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let capacity = u32::try_from(items.len()).unwrap_or(u32::MAX).min(SNAPSHOT_BLOCK);
            let block = BlockRef::new(capacity, 0, 0, account);
            account.pin(block.weighed());
            for (index, item) in (0..capacity).zip(items.by_ref()) {
                // SAFETY: B1: nobody else has the block yet; it has this length, and `index` is below its capacity.
                unsafe { block.write(index, 0, Some(item), 0, 0) };
                // SAFETY: B1: written just now by this thread, and handed on only by `events`, whose sharing synchronises.
                events.push(unsafe { Self::new(block.clone(), index) });
            }
        }
        events
    }

    /// Lends it.
    pub(crate) fn lend(&self) -> EventRef<'_, T> {
        EventRef { block: &self.block, index: self.index }
    }

    /// Its number in the hub's one sequence; 0 for an item of a snapshot.
    ///
    /// # Examples
    /// Rising over all keys, so two readers can tell which came first:
    /// ```
    /// use keywake::Received::Event;
    /// let (mut publisher, hub) = keywake::hub::<&str, u64>();
    /// let (mut a, mut b) = (hub.subscribe_owned("a"), hub.subscribe_owned("b"));
    /// publisher.publish_batch([("b", 1), ("a", 2)]);
    /// let (Ok(Event(a)), Ok(Event(b))) = (a.try_recv(), b.try_recv()) else { panic!("two events") };
    /// assert!(b.seq() < a.seq());
    /// ```
    #[must_use]
    pub fn seq(&self) -> u64 {
        // SAFETY: B1: by the contract of `new` the entry is written, and we see it.
        unsafe { self.block.entry(self.index) }.seq()
    }

    /// The cursor with which a reader goes on after this event.
    ///
    /// # Examples
    /// ```
    /// use keywake::{Received, Start};
    /// let (mut publisher, hub) = keywake::hub::<u8, &str>();
    /// let mut reader = hub.subscribe(&1);
    /// publisher.publish(&1, "done");
    /// publisher.publish(&1, "to do");
    /// let Ok(Received::Event(event)) = reader.try_recv() else { panic!("an event") };
    /// let mut again = hub.subscribe_from(&1, Start::After(event.position()));
    /// assert!(matches!(again.try_recv(), Ok(Received::Event(event)) if *event == "to do"));
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        Position::new(self.block.account().epoch(), self.seq())
    }
}

impl<T> Deref for Event<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: B1: by the contract of `new` the entry is written, and we see it.
        let entry = unsafe { self.block.entry(self.index) };
        // SAFETY: B1: by the contract of `new` it is not a mark.
        unsafe { entry.event() }
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        Self { block: self.block.clone(), index: self.index }
    }
}

impl<T: fmt::Debug> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("seq", &self.seq()).field("event", &**self).finish()
    }
}

/// An event lent by a subscription until its next call: costs no reference count.
pub struct EventRef<'a, T> {
    block: &'a BlockRef<T>,
    index: u32,
}

impl<'a, T> EventRef<'a, T> {
    /// # Safety
    /// As for [`Event::new`].
    #[inline]
    pub(super) unsafe fn new(block: &'a BlockRef<T>, index: u32) -> Self {
        Self { block, index }
    }

    /// Its number in the hub's one sequence; 0 for an item of a snapshot.
    #[must_use]
    pub fn seq(&self) -> u64 {
        // SAFETY: B1: by the contract of `new` the entry is written, and we see it.
        unsafe { self.block.entry(self.index) }.seq()
    }

    /// The cursor with which a reader goes on after this event.
    #[must_use]
    pub fn position(&self) -> Position {
        Position::new(self.block.account().epoch(), self.seq())
    }

    /// The event, owned: one reference count.
    ///
    /// # Examples
    /// Only some are kept, and only those cost a count:
    /// ```
    /// use keywake::ReceivedRef;
    /// let (mut publisher, hub) = keywake::hub::<u8, u64>();
    /// let mut reader = hub.subscribe(&1);
    /// publisher.publish_batch((1..=10).map(|number| (1, number)));
    /// let mut kept = Vec::new();
    /// while let Ok(ReceivedRef::Event(event)) = reader.try_recv_ref() {
    ///     if *event % 5 == 0 {
    ///         kept.push(event.to_event());
    ///     }
    /// }
    /// assert_eq!(kept.iter().map(|event| **event).collect::<Vec<_>>(), [5, 10]);
    /// ```
    #[must_use]
    pub fn to_event(&self) -> Event<T> {
        Event { block: self.block.clone(), index: self.index }
    }
}

impl<T> Deref for EventRef<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: B1: by the contract of `new` the entry is written, and we see it.
        let entry = unsafe { self.block.entry(self.index) };
        // SAFETY: B1: by the contract of `new` it is not a mark.
        unsafe { entry.event() }
    }
}

impl<T: fmt::Debug> fmt::Debug for EventRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRef").field("seq", &self.seq()).field("event", &**self).finish()
    }
}
