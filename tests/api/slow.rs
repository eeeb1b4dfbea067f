//! What a reader gets that does not keep up: a gap, the newest event only, or an end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use keywake::{Builder, CloseReason, Gap, GapCause, Hub, Position, Publisher, Received, Slow, Start};

use crate::support::{
    CountingWaker, Ledger, assert_closed, assert_empty, block_on, drain, next_event, next_gap, park, within_limit,
};

fn hub(retain: usize) -> (Publisher<String, u64>, Hub<String, u64>) {
    Builder::new().epoch(7).retain_events(retain).build()
}

fn publish(publisher: &mut Publisher<String, u64>, key: &str, values: std::ops::RangeInclusive<u64>) {
    for value in values {
        publisher.publish(key, value);
    }
}

#[track_caller]
fn assert_gap(gap: Gap, from: u64, to: u64, missed: Option<u64>, cause: GapCause) {
    assert_eq!((gap.from, gap.to, gap.missed, gap.cause), (from, to, missed, cause));
}

#[test]
fn gap_is_what_a_slow_reader_gets_unless_something_else_is_asked_for() {
    assert_eq!(Slow::default(), Slow::Gap);
    let (mut publisher, hub) = hub(4);
    let mut readers = [hub.subscribe("a"), hub.subscribe("a").slow(Slow::Gap)];
    publish(&mut publisher, "a", 1..=100);
    for sub in &mut readers {
        let gap = next_gap(sub);
        assert_gap(gap, 0, gap.to, Some(gap.to), GapCause::Retention);
        assert_eq!(drain(sub), (gap.to + 1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn latest_goes_to_the_newest_event_and_tells_how_many_it_skips() {
    // Within a block, over some, over many.
    for last in [2, 3, 4, 5, 20, 84, 85, 1_000] {
        let (mut publisher, hub) = hub(2_000);
        let mut sub = hub.subscribe("a").slow(Slow::Latest);
        publish(&mut publisher, "a", 1..=last);
        assert_gap(next_gap(&mut sub), 0, last - 1, Some(last - 1), GapCause::Conflated);
        assert_eq!(sub.position(), Position::new(7, last - 1), "what comes next is not received yet");
        assert_eq!(sub.lag(), 1);
        assert_eq!(drain(&mut sub), [last]);
        assert_eq!((sub.position(), sub.lag()), (hub.position(), 0));
    }
}

#[test]
fn latest_counts_the_events_of_its_own_key() {
    let (mut publisher, hub) = hub(2_000);
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    for value in 1..=900 {
        publisher.publish(["a", "b", "c"][value % 3], value as u64);
    }
    // "a" has the multiples of three.
    assert_gap(next_gap(&mut sub), 0, 899, Some(299), GapCause::Conflated);
    assert_eq!(next_event(&mut sub).seq(), 900);
}

#[test]
fn latest_that_keeps_up_gets_every_event() {
    let (mut publisher, hub) = hub(4);
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    let waker = CountingWaker::new();
    for value in 1..=300 {
        park(&mut sub, &waker);
        publish(&mut publisher, "a", value..=value);
        assert_eq!(drain(&mut sub), [value]);
    }
    assert_eq!(waker.wakes(), 300);
    assert_eq!(hub.stats().gaps, 0);
}

#[test]
fn event_after_a_skip_is_the_one_that_was_told_also_where_newer_ones_came() {
    let (mut publisher, hub) = hub(4);
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    publish(&mut publisher, "a", 1..=10);
    assert_gap(next_gap(&mut sub), 0, 9, Some(9), GapCause::Conflated);
    // Retention passes over it meanwhile.
    publish(&mut publisher, "a", 11..=400);
    assert_eq!(next_event(&mut sub).seq(), 10);
    assert_gap(next_gap(&mut sub), 10, 399, Some(389), GapCause::Conflated);
    assert_eq!(drain(&mut sub), [400]);
}

#[test]
fn what_retention_took_and_what_is_skipped_are_one_gap() {
    for read in [0, 1, 3, 5] {
        let (mut publisher, hub) = hub(8);
        let mut sub = hub.subscribe("a").slow(Slow::Latest);
        for value in 1..=read {
            publish(&mut publisher, "a", value..=value);
            assert_eq!(next_event(&mut sub).seq(), value);
        }
        publish(&mut publisher, "a", read + 1..=1_000);
        assert_gap(next_gap(&mut sub), read, 999, Some(999 - read), GapCause::Conflated);
        assert_eq!(drain(&mut sub), [1_000]);
    }
}

#[test]
fn latest_of_which_nothing_is_retained_is_told_of_retention() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_for(Duration::from_secs(60)).build();
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    publish(&mut publisher, "a", 1..=10);
    hub.sweep(Instant::now() + Duration::from_secs(61));
    assert_gap(next_gap(&mut sub), 0, 10, Some(10), GapCause::Retention);
    assert_empty(&mut sub);
    publish(&mut publisher, "a", 11..=11);
    assert_eq!(drain(&mut sub), [11]);
}

#[test]
fn latest_reads_what_is_left_of_the_block_it_stands_in_where_all_else_is_gone() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_for(Duration::from_secs(60)).build();
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    publish(&mut publisher, "a", 1..=1);
    assert_eq!(drain(&mut sub), [1]);
    // 2 to 4 are in the block of 1, which the reader stands in.
    publish(&mut publisher, "a", 2..=10);
    hub.sweep(Instant::now() + Duration::from_secs(61));
    assert_gap(next_gap(&mut sub), 1, 3, Some(2), GapCause::Conflated);
    assert_eq!(next_event(&mut sub).seq(), 4);
    assert_gap(next_gap(&mut sub), 4, 10, Some(6), GapCause::Retention);
    assert_empty(&mut sub);
}

#[test]
fn latest_begins_with_the_gap_that_it_came_with() {
    let (mut publisher, hub) = hub(4);
    let keeper = hub.subscribe("a");
    publish(&mut publisher, "a", 1..=100);
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 2))).slow(Slow::Latest);
    assert_eq!(sub.position(), Position::new(7, 2));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.cause), (2, GapCause::Retention));
    assert_gap(next_gap(&mut sub), gap.to, 99, Some(99 - gap.to), GapCause::Conflated);
    assert_eq!(drain(&mut sub), [100]);
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(8, 2))).slow(Slow::Latest);
    assert_eq!(next_gap(&mut sub).cause, GapCause::OtherEpoch);
    drop(keeper);
}

