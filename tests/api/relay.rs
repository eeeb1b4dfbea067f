//! The relay: who wakes whom, when, and what happens when it is not there, late, or gone.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use keywake::{Builder, CloseReason, Hub, Received, Relay};

use crate::support::{CountingWaker, LIMIT, drain, park, within_limit};

/// A relay that is polled by hand.
struct Hand {
    relay: Pin<Box<Relay>>,
    waker: Arc<CountingWaker>,
}

impl Hand {
    fn new(relay: Relay) -> Self {
        Self { relay: Box::pin(relay), waker: CountingWaker::new() }
    }

    /// Of a hub, polled once.
    fn of(hub: &Hub<String, u64>) -> Self {
        let mut hand = Self::new(hub.relay());
        assert!(hand.poll().is_pending());
        hand
    }

    fn poll(&mut self) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&self.waker));
        self.relay.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.waker.wakes()
    }
}

#[test]
fn publish_wakes_the_relay_once_and_the_relay_wakes_the_readers() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..10).map(|_| hub.subscribe("key")).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    publisher.publish("key", 2);
    assert_eq!((relay.wakes(), waker.wakes()), (1, 0), "one wake for both events, and nobody else yet");
    assert!(relay.poll().is_pending());
    assert_eq!(waker.wakes(), 10);
    for reader in &mut readers {
        assert_eq!(drain(reader), [1, 2]);
    }
    let stats = hub.stats();
    assert_eq!((stats.wakes, stats.empty_wakes, stats.relay_wakes, stats.coalesced), (10, 0, 1, 1));
}

#[test]
fn publish_that_nobody_waits_for_does_not_wake_the_relay() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = Hand::of(&hub);
    let reader = hub.subscribe("key");
    publisher.publish("key", 1);
    publisher.publish("unread", 2);
    assert_eq!(relay.wakes(), 0);
    drop(reader);
}

#[test]
fn relay_that_was_never_polled_is_none() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = Hand::new(hub.relay());
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert_eq!((relay.wakes(), waker.wakes()), (0, 1));
}

#[test]
fn dropped_relay_gives_pending_wakes_at_once_and_publishers_wake_from_then_on() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert_eq!(waker.wakes(), 0);
    drop(relay);
    assert_eq!(waker.wakes(), 1, "pending");
    assert_eq!(drain(&mut reader), [1]);
    park(&mut reader, &waker);
    publisher.publish("key", 2);
    assert_eq!(waker.wakes(), 2, "inline");
}

#[test]
fn relay_dropped_in_the_middle_of_a_crowd_wakes_the_rest() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..1_000).map(|_| hub.subscribe("key")).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending());
    assert!((1..1_000).contains(&waker.wakes()), "it lets others run after {} wakes", waker.wakes());
    drop(relay);
    assert_eq!(waker.wakes(), 1_000);
}

#[test]
fn second_relay_stands_by_and_takes_over() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let first = Hand::of(&hub);
    let mut second = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(second.wakes(), 1, "it is told that it can take over");
    assert!(second.poll().is_pending());
    assert_eq!(drain(&mut reader), [1]);
    park(&mut reader, &waker);
    publisher.publish("key", 2);
    assert_eq!((waker.wakes(), second.wakes()), (1, 2));
    assert!(second.poll().is_pending());
    assert_eq!(waker.wakes(), 2);
}

