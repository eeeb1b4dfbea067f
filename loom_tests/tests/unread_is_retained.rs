//! Where events that nobody reads are kept, whoever comes late finds each of them, or a gap; the limit of topics holds.

use std::time::{Duration, Instant};

use keywake::{CloseReason, Start};
use loom_tests::{KEY, Payloads, Sleeper, Told, builder, model, position, race, race3};

const OTHER: u8 = 2;

/// Both make the topic.
#[test]
fn publish_against_subscribe() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).build();
        let (other, events) = (hub.clone(), [payloads.make(1), payloads.make(2)]);
        let (mut sleeper, publisher) = race(
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(position(0)))),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.told.seqs, [1, 2], "all are kept");
        assert!(sleeper.told.gaps.is_empty());
        let Sleeper { reader, .. } = sleeper;
        drop(reader);
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::Oldest));
        assert_eq!(late.seqs, [1, 2], "also without a reader");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// A reader that leaves before anything was published takes the topic with it, or does not.
#[test]
fn publish_against_last_unsubscribe() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).build();
        let reader = hub.subscribe(&KEY);
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || drop(reader),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::After(position(0))));
        assert_eq!(late.seqs, [1], "kept, here or there");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn publish_against_close() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).build();
        let (closing, events) = (hub.clone(), [payloads.make(1), payloads.make(2)]);
        let (_, publisher) = race(
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::After(position(0))));
        late.assert_no_silent_hole(&[1, 2]);
        // An event that was in the closed topic's writer's hands may be kept by the next one, which says that it is lost.
        let kept = hub.topic_stats(&KEY).map_or(0, |stats| stats.retained_events);
        assert_eq!(payloads.alive() as u64, kept, "what the closed topic held is gone");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn publish_against_subscribe_against_close() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).build();
        let (other, closing, event) = (hub.clone(), hub.clone(), payloads.make(1));
        let (sleeper, _, publisher) = race3(
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(position(0)))),
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        let mut sleeper = sleeper;
        sleeper.judge();
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::After(position(0))));
        late.assert_no_silent_hole(&[1]);
        if sleeper.told.end.is_none() {
            sleeper.told.assert_no_silent_hole(&[1]);
            assert_eq!(late.seqs, sleeper.told.seqs, "they read the same topic");
        } else {
            assert!(sleeper.told.seqs.is_empty() || late.seqs.is_empty(), "delivered before and after the close");
        }
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

const AGE: Duration = Duration::from_secs(3_600);

/// What was kept unread expires, and the topic goes with it, just when somebody publishes to it.
#[test]
fn emptied_topic_is_swept_against_two_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).retain_for(AGE).build();
        publisher.publish(&KEY, payloads.make(1));
        assert_eq!((hub.topics(), payloads.alive()), (1, 1), "it is kept");
        let (sweeping, events) = (hub.clone(), [payloads.make(2), payloads.make(3)]);
        let ((), publisher) = race(
            move || sweeping.sweep(Instant::now() + 2 * AGE),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::After(position(0))));
        late.assert_no_silent_hole(&[1, 2, 3]);
        hub.sweep(Instant::now() + 2 * AGE);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "all is gone");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// The last reader leaves a topic that held something, and holds nothing any more.
#[test]
fn emptied_topic_is_left_against_publish_against_subscribe() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).retain_for(AGE).build();
        let first = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        hub.sweep(Instant::now() + 2 * AGE);
        assert_eq!((hub.topics(), payloads.alive()), (1, 0), "it is emptied");
        let (other, event) = (hub.clone(), payloads.make(2));
        let ((), mut publisher, mut sleeper) = race3(
            move || drop(first),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(position(0)))),
        );
        publisher.publish(&KEY, payloads.make(3));
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(&[1, 2, 3]);
        assert_eq!(sleeper.told.seqs, [2, 3], "all that is kept");
        drop(sleeper);
        hub.sweep(Instant::now() + 2 * AGE);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "all is gone");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// There is room for one topic: the reader of one key has it, or the event of the other.
#[test]
fn publish_against_subscribe_at_the_limit_of_topics() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_unread(true).max_topics(1).build();
        let (other, event) = (hub.clone(), payloads.make(1));
        let (mut sleeper, (publisher, published)) = race(
            move || Sleeper::new(other.subscribe(&OTHER)).polled(1),
            move || {
                let published = publisher.publish(&KEY, event);
                (publisher, published)
            },
        );
        sleeper.judge();
        assert_eq!(published.readers, 0);
        assert_eq!(hub.topics(), 1, "one has it");
        let is_kept = payloads.alive() == 1;
        assert_eq!(sleeper.told.end, is_kept.then_some(CloseReason::TopicLimit));
        drop(sleeper);
        // Its seq is remembered, kept or not.
        let mut late = Told::since(0);
        late.take_all(&mut hub.subscribe_from(&KEY, Start::After(position(0))));
        late.assert_no_silent_hole(&[1]);
        assert_eq!(late.end, None, "the other's topic is gone, or it has its own");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}
