//! Hubs that take the numbers of a source with a log of its own.

use keywake::{Builder, CloseReason, GapCause, Hub, Position, PublishAtError, Received, SeqError, SourcePublisher, Start};

use crate::support::{CountingWaker, assert_closed, assert_empty, drain, next_event, next_gap, park};

fn source_hub() -> (SourcePublisher<String, u64>, Hub<String, u64>) {
    Builder::new().epoch(7).build_from_source()
}

#[test]
fn events_carry_the_numbers_of_the_source() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    for seq in [1, 2, 10, 1_000_000, Position::MAX_SEQ] {
        let published = publisher.publish_at(seq, "a", seq).expect("rising");
        assert_eq!((published.seq, published.readers), (seq, 1));
        assert_eq!(hub.position(), Position::new(7, seq));
        assert_eq!(publisher.position(), hub.position());
    }
    // Numbers that were never published are no gap: the source just does not use them.
    assert_eq!(drain(&mut sub), [1, 2, 10, 1_000_000, Position::MAX_SEQ]);
}

#[test]
fn number_that_does_not_rise_gives_the_event_back() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    publisher.publish_at(10, "a", 1).expect("rising");
    for seq in [0, 9, 10] {
        let PublishAtError { event, error } = publisher.publish_at(seq, "a", 77).expect_err("not rising");
        assert_eq!((event, error), (77, SeqError::NotRising { seq, last: 10 }));
    }
    let PublishAtError { event, error } = publisher.publish_owned_at(3, "a".to_owned(), 78).expect_err("not rising");
    assert_eq!((event, error), (78, SeqError::NotRising { seq: 3, last: 10 }));
    assert_eq!(drain(&mut sub), [10]);
    assert_eq!(hub.position().seq(), 10);
    // An error costs nothing: the next right number goes through.
    publisher.publish_owned_at(11, "a".to_owned(), 2).expect("rising");
    assert_eq!(drain(&mut sub), [11]);
}

#[test]
fn number_above_the_highest_is_refused() {
    let (mut publisher, hub) = source_hub();
    for seq in [Position::MAX_SEQ + 1, u64::MAX] {
        assert_eq!(publisher.publish_at(seq, "a", 1).expect_err("too large").error, SeqError::TooLarge { seq });
        assert_eq!(publisher.advance_to(seq), Err(SeqError::TooLarge { seq }));
    }
    assert_eq!(hub.position().seq(), 0);
    publisher.advance_to(Position::MAX_SEQ).expect("the highest is a number");
    assert!(publisher.publish_at(Position::MAX_SEQ, "a", 1).is_err());
}

#[test]
fn start_seq_is_the_last_number_already_seen() {
    let (mut publisher, _hub) = Builder::<String, u64>::new().start_seq(50).build_from_source();
    assert_eq!(publisher.publish_at(50, "a", 1).expect_err("seen").error, SeqError::NotRising { seq: 50, last: 50 });
    publisher.publish_at(51, "a", 1).expect("rising");
}

#[test]
fn bookmark_moves_caught_up_readers_without_an_event_or_a_wake() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    publisher.publish_at(5, "a", 1).expect("rising");
    assert_eq!(drain(&mut sub), [5]);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.advance_to(100).expect("rising");
    assert_eq!(sub.position(), Position::new(7, 100));
    assert_eq!(waker.wakes(), 0);
    assert_empty(&mut sub);
    assert_eq!(publisher.advance_to(99), Err(SeqError::NotRising { seq: 99, last: 100 }));
    assert!(publisher.publish_at(100, "a", 2).is_err());
    publisher.publish_at(101, "a", 2).expect("rising");
    assert_eq!(waker.wakes(), 1);
    assert_eq!(drain(&mut sub), [101]);
}

#[test]
fn bookmark_is_no_loss_for_a_reader_that_comes_back() {
    let (mut publisher, hub) = source_hub();
    publisher.advance_to(100).expect("rising");
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 40)));
    assert_empty(&mut sub);
    publisher.publish_at(101, "a", 1).expect("rising");
    assert_eq!(drain(&mut sub), [101]);
}

