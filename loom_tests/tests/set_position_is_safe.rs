//! The one position of a set passes no event of any of its keys that the set has not delivered; and what it delivers is in order.

use keywake::{CloseReason, GapCause, Hub, Start};
use loom_tests::{KEY, Payload, Payloads, SetSleeper, builder, model, race, race3};

const OTHER: u8 = 2;

fn set_of_both(hub: &Hub<u8, Payload>) -> SetSleeper {
    let mut set = hub.subscribe_set();
    set.add(&KEY);
    set.add(&OTHER);
    SetSleeper::new(set)
}

/// The race for which one position over several keys is not safe by itself: the first key is marked with 1; then 2 goes to the other
/// key, and 3 to the first. Whoever reads the first key finds 1 and 3.
#[test]
fn producer_of_two_keys_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut sleeper = set_of_both(&hub);
        assert!(sleeper.poll().is_pending(), "nothing yet");
        publisher.publish(&KEY, payloads.make(1));
        let events = [payloads.make(2), payloads.make(3)];
        let (mut sleeper, publisher) = race(
            move || sleeper.polled(2),
            move || {
                for (key, event) in [OTHER, KEY].into_iter().zip(events) {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (OTHER, 2), (KEY, 3)]);
        assert_eq!(sleeper.set.position().seq(), 3);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The same by two producers at once, either of which may be held up anywhere.
#[test]
fn two_producers_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = set_of_both(&hub);
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let publish = |key, id| {
            let (publisher, event) = (publisher.clone(), payloads.make(id));
            move || (key, publisher.publish(&key, event).seq)
        };
        let (one, mut sleeper, two) = race3(publish(OTHER, 1), move || sleeper.polled(1), publish(KEY, 2));
        sleeper.judge();
        sleeper.assert_told(&[one, two]);
        assert_eq!(sleeper.set.position().seq(), 2);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// All are parked, and only asked where they stand.
#[test]
fn position_of_a_sleeping_set_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut sleeper = set_of_both(&hub);
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let events = [payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || {
                sleeper.say();
                sleeper.say();
                let _ = sleeper.poll();
                sleeper.say();
                sleeper
            },
            move || {
                for (key, event) in [KEY, OTHER].into_iter().zip(events) {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (OTHER, 2)]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// Who closes a key marks beside the writer: an event that was appended before the close must not be passed because the closing thread
/// has the key's member in hand.
#[test]
fn close_against_publish_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        let mut sleeper = SetSleeper::new(set);
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let event = payloads.make(1);
        let closer = hub.clone();
        let (mut sleeper, (readers, publisher), ()) = race3(
            move || {
                sleeper.say();
                sleeper.say();
                sleeper
            },
            move || (publisher.publish(&KEY, event).readers, publisher),
            move || {
                closer.close(&KEY, CloseReason::KeyClosed);
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.ended.len(), 1);
        if readers == 1 {
            assert_eq!(sleeper.told[0], (KEY, 1), "it was in the topic before the close");
            sleeper.assert_positions(&[(KEY, 1)]);
        }
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A loss of the source is told for one key after the other, under one number.
#[test]
fn loss_of_the_source_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build_from_source();
        let sleeper = set_of_both(&hub);
        publisher.publish_at(1, &KEY, payloads.make(1)).expect("1 comes after 0");
        let other = payloads.make(4);
        publisher.publish_at(2, &OTHER, other).expect("2 comes after 1");
        let (mut sleeper, publisher) = race(
            move || sleeper.polled(3),
            move || {
                publisher.lost(3..=4, GapCause::Source).expect("3 comes after 2");
                publisher
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.gaps.len(), 2);
        // Coming back from any of its positions, nothing is missing: who had not been told of the loss is told then.
        sleeper.assert_positions(&[(KEY, 1), (OTHER, 2)]);
        assert_eq!(sleeper.set.position().seq(), 4);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A key is added while it is published to, from where the set stands.
#[test]
fn add_against_two_producers() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        let keep = hub.subscribe(&OTHER);
        let mut sleeper = SetSleeper::new(set);
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let publish = |key, id| {
            let (publisher, event) = (publisher.clone(), payloads.make(id));
            move || (key, publisher.publish(&key, event).seq)
        };
        let (one, mut sleeper, two) = race3(
            publish(OTHER, 1),
            move || {
                sleeper.set.add_from(&OTHER, Start::After(loom_tests::position(0)));
                sleeper.say();
                sleeper.polled(1)
            },
            publish(KEY, 2),
        );
        sleeper.judge();
        // That of the other key may come late, if the set had gone on before it was added; but no position after that passes it.
        let mut told: Vec<_> = sleeper.told.clone();
        told.sort_unstable();
        let mut published = vec![one, two];
        published.sort_unstable();
        assert_eq!(told, published);
        sleeper.assert_positions(&published);
        drop((publisher, sleeper, keep, hub));
        payloads.assert_all_dropped();
    });
}

/// A key is added from now on while an event of it is on its way: what the set then says of its position does not pass that.
fn add_from_now_against_publish(has_topic: bool) {
    model(move || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let keep = has_topic.then(|| hub.subscribe(&OTHER));
        let mut sleeper = SetSleeper::new(hub.subscribe_set());
        let event = payloads.make(1);
        let (mut sleeper, publisher) = race(
            move || {
                sleeper.set.add(&OTHER);
                sleeper.say();
                sleeper.polled(1)
            },
            move || {
                publisher.publish(&OTHER, event);
                publisher
            },
        );
        let from = sleeper.first_said();
        sleeper.judge();
        if from == 0 {
            sleeper.assert_positions(&[(OTHER, 1)]);
            assert_eq!(sleeper.told.len(), 1, "{sleeper:?}");
        }
        drop((publisher, sleeper, keep, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn add_from_now_against_publish_to_a_topic() {
    add_from_now_against_publish(true);
}

#[test]
fn add_from_now_against_publish_to_no_topic() {
    add_from_now_against_publish(false);
}
