//! tokio's `watch`: the newest value only, so it promises less than all the others.

use tokio::sync::watch;

use super::Peer;

/// `tokio::sync::watch`; values in between are lost by design.
#[derive(Clone)]
pub(crate) struct Watch(watch::Sender<u64>);

impl Peer for Watch {
    const NAME: &'static str = "tokio watch";
    const KEYED: bool = false;
    type Writer = watch::Sender<u64>;
    type Reader = watch::Receiver<u64>;

    fn open(_retained: usize) -> (Self::Writer, Self) {
        let sender = watch::Sender::new(0);
        (sender.clone(), Self(sender))
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        usize::from(writer.send(event).is_ok())
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
        reader.has_changed().expect("a sender is kept").then(|| *reader.borrow_and_update())
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        reader.changed().await.expect("a sender is kept");
        *reader.borrow_and_update()
    }
}