#[test]
fn latest_receives_a_snapshot_whole_and_then_the_newest() {
    let (mut publisher, hub) = hub(100);
    let snapshot = async || Ok::<_, std::io::Error>((vec![1, 2, 3], hub.position()));
    let mut sub = block_on(hub.subscribe_with_snapshot("a", snapshot)).expect("a snapshot").slow(Slow::Latest);
    publish(&mut publisher, "a", 1..=50);
    let items = (0..3).map(|_| *next_event(&mut sub)).collect::<Vec<_>>();
    assert_eq!(items, [1, 2, 3]);
    assert!(matches!(sub.try_recv(), Ok(Received::SnapshotEnd(end)) if end.seq() == 0));
    assert_gap(next_gap(&mut sub), 0, 49, Some(49), GapCause::Conflated);
    assert_eq!(drain(&mut sub), [50]);
}

#[test]
fn latest_of_a_closed_key_gets_the_newest_and_then_the_end() {
    let (mut publisher, hub) = hub(100);
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    publish(&mut publisher, "a", 1..=50);
    hub.close("a", CloseReason::KeyClosed);
    assert_gap(next_gap(&mut sub), 0, 49, Some(49), GapCause::Conflated);
    assert_eq!(next_event(&mut sub).seq(), 50);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::KeyClosed);
}

