//! The writer's side: one event, many events, many producers.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Barrier},
    thread,
};

use keywake::{Builder, CloseReason, OnLastPublisher, hub};

use crate::support::{CountingWaker, Ledger, assert_closed, assert_empty, drain, event, next_event, park, within_limit};

#[test]
fn publish_says_the_seq_and_how_many_readers_the_key_has() {
    let (mut publisher, hub) = hub::<String, u64>();
    assert_eq!((publisher.publish("a", 0).seq, hub.position().seq()), (1, 1));
    let first = hub.subscribe("a");
    let second = hub.subscribe("a");
    let _other = hub.subscribe("b");
    let published = publisher.publish("a", 0);
    assert_eq!((published.seq, published.readers), (2, 2));
    drop(first);
    assert_eq!(publisher.publish("a", 0).readers, 1);
    drop(second);
    assert_eq!(publisher.publish("a", 0).readers, 0);
    assert_eq!(publisher.publish("nobody", 0).readers, 0);
}

#[test]
fn keys_can_be_lent_or_given() {
    let (mut publisher, hub) = hub::<Arc<str>, u64>();
    let key: Arc<str> = "a".into();
    let mut sub = hub.subscribe_owned(Arc::clone(&key));
    publisher.publish_owned(Arc::clone(&key), 1);
    publisher.publish(&key, 2);
    assert_eq!(drain(&mut sub), [1, 2]);
    assert_eq!(hub.readers("a"), 1);
}

#[test]
fn batch_is_published_under_one_position() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut a = hub.subscribe("a");
    let mut b = hub.subscribe("b");
    let seen = hub.clone();
    let published = publisher.publish_batch((1..=10).map(|value| {
        assert_eq!(seen.position().seq(), 0, "a part of the batch can be seen");
        (if value % 2 == 0 { "a" } else { "b" }.to_owned(), value)
    }));
    assert_eq!((published.seq, published.readers), (10, 10));
    assert_eq!(hub.position().seq(), 10);
    assert_eq!(drain(&mut a), [2, 4, 6, 8, 10]);
    assert_eq!(drain(&mut b), [1, 3, 5, 7, 9]);
}

#[test]
fn position_never_stands_within_a_batch() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<u64, u64>();
        let _reader = hub.subscribe(&1);
        let watcher = thread::spawn(move || {
            while !hub.is_shutdown() {
                assert_eq!(hub.position().seq() % 1_000, 0);
            }
        });
        for _ in 0..300 {
            publisher.publish_batch((0..1_000).map(|value| (value % 3, value)));
        }
        drop(publisher);
        watcher.join().expect("no part of a batch is seen");
    });
}

#[test]
fn batch_wakes_each_reader_once() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut subs: Vec<_> = ["a", "a", "b", "c"].iter().map(|key| hub.subscribe(*key)).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    let keys = ["a", "b", "a", "a", "b"];
    publisher.publish_batch(keys.iter().map(|key| ((*key).to_owned(), 1)));
    let wakes: Vec<_> = wakers.iter().map(|waker| waker.wakes()).collect();
    assert_eq!(wakes, [1, 1, 1, 0]);
    assert_eq!(drain(&mut subs[0]).len(), 3);
}

#[test]
fn empty_batch_changes_nothing() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    publisher.publish("b", 1);
    park(&mut sub, &waker);
    let published = publisher.publish_batch(iter::empty());
    assert_eq!((published.seq, published.readers, waker.wakes()), (1, 0, 0));
    assert_empty(&mut sub);
}

#[test]
fn batch_longer_than_retention_loses_with_a_gap_and_not_silently() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(10).build();
    let mut sub = hub.subscribe("a");
    publisher.publish_batch((0..1_000).map(|value| ("a".to_owned(), value)));
    let gap = crate::support::next_gap(&mut sub);
    let rest = drain(&mut sub);
    assert_eq!(gap.missed.map(|missed| missed + u64::try_from(rest.len()).expect("small")), Some(1_000));
    assert_eq!(rest.last(), Some(&1_000));
}

#[test]
fn batch_whose_iterator_panics_leaves_a_working_hub() {
    let ledger = Ledger::new(6);
    let (publisher, hub) = hub::<String, crate::support::Counted>();
    let publisher = publisher.shared();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    let broken = (0..5).map(|number| {
        assert!(number < 3, "the iterator gives up");
        ("a".to_owned(), ledger.payload(number))
    });
    assert!(catch_unwind(AssertUnwindSafe(|| publisher.publish_batch(broken))).is_err());
    publisher.publish("a", ledger.payload(3));
    assert_eq!(waker.wakes(), 1);
    let mut numbers = Vec::new();
    while let Ok(received) = sub.try_recv() {
        numbers.push(event(received).number);
    }
    // Either nothing of the batch or what came before the panic; never a hole and never something else.
    assert!(numbers == [3] || numbers == [0, 1, 2, 3], "{numbers:?}");
    drop((publisher, hub, sub));
    drop((ledger.payload(4), ledger.payload(5)));
    ledger.assert_each_dropped_once();
}

