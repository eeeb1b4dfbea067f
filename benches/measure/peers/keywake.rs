//! keywake itself.

use std::time::{Duration, Instant};

use keywake::{Builder, Hub, Publisher, Received, Subscription};
use tokio::{runtime::Handle, time};

use super::Peer;

/// A hub with default settings but for `retain_events`; no relay, wakes are given inline.
#[derive(Clone)]
pub(crate) struct Keywake(pub(crate) Hub<u64, u64>);

impl Peer for Keywake {
    const NAME: &'static str = "keywake";
    const KEYED: bool = true;
    type Writer = Publisher<u64, u64>;
    type Reader = Subscription<u64, u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (publisher, hub) = Builder::new().retain_events(retained).build();
        (publisher, Self(hub))
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize {
        writer.publish(&key, event).readers
    }

    #[inline]
    fn subscribe(&self, key: u64) -> Self::Reader {
        self.0.subscribe(&key)
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        loop {
            match reader.try_recv() {
                Ok(Received::Event(event)) => return Some(*event),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        loop {
            if let Received::Event(event) = reader.recv().await.expect("the hub is open") {
                return *event;
            }
        }
    }
}

/// The same with a relay in the readers' runtime.
#[derive(Clone)]
pub(crate) struct Relayed(pub(crate) Keywake);

/// The same with a relay that fans no key out more often than once in a millisecond.
#[derive(Clone)]
pub(crate) struct RelayedAtIntervals(Keywake);

/// The shortest time between two fan-outs of a key.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);

impl Peer for Relayed {
    const NAME: &'static str = "keywake, relay";
    const KEYED: bool = true;
    type Writer = Publisher<u64, u64>;
    type Reader = Subscription<u64, u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (publisher, hub) = Keywake::open(retained);
        (publisher, Self(hub))
    }

    fn serve(&self, runtime: &Handle) {
        let relay = self.0.0.relay();
        // Only of use where another worker can run it. With the feature it is spawned by the relay itself.
        if !cfg!(feature = "tokio") && runtime.metrics().num_workers() > 1 {
            runtime.spawn(relay.twin());
        }
        runtime.spawn(relay);
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize {
        Keywake::publish(writer, key, event)
    }

    #[inline]
    fn subscribe(&self, key: u64) -> Self::Reader {
        self.0.subscribe(key)
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        Keywake::try_recv(reader)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        Keywake::recv(reader).await
    }
}

impl Peer for RelayedAtIntervals {
    const NAME: &'static str = "keywake, relay, 1 ms";
    const KEYED: bool = true;
    type Writer = Publisher<u64, u64>;
    type Reader = Subscription<u64, u64>;

    fn open(retained: usize) -> (Self::Writer, Self) {
        let (publisher, hub) = Builder::new().retain_events(retained).min_fanout_interval(INTERVAL).build();
        (publisher, Self(Keywake(hub)))
    }

    fn serve(&self, runtime: &Handle) {
        Relayed(self.0.clone()).serve(runtime);
        // With the feature the relay has a timer of its own.
        if !cfg!(feature = "tokio") {
            let hub = self.0.0.clone();
            runtime.spawn(async move {
                while !hub.is_shutdown() {
                    time::sleep(INTERVAL).await;
                    hub.sweep(Instant::now());
                }
            });
        }
    }

    #[inline]
    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize {
        Keywake::publish(writer, key, event)
    }

    #[inline]
    fn subscribe(&self, key: u64) -> Self::Reader {
        self.0.subscribe(key)
    }

    #[inline]
    fn unsubscribe(&self, _key: u64, reader: Self::Reader) {
        drop(reader);
    }

    #[inline]
    fn try_recv(reader: &mut Self::Reader) -> Option<u64> {
        Keywake::try_recv(reader)
    }

    async fn recv(reader: &mut Self::Reader) -> u64 {
        Keywake::recv(reader).await
    }
}
