//! The counters: what `stats`, `topic_stats`, `lag` and their kin say.

use keywake::{Builder, CloseReason, Start, hub};

use crate::support::{CountingWaker, drain, next_event, next_gap, park, poll};

#[test]
fn lag_counts_the_retained_events_not_yet_received() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    assert_eq!(sub.lag(), 0);
    for value in 1..=200 {
        publisher.publish("a", value);
        publisher.publish("b", value);
        assert_eq!(sub.lag(), value);
    }
    for left in (0..200).rev() {
        next_event(&mut sub);
        assert_eq!(sub.lag(), left);
    }
}

#[test]
fn lag_counts_only_what_is_still_retained() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(10).build();
    let mut sub = hub.subscribe("a");
    for value in 0..1_000 {
        publisher.publish("a", value);
    }
    let lag = sub.lag();
    let _ = next_gap(&mut sub);
    assert_eq!(sub.lag(), lag);
    assert_eq!(u64::try_from(drain(&mut sub).len()), Ok(lag));
}

#[test]
fn lag_of_a_closed_key_is_what_can_still_be_read() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    hub.close("a", CloseReason::KeyClosed);
    assert_eq!(sub.lag(), 2);
    assert_eq!(drain(&mut sub).len(), 2);
    assert_eq!(sub.lag(), 0);
}

#[test]
fn stats_count_topics_readers_and_events() {
    let (mut publisher, hub) = hub::<String, u64>();
    let start = hub.stats();
    assert_eq!((start.topics, start.readers, start.published, start.wakes), (0, 0, 0, 0));
    let subs = [hub.subscribe("a"), hub.subscribe("a"), hub.subscribe("b")];
    publisher.publish("a", 1);
    publisher.publish("b", 1);
    publisher.publish("unread", 1);
    publisher.publish_batch([("a".to_owned(), 2), ("unread".to_owned(), 2)]);
    let stats = hub.stats();
    assert_eq!((stats.topics, stats.readers, stats.published, stats.unread), (2, 3, 5, 2));
    assert_eq!((hub.topics(), hub.readers("a"), hub.readers("b"), hub.readers("unread")), (2, 2, 1, 0));
    drop(subs);
    let stats = hub.stats();
    assert_eq!((stats.topics, stats.readers, stats.published), (0, 0, 5));
}

#[test]
fn stats_count_every_wake_and_none_that_finds_nothing() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut subs: Vec<_> = (0..10).map(|_| hub.subscribe("a")).collect();
    let waker = CountingWaker::new();
    for round in 1..=5 {
        for sub in &mut subs {
            park(sub, &waker);
        }
        publisher.publish("a", round);
        // Nobody is parked now.
        publisher.publish("a", round);
        for sub in &mut subs {
            assert_eq!(drain(sub).len(), 2);
        }
    }
    let stats = hub.stats();
    assert_eq!((waker.wakes(), stats.wakes, stats.empty_wakes), (50, 50, 0));
    assert_eq!(stats.fan_outs, 5);
}

#[test]
fn stats_count_gaps_as_they_are_told() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
    let mut subs: Vec<_> = (0..3).map(|_| hub.subscribe("a")).collect();
    for value in 0..500 {
        publisher.publish("a", value);
    }
    for sub in &mut subs[..2] {
        let _ = next_gap(sub);
        drain(sub);
    }
    assert_eq!(hub.stats().gaps, 2);
}

#[test]
fn retained_bytes_come_and_go_with_the_events() {
    let (mut publisher, hub) = Builder::<String, Vec<u8>>::new().retain_bytes(usize::MAX, Vec::len).build();
    let sub = hub.subscribe("a");
    for _ in 0..10 {
        publisher.publish("a", vec![0; 1_000]);
    }
    let retained = hub.stats().retained_bytes;
    assert!((10_000..30_000).contains(&retained), "{retained}");
    drop(sub);
    assert_eq!(hub.stats().retained_bytes, 0);
}