#[test]
fn many_producers_get_unique_seqs_that_rise_for_every_reader() {
    const PRODUCERS: u64 = 4;
    const EACH: u64 = 5_000;
    within_limit(|| {
        let (publisher, hub) =
            Builder::<u64, u64>::new().retain_events(usize::try_from(PRODUCERS * EACH).expect("small")).build();
        let publisher = publisher.shared();
        let mut subs: Vec<_> = (0..3).map(|key| hub.subscribe(&key)).collect();
        let start = Arc::new(Barrier::new(usize::try_from(PRODUCERS).expect("small")));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let (publisher, start) = (publisher.clone(), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    (0..EACH).map(|n| publisher.publish(&(n % 3), producer * EACH + n).seq).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut seqs: Vec<u64> = Vec::new();
        for producer in producers {
            let own = producer.join().expect("the producer does not panic");
            assert!(own.is_sorted(), "one producer's publishes keep their order");
            seqs.extend(own);
        }
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=PRODUCERS * EACH).collect::<Vec<_>>());
        assert_eq!(publisher.position().seq(), PRODUCERS * EACH);

        let mut values = Vec::new();
        for sub in &mut subs {
            let mut last = 0;
            let mut newest = [None; 4];
            while let Ok(received) = sub.try_recv() {
                let got = event(received);
                assert!(got.seq() > last);
                last = got.seq();
                let of_producer = &mut newest[usize::try_from(*got / EACH).expect("small")];
                assert!(*of_producer < Some(*got), "one producer's events keep their order");
                *of_producer = Some(*got);
                values.push(*got);
            }
        }
        values.sort_unstable();
        assert_eq!(values, (0..PRODUCERS * EACH).collect::<Vec<_>>());
    });
}

#[test]
fn shared_publisher_publishes_in_every_form() {
    let (publisher, hub) = hub::<String, u64>();
    let publisher = publisher.shared();
    let mut sub = hub.subscribe("a");
    assert_eq!(publisher.publish("a", 1).seq, 1);
    assert_eq!(publisher.publish_owned("a".to_owned(), 2).seq, 2);
    assert_eq!(publisher.publish_batch([("a".to_owned(), 3), ("b".to_owned(), 4)]).seq, 4);
    assert_eq!(publisher.hub().position(), hub.position());
    assert_eq!(drain(&mut sub), [1, 2, 3]);
}

#[test]
fn only_the_last_of_the_shared_publishers_closes_the_hub() {
    let (publisher, hub) = hub::<String, u64>();
    let first = publisher.shared();
    let second = first.clone();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    drop(first);
    assert_eq!(waker.wakes(), 0);
    park(&mut sub, &waker);
    second.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    park(&mut sub, &waker);
    drop(second);
    assert_eq!(waker.wakes(), 2);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::PublisherDropped);
}

#[test]
fn hub_that_is_told_to_stay_open_outlives_its_publishers() {
    let (mut publisher, hub) = Builder::<String, u64>::new().on_last_publisher(OnLastPublisher::Keep).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    drop(publisher);
    assert_eq!(*next_event(&mut sub), 1);
    assert_empty(&mut sub);
    assert!(!hub.is_shutdown());
    assert_empty(&mut hub.subscribe("b"));
    hub.shutdown(CloseReason::Shutdown);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::Shutdown);
}

#[test]
fn publish_after_shutdown_drops_the_event_and_reaches_nobody() {
    let ledger = Ledger::new(2);
    let (mut publisher, hub) = hub::<String, crate::support::Counted>();
    let mut sub = hub.subscribe("a");
    hub.shutdown(CloseReason::Shutdown);
    assert_eq!(publisher.publish("a", ledger.payload(0)).readers, 0);
    assert_eq!(publisher.publish_batch([("a".to_owned(), ledger.payload(1))]).readers, 0);
    ledger.assert_each_dropped_once();
    assert_closed(&mut sub);
    assert_eq!(hub.topics(), 0);
}

#[test]
fn publish_after_shutdown_makes_no_topic_for_unread_events() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).build();
    hub.shutdown(CloseReason::Shutdown);
    assert_eq!(publisher.publish("a", 1).readers, 0);
    assert_eq!((hub.topics(), hub.stats().retained_bytes), (0, 0));
}
