//! What does an event of one busy key cost a reader of 10,000 keys?
//!
//! `subscription` reads that key alone; `set of 1` and `set of 10000` are sets of so many keys, of which only that one is published to. One
//! round is one event: published, received, and the reader is parked again; in a `burst`, 16 events are published, and then received.
//! `no-op waker`: polled by hand, nothing of an executor in it; `task`: in a tokio runtime of one thread. `16 keys` publishes one event
//! each to 16 of the set's keys before it reads.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use criterion::Criterion;
use keywake::{Builder, Hub, Publisher, Subscription, SubscriptionSet};

type P = Publisher<u64, u64>;

/// What is compared: something that reads.
trait Reads: Send + 'static {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<u64>;
}

impl Reads for Subscription<u64, u64> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        self.poll_recv(cx).map(|received| if let Ok(keywake::Received::Event(event)) = received { *event } else { 0 })
    }
}

impl Reads for SubscriptionSet<u64, u64> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        self.poll_recv(cx).map(|received| if let Ok((_, keywake::Received::Event(event))) = received { *event } else { 0 })
    }
}

fn open() -> (P, Hub<u64, u64>) {
    Builder::new().retain_events(64).build()
}

fn set(hub: &Hub<u64, u64>, keys: u64) -> SubscriptionSet<u64, u64> {
    let mut set = hub.subscribe_set();
    for key in 0..keys {
        set.add(&key);
    }
    set
}

/// So many events to the first of so many keys, then all of them received; `count` times over. Per event.
fn by_hand(publisher: &mut P, reader: &mut impl Reads, keys: u64, burst: u64, count: u64) -> Duration {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(reader.poll(&mut cx).is_pending());
    let start = Instant::now();
    for round in 0..count.div_ceil(burst) {
        for n in 0..burst {
            publisher.publish(&(n % keys), round);
        }
        while let Poll::Ready(event) = reader.poll(&mut cx) {
            black_box(event);
        }
    }
    start.elapsed()
}

/// The same for one event at a time, by a task of a runtime.
fn by_task(publisher: &mut P, mut reader: impl Reads, count: u64) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let received = Arc::new(AtomicU64::new(0));
        let receives = Arc::clone(&received);
        let reading = tokio::spawn(async move {
            loop {
                black_box(std::future::poll_fn(|cx| reader.poll(cx)).await);
                // Relaxed: one thread.
                receives.fetch_add(1, Ordering::Relaxed);
            }
        });
        tokio::task::yield_now().await;
        let start = Instant::now();
        for n in 1..=count {
            publisher.publish(&0, n);
            // Relaxed: one thread.
            while received.load(Ordering::Relaxed) < n {
                tokio::task::yield_now().await;
            }
        }
        let took = start.elapsed();
        reading.abort();
        took
    })
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for (name, burst, keys) in [("one at a time", 1, 1), ("burst of 16", 16, 1), ("burst of 16 keys", 16, 16)] {
        let mut group = criterion.benchmark_group(format!("event of a busy key, no-op waker, {name}"));
        if keys == 1 {
            group.bench_function("subscription", |bencher| {
                let (mut publisher, hub) = open();
                let mut reader = hub.subscribe(&0);
                bencher.iter_custom(|count| by_hand(&mut publisher, &mut reader, keys, burst, count));
            });
        }
        for size in [keys, 10_000] {
            group.bench_function(format!("set of {size}"), |bencher| {
                let (mut publisher, hub) = open();
                let mut reader = set(&hub, size);
                bencher.iter_custom(|count| by_hand(&mut publisher, &mut reader, keys, burst, count));
            });
        }
        group.finish();
    }
    let mut group = criterion.benchmark_group("event of a busy key, task");
    group.bench_function("subscription", |bencher| {
        let (mut publisher, hub) = open();
        bencher.iter_custom(|count| by_task(&mut publisher, hub.subscribe(&0), count));
    });
    for size in [1, 10_000] {
        group.bench_function(format!("set of {size}"), |bencher| {
            let (mut publisher, hub) = open();
            bencher.iter_custom(|count| by_task(&mut publisher, set(&hub, size), count));
        });
    }
    group.finish();
    criterion.final_summary();
}
