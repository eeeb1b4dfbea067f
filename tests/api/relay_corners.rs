//! The relay where things meet that seldom do: somebody else at its work, wakers that do what they like, relays that are gone.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use keywake::{Builder, Hub, Received, Relay};

use crate::support::{CountingWaker, LIMIT, drain, park};

/// A relay, and a waker that says whether it is to be polled.
struct Hand {
    relay: Pin<Box<Relay>>,
    waker: Arc<CountingWaker>,
    seen: usize,
}

impl Hand {
    /// Of a hub, polled once.
    fn of(hub: &Hub<String, u64>) -> Self {
        let mut hand = Self { relay: Box::pin(hub.relay()), waker: CountingWaker::new(), seen: 0 };
        assert!(hand.poll().is_pending());
        hand.run();
        hand
    }

    fn poll(&mut self) -> Poll<()> {
        self.seen = self.waker.wakes();
        let waker = Waker::from(Arc::clone(&self.waker));
        self.relay.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// What an executor does: polls it for as long as it was woken since.
    fn run(&mut self) {
        while self.seen < self.waker.wakes() {
            assert!(self.poll().is_pending());
        }
    }
}

/// A waker that does something.
struct Doing<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for Doing<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn doing(what: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Doing(what)))
}

#[test]
fn relay_that_is_polled_while_a_set_does_its_first_step_is_woken_by_the_next_event() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = Arc::new(Mutex::new(Hand::of(&hub)));
    let (mut reader, waker) = (hub.subscribe("task"), CountingWaker::new());
    park(&mut reader, &waker);
    let (mut sleeping, mut helping) = (hub.subscribe_set(), hub.subscribe_set());
    sleeping.add("set");
    helping.add("another");
    let polling = Arc::clone(&relay);
    let meeting = doing(move || polling.lock().expect("it is not poisoned").run());
    assert!(sleeping.poll_recv(&mut Context::from_waker(&meeting)).is_pending());
    publisher.publish("set", 1);
    // It does what the relay has not done yet, and meanwhile the relay comes to do it.
    assert!(helping.try_recv().is_err());
    relay.lock().expect("it is not poisoned").run();
    publisher.publish("task", 2);
    relay.lock().expect("it is not poisoned").run();
    assert_eq!(waker.wakes(), 1);
}

#[test]
fn relay_lets_others_run_also_if_it_is_asked_for_more_all_the_time() {
    let (publisher, hub) = keywake::hub::<String, u64>();
    let publisher = publisher.shared();
    let mut relay = Hand::of(&hub);
    let woken = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for number in 0..1_000 {
        let (key, counting) = (number.to_string(), CountingWaker::new());
        let mut other = hub.subscribe(&key);
        park(&mut other, &counting);
        let mut set = hub.subscribe_set();
        set.add("another");
        let (publisher, woken, set) = (publisher.clone(), Arc::clone(&woken), Mutex::new(set));
        let waker = doing(move || {
            woken.fetch_add(1, Ordering::SeqCst);
            publisher.publish(&key, 0);
            // Does the relay's first step for it, or has it do so.
            assert!(set.lock().expect("it is not poisoned").try_recv().is_err());
        });
        let mut reader = hub.subscribe("key");
        assert!(reader.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        readers.push((reader, other));
    }
    publisher.publish("key", 1);
    assert!(relay.poll().is_pending());
    let after_one = woken.load(Ordering::SeqCst);
    relay.run();
    assert_eq!(woken.load(Ordering::SeqCst), 1_000);
    assert!(after_one <= 128, "{after_one} wakes in one poll");
    drop(readers);
}

#[test]
fn sweep_while_the_relay_is_at_work_is_not_lost() {
    let (mut publisher, hub) = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).build();
    let mut relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    for event in 1..=2 {
        park(&mut reader, &waker);
        publisher.publish("key", event);
        relay.run();
        drain(&mut reader);
    }
    assert_eq!(waker.wakes(), 1);
    park(&mut reader, &waker);
    publisher.publish("key", 3);
    relay.run();
    let mut other = hub.subscribe("other");
    let sweeping = {
        let hub = hub.clone();
        doing(move || hub.sweep(Instant::now() + Duration::from_secs(7200)))
    };
    assert!(other.poll_recv(&mut Context::from_waker(&sweeping)).is_pending());
    publisher.publish("other", 4);
    relay.run();
    assert_eq!(waker.wakes(), 2);
}