#[test]
fn relay_ends_with_its_hub_and_does_not_keep_it() {
    let (publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    drop(publisher);
    assert!(relay.wakes() >= 1);
    assert!(relay.poll().is_ready());

    let builder = Builder::<String, u64>::new().on_last_publisher(keywake::OnLastPublisher::Keep);
    let (publisher, hub) = builder.build();
    let mut relay = Hand::of(&hub);
    drop(publisher);
    assert!(relay.poll().is_pending(), "the hub is still there");
    drop(hub);
    assert!(relay.wakes() >= 1);
    assert!(relay.poll().is_ready());
}

#[test]
fn shutdown_wakes_every_reader_without_the_relay() {
    let (publisher, hub) = keywake::hub::<String, u64>();
    let _relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let bound = Hand::of(&hub);
    let mut readers = [hub.subscribe("a"), hub.subscribe("b").on(&bound.relay.handle())];
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    hub.close("a", CloseReason::KeyClosed);
    assert_eq!(waker.wakes(), 1);
    drop(publisher);
    assert_eq!(waker.wakes(), 2);
}

#[test]
fn wakes_are_spread_over_keys_in_turn() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let (crowd, lone) = (CountingWaker::new(), CountingWaker::new());
    let mut readers: Vec<_> = (0..1_000).map(|_| hub.subscribe("crowd")).collect();
    readers.iter_mut().for_each(|reader| park(reader, &crowd));
    let mut one = hub.subscribe("lone");
    park(&mut one, &lone);
    publisher.publish("crowd", 1);
    publisher.publish("lone", 2);
    assert!(relay.poll().is_pending());
    assert!(relay.poll().is_pending());
    assert_eq!(lone.wakes(), 1, "it does not wait for the crowd");
    assert!(crowd.wakes() < 1_000);
}

#[test]
fn overdue_relay_does_not_let_its_readers_lose_events() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(64).build();
    let relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    for event in 1..=15 {
        publisher.publish("key", event);
    }
    assert_eq!(waker.wakes(), 0, "its relay has time until a quarter of what is retained");
    for event in 16..=18 {
        publisher.publish("key", event);
    }
    assert_eq!(waker.wakes(), 1, "and not longer");
    assert_eq!(drain(&mut reader).len(), 18);
    assert_eq!(hub.stats().fall_backs, 1);
    drop(relay);
}

#[test]
fn full_ring_makes_the_publisher_wake_by_itself() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..5_000).map(|key| hub.subscribe(&key.to_string())).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish_batch((0..5_000).map(|key| (key.to_string(), 1)));
    assert_eq!(relay.wakes(), 1);
    assert_eq!(waker.wakes(), 5_000 - 4_096);
    while waker.wakes() < 5_000 {
        assert!(relay.poll().is_pending());
    }
    assert_eq!(hub.stats().empty_wakes, 0);
}

#[test]
fn bound_readers_are_woken_by_their_own_relay_only() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let (mut main, mut here, mut there) = (Hand::of(&hub), Hand::of(&hub), Hand::of(&hub));
    let wakers = [CountingWaker::new(), CountingWaker::new(), CountingWaker::new()];
    let mut readers =
        [hub.subscribe("key"), hub.subscribe("key").on(&here.relay.handle()), hub.subscribe("key").on(&there.relay.handle())];
    readers.iter_mut().zip(&wakers).for_each(|(reader, waker)| park(reader, waker));
    publisher.publish("key", 1);
    assert_eq!([main.wakes(), here.wakes(), there.wakes()], [1, 1, 1]);
    assert!(here.poll().is_pending());
    assert_eq!(wakers.each_ref().map(|waker| waker.wakes()), [0, 1, 0]);
    // One that is not polled delays its own readers, and nobody else's.
    for event in 2..=10 {
        readers[..2].iter_mut().zip(&wakers).for_each(|(reader, waker)| {
            assert!(!drain(reader).is_empty());
            park(reader, waker);
        });
        publisher.publish("key", event);
        assert!(main.poll().is_pending() && here.poll().is_pending());
    }
    assert_eq!([wakers[1].wakes(), wakers[2].wakes()], [10, 0]);
    assert!(there.poll().is_pending());
    assert_eq!(wakers[2].wakes(), 1);
    assert_eq!(drain(&mut readers[2]).len(), 10);
}

