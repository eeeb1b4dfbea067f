//! Cursors: what a position promises, and its text form.

use keywake::{Builder, ParsePositionError, Position, Start};

use crate::support::{assert_empty, drain, event, gap, next_event, next_gap};

#[test]
fn text_form_round_trips() {
    for (epoch, seq) in [(0, 0), (1, 1), (0xbeef, 42), (u64::MAX, Position::MAX_SEQ), (1 << 63, 7)] {
        let position = Position::new(epoch, seq);
        assert_eq!(position.to_string(), format!("v1.{epoch:x}.{seq}"));
        assert_eq!(position.to_string().parse(), Ok(position));
        assert_eq!((position.epoch(), position.seq()), (epoch, seq));
    }
}

#[test]
fn bad_texts_are_typed_errors() {
    use ParsePositionError::{Epoch, Seq, Shape, Version};
    for (text, error) in [
        ("", Shape),
        ("v1", Shape),
        ("v1.1", Shape),
        ("v1.1.1.1", Shape),
        ("1.1.1", Shape),
        ("V1.1.1", Shape),
        (" v1.1.1", Shape),
        ("v.1.1", Shape),
        ("v2.1.1", Version),
        ("v10.anything", Version),
        ("v1..1", Epoch),
        ("v1.01.1", Epoch),
        ("v1.BEEF.1", Epoch),
        ("v1.-1.1", Epoch),
        ("v1.+1.1", Epoch),
        ("v1.0x1.1", Epoch),
        ("v1.10000000000000000.1", Epoch),
        ("v1.1.", Seq),
        ("v1.1.01", Seq),
        ("v1.1.+1", Seq),
        ("v1.1.-1", Seq),
        ("v1.1.1 ", Seq),
        ("v1.1.a", Seq),
        ("v1.1.9223372036854775808", Seq),
        ("v1.1.99999999999999999999999", Seq),
        ("v1.1.\u{661}", Seq),
    ] {
        assert_eq!(text.parse::<Position>(), Err(error), "{text:?}");
    }
}

#[test]
fn positions_compare_within_an_epoch_only() {
    assert!(Position::new(1, 5) < Position::new(1, 6));
    assert_eq!(Position::new(1, 5).partial_cmp(&Position::new(2, 5)), None);
    assert_ne!(Position::new(1, 5), Position::new(2, 5));
    assert_eq!(Position::new(1, u64::MAX).seq(), Position::MAX_SEQ);
}

#[test]
fn hub_and_publisher_agree_on_the_position() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).start_seq(100).build();
    assert_eq!(hub.position(), Position::new(9, 100));
    assert_eq!(publisher.position(), hub.position());
    assert_eq!(publisher.publish("a", 1).seq, 101);
    assert_eq!(hub.position(), Position::new(9, 101));
    assert_eq!(publisher.position(), hub.position());
    assert_eq!(publisher.hub().position(), hub.position());
}

#[test]
fn hubs_get_epochs_of_their_own() {
    let epochs: Vec<u64> = (0..4).map(|_| keywake::hub::<u8, u8>().1.position().epoch()).collect();
    assert!(epochs.windows(2).all(|pair| pair[0] != pair[1]), "{epochs:?}");
}

#[test]
fn event_knows_its_position() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).start_seq(5).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    let got = next_event(&mut sub);
    assert_eq!((got.seq(), got.position()), (6, Position::new(9, 6)));
}

#[test]
fn caught_up_readers_position_moves_with_the_hub() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    assert_eq!(sub.position().seq(), 1);
    for value in 2..=50 {
        publisher.publish("b", value);
        assert_eq!(sub.position(), Position::new(9, value));
    }
    publisher.publish("a", 51);
    assert!(sub.position().seq() < 51, "an event is unread");
    assert_eq!(drain(&mut sub), [51]);
    assert_eq!(sub.position().seq(), 51);
}

#[test]
fn position_before_the_first_read_is_safe_and_not_before_the_readers_start() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).build();
    publisher.publish("b", 1);
    let _keeps_the_topic = hub.subscribe("a");
    publisher.publish("a", 2);
    publisher.publish("b", 3);
    let sub = hub.subscribe("a");
    assert_eq!(sub.position(), Position::new(9, 3));
    publisher.publish("a", 4);
    publisher.publish("a", 5);
    // With something unread it is that of the key, not of the hub: the last event before the reader came.
    assert_eq!(sub.position(), Position::new(9, 2));
    assert_eq!(drain(&mut hub.subscribe_from("a", Start::After(sub.position()))), [4, 5]);
}

