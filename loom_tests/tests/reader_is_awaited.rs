//! Who waits for a key to have a reader is woken when it has one or the hub ends, and leaves nothing behind when it stops waiting.

use std::{future::Future, pin::pin, task::Poll};

use keywake::{CloseReason, Closed, Hub};
use loom_tests::{Alarm, KEY, Payload, builder, model, race, race3};

/// Polls once, and after all threads are joined again: the answer of the last poll.
struct Awaited {
    alarm: Alarm,
    asleep_at: Option<usize>,
}

/// Polls a wait once and drops it.
fn wait_once(hub: &Hub<u8, Payload>) -> (Awaited, Poll<Result<(), Closed>>) {
    let alarm = Alarm::new();
    let mut wait = pin!(hub.wait_for_reader(&KEY));
    let rings = alarm.rings();
    let polled = alarm.poll(|cx| wait.as_mut().poll(cx));
    let asleep_at = polled.is_pending().then_some(rings);
    (Awaited { alarm, asleep_at }, polled)
}

#[test]
fn wait_against_subscribe() {
    model(|| {
        let (publisher, hub) = builder().build();
        let (waiting, other) = (hub.clone(), hub.clone());
        let alarm = Alarm::new();
        let at = alarm.clone();
        let ((mut wait, polled), reader) = race(
            move || {
                let mut wait = Box::pin(waiting.wait_for_reader(&KEY));
                let polled = at.poll(|cx| wait.as_mut().poll(cx));
                drop(at);
                (wait, polled)
            },
            move || other.subscribe(&KEY),
        );
        if polled.is_pending() {
            assert_eq!(alarm.rings(), 1, "it sleeps, and there is a reader");
            assert_eq!(alarm.poll(|cx| wait.as_mut().poll(cx)), Poll::Ready(Ok(())));
        } else {
            assert_eq!((polled, alarm.rings()), (Poll::Ready(Ok(())), 0));
        }
        drop(wait);
        assert_eq!(alarm.copies(), 0, "wakers");
        drop((publisher, reader, hub));
    });
}

#[test]
fn wait_against_the_last_reader_leaving_and_another_coming() {
    model(|| {
        let (publisher, hub) = builder().build();
        let first = hub.subscribe(&KEY);
        let (waiting, other) = (hub.clone(), hub.clone());
        let ((awaited, _), (), reader) = race3(move || wait_once(&waiting), move || drop(first), move || other.subscribe(&KEY));
        // It was dropped: if it slept, it may have been woken, and its waker is gone.
        assert!(awaited.alarm.rings() <= usize::from(awaited.asleep_at.is_some()));
        assert_eq!(awaited.alarm.copies(), 0, "wakers");
        let (_, polled) = wait_once(&hub);
        assert_eq!(polled, Poll::Ready(Ok(())), "there is a reader");
        drop((publisher, reader, hub));
    });
}

#[test]
fn wait_against_shutdown() {
    model(|| {
        let (publisher, hub) = builder().build();
        let (waiting, closing) = (hub.clone(), hub.clone());
        let alarm = Alarm::new();
        let at = alarm.clone();
        let ((mut wait, polled), ()) = race(
            move || {
                let mut wait = Box::pin(waiting.wait_for_reader(&KEY));
                let polled = at.poll(|cx| wait.as_mut().poll(cx));
                drop(at);
                (wait, polled)
            },
            move || closing.shutdown(CloseReason::Shutdown),
        );
        let polled = if polled.is_pending() {
            assert_eq!(alarm.rings(), 1, "it sleeps, and the hub is over");
            alarm.poll(|cx| wait.as_mut().poll(cx))
        } else {
            polled
        };
        let Poll::Ready(Err(closed)) = polled else { panic!("closed, not {polled:?}") };
        assert_eq!(closed.reason(), &CloseReason::Shutdown);
        drop((publisher, wait, hub));
    });
}
