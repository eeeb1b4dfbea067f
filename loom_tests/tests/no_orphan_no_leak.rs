//! However the last reader's leaving meets a subscribe and a publish: a reader who is there is reached, and nothing stays of one
//! who is not.

use std::time::{Duration, Instant};

use keywake::{Hub, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, position, race, race3};

#[track_caller]
fn assert_empty(hub: &Hub<u8, Payload>, payloads: &Payloads) {
    assert_eq!((hub.topics(), hub.readers(&KEY)), (0, 0), "topics and readers");
    assert_eq!(payloads.alive(), 0, "payloads without a reader");
}

/// The writer knows the topic, or has not met it.
fn last_unsubscribe_against_subscribe(known: bool) {
    model(move || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let first = hub.subscribe(&KEY);
        if known {
            assert_eq!(publisher.publish(&KEY, payloads.make(1)).readers, 1);
        }
        let other = hub.clone();
        let ((), second) = race(move || drop(first), move || Sleeper::new(other.subscribe(&KEY)));
        let mut second = second;
        assert_eq!((hub.topics(), hub.readers(&KEY)), (1, 1), "topics and readers");
        assert!(second.poll().is_pending(), "nothing yet");
        let published = publisher.publish(&KEY, payloads.make(2));
        assert_eq!(published.readers, 1, "an orphan");
        second.judge();
        assert_eq!(second.told.seqs, [published.seq]);
        drop(second);
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn last_unsubscribe_against_subscribe_of_a_known_topic() {
    last_unsubscribe_against_subscribe(true);
}

#[test]
fn last_unsubscribe_against_subscribe_of_a_newborn() {
    last_unsubscribe_against_subscribe(false);
}

#[test]
fn last_unsubscribe_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let reader = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let events = [payloads.make(2), payloads.make(3)];
        let ((), publisher) = race(
            move || drop(reader),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn last_unsubscribe_against_publish_to_a_newborn() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let reader = hub.subscribe(&KEY);
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || drop(reader),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn both_readers_leave_at_once_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (one, two) = (hub.subscribe(&KEY), hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let event = payloads.make(2);
        let ((), (), publisher) = race3(
            move || drop(one),
            move || drop(two),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn last_unsubscribe_against_subscribe_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let first = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let (other, event) = (hub.clone(), payloads.make(2));
        let (mut publisher, (), second) = race3(
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
            move || drop(first),
            move || Sleeper::new(other.subscribe(&KEY)).polled(1),
        );
        let mut second = second;
        assert_eq!((hub.topics(), hub.readers(&KEY)), (1, 1), "topics and readers");
        assert_eq!(publisher.publish(&KEY, payloads.make(3)).readers, 1, "an orphan");
        second.judge();
        second.told.assert_no_silent_hole(&[1, 2, 3]);
        assert_eq!(second.told.seqs.last(), Some(&3));
        drop(second);
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// A topic that stays for a while after its last reader: its time is over just when somebody comes back.
#[test]
fn idle_topic_expires_against_subscribe_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let time = Duration::from_secs(3_600);
        let (mut publisher, hub) = builder().keep_idle(time).build();
        drop(hub.subscribe(&KEY));
        assert_eq!(publisher.publish(&KEY, payloads.make(1)).readers, 0);
        assert_eq!((hub.topics(), payloads.alive()), (1, 1), "it is kept");
        let (other, sweeping, event) = (hub.clone(), hub.clone(), payloads.make(2));
        let (mut reader, (), mut publisher) = race3(
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(position(0)))),
            move || sweeping.sweep(Instant::now() + 2 * time),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert_eq!((hub.topics(), hub.readers(&KEY)), (1, 1), "topics and readers");
        assert_eq!(publisher.publish(&KEY, payloads.make(3)).readers, 1, "an orphan");
        reader.judge();
        reader.told.assert_no_silent_hole(&[1, 2, 3]);
        assert_eq!(reader.told.seqs.last(), Some(&3));
        drop(reader);
        hub.sweep(Instant::now() + 4 * time);
        hub.sweep(Instant::now() + 8 * time);
        assert_empty(&hub, &payloads);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}
