//! Real threads against each other; `loom_tests` has the same protocols as models.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use keywake::{
    Builder, CloseReason, Hub, Position, Publisher, Received, SharedPublisher, Start, Subscription, TryRecvError, hub,
};

use crate::support::{Counted, CountingWaker, Ledger, block_on, event, park, poll, within_limit};

/// Two threads that start as close together as they can, some hundred times.
fn race<A, B>(rounds: usize, mut round: impl FnMut() -> (A, B))
where
    A: FnOnce() + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    for _ in 0..rounds {
        let (first, second) = round();
        let ready = Arc::new(AtomicUsize::new(0));
        // A spinning start: an operating system's barrier lets one go long before the other. Not for long on a busy machine.
        let start = |ready: &AtomicUsize| {
            ready.fetch_add(1, Ordering::SeqCst);
            let mut spins = 0;
            while ready.load(Ordering::SeqCst) < 2 {
                spins += 1;
                if spins % 512 == 0 {
                    thread::yield_now();
                }
                std::hint::spin_loop();
            }
        };
        let other = thread::spawn({
            let ready = Arc::clone(&ready);
            move || {
                start(&ready);
                second();
            }
        });
        start(&ready);
        first();
        other.join().expect("no panic");
    }
}

// event-listener #138, #139, #76, kanal #8, tokio #2123, #7632: a wake was lost between "nothing there" and "waiting".
#[test]
fn no_wake_is_lost_between_threads_that_play_ping_pong() {
    const ROUNDS: u64 = 20_000;
    within_limit(|| {
        let (mut ping, pings) = hub::<u8, u64>();
        let (mut pong, pongs) = hub::<u8, u64>();
        let mut ping_reader = pings.subscribe(&0);
        let mut pong_reader = pongs.subscribe(&0);
        let other = thread::spawn(move || {
            for round in 0..ROUNDS {
                assert_eq!(*event(ping_reader.recv_blocking().expect("open")), round);
                pong.publish(&0, round);
            }
        });
        for round in 0..ROUNDS {
            ping.publish(&0, round);
            assert_eq!(*event(pong_reader.recv_blocking().expect("open")), round);
        }
        other.join().expect("no panic");
    });
}

#[test]
fn no_wake_is_lost_between_a_task_and_a_thread() {
    const ROUNDS: u64 = 10_000;
    within_limit(|| {
        let (mut ping, pings) = hub::<u8, u64>();
        let (mut pong, pongs) = hub::<u8, u64>();
        let mut ping_reader = pings.subscribe(&0);
        let mut pong_reader = pongs.subscribe(&0);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let task = runtime.spawn(async move {
            for round in 0..ROUNDS {
                assert_eq!(*event(ping_reader.recv().await.expect("open")), round);
                pong.publish(&0, round);
            }
        });
        for round in 0..ROUNDS {
            ping.publish(&0, round);
            assert_eq!(*event(pong_reader.recv_blocking().expect("open")), round);
        }
        runtime.block_on(task).expect("no panic");
    });
}

/// Whatever others do meanwhile: what is published after `subscribe` returned arrives.
fn subscribe_publish_and_receive(publisher: &SharedPublisher<u64, u64>, hub: &Hub<u64, u64>, key: u64) {
    let mut sub = hub.subscribe(&key);
    let published = publisher.publish(&key, key);
    assert!(published.readers >= 1);
    while event(sub.recv_blocking().expect("open")).seq() != published.seq {}
}

// hyperlane-broadcast: 5,439 of 40,000 first subscribers were orphaned.
#[test]
fn two_first_subscribers_of_a_key_are_not_orphaned() {
    within_limit(|| {
        let (publisher, hub) = hub::<u64, u64>();
        let publisher = publisher.shared();
        let mut key = 0;
        race(2_000, || {
            key += 1;
            let subscribe = {
                let (publisher, hub) = (publisher.clone(), hub.clone());
                move || subscribe_publish_and_receive(&publisher, &hub, key)
            };
            (subscribe.clone(), subscribe)
        });
        assert_eq!(hub.topics(), 0);
    });
}

// topic-stream (271 of 20,000 lost), whitenoise #414, tokio #6746: the last reader's leaving took a new one's topic along.
#[test]
fn leaving_reader_does_not_take_the_topic_of_a_new_one() {
    within_limit(|| {
        let (publisher, hub) = hub::<u64, u64>();
        let publisher = publisher.shared();
        race(3_000, || {
            let leaving = hub.subscribe(&7);
            let (publisher, hub) = (publisher.clone(), hub.clone());
            (move || drop(leaving), move || subscribe_publish_and_receive(&publisher, &hub, 7))
        });
        assert_eq!((hub.topics(), hub.readers(&7)), (0, 0));
    });
}

