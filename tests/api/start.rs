//! Where a new subscription starts, and what it is told about the time before.

use keywake::{Builder, GapCause, Hub, Position, Publisher, Received, Start};

use crate::support::{assert_empty, drain, next_event, next_gap};

/// A hub with a reader of "a" that keeps the topic, and five events in it (seq 1 to 5).
fn hub_with_five() -> (Publisher<String, u64>, Hub<String, u64>, keywake::Subscription<String, u64>) {
    let (mut publisher, hub) = Builder::new().epoch(7).build();
    let keeper = hub.subscribe("a");
    for value in 1..=5 {
        publisher.publish("a", value);
    }
    (publisher, hub, keeper)
}

#[test]
fn next_starts_with_what_is_published_from_now_on() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut plain = hub.subscribe("a");
    let mut next = hub.subscribe_from("a", Start::Next);
    assert_empty(&mut plain);
    assert_empty(&mut next);
    assert_eq!((plain.position(), plain.lag()), (Position::new(7, 5), 0));
    publisher.publish("a", 6);
    assert_eq!(drain(&mut plain), [6]);
    assert_eq!(drain(&mut next), [6]);
}

#[test]
fn oldest_starts_with_everything_retained() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut sub = hub.subscribe_from("a", Start::Oldest);
    assert_eq!(sub.lag(), 5);
    publisher.publish("a", 6);
    assert_eq!(drain(&mut sub), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn latest_starts_with_the_newest_retained_event() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut sub = hub.subscribe_from("a", Start::Latest);
    assert_eq!(sub.lag(), 1);
    publisher.publish("a", 6);
    assert_eq!(drain(&mut sub), [5, 6]);
}

#[test]
fn latest_and_oldest_of_a_key_without_events_start_at_now() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut latest = hub.subscribe_from("new", Start::Latest);
    let mut oldest = hub.subscribe_from("new", Start::Oldest);
    assert_empty(&mut latest);
    assert_empty(&mut oldest);
    publisher.publish("new", 6);
    assert_eq!(drain(&mut latest), [6]);
    assert_eq!(drain(&mut oldest), [6]);
}

#[test]
fn after_delivers_exactly_what_is_later() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    for after in 0..=5 {
        let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, after)));
        assert_eq!(sub.position(), Position::new(7, after));
        assert_eq!(sub.lag(), 5 - after);
        assert_eq!(drain(&mut sub), (after + 1..=5).collect::<Vec<_>>());
    }
    // A position between two events of the key, taken from another key's event.
    publisher.publish("b", 6);
    publisher.publish("a", 7);
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 6)));
    assert_eq!(drain(&mut sub), [7]);
}

#[test]
fn owned_keys_subscribe_like_borrowed_ones() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut next = hub.subscribe_owned("a".to_owned());
    let mut oldest = hub.subscribe_owned_from("a".to_owned(), Start::Oldest);
    publisher.publish_owned("a".to_owned(), 6);
    assert_eq!(drain(&mut next), [6]);
    assert_eq!(drain(&mut oldest), [1, 2, 3, 4, 5, 6]);
    assert_eq!(hub.readers("a"), 3);
}

#[test]
fn after_tells_what_retention_dropped_and_how_many() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_events(10).build();
    let _keeper = hub.subscribe("a");
    // Every other seq belongs to "a": 2, 4, .. 2000.
    for value in 1..=2_000 {
        publisher.publish(if value % 2 == 0 { "a" } else { "b" }, value);
    }
    let mut oldest = hub.subscribe_from("a", Start::Oldest);
    let first = next_event(&mut oldest).seq();

    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 100)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.cause), (100, GapCause::Retention));
    // The gap ends with the last lost event of the key or just before the first retained one.
    assert!(gap.to == first - 2 || gap.to == first - 1, "{gap:?}, first {first}");
    // Lost are 102, 104, .. first - 2.
    assert!(gap.missed.is_none_or(|missed| missed == (first - 102) / 2), "{gap:?}, first {first}");
    assert_eq!(next_event(&mut sub).seq(), first);
}

#[test]
fn after_the_last_dropped_event_is_no_gap() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_events(10).build();
    let _keeper = hub.subscribe("a");
    for value in 1..=1_000 {
        publisher.publish("a", value);
    }
    let first = next_event(&mut hub.subscribe_from("a", Start::Oldest)).seq();
    let mut exact = hub.subscribe_from("a", Start::After(Position::new(7, first - 1)));
    assert_eq!(drain(&mut exact), (first..=1_000).collect::<Vec<_>>());
    let mut one_short = hub.subscribe_from("a", Start::After(Position::new(7, first - 2)));
    let gap = next_gap(&mut one_short);
    assert_eq!((gap.from, gap.to), (first - 2, first - 1));
    assert!(gap.missed.is_none_or(|missed| missed == 1));
    assert_eq!(drain(&mut one_short), (first..=1_000).collect::<Vec<_>>());
}

