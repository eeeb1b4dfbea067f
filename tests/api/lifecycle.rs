//! How keys, hubs, subscriptions and events begin and end.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
};

use keywake::{Builder, CloseReason, Hub, Position, Received, Start, TryRecvError, hub};

use crate::support::{
    Counted, CountingWaker, LIMIT, Ledger, assert_closed, assert_empty, block_on, drain, next_event, next_gap, park, within_limit,
};

#[test]
fn closed_key_delivers_what_is_buffered_and_then_its_reason() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let mut other = hub.subscribe("b");
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    let reason = CloseReason::Other("moved away".into());
    assert!(hub.close("a", reason.clone()));
    assert_eq!(drain(&mut sub), [1, 2]);
    assert_eq!(assert_closed(&mut sub).reason(), &reason);
    assert_empty(&mut other);
}

#[test]
fn close_says_whether_there_was_a_topic() {
    let (_publisher, hub) = hub::<String, u64>();
    assert!(!hub.close("a", CloseReason::KeyClosed));
    let sub = hub.subscribe("a");
    assert!(hub.close("a", CloseReason::KeyClosed));
    assert!(!hub.close("a", CloseReason::KeyClosed));
    drop(sub);
    assert!(!hub.close("a", CloseReason::KeyClosed));
}

#[test]
fn close_wakes_every_parked_reader_of_the_key_once() {
    let (_publisher, hub) = hub::<String, u64>();
    let mut subs: Vec<_> = (0..70).map(|n| hub.subscribe(if n < 60 { "a" } else { "b" })).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    hub.close("a", CloseReason::KeyClosed);
    for (n, waker) in wakers.iter().enumerate() {
        assert_eq!(waker.wakes(), usize::from(n < 60), "reader {n}");
    }
}

#[test]
fn closed_key_can_be_subscribed_again() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build();
    let mut old = hub.subscribe("a");
    publisher.publish("a", 1);
    hub.close("a", CloseReason::KeyClosed);
    assert_eq!((hub.topics(), hub.readers("a")), (0, 0));

    let mut new = hub.subscribe("a");
    assert_eq!(publisher.publish("a", 2).readers, 1);
    assert_eq!(drain(&mut new), [2]);
    // The old one ends where it was closed.
    assert_eq!(drain(&mut old), [1]);
    assert_closed(&mut old);
    // Leaving the closed topic does not hurt the new one.
    drop(old);
    assert_eq!((hub.topics(), hub.readers("a")), (1, 1));
    publisher.publish("a", 3);
    assert_eq!(drain(&mut new), [3]);
}

#[test]
fn events_that_went_with_a_closed_key_are_told_to_a_reader_that_comes_back() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build();
    let _old = hub.subscribe("a");
    for value in 1..=3 {
        publisher.publish("a", value);
    }
    hub.close("a", CloseReason::KeyClosed);
    let gap = next_gap(&mut hub.subscribe_from("a", Start::After(Position::new(7, 1))));
    assert_eq!((gap.from, gap.to), (1, 3));
    assert_empty(&mut hub.subscribe_from("a", Start::After(Position::new(7, 3))));
}

#[test]
fn publish_to_a_closed_key_reaches_nobody_until_it_is_subscribed_again() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut old = hub.subscribe("a");
    hub.close("a", CloseReason::KeyClosed);
    assert_eq!(publisher.publish("a", 1).readers, 0);
    assert_closed(&mut old);
}

#[test]
fn shutdown_ends_every_reader_with_its_reason_after_the_buffered() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut subs: Vec<_> = ["a", "b", "c"].iter().map(|key| hub.subscribe(*key)).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    publisher.publish("b", 1);
    assert!(!hub.is_shutdown());
    hub.shutdown(CloseReason::Shutdown);
    assert!(hub.is_shutdown());
    // One wake each: the reader of "b" was already awake.
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    assert_eq!(drain(&mut subs[1]), [1]);
    for sub in &mut subs {
        assert_eq!(assert_closed(sub).reason(), &CloseReason::Shutdown);
    }
    assert_eq!(hub.topics(), 0);
}