#[test]
fn bound_reader_whose_relay_is_gone_or_new_or_of_another_hub_is_woken_by_the_publisher() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let (other_publisher, other_hub) = keywake::hub::<String, u64>();
    let (gone, new, other) = (Hand::of(&hub), Hand::new(hub.relay()), Hand::of(&other_hub));
    let waker = CountingWaker::new();
    let mut readers = [&gone, &new, &other].map(|relay| hub.subscribe("key").on(&relay.relay.handle()));
    drop(gone);
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    assert_eq!(waker.wakes(), 3);
    drop((new, other, other_publisher));
}

#[test]
fn bound_relay_that_is_dropped_gives_pending_wakes_at_once() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let (_main, bound) = (Hand::of(&hub), Hand::of(&hub));
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..100).map(|_| hub.subscribe("key").on(&bound.relay.handle())).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    assert_eq!(waker.wakes(), 0);
    drop(bound);
    assert_eq!(waker.wakes(), 100);
}

#[test]
fn bound_relay_that_is_overdue_is_not_waited_for() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(64).build();
    let bound = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key").on(&bound.relay.handle()), CountingWaker::new());
    park(&mut reader, &waker);
    for event in 1..=32 {
        publisher.publish("key", event);
    }
    assert_eq!(waker.wakes(), 1);
    assert_eq!(drain(&mut reader).len(), 32, "none was lost");
}

#[test]
fn more_relays_than_lanes_serve_the_rest_as_bound_to_none() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relays: Vec<_> = (0..70).map(|_| Hand::of(&hub)).collect();
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = relays.iter().map(|relay| hub.subscribe("key").on(&relay.relay.handle())).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    for relay in &mut relays {
        assert!(relay.poll().is_pending());
    }
    assert_eq!(waker.wakes(), 70);
}

struct Panicking(AtomicUsize);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a waker that panics");
    }
}

#[test]
fn waker_that_panics_ends_neither_the_relay_nor_the_wakes_of_others() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let (panicking, counting) = (Arc::new(Panicking(AtomicUsize::new(0))), CountingWaker::new());
    let mut readers: Vec<_> = (0..40).map(|_| hub.subscribe("key")).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        if number == 20 {
            let waker = Waker::from(Arc::clone(&panicking));
            assert!(reader.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        } else {
            park(reader, &counting);
        }
    }
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending(), "the panic is nobody's here");
    assert_eq!((panicking.0.load(Ordering::SeqCst), counting.wakes()), (1, 39));
    assert_eq!(hub.stats().relay_panics, 1);
}

#[test]
fn waker_that_panics_in_a_twin_is_counted_as_one_in_its_relay() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let mut twin = Box::pin(relay.relay.twin());
    let (panicking, counting) = (Arc::new(Panicking(AtomicUsize::new(0))), CountingWaker::new());
    let (mut first, mut second) = (hub.subscribe("key"), hub.subscribe("key"));
    assert!(first.poll_recv(&mut Context::from_waker(&Waker::from(Arc::clone(&panicking)))).is_pending());
    park(&mut second, &counting);
    publisher.publish("key", 1);
    assert!(twin.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "the panic is nobody's here");
    assert_eq!((panicking.0.load(Ordering::SeqCst), counting.wakes(), hub.stats().relay_panics), (1, 1, 1));
    assert!(relay.poll().is_pending());
    assert_eq!(hub.stats().relay_panics, 1, "the relay found nothing left to do");
}

/// A waker that publishes.
struct Publishing {
    publisher: keywake::SharedPublisher<String, u64>,
    left: AtomicUsize,
}

impl Wake for Publishing {
    fn wake(self: Arc<Self>) {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            self.publisher.publish("key", 0);
        }
    }
}

