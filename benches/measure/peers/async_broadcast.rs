//! `async-broadcast` in overflow mode, the only one in which its writer does not wait for readers.

use async_broadcast::{InactiveReceiver, Receiver, RecvError, Sender, TryRecvError};

use super::Peer;

/// `async_broadcast::broadcast` with `set_overflow(true)`; an inactive receiver keeps it open.
#[derive(Clone)]
pub(crate) struct AsyncBroadcast(InactiveReceiver<u64>);

impl Peer for AsyncBroadcast {
    const NAME: &'static str = "async-broadcast";
    const KEYED: bool = false;
    type Writer = Sender<u64>;
    type Reader = Receiver<u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (mut sender, receiver) = async_broadcast::broadcast(retained);
        sender.set_overflow(true);
        (sender, Self(receiver.deactivate()))
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        usize::from(writer.try_broadcast(event).is_ok())
    }

    #[inline]
    fn subscribe(&self, _key: u64) -> Self::Reader {
        self.0.activate_cloned()
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
                Err(TryRecvError::Overflowed(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        loop {
            match reader.recv_direct().await {
                Ok(event) => return event,
                Err(RecvError::Overflowed(_)) => {}
                Err(RecvError::Closed) => panic!("a sender is kept"),
            }
        }
    }
}
