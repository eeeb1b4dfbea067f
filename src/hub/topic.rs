//! A topic: a key, its events, its readers' slots. Also what is left of it when it is gone.

use std::{fmt, ptr};

use crate::{
    CloseReason,
    buffer::{chain::Chain, reader::Home, word::Word},
    sync::{Arc, AtomicPtr, AtomicU64, Ordering, Tally},
    wake::Waiters,
};

/// See the module.
///
/// In this order: what a publish touches stands together, from `key` to the first fields of `chain`, and for a small key on one cache
/// line or two.
#[repr(C)]
pub(crate) struct Topic<K, T> {
    key: K,
    pub(crate) desk: Desk,
    pub(crate) chain: Chain<T>,
    pub(crate) waiters: Waiters,
    hash: u64,
    pub(crate) unkept: Unkept,
    /// Set once, before CLOSED; null until then.
    ending: AtomicPtr<Ending>,
}

/// How topics are shared.
pub(crate) type TopicArc<K, T> = Arc<Topic<K, T>>;

// SAFETY: the same chain on every call, as B1 asks: it is a field of the topic, which the Arc neither moves nor changes for another.
unsafe impl<K, T> Home<T> for TopicArc<K, T> {
    fn chain(&self) -> &Chain<T> {
        &self.chain
    }
}

impl<K, T> Topic<K, T> {
    pub(crate) fn new(hash: u64, key: K) -> Self {
        Self::with_word(hash, key, Word::new())
    }

    fn with_word(hash: u64, key: K, word: Word) -> Self {
        Self {
            chain: Chain::new(word, 0),
            waiters: Waiters::new(),
            hash,
            key,
            desk: Desk::new(),
            unkept: Unkept(AtomicU64::new(0)),
            ending: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A topic that never lived, for a subscription that ends at once.
    pub(crate) fn closed(hash: u64, key: K, reason: CloseReason) -> Self {
        let topic = Self::with_word(hash, key, Word::closed());
        topic.set_ending(Ending { reason, seq: 0, of_hub: false });
        topic
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.chain.word.observe().is_dead()
    }

    /// Called once, before the topic is closed, with its shard locked.
    pub(crate) fn set_ending(&self, ending: Ending) {
        let ending = Box::into_raw(Box::new(ending));
        // Relaxed: released by the CLOSED that follows.
        self.ending.store(ending, Ordering::Relaxed);
    }

    /// How it was closed; there once CLOSED was seen.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        // Relaxed: whoever needs it has acquired CLOSED, which was released after it was set.
        let ending = self.ending.load(Ordering::Relaxed);
        // SAFETY: B6: a topic dies once, so this is set once, by `Box::into_raw`; whoever sees it set has acquired CLOSED, and it is
        // dropped with the topic.
        unsafe { ending.as_ref() }
    }
}

impl<K, T> Drop for Topic<K, T> {
    fn drop(&mut self) {
        // Relaxed: nobody else is left.
        let ending = self.ending.load(Ordering::Relaxed);
        if !ending.is_null() {
            // SAFETY: B6: a topic dies once, so this was set once, by `Box::into_raw`; nobody else is left.
            drop(unsafe { Box::from_raw(ending) });
        }
    }
}

/// How a topic was closed.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) reason: CloseReason,
    /// Every event of the key up to this seq was in the topic.
    pub(crate) seq: u64,
    /// The hub ended, and not only the key.
    pub(crate) of_hub: bool,
}

impl<K, T> fmt::Debug for Topic<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("chain", &self.chain).field("desk", &self.desk).finish_non_exhaustive()
    }
}

/// What the registry keeps of a topic, changed with the shard locked only, and so one number:
///
/// ```text
///   bits 0..32   readers
///   bits 32..62  0: the writer knows the topic; otherwise 1 + its index among the shard's newborns
///   bit 62       it stands in the shard's queue of idle topics
///   bit 63       it had a reader since it was put there
/// ```
#[derive(Debug)]
pub(crate) struct Desk(Tally);

const READERS: u64 = (1 << 32) - 1;
const NEWBORN_SHIFT: u32 = 32;
const NEWBORN: u64 = ((1 << 30) - 1) << NEWBORN_SHIFT;
const QUEUED: u64 = 1 << 62;
const TOUCHED: u64 = 1 << 63;

impl Desk {
    fn new() -> Self {
        Self(Tally::new(0))
    }