#[test]
fn subscribing_after_shutdown_ends_at_once() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_unread(true).build();
    publisher.publish("a", 1);
    hub.shutdown(CloseReason::Other("night".into()));
    for start in [Start::Next, Start::Oldest, Start::Latest, Start::After(Position::new(7, 1))] {
        let mut sub = hub.subscribe_from("b", start);
        assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::Other("night".into()));
        assert_eq!(sub.key(), "b");
        assert_eq!(sub.lag(), 0);
    }
    assert_eq!((hub.topics(), hub.readers("b")), (0, 0));
}

#[test]
fn first_shutdown_gives_the_reason() {
    let (publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    hub.shutdown(CloseReason::Other("first".into()));
    hub.shutdown(CloseReason::Shutdown);
    drop(publisher);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::Other("first".into()));
    assert_eq!(assert_closed(&mut hub.subscribe("a")).reason(), &CloseReason::Other("first".into()));
}

#[test]
fn close_reasons_say_whether_coming_back_makes_sense() {
    use CloseReason::{KeyClosed, Other, PredicatePanicked, PublisherDropped, Shutdown, SlowReader, TopicLimit};
    for (reason, resume) in [
        (KeyClosed, false),
        (Other("because".into()), false),
        (PredicatePanicked, false),
        (PublisherDropped, true),
        (Shutdown, true),
        (SlowReader, true),
        (TopicLimit, true),
    ] {
        assert_eq!(reason.may_resume(), resume, "{reason:?}");
        assert!(!reason.to_string().is_empty());
    }
}

#[test]
fn reader_alone_outlives_publisher_and_hub() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    drop((publisher, hub));
    assert_eq!(*next_event(&mut sub), 1);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::PublisherDropped);
}

#[test]
fn hub_handles_come_and_go_without_closing_anything() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.clone().subscribe("a");
    drop(hub);
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    assert_eq!(publisher.hub().readers("a"), 1);
}

#[test]
fn event_outlives_everything_and_its_clones_are_the_same_event() {
    let (mut publisher, hub) = Builder::<String, String>::new().epoch(7).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", "payload".to_owned());
    let first = next_event(&mut sub);
    let second = first.clone();
    assert!(std::ptr::eq(&raw const *first, &raw const *second), "a clone shares the value");
    drop((publisher, hub, sub, first));
    let kept = thread::spawn(move || (second.as_str().to_owned(), second.seq(), second.position()));
    assert_eq!(kept.join().expect("no panic"), ("payload".to_owned(), 1, Position::new(7, 1)));
}

#[test]
fn every_payload_is_dropped_exactly_once_whatever_became_of_it() {
    const EVENTS: usize = 2_000;
    let ledger = Ledger::new(EVENTS);
    let (mut publisher, hub) = Builder::<usize, Counted>::new().retain_events(20).build();
    // Key 0: unread. 1: reader that reads all. 2: reader that never reads. 3: reader that keeps events. 4: closed half way.
    // 5: the reader leaves half way.
    let mut subs: Vec<_> = (1..6).map(|key| hub.subscribe(&key)).collect();
    let mut kept = Vec::new();
    for number in 0..EVENTS {
        publisher.publish(&(number % 6), ledger.payload(number));
        if let Ok(received) = subs[0].try_recv() {
            drop(received);
        }
        if let Ok(Received::Event(event)) = subs[2].try_recv() {
            kept.push(event.clone());
            kept.push(event);
        }
        if number == EVENTS / 2 {
            hub.close(&4, CloseReason::KeyClosed);
            subs.pop();
        }
    }
    let alive_at_most = kept.len() + 6 * (20 + 64) + EVENTS / 6;
    assert!(EVENTS - ledger.dropped() <= alive_at_most, "{} alive", EVENTS - ledger.dropped());
    drop(publisher);
    drop(subs);
    drop(hub);
    let before = ledger.dropped();
    assert!(kept.iter().all(|event| event.number % 6 == 3));
    drop(kept);
    assert!(before < EVENTS, "events that are held live on");
    ledger.assert_each_dropped_once();
}

#[test]
fn payloads_of_a_topic_go_with_its_last_reader() {
    let ledger = Ledger::new(200);
    let (mut publisher, hub) = hub::<String, Counted>();
    let sub = hub.subscribe("a");
    for number in 0..200 {
        publisher.publish("a", ledger.payload(number));
    }
    assert_eq!(ledger.dropped(), 0);
    drop(sub);
    ledger.assert_each_dropped_once();
}

