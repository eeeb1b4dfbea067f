//! One reader of many keys: order, position, wakes, ends.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_core::Stream;
use keywake::{
    Builder, CloseReason, GapCause, Hub, Position, Received, ReceivedRef, RecvTimeoutError, Relay, SharedPublisher, Start,
    SubscriptionSet, TryRecvError, hub,
};

use crate::support::{CountingWaker, Ledger, block_on, within_limit};

type Set = SubscriptionSet<String, u64>;

/// A set of these keys, from now on.
fn set_of(hub: &Hub<String, u64>, keys: &[&str]) -> Set {
    let mut set = hub.subscribe_set();
    for key in keys {
        assert!(set.add(*key));
    }
    set
}

/// A set of these keys from a position on.
fn set_after(hub: &Hub<String, u64>, keys: &[&str], position: Position) -> Set {
    let mut set = hub.subscribe_set();
    for key in keys {
        assert!(set.add_from(*key, Start::After(position)));
    }
    set
}

/// What is there now, as text: `a1` is the event with seq 1 of key `a`, `a(1..3]` a gap.
fn told(set: &mut Set) -> Vec<String> {
    std::iter::from_fn(|| set.try_recv().ok()).map(|(key, received)| text(&key, &received)).collect()
}

fn text(key: &str, received: &Received<u64>) -> String {
    match received {
        Received::Event(event) => format!("{key}{}", event.seq()),
        Received::Gap(gap) => format!("{key}({}..{}]", gap.from, gap.to),
        Received::Ended(closed) => format!("{key} ended: {}", closed.reason()),
        other => panic!("not expected of a set: {other:?}"),
    }
}

fn poll(set: &mut Set, waker: &Arc<CountingWaker>) -> Poll<String> {
    let waker = Waker::from(Arc::clone(waker));
    match set.poll_recv(&mut Context::from_waker(&waker)) {
        Poll::Ready(Ok((key, received))) => Poll::Ready(text(&key, &received)),
        Poll::Ready(Err(closed)) => Poll::Ready(closed.to_string()),
        Poll::Pending => Poll::Pending,
    }
}

fn assert_ended(set: &mut Set, reason: &CloseReason) {
    match set.try_recv() {
        Err(TryRecvError::Closed(closed)) => assert_eq!(closed.reason(), reason),
        other => panic!("expected the end, got {other:?}"),
    }
    assert_eq!(set.close_reason(), Some(reason));
}

#[test]
fn events_come_in_the_order_of_their_numbers_over_all_keys() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b", "c"]);
    for key in ["c", "a", "a", "other", "b", "c", "a"] {
        publisher.publish(key, 0);
    }
    assert_eq!(told(&mut set), ["c1", "a2", "a3", "b5", "c6", "a7"]);
    publisher.publish_batch([("b".to_owned(), 0), ("a".to_owned(), 0)]);
    assert_eq!(told(&mut set), ["b8", "a9"]);
}

#[test]
fn the_key_of_an_event_is_shared_and_not_cloned() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a"]);
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    let (first, _) = set.try_recv().expect("an event");
    let (second, _) = set.try_recv().expect("an event");
    assert!(Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, set.keys().next().expect("a key")));
}

#[test]
fn a_key_is_in_a_set_once() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a"]);
    publisher.publish("a", 1);
    assert!(!set.add("a") && !set.add_owned("a".to_owned()) && !set.add_from("a", Start::Oldest));
    assert_eq!((set.len(), hub.readers("a")), (1, 1));
    assert_eq!(told(&mut set), ["a1"]);
}

#[test]
fn a_key_that_is_removed_is_not_heard_of_again() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    assert_eq!(set.lag(), 2);
    assert!(set.remove("a") && !set.remove("a") && !set.contains("a"));
    assert_eq!((set.len(), set.lag(), hub.readers("a"), hub.topics()), (1, 1, 0, 1));
    assert_eq!(publisher.publish("a", 3).readers, 0);
    assert_eq!(told(&mut set), ["b2"]);
    assert!(set.remove("b"));
    assert!(set.is_empty() && set.keys().next().is_none());
    assert!(matches!(set.try_recv(), Err(TryRecvError::Empty)), "a set without keys waits");
}