/// Publishes to a few keys until told to stop, each event carrying its own seq.
fn keep_publishing(publisher: &mut Publisher<u64, u64>, keys: u64, stop: &AtomicBool) {
    let mut next = publisher.position().seq();
    while !stop.load(Ordering::Relaxed) {
        next += 1;
        assert_eq!(publisher.publish(&(next % keys), next).seq, next);
        if next % 64 == 0 {
            thread::yield_now();
        }
    }
}

/// Subscribes, reads a little, leaves, comes back from where it was: every event of the key is seen or told as lost.
fn come_and_go(hub: &Hub<u64, u64>, key: u64, keys: u64, rounds: u64) {
    let mut position = hub.position();
    for round in 0..rounds {
        let mut sub = hub.subscribe_from(&key, Start::After(position));
        for _ in 0..round % 5 {
            match sub.recv_blocking().expect("open") {
                Received::Event(event) => {
                    assert_eq!((event.seq(), event.seq() % keys), (*event, key));
                    // The key has every `keys`-th seq: the next one after the position.
                    assert!(event.seq() > position.seq() && event.seq() - position.seq() <= keys, "hole before {}", event.seq());
                    position = event.position();
                }
                Received::Gap(gap) => {
                    assert_eq!(gap.from, position.seq());
                    position = Position::new(position.epoch(), gap.to);
                }
                _ => panic!("neither an event nor a gap"),
            }
        }
        // Possibly further than what was read, never beyond what is still to come.
        let now = sub.position();
        assert!(now.seq() >= position.seq());
        position = now;
    }
}

// Consul's missing tests ("churn of subscribe and unsubscribe against publish on one key"): silent holes.
#[test]
fn readers_that_come_and_go_see_or_are_told_of_every_event() {
    for idle in [std::time::Duration::ZERO, std::time::Duration::from_secs(60)] {
        within_limit(move || churn(idle, 3));
    }
}

/// Two readers of each key that come and go while the keys are published to.
fn churn(idle: std::time::Duration, keys: u64) {
    let (mut publisher, hub) = Builder::<u64, u64>::new().keep_idle(idle).retain_events(16).build();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| keep_publishing(&mut publisher, keys, &stop));
        let hub = &hub;
        let readers: Vec<_> =
            (0..2 * keys).map(|reader| scope.spawn(move || come_and_go(hub, reader % keys, keys, 2_000))).collect();
        let failed = readers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer does not panic");
        assert_eq!(failed, 0, "readers failed");
    });
    assert_eq!(hub.stats().empty_wakes, 0);
}

/// Reads on, from block to block, until the end; every event is seen or told as lost.
fn read_to_the_end(mut sub: Subscription<u64, u64>) {
    let mut last = 0;
    loop {
        match sub.try_recv() {
            Ok(Received::Event(event)) => {
                assert_eq!((*event, event.seq()), (last + 1, last + 1));
                last = *event;
            }
            Ok(Received::Gap(gap)) => {
                assert_eq!((gap.from, gap.missed), (last, Some(gap.to - last)));
                last = gap.to;
            }
            Ok(_) => panic!("neither an event nor a gap"),
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Closed(_)) => return assert_eq!(last, 100_000),
        }
    }
}

// Nomad, tokio #8357: a reader that follows the link of a block that is just being evicted.
// With one event kept every event has a block of its own, so each step is such a hop, and each publish such an eviction.
#[test]
fn reader_in_the_middle_of_a_hop_does_not_break_the_chain_when_its_block_is_evicted() {
    for keep in [1, 2, 5] {
        within_limit(move || {
            let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(keep).build();
            let readers: Vec<_> =
                (0..4).map(|_| hub.subscribe(&1)).map(|sub| thread::spawn(move || read_to_the_end(sub))).collect();
            for value in 1..=100_000 {
                publisher.publish(&1, value);
            }
            drop(publisher);
            for reader in readers {
                reader.join().expect("the reader does not panic");
            }
        });
    }
}

