//! keywake and the channels that it is measured against, behind one trait, each used as its documentation says.
//!
//! Every peer carries `u64` events. The keyed ones hash with `foldhash::fast`, as keywake does; the others ignore the key.

pub(crate) mod async_broadcast;
pub(crate) mod bare_wakes;
pub(crate) mod broadcast;
pub(crate) mod event_listener;
pub(crate) mod keyed_broadcast;
pub(crate) mod keywake;
pub(crate) mod notify;
pub(crate) mod watch;

use tokio::runtime::Handle;

/// The side of a channel that readers are made from; cheap to clone, shared by threads.
pub(crate) trait Peer: Clone + Send + Sync + 'static {
    /// The name in charts and tables.
    const NAME: &'static str;
    /// Whether a reader gets only what is published to its own key.
    const KEYED: bool;
    /// The side that publishes.
    type Writer: Send + 'static;
    /// One reader.
    type Reader: Send + 'static;

    /// Both sides of a channel that keeps `retained` events per ring (a power of two, so that nobody rounds up).
    fn open(retained: usize) -> (Self::Writer, Self);

    /// Sets to work in `runtime`, where the readers are, what there must be beside them.
    fn serve(&self, _runtime: &Handle) {}

    /// Publishes to `key` and returns how many readers that has, where the channel can say so.
    fn publish(writer: &mut Self::Writer, key: u64, event: u64) -> usize;

    /// A reader of what is published to `key` from now on.
    fn subscribe(&self, key: u64) -> Self::Reader;

    /// Ends a reader and whatever of the key must go with the last one.
    fn unsubscribe(&self, key: u64, reader: Self::Reader);

    /// The next event, if there is one. A reader that fell behind goes on at the oldest event that is left.
    fn try_recv(reader: &mut Self::Reader) -> Option<u64>;

    /// Waits for the next event.
    fn recv(reader: &mut Self::Reader) -> impl Future<Output = u64> + Send;
}