/// A waker whose drop panics.
struct Fragile(Arc<AtomicBool>);

impl Wake for Fragile {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "on purpose");
    }
}

#[test]
fn relay_whose_wakers_drop_panics_still_hands_over() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let panics = Arc::new(AtomicBool::new(false));
    let mut main = Box::pin(hub.relay());
    let fragile = Waker::from(Arc::new(Fragile(Arc::clone(&panics))));
    assert!(main.as_mut().poll(&mut Context::from_waker(&fragile)).is_pending());
    drop(fragile);
    let mut other = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    panics.store(true, Ordering::SeqCst);
    let _ = catch_unwind(AssertUnwindSafe(|| drop(main)));
    assert_eq!(waker.wakes(), 1, "what was pending is given");
    other.run();
    drain(&mut reader);
    park(&mut reader, &waker);
    publisher.publish("key", 2);
    assert_eq!(waker.wakes(), 1, "the other relay has taken over");
    other.run();
    assert_eq!(waker.wakes(), 2);
}

#[test]
fn relay_that_is_gone_costs_a_publish_nothing_where_nobody_is_bound_to_it_any_more() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = Hand::of(&hub);
    let (mut bound, waker) = (hub.subscribe("key").on(&relay.relay.handle()), CountingWaker::new());
    park(&mut bound, &waker);
    drop(relay);
    publisher.publish("key", 1);
    assert_eq!(waker.wakes(), 1);
    drain(&mut bound);
    publisher.publish("key", 2);
    let before = hub.stats().fan_outs;
    for event in 3..100 {
        publisher.publish("key", event);
    }
    assert_eq!(hub.stats().fan_outs, before, "nobody is parked");
    drop(bound);
}

#[test]
fn handles_of_two_relays_are_never_the_same() {
    let mut handles = std::collections::HashSet::new();
    for _ in 0..100 {
        let (_publisher, hub) = keywake::hub::<String, u64>();
        assert!(handles.insert(hub.relay().handle()), "a hub that is gone had one of this name");
    }
}

#[test]
fn a_pass_in_parts_is_one_fan_out() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let waker = CountingWaker::new();
    let mut readers: Vec<_> = (0..1_000).map(|_| hub.subscribe("key")).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 1);
    relay.run();
    assert_eq!((waker.wakes(), hub.stats().fan_outs), (1_000, 1));
    readers.iter_mut().for_each(|reader| assert_eq!(drain(reader), [1]));
    // Bound ones.
    let handle = relay.relay.handle();
    let mut readers: Vec<_> = readers.into_iter().map(|reader| reader.on(&handle)).collect();
    readers.iter_mut().for_each(|reader| park(reader, &waker));
    publisher.publish("key", 2);
    relay.run();
    assert_eq!(waker.wakes(), 2_000);
    assert!(hub.stats().fan_outs <= 3, "{}", hub.stats().fan_outs);
}

#[test]
fn wake_of_a_relay_is_no_wake_of_a_reader() {
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let mut relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key").on(&relay.relay.handle()), CountingWaker::new());
    park(&mut reader, &waker);
    publisher.publish("key", 1);
    relay.run();
    let stats = hub.stats();
    assert_eq!((waker.wakes(), stats.wakes, stats.relay_wakes), (1, 1, 1));
}