#[test]
fn all_ways_to_receive_skip() {
    let (mut publisher, hub) = hub(100);
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    let mut next = 1;
    let mut more = || {
        publish(&mut publisher, "a", next..=next + 9);
        next += 10;
        next - 1
    };
    let last = more();
    let mut buffer = Vec::new();
    assert_eq!(block_on(sub.recv_many(&mut buffer, 10)), Ok(2));
    assert!(matches!(&buffer[..], [Received::Gap(gap), Received::Event(event)] if gap.missed == Some(9) && event.seq() == last));
    for way in 0..4 {
        let last = more();
        for is_gap in [true, false] {
            let received = match way {
                0 => block_on(sub.recv()),
                1 => sub.recv_blocking(),
                2 => sub.recv_timeout(Duration::ZERO).map_err(|error| panic!("{error}")),
                _ => block_on(async {
                    sub.recv_ref().await.map(|received| match received {
                        keywake::ReceivedRef::Event(event) => Received::Event(event.to_event()),
                        keywake::ReceivedRef::Gap(gap) => Received::Gap(gap),
                        other => panic!("{other:?}"),
                    })
                }),
            };
            match received.expect("it is open") {
                Received::Gap(gap) => assert!(is_gap && gap.missed == Some(9), "{gap:?}"),
                Received::Event(event) => assert!(!is_gap && event.seq() == last, "{event:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn loss_of_the_source_among_what_is_skipped_is_told_as_one() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    for seq in [1, 2, 3] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    publisher.lost(4..=9, GapCause::Source).expect("rising");
    for seq in [10, 12] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    assert_gap(next_gap(&mut sub), 0, 11, None, GapCause::Source);
    assert_eq!(drain(&mut sub), [12]);
    // Where none is among them, they are counted again.
    for seq in [20, 30, 40] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    assert_gap(next_gap(&mut sub), 12, 39, Some(2), GapCause::Conflated);
    assert_eq!(drain(&mut sub), [40]);
}

#[test]
fn loss_of_the_source_behind_the_newest_event_is_told_after_it() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let mut sub = hub.subscribe("a").slow(Slow::Latest);
    for seq in [1, 2, 3] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    publisher.lost(4..=9, GapCause::Source).expect("rising");
    publisher.lost(15..=19, GapCause::Source).expect("rising");
    assert_gap(next_gap(&mut sub), 0, 2, Some(2), GapCause::Conflated);
    assert_eq!(next_event(&mut sub).seq(), 3);
    let gaps = [next_gap(&mut sub), next_gap(&mut sub)];
    assert_eq!(gaps.map(|gap| (gap.from, gap.to, gap.cause)), [(3, 9, GapCause::Source), (14, 19, GapCause::Source)]);
    assert_empty(&mut sub);
}

/// So many losses that blocks hold nothing else: the newest event is found behind them, or there is none.
#[test]
fn newest_event_is_found_before_blocks_of_losses() {
    for events in [0, 1, 2, 5, 100, 150] {
        let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
        let mut sub = hub.subscribe("a").slow(Slow::Latest);
        for seq in 1..=events {
            publisher.publish_at(seq, "a", seq).expect("rising");
        }
        for loss in 1..=300 {
            publisher.lost(events + loss..=events + loss, GapCause::Source).expect("rising");
        }
        if events > 1 {
            assert_gap(next_gap(&mut sub), 0, events - 1, Some(events - 1), GapCause::Conflated);
        }
        if events > 0 {
            assert_eq!(next_event(&mut sub).seq(), events);
        }
        for loss in 1..=300 {
            let gap = next_gap(&mut sub);
            assert_eq!((gap.to, gap.cause), (events + loss, GapCause::Source));
        }
        assert_empty(&mut sub);
    }
}

#[test]
fn latest_that_waits_for_the_source_to_come_to_it_counts_from_there() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let keeper = hub.subscribe("a");
    publisher.publish_at(1, "a", 1).expect("rising");
    let mut sub = hub.subscribe_from("a", Start::After(Position::new(7, 50))).slow(Slow::Latest);
    for seq in [10, 20, 30, 40, 50] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    assert_empty(&mut sub);
    for seq in [60, 70, 80] {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    assert_gap(next_gap(&mut sub), 50, 79, Some(2), GapCause::Conflated);
    assert_eq!(drain(&mut sub), [80]);
    drop(keeper);
}

#[test]
fn ways_to_be_slow_may_change() {
    let (mut publisher, hub) = hub(4);
    let mut sub = hub.subscribe("a").slow(Slow::Latest).slow(Slow::Close).slow(Slow::Gap);
    publish(&mut publisher, "a", 1..=3);
    assert_eq!(next_event(&mut sub).seq(), 1);
    let mut sub = sub.slow(Slow::Latest);
    publish(&mut publisher, "a", 4..=6);
    assert_gap(next_gap(&mut sub), 1, 5, Some(4), GapCause::Conflated);
    let mut sub = sub.slow(Slow::Gap);
    publish(&mut publisher, "a", 7..=8);
    assert_eq!(drain(&mut sub), [6, 7, 8]);
    let mut sub = sub.slow(Slow::Close);
    publish(&mut publisher, "a", 9..=100);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::SlowReader);
    // What is over is over.
    let mut sub = sub.slow(Slow::Gap);
    assert_closed(&mut sub);
}

#[test]
fn reader_that_is_to_be_closed_is_when_retention_took_from_it() {
    let (mut publisher, hub) = hub(4);
    let mut strict = hub.subscribe("a").slow(Slow::Close);
    let mut other = hub.subscribe("a");
    publish(&mut publisher, "a", 1..=2);
    assert_eq!(drain(&mut strict), [1, 2], "whoever keeps up does not notice");
    publish(&mut publisher, "a", 3..=200);
    // What is left of the block it stands in comes first, as always.
    assert_eq!((next_event(&mut strict).seq(), next_event(&mut strict).seq()), (3, 4));
    assert_eq!(strict.close_reason(), None);
    for _ in 0..3 {
        assert_eq!(assert_closed(&mut strict).reason(), &CloseReason::SlowReader);
    }
    assert_eq!(strict.close_reason(), Some(&CloseReason::SlowReader));
    assert!(CloseReason::SlowReader.may_resume());
    assert_eq!((strict.position(), strict.lag()), (Position::new(7, 4), 0));
    assert_eq!(hub.stats().gaps, 0, "an end and no gap");
    // The end is this reader's alone, and it leaves once.
    assert_eq!(next_gap(&mut other).cause, GapCause::Retention);
    assert_eq!(hub.readers("a"), 1);
    drop(strict);
    assert_eq!((hub.readers("a"), hub.topics()), (1, 1));
}

#[test]
fn who_was_closed_as_too_slow_comes_back_and_is_told_what_it_lost() {
    let (mut publisher, hub) = hub(4);
    let keeper = hub.subscribe("a");
    let mut sub = hub.subscribe("a").slow(Slow::Close);
    publish(&mut publisher, "a", 1..=2);
    assert_eq!(next_event(&mut sub).seq(), 1);
    publish(&mut publisher, "a", 3..=200);
    while sub.try_recv().is_ok() {}
    let position = sub.position();
    let mut again = hub.subscribe_from("a", Start::After(position)).slow(Slow::Close);
    // Not closed for what closed it before.
    let gap = next_gap(&mut again);
    assert_eq!((gap.from, gap.cause), (position.seq(), GapCause::Retention));
    assert_eq!(drain(&mut again), (gap.to + 1..=200).collect::<Vec<_>>());
    publish(&mut publisher, "a", 201..=400);
    let gone = drain(&mut again);
    assert_eq!(assert_closed(&mut again).reason(), &CloseReason::SlowReader);
    assert_eq!(again.position().seq(), gone.last().copied().unwrap_or(200));
    drop(keeper);
}

#[test]
fn who_was_closed_as_too_slow_keeps_nothing_of_its_key() {
    let (mut publisher, hub) = hub(4);
    let mut sub = hub.subscribe("a").slow(Slow::Close);
    publish(&mut publisher, "a", 1..=1);
    assert_eq!(drain(&mut sub), [1]);
    publish(&mut publisher, "a", 2..=200);
    assert!(hub.stats().pinned_bytes > 0, "it stands in a block that is evicted");
    while sub.try_recv().is_ok() {}
    let stats = hub.stats();
    assert_eq!((stats.readers, stats.topics, stats.pinned_bytes, stats.retained_bytes), (0, 0, 0, 0), "{stats:?}");
    assert_eq!(publisher.publish("a", 201).readers, 0);
    assert_eq!(sub.position().seq(), 4);
    assert_eq!(sub.key(), "a");
    // Another one's topic of that key is not touched by the drop of what is over.
    let other = hub.subscribe("a");
    drop(sub);
    assert_eq!(hub.readers("a"), 1);
    drop(other);
    assert_eq!(hub.topics(), 0);
}

#[test]
fn too_slow_is_also_who_slept_for_too_long() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_for(Duration::from_secs(60)).build();
    let mut sub = hub.subscribe("a").slow(Slow::Close);
    publish(&mut publisher, "a", 1..=3);
    hub.sweep(Instant::now() + Duration::from_secs(61));
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::SlowReader);
    assert_eq!(sub.position(), Position::new(7, 0));
}