#[test]
fn a_removed_keys_place_is_taken_by_another_with_nothing_left_behind() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    // Both are marked, and one of them found; then both go, and others come.
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    publisher.publish("b", 3);
    assert_eq!(poll(&mut set, &waker), Poll::Ready("a1".to_owned()));
    publisher.publish("a", 4);
    assert!(set.remove("b") && set.remove("a"));
    assert!(set.add("c") && set.add("d"));
    assert!(poll(&mut set, &waker).is_pending());
    publisher.publish("d", 5);
    publisher.publish("a", 6);
    publisher.publish("c", 7);
    assert_eq!(told(&mut set), ["d5", "c7"]);
}

#[test]
fn position_is_that_of_the_last_event_while_more_is_unread_and_the_hubs_once_all_is_read() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    assert_eq!(set.position(), hub.position());
    publisher.publish("b", 1);
    publisher.publish("a", 2);
    publisher.publish("b", 3);
    publisher.publish("other", 4);
    for (received, position) in [("b1", 1), ("a2", 2), ("b3", 4)] {
        let (key, got) = set.try_recv().expect("an event");
        assert_eq!(text(&key, &got), received);
        assert_eq!(set.position().seq(), position, "after {received}");
    }
    publisher.publish("other", 5);
    assert_eq!(set.position().seq(), 5, "a quiet set does not carry an old number");
    publisher.publish("a", 6);
    assert!(set.position().seq() < 6);
}

#[test]
fn resuming_from_any_position_gives_what_follows_it_and_nothing_twice() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).retain_events(1_000).build();
    let keys = ["a", "b", "c", "d"];
    let mut first = set_of(&hub, &keys);
    let mut expected = Vec::new();
    for n in 0..200_usize {
        let key = if n % 5 == 0 { "other" } else { keys[n * n % 7 % 4] };
        publisher.publish(key, 0);
        if key != "other" {
            expected.push(format!("{key}{}", n + 1));
        }
    }
    for taken in 0..=expected.len() {
        let mut rest = set_after(&hub, &keys, first.position());
        assert_eq!(told(&mut rest), expected[taken..]);
        if let Ok((key, received)) = first.try_recv() {
            assert_eq!(text(&key, &received), expected[taken]);
        }
    }
}

#[test]
fn a_key_added_from_before_the_position_takes_it_back_until_its_events_are_delivered() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).build();
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    publisher.publish("b", 3);
    let mut set = set_of(&hub, &["a"]);
    assert_eq!(set.position().seq(), 3);
    set.add_from("b", Start::After(Position::new(hub.position().epoch(), 1)));
    assert_eq!(set.position().seq(), 1);
    publisher.publish("a", 4);
    assert_eq!(told(&mut set), ["b2", "b3", "a4"]);
    assert_eq!(set.position().seq(), 4);
}

#[test]
fn a_loss_comes_with_its_key_where_it_begins() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(8).build();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish("b", 1);
    for n in 0..100 {
        publisher.publish("a", n);
    }
    publisher.publish("b", 0);
    assert_eq!(set.position().seq(), 0);
    let told = told(&mut set);
    assert_eq!(told[1], "b1");
    let gap = told[0].strip_prefix("a(0..").and_then(|rest| rest.strip_suffix(']')).expect("a's loss begins at 0");
    let gap: u64 = gap.parse().expect("a number");
    assert!(gap < 101);
    let events: Vec<_> = (gap + 1..=101).map(|seq| format!("a{seq}")).chain(["b102".to_owned()]).collect();
    assert_eq!(told[2..], events);
}

