//! What is kept, for whom, how long, and how a reader learns what was not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use keywake::{Builder, CloseReason, GapCause, Position, Received, Start};

use crate::support::{assert_closed, assert_empty, drain, next_event, next_gap};

/// Retention goes by whole blocks of at most 64 events: the oldest, and the one that is being filled.
const TWO_BLOCKS: u64 = 128;

#[test]
fn at_least_the_stated_number_of_events_is_kept_and_at_most_two_blocks_more() {
    for keep in [1, 3, 16, 100, 1_024] {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(keep).build();
        let _keeper = hub.subscribe("a");
        let keep = u64::try_from(keep).expect("small");
        for value in 1..=3_000 {
            publisher.publish("a", value);
            let kept = hub.topic_stats("a").expect("has a reader").retained_events;
            assert!(kept >= keep.min(value) && kept <= keep + TWO_BLOCKS, "{kept} of {value} kept, wanted {keep}");
        }
        assert_eq!(hub.subscribe_from("a", Start::Oldest).lag(), hub.topic_stats("a").expect("has a reader").retained_events);
    }
}

#[test]
fn default_retention_is_1024_events() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    for value in 0..1_024 {
        publisher.publish("a", value);
    }
    assert_eq!(drain(&mut sub).len(), 1_024);
    let mut sub = hub.subscribe("a");
    for value in 0..2_000 {
        publisher.publish("a", value);
    }
    assert_eq!(next_gap(&mut sub).cause, GapCause::Retention);
}

#[test]
fn retention_of_zero_events_keeps_one() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(0).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
}

/// The number of multiples of three among the seqs that lie in `from < seq <= to`.
fn of_every_third(from: u64, to: u64) -> u64 {
    to / 3 - from / 3
}

#[test]
fn overtaken_reader_is_told_the_exact_range_and_goes_on_at_the_oldest() {
    // One that has read nothing yet, and one that stands within a block.
    for read in [0, 1, 2, 5, 20] {
        let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).retain_events(40).build();
        let mut sub = hub.subscribe("a");
        // Every third event is of "a".
        let mut publish = |seqs: std::ops::RangeInclusive<u64>| {
            for seq in seqs {
                publisher.publish(if seq % 3 == 0 { "a" } else { "b" }, seq);
            }
        };
        publish(1..=99);
        let mut last = 0;
        for _ in 0..read {
            last = next_event(&mut sub).seq();
        }
        publish(100..=900);
        let oldest = next_event(&mut hub.subscribe_from("a", Start::Oldest)).seq();
        // What lies in the block it stands in may still come.
        let gap = loop {
            match sub.try_recv().expect("there is more") {
                Received::Event(event) => {
                    assert_eq!(event.seq(), last + 3);
                    last = event.seq();
                }
                Received::Gap(gap) => break gap,
                _ => panic!("neither an event nor a gap"),
            }
        };
        // Nothing is lost up to `from`, nothing after `to`, and what lies between is counted.
        assert!((last..last + 3).contains(&gap.from), "{gap:?}, last {last}");
        assert!((oldest - 3..oldest).contains(&gap.to), "{gap:?}, oldest {oldest}");
        assert_eq!((gap.missed, gap.cause), (Some(of_every_third(last, oldest - 1)), GapCause::Retention));
        // Told once; then exactly the rest.
        assert_eq!(sub.lag(), of_every_third(oldest - 1, 900));
        assert_eq!(drain(&mut sub), (oldest..=900).step_by(3).collect::<Vec<_>>());
        assert_eq!(hub.stats().gaps, 1);
    }
}

#[test]
fn missed_of_all_gaps_and_the_events_add_up_to_what_was_published() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(5).build();
    let mut sub = hub.subscribe("a");
    let (mut published, mut accounted, mut last) = (0_u64, 0_u64, 0_u64);
    for burst in [1, 7, 70, 2, 500, 64, 65, 63, 129, 1, 1_000] {
        for _ in 0..burst {
            publisher.publish("a", published);
            published += 1;
        }
        // Reads only part of it, so that it is overtaken in all places of a block.
        for _ in 0..burst % 7 + 1 {
            match sub.try_recv() {
                Ok(Received::Event(event)) => {
                    assert_eq!(event.seq(), last + 1);
                    last = event.seq();
                    accounted += 1;
                }
                Ok(Received::Gap(gap)) => {
                    assert_eq!(gap.from, last);
                    assert_eq!(gap.missed, Some(gap.to - gap.from));
                    last = gap.to;
                    accounted += gap.to - gap.from;
                }
                Ok(_) => panic!("neither an event nor a gap"),
                Err(_) => break,
            }
        }
    }
    while let Ok(received) = sub.try_recv() {
        accounted += match received {
            Received::Event(_) => 1,
            Received::Gap(gap) => gap.missed.expect("retention counts exactly"),
            _ => panic!("neither an event nor a gap"),
        };
    }
    assert_eq!(accounted, published);
}