/// Waits on ever other keys of a thousand, sometimes takes what came, sometimes leaves. The answer is how often it was woken.
fn wait_here_and_there(hub: &Hub<u64, u64>, seed: u64) -> usize {
    let mut random = seed;
    let mut waiting: VecDeque<(Subscription<u64, u64>, Arc<CountingWaker>)> = VecDeque::new();
    let mut wakes = 0;
    // As long as it takes on a busy machine; the caller has the limit.
    while wakes < 500 || !waiting.is_empty() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if wakes < 500 && waiting.len() < 100 {
            waiting.push_back((hub.subscribe(&((random >> 33) % 1_000)), CountingWaker::new()));
        }
        let Some((mut sub, waker)) = waiting.pop_front() else { continue };
        // Parks, or takes what came since and parks then.
        while poll(&mut sub, &waker).is_ready() {}
        if wakes < 500 && random >> 62 != 0 {
            waiting.push_back((sub, waker));
            continue;
        }
        drop(sub);
        // A wake may be on its way from the publisher.
        while Arc::strong_count(&waker) > 1 {
            thread::yield_now();
        }
        wakes += waker.wakes();
    }
    wakes
}

// tokio #3168: wakes that found nothing, under load. Here none is given to who has seen all.
#[test]
fn no_wake_is_empty_while_threads_churn_a_thousand_keys() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<u64, u64>();
        let stop = AtomicBool::new(false);
        let wakes: usize = thread::scope(|scope| {
            let writer = scope.spawn(|| keep_publishing(&mut publisher, 1_000, &stop));
            let hub = &hub;
            let readers: Vec<_> = (1..=3).map(|seed| scope.spawn(move || wait_here_and_there(hub, seed))).collect();
            let wakes = readers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
            stop.store(true, Ordering::Relaxed);
            writer.join().expect("the writer does not panic");
            wakes.into_iter().map(|wakes| wakes.expect("the reader does not panic")).sum()
        });
        let stats = hub.stats();
        assert_eq!(stats.empty_wakes, 0);
        // A reader that meets a wake of its slot's last owner wakes itself, which nobody counts.
        assert!(stats.wakes <= u64::try_from(wakes).expect("small"));
        assert_eq!((stats.readers, stats.topics), (0, 0));
    });
}

// crossbeam #971, RUSTSEC-2025-0024: blocks were freed twice, or not, when both ends went at once.
#[test]
fn every_payload_is_dropped_once_when_all_ends_go_at_once() {
    const ROUNDS: usize = 300;
    const EVENTS: usize = 200;
    within_limit(|| {
        for _ in 0..ROUNDS {
            let ledger = Ledger::new(EVENTS);
            let (mut publisher, hub) = Builder::<u64, Counted>::new().retain_events(40).build();
            let start = Arc::new(Barrier::new(4));
            let readers: Vec<_> = (0..3)
                .map(|reader| {
                    let (mut sub, start) = (hub.subscribe(&1), Arc::clone(&start));
                    thread::spawn(move || {
                        start.wait();
                        let held: Vec<_> = (0..reader * 30).filter_map(|_| sub.try_recv().ok()).collect();
                        drop(sub);
                        drop(held);
                    })
                })
                .collect();
            start.wait();
            for number in 0..EVENTS {
                publisher.publish(&1, ledger.payload(number));
            }
            drop((publisher, hub));
            for reader in readers {
                reader.join().expect("no panic");
            }
            ledger.assert_each_dropped_once();
        }
    });
}

// bus #5, tokio #2123: a close that fell between a reader's look and its wait was never seen.
#[test]
fn close_racing_with_a_wait_always_ends_it() {
    within_limit(|| {
        race(1_000, || {
            let (publisher, hub) = hub::<u64, u64>();
            let mut sub = hub.subscribe(&1);
            (move || drop(publisher), move || assert!(sub.recv_blocking().is_err()))
        });
        race(1_000, || {
            let (publisher, hub) = hub::<u64, u64>();
            let mut sub = hub.subscribe(&1);
            (
                move || {
                    hub.close(&1, CloseReason::KeyClosed);
                },
                move || {
                    assert!(block_on(sub.recv()).is_err());
                    drop(publisher);
                },
            )
        });
    });
}

// etcd StressWatchCancelClose, nomad: subscribe against shutdown must end or be refused, never hang.
#[test]
fn subscribe_racing_with_shutdown_never_hangs() {
    within_limit(|| {
        race(1_000, || {
            let (publisher, hub) = hub::<u64, u64>();
            let closing = hub.clone();
            (
                move || closing.shutdown(CloseReason::Shutdown),
                move || {
                    let reason = hub.subscribe(&1).recv_blocking().expect_err("nothing is published").reason().clone();
                    assert_eq!(reason, CloseReason::Shutdown);
                    assert!(block_on(hub.wait_for_reader(&2)).is_err());
                    assert_eq!(hub.topics(), 0);
                    drop(publisher);
                },
            )
        });
    });
}

