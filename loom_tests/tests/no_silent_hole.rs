//! Whatever a resuming reader meets (a publish, the topic's end, its making): each event after its position is delivered, or a gap
//! says that it may be lost.

use keywake::{Builder, CloseReason, Hub, Publisher, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, Told, builder, model, position, race, race3};

const OTHER: u8 = 2;

fn resume(hub: &Hub<u8, Payload>, key: u8, seq: u64) -> Sleeper {
    Sleeper::new(hub.subscribe_from(&key, Start::After(position(seq))))
}

/// What is remembered of a key without a topic: its own last seq, or the stripe's.
#[derive(Clone, Copy)]
enum Memory {
    Stripe,
    Tombstone,
}

impl Memory {
    fn builder(self) -> Builder<u8, Payload> {
        match self {
            Self::Stripe => builder().max_tombstones(0),
            Self::Tombstone => builder(),
        }
    }
}

/// A publisher that has published 1 to a topic with a reader.
fn begun(memory: Memory, payloads: &Payloads) -> (Publisher<u8, Payload>, Hub<u8, Payload>, Sleeper) {
    let (mut publisher, hub) = memory.builder().build();
    let reader = Sleeper::new(hub.subscribe(&KEY));
    assert_eq!(publisher.publish(&KEY, payloads.make(1)).readers, 1);
    (publisher, hub, reader)
}

/// A last event must reach the reader; then it is asked for holes.
fn judge(mut publisher: Publisher<u8, Payload>, hub: Hub<u8, Payload>, mut reader: Sleeper, payloads: &Payloads, seqs: u64) {
    assert_eq!(publisher.publish(&KEY, payloads.make(seqs)).seq, seqs);
    reader.judge();
    let published: Vec<u64> = (1..=seqs).collect();
    reader.told.assert_no_silent_hole(&published);
    reader.told.assert_gaps_exact(&published);
    assert_eq!(reader.told.seqs.last(), Some(&seqs), "the last one is delivered: {:?}", reader.told);
    drop((publisher, reader, hub));
    payloads.assert_all_dropped();
}

/// The topic is gone: the reader makes it anew while the writer finds that there is none.
fn making_against_publish(memory: Memory) {
    model(move || {
        let payloads = Payloads::new();
        let (mut publisher, hub, first) = begun(memory, &payloads);
        drop(first);
        let (other, event) = (hub.clone(), payloads.make(2));
        let (reader, publisher) = race(
            move || resume(&other, KEY, 1),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        judge(publisher, hub, reader, &payloads, 3);
    });
}

#[test]
fn making_against_publish_with_a_stripe() {
    making_against_publish(Memory::Stripe);
}

#[test]
fn making_against_publish_with_a_tombstone() {
    making_against_publish(Memory::Tombstone);
}

/// The last reader leaves, an event is on its way, and another reader comes back.
fn removal_against_publish_against_resume(memory: Memory) {
    model(move || {
        let payloads = Payloads::new();
        let (mut publisher, hub, first) = begun(memory, &payloads);
        let (other, event) = (hub.clone(), payloads.make(2));
        let (reader, (), publisher) = race3(
            move || resume(&other, KEY, 0),
            move || drop(first),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        judge(publisher, hub, reader, &payloads, 3);
    });
}

#[test]
fn removal_against_publish_against_resume_with_a_stripe() {
    removal_against_publish_against_resume(Memory::Stripe);
}

#[test]
fn removal_against_publish_against_resume_with_a_tombstone() {
    removal_against_publish_against_resume(Memory::Tombstone);
}

/// The key is closed under its reader, an event is on its way, and another reader comes back.
fn close_against_publish_against_resume(memory: Memory) {
    model(move || {
        let payloads = Payloads::new();
        let (mut publisher, hub, mut first) = begun(memory, &payloads);
        let (closing, other, event) = (hub.clone(), hub.clone(), payloads.make(2));
        let (reader, _, publisher) = race3(
            move || resume(&other, KEY, 0),
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        first.judge();
        assert_eq!(first.told.end, Some(CloseReason::KeyClosed));
        let delivered = first.told.seqs.clone();
        drop(first);
        let mut reader = reader;
        reader.judge();
        if reader.told.end.is_some() {
            // It came before the close, and read the old topic.
            assert_eq!(reader.told.seqs, delivered);
            drop(reader);
            judge(publisher, hub.clone(), resume(&hub, KEY, 0), &payloads, 3);
        } else {
            assert!(reader.told.seqs.iter().all(|seq| !delivered.contains(seq)), "given again: {:?}", reader.told);
            judge(publisher, hub, reader, &payloads, 3);
        }
    });
}

#[test]
fn close_against_publish_against_resume_with_a_stripe() {
    close_against_publish_against_resume(Memory::Stripe);
}

#[test]
fn close_against_publish_against_resume_with_a_tombstone() {
    close_against_publish_against_resume(Memory::Tombstone);
}

/// Nothing was ever published or read.
#[test]
fn first_subscribe_against_two_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (other, events) = (hub.clone(), [payloads.make(1), payloads.make(2)]);
        let (reader, publisher) = race(
            move || resume(&other, KEY, 0),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        judge(publisher, hub, reader, &payloads, 3);
    });
}

/// A writer that looks into a shard for one newborn must take over the others too.
#[test]
fn two_newborns_of_one_shard() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (other, events) = (hub.clone(), [(OTHER, payloads.make(1)), (KEY, payloads.make(2))]);
        let ((mut reader, mut second), publisher) = race(
            move || (resume(&other, KEY, 0), resume(&other, OTHER, 0)),
            move || {
                for (key, event) in events {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        for (sleeper, seq) in [(&mut reader, 2), (&mut second, 1)] {
            sleeper.judge();
            sleeper.told.assert_no_silent_hole(&[seq]);
        }
        let mut publisher = publisher;
        for (key, sleeper) in [(KEY, &mut reader), (OTHER, &mut second)] {
            let published = publisher.publish(&key, payloads.make(3));
            assert_eq!(published.readers, 1, "an orphan");
            sleeper.judge();
            assert_eq!(sleeper.told.seqs.last(), Some(&published.seq));
        }
        drop((publisher, reader, second, hub));
        payloads.assert_all_dropped();
    });
}

/// There is room for one tombstone: the end of another topic folds it into the stripe while the writer notes an event in it.
#[test]
fn tombstone_folded_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().max_tombstones(1).build();
        let other = hub.subscribe(&OTHER);
        publisher.publish(&OTHER, payloads.make(1));
        let first = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(2));
        drop(first);
        let (again, event) = (hub.clone(), payloads.make(3));
        let (reader, publisher) = race(
            move || {
                drop(other);
                resume(&again, KEY, 2)
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        let mut reader = reader;
        reader.judge();
        reader.told.assert_no_silent_hole(&[2, 3]);
        // A key's exact memory is not what another key's does to it: a reader of the other, back at its own last event.
        let mut other = Told::since(1);
        other.take_all(&mut hub.subscribe_from(&OTHER, Start::After(position(1))));
        assert_eq!(other.seqs, [0_u64; 0]);
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}
