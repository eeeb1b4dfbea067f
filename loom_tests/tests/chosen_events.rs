//! A reader with a predicate is woken for what it accepts and for nothing else, loses none of it, and goes whenever it wants.

use keywake::{CloseReason, Hub, Received, SharedPublisher, Slow, Start, Subscription};
use loom_tests::{Alarm, KEY, Payload, Payloads, Runner, Sleeper, Told, builder, model, race};

/// Of even ids.
fn even(hub: &Hub<u8, Payload>) -> Subscription<u8, Payload> {
    hub.subscribe_where(&KEY, |payload| payload.id() % 2 == 0)
}

fn publish(publisher: &SharedPublisher<u8, Payload>, payloads: &Payloads, ids: &'static [u64]) -> impl FnOnce() + use<> {
    let (publisher, payloads) = (publisher.clone(), payloads.clone());
    move || {
        for id in ids {
            publisher.publish(&KEY, payloads.make(*id));
        }
    }
}

/// A reader that is parked, and was not woken.
fn parked(reader: Subscription<u8, Payload>) -> Sleeper {
    let mut sleeper = Sleeper::new(reader);
    assert!(sleeper.poll().is_pending(), "nothing yet");
    sleeper
}

#[track_caller]
fn finish(sleeper: Sleeper, publisher: SharedPublisher<u8, Payload>, hub: Hub<u8, Payload>, payloads: &Payloads) {
    let Sleeper { reader, alarm, .. } = sleeper;
    drop(reader);
    assert_eq!(
        (alarm.copies(), payloads.alive(), hub.topics(), hub.stats().empty_wakes),
        (0, 0, 0, 0),
        "wakers, payloads, topics"
    );
    drop((publisher, hub));
    payloads.assert_all_dropped();
}

#[test]
fn park_against_a_skip() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = Sleeper::new(even(&hub));
        let (mut sleeper, ()) = race(move || sleeper.polled(2), publish(&publisher, &payloads, &[1, 2]));
        sleeper.judge();
        assert_eq!(sleeper.told.ids, [2]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// The second comes while the first is looked at: it is offered by its own fan-out, or found by the other one.
#[test]
fn two_fan_outs_at_once() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = parked(even(&hub));
        race(publish(&publisher, &payloads, &[1]), publish(&publisher, &payloads, &[2]));
        assert!(sleeper.was_woken());
        sleeper.judge();
        assert_eq!((&*sleeper.told.ids, sleeper.alarm.rings()), (&[2][..], 1));
        finish(sleeper, publisher, hub, &payloads);
    });
}

#[test]
fn two_fan_outs_of_what_is_rejected() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = parked(even(&hub));
        race(publish(&publisher, &payloads, &[1]), publish(&publisher, &payloads, &[3]));
        assert_eq!((sleeper.alarm.rings(), sleeper.reader.lag(), sleeper.reader.position()), (0, 0, hub.position()));
        publisher.publish(&KEY, payloads.make(4));
        assert!(sleeper.was_woken(), "it is still parked");
        sleeper.judge();
        assert_eq!(sleeper.told.ids, [4]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// It is polled, with another waker, while somebody looks for it.
#[test]
fn poll_with_another_waker_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = parked(even(&hub));
        let old = std::mem::replace(&mut sleeper.alarm, Alarm::new());
        let (mut sleeper, ()) = race(move || sleeper.polled(1), publish(&publisher, &payloads, &[1, 2]));
        sleeper.judge();
        assert_eq!(sleeper.told.ids, [2]);
        assert!(old.rings() <= 1 && old.copies() == 0, "{} wakes of one wait", old.rings());
        finish(sleeper, publisher, hub, &payloads);
    });
}

#[test]
fn drop_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let Sleeper { reader, alarm, .. } = parked(even(&hub));
        race(move || drop(reader), publish(&publisher, &payloads, &[1, 2]));
        assert!(alarm.rings() <= 1);
        assert_eq!((alarm.copies(), payloads.alive(), hub.topics(), hub.readers(&KEY)), (0, 0, 0, 0), "wakers, payloads, topics");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// As above, and another one takes its slot.
#[test]
fn slot_is_taken_over_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let Sleeper { reader, alarm, .. } = parked(even(&hub));
        let other = Sleeper::new(even(&hub));
        let (mut other, ()) = race(
            move || {
                drop(reader);
                other.polled(1)
            },
            publish(&publisher, &payloads, &[1, 2]),
        );
        other.judge();
        assert_eq!((&*other.told.ids, alarm.copies()), (&[2][..], 0));
        assert!(alarm.rings() <= 1);
        finish(other, publisher, hub, &payloads);
    });
}

