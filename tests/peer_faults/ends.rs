//! Closing, and who learns of it.

use keywake::{Builder, CloseReason, Start, hub};

use crate::support::{CountingWaker, assert_closed, assert_empty, block_on, drain, event, next_event, park, poll, within_limit};

// tokio #2425: closing wrote into the ring and overwrote the value at capacity 1.
#[test]
fn last_value_survives_the_close_of_a_buffer_of_one() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    drop(publisher);
    assert_eq!(drain(&mut sub), [1]);
    assert_closed(&mut sub);
}

// tokio #2123: a false `Closed` while events are still there.
#[test]
fn closed_is_never_told_before_the_last_event() {
    for buffered in [0, 1, 4, 5, 31, 32, 33, 63, 64, 65, 200] {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        for value in 0..buffered {
            publisher.publish("a", value);
        }
        hub.close("a", CloseReason::KeyClosed);
        for value in 0..buffered {
            assert_eq!(*event(block_on(sub.recv()).expect("still buffered")), value);
        }
        assert_closed(&mut sub);
    }
}

// tokio #4814: recv on a channel subscribed after its close hung.
#[test]
fn late_subscriber_to_a_closed_hub_does_not_hang() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        publisher.publish("a", 1);
        drop(publisher);
        for start in [Start::Next, Start::Oldest, Start::Latest, Start::After(hub.position())] {
            let mut sub = hub.subscribe_from("a", start);
            assert!(block_on(sub.recv()).is_err());
            assert_eq!(sub.recv_blocking().expect_err("closed").reason(), &CloseReason::PublisherDropped);
        }
        assert!(block_on(hub.wait_for_reader("a")).is_err());
        assert_eq!(hub.topics(), 0);
    });
}

// consul stream (derived): Subscribe after the publisher stopped succeeded and hung; its publish blocked for ever.
#[test]
fn publish_and_subscribe_after_the_end_do_not_block() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        hub.shutdown(CloseReason::Shutdown);
        for value in 0..1_000 {
            assert_eq!(publisher.publish("a", value).readers, 0);
            assert_closed(&mut hub.subscribe("a"));
        }
    });
}

// consul ShutdownClosesSubscriptions; TestSubscription_Close: a waiting Next returns.
#[test]
fn close_ends_every_wait_whatever_its_form() {
    within_limit(|| {
        let (publisher, hub) = hub::<String, u64>();
        let blocked = std::thread::spawn({
            let mut sub = hub.subscribe("a");
            move || sub.recv_blocking().expect_err("closed")
        });
        let timed = std::thread::spawn({
            let mut sub = hub.subscribe("a");
            move || sub.recv_timeout(std::time::Duration::MAX).is_err()
        });
        let waited = std::thread::spawn({
            let mut sub = hub.subscribe("a");
            move || block_on(sub.recv()).expect_err("closed")
        });
        let mut parked = hub.subscribe("a");
        let waker = CountingWaker::new();
        park(&mut parked, &waker);
        drop(publisher);
        assert_eq!(blocked.join().expect("no panic").reason(), &CloseReason::PublisherDropped);
        assert!(timed.join().expect("no panic"));
        assert_eq!(waited.join().expect("no panic").reason(), &CloseReason::PublisherDropped);
        assert_eq!(waker.wakes(), 1);
    });
}

// consul #17566, #17567: after a forced close the consumer logged and retried for ever.
#[test]
fn end_is_final_and_typed() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    hub.close("a", CloseReason::KeyClosed);
    let mut again = hub.subscribe("a");
    for value in 0..10 {
        publisher.publish("a", value);
        assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::KeyClosed);
        assert!(!sub.close_reason().expect("ended").may_resume());
    }
    assert_eq!(drain(&mut again).len(), 10);
}

// consul #20790, #20876, nomad #27141: an end without a reason looked like an empty result.
#[test]
fn every_end_says_why() {
    let (publisher, hub) = Builder::<String, u64>::new().max_topics(3).build();
    let mut subs = [hub.subscribe("a"), hub.subscribe("b"), hub.subscribe("c"), hub.subscribe("d")];
    hub.close("a", CloseReason::Other("token deleted".into()));
    hub.close("b", CloseReason::KeyClosed);
    drop(publisher);
    let reasons: Vec<_> = subs.iter_mut().map(|sub| assert_closed(sub).reason().clone()).collect();
    assert_eq!(
        reasons,
        [
            CloseReason::Other("token deleted".into()),
            CloseReason::KeyClosed,
            CloseReason::PublisherDropped,
            CloseReason::TopicLimit
        ]
    );
}

// consul, "force close": buffered events were thrown away.
#[test]
fn forced_close_does_not_throw_away_what_was_published_before() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    publisher.publish("a", 1);
    hub.close("a", CloseReason::Other("force".into()));
    assert!(matches!(poll(&mut sub, &waker), std::task::Poll::Ready(Ok(_))));
    assert!(matches!(poll(&mut sub, &waker), std::task::Poll::Ready(Err(_))));
}

// consul: a request used for two subscriptions made one of them impossible to close.
#[test]
fn subscriptions_with_equal_keys_are_closed_each() {
    let (_publisher, hub) = hub::<String, u64>();
    let key = "a".to_owned();
    let mut subs = [hub.subscribe(&key), hub.subscribe(&key), hub.subscribe_owned(key.clone())];
    hub.shutdown(CloseReason::Shutdown);
    for sub in &mut subs {
        assert_eq!(assert_closed(sub).reason(), &CloseReason::Shutdown);
    }
}

// consul RefreshTopic: a restore left the old buffer alive and a fast subscriber got old events.
#[test]
fn closed_keys_events_do_not_reach_who_subscribes_again() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut lingering = hub.subscribe("a");
    publisher.publish("a", 1);
    hub.close("a", CloseReason::KeyClosed);
    for start in [Start::Next, Start::Oldest, Start::Latest] {
        assert_empty(&mut hub.subscribe_from("a", start));
    }
    let mut new = hub.subscribe_from("a", Start::Oldest);
    publisher.publish("a", 2);
    assert_eq!(drain(&mut new), [2]);
    assert_eq!(*next_event(&mut lingering), 1);
    assert_closed(&mut lingering);
}

// etcd #20065: a gauge was decremented twice when cancel and close raced.
#[test]
fn gauges_are_right_after_close_and_drop_in_any_order() {
    let (mut publisher, hub) = hub::<String, u64>();
    for round in 0..20 {
        let (a, b, other) = (hub.subscribe("a"), hub.subscribe("a"), hub.subscribe("b"));
        if round % 2 == 0 {
            drop(a);
            hub.close("a", CloseReason::KeyClosed);
            drop(b);
        } else {
            hub.close("a", CloseReason::KeyClosed);
            let new = hub.subscribe("a");
            drop((a, b));
            assert_eq!((hub.readers("a"), hub.topics()), (1, 2));
            drop(new);
        }
        publisher.publish("a", round);
        let stats = hub.stats();
        assert_eq!((stats.readers, stats.topics, hub.readers("a")), (1, 1, 0));
        drop(other);
        let stats = hub.stats();
        assert_eq!((stats.readers, stats.topics), (0, 0));
    }
}