#[test]
fn a_loss_that_is_found_late_does_not_take_the_position_back() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut set = set_of(&hub, &["a", "b", "c"]);
    publisher.publish("b", 1);
    publisher.publish("c", 2);
    assert!(set.try_recv().is_ok());
    for n in 0..100 {
        publisher.publish("a", n);
    }
    assert!(set.try_recv().is_ok());
    assert_eq!(set.position().seq(), 2);
    let (_, Received::Gap(gap)) = set.try_recv().expect("a gap") else { panic!("a gap") };
    assert_eq!(gap.from, 2, "a had nothing before");
    assert!(set.position().seq() >= 2);
}

#[test]
fn a_key_added_from_now_on_does_not_take_the_position_back() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut set = set_of(&hub, &["a"]);
    for n in 0..10 {
        publisher.publish("a", n);
        assert!(set.try_recv().is_ok());
    }
    // Its key has had no event yet.
    assert!(set.add("b"));
    for n in 0..100 {
        publisher.publish("b", n);
    }
    assert_eq!(set.position().seq(), 10);
    let (_, Received::Gap(gap)) = set.try_recv().expect("a gap") else { panic!("a gap") };
    assert_eq!(gap.from, 10);
}

#[test]
fn a_resume_after_a_topic_went_tells_the_loss_of_that_key_only() {
    let (mut publisher, hub) = hub::<String, u64>();
    let set = set_of(&hub, &["a", "b"]);
    let keep = hub.subscribe("b");
    let position = set.position();
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    drop(set);
    let mut again = set_after(&hub, &["a", "b"], position);
    assert_eq!(again.position(), position, "not past the loss before it is told");
    assert_eq!(told(&mut again), ["a(0..1]", "b2"]);
    assert_eq!(again.position().seq(), 2);
    drop(keep);
}

#[test]
fn keys_of_another_epoch_are_told_so_first_and_the_position_waits_for_all_of_them() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(2).retain_unread(true).build();
    publisher.publish("a", 1);
    let foreign = Position::new(1, 77);
    let mut set = set_after(&hub, &["a", "b"], foreign);
    for left in [1, 0] {
        assert_eq!(set.position(), foreign);
        let (_, received) = set.try_recv().expect("a gap");
        let Received::Gap(gap) = received else { panic!("a gap") };
        assert_eq!(gap.cause, GapCause::OtherEpoch, "{left} left");
    }
    assert_eq!(set.position(), Position::new(2, 0));
    assert_eq!(told(&mut set), ["a1"]);
    // One that is removed before it was told is not waited for.
    let mut set = set_after(&hub, &["a"], foreign);
    set.remove("a");
    assert_eq!(set.position(), hub.position());
}

#[test]
fn a_position_ahead_of_the_hub_is_told_though_nothing_is_published() {
    let (publisher, hub) = Builder::<String, u64>::new().epoch(2).build();
    let ahead = Position::new(2, 1_000);
    let mut set = set_after(&hub, &["a"], ahead);
    assert_eq!(set.position(), ahead);
    let (_, Received::Gap(gap)) = set.try_recv().expect("a gap") else { panic!("a gap") };
    assert_eq!((gap.cause, gap.from, gap.to), (GapCause::Ahead, 0, 0));
    assert_eq!(set.position(), Position::new(2, 0));
    drop(publisher);
}

#[test]
fn a_loss_of_the_source_is_told_for_every_key_and_a_bookmark_moves_the_position() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build_from_source();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish_at(3, "a", 0).expect("3 comes after 0");
    publisher.lost(5..=9, GapCause::Source).expect("5 comes after 3");
    publisher.publish_at(10, "b", 0).expect("10 comes after 9");
    let mut told = told(&mut set);
    told[1..3].sort();
    assert_eq!(told, ["a3", "a(4..9]", "b(4..9]", "b10"]);
    publisher.advance_to(50).expect("50 comes after 10");
    assert_eq!(set.position().seq(), 50);
    // Only one of two was told: the position does not pass the other's.
    publisher.lost(60..=60, GapCause::Source).expect("60 comes after 50");
    assert!(set.try_recv().is_ok());
    assert!(set.position().seq() < 60, "{}", set.position());
    assert!(set.try_recv().is_ok());
    assert_eq!(set.position().seq(), 60);
}

