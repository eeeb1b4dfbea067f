//! Figures of a hub and of a topic.

/// Figures of a hub. Each is exact in itself; together they are not of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Living topics.
    pub topics: usize,
    /// Subscriptions, of living topics.
    pub readers: usize,
    /// Topics that are gone and remembered exactly.
    pub tombstones: usize,
    /// Events published.
    pub published: u64,
    /// Of these, the ones that nobody kept.
    pub unread: u64,
    /// Wakes given to parked readers, and to sets that sleep.
    pub wakes: u64,
    /// Wakes given to a reader that had already seen everything when its waker was taken: a check of the bookkeeping, always 0. (A reader
    /// that is about to be woken may still take the event by itself; that is not counted. Nor is a set's wake looked at.)
    pub empty_wakes: u64,
    /// Passes over the parked readers of a key. (Sets are marked, without one.)
    pub fan_outs: u64,
    /// Of these, the ones that a publisher made though there is a relay: it was overdue, or too many keys waited for it.
    pub fall_backs: u64,
    /// Wakes of the relay.
    pub relay_wakes: u64,
    /// Turns of relays, and of sets that did their work, in which a waker panicked. The others were woken all the same, and the panic goes
    /// nowhere: it is nobody's here.
    pub relay_panics: u64,
    /// Publishes that found their key's readers about to be woken by the relay: no wake of their own was needed.
    pub coalesced: u64,
    /// Gaps told.
    pub gaps: u64,
    /// Bytes of blocks and weighed events that readers can reach.
    pub retained_bytes: u64,
    /// Bytes out of reach that somebody still holds (a sleeping reader, an event), or that wait to be freed.
    pub pinned_bytes: u64,
}

/// Figures of one living topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicStats {
    /// Its subscriptions.
    pub readers: usize,
    /// Events appended to it since it was made.
    pub published: u64,
    /// Events that a new reader could still get.
    pub retained_events: u64,
    /// Seq of its newest event; where it has none yet, of the last of its key that is not kept, as far as known.
    pub last_seq: u64,
    /// What was done for its readers. `None`: that is not counted; see [`Builder::count_per_topic`](crate::Builder::count_per_topic).
    pub counts: Option<TopicCounts>,
}

/// What was done for the subscriptions of one topic since it was made; each as the field of that name in [`Stats`]. What is done for sets is
/// counted for the hub only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// Wakes given to its parked readers.
    pub wakes: u64,
    /// Wakes for nothing: 0.
    pub empty_wakes: u64,
    /// Passes over its parked readers.
    pub fan_outs: u64,
    /// Of these, the ones that a publisher made though there is a relay.
    pub fall_backs: u64,
    /// Publishes that found its readers about to be woken.
    pub coalesced: u64,
    /// Gaps told to its readers.
    pub gaps: u64,
}