#[test]
fn topic_stats_describe_one_key() {
    let (mut publisher, hub) = hub::<String, u64>();
    assert_eq!(hub.topic_stats("a"), None);
    let subs = [hub.subscribe("a"), hub.subscribe("a")];
    publisher.publish("b", 0);
    for value in 0..5 {
        publisher.publish("a", value);
    }
    publisher.publish("b", 0);
    let stats = hub.topic_stats("a").expect("has readers");
    assert_eq!((stats.readers, stats.published, stats.retained_events, stats.last_seq), (2, 5, 5, 6));
    drop(subs);
    assert_eq!(hub.topic_stats("a"), None);
}

#[test]
fn retained_events_of_a_topic_are_what_a_reader_from_the_oldest_gets() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(10).build();
    let _keeper = hub.subscribe("a");
    for value in 0..777 {
        publisher.publish("a", value);
        let stats = hub.topic_stats("a").expect("has a reader");
        assert_eq!(stats.retained_events, hub.subscribe_from("a", Start::Oldest).lag());
        assert_eq!(stats.published, value + 1);
    }
}

#[test]
fn every_living_topic_is_visited_once() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let subs: Vec<_> = (0..1_000).map(|key| hub.subscribe(&(key % 500))).collect();
    for key in 0..600 {
        publisher.publish(&key, key);
    }
    drop(hub.subscribe(&9_999));
    let mut seen = Vec::new();
    hub.for_each_topic(|key, stats| {
        assert_eq!((stats.readers, stats.published, stats.last_seq), (2, 1, key + 1));
        seen.push(*key);
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<_>>());
    drop(subs);
    hub.for_each_topic(|_, _| panic!("no topic is left"));
}

#[test]
fn topics_can_be_used_while_they_are_visited() {
    let (publisher, hub) = hub::<u64, u64>();
    let publisher = publisher.shared();
    let mut subs: Vec<_> = (0..100).map(|key| hub.subscribe(&key)).collect();
    let mut more = Vec::new();
    hub.for_each_topic(|key, _| {
        publisher.publish(key, 1);
        more.push(hub.subscribe(&(key + 1_000)));
        assert!(hub.readers(key) >= 1);
        hub.close(&(key + 5_000), CloseReason::KeyClosed);
    });
    assert!(subs.iter_mut().all(|sub| drain(sub).len() == 1));
}

#[test]
fn tombstones_are_counted_and_bounded() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().max_tombstones(256).build();
    for key in 0..3_000 {
        let sub = hub.subscribe(&key);
        publisher.publish(&key, key);
        drop(sub);
        assert!(hub.stats().tombstones <= 256);
    }
    assert!(hub.stats().tombstones > 0);
}

#[test]
fn pinned_bytes_show_what_held_events_keep_alive() {
    let (mut publisher, hub) = Builder::<String, Vec<u8>>::new().retain_events(1).retain_bytes(usize::MAX, Vec::len).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", vec![0; 5_000]);
    let held = next_event(&mut sub);
    for _ in 0..500 {
        publisher.publish("a", vec![0; 10]);
    }
    drain_with_gaps(&mut sub);
    assert!(hub.stats().pinned_bytes >= 5_000, "{}", hub.stats().pinned_bytes);
    drop(held);
    assert_eq!(hub.stats().pinned_bytes, 0);
}

fn drain_with_gaps(sub: &mut keywake::Subscription<String, Vec<u8>>) {
    while sub.try_recv().is_ok() {}
}

// Each publish to a key whose reader had left counted the buffer of its last topic as evicted once more.
#[test]
fn publishing_to_a_key_that_was_left_does_not_disturb_the_accounts() {
    let (mut publisher, hub) = Builder::<u64, [u64; 16]>::new().retain_total_bytes(1 << 20).build();
    let left = hub.subscribe(&1);
    publisher.publish(&1, [0; 16]);
    drop(left);
    for _ in 0..1_000 {
        publisher.publish(&1, [0; 16]);
    }
    let stats = hub.stats();
    assert_eq!((stats.retained_bytes, stats.pinned_bytes), (0, 0));
    let _reader = hub.subscribe(&2);
    for _ in 0..100_000 {
        publisher.publish(&2, [0; 16]);
    }
    assert!((1..=1 << 20).contains(&hub.stats().retained_bytes), "{:?}", hub.stats());
}