    /// May be asked without the lock.
    #[inline]
    pub(crate) fn readers(&self) -> usize {
        usize::try_from(self.0.get() & READERS).unwrap_or(usize::MAX)
    }

    /// A reader comes; the answer is how many there were.
    pub(crate) fn join(&self) -> usize {
        let before = self.readers();
        self.0.set((self.0.get() + 1) | TOUCHED);
        before
    }

    /// A reader goes; the answer is how many are left.
    pub(crate) fn leave(&self) -> usize {
        self.0.set(self.0.get() - 1);
        self.readers()
    }

    /// Where it stands among the newborns; `None`: the writer knows it.
    pub(crate) fn newborn(&self) -> Option<usize> {
        let index = (self.0.get() & NEWBORN) >> NEWBORN_SHIFT;
        usize::try_from(index).ok()?.checked_sub(1)
    }

    /// It stands there now.
    pub(crate) fn set_newborn(&self, index: Option<usize>) {
        let field = index.map_or(0, |index| (index as u64 + 1) << NEWBORN_SHIFT);
        // 2^30 topics that the writer has not met, in one of the shards: a terabyte of them comes first.
        assert!(field & !NEWBORN == 0, "too many new topics");
        self.0.set(self.0.get() & !NEWBORN | field);
    }

    /// It has no reader, and does not wait to be idle for long enough either.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.0.get() & (READERS | QUEUED) == 0
    }

    /// It is put into the queue of idle topics; false: it stands there already.
    pub(crate) fn queue(&self) -> bool {
        let word = self.0.get();
        if word & QUEUED != 0 {
            // TOUCHED stays: its time starts anew.
            return false;
        }
        self.0.set((word | QUEUED) & !TOUCHED);
        true
    }

    /// It is taken out of the queue; true: it had readers meanwhile.
    pub(crate) fn unqueue(&self) -> bool {
        let word = self.0.get();
        self.0.set(word & !(QUEUED | TOUCHED));
        word & TOUCHED != 0
    }
}

/// The seq of the newest event of a dead topic's key that nobody kept: what makes a dead topic a tombstone. Folded, it is one no
/// more, and its seq is in the stripes.
#[derive(Debug)]
pub(crate) struct Unkept(AtomicU64);

/// Above every seq, so that a maximum leaves it alone.
const FOLDED: u64 = 1 << 63;

impl Unkept {
    /// The writer notes an event that is not kept. False: folded; it is to be noted in the stripes.
    pub(crate) fn note(&self, seq: u64) -> bool {
        // Relaxed: whether this comes before or after the fold is told by the one order of changes to this word; that a reader that
        // does not learn of it learns of the event otherwise is the births' doing (H2).
        self.0.fetch_max(seq, Ordering::Relaxed) & FOLDED == 0
    }

    /// Ends the tombstone (shard locked). The answer is its seq; `None`: it was ended before.
    pub(crate) fn fold(&self) -> Option<u64> {
        // Relaxed: whether a note comes before or after is told by the one order of changes to this word (see `note`).
        let before = self.0.fetch_or(FOLDED, Ordering::Relaxed);
        (before & FOLDED == 0).then_some(before)
    }

    /// Whether it is a tombstone of a key whose newest event lies after this seq (shard locked).
    pub(crate) fn is_after(&self, seq: u64) -> bool {
        // Relaxed: an event that is just being noted is not missed by who does not see it: it was published meanwhile.
        let word = self.0.load(Ordering::Relaxed);
        word & FOLDED == 0 && word > seq
    }

    /// Whether it is a tombstone no more, or was never made one.
    pub(crate) fn is_folded(&self) -> bool {
        // Relaxed: once folded it stays so.
        self.0.load(Ordering::Relaxed) & FOLDED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desk_keeps_its_fields_apart() {
        let desk = Desk::new();
        assert_eq!((desk.join(), desk.join()), (0, 1));
        desk.set_newborn(Some(7));
        assert_eq!((desk.readers(), desk.newborn()), (2, Some(7)));
        assert!(desk.queue() && !desk.queue());
        assert_eq!((desk.leave(), desk.leave()), (1, 0));
        assert!(!desk.unqueue());
        desk.queue();
        desk.join();
        assert!(desk.unqueue());
        desk.queue();
        desk.join();
        assert!(!desk.queue() && desk.unqueue(), "a reader that came and went while it stood in the queue is remembered");
        desk.set_newborn(None);
        assert_eq!((desk.readers(), desk.newborn()), (2, None));
    }
}