#[test]
fn retained_bytes_are_bounded_by_the_weigher() {
    let weighed = Arc::new(AtomicUsize::new(0));
    let (mut publisher, hub) = Builder::<String, Vec<u8>>::new()
        .retain_events(usize::MAX)
        .retain_bytes(1 << 20, {
            let weighed = Arc::clone(&weighed);
            move |event: &Vec<u8>| {
                weighed.fetch_add(1, Ordering::Relaxed);
                event.len()
            }
        })
        .build();
    let mut sub = hub.subscribe("a");
    for _ in 0..1_000 {
        publisher.publish("a", vec![0; 10_000]);
    }
    assert!(weighed.load(Ordering::Relaxed) >= 1_000);
    let kept = hub.subscribe_from("a", Start::Oldest).lag();
    // 104 events fill the megabyte; a block is sealed at 64 KiB, so about 7 events more.
    assert!((50..=130).contains(&kept), "{kept} events of 10 kB kept");
    let gap = next_gap(&mut sub);
    assert_eq!((gap.missed, gap.cause), (Some(1_000 - kept), GapCause::Retention));
}

#[test]
fn event_larger_than_the_byte_budget_is_still_delivered() {
    let of_key = Builder::<String, Vec<u8>>::new().retain_bytes(1_000, Vec::len);
    let of_hub = Builder::<String, Vec<u8>>::new().retain_bytes(usize::MAX, Vec::len).retain_total_bytes(1_000);
    for builder in [of_key, of_hub] {
        let (mut publisher, hub) = builder.build();
        let mut sub = hub.subscribe("a");
        for _ in 0..3 {
            publisher.publish("a", vec![0; 1 << 20]);
            assert_eq!(next_event(&mut sub).len(), 1 << 20);
        }
    }
}

#[test]
fn weigher_that_answers_far_too_much_overflows_nothing() {
    for weight in [usize::MAX, usize::MAX / 2, usize::MAX / 2 + 1] {
        let of_key = Builder::<String, u64>::new().retain_bytes(1 << 20, move |_| weight);
        let of_hub = Builder::<String, u64>::new().retain_bytes(usize::MAX, move |_| weight).retain_total_bytes(1 << 20);
        let of_both = Builder::<String, u64>::new().retain_bytes(usize::MAX, move |_| weight).retain_total_bytes(usize::MAX);
        for builder in [of_key, of_hub, of_both] {
            let (mut publisher, hub) = builder.build();
            let mut subs = [hub.subscribe("a"), hub.subscribe("b")];
            let asleep = hub.subscribe("a");
            for round in 0..400 {
                let (sub, key) = if round % 2 == 0 { (&mut subs[0], "a") } else { (&mut subs[1], "b") };
                let published = publisher.publish(key, round);
                let event = next_event(sub);
                assert_eq!((*event, event.seq()), (round, published.seq));
                assert!(hub.readers(key) > 0);
                // 1 TiB for each event at most, and a block of them.
                let stats = hub.stats();
                assert!(stats.retained_bytes <= (400 << 40) + (1 << 30), "{stats:?}");
                assert!(stats.pinned_bytes <= (400 << 40) + (1 << 30), "{stats:?}");
            }
            drop((subs, asleep));
            let stats = hub.stats();
            assert_eq!((stats.topics, stats.readers, stats.retained_bytes), (0, 0, 0), "{stats:?}");
        }
    }
}

