//! What one writes by hand today: a `DashMap` from key to tokio broadcast channel.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use tokio::sync::broadcast;

use super::{Peer, broadcast::Broadcast};

/// `DashMap<u64, broadcast::Sender<u64>>`, with empty keys removed race-free (`remove_if` under the shard's lock).
#[derive(Clone)]
pub(crate) struct KeyedBroadcast {
    map: Arc<DashMap<u64, broadcast::Sender<u64>, RandomState>>,
    capacity: usize,
}

impl Peer for KeyedBroadcast {
    const NAME: &'static str = "DashMap<broadcast>";
    const KEYED: bool = true;
    type Writer = Self;
    type Reader = broadcast::Receiver<u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let hub = Self { map: Arc::new(DashMap::with_hasher(RandomState::default())), capacity: retained };
        (hub.clone(), hub)
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize {
        match writer.map.get(&key) {
            Some(sender) => sender.send(event).unwrap_or(0),
            None => 0,
        }
    }

    #[inline]
    fn subscribe(&self, key: u64) -> Self::Reader {
        self.map.entry(key).or_insert_with(|| broadcast::Sender::new(self.capacity)).subscribe()
    }

    #[inline]
    fn unsubscribe(&self, key: u64, reader: Self::Reader) {
        drop(reader);
        self.map.remove_if(&key, |_, sender| sender.receiver_count() == 0);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        Broadcast::try_recv(reader)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        Broadcast::recv(reader).await
    }
}
