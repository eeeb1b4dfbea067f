//! Sets of whatever keys a pattern names: what is joined, when, and what it costs the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

use keywake::{Builder, CloseReason, GapCause, Hub, Pattern, Position, Received, Start, SubscriptionSet, TryRecvError, hub};

use crate::support::{CountingWaker, within_limit};

type Set = SubscriptionSet<String, u64>;

fn pattern(text: &str) -> Pattern {
    text.parse().expect("a pattern")
}

fn told(set: &mut Set) -> Vec<String> {
    std::iter::from_fn(|| set.try_recv().ok())
        .map(|(key, received)| match received {
            Received::Event(event) => format!("{key} {}", event.seq()),
            Received::Gap(gap) => format!("{key} ({}..{}]", gap.from, gap.to),
            Received::Ended(closed) => format!("{key} ended: {}", closed.reason()),
            other => panic!("not expected of a set: {other:?}"),
        })
        .collect()
}

fn poll(set: &mut Set, waker: &Arc<CountingWaker>) -> Poll<()> {
    let waker = Waker::from(Arc::clone(waker));
    set.poll_recv(&mut Context::from_waker(&waker)).map(|_| ())
}

#[test]
fn the_first_event_of_a_key_is_not_missed() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    assert_eq!(hub.topics(), 0);
    assert_eq!(publisher.publish("a.1", 1).readers, 1);
    assert_eq!(publisher.publish("b.1", 2).readers, 0);
    publisher.publish("a.2", 3);
    publisher.publish("a.1", 4);
    assert_eq!(hub.topics(), 2);
    assert_eq!(told(&mut set), ["a.1 1", "a.2 3", "a.1 4"]);
    assert_eq!((set.len(), set.position().seq()), (2, 4));
    drop(set);
    assert_eq!((hub.topics(), hub.stats().readers), (0, 0));
    assert_eq!(publisher.publish("a.1", 5).readers, 0);
}

#[test]
fn topics_that_are_there_are_joined_at_once() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).build();
    for key in ["a.1", "a.2", "b.1"] {
        publisher.publish(key, 0);
    }
    let mut set = hub.subscribe_matching(&pattern("a.>"));
    assert!(set.contains("a.1") && set.contains("a.2") && set.len() == 2);
    assert!(told(&mut set).is_empty(), "from now on");
    let mut oldest = hub.subscribe_set();
    oldest.add_matching_from(&pattern("a.>"), Start::Oldest);
    assert_eq!(told(&mut oldest), ["a.1 1", "a.2 2"]);
    publisher.publish("a.2", 0);
    publisher.publish("a.3", 0);
    assert_eq!(told(&mut set), ["a.2 4", "a.3 5"]);
    assert_eq!(told(&mut oldest), ["a.2 4", "a.3 5"]);
}

#[test]
fn a_topic_that_a_reader_makes_is_joined_too() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    let reader = hub.subscribe("a.1");
    assert_eq!(hub.readers("a.1"), 2);
    publisher.publish("a.1", 1);
    assert_eq!(told(&mut set), ["a.1 1"]);
    drop(reader);
    publisher.publish("a.1", 2);
    assert_eq!(told(&mut set), ["a.1 2"], "the set keeps it");
}

#[test]
fn a_key_named_twice_is_read_once() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    set.add_matching(&pattern("*.1"));
    set.add("a.1");
    set.add_matching(&pattern(">"));
    publisher.publish("a.1", 1);
    publisher.publish("b.1", 2);
    assert_eq!(told(&mut set), ["a.1 1", "b.1 2"]);
    assert_eq!((set.len(), hub.readers("a.1"), hub.readers("b.1")), (2, 1, 1));
}

#[test]
fn several_sets_that_name_a_key_all_read_it() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sets: Vec<_> = ["a.1", "a.*", ">", "b.*"].iter().map(|text| hub.subscribe_matching(&pattern(text))).collect();
    assert_eq!(publisher.publish("a.1", 1).readers, 3);
    let told: Vec<_> = sets.iter_mut().map(told).collect();
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0]);
}

#[test]
fn a_set_that_sleeps_is_woken_by_the_first_event_of_a_key() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    let waker = CountingWaker::new();
    for n in 1..=5 {
        assert!(poll(&mut set, &waker).is_pending());
        publisher.publish("b.1", 0);
        assert_eq!(waker.wakes(), n - 1);
        publisher.publish(&format!("a.{n}"), 0);
        assert_eq!(waker.wakes(), n);
        assert!(poll(&mut set, &waker).is_ready());
    }
    assert_eq!(hub.stats().empty_wakes, 0);
}

#[test]
fn a_key_that_was_closed_or_removed_comes_back_with_its_next_topic() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.1", 1);
    hub.close("a.1", CloseReason::KeyClosed);
    publisher.publish("a.1", 2);
    assert_eq!(told(&mut set), ["a.1 1", "a.1 ended: the key was closed", "a.1 2"]);
    assert!(set.contains("a.1"));
    assert!(set.remove("a.1"));
    assert_eq!(hub.topics(), 0);
    publisher.publish("a.1", 3);
    assert_eq!(told(&mut set), ["a.1 3"]);
}

