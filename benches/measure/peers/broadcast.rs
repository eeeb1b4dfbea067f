//! tokio's `broadcast`: one ring for all keys.

use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use super::Peer;

/// `tokio::sync::broadcast`; every reader sees every event.
#[derive(Clone)]
pub(crate) struct Broadcast(broadcast::Sender<u64>);

impl Peer for Broadcast {
    const NAME: &'static str = "tokio broadcast";
    const KEYED: bool = false;
    type Writer = broadcast::Sender<u64>;
    type Reader = broadcast::Receiver<u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let sender = broadcast::Sender::new(retained);
        (sender.clone(), Self(sender))
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        writer.send(event).unwrap_or(0)
    }

    #[inline]
    fn subscribe(&self, _key: u64) -> Self::Reader {
        self.0.subscribe()
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        loop {
            match reader.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        loop {
            match reader.recv().await {
                Ok(event) => return event,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("a sender is kept"),
            }
        }
    }
}