#[test]
fn resuming_after_any_position_delivers_exactly_the_rest() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).build();
    let mut sub = hub.subscribe("a");
    let mut of_key = Vec::new();
    for value in 1..=300_u64 {
        let key = if value % 7 < 3 { "a" } else { "b" };
        publisher.publish(key, value);
        if key == "a" {
            of_key.push(value);
        }
    }
    for read in 0..=of_key.len() {
        let mut resumed = hub.subscribe_from("a", Start::After(sub.position()));
        assert_eq!(drain(&mut resumed), &of_key[read..], "after {read} events");
        if read < of_key.len() {
            assert_eq!(next_event(&mut sub).seq(), of_key[read]);
        }
    }
}

#[test]
fn resuming_after_a_gap_neither_repeats_it_nor_skips_an_event() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).retain_events(10).build();
    let mut sub = hub.subscribe("a");
    for value in 1..=1_000 {
        publisher.publish("a", value);
    }
    // Before the gap is told, the position is still in front of it.
    assert_eq!(sub.position().seq(), 0);
    assert_eq!(next_gap(&mut hub.subscribe_from("a", Start::After(sub.position()))).from, 0);
    let told = next_gap(&mut sub);
    assert_eq!(sub.position().seq(), told.to);
    let mut resumed = hub.subscribe_from("a", Start::After(sub.position()));
    assert_eq!(drain(&mut resumed), (told.to + 1..=1_000).collect::<Vec<_>>());
}

#[test]
fn position_of_a_reader_from_the_oldest_is_safe_before_it_has_read() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).retain_events(10).build();
    let _keeper = hub.subscribe("a");
    for value in 1..=500 {
        publisher.publish("a", value);
    }
    let mut sub = hub.subscribe_from("a", Start::Oldest);
    let mut resumed = hub.subscribe_from("a", Start::After(sub.position()));
    let expected = drain(&mut sub);
    assert!(expected.len() >= 10);
    // The resumed one may be told a gap in front, never less than the first one saw.
    let mut seqs = Vec::new();
    while let Ok(received) = resumed.try_recv() {
        match received {
            keywake::Received::Event(event) => seqs.push(event.seq()),
            other => assert!(gap(other).to < expected[0]),
        }
    }
    assert_eq!(seqs, expected);
}

#[test]
fn position_after_latest_does_not_promise_the_skipped() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).build();
    let _keeper = hub.subscribe("a");
    for value in 1..=5 {
        publisher.publish("a", value);
    }
    let mut sub = hub.subscribe_from("a", Start::Latest);
    assert!(sub.position().seq() < 5);
    assert_eq!(next_event(&mut sub).seq(), 5);
    assert_eq!(sub.position().seq(), 5);
}

#[test]
fn position_outlives_the_text_and_the_subscription() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build();
    let _keeper = hub.subscribe("a");
    let mut sub = hub.subscribe("a");
    for value in 0..10 {
        publisher.publish("a", value);
    }
    for _ in 0..4 {
        next_event(&mut sub);
    }
    let text = sub.position().to_string();
    drop(sub);
    let mut back = hub.subscribe_from("a", Start::After(text.parse().expect("our own text")));
    for value in 4..10 {
        assert_eq!(*event(back.try_recv().expect("there")), value);
    }
    assert_empty(&mut back);
}

#[test]
fn position_taken_before_a_loss_is_told_leads_to_its_telling() {
    for came_with in [Position::new(8, 2), Position::new(9, 1_000), Position::new(9, 1)] {
        let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).build();
        for value in 1..=3 {
            publisher.publish("a", value);
        }
        let _keeper = hub.subscribe("a");
        let sub = hub.subscribe_from("a", Start::After(came_with));
        // The client goes away before it read anything, and comes back from where it stands.
        let mut back = hub.subscribe_from("a", Start::After(sub.position()));
        let first = back.try_recv().unwrap_or_else(|error| panic!("no word of a loss after {came_with}: {error}"));
        assert_eq!(gap(first).cause, gap_of(sub).cause, "after {came_with}");
    }
}

fn gap_of(mut sub: keywake::Subscription<String, u64>) -> keywake::Gap {
    next_gap(&mut sub)
}

#[test]
fn position_of_a_refused_reader_is_the_one_it_came_with() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(9).max_topics(1).build();
    let _keeper = hub.subscribe("a");
    for value in 1..=5 {
        publisher.publish("b", value);
    }
    for came_with in [Position::new(9, 2), Position::new(9, 1_000), Position::new(8, 2)] {
        let sub = hub.subscribe_from("b", Start::After(came_with));
        assert_eq!(sub.position(), came_with, "it must be able to come back elsewhere or later");
    }
}
