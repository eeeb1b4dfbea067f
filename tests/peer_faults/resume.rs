//! Readers that come back with a position.

use std::time::Duration;

use keywake::{Builder, CloseReason, GapCause, Position, Start};

use crate::support::{assert_closed, assert_empty, drain, next_event, next_gap};

// consul (idle key, derived), k8s #100745, etcd #17507: a quiet key's reader could never resume.
#[test]
fn reader_of_an_idle_key_resumes_without_loss_however_busy_the_others_are() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).retain_events(4).build();
    let _keeper = hub.subscribe("idle");
    let mut sub = hub.subscribe("idle");
    publisher.publish("idle", 1);
    assert_eq!(drain(&mut sub), [1]);
    let _busy = hub.subscribe("busy");
    for round in 0..10 {
        for value in 0..1_000 {
            publisher.publish("busy", value);
        }
        let position = sub.position();
        assert_eq!(position, hub.position(), "a quiet reader must not carry an old number");
        drop(sub);
        sub = hub.subscribe_from("idle", Start::After(position));
        assert_empty(&mut sub);
        assert_eq!(sub.lag(), 0, "round {round}");
    }
    publisher.publish("idle", 2);
    assert_eq!(*next_event(&mut sub), 2);
}

// k8s #22024, #33648, prometheus #5853, #7102: "too old" was normal operation for whoever carried an old number.
#[test]
fn old_number_of_an_idle_key_is_not_too_old() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).retain_events(4).build();
    let _keeper = hub.subscribe("idle");
    publisher.publish("idle", 1);
    let _busy = hub.subscribe("busy");
    for value in 0..100_000 {
        publisher.publish("busy", value);
    }
    assert_empty(&mut hub.subscribe_from("idle", Start::After(Position::new(1, 1))));
}

// consul #12080's CanResume: resume worked only while another subscriber held the key.
#[test]
fn sole_reader_that_comes_back_resumes() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    for value in 2..50 {
        let position = sub.position();
        drop(sub);
        assert_eq!(hub.topics(), 0);
        sub = hub.subscribe_from("a", Start::After(position));
        assert_empty(&mut sub);
        publisher.publish("a", value);
        assert_eq!(drain(&mut sub), [value]);
    }
}

// The same with events meanwhile: kept idle they come, else their loss is told. (In a first draft this was a silent hole.)
#[test]
fn sole_reader_that_comes_back_late_gets_the_events_or_is_told() {
    for idle in [Duration::ZERO, Duration::from_secs(3_600)] {
        let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).keep_idle(idle).build();
        let mut sub = hub.subscribe("a");
        publisher.publish("a", 1);
        publisher.publish("a", 2);
        // Event 2 is in the topic and unread when its reader leaves.
        assert_eq!(next_event(&mut sub).seq(), 1);
        let position = sub.position();
        drop(sub);
        publisher.publish("a", 3);
        let mut sub = hub.subscribe_from("a", Start::After(position));
        if idle.is_zero() {
            let gap = next_gap(&mut sub);
            assert_eq!((gap.from, gap.to), (1, 3));
        } else {
            assert_eq!(drain(&mut sub), [2, 3]);
        }
        assert_empty(&mut sub);
    }
}

// consul #8323, #8354 (open), k8s #6770, #86430, #12673: after a restart old numbers looked valid, or all had to reset.
#[test]
fn position_of_an_earlier_life_is_recognised() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build();
    let _keeper = hub.subscribe("a");
    for value in 0..10 {
        publisher.publish("a", value);
    }
    let position = hub.position();
    drop((publisher, hub));

    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(2).build();
    let _keeper = hub.subscribe("a");
    for value in 0..20 {
        publisher.publish("a", value);
    }
    let mut sub = hub.subscribe_from("a", Start::After(position));
    assert_eq!(next_gap(&mut sub).cause, GapCause::OtherEpoch);
    assert_eq!(drain(&mut sub).len(), 20);

    // The same life, told to a hub that goes on where the first one stopped: nothing is reset.
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).start_seq(position.seq()).build();
    let mut sub = hub.subscribe_from("a", Start::After(position));
    assert_empty(&mut sub);
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [11]);
}

// A hub that goes on under a fixed epoch does not know what came before it: positions before its start are a loss.
#[test]
fn position_from_before_the_start_seq_is_not_taken_for_complete() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).start_seq(100).build();
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(1, 60)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to), (60, 100));
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [101]);
}

// etcd #20221, #15520, k8s "going back in time", consul (derived): a future number got old events, or nothing ever.
#[test]
fn reader_never_goes_back_in_time() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build();
    let _keeper = hub.subscribe("a");
    for value in 0..5 {
        publisher.publish("a", value);
    }
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(1, 1_000)));
    let gap = next_gap(&mut sub);
    assert_eq!(gap.cause, GapCause::Ahead);
    assert_empty(&mut sub);
    assert!(sub.position() <= hub.position());
    publisher.publish("a", 5);
    assert_eq!(drain(&mut sub), [6]);
}