#[test]
fn a_closed_key_ends_after_what_was_buffered_and_is_of_the_set_no_more() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    hub.close("a", CloseReason::Other("done".into()));
    publisher.publish("b", 3);
    publisher.publish("a", 4);
    let mut all = Vec::new();
    for _ in 0..2 {
        let (key, received) = set.try_recv().expect("something");
        all.push(text(&key, &received));
    }
    assert!(set.contains("a"), "its end was not told yet");
    assert_eq!(set.position().seq(), 2, "the new topic of the key is nobody's, and 4 is to be found by who comes back");
    all.extend(told(&mut set));
    assert_eq!(all, ["a1", "b2", "a ended: done", "b3"]);
    assert!(!set.contains("a") && set.len() == 1);
    assert_eq!(set.position().seq(), 4);
    // It may come back.
    assert!(set.add("a"));
    publisher.publish("a", 5);
    assert_eq!(told(&mut set), ["a5"]);
}

#[test]
fn a_shutdown_ends_the_set_after_what_was_buffered_of_all_keys() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish("b", 1);
    publisher.publish("a", 2);
    hub.shutdown(CloseReason::Shutdown);
    assert_eq!(told(&mut set), ["b1", "a2"]);
    assert_ended(&mut set, &CloseReason::Shutdown);
    assert_ended(&mut set, &CloseReason::Shutdown);
    assert_eq!(set.position().seq(), 2);
    assert!(set.add("c"), "it can be added, and changes nothing");
    assert_ended(&mut set, &CloseReason::Shutdown);
    assert_eq!(set.position().seq(), 2);
}

#[test]
fn the_last_publisher_ends_sets_with_and_without_keys() {
    let (publisher, hub) = hub::<String, u64>();
    let (mut empty, mut quiet) = (hub.subscribe_set(), set_of(&hub, &["a"]));
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    assert!(poll(&mut empty, &wakers[0]).is_pending() && poll(&mut quiet, &wakers[1]).is_pending());
    drop(publisher);
    assert_eq!([wakers[0].wakes(), wakers[1].wakes()], [1, 1]);
    assert_ended(&mut empty, &CloseReason::PublisherDropped);
    assert_ended(&mut quiet, &CloseReason::PublisherDropped);
    assert_ended(&mut hub.subscribe_set(), &CloseReason::PublisherDropped);
}

#[test]
fn a_key_beyond_the_limit_of_topics_ends_at_once() {
    let (mut publisher, hub) = Builder::<String, u64>::new().max_topics(1).build();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish("a", 1);
    assert_eq!(set.len(), 2);
    let mut told = told(&mut set);
    told.sort();
    assert_eq!(told, ["a1", "b ended: the hub holds as many topics as it may"]);
    assert_eq!(set.len(), 1);
}

#[test]
fn a_publish_wakes_the_set_once_and_one_to_another_key_not_at_all() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b", "c"]);
    let waker = CountingWaker::new();
    for round in 1..=10 {
        assert!(poll(&mut set, &waker).is_pending());
        publisher.publish("other", 0);
        assert_eq!(waker.wakes(), round - 1);
        publisher.publish("a", 0);
        publisher.publish("b", 0);
        publisher.publish("a", 0);
        assert_eq!(waker.wakes(), round);
        assert_eq!(told(&mut set).len(), 3);
    }
    assert_eq!((hub.stats().wakes, hub.stats().empty_wakes), (10, 0));
}

