//! The byte budget over the whole hub: blocks in the order in which they were started, the oldest to go first.

use std::collections::VecDeque;

use super::topic::TopicArc;
use crate::{
    buffer::{
        account::Account,
        chain::{Appended, Garbage},
    },
    few::Few,
    sync::Arc,
};

/// See the module.
pub(crate) struct Budget<K, T> {
    bytes: u64,
    /// Blocks, by their topic and the count before their first entry.
    blocks: VecDeque<(TopicArc<K, T>, u64)>,
    /// Length at which entries of blocks that are gone are thrown out.
    tidy_at: usize,
}

impl<K, T> Budget<K, T> {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, blocks: VecDeque::new(), tidy_at: 128 }
    }

    /// After an append. Blocks that are let go are put into `garbage`, topics into `topics`: dropping either is user code, and the
    /// publisher's mutex may be held.
    pub(crate) fn enforce(
        &mut self,
        topic: &TopicArc<K, T>,
        appended: &Appended,
        account: &Account,
        garbage: &mut Garbage<T>,
        topics: &mut Few<TopicArc<K, T>>,
    ) {
        if appended.started {
            self.blocks.push_back((Arc::clone(topic), appended.base));
            if self.blocks.len() >= self.tidy_at {
                self.tidy(topics);
            }
        }
        while account.retained_bytes() > self.bytes {
            let Some((oldest, base)) = self.blocks.front() else { return };
            if Arc::ptr_eq(oldest, topic) && *base == appended.base {
                // The event that was just published is still to be read by those it is for.
                return;
            }
            if oldest.chain.evict_block(*base, account, garbage).is_none() {
                // A reader is just coming in there; the next publish goes on.
                return;
            }
            if let Some((oldest, _)) = self.blocks.pop_front() {
                topics.push(oldest);
            }
        }
    }

    /// Throws out entries of blocks that went for another reason: they would pile up behind an old block of a quiet key.
    #[cold]
    fn tidy(&mut self, topics: &mut Few<TopicArc<K, T>>) {
        for (topic, base) in std::mem::take(&mut self.blocks) {
            if base >= topic.chain.head() && !topic.is_dead() {
                self.blocks.push_back((topic, base));
            } else {
                topics.push(topic);
            }
        }
        self.tidy_at = 2 * self.blocks.len() + 128;
    }
}