#[test]
fn reader_ahead_of_a_lagging_replica_waits_and_gets_nothing_twice() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build_from_source();
    for seq in 1..=90 {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(1, 100)));
    for seq in 91..=110 {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    assert_eq!(drain(&mut sub), (101..=110).collect::<Vec<_>>());
}

// etcd #18089, #19251, WatchCompacted: an event was lost at the edge of what had just been compacted.
#[test]
fn every_position_around_the_edge_of_retention_is_answered_exactly() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).retain_events(10).build();
    let _keeper = hub.subscribe("a");
    for value in 1..=400 {
        publisher.publish("a", value);
        if value % 13 != 0 {
            continue;
        }
        let oldest = next_event(&mut hub.subscribe_from("a", Start::Oldest)).seq();
        for after in 0..=value {
            let mut sub = hub.subscribe_from("a", Start::After(Position::new(1, after)));
            if after + 1 < oldest {
                let gap = next_gap(&mut sub);
                assert_eq!((gap.from, gap.to), (after, oldest - 1));
                assert!(gap.missed.is_none_or(|missed| missed == oldest - 1 - after), "{gap:?}");
            }
            assert_eq!(drain(&mut sub), (oldest.max(after + 1)..=value).collect::<Vec<_>>());
        }
    }
}

// nomad (off by one, derived): a reader that stands on a just dropped event was told a loss though its next was there.
#[test]
fn reader_whose_last_event_was_just_dropped_loses_nothing() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
    let mut sub = hub.subscribe("a");
    let mut last = 0;
    for value in 0..1_000 {
        publisher.publish("a", value);
        let event = next_event(&mut sub);
        assert_eq!(event.seq(), last + 1);
        last = event.seq();
    }
    assert_eq!(hub.stats().gaps, 0);
}

// etcd #22294, #21174: a reader that was told a loss was told it again and again.
#[test]
fn loss_is_told_once() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
    let mut sub = hub.subscribe("a");
    for value in 0..200 {
        publisher.publish("a", value);
    }
    let gap = next_gap(&mut sub);
    assert_eq!(drain(&mut sub).first(), Some(&(gap.to + 1)));
    assert_empty(&mut sub);
    let mut again = hub.subscribe_from("a", Start::After(sub.position()));
    assert_empty(&mut again);
}

// etcd #15220, #15697: progress overtook events that were still to come, and whoever resumed from it skipped them.
#[test]
fn position_never_overtakes_an_event_that_is_still_to_be_delivered() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().build();
    let mut subs: Vec<_> = (0..4).map(|key| hub.subscribe(&key)).collect();
    let mut unread = [const { Vec::new() }; 4];
    let mut random = 9_u64;
    for value in 1..=20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = usize::try_from((random >> 33) % 4).expect("small");
        let seq = publisher.publish(&u64::try_from(key).expect("small"), value).seq;
        unread[key].push(seq);
        let reader = usize::try_from((random >> 40) % 4).expect("small");
        if random >> 63 == 0 || unread[reader].len() > 500 {
            assert_eq!(drain(&mut subs[reader]), unread[reader]);
            unread[reader].clear();
        }
        let position = subs[reader].position();
        match unread[reader].first() {
            Some(first) => assert!(position.seq() < *first),
            None => assert_eq!(position, hub.position()),
        }
    }
}

// etcd #9086, #9281, WatchRestore; consul RefreshTopic: after a reset of one key its readers resume with a word of it.
#[test]
fn reader_of_a_closed_key_that_comes_back_is_told_what_it_missed() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    assert_eq!(next_event(&mut sub).seq(), 1);
    let position = sub.position();
    hub.close("a", CloseReason::Other("restored".into()));
    // Comes back before it read the rest of the old topic: that rest is gone for the new one.
    let mut back = hub.subscribe_from("a", Start::After(position));
    assert_eq!(next_gap(&mut back).to, 2);
    // The old handle still had it.
    assert_eq!(drain(&mut sub), [2]);
    assert_closed(&mut sub);
    let mut caught_up = hub.subscribe_from("a", Start::After(sub.position()));
    assert_empty(&mut caught_up);
}

// k8s #129197, #138728, KEP-6268: a client too slow for its replay was killed, came back, replayed more, was killed.
#[test]
fn replay_longer_than_retention_makes_progress() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(64).build();
    let mut slow = hub.subscribe("a");
    let mut seen = 0;
    for round in 0..200 {
        // Always more than the reader takes.
        for value in 0..100 {
            publisher.publish("a", value);
        }
        for _ in 0..10 {
            match slow.try_recv().expect("there is always something") {
                keywake::Received::Event(event) => {
                    assert!(event.seq() > seen);
                    seen = event.seq();
                }
                keywake::Received::Gap(gap) => {
                    assert_eq!(gap.from, seen);
                    seen = gap.to;
                }
                _ => panic!("neither an event nor a gap"),
            }
        }
        // Behind by what is retained, and what came while it read the one block that it pins, ten events a round.
        assert!(seen + 64 + 64 + 700 >= (round + 1) * 100, "it falls behind further and further");
    }
}
