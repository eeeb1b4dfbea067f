//! A reader that parks while an event is published is woken: at most once per wait, and never for nothing.

use keywake::{Hub, Subscription};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, race, race3};

/// Judged when all threads are joined.
#[track_caller]
fn judge(sleepers: &mut [&mut Sleeper], published: &[u64], hub: &Hub<u8, Payload>) {
    for sleeper in sleepers.iter_mut() {
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(published);
        assert!(sleeper.told.gaps.is_empty(), "nothing was lost: {:?}", sleeper.told);
    }
    assert_eq!(hub.stats().empty_wakes, 0, "a wake for nothing");
}

/// Readers that have been parked once and are not now: each keeps its slot.
fn awake(hub: &Hub<u8, Payload>, number: usize) -> Vec<Subscription<u8, Payload>> {
    let one = |_| {
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll_and_cancel().is_pending(), "there is nothing yet");
        assert_eq!(sleeper.alarm.copies(), 0, "a cancelled wait leaves no waker");
        sleeper.reader
    };
    (0..number).map(one).collect()
}

#[test]
fn one_reader_against_two_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
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
        judge(&mut [&mut sleeper], &[1, 2], &hub);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn two_readers_against_a_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (one, two) = (Sleeper::new(hub.subscribe(&KEY)), Sleeper::new(hub.subscribe(&KEY)));
        let event = payloads.make(1);
        let (mut one, mut two, publisher) = race3(
            move || one.polled(1),
            move || two.polled(1),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        judge(&mut [&mut one, &mut two], &[1], &hub);
        drop((publisher, one, two, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn one_reader_against_two_fan_outs_at_once() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let publish = |id| {
            let (publisher, event) = (publisher.clone(), payloads.make(id));
            move || publisher.publish(&KEY, event)
        };
        // The first finds it parked at the first event; it parks anew while that fan-out is at work, and the second comes between.
        let (first, mut sleeper, second) = race3(publish(1), move || sleeper.polled(2), publish(2));
        assert_eq!(first.seq + second.seq, 3, "two numbers");
        judge(&mut [&mut sleeper], &[1, 2], &hub);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The first three slots are given away: the next reader's first wait makes the first row that a summary tells of.
#[test]
fn first_wait_in_a_new_row() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let others = awake(&hub, 3);
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
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
        judge(&mut [&mut sleeper], &[1, 2], &hub);
        drop((publisher, sleeper, others, hub));
        payloads.assert_all_dropped();
    });
}

/// Slots 3 and 5 lie in two rows with one summary; who parks there has parked there before.
#[test]
fn two_rows_of_one_summary() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut others = awake(&hub, 6);
        // The fan-out of a first event leaves the summary empty.
        publisher.publish(&KEY, payloads.make(1));
        let mut sleepers = [3, 4].map(|index| others.remove(index)).map(Sleeper::new);
        for sleeper in &mut sleepers {
            assert!(sleeper.poll().is_ready(), "the first event");
        }
        let [one, two] = sleepers;
        let event = payloads.make(2);
        let (mut one, mut two, publisher) = race3(
            move || one.polled(1),
            move || two.polled(1),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        judge(&mut [&mut one, &mut two], &[1, 2], &hub);
        drop((publisher, one, two, others, hub));
        payloads.assert_all_dropped();
    });
}
