//! A reader that goes while it is parked or being woken leaves no waker behind and takes nobody's wake with it.

use std::task::Poll;

use loom_tests::{Alarm, KEY, Payloads, Sleeper, builder, model, race, race3};

#[test]
fn parked_reader_is_dropped_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let Sleeper { reader, alarm, .. } = sleeper;
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || drop(reader),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert!(alarm.rings() <= 1, "{} wakes of one wait", alarm.rings());
        assert_eq!((alarm.copies(), payloads.alive(), hub.topics()), (0, 0, 0), "wakers, payloads, topics");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// The slot of the one that goes is taken by the one that stays, while the fan-out is at it.
#[test]
fn slot_is_taken_over_during_a_fan_out() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut old = Sleeper::new(hub.subscribe(&KEY));
        assert!(old.poll().is_pending(), "nothing yet");
        let new = Sleeper::new(hub.subscribe(&KEY));
        let Sleeper { reader, alarm, .. } = old;
        let (publishing, event) = (publisher.clone(), payloads.make(1));
        let (mut new, _) = race(
            move || {
                drop(reader);
                new.polled(2)
            },
            move || publishing.publish(&KEY, event),
        );
        new.judge();
        assert_eq!(new.told.seqs, [1]);
        assert!(alarm.rings() <= 1, "{} wakes of one wait", alarm.rings());
        // It parks for another one, in the same slot.
        assert!(new.poll().is_pending());
        publisher.publish(&KEY, payloads.make(2));
        new.judge();
        assert_eq!(new.told.seqs, [1, 2]);
        let Sleeper { reader, alarm: other, .. } = new;
        drop(reader);
        assert_eq!((alarm.copies(), other.copies()), (0, 0), "wakers");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// As above, with both of two fan-outs at it.
#[test]
fn slot_is_taken_over_during_two_fan_outs() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut old = Sleeper::new(hub.subscribe(&KEY));
        assert!(old.poll().is_pending(), "nothing yet");
        let new = Sleeper::new(hub.subscribe(&KEY));
        let Sleeper { reader, alarm, .. } = old;
        let publish = |id| {
            let (publisher, event) = (publisher.clone(), payloads.make(id));
            move || publisher.publish(&KEY, event)
        };
        let (mut new, _, _) = race3(
            move || {
                drop(reader);
                new.polled(1)
            },
            publish(1),
            publish(2),
        );
        new.judge();
        assert_eq!(new.told.seqs, [1, 2]);
        assert_eq!(hub.stats().empty_wakes, 0);
        let Sleeper { reader, alarm: other, .. } = new;
        drop(reader);
        assert_eq!((alarm.copies(), other.copies()), (0, 0), "wakers");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// The task that polls is another one now; the last one to poll is the one to be woken.
#[test]
fn poll_with_another_waker_during_a_fan_out() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let old = std::mem::replace(&mut sleeper.alarm, Alarm::new());
        let events = [payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || sleeper.polled(2),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(&[1, 2]);
        assert!(old.rings() <= 1, "{} wakes of one wait", old.rings());
        let Sleeper { reader, alarm, .. } = sleeper;
        drop(reader);
        assert_eq!((old.copies(), alarm.copies()), (0, 0), "wakers");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// A cancelled wait leaves no waker, loses no event, and does not spoil the next wait.
#[test]
fn cancelled_recv_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        let event = payloads.make(1);
        let (mut sleeper, publisher) = race(
            move || {
                let _: Poll<()> = sleeper.poll_and_cancel();
                sleeper.polled(1)
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.told.seqs, [1]);
        assert_eq!(hub.stats().empty_wakes, 0);
        let Sleeper { reader, alarm, .. } = sleeper;
        drop(reader);
        assert_eq!(alarm.copies(), 0, "wakers");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// One of two cancels and goes: the other's wake is its own.
#[test]
fn neighbour_cancels_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        // The seat is taken; the two share a row.
        let mut others = Vec::new();
        for _ in 0..3 {
            let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
            assert!(sleeper.poll().is_pending(), "nothing yet");
            others.push(sleeper);
        }
        let [other, goes, mut stays] = <[Sleeper; 3]>::try_from(others).expect("three");
        let event = payloads.make(1);
        let ((mut other, mut stays), publisher) = race(
            move || {
                drop(goes);
                let _: Poll<()> = stays.poll();
                (other, stays)
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        for sleeper in [&mut other, &mut stays] {
            sleeper.judge();
            assert_eq!(sleeper.told.seqs, [1]);
        }
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, other, stays, hub));
        payloads.assert_all_dropped();
    });
}