#[test]
fn what_others_left_unread_is_no_loss_of_a_key_that_comes_later() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.0", 0);
    // Enough to leave their mark in every stripe.
    for n in 0..40_000 {
        publisher.publish(&format!("b.{n}"), n);
    }
    for n in 1..100 {
        publisher.publish(&format!("a.{n}"), n);
    }
    let told = told(&mut set);
    assert_eq!(told.len(), 100, "no gap among them: {:?}", &told[..3]);
    assert_eq!(told[1], "a.1 40002");
}

#[test]
fn what_a_key_lost_before_the_pattern_was_there_is_told_when_it_comes() {
    let (mut publisher, hub) = hub::<String, u64>();
    let start = hub.position();
    publisher.publish("a.1", 1);
    publisher.publish("a.1", 2);
    let mut set = hub.subscribe_set();
    set.add_matching_from(&pattern("a.*"), Start::After(start));
    publisher.publish("a.1", 3);
    assert_eq!(told(&mut set), ["a.1 (0..2]", "a.1 3"]);
    // From now on nothing was lost.
    let mut now = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.2", 4);
    assert_eq!(told(&mut now), ["a.2 4"]);
}

#[test]
fn coming_back_tells_what_was_missed_of_topics_that_went() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.1", 1);
    publisher.publish("a.2", 2);
    assert_eq!(told(&mut set).len(), 2);
    let position = set.position();
    drop(set);
    publisher.publish("a.2", 3);
    let mut again = hub.subscribe_set();
    again.add_matching_from(&pattern("a.*"), Start::After(position));
    assert_eq!(told(&mut again), ["a.2 (2..3]"]);
    publisher.publish("a.1", 4);
    assert_eq!(told(&mut again), ["a.1 4"]);
}

#[test]
fn coming_back_to_what_is_retained_is_exact() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).build();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    for n in 0..60_u64 {
        publisher.publish(&format!("{}.{}", ["a", "b"][usize::from(n % 3 == 0)], n % 7), n);
    }
    for _ in 0..10 {
        assert!(set.try_recv().is_ok());
    }
    let mut again = hub.subscribe_set();
    again.add_matching_from(&pattern("a.*"), Start::After(set.position()));
    assert_eq!(told(&mut again), told(&mut set));
}

#[test]
fn a_key_beyond_the_limit_of_topics_is_told_of_its_loss_when_there_is_room() {
    let (mut publisher, hub) = Builder::<String, u64>::new().max_topics(1).build();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.1", 1);
    assert_eq!(publisher.publish("a.2", 2).readers, 0);
    hub.close("a.1", CloseReason::KeyClosed);
    publisher.publish("a.2", 3);
    assert_eq!(told(&mut set), ["a.1 1", "a.2 (0..2]", "a.1 ended: the key was closed", "a.2 3"]);
}

#[test]
fn a_loss_of_the_source_is_told_for_keys_that_come_later_only_if_they_may_have_lost_something() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build_from_source();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish_at(1, "a.1", 0).expect("1 comes after 0");
    publisher.lost(2..=5, GapCause::Source).expect("2 comes after 1");
    publisher.publish_at(6, "a.2", 0).expect("6 comes after 5");
    let told = told(&mut set);
    assert_eq!(told[..2], ["a.1 1", "a.1 (1..5]"]);
    assert_eq!(told[2..], ["a.2 (0..5]", "a.2 6"], "of the lost ones, any may have been its own");
}

#[test]
fn a_shutdown_ends_a_set_whose_keys_have_not_come() {
    let (publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    let waker = CountingWaker::new();
    assert!(poll(&mut set, &waker).is_pending());
    drop(publisher);
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(set.try_recv(), Err(TryRecvError::Closed(_))));
}

#[test]
fn a_set_that_is_dropped_with_topics_it_never_saw_leaves_them() {
    let (mut publisher, hub) = hub::<String, u64>();
    let set = hub.subscribe_matching(&pattern("a.*"));
    for n in 0..10 {
        publisher.publish(&format!("a.{n}"), n);
    }
    assert_eq!(hub.topics(), 10);
    drop(set);
    assert_eq!((hub.topics(), hub.stats().readers), (0, 0));
    assert_eq!(publisher.publish("a.10", 10).readers, 0);
    assert_eq!(hub.topics(), 0);
}

#[test]
fn who_waits_for_a_reader_hears_of_a_pattern_that_reads() {
    let (mut publisher, hub) = hub::<String, u64>();
    let _set = hub.subscribe_matching(&pattern("a.*"));
    let mut wait = std::pin::pin!(hub.wait_for_reader("a.1"));
    let waker = CountingWaker::new();
    let task = Waker::from(Arc::clone(&waker));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
    publisher.publish("a.1", 1);
    assert_eq!(waker.wakes(), 1);
    assert!(wait.as_mut().poll(&mut Context::from_waker(&task)).is_ready());
}

