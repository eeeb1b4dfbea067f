//! Who takes part in the source's workload, and how two threads publish to it.

use std::hint::black_box;

use keywake::SharedPublisher;
use tokio::{runtime::Handle, sync::broadcast};

use crate::measure::peers::{
    Peer,
    broadcast::Broadcast,
    keyed_broadcast::KeyedBroadcast,
    keywake::{Keywake, Relayed},
};

/// A peer that two threads can publish with.
pub(super) trait Shareable: Peer {
    type Shared: Send + Sync + 'static;
    fn share(writer: Self::Writer) -> Self::Shared;
    fn publish_shared(shared: &Self::Shared, key: u64, event: u64);
}

impl Shareable for Broadcast {
    type Shared = broadcast::Sender<u64>;

    fn share(writer: Self::Writer) -> Self::Shared {
        writer
    }

    fn publish_shared(shared: &Self::Shared, _key: u64, event: u64) {
        black_box(shared.send(event).is_ok());
    }
}

impl Shareable for KeyedBroadcast {
    type Shared = Self;

    fn share(writer: Self::Writer) -> Self::Shared {
        writer
    }

    fn publish_shared(shared: &Self::Shared, key: u64, event: u64) {
        black_box(Self::publish(&mut shared.clone(), key, event));
    }
}

impl Shareable for Keywake {
    type Shared = SharedPublisher<u64, u64>;

    fn share(writer: Self::Writer) -> Self::Shared {
        writer.shared()
    }

    fn publish_shared(shared: &Self::Shared, key: u64, event: u64) {
        black_box(shared.publish(&key, event));
    }
}

impl Shareable for Relayed {
    type Shared = SharedPublisher<u64, u64>;

    fn share(writer: Self::Writer) -> Self::Shared {
        writer.shared()
    }

    fn publish_shared(shared: &Self::Shared, key: u64, event: u64) {
        Keywake::publish_shared(shared, key, event);
    }
}

/// One key of keywake for all, from which readers pick their own: the unsplit buffer, in the same make.
#[derive(Clone)]
pub(super) struct AllInOne(Keywake);

impl Peer for AllInOne {
    const NAME: &'static str = "keywake, one key + filter";
    const KEYED: bool = false;
    type Writer = <Keywake as Peer>::Writer;
    type Reader = <Keywake as Peer>::Reader;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (writer, hub) = Keywake::open(retained);
        (writer, Self(hub))
    }

    fn serve(&self, runtime: &Handle) {
        self.0.serve(runtime);
    }

    fn publish(writer: &mut Self::Writer, _key: u64, event: u64) -> usize {
        Keywake::publish(writer, 0, event)
    }

    fn subscribe(&self, _key: u64) -> Self::Reader {
        self.0.subscribe(0)
    }

    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        Keywake::try_recv(reader)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        Keywake::recv(reader).await
    }
}

impl Shareable for AllInOne {
    type Shared = SharedPublisher<u64, u64>;

    fn share(writer: Self::Writer) -> Self::Shared {
        writer.shared()
    }

    fn publish_shared(shared: &Self::Shared, _key: u64, event: u64) {
        Keywake::publish_shared(shared, 0, event);
    }
}