#[test]
fn one_budget_bounds_the_bytes_of_all_keys_and_takes_the_oldest() {
    const TOTAL: u64 = 4 << 20;
    let (mut publisher, hub) = Builder::<u64, Vec<u8>>::new()
        .retain_events(usize::MAX)
        .retain_bytes(usize::MAX, Vec::len)
        .retain_total_bytes(usize::try_from(TOTAL).expect("small"))
        .build();
    let mut readers: Vec<_> = (0..100).map(|key| hub.subscribe(&key)).collect();
    for key in 0..100 {
        for _ in 0..10 {
            publisher.publish(&key, vec![0; 10_000]);
        }
    }
    // 10 MB were published. Blocks go whole, so it may be one block (64 KiB) too much.
    let retained = hub.stats().retained_bytes;
    assert!(retained <= TOTAL + (64 << 10), "{retained} bytes retained");
    assert!(retained >= TOTAL / 2, "{retained} bytes retained");
    // The oldest went, the newest are all there.
    assert_eq!(next_gap(&mut readers[0]).cause, GapCause::Retention);
    assert_eq!(drain(&mut readers[99]).len(), 10);
    // A quiet key's only block can go too, and nothing of it goes untold.
    for reader in &mut readers[1..99] {
        let mut accounted = 0;
        while let Ok(received) = reader.try_recv() {
            accounted += match received {
                Received::Event(_) => 1,
                Received::Gap(gap) => gap.missed.expect("retention counts exactly"),
                _ => panic!("neither an event nor a gap"),
            };
        }
        assert_eq!(accounted, 10);
    }
}

#[test]
fn sweep_drops_what_is_older_than_the_age() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_for(Duration::from_secs(60)).build();
    let mut sub = hub.subscribe("a");
    for value in 1..=10 {
        publisher.publish("a", value);
    }
    hub.sweep(Instant::now());
    assert_eq!(sub.lag(), 10);
    hub.sweep(Instant::now() + Duration::from_secs(3_600));
    assert_eq!(sub.lag(), 0);
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.missed, gap.cause), (0, 10, Some(10), GapCause::Retention));
    publisher.publish("a", 11);
    assert_eq!(drain(&mut sub), [11]);
}

#[test]
fn old_events_go_when_their_key_is_used_again() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).retain_for(Duration::from_millis(20)).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    std::thread::sleep(Duration::from_millis(60));
    publisher.publish("a", 2);
    assert_eq!(hub.topic_stats("a").map(|stats| stats.retained_events), Some(1));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.missed), (0, 1, Some(1)));
    std::thread::sleep(Duration::from_millis(60));
    // A reader that comes in does not get them either, and is told.
    let mut late = hub.subscribe_from("a", Start::After(Position::new(1, 1)));
    assert_eq!(next_gap(&mut late).to, 2);
    assert_empty(&mut late);
}

#[test]
fn sweep_without_an_age_drops_nothing() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    hub.sweep(Instant::now() + Duration::from_secs(1 << 30));
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn sweep_with_a_time_that_lies_back_is_harmless() {
    let (mut publisher, hub) =
        Builder::<String, u64>::new().retain_for(Duration::from_secs(1)).keep_idle(Duration::from_secs(1)).build();
    let before = Instant::now();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    drop(hub.subscribe("b"));
    hub.sweep(before);
    assert_eq!(hub.topics(), 2);
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn unread_events_are_kept_for_late_readers_when_asked() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_unread(true).build();
    for value in 1..=3 {
        assert_eq!(publisher.publish("a", value).readers, 0);
    }
    assert_eq!((hub.topics(), hub.readers("a"), hub.stats().unread), (1, 0, 0));
    assert_eq!(drain(&mut hub.subscribe_from("a", Start::Oldest)), [1, 2, 3]);
    assert_eq!(drain(&mut hub.subscribe_from("a", Start::Latest)), [3]);
    assert_eq!(drain(&mut hub.subscribe_from("a", Start::After(Position::new(7, 1)))), [2, 3]);
    assert_empty(&mut hub.subscribe("a"));
    // The readers came and went; the history stays.
    assert_eq!((hub.topics(), hub.readers("a")), (1, 0));
    publisher.publish("a", 4);
    assert_eq!(drain(&mut hub.subscribe_from("a", Start::Oldest)), [1, 2, 3, 4]);
}

#[test]
fn unread_events_are_not_kept_by_default_and_are_counted() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build();
    for value in 1..=3 {
        publisher.publish("a", value);
    }
    let stats = hub.stats();
    assert_eq!((stats.topics, stats.unread, stats.published, stats.retained_bytes), (0, 3, 3, 0));
    assert_empty(&mut hub.subscribe_from("a", Start::Oldest));
}

