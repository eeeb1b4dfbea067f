//! Whoever resumes from a position that the hub or a reader told loses nothing without a gap, whenever it was asked for.

use keywake::{CloseReason, Hub, Publisher, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, Told, builder, model, position, race, race3};

fn publish_all(mut publisher: Publisher<u8, Payload>, events: Vec<Payload>) -> Publisher<u8, Payload> {
    for event in events {
        publisher.publish(&KEY, event);
    }
    publisher
}

/// All of `published` up to the position was told, and from there on all is told to who resumes.
#[track_caller]
fn judge(hub: &Hub<u8, Payload>, told: &Told, position: keywake::Position, published: &[u64]) {
    let before: Vec<u64> = published.iter().copied().filter(|seq| *seq <= position.seq()).collect();
    told.assert_no_silent_hole_up_to(&before);
    let mut resumed = hub.subscribe_from(&KEY, Start::After(position));
    let mut later = Told::since(position.seq());
    later.take_all(&mut resumed);
    later.assert_no_silent_hole(published);
}

#[test]
fn position_of_the_hub_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let other = hub.clone();
        let events = vec![payloads.make(1), payloads.make(2)];
        let (mut sleeper, publisher) = race(
            move || Sleeper::new(other.subscribe_from(&KEY, Start::After(other.position()))),
            move || publish_all(publisher, events),
        );
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(&[1, 2]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn position_of_a_new_reader_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let other = hub.clone();
        let events = vec![payloads.make(1), payloads.make(2)];
        let ((mut reader, position), publisher) = race(
            move || {
                let reader = other.subscribe(&KEY);
                let position = reader.position();
                (reader, position)
            },
            move || publish_all(publisher, events),
        );
        let mut told = Told::since(position.seq());
        told.take_all(&mut reader);
        told.assert_no_silent_hole(&[1, 2]);
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}

/// The topic is there already, and its other reader leaves.
#[test]
fn position_of_a_new_reader_against_publish_against_removal() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let first = hub.subscribe(&KEY);
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        let (other, event) = (hub.clone(), payloads.make(2));
        let ((mut reader, position), (), publisher) = race3(
            move || {
                let reader = other.subscribe(&KEY);
                let position = reader.position();
                (reader, position)
            },
            move || drop(first),
            move || publish_all(publisher, vec![event]),
        );
        let mut told = Told::since(position.seq());
        told.take_all(&mut reader);
        told.assert_no_silent_hole(&[1, 2]);
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn position_of_a_reader_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let events = vec![payloads.make(1), payloads.make(2)];
        let ((told, reader, first, second), publisher) = race(
            move || {
                let first = (sleeper.told.clone(), sleeper.reader.position());
                let sleeper = sleeper.polled(1);
                let second = sleeper.reader.position();
                (sleeper.told, sleeper.reader, first, second)
            },
            move || publish_all(publisher, events),
        );
        assert!(first.1 <= second, "it goes back from {first:?} to {second}");
        judge(&hub, &first.0, first.1, &[1, 2]);
        judge(&hub, &told, second, &[1, 2]);
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}

/// It leaves, with its position in hand, and comes back; the topic goes meanwhile.
#[test]
fn leaving_and_coming_back_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        let (other, event) = (hub.clone(), payloads.make(2));
        let ((told, position, mut again), publisher) = race(
            move || {
                let sleeper = sleeper.polled(2);
                let position = sleeper.reader.position();
                drop(sleeper.reader);
                (sleeper.told, position, other.subscribe_from(&KEY, Start::After(position)))
            },
            move || publish_all(publisher, vec![event]),
        );
        let mut later = Told::since(position.seq());
        later.take_all(&mut again);
        later.assert_no_silent_hole(&[1, 2]);
        judge(&hub, &told, position, &[1, 2]);
        drop((publisher, again, hub));
        payloads.assert_all_dropped();
    });
}

/// A reader that was closed must not claim what was published later, to another topic or to none.
#[test]
fn position_of_a_closed_reader_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        let publisher = publish_all(publisher, vec![payloads.make(1)]);
        let (closing, event) = (hub.clone(), payloads.make(2));
        let (position, _, publisher) = race3(
            move || {
                sleeper.told.take_all(&mut sleeper.reader);
                let position = sleeper.reader.position();
                (sleeper, position)
            },
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || publish_all(publisher, vec![event]),
        );
        let (mut sleeper, position) = position;
        judge(&hub, &sleeper.told, position, &[1, 2]);
        sleeper.told.take_all(&mut sleeper.reader);
        judge(&hub, &sleeper.told, sleeper.reader.position(), &[1, 2]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// Another key's events move the position of a reader that has read all, and never past what it has not.
#[test]
fn position_moves_with_other_keys() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let reader = hub.subscribe(&KEY);
        let events = [(2_u8, payloads.make(1)), (KEY, payloads.make(2)), (2_u8, payloads.make(3))];
        let ((reader, position), publisher) = race(
            move || {
                let position = reader.position();
                (reader, position)
            },
            move || {
                for (key, event) in events {
                    publisher.publish(&key, event);
                }
                publisher
            },
        );
        assert!(position.seq() < 2, "{position} claims 2, which is unread");
        assert_eq!(reader.position().seq(), 0, "2 is unread");
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}

/// Events become readable one by one, and the hub's position behind them: a reader may hold an event whose number the hub does not
/// tell yet, and must not be told that it is ahead.
#[test]
fn event_just_received_is_not_ahead() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        let other = hub.clone();
        let events = vec![payloads.make(1), payloads.make(2)];
        let ((told, mut again), publisher) = race(
            move || {
                sleeper.told.take_all(&mut sleeper.reader);
                let last = position(sleeper.told.seqs.last().copied().unwrap_or(0));
                (sleeper, Sleeper::new(other.subscribe_from(&KEY, Start::After(last))))
            },
            move || publish_all(publisher, events),
        );
        again.judge();
        again.told.assert_no_silent_hole(&[1, 2]);
        assert_eq!(again.told.gaps.len(), 0, "nothing was lost: {:?}", again.told);
        drop((publisher, told, again, hub));
        payloads.assert_all_dropped();
    });
}

/// A batch is one step for the hub's position, and many for its readers.
#[test]
fn positions_against_a_batch() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let other = hub.clone();
        let batch = [(KEY, payloads.make(1)), (2, payloads.make(2)), (KEY, payloads.make(3))];
        let ((mut sleeper, whole, told, first), publisher) = race(
            move || {
                let whole = other.position();
                let sleeper = sleeper.polled(1);
                let (told, first) = (sleeper.told.clone(), sleeper.reader.position());
                (sleeper, whole, told, first)
            },
            move || {
                publisher.publish_batch(batch);
                publisher
            },
        );
        assert!([0, 3].contains(&whole.seq()), "{whole} is in the middle of a batch");
        judge(&hub, &told, first, &[1, 3]);
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, hub.stats().empty_wakes), (&[1, 3][..], 0));
        assert!(hub.stats().wakes <= 1, "one wake per batch");
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}
