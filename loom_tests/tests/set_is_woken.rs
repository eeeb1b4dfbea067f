//! A set that sleeps while something of one of its keys happens is woken: at most once per wait, and never for nothing.

use keywake::{CloseReason, Hub};
use loom_tests::{KEY, Payload, Payloads, SetSleeper, builder, model, model_within, race, race3};

const OTHER: u8 = 2;

/// A set of both keys that sleeps.
fn asleep(hub: &Hub<u8, Payload>) -> SetSleeper {
    let mut set = hub.subscribe_set();
    set.add(&KEY);
    set.add(&OTHER);
    let mut sleeper = SetSleeper::new(set);
    assert!(sleeper.poll().is_pending(), "there is nothing yet");
    sleeper
}

#[test]
fn set_against_two_publishes_to_one_key() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        let sleeper = SetSleeper::new(set);
        let events = [payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || sleeper.polled(3),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (KEY, 2)]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn set_against_publishes_to_two_keys() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = asleep(&hub);
        let events = [payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || sleeper.polled(3),
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

/// One set is marked for the first event; the other has received it by itself, and parks anew before that: it stays parked for the second.
#[test]
fn set_that_parks_anew_beside_one_that_is_marked_against_two_publishes() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut one = hub.subscribe_set();
        one.add(&KEY);
        let mut one = SetSleeper::new(one);
        assert!(one.poll().is_pending(), "there is nothing yet");
        let mut two = hub.subscribe_set();
        two.add(&KEY);
        let two = SetSleeper::new(two);
        let events = [payloads.make(1), payloads.make(2)];
        let (mut two, publisher) = race(
            move || two.polled(2),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        for sleeper in [&mut one, &mut two] {
            sleeper.judge();
            // The one of them reads nothing between the two: retention was faster.
            assert_eq!(sleeper.told.last(), Some(&(KEY, 2)));
        }
        drop((publisher, one, two, hub));
        payloads.assert_all_dropped();
    });
}

/// Who closes a key marks beside the writer: meanwhile the set may not deliver the event of another key, and is told when it may.
#[test]
fn close_of_a_key_against_a_set_with_an_event_of_another() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = asleep(&hub);
        publisher.publish(&OTHER, payloads.make(1));
        let closer = hub.clone();
        let (mut sleeper, ()) = race(
            move || sleeper.polled(2),
            move || {
                closer.close(&KEY, CloseReason::KeyClosed);
            },
        );
        sleeper.judge();
        let events: Vec<_> = sleeper.told.iter().copied().filter(|(_, seq)| *seq > 0).collect();
        assert_eq!((&events[..], sleeper.ended.len()), (&[(OTHER, 1)][..], 1));
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The key's first member is removed, perhaps while it is being marked, and its place in the set and in the topic taken by another.
#[test]
fn remove_and_add_against_two_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let keep = hub.subscribe(&KEY);
        let mut sleeper = asleep(&hub);
        let events = [payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || {
                let removed = sleeper.set.remove(&KEY);
                let position = sleeper.set.position();
                let added = sleeper.set.add_from(&KEY, keywake::Start::After(position));
                assert!(removed && added);
                sleeper.polled(2)
            },
            move || {
                for (key, event) in [KEY, OTHER].into_iter().zip(events) {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        sleeper.judge();
        // What the position after the removal covered is not the set's any more.
        let all = [(KEY, 1), (OTHER, 2)];
        let events: Vec<_> = sleeper.told.iter().copied().filter(|(_, seq)| *seq > 0).collect();
        assert!(events == all || events == all[1..], "{sleeper:?}");
        drop((publisher, sleeper, keep, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn drop_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = asleep(&hub);
        let event = payloads.make(1);
        let alarm = sleeper.alarm.clone();
        let ((), publisher) = race(
            move || drop(sleeper),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert!(alarm.rings() <= 1);
        assert_eq!(alarm.copies(), 0, "no waker is left behind");
        assert_eq!(hub.topics(), 0);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn close_of_a_key_against_a_set_that_falls_asleep() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let sleeper = SetSleeper::new(set);
        let closer = hub.clone();
        let (mut sleeper, ()) = race(
            move || sleeper.polled(3),
            move || {
                closer.close(&KEY, CloseReason::KeyClosed);
            },
        );
        sleeper.judge();
        assert_eq!((&sleeper.told[..], &sleeper.ended[..]), (&[(KEY, 1), (KEY, 0)][..], &[(KEY, 1)][..]));
        assert!(sleeper.set.is_empty());
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn shutdown_against_a_set_with_a_key_and_one_without() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let sleeper = SetSleeper::new(set);
        let empty = SetSleeper::new(hub.subscribe_set());
        let other = hub.clone();
        let (mut sleeper, mut empty, ()) =
            race3(move || sleeper.polled(2), move || empty.polled(1), move || other.shutdown(CloseReason::Shutdown));
        for sleeper in [&mut sleeper, &mut empty] {
            sleeper.judge();
            assert_eq!(sleeper.end, Some(CloseReason::Shutdown));
        }
        sleeper.assert_told(&[(KEY, 1)]);
        assert_eq!(sleeper.set.position().seq(), 1);
        drop((publisher, sleeper, empty, hub));
        payloads.assert_all_dropped();
    });
}