#[test]
fn waker_may_publish_from_within_the_relay() {
    within_limit(|| {
        let (publisher, hub) = keywake::hub::<String, u64>();
        let publisher = publisher.shared();
        let mut relay = Hand::of(&hub);
        let mut reader = hub.subscribe("key");
        let waker = Waker::from(Arc::new(Publishing { publisher: publisher.clone(), left: AtomicUsize::new(1) }));
        assert!(reader.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        publisher.publish("key", 1);
        assert!(relay.poll().is_pending());
        assert_eq!(drain(&mut reader).len(), 2);
        drop(relay);
    });
}

#[test]
fn waker_may_drop_the_relay_that_wakes_it() {
    struct Dropping(std::sync::Mutex<Option<Hand>>);
    impl Wake for Dropping {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("it is not poisoned").take());
        }
    }
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let main = Hand::of(&hub);
        let mut other = Hand::of(&hub);
        let (mut bound, mut reader) = (hub.subscribe("key").on(&other.relay.handle()), hub.subscribe("key"));
        let waker = Waker::from(Arc::new(Dropping(std::sync::Mutex::new(Some(main)))));
        assert!(bound.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        let counting = CountingWaker::new();
        park(&mut reader, &counting);
        publisher.publish("key", 1);
        assert!(other.poll().is_pending());
        assert_eq!(counting.wakes(), 1, "the relay that was dropped gave what was pending");
    });
}

#[test]
fn interval_bounds_how_often_a_key_is_fanned_out() {
    let (mut publisher, hub) = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).build();
    let mut relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending());
    assert_eq!(waker.wakes(), 1, "the first after a pause is told at once");
    assert_eq!(drain(&mut reader), [1]);
    park(&mut reader, &waker);
    for event in 2..=100 {
        publisher.publish("key", event);
        assert!(relay.poll().is_pending());
    }
    assert_eq!(waker.wakes(), 1, "then it rests");
    // Another key does not.
    let (mut other, told) = (hub.subscribe("other"), CountingWaker::new());
    park(&mut other, &told);
    publisher.publish("other", 101);
    assert!(relay.poll().is_pending());
    assert_eq!(told.wakes(), 1);
    let before = relay.wakes();
    hub.sweep(Instant::now() + Duration::from_secs(3601));
    assert!(relay.wakes() > before, "the time is told by the sweep");
    assert!(relay.poll().is_pending());
    assert_eq!(waker.wakes(), 2);
    assert_eq!(drain(&mut reader).len(), 99, "one wake for all");
}

#[test]
fn interval_loses_nothing_when_the_relay_goes() {
    let (mut publisher, hub) = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).build();
    let mut relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending());
    assert_eq!(drain(&mut reader), [1]);
    park(&mut reader, &waker);
    publisher.publish("key", 2);
    assert!(relay.poll().is_pending());
    assert_eq!(waker.wakes(), 1, "it rests");
    drop(relay);
    assert_eq!(waker.wakes(), 2);
}

#[test]
fn interval_is_cut_short_before_a_reader_loses_events() {
    let builder = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).retain_events(64);
    let (mut publisher, hub) = builder.build();
    let mut relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    for event in 1..=1_000 {
        park(&mut reader, &waker);
        let before = waker.wakes();
        let mut number = event;
        while waker.wakes() == before && number < event + 64 {
            publisher.publish("key", number);
            assert!(relay.poll().is_pending());
            number += 1;
        }
        assert!(waker.wakes() > before);
        assert!(!drain(&mut reader).is_empty(), "and no gap");
        if event > 20 {
            break;
        }
    }
}

/// `readers` tasks of a runtime that each receive `events`.
async fn received_by_all(hub: &Hub<String, u64>, readers: usize, events: u64) -> Vec<tokio::task::JoinHandle<u64>> {
    let mut tasks = Vec::new();
    for _ in 0..readers {
        let mut reader = hub.subscribe("key");
        tasks.push(tokio::spawn(async move {
            let mut last = 0;
            while last < events {
                match reader.recv().await {
                    Ok(Received::Event(event)) => last = *event,
                    other => panic!("expected an event: {other:?}"),
                }
            }
            last
        }));
    }
    tokio::task::yield_now().await;
    tasks
}