#[test]
fn publishes_that_fan_out_themselves_are_not_counted_as_coalesced() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let relay = Hand::of(&hub);
    let (mut reader, waker) = (hub.subscribe("key"), CountingWaker::new());
    for event in 1..=4 {
        park(&mut reader, &waker);
        publisher.publish("key", event);
        drain(&mut reader);
    }
    let stats = hub.stats();
    assert_eq!((stats.fall_backs, stats.coalesced), (3, 0));
    drop(relay);
}

/// A relay need not look at all keys that rest, to find that nobody waits at them.
#[test]
fn many_resting_keys_do_not_slow_the_relay_down() {
    let time_of = |keys: usize| {
        let (mut publisher, hub) = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).build();
        let mut relay = Hand::of(&hub);
        let (waker, mut readers) = (CountingWaker::new(), Vec::new());
        for key in 0..keys {
            let key = key.to_string();
            let mut reader = hub.subscribe(&key);
            park(&mut reader, &waker);
            publisher.publish(&key, 1);
            readers.push(reader);
            if key.len() > 2 && key.ends_with("00") {
                relay.run();
            }
        }
        relay.run();
        let begin = Instant::now();
        for _ in 0..100 {
            assert!(relay.poll().is_pending());
        }
        (begin.elapsed(), readers.len())
    };
    let (few, many) = (time_of(10).0, time_of(20_000).0);
    assert!(many < few * 50 + Duration::from_millis(5), "{many:?} against {few:?}");
}

#[test]
fn new_key_does_not_rest_for_one_that_is_gone() {
    for round in 0..50 {
        let builder = Builder::<String, u64>::new().min_fanout_interval(Duration::from_secs(3600)).max_tombstones(0);
        let (mut publisher, hub) = builder.build();
        let mut relay = Hand::of(&hub);
        for key in 0..20 {
            let key = key.to_string();
            let (mut reader, waker) = (hub.subscribe(&key), CountingWaker::new());
            park(&mut reader, &waker);
            publisher.publish(&key, 1);
            relay.run();
            assert_eq!(waker.wakes(), 1, "round {round}: the first event of key {key} is told at once");
            drop(reader);
            // It forgets the topic.
            publisher.publish(&key, 2);
        }
    }
}

