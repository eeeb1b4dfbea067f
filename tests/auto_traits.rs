//! Which types may cross threads, be shared, be moved while polled, be cloned: a change here breaks users.

use std::{
    convert::Infallible,
    error::Error,
    fmt::{Debug, Display},
    future::ready,
    hash::Hash,
    panic::{RefUnwindSafe, UnwindSafe},
    str::FromStr,
};

use futures_core::Stream;
use keywake::{
    Builder, CloseReason, Closed, Event, EventRef, Gap, GapCause, Hub, OnLastPublisher, ParsePatternError, ParsePositionError,
    Pattern, Position, PublishAtError, Published, Publisher, Received, ReceivedRef, Recv, RecvTimeoutError, SeqError,
    SharedPublisher, Slow, SnapshotFailed, SourcePublisher, Start, Stats, Subscription, TopicStats, TryRecvError, hub,
};

fn send<T: Send + ?Sized>(_: &T) {}

macro_rules! assert_impl {
    ($($type:ty: $($bound:path),+;)+) => {
        $({
            fn check<T: ?Sized $(+ $bound)+>() {}
            check::<$type>();
        })+
    };
}

/// Holds if the type does not implement the trait: with it, the call below would be ambiguous.
macro_rules! assert_not_impl {
    ($($type:ty: $bound:path;)+) => {
        $({
            trait Probe<Marker> {
                fn probe() {}
            }
            impl<T: ?Sized> Probe<()> for T {}
            struct Implements;
            impl<T: ?Sized + $bound> Probe<Implements> for T {}
            <$type as Probe<_>>::probe();
        })+
    };
}

/// A payload that is neither `Clone` nor `Debug` nor `Unpin`.
struct Bare {
    _not_unpin: std::marker::PhantomPinned,
}

type Key = String;

#[test]
fn handles_cross_threads() {
    assert_impl! {
        Publisher<Key, Bare>: Send;
        SourcePublisher<Key, Bare>: Send;
        SharedPublisher<Key, Bare>: Send, Sync, Clone;
        Hub<Key, Bare>: Send, Sync, Clone;
        Subscription<Key, Bare>: Send;
        Builder<Key, Bare>: Send;
        Event<Bare>: Send, Sync, Clone;
        EventRef<'static, Bare>: Send, Sync;
        Received<Bare>: Send, Sync;
        ReceivedRef<'static, Bare>: Send, Sync;
    }
}

#[test]
fn subscription_and_its_future_can_be_polled_in_place() {
    assert_impl! {
        Subscription<Key, Bare>: Unpin, Stream<Item = Received<Bare>>;
        Recv<'static, Key, Bare>: Send, Future<Output = Result<Received<Bare>, Closed>>;
        Hub<Key, Bare>: Unpin;
        Publisher<Key, Bare>: Unpin;
        Event<Bare>: Unpin;
    }
}

#[test]
fn there_is_one_writer() {
    assert_not_impl! {
        Publisher<Key, Bare>: Clone;
        SourcePublisher<Key, Bare>: Clone;
        Subscription<Key, Bare>: Clone;
    }
}

#[test]
fn futures_can_be_spawned() {
    let (_publisher, hub) = hub::<Key, Bare>();
    let mut sub = hub.subscribe("a");
    send(&sub.recv());
    send(&sub.recv_ref());
    send(&sub.recv_many(&mut Vec::new(), 1));
    send(&hub.wait_for_reader("a"));
    let snapshot = || ready(Ok::<_, Infallible>((Vec::<Bare>::new(), Position::new(0, 0))));
    send(&hub.subscribe_with_snapshot("a", snapshot));
}

#[test]
fn handles_print_whatever_the_payload_is() {
    assert_impl! {
        Builder<Key, Bare>: Debug;
        Event<u64>: Debug;
        EventRef<'static, u64>: Debug;
        Hub<Key, Bare>: Debug;
        Publisher<Key, Bare>: Debug;
        SharedPublisher<Key, Bare>: Debug;
        SourcePublisher<Key, Bare>: Debug;
        Subscription<Key, Bare>: Debug;
        Received<u64>: Debug;
        ReceivedRef<'static, u64>: Debug;
        PublishAtError<u64>: Debug;
        Recv<'static, Key, Bare>: Debug;
    }
}

#[test]
fn results_are_plain_values() {
    assert_impl! {
        Position: Copy, Debug, Display, Eq, FromStr<Err = ParsePositionError>, Hash, PartialOrd, Send, Sync;
        Pattern: Clone, Debug, Display, Eq, FromStr<Err = ParsePatternError>, Hash, Send, Sync;
        Published: Copy, Debug, Eq, Send, Sync;
        Gap: Copy, Debug, Eq, Send, Sync;
        GapCause: Copy, Debug, Eq, Hash, Send, Sync;
        Start: Copy, Debug, Eq, Send, Sync;
        Slow: Copy, Debug, Eq, Send, Sync;
        OnLastPublisher: Copy, Debug, Eq, Send, Sync;
        CloseReason: Clone, Debug, Display, Eq, Hash, Send, Sync;
        Stats: Clone, Debug, Default, Eq, Send, Sync;
        TopicStats: Clone, Debug, Default, Eq, Send, Sync;
    }
}

#[test]
fn errors_are_errors_that_cross_threads() {
    assert_impl! {
        Closed: Clone, Eq, Error, Send, Sync;
        TryRecvError: Clone, Eq, Error, Send, Sync;
        RecvTimeoutError: Clone, Eq, Error, Send, Sync;
        ParsePatternError: Clone, Eq, Error, Send, Sync;
        ParsePositionError: Clone, Eq, Error, Send, Sync;
        SnapshotFailed: Clone, Error, Send, Sync;
        SeqError: Copy, Eq, Debug, Error, Send, Sync;
        PublishAtError<u64>: Error, Send, Sync;
    }
}

#[test]
fn a_caught_panic_may_leave_handles_in_use() {
    assert_impl! {
        Event<u64>: UnwindSafe, RefUnwindSafe;
        Position: UnwindSafe, RefUnwindSafe;
        Closed: UnwindSafe, RefUnwindSafe;
    }
}

/// What stands for something open on this thread stays on it; what is polled may be moved to another.
#[cfg(feature = "meter")]
#[test]
fn brackets_stay_on_their_thread_and_meters_do_not() {
    use keywake::meter::{Excluded, Meter, Metered, PollTimer, Scope, Split, StreamMeter, cgroup::CgroupReader};
    assert_impl! {
        Meter: Clone, Send, Sync;
        StreamMeter: Clone, Send, Sync;
        Metered<std::future::Ready<()>>: Send;
        PollTimer: Send, Sync, Unpin;
        Split: Clone, Send, Sync;
        CgroupReader: Send;
    }
    assert_not_impl! {
        Scope<'static>: Send;
        Excluded<'static>: Send;
        Metered<std::rc::Rc<()>>: Send;
    }
}
