//! Bytes that keys and readers keep. The handles that the user holds count too; the futures as well.

use std::{
    pin::Pin,
    task::{Context, Waker},
};

use keywake::Subscription;
use tokio::sync::broadcast;

use super::peers::{Peer, keywake::Keywake};
use super::{allocator::live_bytes, publishing::RETAINED};

/// Bytes of a channel without keys.
pub(crate) fn empty<P: Peer>() -> usize {
    live_bytes(|| P::open(RETAINED)).1
}

/// Bytes per key with one reader (its handle included) after `events` events per key were published and read. The channel's
/// own bytes are shared out over the keys.
pub(crate) fn idle_key<P: Peer>(keys: u64, events: u64) -> f64 {
    let (_kept, bytes) = live_bytes(|| {
        let (mut writer, hub) = P::open(RETAINED);
        let mut readers = Vec::with_capacity(usize::try_from(keys).expect("few"));
        readers.extend((0..keys).map(|key| hub.subscribe(key)));
        for event in 1..=events {
            for (key, reader) in (0..keys).zip(&mut readers) {
                P::publish(&mut writer, key, event);
                assert_eq!(P::try_recv(reader), Some(event), "{}: an event", P::NAME);
            }
        }
        (writer, hub, readers)
    });
    bytes as f64 / keys as f64
}

/// Bytes per key that stay after its only reader has read one event and left.
pub(crate) fn left_key<P: Peer>(keys: u64) -> (P, f64) {
    let ((writer, hub), bytes) = live_bytes(|| {
        let (mut writer, hub) = P::open(RETAINED);
        for key in 0..keys {
            let mut reader = hub.subscribe(key);
            P::publish(&mut writer, key, 1);
            assert_eq!(P::try_recv(&mut reader), Some(1), "{}: an event", P::NAME);
            hub.unsubscribe(key, reader);
        }
        (writer, hub)
    });
    drop(writer);
    (hub, bytes as f64 / keys as f64)
}

/// Bytes per further reader of a key that waits in keywake's own `recv()`: handle, future, and what the library allocates.
pub(crate) fn parked_keywake(readers: usize) -> f64 {
    let (writer, hub) = Keywake::open(RETAINED);
    let first = hub.subscribe(0);
    let bytes = parked(readers, || hub.subscribe(0), Subscription::recv);
    assert_eq!(hub.0.readers(&0), readers + 1, "the readers and the first one");
    drop((writer, first));
    bytes
}

/// The same for `broadcast::Receiver::recv()`, keyed or not.
pub(crate) fn parked_broadcast<P: Peer<Reader = broadcast::Receiver<u64>>>(readers: usize) -> f64 {
    let (writer, hub) = P::open(RETAINED);
    let first = hub.subscribe(0);
    let bytes = parked(readers, || hub.subscribe(0), broadcast::Receiver::recv);
    drop((writer, first));
    bytes
}

/// `Pin<Box>` of each future is the list's and is not counted; the future in it is. The readers are leaked: a future that
/// borrows its reader can be had for `'static` only so, and the program soon ends.
fn parked<R: 'static, F: Future>(readers: usize, subscribe: impl Fn() -> R, recv: impl Fn(&'static mut R) -> F) -> f64 {
    let mut futures: Vec<Pin<Box<F>>> = Vec::with_capacity(readers);
    let ((), bytes) = live_bytes(|| {
        let mut handles = Vec::with_capacity(readers);
        handles.extend((0..readers).map(|_| subscribe()));
        futures.extend(handles.leak().iter_mut().map(|reader| Box::pin(recv(reader))));
        let mut context = Context::from_waker(Waker::noop());
        for future in &mut futures {
            assert!(future.as_mut().poll(&mut context).is_pending(), "nothing was published");
        }
    });
    drop(futures);
    bytes as f64 / readers as f64
}