/// Publishes once, from a task that then keeps its worker; how many of ten readers have it by then.
#[cfg(feature = "tokio")]
fn reached_while_the_publisher_computes(is_bound: bool) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let relay = hub.relay();
    let handle = relay.handle();
    let reached = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        drop(tokio::spawn(relay));
        for _ in 0..10 {
            let reader = hub.subscribe("key");
            let mut reader = if is_bound { reader.on(&handle) } else { reader };
            let reached = Arc::clone(&reached);
            drop(tokio::spawn(async move {
                while let Ok(Received::Event(_)) = reader.recv().await {
                    reached.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let reached = Arc::clone(&reached);
        tokio::spawn(async move {
            publisher.publish("key", 1);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(500) && reached.load(Ordering::SeqCst) < 10 {
                std::hint::spin_loop();
            }
            drop(hub);
            reached.load(Ordering::SeqCst)
        })
        .await
        .expect("it does not panic")
    })
}

#[test]
#[cfg(feature = "tokio")]
fn publisher_task_that_computes_on_does_not_keep_the_relay_from_those_it_serves() {
    assert_eq!(reached_while_the_publisher_computes(false), 10);
}

#[test]
#[cfg(feature = "tokio")]
fn publisher_task_that_computes_on_does_not_keep_the_relay_from_those_bound_to_it() {
    assert_eq!(reached_while_the_publisher_computes(true), 10);
}

/// Relays that come and go, sets that help, threads that block on sets, publishers outside: everybody has the last event.
#[test]
fn relays_that_come_and_go_among_sets_and_threads_lose_no_wake() {
    const EVENTS: u64 = 3_000;
    let (publisher, hub) = Builder::<String, u64>::new().retain_events(1 << 16).build();
    let publisher = publisher.shared();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let keys = ["a", "b", "c"];
    let mut tasks = Vec::new();
    for number in 0..12 {
        let mut reader = hub.subscribe(keys[number % 3]);
        tasks.push(runtime.spawn(async move {
            while let Ok(Received::Event(event)) = reader.recv().await {
                if *event == u64::MAX {
                    return;
                }
            }
            panic!("the end came before the last event");
        }));
    }
    for _ in 0..3 {
        let mut set = hub.subscribe_set();
        keys.iter().for_each(|key| assert!(set.add(*key)));
        tasks.push(runtime.spawn(async move {
            let mut left = 3;
            while left > 0 {
                match set.recv().await {
                    Ok((_, Received::Event(event))) => left -= u32::from(*event == u64::MAX),
                    _ => panic!("an event"),
                }
            }
        }));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let blocked = {
        let mut set = hub.subscribe_set();
        keys.iter().for_each(|key| assert!(set.add(*key)));
        thread::spawn(move || {
            let mut left = 3;
            while left > 0 {
                match set.recv_timeout(LIMIT) {
                    Ok((_, Received::Event(event))) => left -= u32::from(*event == u64::MAX),
                    _ => panic!("an event"),
                }
            }
        })
    };
    let churn = {
        let (hub, stop) = (hub.clone(), Arc::clone(&stop));
        runtime.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let (one, two) = (tokio::spawn(hub.relay()), tokio::spawn(hub.relay()));
                tokio::time::sleep(Duration::from_millis(1)).await;
                one.abort();
                tokio::time::sleep(Duration::from_millis(1)).await;
                two.abort();
            }
            // One stays.
            hub.relay().await;
        })
    };
    let producers = [0, 1].map(|producer| {
        let publisher = publisher.clone();
        thread::spawn(move || {
            for event in 0..EVENTS {
                publisher.publish(keys[usize::try_from(event).expect("small") % 3], event);
                if event % 16 == producer {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        })
    });
    for producer in producers {
        producer.join().expect("it does not panic");
    }
    stop.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(20));
    for key in keys {
        publisher.publish(key, u64::MAX);
    }
    runtime.block_on(async {
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(10), task).await.expect("no wake is lost").expect("it does not panic");
        }
    });
    blocked.join().expect("it does not panic");
    assert_eq!(hub.stats().empty_wakes, 0);
    drop(publisher);
    runtime.block_on(churn).expect("it does not panic");
}

/// A relay that another thread may drop, and whoever polls it.
type Shelf = Arc<Mutex<Option<Pin<Box<Relay>>>>>;

async fn poll_on_shelf(shelf: Shelf) {
    std::future::poll_fn(|cx| match &mut *shelf.lock().expect("it is not poisoned") {
        Some(relay) => relay.as_mut().poll(cx),
        None => Poll::Ready(()),
    })
    .await;
}

#[test]
fn relay_that_takes_over_has_a_twin_of_its_own() {
    let multi = |workers, name| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(workers).thread_name(name).enable_all().build().expect("a runtime")
    };
    let (old, new) = (multi(1, "old"), multi(1, "new"));
    let (mut publisher, hub) = keywake::hub::<String, u64>();
    let shelf: Shelf = Arc::new(Mutex::new(Some(Box::pin(hub.relay()))));
    drop(old.spawn(poll_on_shelf(Arc::clone(&shelf))));
    thread::sleep(Duration::from_millis(30));
    drop(new.spawn(hub.relay()));
    thread::sleep(Duration::from_millis(30));
    // The worker of the first one's twin is busy until the other one is at work.
    let (free, busy) = std::sync::mpsc::channel::<()>();
    drop(old.spawn(async move { busy.recv() }));
    thread::sleep(Duration::from_millis(30));
    let relay = shelf.lock().expect("it is not poisoned").take();
    drop(relay);
    thread::sleep(Duration::from_millis(30));
    drop(free);
    thread::sleep(Duration::from_millis(30));
    let names = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let names = Arc::clone(&names);
        doing(move || names.lock().expect("it is not poisoned").push(thread::current().name().map(str::to_owned)))
    };
    for event in 0..20 {
        let mut reader = hub.subscribe("key");
        assert!(reader.poll_recv(&mut Context::from_waker(&noting)).is_pending());
        publisher = new
            .block_on(new.spawn(async move {
                publisher.publish("key", event);
                publisher
            }))
            .expect("it does not panic");
        thread::sleep(Duration::from_millis(5));
    }
    let names = std::mem::take(&mut *names.lock().expect("it is not poisoned"));
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|name| name.as_deref() == Some("new")), "{names:?}");
}