fn on_runtime(runtime: &tokio::runtime::Runtime, with_relay: bool) {
    let (publisher, hub) = keywake::hub::<String, u64>();
    runtime.block_on(async {
        if with_relay {
            drop(tokio::spawn(hub.relay()));
        }
        let tasks = received_by_all(&hub, 50, 200).await;
        let producer = thread::spawn(move || {
            let mut publisher = publisher;
            for event in 1..=200 {
                publisher.publish("key", event);
                if event % 10 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
            publisher
        });
        for task in tasks {
            let last = tokio::time::timeout(LIMIT, task).await.expect("no wake is lost").expect("it does not panic");
            assert_eq!(last, 200);
        }
        drop(producer.join().expect("it does not panic"));
    });
    assert_eq!(hub.stats().empty_wakes, 0);
}

fn multi_thread(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

#[test]
fn tokio_with_several_workers_delivers_everything() {
    on_runtime(&multi_thread(2), true);
    on_runtime(&multi_thread(2), false);
}

#[test]
fn tokio_on_the_current_thread_delivers_everything() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    on_runtime(&runtime(), true);
    on_runtime(&runtime(), false);
}

#[test]
fn smol_executor_delivers_everything() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let executor = async_executor::Executor::new();
    let relay = executor.spawn(hub.relay());
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let mut reader = hub.subscribe("key");
            executor.spawn(async move {
                let mut last = 0;
                while last < 200 {
                    if let Ok(Received::Event(event)) = reader.recv().await {
                        last = *event;
                    }
                }
            })
        })
        .collect();
    let producer = thread::spawn(move || {
        for event in 1..=200 {
            publisher.publish("key", event);
            if event % 10 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
        }
        publisher
    });
    crate::support::block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
    // The relay ends with the hub, whose last publisher goes here.
    drop(producer.join().expect("it does not panic"));
    crate::support::block_on(executor.run(relay));
}

#[test]
fn end_of_the_relays_runtime_leaves_readers_elsewhere_awake() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relays = multi_thread(1);
    drop(relays.spawn(hub.relay()));
    let readers = multi_thread(1);
    let tasks = readers.block_on(received_by_all(&hub, 20, 100));
    for event in 1..=50 {
        publisher.publish("key", event);
    }
    drop(relays);
    for event in 51..=100 {
        publisher.publish("key", event);
    }
    readers.block_on(async {
        for task in tasks {
            tokio::time::timeout(LIMIT, task).await.expect("no wake is lost").expect("it does not panic");
        }
    });
}

#[test]
fn aborted_relay_loses_no_wake() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let tasks = received_by_all(&hub, 20, 400).await;
        for round in 0..20 {
            let relay = tokio::spawn(hub.relay());
            for event in 1..=20 {
                publisher.publish("key", round * 20 + event);
                tokio::task::yield_now().await;
            }
            relay.abort();
        }
        for task in tasks {
            tokio::time::timeout(LIMIT, task).await.expect("no wake is lost").expect("it does not panic");
        }
    });
}

/// The panic comes where the relay is woken, with the wakes of others in its hands.
#[test]
fn relay_whose_task_panics_loses_no_wake() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let runtime = multi_thread(1);
    let mut relay = Box::pin(hub.relay());
    let mut polls = 0;
    let (tell, told) = mpsc::channel();
    let task = runtime.spawn(std::future::poll_fn(move |cx| {
        polls += 1;
        assert!(polls == 1, "the task of the relay panics");
        let answer = relay.as_mut().poll(cx);
        tell.send(()).expect("somebody listens");
        answer
    }));
    told.recv_timeout(LIMIT).expect("it is polled");
    let tasks = runtime.block_on(received_by_all(&hub, 20, 2));
    // The tasks may not have come to wait yet, and where nobody waits no relay is woken.
    let mut waiting = hub.subscribe("key");
    assert!(waiting.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending());
    runtime.block_on(async {
        publisher.publish("key", 1);
        assert!(tokio::time::timeout(LIMIT, task).await.expect("it is woken").is_err(), "it panics");
        publisher.publish("key", 2);
        for task in tasks {
            tokio::time::timeout(LIMIT, task).await.expect("no wake is lost").expect("it does not panic");
        }
    });
}