#[test]
fn cancel_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = Sleeper::new(even(&hub));
        let (mut sleeper, ()) = race(
            move || {
                let _ = sleeper.poll_and_cancel();
                sleeper.polled(1)
            },
            publish(&publisher, &payloads, &[1, 2]),
        );
        sleeper.judge();
        assert_eq!(sleeper.told.ids, [2]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

#[test]
fn close_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = parked(even(&hub));
        let closing = hub.clone();
        race(move || closing.close(&KEY, CloseReason::KeyClosed), publish(&publisher, &payloads, &[1]));
        assert!(sleeper.was_woken());
        sleeper.judge();
        assert_eq!((&sleeper.told.end, sleeper.alarm.rings()), (&Some(CloseReason::KeyClosed), 1));
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// It is polled while the one who closes looks for it.
#[test]
fn close_against_a_poll() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = parked(even(&hub));
        publish(&publisher, &payloads, &[1])();
        let closing = hub.clone();
        let (_, mut sleeper) = race(move || closing.close(&KEY, CloseReason::KeyClosed), move || sleeper.polled(1));
        sleeper.judge();
        assert_eq!(sleeper.told.end, Some(CloseReason::KeyClosed));
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// Blocks of one event: what is rejected passes by the one that sleeps without a gap; what passes by the one that is awake is told.
#[test]
fn retention_against_a_poll_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let publisher = publisher.shared();
        let sleeper = parked(even(&hub));
        let (mut sleeper, ()) = race(move || sleeper.polled(1), publish(&publisher, &payloads, &[1, 3, 4]));
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(&[3]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// Whenever its position is asked for: it is safe to come back with.
#[test]
fn position_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = parked(even(&hub));
        let ((sleeper, position, lag), ()) = race(
            move || {
                let (position, lag) = (sleeper.reader.position(), sleeper.reader.lag());
                (sleeper, position, lag)
            },
            publish(&publisher, &payloads, &[1, 2]),
        );
        assert!(position.seq() < 2 && lag <= 2, "{position} claims 2, which is unread");
        let mut again = hub.subscribe_from(&KEY, Start::After(position));
        let mut later = Told::since(position.seq());
        later.take_all(&mut again);
        later.assert_no_silent_hole(&[1, 2]);
        drop(again);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// Of the newest only: its own look goes to the end, and another one comes.
#[test]
fn newest_that_is_accepted_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = Sleeper::new(even(&hub).slow(Slow::Latest));
        let (mut sleeper, ()) = race(move || sleeper.polled(1), publish(&publisher, &payloads, &[2, 3, 4]));
        sleeper.judge();
        assert_eq!(sleeper.told.ids.last(), Some(&4));
        sleeper.told.assert_no_silent_hole(&[1, 3]);
        sleeper.told.assert_gaps_exact(&[1, 3]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// One goes, while the other one is to be woken.
#[test]
fn neighbour_goes_during_a_look() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = parked(hub.subscribe_where(&KEY, |_| false));
        let other = parked(even(&hub));
        let (mut other, ()) = race(
            move || {
                drop(sleeper);
                other
            },
            publish(&publisher, &payloads, &[2]),
        );
        assert!(other.was_woken());
        other.judge();
        assert_eq!(other.told.ids, [2]);
        finish(other, publisher, hub, &payloads);
    });
}

/// A relay looks for it, while the next event comes.
#[test]
fn relay_looks_against_a_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let mut sleeper = parked(even(&hub));
        publish(&publisher, &payloads, &[1])();
        let (mut relay, ()) = race(
            move || {
                relay.poll();
                relay
            },
            publish(&publisher, &payloads, &[2]),
        );
        relay.run();
        assert!(sleeper.was_woken());
        sleeper.judge();
        assert_eq!((&*sleeper.told.ids, sleeper.alarm.rings()), (&[2][..], 1));
        finish(sleeper, publisher, hub, &payloads);
    });
}

#[test]
fn relay_goes_against_a_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let mut sleeper = parked(even(&hub));
        publish(&publisher, &payloads, &[1])();
        race(move || drop(relay), publish(&publisher, &payloads, &[2]));
        assert!(sleeper.was_woken());
        sleeper.judge();
        assert_eq!(sleeper.told.ids, [2]);
        finish(sleeper, publisher, hub, &payloads);
    });
}

/// It depends on no relay.
#[test]
fn blocked_thread_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let mut reader = even(&hub);
        let ((), ()) = race(
            move || match reader.recv_blocking() {
                Ok(Received::Event(event)) => assert_eq!(event.id(), 2),
                other => panic!("expected an event: {other:?}"),
            },
            publish(&publisher, &payloads, &[1, 2]),
        );
        assert_eq!((payloads.alive(), hub.topics()), (0, 0));
        drop((relay, publisher, hub));
        payloads.assert_all_dropped();
    });
}