#[test]
fn loss_of_the_source_closes_nobody() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let mut sub = hub.subscribe("a").slow(Slow::Close);
    publisher.publish_at(1, "a", 1).expect("rising");
    publisher.lost(2..=3, GapCause::Retention).expect("rising");
    assert_eq!(next_event(&mut sub).seq(), 1);
    assert_gap(next_gap(&mut sub), 1, 3, None, GapCause::Retention);
    publisher.publish_at(4, "a", 4).expect("rising");
    assert_eq!(drain(&mut sub), [4]);
}

#[test]
fn what_a_subscription_begins_with_closes_nobody() {
    let (mut publisher, hub) = hub(4);
    let keeper = hub.subscribe("a");
    publish(&mut publisher, "a", 1..=100);
    for (position, cause) in [
        (Position::new(7, 1), GapCause::Retention),
        (Position::new(8, 1), GapCause::OtherEpoch),
        (Position::new(7, 1_000), GapCause::Ahead),
    ] {
        let mut sub = hub.subscribe_from("a", Start::After(position)).slow(Slow::Close);
        assert_eq!(next_gap(&mut sub).cause, cause);
        assert!(sub.try_recv().is_ok() || cause == GapCause::Ahead);
    }
    drop(keeper);
}

#[test]
fn end_of_a_slow_reader_is_the_end_in_every_way_to_receive() {
    let (mut publisher, hub) = hub(4);
    let keeper = hub.subscribe("a");
    let subs: Vec<_> = (0..5).map(|_| hub.subscribe("a").slow(Slow::Close)).collect();
    publish(&mut publisher, "a", 1..=100);
    for (way, mut sub) in subs.into_iter().enumerate() {
        let error = match way {
            0 => block_on(sub.recv()).map(drop),
            1 => block_on(async { sub.recv_ref().await.map(drop) }),
            2 => block_on(sub.recv_many(&mut Vec::new(), 9)).map(drop),
            3 => within_limit(move || sub.recv_blocking().map(drop)),
            _ => {
                let next = futures_core::Stream::poll_next(pin!(sub), &mut Context::from_waker(Waker::noop()));
                assert!(matches!(next, Poll::Ready(None)));
                continue;
            }
        };
        assert_eq!(error.expect_err("the end").reason(), &CloseReason::SlowReader);
    }
    assert_eq!(hub.readers("a"), 1);
    drop(keeper);
}