#[test]
fn runtime_that_nobody_drives_delays_its_own_readers_only() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let stalled = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let live = multi_thread(1);
    let (stalled_relay, live_relay) = (hub.relay(), hub.relay());
    let (stalled_handle, live_handle) = (stalled_relay.handle(), live_relay.handle());
    drop(live.spawn(live_relay));
    drop(stalled.spawn(stalled_relay));
    stalled.block_on(tokio::task::yield_now());
    let (mut slow, waker) = (hub.subscribe("key").on(&stalled_handle), CountingWaker::new());
    park(&mut slow, &waker);
    let mut reader = hub.subscribe("key").on(&live_handle);
    let task = live.spawn(async move { reader.recv().await.map(|_| ()) });
    thread::sleep(Duration::from_millis(20));
    publisher.publish("key", 1);
    live.block_on(async { tokio::time::timeout(LIMIT, task).await }).expect("no wake is lost").expect("no panic").expect("open");
    assert_eq!(waker.wakes(), 0, "its runtime is not driven");
    stalled.block_on(tokio::task::yield_now());
    assert_eq!(waker.wakes(), 1);
}

/// Polls a relay and its twin as a worker would that is free.
#[test]
fn twin_does_the_relays_work() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = hub.relay();
    let mut twin = pin!(relay.twin());
    let _relay = {
        let mut relay = Hand::new(relay);
        assert!(relay.poll().is_pending());
        relay
    };
    let twins = CountingWaker::new();
    let twins_waker = Waker::from(Arc::clone(&twins));
    assert!(twin.as_mut().poll(&mut Context::from_waker(&twins_waker)).is_pending());
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    assert!(twin.as_mut().poll(&mut Context::from_waker(&twins_waker)).is_pending());
    assert_eq!(waker.wakes(), 1);
    drop(publisher);
    assert!(twin.as_mut().poll(&mut Context::from_waker(&twins_waker)).is_ready());
}

#[test]
fn twin_that_goes_leaves_what_it_began_to_the_relay() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::new(hub.relay());
    let mut twin = Box::pin(relay.relay.twin());
    let twins = Waker::from(CountingWaker::new());
    assert!(relay.poll().is_pending());
    assert!(twin.as_mut().poll(&mut Context::from_waker(&twins)).is_pending());
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..1_000).map(|_| hub.subscribe("key")).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending(), "it has seen the event, and is not woken for it again");
    assert!(twin.as_mut().poll(&mut Context::from_waker(&twins)).is_pending());
    let before = relay.wakes();
    drop(twin);
    assert!(relay.wakes() > before);
    while waker.wakes() < 1_000 {
        assert!(relay.poll().is_pending());
    }
}

#[test]
fn what_is_done_is_counted_per_topic_where_that_is_asked_for() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(64).count_per_topic(true).build();
    let mut relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let mut readers = [hub.subscribe("a"), hub.subscribe("a"), hub.subscribe("b")];
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    for event in 0..20 {
        publisher.publish("a", event);
    }
    publisher.publish("b", 20);
    assert!(relay.poll().is_pending());
    let counts = |key| hub.topic_stats(key).and_then(|stats| stats.counts).expect("it is counted");
    let a = counts("a");
    assert_eq!((a.wakes, a.empty_wakes, a.fall_backs, a.gaps), (2, 0, 1, 0));
    assert_eq!((a.coalesced, counts("b").coalesced), (15, 0), "after the fall-back, which is none, nobody is parked");
    assert_eq!((counts("b").wakes, counts("b").fan_outs), (1, 1));
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let reader = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(hub.topic_stats("a").expect("it has a reader").counts, None);
    drop(reader);
}