#[test]
fn a_set_that_sleeps_is_woken_for_each_of_its_keys_by_whatever_happens_to_it() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    publisher.publish("b", 0);
    assert_eq!(poll(&mut set, &waker), Poll::Ready("b1".to_owned()));
    assert!(poll(&mut set, &waker).is_pending());
    hub.close("b", CloseReason::KeyClosed);
    assert_eq!(waker.wakes(), 2);
    assert_eq!(poll(&mut set, &waker), Poll::Ready("b ended: the key was closed".to_owned()));
    assert!(poll(&mut set, &waker).is_pending());
    hub.shutdown(CloseReason::Shutdown);
    assert_eq!(waker.wakes(), 3);
    assert!(poll(&mut set, &waker).is_ready());
}

#[test]
fn a_cancelled_wait_leaves_no_waker_and_loses_nothing() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a"]);
    let waker = CountingWaker::new();
    {
        let waker = Waker::from(Arc::clone(&waker));
        let mut recv = pin!(set.recv());
        assert!(recv.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&waker), 1);
    publisher.publish("a", 1);
    assert_eq!(waker.wakes(), 0);
    assert_eq!(told(&mut set), ["a1"]);
}

#[test]
fn a_dropped_set_leaves_nothing_behind() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b", "c"]);
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    // One is marked, one found, one parked.
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    assert!(set.try_recv().is_ok());
    publisher.publish("b", 3);
    drop(set);
    assert_eq!(Arc::strong_count(&waker), 1);
    assert_eq!((hub.topics(), hub.stats().readers), (0, 0));
    publisher.publish("c", 4);
    assert_eq!(hub.stats().pinned_bytes, 0);
}

#[test]
fn all_ways_to_read_may_be_mixed() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish_batch((0..8).map(|n| (if n % 2 == 0 { "a" } else { "b" }.to_owned(), n)));
    {
        let (key, received) = set.try_recv_ref().expect("an event");
        assert!(matches!(received, ReceivedRef::Event(event) if event.seq() == 1) && key == "a");
    }
    block_on(async {
        let (key, received) = set.recv_ref().await.expect("open");
        assert!(matches!(received, ReceivedRef::Event(event) if event.seq() == 2) && key == "b");
        let mut buffer = Vec::new();
        assert_eq!(set.recv_many(&mut buffer, 0).await, Ok(0));
        assert_eq!(set.recv_many(&mut buffer, 2).await, Ok(2));
        let buffer: Vec<_> = buffer.iter().map(|(key, received)| text(key, received)).collect();
        assert_eq!(buffer, ["a3", "b4"]);
        let (key, received) = set.recv().await.expect("open");
        assert_eq!(text(&key, &received), "a5");
        let next = poll_fn(|cx| Pin::new(&mut set).poll_next(cx)).await;
        assert!(matches!(next, Some((key, _)) if *key == "b"));
    });
    let (key, received) = set.recv_blocking().expect("open");
    assert_eq!(text(&key, &received), "a7");
    let (key, received) = set.recv_timeout(Duration::ZERO).expect("it is there");
    assert_eq!(text(&key, &received), "b8");
    assert!(matches!(set.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout)));
}

#[test]
fn a_blocked_thread_gets_everything_that_two_producers_publish_in_order() {
    const EACH: u64 = 2_000;
    within_limit(|| {
        let (publisher, hub) = Builder::<u32, u64>::new().retain_events(10_000).build();
        let publisher = publisher.shared();
        let mut set = hub.subscribe_set();
        for key in 0..20 {
            set.add(&key);
        }
        let producers = [0, 1].map(|which| {
            let publisher = publisher.clone();
            thread::spawn(move || {
                for n in 0..EACH {
                    publisher.publish(&u32::try_from(n * 7 % 20).expect("small"), which);
                }
            })
        });
        drop(publisher);
        let mut last = 0;
        while let Ok((_, Received::Event(event))) = set.recv_blocking() {
            assert_eq!(event.seq(), last + 1);
            last = event.seq();
            assert!(set.position().seq() >= last);
        }
        assert_eq!(last, 2 * EACH);
        for producer in producers {
            producer.join().expect("it does not panic");
        }
    });
}