#[cfg(feature = "tokio")]
fn rest_in(runtime: &tokio::runtime::Runtime, rounds: u64) {
    let interval = Duration::from_millis(3);
    let (publisher, hub) = Builder::<String, u64>::new().min_fanout_interval(interval).retain_events(1 << 16).build();
    let publisher = publisher.shared();
    drop(runtime.spawn(hub.relay()));
    let (tell, told) = std::sync::mpsc::channel();
    let keys = ["a", "b", "c", "d"];
    for number in 0..16 {
        let mut reader = hub.subscribe(keys[number % 4]);
        let tell = tell.clone();
        drop(runtime.spawn(async move {
            while let Ok(Received::Event(event)) = reader.recv().await {
                if *event == 0 {
                    let _ = tell.send(());
                }
            }
        }));
    }
    let stop = Arc::new(AtomicBool::new(false));
    // Sets, which do the relay's first step for it all the time.
    let helpers = [0, 1].map(|_| {
        let (mut set, stop) = (hub.subscribe_set(), Arc::clone(&stop));
        keys.iter().for_each(|key| assert!(set.add(*key)));
        thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                drop(set.try_recv());
                drop(set.recv_timeout(Duration::from_micros(50)));
            }
        })
    });
    for round in 0..rounds {
        for event in (0..20).rev() {
            for key in keys {
                publisher.publish(key, event);
            }
            if event % 4 == round % 4 {
                thread::sleep(Duration::from_micros(300));
            }
        }
        for _ in 0..16 {
            told.recv_timeout(Duration::from_secs(10)).expect("no wake is lost");
        }
    }
    stop.store(true, Ordering::SeqCst);
    for helper in helpers {
        helper.join().expect("it does not panic");
    }
    assert_eq!(hub.stats().empty_wakes, 0);
}

#[test]
#[cfg(feature = "tokio")]
fn what_rests_is_told_in_time_whoever_helps() {
    for workers in [1, 2] {
        rest_in(
            &tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime"),
            50,
        );
    }
}

#[test]
fn threads_that_time_out_swallow_no_wake() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1 << 16).build();
    let relay = Hand::of(&hub);
    let handle = relay.relay.handle();
    let (tell, told) = std::sync::mpsc::channel();
    for number in 0..120_u64 {
        let mut reader = hub.subscribe("key");
        if number % 3 == 0 {
            reader = reader.on(&handle);
        }
        let tell = tell.clone();
        drop(thread::spawn(move || {
            loop {
                let got = if number % 2 == 0 {
                    reader.recv_blocking().map_err(|_| ())
                } else {
                    match reader.recv_timeout(Duration::from_micros(200 + number * 37)) {
                        Ok(got) => Ok(got),
                        Err(keywake::RecvTimeoutError::Timeout) => continue,
                        Err(_) => Err(()),
                    }
                };
                match got {
                    Ok(Received::Event(event)) if *event == 0 => {
                        let _ = tell.send(());
                    }
                    Ok(_) => {}
                    Err(()) => return,
                }
            }
        }));
    }
    for round in 0..50 {
        for event in (0..3).rev() {
            publisher.publish("key", event);
        }
        for _ in 0..120 {
            told.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("a wake is lost in round {round}"));
        }
    }
    assert_eq!(hub.stats().empty_wakes, 0);
}
