//! Retention takes blocks away under readers that are about to follow them: nothing is used after its end, nothing is lost without
//! a gap, and the gaps are exact.

use std::time::{Duration, Instant};

use keywake::{Publisher, Received, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, position, race, race3};

fn publish_all(mut publisher: Publisher<u8, Payload>, events: Vec<Payload>) -> Publisher<u8, Payload> {
    for event in events {
        publisher.publish(&KEY, event);
    }
    publisher
}

#[track_caller]
fn judge(sleepers: &mut [&mut Sleeper], published: &[u64]) {
    for sleeper in sleepers.iter_mut() {
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(published);
        sleeper.told.assert_gaps_exact(published);
    }
}

/// Blocks of one event, one block retained: each publish severs.
#[test]
fn one_reader_follows_while_three_are_published() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_events(1).build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        assert!(sleeper.poll().is_ready(), "the first event");
        let events = (2..=4).map(|id| payloads.make(id)).collect();
        let (mut sleeper, publisher) = race(move || sleeper.polled(2), move || publish_all(publisher, events));
        // What a reader that was just coming in held up goes now.
        let publisher = publish_all(publisher, vec![payloads.make(5)]);
        judge(&mut [&mut sleeper], &[1, 2, 3, 4, 5]);
        assert_eq!(payloads.alive(), 1, "the newest");
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn two_readers_follow_while_two_are_published() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_events(1).build();
        let mut sleepers = [Sleeper::new(hub.subscribe(&KEY)), Sleeper::new(hub.subscribe(&KEY))];
        publisher.publish(&KEY, payloads.make(1));
        for sleeper in &mut sleepers {
            assert!(sleeper.poll().is_ready(), "the first event");
        }
        let [mut one, mut two] = sleepers;
        let events = (2..=3).map(|id| payloads.make(id)).collect();
        let (mut one, mut two, publisher) = race3(
            move || {
                one.told.take_all(&mut one.reader);
                one
            },
            move || {
                two.told.take_all(&mut two.reader);
                two
            },
            move || publish_all(publisher, events),
        );
        judge(&mut [&mut one, &mut two], &[1, 2, 3]);
        drop((publisher, one, two, hub));
        payloads.assert_all_dropped();
    });
}

/// A reader that sleeps at an old block pins that one and none of those behind it, also if its neighbour was just following the
/// link when it was cut.
#[test]
fn sleeping_reader_pins_one_block() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let (mut sleeps, mut goes) = (Sleeper::new(hub.subscribe(&KEY)), Sleeper::new(hub.subscribe(&KEY)));
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        for sleeper in [&mut sleeps, &mut goes] {
            assert!(sleeper.poll().is_ready(), "the first event");
        }
        let events = vec![payloads.make(2), payloads.make(3)];
        let ((), publisher) = race(
            move || {
                goes.told.take_all(&mut goes.reader);
                drop(goes);
            },
            move || publish_all(publisher, events),
        );
        // What a reader that was just coming in held up goes now.
        let publisher = publish_all(publisher, vec![payloads.make(4)]);
        assert_eq!(payloads.alive(), 2, "the one it sleeps at, and the newest");
        judge(&mut [&mut sleeps], &[1, 2, 3, 4]);
        drop((publisher, sleeps, hub));
        payloads.assert_all_dropped();
    });
}

/// An event that is held stays readable when its block is evicted and its reader is gone.
#[test]
fn held_event_outlives_its_block_and_its_reader() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_events(1).build();
        let mut reader = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let events = vec![payloads.make(2), payloads.make(3)];
        let (held, publisher) = race(
            move || match reader.try_recv() {
                Ok(Received::Event(event)) => Some(event.clone()),
                _ => None,
            },
            move || publish_all(publisher, events),
        );
        drop((publisher, hub));
        if let Some(event) = held {
            assert_eq!(event.id(), event.seq());
        }
        payloads.assert_all_dropped();
    });
}