/// A waker that publishes, to the very set that it is for.
struct Echo {
    publisher: SharedPublisher<String, u64>,
    left: Mutex<u32>,
}

impl Wake for Echo {
    fn wake(self: Arc<Self>) {
        let mut left = self.left.lock().expect("not poisoned");
        if *left > 0 {
            *left -= 1;
            drop(left);
            self.publisher.publish("b", 0);
        }
    }
}

#[test]
fn a_waker_may_publish() {
    within_limit(|| {
        let (publisher, hub) = hub::<String, u64>();
        let publisher = publisher.shared();
        let mut set = set_of(&hub, &["a", "b"]);
        let echo = Arc::new(Echo { publisher: publisher.clone(), left: Mutex::new(3) });
        let waker = Waker::from(echo);
        assert!(set.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        publisher.publish("a", 0);
        assert_eq!(told(&mut set), ["a1", "b2"]);
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_set_its_wake() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sets = [set_of(&hub, &["a"]), set_of(&hub, &["a"]), set_of(&hub, &["a"])];
    let counting = [CountingWaker::new(), CountingWaker::new()];
    assert!(poll(&mut sets[0], &counting[0]).is_pending());
    assert!(sets[1].poll_recv(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    assert!(poll(&mut sets[2], &counting[1]).is_pending());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| publisher.publish("a", 1)));
    assert!(result.is_err());
    assert_eq!([counting[0].wakes(), counting[1].wakes()], [1, 1]);
    for set in &mut sets {
        assert_eq!(told(set), ["a1"]);
    }
}

#[test]
fn a_set_that_always_finds_something_lets_others_run() {
    if cfg!(feature = "tokio") {
        return;
    }
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(10_000).build();
    let mut set = set_of(&hub, &["a", "b"]);
    publisher.publish_batch((0..1_000).map(|n| (if n % 2 == 0 { "a" } else { "b" }.to_owned(), n)));
    let waker = CountingWaker::new();
    let mut in_a_row = 0;
    while poll(&mut set, &waker).is_ready() {
        in_a_row += 1;
    }
    assert_eq!((in_a_row, waker.wakes()), (128, 1));
}

#[test]
fn members_that_are_idle_pin_no_block() {
    let (mut publisher, hub) = Builder::<u32, [u8; 1024]>::new().retain_events(1).build();
    let mut set = hub.subscribe_set();
    let waker = Waker::noop();
    for key in 0..500 {
        set.add(&key);
    }
    // Each key is read to the end, and parked; then its block is evicted.
    for key in 0..500 {
        publisher.publish(&key, [0; 1024]);
        while set.poll_recv(&mut Context::from_waker(waker)).is_ready() {}
    }
    let sizes: Vec<_> = [0, 499].into_iter().map(|_| hub.stats().pinned_bytes).collect();
    assert_eq!(sizes, [0, 0]);
    let before = hub.stats().retained_bytes;
    for key in 0..500 {
        for _ in 0..100 {
            publisher.publish(&key, [0; 1024]);
        }
    }
    let stats = hub.stats();
    assert!(stats.pinned_bytes < 16 * 64 * 1024, "{} bytes are pinned, {before} before", stats.pinned_bytes);
}

#[test]
fn ten_thousand_keys_with_one_busy_one_cost_what_is_ready() {
    let (mut publisher, hub) = hub::<u32, u64>();
    let mut set = hub.subscribe_set();
    for key in 0..10_000 {
        set.add(&key);
    }
    let waker = Waker::noop();
    assert!(set.poll_recv(&mut Context::from_waker(waker)).is_pending());
    let began = Instant::now();
    for n in 0..20_000 {
        publisher.publish(&7, n);
        assert!(matches!(set.poll_recv(&mut Context::from_waker(waker)), Poll::Ready(Ok((key, _))) if *key == 7));
        assert!(set.poll_recv(&mut Context::from_waker(waker)).is_pending());
    }
    // A pass over all keys would take minutes.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A relay that is polled by hand.
struct Hand {
    relay: Pin<Box<Relay>>,
    waker: Arc<CountingWaker>,
}

impl Hand {
    fn of(hub: &Hub<String, u64>) -> Self {
        let mut hand = Self { relay: Box::pin(hub.relay()), waker: CountingWaker::new() };
        hand.poll();
        hand
    }

    fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.waker));
        assert!(self.relay.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
}

#[test]
fn a_set_that_sleeps_is_woken_by_the_relay_and_not_by_the_publisher() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let mut sets: Vec<_> = (0..5).map(|_| set_of(&hub, &["a", "b"])).collect();
    let waker = CountingWaker::new();
    for set in &mut sets {
        assert!(poll(set, &waker).is_pending());
    }
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    publisher.publish("a", 3);
    assert_eq!((relay.waker.wakes(), waker.wakes()), (1, 0));
    relay.poll();
    assert_eq!(waker.wakes(), 5, "once each");
    for set in &mut sets {
        assert_eq!(told(set), ["a1", "b2", "a3"]);
        assert_eq!(set.position().seq(), 3);
    }
    assert_eq!((hub.stats().wakes, hub.stats().empty_wakes), (5, 0));
}

#[test]
fn a_set_that_is_asked_need_not_wait_for_the_relay() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let mut set = set_of(&hub, &["a", "b"]);
    let (waker, other) = (CountingWaker::new(), CountingWaker::new());
    assert!(poll(&mut set, &waker).is_pending());
    let mut reader = hub.subscribe("a");
    crate::support::park(&mut reader, &other);
    publisher.publish("a", 1);
    assert_eq!(set.position().seq(), 0);
    assert_eq!(told(&mut set), ["a1"]);
    assert_eq!(set.position().seq(), 1);
    assert_eq!(other.wakes(), 0, "tasks are the relay's");
    relay.poll();
    assert_eq!(other.wakes(), 1);
}

#[test]
fn a_relay_that_goes_wakes_the_sets_that_waited_for_it() {
    let (mut publisher, hub) = hub::<String, u64>();
    let relay = Hand::of(&hub);
    let mut set = set_of(&hub, &["a"]);
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    publisher.publish("a", 1);
    assert_eq!(waker.wakes(), 0);
    drop(relay);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(told(&mut set), ["a1"]);
    assert!(poll(&mut set, &waker).is_pending());
    publisher.publish("a", 2);
    assert_eq!(waker.wakes(), 2);
}

#[test]
fn a_relay_that_is_overdue_keeps_no_set_waiting() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(64).build();
    let _relay = Hand::of(&hub);
    let mut set = set_of(&hub, &["a", "b"]);
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    publisher.publish("b", 0);
    for n in 0..16 {
        publisher.publish("a", n);
    }
    assert_eq!(waker.wakes(), 0);
    publisher.publish("a", 16);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(told(&mut set).len(), 18);
}