#[test]
fn wait_for_reader_ends_when_the_key_has_one() {
    let (_publisher, hub) = hub::<String, u64>();
    let waiter = hub.clone();
    let mut wait = pin!(waiter.wait_for_reader("a"));
    let waker = CountingWaker::new();
    let task = Waker::from(Arc::clone(&waker));
    let mut cx = Context::from_waker(&task);
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    let _other = hub.subscribe("b");
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    let _sub = hub.subscribe("a");
    assert!(waker.wakes() >= 1);
    assert_eq!(wait.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    // Already there: at once.
    assert_eq!(block_on(hub.wait_for_reader("a")), Ok(()));
}

#[test]
fn wait_for_reader_waits_again_for_a_key_that_was_left() {
    let (_publisher, hub) = hub::<String, u64>();
    drop(hub.subscribe("a"));
    assert!(poll_once(&hub, "a").is_pending());
    let _sub = hub.subscribe("a");
    assert!(poll_once(&hub, "a").is_ready());
}

fn poll_once(hub: &Hub<String, u64>, key: &str) -> Poll<Result<(), keywake::Closed>> {
    pin!(hub.wait_for_reader(key)).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn wait_for_reader_looks_at_readers_and_not_at_topics() {
    let (mut publisher, hub) = Builder::<String, u64>::new().keep_idle(LIMIT).retain_unread(true).build();
    drop(hub.subscribe("left"));
    publisher.publish("unread", 1);
    for key in ["left", "unread"] {
        let waiter = hub.clone();
        let mut wait = pin!(waiter.wait_for_reader(key));
        let waker = CountingWaker::new();
        let task = Waker::from(Arc::clone(&waker));
        assert!(wait.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
        let _sub = hub.subscribe(key);
        assert_eq!(waker.wakes(), 1);
        assert!(wait.as_mut().poll(&mut Context::from_waker(&task)).is_ready());
    }
}

#[test]
fn wait_for_reader_that_is_given_up_or_moved_leaves_no_waker_behind() {
    let (_publisher, hub) = hub::<String, u64>();
    let (old, new) = (CountingWaker::new(), CountingWaker::new());
    {
        let mut wait = pin!(hub.wait_for_reader("a"));
        for waker in [&old, &old, &new] {
            let task = Waker::from(Arc::clone(waker));
            assert!(wait.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
        }
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 2));
    }
    assert_eq!(Arc::strong_count(&new), 1);
    drop(hub.subscribe("a"));
    assert_eq!((old.wakes(), new.wakes()), (0, 0));
}

#[test]
fn wait_for_reader_ends_with_the_hub() {
    let (_publisher, hub) = hub::<String, u64>();
    let waiter = hub.clone();
    let mut wait = pin!(waiter.wait_for_reader("a"));
    let waker = CountingWaker::new();
    let task = Waker::from(Arc::clone(&waker));
    let mut cx = Context::from_waker(&task);
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    hub.shutdown(CloseReason::Shutdown);
    assert!(waker.wakes() >= 1);
    let Poll::Ready(Err(closed)) = wait.as_mut().poll(&mut cx) else { panic!("expected the end") };
    assert_eq!(closed.reason(), &CloseReason::Shutdown);
    assert!(block_on(hub.wait_for_reader("a")).is_err());
}

#[test]
fn wait_for_reader_works_across_threads() {
    within_limit(|| {
        for _ in 0..200 {
            let (_publisher, hub) = hub::<String, u64>();
            let reader = thread::spawn({
                let hub = hub.clone();
                move || hub.subscribe("a")
            });
            assert_eq!(block_on(hub.wait_for_reader("a")), Ok(()));
            drop(reader.join().expect("no panic"));
        }
    });
}

#[test]
fn errors_say_what_happened() {
    let (publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    drop(publisher);
    let closed = assert_closed(&mut sub);
    assert_eq!(closed.to_string(), "the subscription is closed: the last publisher is gone");
    assert_eq!(TryRecvError::Closed(closed.clone()).to_string(), closed.to_string());
    assert!(std::error::Error::source(&closed).is_none());
}
