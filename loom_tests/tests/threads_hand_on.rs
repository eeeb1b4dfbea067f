//! Of the threads that block on a key one is woken and wakes the next: none sleeps on, however those before it leave.

use std::time::Duration;

use keywake::{Received, RecvTimeoutError, Subscription};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, model_within, race, race3, spawn};

/// Blocks until there is an event.
fn blocking(mut reader: Subscription<u8, Payload>) {
    match reader.recv_blocking() {
        Ok(Received::Event(event)) => assert_eq!(event.seq(), 1),
        other => panic!("expected an event: {other:?}"),
    }
}

#[test]
fn two_blocked_threads_against_publish() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (one, two) = (hub.subscribe(&KEY), hub.subscribe(&KEY));
        let event = payloads.make(1);
        let ((), (), publisher) = race3(
            move || blocking(one),
            move || blocking(two),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// Blocks until each of two events is there.
fn blocking_twice(mut reader: Subscription<u8, Payload>) {
    for seq in 1..=2 {
        match reader.recv_blocking() {
            Ok(Received::Event(event)) => assert_eq!(event.seq(), seq),
            other => panic!("expected an event: {other:?}"),
        }
    }
}

/// The thread blocks anew, having seen all, while the wake for the first event is on its way.
#[test]
fn thread_that_blocks_anew_against_two_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let one = hub.subscribe(&KEY);
        let events = [payloads.make(1), payloads.make(2)];
        let ((), publisher) = race(
            move || blocking_twice(one),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// Two of them: the one that is woken may find the other to have seen all.
#[test]
fn two_threads_that_block_anew_against_two_publishes() {
    // Larger than all others together with one preemption: the stress run is what this is for.
    model_within(0, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (one, two) = (hub.subscribe(&KEY), hub.subscribe(&KEY));
        let events = [payloads.make(1), payloads.make(2)];
        let ((), (), publisher) = race3(
            move || blocking_twice(one),
            move || blocking_twice(two),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// The second event comes when the thread that the first one woke has left: nobody would hand on its wake, so the thread that stayed
/// parked has to be found.
#[test]
fn thread_that_blocks_anew_beside_one_that_leaves_and_publishes() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let (leaves, mut stays) = (hub.subscribe(&KEY), hub.subscribe(&KEY));
        let (first, second) = (payloads.make(1), payloads.make(2));
        let other = publisher.clone();
        let publishes = spawn(move || {
            other.publish(&KEY, first);
        });
        let stays = spawn(move || {
            // Where it comes too early for the first event there is nothing to be seen.
            if stays.try_recv().is_ok() {
                assert!(matches!(stays.recv_blocking(), Ok(Received::Event(event)) if event.seq() == 2));
            }
        });
        blocking(leaves);
        publisher.publish(&KEY, second);
        publishes.join().expect("the publisher");
        stays.join().expect("the thread that stays");
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn blocked_thread_against_one_that_times_out_against_publish() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (mut one, two) = (hub.subscribe(&KEY), hub.subscribe(&KEY));
        let event = payloads.make(1);
        let ((), (), publisher) = race3(
            move || match one.recv_timeout(Duration::ZERO) {
                // It leaves in either case, with a wake in its hands or without.
                Ok(Received::Event(event)) => assert_eq!(event.seq(), 1),
                Err(RecvTimeoutError::Timeout) => {}
                other => panic!("expected an event or nothing: {other:?}"),
            },
            move || blocking(two),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn blocked_thread_and_parked_task_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (one, mut two) = (hub.subscribe(&KEY), Sleeper::new(hub.subscribe(&KEY)));
        assert!(two.poll().is_pending(), "nothing yet");
        let event = payloads.make(1);
        let ((), publisher) = race(
            move || blocking(one),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert!(two.was_woken());
        two.judge();
        drop((publisher, hub, two));
        payloads.assert_all_dropped();
    });
}

#[test]
fn blocked_thread_against_close() {
    model(|| {
        let (publisher, hub) = builder().build();
        let mut one = hub.subscribe(&KEY);
        let ((), ()) = race(move || assert!(one.recv_blocking().is_err()), move || drop(publisher));
        drop(hub);
    });
}