#[test]
fn all_readers_get_the_same_reason_from_two_shutdowns_at_once() {
    within_limit(|| {
        race(300, || {
            // Many keys: they are closed one after the other.
            let (publisher, hub) = hub::<u64, u64>();
            let subs: Vec<_> = (0..300).map(|key| hub.subscribe(&key)).collect();
            let closing = hub.clone();
            (
                move || closing.shutdown(CloseReason::Other("first".into())),
                move || {
                    hub.shutdown(CloseReason::Other("second".into()));
                    // It is through with every key, whichever of the two gave the reason.
                    let reason_of =
                        |mut sub: Subscription<u64, u64>| sub.recv_blocking().expect_err("nothing is published").reason().clone();
                    let first = reason_of(hub.subscribe(&1_000));
                    for sub in subs {
                        assert_eq!(reason_of(sub), first);
                    }
                    drop(publisher);
                },
            )
        });
    });
}

// tokio #4618: a parked reader that is dropped while it is being woken, from another thread.
#[test]
fn reader_dropped_while_it_is_woken_harms_nobody() {
    within_limit(|| {
        let ledger = Ledger::new(2_000);
        let (publisher, hub) = Builder::<u64, Counted>::new().build();
        let publisher = publisher.shared();
        let mut wakers = Vec::new();
        race(2_000, || {
            let (mut leaves, mut stays) = (hub.subscribe(&1), hub.subscribe(&1));
            let (leaving, staying) = (CountingWaker::new(), CountingWaker::new());
            park(&mut leaves, &leaving);
            park(&mut stays, &staying);
            let number = wakers.len();
            wakers.push(leaving);
            let (publisher, payload) = (publisher.clone(), ledger.payload(number));
            (
                move || {
                    publisher.publish(&1, payload);
                    assert_eq!(staying.wakes(), 1);
                    assert_eq!(event(stays.try_recv().expect("published")).number, number);
                },
                move || drop(leaves),
            )
        });
        for waker in &wakers {
            assert!(waker.wakes() <= 1);
            assert_eq!(Arc::strong_count(waker), 1, "a waker was left behind");
        }
        drop((publisher, hub));
        ledger.assert_each_dropped_once();
    });
}

// `position()` of a caught-up reader against publishes: it must never run ahead of an event of the key.
#[test]
fn position_read_during_publishes_never_overtakes_an_event() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(1 << 16).build();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| keep_publishing(&mut publisher, 2, &stop));
            let mut sub = hub.subscribe(&1);
            let mut last = 0;
            for _ in 0..100_000 {
                let before = sub.position().seq();
                assert!(before >= last);
                if let Ok(received) = sub.try_recv() {
                    let event = event(received);
                    assert!(event.seq() > before, "position {before} promised event {}", event.seq());
                    last = event.seq();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

const SERVICES: u64 = 5;
const CHANGES: u64 = 5_000;

/// Takes what is there into the view: the newest value of each service.
fn update(view: &mut [u64], subs: &mut [Subscription<u64, (u64, u64)>]) {
    for ((service, sub), value) in (0..).zip(subs).zip(view) {
        while let Ok(received) = sub.try_recv() {
            let got = event(received);
            assert_eq!(*got, (service, got.seq() * service));
            *value = got.1;
        }
    }
}

fn view_at_the_end(subs: &mut [Subscription<u64, (u64, u64)>], done: &AtomicBool) -> Vec<u64> {
    let mut view = vec![0; subs.len()];
    while !done.load(Ordering::SeqCst) {
        update(&mut view, subs);
        thread::yield_now();
    }
    update(&mut view, subs);
    view
}

// consul store_integration_test: whatever a consumer reports for an index equals the producers' model at that index.
#[test]
fn views_kept_by_readers_equal_the_model() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<u64, (u64, u64)>::new().retain_events(1 << 13).build();
        let done = AtomicBool::new(false);
        // The model: the value of service `s` is `n * s`, where `n` is the seq of its last change.
        let model: Vec<u64> = (0..SERVICES).map(|service| (CHANGES - (CHANGES - service) % SERVICES) * service).collect();
        thread::scope(|scope| {
            for _ in 0..4 {
                let (done, model) = (&done, &model);
                let mut subs: Vec<_> = (0..SERVICES).map(|service| hub.subscribe(&service)).collect();
                scope.spawn(move || assert_eq!(view_at_the_end(&mut subs, done), *model));
            }
            for seq in 1..=CHANGES {
                let service = seq % SERVICES;
                publisher.publish(&service, (service, seq * service));
            }
            done.store(true, Ordering::SeqCst);
        });
    });
}