#[test]
fn a_blocked_thread_does_not_depend_on_the_relay() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let _relay = Hand::of(&hub);
        let mut set = set_of(&hub, &["a", "b"]);
        let thread = thread::spawn(move || {
            let mut got = Vec::new();
            while let Ok((key, received)) = set.recv_blocking() {
                got.push(text(&key, &received));
            }
            got
        });
        thread::sleep(Duration::from_millis(20));
        for n in 0..10 {
            publisher.publish(if n % 2 == 0 { "a" } else { "b" }, n);
            thread::sleep(Duration::from_millis(1));
        }
        drop(publisher);
        let got = thread.join().expect("it does not panic");
        assert_eq!(got, ["a1", "b2", "a3", "b4", "a5", "b6", "a7", "b8", "a9", "b10"]);
    });
}

/// A waker of a task that the relay wakes: it publishes, and polls a set while the relay is still at work.
struct Meddler {
    publisher: SharedPublisher<String, u64>,
    set: Mutex<(Set, Arc<CountingWaker>, Vec<Poll<String>>)>,
}

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        self.publisher.publish("b", 0);
        self.publisher.publish("c", 0);
        let (set, waker, polled) = &mut *self.set.lock().expect("not poisoned");
        polled.extend([poll(set, waker), poll(set, waker)]);
    }
}