/// A key that counts how often it is read as text.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Named(&'static str);

static READ: AtomicUsize = AtomicUsize::new(0);

impl AsRef<str> for Named {
    fn as_ref(&self) -> &str {
        READ.fetch_add(1, Ordering::Relaxed);
        self.0
    }
}

#[test]
fn a_publish_to_a_topic_that_is_there_asks_no_pattern() {
    let (mut publisher, hub) = hub::<Named, u64>();
    let set = hub.subscribe_matching(&pattern("a.*"));
    let reader = hub.subscribe_owned(Named("b.1"));
    for key in ["a.1", "b.1"] {
        publisher.publish_owned(Named(key), 0);
    }
    let before = READ.load(Ordering::Relaxed);
    for n in 0..100 {
        publisher.publish_owned(Named("a.1"), n);
        publisher.publish_owned(Named("b.1"), n);
    }
    assert_eq!(READ.load(Ordering::Relaxed), before);
    drop((set, reader));
    for n in 0..100 {
        publisher.publish_owned(Named("c.1"), n);
    }
    assert_eq!(READ.load(Ordering::Relaxed), before, "nor does one where there is no pattern any more");
}

fn registers_and_publishes_at_once(hub: &Hub<String, u64>, n: u64, publish: impl FnOnce(&str) + Send + 'static) -> Vec<String> {
    let key = format!("a.{n}");
    let publishing = thread::spawn({
        let key = key.clone();
        move || publish(&key)
    });
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    let position = set.position();
    publishing.join().expect("it does not panic");
    let mut got = told(&mut set);
    // Whatever it was told by then, nothing after its first position is missing.
    got.retain(|text| text.starts_with(&key));
    got.push(format!("{}", position.seq()));
    got
}

#[test]
fn a_pattern_that_is_registered_during_a_publish_misses_nothing_after_its_position() {
    within_limit(|| {
        let (publisher, hub) = hub::<String, u64>();
        let publisher = publisher.shared();
        let keep = hub.subscribe_matching(&pattern("b.*"));
        for n in 0..500 {
            let other = publisher.clone();
            let before = hub.position().seq();
            let got = registers_and_publishes_at_once(&hub, n, move |key| {
                for n in 0..3 {
                    other.publish(key, n);
                }
            });
            let (position, got) = got.split_last().expect("its position");
            let position: u64 = position.parse().expect("a number");
            // Events before + 1 ..= before + 3: those after the position are told, as events or as lost.
            // The one that was in the publisher's hands while the set began may lie before its beginning: it is told to who comes back.
            for seq in (before + 1..=before + 3).filter(|seq| *seq > position + 1) {
                let is_event = got.iter().any(|text| text.ends_with(&format!(" {seq}")));
                let is_lost = got.iter().any(|text| {
                    let range = text.split_once('(').and_then(|(_, range)| range.strip_suffix(']'));
                    let range = range.and_then(|range| range.split_once(".."));
                    range.is_some_and(|(from, to)| from.parse::<u64>().unwrap() < seq && seq <= to.parse::<u64>().unwrap())
                });
                // The last one has nothing after it that would make the topic.
                assert!(is_event || is_lost || got.is_empty(), "{seq} after {position}: {got:?}");
            }
        }
        drop(keep);
        assert_eq!(hub.topics(), 0);
    });
}

#[test]
fn positions_of_other_hubs_do_not_hold_up_keys_that_come_later() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build();
    let reader = hub.subscribe("a.1");
    publisher.publish("a.1", 1);
    let foreign = Position::new(8, 100);
    let mut set = hub.subscribe_set();
    set.add_matching_from(&pattern("a.*"), Start::After(foreign));
    assert_eq!(set.position(), foreign);
    publisher.publish("a.2", 2);
    assert_eq!(told(&mut set), ["a.1 (0..0]", "a.1 1", "a.2 2"]);
    assert_eq!(set.position(), Position::new(7, 2));
    drop(reader);
}

/// What a set was told by a pattern that it has may still lie before it when the key is added by itself, removed, or named by another one.
#[test]
fn what_a_pattern_has_brought_is_not_skipped_by_adding_its_key_or_another_pattern() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut set = hub.subscribe_matching(&pattern("a.*"));
    publisher.publish("a.1", 1);
    set.add_matching(&pattern(">"));
    publisher.publish("a.2", 2);
    assert!(!set.add("a.2"), "the pattern has added it");
    publisher.publish("a.3", 3);
    assert!(set.remove("a.3"));
    publisher.publish("a.3", 4);
    assert_eq!(set.position().seq(), 0);
    assert_eq!(told(&mut set), ["a.1 1", "a.2 2", "a.3 4"]);
    assert_eq!((set.len(), hub.stats().readers), (3, 3));
}