/// A sweep takes the writer's block away, with the writer before, in or behind it.
#[test]
fn sweep_of_the_newest_block_against_publish_and_recv() {
    model(|| {
        let payloads = Payloads::new();
        let age = Duration::from_secs(3_600);
        let (mut publisher, hub) = builder().retain_for(age).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let (sweeping, event) = (hub.clone(), payloads.make(2));
        let (sleeper, (), publisher) = race3(
            move || sleeper.polled(1),
            move || sweeping.sweep(Instant::now() + 2 * age),
            move || publish_all(publisher, vec![event]),
        );
        let mut sleeper = sleeper;
        judge(&mut [&mut sleeper], &[1, 2]);
        let publisher = publish_all(publisher, vec![payloads.make(3)]);
        judge(&mut [&mut sleeper], &[1, 2, 3]);
        assert_eq!(sleeper.told.seqs.last(), Some(&3), "the last one is delivered: {:?}", sleeper.told);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A sweep takes blocks away that the writer is just linking one after the other.
#[test]
fn sweep_of_linked_blocks_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let age = Duration::from_secs(3_600);
        let (publisher, hub) = builder().retain_events(1).retain_for(age).build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        let (sweeping, events) = (hub.clone(), vec![payloads.make(2), payloads.make(3)]);
        let ((), publisher) = race(move || sweeping.sweep(Instant::now() + 2 * age), move || publish_all(publisher, events));
        judge(&mut [&mut sleeper], &[1, 2, 3]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A sweep cuts the link that a reader is just following: the reader comes out before SEVERED shows, or after it, or was never in.
#[test]
fn sweep_of_a_link_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let age = Duration::from_secs(3_600);
        let (publisher, hub) = builder().retain_events(2).retain_for(age).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let publisher = publish_all(publisher, (1..=3).map(|id| payloads.make(id)).collect());
        let sleeper = sleeper.polled(2);
        assert_eq!(sleeper.told.seqs, [1, 2], "blocks of two events");
        let sweeping = hub.clone();
        let (mut sleeper, ()) = race(move || sleeper.polled(1), move || sweeping.sweep(Instant::now() + 2 * age));
        judge(&mut [&mut sleeper], &[1, 2, 3]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// Two sweeps at once, and a writer who starts a new chain between them.
#[test]
fn two_sweeps_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let age = Duration::from_secs(3_600);
        let (mut publisher, hub) = builder().retain_for(age).build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let sweep = || {
            let sweeping = hub.clone();
            move || sweeping.sweep(Instant::now() + 2 * age)
        };
        let event = payloads.make(2);
        let (publisher, (), ()) = race3(move || publish_all(publisher, vec![event]), sweep(), sweep());
        judge(&mut [&mut sleeper], &[1, 2]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A budget of bytes over the hub evicts a quiet key's only block.
#[test]
fn budget_of_one_event_against_recv() {
    model(|| {
        const WEIGHT: usize = 1 << 20;
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().retain_bytes(usize::MAX, |_| WEIGHT).retain_total_bytes(WEIGHT + WEIGHT / 2).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let events = vec![payloads.make(2), payloads.make(3)];
        let (mut sleeper, publisher) = race(move || sleeper.polled(2), move || publish_all(publisher, events));
        judge(&mut [&mut sleeper], &[1, 2, 3]);
        // The writer waits for no reader that is just coming in; it makes up for that with the next event.
        let publisher = publish_all(publisher, vec![payloads.make(4)]);
        assert!(hub.stats().retained_bytes < 2 * WEIGHT as u64, "the budget is kept: {:?}", hub.stats());
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A budget that holds nothing: the writer evicts the very block that it has just written into.
#[test]
fn budget_of_nothing_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_total_bytes(1).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let events = vec![payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(move || sleeper.polled(2), move || publish_all(publisher, events));
        judge(&mut [&mut sleeper], &[1, 2]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// Whoever comes in at the old end, or at the new one, while it moves.
#[test]
fn oldest_and_latest_against_eviction() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let first = hub.subscribe(&KEY);
        let publisher = publish_all(publisher, vec![payloads.make(1), payloads.make(2)]);
        let (one, two, event) = (hub.clone(), hub.clone(), payloads.make(3));
        let (mut oldest, mut latest, publisher) = race3(
            move || Sleeper::new(one.subscribe_from(&KEY, Start::Oldest)),
            move || Sleeper::new(two.subscribe_from(&KEY, Start::Latest)),
            move || publish_all(publisher, vec![event]),
        );
        judge(&mut [&mut oldest, &mut latest], &[1, 2, 3]);
        for sleeper in [&oldest, &latest] {
            assert_eq!(sleeper.told.seqs.last(), Some(&3), "the newest: {:?}", sleeper.told);
        }
        drop((publisher, first, oldest, latest, hub));
        payloads.assert_all_dropped();
    });
}

/// A reader begins just when an event is published, and then loses some: how many it is told to have lost counts from where it began.
#[test]
fn beginning_against_publish_and_then_eviction() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let first = hub.subscribe(&KEY);
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        let (other, event) = (hub.clone(), payloads.make(2));
        let (mut sleeper, publisher) =
            race(move || Sleeper::new(other.subscribe(&KEY)), move || publish_all(publisher, vec![event]));
        let publisher = publish_all(publisher, vec![payloads.make(3), payloads.make(4)]);
        judge(&mut [&mut sleeper], &[1, 2, 3, 4]);
        drop((publisher, first, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A reader resumes in the middle of the chain while its old end goes.
#[test]
fn resume_against_eviction() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let first = hub.subscribe(&KEY);
        let publisher = publish_all(publisher, vec![payloads.make(1), payloads.make(2)]);
        let (other, events) = (hub.clone(), vec![payloads.make(3), payloads.make(4)]);
        let (mut sleeper, publisher) = race(
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(position(1)))).polled(1),
            move || publish_all(publisher, events),
        );
        judge(&mut [&mut sleeper], &[1, 2, 3, 4]);
        drop((publisher, first, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The last references to a block are dropped at once: a reader's, those of its events, and the chain's.
#[test]
fn last_references_are_dropped_at_once() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let mut reader = hub.subscribe(&KEY);
        let publisher = publish_all(publisher, vec![payloads.make(1), payloads.make(2)]);
        let (Ok(Received::Event(one)), Ok(Received::Event(two))) = (reader.try_recv(), reader.try_recv()) else {
            panic!("two events")
        };
        let ((), (), id) = race3(
            move || drop((one, reader)),
            move || drop((publisher, hub)),
            move || {
                let copy = two.clone();
                drop(two);
                copy.id()
            },
        );
        assert_eq!(id, 2);
        payloads.assert_all_dropped();
    });
}