#[test]
fn subscription_beyond_the_topic_limit_ends_at_once() {
    let (mut publisher, hub) = Builder::<String, u64>::new().max_topics(2).build();
    let mut a = hub.subscribe("a");
    let b = hub.subscribe("b");
    let mut c = hub.subscribe("c");
    assert_eq!(assert_closed(&mut c).reason(), &CloseReason::TopicLimit);
    assert!(c.close_reason().is_some_and(CloseReason::may_resume));
    assert_eq!((hub.topics(), hub.readers("c")), (2, 0));
    // Keys that exist take further readers.
    let mut again = hub.subscribe("a");
    assert_eq!(publisher.publish("a", 1).readers, 2);
    assert_eq!((drain(&mut a), drain(&mut again)), (vec![1], vec![1]));
    // A topic that goes makes room; the refused handle going does not.
    drop(c);
    assert_eq!(hub.topics(), 2);
    drop(b);
    let mut c = hub.subscribe("c");
    assert_empty(&mut c);
    assert_eq!(assert_closed(&mut hub.subscribe("b")).reason(), &CloseReason::TopicLimit);
}

#[test]
fn refused_subscriptions_do_not_use_up_the_topic_limit() {
    let (_publisher, hub) = Builder::<u64, u64>::new().max_topics(1).build();
    let a = hub.subscribe(&0);
    for key in 1..1_000 {
        assert_eq!(assert_closed(&mut hub.subscribe(&key)).reason(), &CloseReason::TopicLimit);
    }
    drop(a);
    assert_empty(&mut hub.subscribe(&1_000));
}

#[test]
fn unread_event_beyond_the_topic_limit_is_not_kept_but_remembered() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_unread(true).max_topics(1).build();
    publisher.publish("a", 1);
    publisher.publish("b", 2);
    let stats = hub.stats();
    assert_eq!((stats.topics, stats.unread), (1, 1));
    assert!(hub.close("a", CloseReason::KeyClosed));
    let gap = next_gap(&mut hub.subscribe_from("b", Start::After(Position::new(7, 1))));
    assert_eq!((gap.from, gap.to), (1, 2));
}

#[test]
fn topic_goes_with_its_last_reader_unless_kept_idle() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).keep_idle(Duration::from_secs(30)).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    let position = sub.position();
    drop(sub);
    assert_eq!((hub.topics(), hub.readers("a")), (1, 0));
    // What is published while the topic is idle is there for the reader that comes back.
    assert_eq!(publisher.publish("a", 2).readers, 0);
    hub.sweep(Instant::now());
    let mut back = hub.subscribe_from("a", Start::After(position));
    assert_eq!(drain(&mut back), [2]);
    // A topic with a reader is not idle, however late it is.
    hub.sweep(Instant::now() + Duration::from_secs(3_600));
    assert_eq!(hub.topics(), 1);
    publisher.publish("a", 3);
    drop(back);
    hub.sweep(Instant::now() + Duration::from_secs(7_200));
    assert_eq!(hub.topics(), 0);
    // And then nothing is lost silently.
    let gap = next_gap(&mut hub.subscribe_from("a", Start::After(Position::new(7, 2))));
    assert_eq!((gap.from, gap.to), (2, 3));
}

#[test]
fn topic_without_idle_time_goes_at_once() {
    let (_publisher, hub) = Builder::<String, u64>::new().build();
    let (first, second) = (hub.subscribe("a"), hub.subscribe("a"));
    drop(first);
    assert_eq!((hub.topics(), hub.readers("a")), (1, 1));
    drop(second);
    assert_eq!((hub.topics(), hub.readers("a")), (0, 0));
}

#[test]
fn idle_time_is_up_when_the_key_is_next_subscribed_to_without_any_sweep() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).keep_idle(Duration::from_millis(20)).build();
    let sub = hub.subscribe("a");
    publisher.publish("a", 1);
    let before = sub.position();
    drop(sub);
    publisher.publish("a", 2);
    std::thread::sleep(Duration::from_millis(100));
    let mut oldest = hub.subscribe_from("a", Start::Oldest);
    assert_empty(&mut oldest);
    let mut back = hub.subscribe_from("a", Start::After(before));
    let gap = next_gap(&mut back);
    assert_eq!((gap.from, gap.to, gap.cause), (0, 2, GapCause::Unread));
    // The new topic is nobody's old one.
    publisher.publish("a", 3);
    assert_eq!((drain(&mut oldest), drain(&mut back)), (vec![3], vec![3]));
}