#[test]
fn position_from_the_future_is_waited_for() {
    let (mut publisher, hub) = source_hub();
    publisher.publish_at(90, "a", 0).expect("rising");
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 100)));
    assert_empty(&mut sub);
    for seq in 91..=100 {
        publisher.publish_at(seq, "a", seq).expect("rising");
        assert_empty(&mut sub);
        assert_eq!(sub.position(), Position::new(7, 100), "it has seen all up to 100 elsewhere");
    }
    publisher.publish_at(101, "a", 101).expect("rising");
    assert_eq!(drain(&mut sub), [101]);
    assert_eq!(sub.position().seq(), 101);
}

#[test]
fn parked_reader_from_the_future_is_not_woken_for_what_it_has_seen() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 3)));
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish_at(1, "a", 1).expect("rising");
    // One wake may be given for an event that is then skipped, but then the reader parks again and the next counts.
    if waker.wakes() > 0 {
        park(&mut sub, &waker);
    }
    let before = waker.wakes();
    publisher.publish_at(4, "a", 4).expect("rising");
    assert_eq!(waker.wakes(), before + 1);
    assert_eq!(drain(&mut sub), [4]);
}

#[test]
fn loss_at_the_source_is_told_to_every_reader() {
    let (mut publisher, hub) = source_hub();
    let (mut a, mut b) = (hub.subscribe("a"), hub.subscribe("b"));
    publisher.publish_at(3, "a", 3).expect("rising");
    assert_eq!(drain(&mut a), [3]);
    let waker = CountingWaker::new();
    park(&mut a, &waker);
    publisher.lost(5..=9, GapCause::Source).expect("rising");
    assert_eq!(waker.wakes(), 1, "a loss is news");
    assert_eq!(hub.position(), Position::new(7, 9));
    for sub in [&mut a, &mut b] {
        let gap = next_gap(sub);
        assert_eq!((gap.to, gap.cause, gap.missed), (9, GapCause::Source, None));
        assert!(gap.from <= 4, "5 is lost: {gap:?}");
        assert_empty(sub);
        assert_eq!(sub.position(), Position::new(7, 9));
    }
    assert!(publisher.publish_at(9, "a", 9).is_err());
    publisher.publish_at(10, "b", 10).expect("rising");
    assert_eq!(drain(&mut b), [10]);
    assert_empty(&mut a);
}

#[test]
fn loss_at_the_source_comes_in_its_place_between_the_events() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    publisher.publish_at(1, "a", 1).expect("rising");
    publisher.publish_at(2, "a", 2).expect("rising");
    publisher.lost(3..=4, GapCause::Source).expect("rising");
    publisher.publish_at(5, "a", 5).expect("rising");
    assert_eq!(next_event(&mut sub).seq(), 1);
    assert_eq!(next_event(&mut sub).seq(), 2);
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to), (2, 4));
    assert_eq!(next_event(&mut sub).seq(), 5);
    assert_empty(&mut sub);
}

#[test]
fn loss_at_the_source_is_told_to_readers_that_come_back_from_before_it() {
    let (mut publisher, hub) = source_hub();
    publisher.publish_at(2, "a", 2).expect("rising");
    publisher.lost(5..=9, GapCause::Source).expect("rising");
    for (key, after) in [("a", 2), ("a", 7), ("never seen", 0), ("never seen", 8)] {
        let gap = next_gap(&mut hub.subscribe_from(key, Start::After(Position::new(7, after))));
        assert!(gap.from == after && gap.to == 9, "{key} after {after}: {gap:?}");
    }
    for key in ["a", "never seen"] {
        assert_empty(&mut hub.subscribe_from(key, Start::After(Position::new(7, 9))));
        assert_empty(&mut hub.subscribe(key));
    }
}

