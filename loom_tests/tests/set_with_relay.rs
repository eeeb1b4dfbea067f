//! With a relay a set is woken, and its position is as safe: the relay marks its members, and moves what it may deliver up to.

use keywake::{Hub, Received, Relay};
use loom_tests::{KEY, Payload, Payloads, Runner, SetSleeper, Sleeper, builder, model, model_within, race, race3};

const OTHER: u8 = 2;
const THIRD: u8 = 3;

/// A relay that sleeps, and a set of both keys that does.
fn asleep(hub: &Hub<u8, Payload>) -> (Runner<Relay>, SetSleeper) {
    let mut relay = Runner::new(hub.relay());
    relay.poll();
    let mut set = hub.subscribe_set();
    set.add(&KEY);
    set.add(&OTHER);
    let mut sleeper = SetSleeper::new(set);
    assert!(sleeper.poll().is_pending(), "there is nothing yet");
    (relay, sleeper)
}

/// The race of `set_position_is_safe`, with a relay that does not come by: the set does its first step.
#[test]
fn producer_of_two_keys_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (mut relay, mut sleeper) = asleep(&hub);
        publisher.publish(&KEY, payloads.make(1));
        let events = [payloads.make(2), payloads.make(3)];
        let (mut sleeper, publisher) = race(
            move || {
                let _ = sleeper.poll();
                sleeper
            },
            move || {
                for (key, event) in [OTHER, KEY].into_iter().zip(events) {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        relay.run();
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (OTHER, 2), (KEY, 3)]);
        assert_eq!(sleeper.set.position().seq(), 3);
        drop((publisher, sleeper, hub));
        relay.run();
        drop(relay);
        payloads.assert_all_dropped();
    });
}

/// Both do the first step for what is there already: one of them finds the other at it.
#[test]
fn relay_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (mut relay, mut sleeper) = asleep(&hub);
        publisher.publish(&KEY, payloads.make(1));
        publisher.publish(&OTHER, payloads.make(2));
        let (mut relay, mut sleeper) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                let _ = sleeper.poll();
                sleeper
            },
        );
        relay.run();
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (OTHER, 2)]);
        drop((publisher, sleeper, hub));
        relay.run();
        drop(relay);
        payloads.assert_all_dropped();
    });
}

/// The set comes to a topic that the relay is just at, falls asleep there, and the next event is published.
#[test]
fn relay_at_work_against_a_set_that_comes_and_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let mut reader = Sleeper::new(hub.subscribe(&KEY));
        assert!(reader.poll().is_pending(), "there is nothing yet");
        publisher.publish(&KEY, payloads.make(1));
        let mut set = hub.subscribe_set();
        let event = payloads.make(2);
        let (mut relay, (mut sleeper, publisher)) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                set.add(&KEY);
                let sleeper = SetSleeper::new(set).polled(1);
                publisher.publish(&KEY, event);
                (sleeper, publisher)
            },
        );
        relay.run();
        reader.judge();
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 2)]);
        drop((publisher, sleeper, reader, hub, relay));
        payloads.assert_all_dropped();
    });
}

#[test]
fn position_of_a_sleeping_set_against_publish_against_relay() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (mut relay, mut sleeper) = asleep(&hub);
        let event = payloads.make(1);
        let (mut relay, mut sleeper, publisher) = race3(
            move || {
                relay.poll();
                relay
            },
            move || {
                sleeper.say();
                sleeper.say();
                sleeper
            },
            move || {
                publisher.publish(&OTHER, event);
                publisher
            },
        );
        relay.run();
        sleeper.judge();
        sleeper.assert_told(&[(OTHER, 1)]);
        drop((publisher, sleeper, hub));
        relay.run();
        drop(relay);
        payloads.assert_all_dropped();
    });
}

#[test]
fn relay_that_is_dropped_against_publish_to_a_sleeping_set() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (relay, mut sleeper) = asleep(&hub);
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || drop(relay),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1)]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn first_poll_of_a_relay_against_publish_to_a_sleeping_set() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        let mut sleeper = SetSleeper::new(set);
        assert!(sleeper.poll().is_pending(), "there is nothing yet");
        let mut relay = Runner::new(hub.relay());
        let events = [payloads.make(1), payloads.make(2)];
        let (mut relay, publisher) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        relay.run();
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1), (KEY, 2)]);
        drop((publisher, sleeper, hub));
        relay.run();
        drop(relay);
        payloads.assert_all_dropped();
    });
}

/// The set does the relay's first step for it while the relay comes to do so: which of them ever has the turn, the relay is asleep afterwards
/// for who pushes next.
#[test]
fn set_that_helps_against_relay_then_publish_to_a_sleeping_reader() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (mut relay, mut sleeper) = asleep(&hub);
        let mut reader = Sleeper::new(hub.subscribe(&THIRD));
        assert!(reader.poll().is_pending(), "there is nothing yet");
        publisher.publish(&KEY, payloads.make(1));
        let (mut relay, mut sleeper) = race(
            move || {
                relay.run();
                relay
            },
            move || {
                let _ = sleeper.poll();
                sleeper
            },
        );
        relay.run();
        publisher.publish(&THIRD, payloads.make(2));
        relay.run();
        reader.judge();
        sleeper.judge();
        sleeper.assert_told(&[(KEY, 1)]);
        drop((publisher, sleeper, reader, hub));
        relay.run();
        drop(relay);
        payloads.assert_all_dropped();
    });
}

/// A blocked thread does not depend on relays: nobody polls this one.
#[test]
fn thread_that_blocks_on_a_set_against_publish_beside_a_relay_that_is_not_polled() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let mut set = hub.subscribe_set();
        set.add(&KEY);
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || match set.recv_blocking() {
                Ok((key, Received::Event(event))) => assert_eq!((*key, event.seq()), (KEY, 1)),
                other => panic!("expected an event: {other:?}"),
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        drop((publisher, hub, relay));
        payloads.assert_all_dropped();
    });
}