#[test]
fn payload_whose_drop_panics_does_not_keep_a_slow_reader_from_leaving() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "a payload's drop");
        }
    }
    let (mut publisher, hub) = Builder::<String, Bomb>::new().retain_events(1).build();
    let mut sub = hub.subscribe("a").slow(Slow::Close);
    publisher.publish("a", Bomb(true));
    assert!(sub.try_recv_ref().is_ok());
    // It alone holds the first one now.
    publisher.publish("a", Bomb(false));
    publisher.publish("a", Bomb(false));
    assert!(catch_unwind(AssertUnwindSafe(|| sub.try_recv().is_ok())).is_err());
    while let Ok(received) = sub.try_recv() {
        drop(received);
    }
    assert_eq!(sub.close_reason(), Some(&CloseReason::SlowReader));
    assert_eq!((hub.readers("a"), hub.topics()), (0, 0));
}

#[test]
fn payloads_are_dropped_once_whatever_a_slow_reader_does() {
    let ledger = Ledger::new(900);
    let (mut publisher, hub) = Builder::<String, _>::new().retain_events(8).build();
    let mut latest = hub.subscribe("a").slow(Slow::Latest);
    let mut strict = hub.subscribe("a").slow(Slow::Close);
    let mut held = Vec::new();
    for number in 0..900 {
        publisher.publish("a", ledger.payload(number));
        if number % 100 == 99 {
            while let Ok(received) = latest.try_recv() {
                if let Received::Event(event) = received {
                    assert_eq!(event.number, number);
                    held.push(event);
                }
            }
        }
        if number < 50 {
            assert!(strict.try_recv().is_ok());
        }
    }
    while strict.try_recv().is_ok() {}
    assert_eq!((held.len(), hub.readers("a")), (9, 1));
    drop((latest, strict, publisher, hub));
    assert_eq!(ledger.dropped() % 900, ledger.dropped());
    drop(held);
    ledger.assert_each_dropped_once();
}