#[test]
fn reader_from_before_a_loss_at_the_source_is_told_its_cause_also_where_the_key_has_no_topic() {
    for cause in [GapCause::Source, GapCause::Conflated, GapCause::Retention] {
        let (mut publisher, hub) = source_hub();
        let gone = hub.subscribe("gone");
        publisher.publish_at(2, "gone", 2).expect("rising");
        drop(gone);
        let closed = hub.subscribe("closed");
        publisher.publish_at(3, "closed", 3).expect("rising");
        hub.close("closed", CloseReason::KeyClosed);
        drop(closed);
        publisher.lost(5..=9, cause).expect("rising");
        for key in ["gone", "closed", "never seen"] {
            for after in [3, 4, 7, 8] {
                let mut back = hub.subscribe_from(key, Start::After(Position::new(7, after)));
                let gap = next_gap(&mut back);
                assert_eq!((gap.from, gap.to, gap.cause), (after, 9, cause), "{key} after {after}");
                assert_empty(&mut back);
            }
            assert_empty(&mut hub.subscribe_from(key, Start::After(Position::new(7, 9))));
        }
    }
}

#[test]
fn loss_needs_rising_numbers_too() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    publisher.publish_at(10, "a", 1).expect("rising");
    assert_eq!(drain(&mut sub), [10]);
    assert!(matches!(publisher.lost(2..=5, GapCause::Source), Err(SeqError::NotRising { .. })));
    assert!(matches!(publisher.lost(20..=u64::MAX, GapCause::Source), Err(SeqError::TooLarge { .. })));
    assert_empty(&mut sub);
    assert_eq!(hub.position().seq(), 10);
}

#[test]
fn dropping_the_source_publisher_closes_the_hub() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe("a");
    publisher.publish_at(1, "a", 1).expect("rising");
    assert_eq!(publisher.hub().readers("a"), 1);
    drop(publisher);
    assert_eq!(drain(&mut sub), [1]);
    assert!(assert_closed(&mut sub).reason().may_resume());
}

#[test]
fn own_numbers_near_the_highest_do_not_overflow() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).start_seq(Position::MAX_SEQ - 3).build();
    let mut sub = hub.subscribe("a");
    for value in 0..3 {
        publisher.publish("a", value);
    }
    assert_eq!(hub.position().seq(), Position::MAX_SEQ);
    assert_eq!(drain(&mut sub).last(), Some(&Position::MAX_SEQ));
}

#[test]
fn gap_over_a_loss_of_the_source_does_not_claim_to_count_it() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_events(4).build_from_source();
    let mut sub = hub.subscribe("a");
    for round in 0..50 {
        let seq = round * 10;
        publisher.publish_at(seq + 1, "a", 0).expect("rising");
        publisher.lost(seq + 2..=seq + 9, GapCause::Source).expect("rising");
        publisher.publish_at(seq + 10, "a", 0).expect("rising");
    }
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.cause, gap.missed), (0, GapCause::Retention, None));
    // What is left is in order, with the losses in their places.
    let mut last = gap.to;
    while let Ok(received) = sub.try_recv() {
        match received {
            Received::Event(event) => {
                assert!(event.seq() > last);
                last = event.seq();
            }
            Received::Gap(gap) => {
                assert_eq!((gap.from % 10, gap.to % 10, gap.cause), (1, 9, GapCause::Source));
                assert!(gap.from >= last);
                last = gap.to;
            }
            _ => panic!("neither an event nor a gap"),
        }
    }
    assert_eq!(last, 500);
}

#[test]
fn latest_in_front_of_a_loss_of_the_source_is_the_newest_event() {
    let (mut publisher, hub) = source_hub();
    let _keeper = hub.subscribe("a");
    publisher.publish_at(1, "a", 1).expect("rising");
    publisher.publish_at(2, "a", 2).expect("rising");
    publisher.lost(3..=5, GapCause::Source).expect("rising");
    let mut sub = hub.subscribe_from("a", Start::Latest);
    assert_eq!(next_event(&mut sub).seq(), 2);
    assert_eq!(next_gap(&mut sub).to, 5);
    assert_empty(&mut sub);
}

#[test]
fn reader_ahead_of_its_source_is_told_only_what_it_has_not_seen() {
    let (mut publisher, hub) = source_hub();
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 20)));
    publisher.publish_at(5, "a", 5).expect("rising");
    publisher.lost(6..=9, GapCause::Source).expect("rising");
    assert_empty(&mut sub);
    assert_eq!(sub.position(), Position::new(7, 20));
    publisher.lost(15..=25, GapCause::Source).expect("rising");
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to), (20, 25));
    publisher.publish_at(26, "a", 26).expect("rising");
    assert_eq!(drain(&mut sub), [26]);
}