#[test]
fn after_tells_what_was_published_while_nobody_read() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build();
    for value in 1..=3 {
        assert_eq!(publisher.publish("a", value).readers, 0);
    }
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 1)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.cause), (1, 3, GapCause::Unread));
    assert!(gap.missed.is_none_or(|missed| missed == 2));
    assert_empty(&mut sub);
    publisher.publish("a", 4);
    assert_eq!(drain(&mut sub), [4]);
}

#[test]
fn after_tells_what_went_with_the_last_reader() {
    let (mut publisher, hub, keeper) = hub_with_five();
    drop(keeper);
    assert_eq!(hub.topics(), 0);
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 2)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to), (2, 5));
    assert!(gap.missed.is_none_or(|missed| missed == 3));
    publisher.publish("a", 6);
    assert_eq!(drain(&mut sub), [6]);
}

#[test]
fn after_everything_of_a_removed_topic_is_no_gap() {
    let (mut publisher, hub, mut keeper) = hub_with_five();
    assert_eq!(drain(&mut keeper), [1, 2, 3, 4, 5]);
    let position = keeper.position();
    drop(keeper);
    // The key is remembered exactly: events of other keys do not make its reader lose anything.
    for value in 0..1_000 {
        publisher.publish(&format!("other {value}"), value);
    }
    let mut sub = hub.subscribe_from("a", Start::After(position));
    assert_empty(&mut sub);
    publisher.publish("a", 9);
    assert_eq!(*next_event(&mut sub), 9);
}

#[test]
fn gap_is_told_even_when_the_exact_memory_of_topics_is_full() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().epoch(7).max_tombstones(256).build();
    for key in 0..2_000 {
        let reader = hub.subscribe(&key);
        publisher.publish(&key, key);
        drop(reader);
    }
    assert!(hub.stats().tombstones <= 256);
    for key in 0..2_000 {
        let mut sub = hub.subscribe_from(&key, Start::After(Position::new(7, key)));
        let gap = next_gap(&mut sub);
        // May say too much when keys share a place, never too little.
        assert!(gap.from == key && gap.to > key, "{gap:?}");
        assert_empty(&mut sub);
    }
}

#[test]
fn no_memory_of_removed_topics_still_tells_every_loss() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().epoch(7).max_tombstones(0).build();
    let reader = hub.subscribe(&1);
    publisher.publish(&1, 1);
    drop(reader);
    assert_eq!(hub.stats().tombstones, 0);
    assert_eq!(next_gap(&mut hub.subscribe_from(&1, Start::After(Position::new(7, 0)))).to, 1);
}

#[test]
fn position_of_another_epoch_is_told_and_what_is_retained_follows() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(8, 3)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.cause, gap.missed), (GapCause::OtherEpoch, None));
    publisher.publish("a", 6);
    assert_eq!(drain(&mut sub), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn position_of_another_epoch_is_told_also_for_a_key_without_events() {
    let (_publisher, hub, _keeper) = hub_with_five();
    let mut sub = hub.subscribe_from("nothing", Start::After(Position::new(8, 0)));
    assert_eq!(next_gap(&mut sub).cause, GapCause::OtherEpoch);
    assert_empty(&mut sub);
    assert_eq!(sub.position().epoch(), 7);
}

#[test]
fn position_ahead_of_an_own_numbered_hub_is_told_at_once_and_reading_starts_at_now() {
    let (mut publisher, hub, _keeper) = hub_with_five();
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 1_000)));
    let gap = next_gap(&mut sub);
    assert_eq!(gap.cause, GapCause::Ahead);
    assert_eq!(gap.from, gap.to);
    assert_empty(&mut sub);
    assert_eq!(sub.position(), Position::new(7, 5));
    publisher.publish("a", 6);
    assert_eq!(drain(&mut sub), [6]);
}

#[test]
fn overtaken_reader_from_the_latest_counts_only_from_there() {
    for keep in [1, 2, 8] {
        let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_events(keep).build();
        let _keeper = hub.subscribe("a");
        for value in 1..=300 {
            publisher.publish("a", value);
        }
        let mut sub = hub.subscribe_from("a", Start::Latest);
        for value in 301..=600 {
            publisher.publish("a", value);
        }
        let first = next_event(&mut hub.subscribe_from("a", Start::Oldest)).seq();
        // It asked for 300 and what follows, and may have some of that in hand.
        let mut last = 299;
        let gap = loop {
            match sub.try_recv().expect("there is more") {
                Received::Event(event) => {
                    assert_eq!(event.seq(), last + 1);
                    last = event.seq();
                }
                Received::Gap(gap) => break gap,
                _ => panic!("neither an event nor a gap"),
            }
        };
        assert_eq!((gap.from, gap.to, gap.missed), (last, first - 1, Some(first - 1 - last)));
        assert_eq!(next_event(&mut sub).seq(), first);
    }
}