#[cfg(feature = "metrics")]
#[test]
fn metrics_are_recorded_under_their_documented_names() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (mut publisher, hub) = hub::<String, u64>();
    let (mut reader, waker) = (hub.subscribe("a"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("a", 1);
    publisher.publish("unread", 2);
    metrics::with_local_recorder(&recorder, || hub.record_metrics("test"));
    let recorded: std::collections::BTreeMap<String, DebugValue> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!(labels, [("hub", "test")]);
            (key.key().name().to_owned(), value)
        })
        .collect();
    assert_eq!(recorded.len(), 15);
    assert_eq!(recorded["keywake_relay_panics_total"], DebugValue::Counter(0));
    assert_eq!(recorded["keywake_published_total"], DebugValue::Counter(2));
    assert_eq!(recorded["keywake_unread_total"], DebugValue::Counter(1));
    assert_eq!(recorded["keywake_wakes_total"], DebugValue::Counter(1));
    assert_eq!(recorded["keywake_empty_wakes_total"], DebugValue::Counter(0));
    assert_eq!(recorded["keywake_topics"], DebugValue::Gauge(1.0.into()));
    assert_eq!(recorded["keywake_readers"], DebugValue::Gauge(1.0.into()));
}

/// A waker that knows whether its key was published to since its reader parked.
struct KeyedWaker {
    published: std::sync::atomic::AtomicU64,
    parked_at: std::sync::atomic::AtomicU64,
    foreign: std::sync::atomic::AtomicU64,
    wakes: std::sync::atomic::AtomicU64,
}

impl std::task::Wake for KeyedWaker {
    fn wake(self: std::sync::Arc<Self>) {
        use std::sync::atomic::Ordering::SeqCst;
        self.wakes.fetch_add(1, SeqCst);
        if self.published.load(SeqCst) == self.parked_at.load(SeqCst) {
            self.foreign.fetch_add(1, SeqCst);
        }
    }
}

/// A thousand keys, their readers woken by the relay and by publishers in turn, while other readers come and go.
#[test]
fn foreign_and_empty_wakes_stay_zero_under_churn() {
    use std::{
        future::Future,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
        task::{Context, Waker},
        thread,
    };
    let (mut publisher, hub) = hub::<u64, u64>();
    let over = Arc::new(AtomicBool::new(false));
    let churning = {
        let (hub, over) = (hub.clone(), Arc::clone(&over));
        thread::spawn(move || {
            let mut kept = Vec::new();
            let mut key = 0;
            while !over.load(SeqCst) {
                key = (key * 7 + 3) % 1_000;
                let mut reader = hub.subscribe(&key);
                let _ = poll(&mut reader, &CountingWaker::new());
                kept.push(reader);
                if kept.len() > 100 {
                    kept.clear();
                }
            }
        })
    };
    let mut readers: Vec<_> = (0..1_000)
        .map(|key| {
            let waker = Arc::new(KeyedWaker { published: 0.into(), parked_at: 0.into(), foreign: 0.into(), wakes: 0.into() });
            (hub.subscribe(&key), waker)
        })
        .collect();
    let mut relay = Box::pin(hub.relay());
    for round in 0..20_u64 {
        for (reader, waker) in &mut readers {
            let std_waker = Waker::from(Arc::clone(waker));
            while reader.poll_recv(&mut Context::from_waker(&std_waker)).is_ready() {}
            waker.parked_at.store(waker.published.load(SeqCst), SeqCst);
        }
        if round == 10 {
            assert!(relay.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        for key in (round..1_000).step_by(7) {
            let index = usize::try_from(key).expect("it is small");
            readers[index].1.published.fetch_add(1, SeqCst);
            publisher.publish(&key, round);
        }
        if round >= 10 {
            for _ in 0..100 {
                assert!(relay.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
        }
    }
    over.store(true, SeqCst);
    churning.join().expect("it does not panic");
    let wakes: u64 = readers.iter().map(|(_, waker)| waker.wakes.load(SeqCst)).sum();
    let expected: usize = (0..20).map(|round: usize| (round..1_000).step_by(7).count()).sum();
    assert_eq!(wakes, expected as u64, "one wake for each publish to a key whose reader was parked");
    assert_eq!(readers.iter().map(|(_, waker)| waker.foreign.load(SeqCst)).sum::<u64>(), 0);
    assert_eq!(hub.stats().empty_wakes, 0);
}