#[test]
fn a_set_that_finds_an_event_beyond_what_the_relay_has_marked_waits_for_it_and_is_woken() {
    within_limit(|| {
        let (publisher, hub) = hub::<String, u64>();
        let publisher = publisher.shared();
        let mut relay = Hand::of(&hub);
        let waker = CountingWaker::new();
        let mut set = set_of(&hub, &["a", "b"]);
        assert!(poll(&mut set, &waker).is_pending());
        // Of "c" the set knows without being told: it is awake there.
        assert!(set.add("c"));
        let meddler = Arc::new(Meddler { publisher: publisher.clone(), set: Mutex::new((set, Arc::clone(&waker), Vec::new())) });
        let mut reader = hub.subscribe("a");
        assert!(reader.poll_recv(&mut Context::from_waker(&Waker::from(Arc::clone(&meddler)))).is_pending());
        publisher.publish("other", 0);
        publisher.publish("a", 0);
        let before = waker.wakes();
        relay.poll();
        let (set, _, polled) = &mut *meddler.set.lock().expect("not poisoned");
        assert_eq!(polled[..], [Poll::Ready("a2".to_owned()), Poll::Pending], "c4 is found, and b3 not yet");
        assert_eq!(waker.wakes(), before + 2, "once by its mark, and once for having had to wait");
        assert_eq!(told(set), ["b3", "c4"]);
        drop(reader);
    });
}

#[test]
fn payloads_are_dropped_once_whatever_becomes_of_the_set() {
    let ledger = Ledger::new(60);
    {
        let (mut publisher, hub) = Builder::<u32, _>::new().retain_events(1).build();
        let mut set = hub.subscribe_set();
        for key in 0..3 {
            set.add(&key);
        }
        let mut held = Vec::new();
        for n in 0..60 {
            publisher.publish(&(n % 3), ledger.payload(n as usize));
            if n == 10 || n == 40 {
                held.extend(std::iter::from_fn(|| set.try_recv().ok()).take(3));
            }
            if n == 20 {
                set.remove(&1);
            }
        }
        assert!(held.iter().all(|(_, received)| !matches!(received, Received::Event(event) if event.number >= 60)));
        drop(set);
    }
    ledger.assert_each_dropped_once();
}

#[test]
fn many_keys_each_with_a_little_come_complete_and_in_order() {
    let (mut publisher, hub) = hub::<u32, u64>();
    let mut set = hub.subscribe_set();
    for key in 0..1_000 {
        set.add(&key);
    }
    let mut expected = BTreeMap::new();
    for n in 0..5_000_u64 {
        let key = u32::try_from(n * 7_919 % 1_009).expect("small");
        let seq = publisher.publish(&key, n).seq;
        if key < 1_000 {
            expected.insert(seq, key);
        }
        if n % 700 == 0 {
            let (key, Received::Event(event)) = set.try_recv().expect("an event") else { panic!("an event") };
            assert_eq!(expected.pop_first(), Some((event.seq(), *key)));
        }
    }
    while let Ok((key, Received::Event(event))) = set.try_recv() {
        assert_eq!(expected.pop_first(), Some((event.seq(), *key)));
    }
    assert!(expected.is_empty());
    assert_eq!(set.position(), hub.position());
}
