//! Blocked threads: one is woken, and wakes the next; a wake is never swallowed.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use keywake::{Builder, CloseReason, Hub, Received};

use crate::support::{CountingWaker, drain, park, within_limit};

/// Threads that block on a key until they have received `events`.
fn blocked(hub: &Hub<String, u64>, number: usize, events: u64) -> Vec<thread::JoinHandle<()>> {
    let ready = Arc::new(Barrier::new(number + 1));
    let threads = (0..number)
        .map(|_| {
            let (mut reader, ready) = (hub.subscribe("key"), Arc::clone(&ready));
            thread::spawn(move || {
                ready.wait();
                let mut last = 0;
                while last < events {
                    match reader.recv_blocking() {
                        Ok(Received::Event(event)) => last = *event,
                        other => panic!("expected an event: {other:?}"),
                    }
                }
            })
        })
        .collect();
    ready.wait();
    threads
}

#[test]
fn every_blocked_thread_receives_every_event() {
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let threads = blocked(&hub, 64, 50);
        for event in 1..=50 {
            publisher.publish("key", event);
            thread::sleep(Duration::from_millis(1));
        }
        for thread in threads {
            thread.join().expect("it received everything");
        }
        assert_eq!(hub.stats().empty_wakes, 0);
    });
}

/// More threads than a row has slots: one that was woken looks for the next ones while its waker's pass is still under way.
#[test]
fn threads_of_many_rows_receive_every_event() {
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let threads = blocked(&hub, 400, 20);
        for event in 1..=20 {
            thread::sleep(Duration::from_millis(20));
            publisher.publish("key", event);
        }
        for thread in threads {
            thread.join().expect("it received everything");
        }
        assert_eq!(hub.stats().empty_wakes, 0);
    });
}

#[test]
fn publish_to_blocked_threads_wakes_one_and_they_wake_each_other() {
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let threads = blocked(&hub, 32, 1);
        // All of them are parked when nothing changes any more.
        thread::sleep(Duration::from_millis(200));
        publisher.publish("key", 1);
        for thread in threads {
            thread.join().expect("nobody sleeps on");
        }
        let stats = hub.stats();
        assert_eq!(stats.fan_outs, 1, "the publisher's one");
        assert!(stats.wakes <= 32, "{} wakes", stats.wakes);
    });
}

#[test]
fn threads_do_not_depend_on_a_relay_and_share_a_key_with_tasks() {
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let mut relay = Box::pin(hub.relay());
        let relays = CountingWaker::new();
        let waker = std::task::Waker::from(Arc::clone(&relays));
        assert!(relay.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        let (mut task, tasks) = (hub.subscribe("key"), CountingWaker::new());
        park(&mut task, &tasks);
        let threads = blocked(&hub, 8, 1);
        thread::sleep(Duration::from_millis(50));
        publisher.publish("key", 1);
        for thread in threads {
            thread.join().expect("the relay was not polled, and is not needed");
        }
        assert_eq!(tasks.wakes(), 0, "it is the relay's");
        assert!(relay.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        assert_eq!(tasks.wakes(), 1);
        assert_eq!(drain(&mut task), [1]);
    });
}

#[test]
fn thread_that_times_out_hands_the_wake_on() {
    within_limit(|| {
        let (publisher, hub) = keywake::hub::<String, u64>();
        let publisher = publisher.shared();
        let late = Arc::new(AtomicUsize::new(0));
        // Threads that give up at about the time at which they are woken, among others that do not.
        let mut threads = Vec::new();
        for number in 0..16_u32 {
            let mut reader = hub.subscribe("key");
            let late = Arc::clone(&late);
            let mut receive = move || {
                if number % 2 == 1 {
                    return reader.recv_blocking().map_err(|closed| panic!("{closed}"));
                }
                reader.recv_timeout(Duration::from_micros(u64::from(number) * 20))
            };
            threads.push(thread::spawn(move || {
                let mut last = 0;
                while last < 300 {
                    match receive() {
                        Ok(Received::Event(event)) => last = *event,
                        Ok(other) => panic!("expected an event: {other:?}"),
                        Err(_) => drop(late.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            }));
        }
        for event in 1..=300 {
            publisher.publish("key", event);
            thread::sleep(Duration::from_micros(150));
        }
        for thread in threads {
            thread.join().expect("nobody sleeps on");
        }
        assert!(late.load(Ordering::Relaxed) > 0, "some gave up");
    });
}

#[test]
fn close_wakes_every_blocked_thread() {
    within_limit(|| {
        let (publisher, hub) = Builder::<String, u64>::new().build();
        let threads: Vec<_> = (0..32)
            .map(|_| {
                let mut reader = hub.subscribe("key");
                thread::spawn(move || reader.recv_blocking().map(|_| ()))
            })
            .collect();
        thread::sleep(Duration::from_millis(50));
        hub.close("key", CloseReason::KeyClosed);
        for thread in threads {
            assert!(thread.join().expect("it does not panic").is_err());
        }
        drop(publisher);
    });
}

#[test]
fn reader_blocks_as_a_thread_and_then_waits_as_a_task_of_its_relay() {
    within_limit(|| {
        let (mut publisher, hub) = keywake::hub::<String, u64>();
        let mut relay = Box::pin(hub.relay());
        let relays = CountingWaker::new();
        let waker = std::task::Waker::from(Arc::clone(&relays));
        assert!(relay.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        let mut reader = hub.subscribe("key").on(&relay.handle());
        assert!(reader.recv_timeout(Duration::from_millis(1)).is_err());
        let tasks = CountingWaker::new();
        park(&mut reader, &tasks);
        publisher.publish("key", 1);
        assert_eq!(tasks.wakes(), 0, "it is still bound");
        assert!(relay.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        assert_eq!(tasks.wakes(), 1);
    });
}
