//! Waits that are given up, and what they must not leave behind.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use keywake::{Hub, RecvTimeoutError, hub};

use crate::support::{CountingWaker, LIMIT, assert_empty, drain, event, next_event, park, poll, within_limit};

// flume #135, #120, iroh #2536: the cancelled future owned the message.
#[test]
fn cancelled_recv_loses_no_event() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    let task = Waker::from(Arc::clone(&waker));
    let mut cx = Context::from_waker(&task);
    for value in 1..=10 {
        {
            let mut cancelled = pin!(sub.recv());
            assert!(cancelled.as_mut().poll(&mut cx).is_pending());
            publisher.publish("a", value);
            // Woken, not polled again, dropped.
        }
        // Not even polled.
        drop(sub.recv());
        assert_eq!(*next_event(&mut sub), value);
    }
}

// The same for the other futures.
#[test]
fn cancelled_recv_ref_and_recv_many_lose_no_event() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let mut cx = Context::from_waker(Waker::noop());
    let mut buf = Vec::new();
    {
        assert!(pin!(sub.recv_ref()).poll(&mut cx).is_pending());
    }
    publisher.publish("a", 1);
    drop(sub.recv_ref());
    drop(sub.recv_many(&mut buf, 5));
    assert_eq!(next_event(&mut sub).seq(), 1);
    {
        assert!(pin!(sub.recv_many(&mut buf, 5)).poll(&mut cx).is_pending());
        publisher.publish("a", 2);
    }
    assert!(buf.is_empty());
    assert_eq!(drain(&mut sub), [2]);
}

// mini-redis #38, tokio #2509: the waiter of a cancelled recv stayed until the next send.
#[test]
fn cancelled_recv_leaves_no_waker_behind() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    for form in 0..4 {
        let task = Waker::from(Arc::clone(&waker));
        let mut cx = Context::from_waker(&task);
        let mut buf = Vec::new();
        let is_pending = match form {
            0 => pin!(sub.recv()).poll(&mut cx).is_pending(),
            1 => pin!(sub.recv_ref()).poll(&mut cx).is_pending(),
            2 => pin!(sub.recv_many(&mut buf, 5)).poll(&mut cx).is_pending(),
            _ => sub.poll_recv(&mut cx).is_pending() && sub.recv_timeout(Duration::ZERO).is_err(),
        };
        assert!(is_pending);
        drop(task);
        assert_eq!(Arc::strong_count(&waker), 1, "somebody still holds the waker of form {form}");
    }
    publisher.publish("a", 1);
    assert_eq!((waker.wakes(), hub.stats().wakes), (0, 0));
    assert_eq!(drain(&mut sub), [1]);
}

// consul #6866, #3941, nomad #27312: the waiter outlived its subscription.
#[test]
fn dropped_reader_leaves_no_waker_behind() {
    let (mut publisher, hub) = hub::<String, u64>();
    let _keeper = hub.subscribe("a");
    let waker = CountingWaker::new();
    for _ in 0..100 {
        let mut sub = hub.subscribe("a");
        park(&mut sub, &waker);
        assert!(Arc::strong_count(&waker) >= 2);
        drop(sub);
        assert_eq!(Arc::strong_count(&waker), 1);
    }
    publisher.publish("a", 1);
    assert_eq!((waker.wakes(), hub.readers("a")), (0, 1));
}

#[test]
fn woken_reader_leaves_no_waker_behind() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish("a", 1);
    assert_eq!((waker.wakes(), Arc::strong_count(&waker)), (1, 1), "a wake uses the waker up");
}

// tokio #4618, #3652: the chosen waiter was dropped and its notification with it.
#[test]
fn dropped_reader_that_was_already_woken_takes_nobodys_wake_along() {
    for dropped in 0..3 {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut subs: Vec<_> = (0..3).map(|_| hub.subscribe("a")).collect();
        let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
        for (sub, waker) in subs.iter_mut().zip(&wakers) {
            park(sub, waker);
        }
        publisher.publish("a", 1);
        drop(subs.remove(dropped));
        assert!(wakers.iter().all(|waker| waker.wakes() == 1));
        for sub in &mut subs {
            assert_eq!(drain(sub), [1]);
        }
        // The freed place is used again, and its new owner is woken, not the old one.
        let (mut new, waker) = (hub.subscribe("a"), CountingWaker::new());
        park(&mut new, &waker);
        publisher.publish("a", 2);
        assert_eq!((waker.wakes(), wakers[dropped].wakes()), (1, 1));
    }
}

// n0-watcher #45, rust-lightning #2874, flume #88, #103, #182: every poll in a `select!` pushed one more waker.
#[test]
fn idle_polls_with_ever_new_wakers_keep_one_registration() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let mut wakers: Vec<Weak<CountingWaker>> = Vec::new();
    for _ in 0..100_000 {
        let waker = CountingWaker::new();
        park(&mut sub, &waker);
        wakers.push(Arc::downgrade(&waker));
    }
    assert!(wakers.iter().filter(|waker| waker.strong_count() > 0).count() <= 1, "old wakers pile up");
    let last = CountingWaker::new();
    park(&mut sub, &last);
    publisher.publish("a", 1);
    assert_eq!((last.wakes(), hub.stats().wakes), (1, 1));
}

// The same through a cancelled future per round, as a `select!` loop does it.
#[test]
fn select_loop_over_a_quiet_key_keeps_no_registration() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    for _ in 0..100_000 {
        let task = Waker::from(Arc::clone(&waker));
        assert!(pin!(sub.recv()).poll(&mut Context::from_waker(&task)).is_pending());
    }
    assert_eq!(Arc::strong_count(&waker), 1);
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn select_in_a_runtime_loses_no_event() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        let writer = tokio::spawn(async move {
            for value in 0..2_000 {
                publisher.publish("a", value);
                if value % 3 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut values = Vec::new();
        while values.len() < 2_000 {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                received = sub.recv() => values.push(*event(received.expect("buffered"))),
            }
        }
        assert_eq!(values, (0..2_000).collect::<Vec<_>>());
        writer.await.expect("the writer does not panic");
    });
}

// consul #9647: a cancelled wait lingered until its timeout.
#[test]
fn timed_out_wait_is_over_and_costs_the_next_publish_nothing() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    for _ in 0..20 {
        assert!(matches!(sub.recv_timeout(Duration::from_micros(50)), Err(RecvTimeoutError::Timeout)));
    }
    for value in 0..100 {
        publisher.publish("a", value);
    }
    // The first publish may look whether somebody still waits.
    assert_eq!(hub.stats().wakes, 0);
    assert!(hub.stats().fan_outs <= 1);
    assert_eq!(drain(&mut sub).len(), 100);
}

// Context cancelled in Consul's Next: the subscription stays open and usable.
#[test]
fn subscription_goes_on_after_a_cancelled_wait() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    {
        let task = Waker::from(CountingWaker::new());
        assert!(pin!(sub.recv()).poll(&mut Context::from_waker(&task)).is_pending());
    }
    park(&mut sub, &waker);
    publisher.publish("a", 1);
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut sub, &waker).is_ready());
    assert_empty(&mut sub);
}

// tokio #4618 for threads: a reader that gives up just when it is chosen must not swallow the wake of the others.
#[test]
fn threads_that_give_up_do_not_swallow_the_wake_of_those_who_wait() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let patient: Vec<_> = (0..4).map(|_| spawn_reader(&hub, LIMIT)).collect();
        let hasty: Vec<_> = (0..4).map(|n| spawn_reader(&hub, Duration::from_micros(10 * n + 1))).collect();
        for value in 0..300 {
            publisher.publish("a", value);
            if value % 2 == 0 {
                thread::sleep(Duration::from_micros(30));
            }
        }
        for reader in patient.into_iter().chain(hasty) {
            reader.join().expect("every reader gets every event");
        }
    });
}

/// A thread that reads the values 0 to 299, each within some waits of this length.
fn spawn_reader(hub: &Hub<String, u64>, patience: Duration) -> thread::JoinHandle<()> {
    let mut sub = hub.subscribe("a");
    thread::spawn(move || {
        let mut next = 0;
        while next < 300 {
            match sub.recv_timeout(patience) {
                Ok(received) => {
                    assert_eq!(*event(received), next);
                    next += 1;
                }
                Err(RecvTimeoutError::Timeout) => assert!(patience < LIMIT, "the wake was swallowed"),
                Err(RecvTimeoutError::Closed(_)) => panic!("closed before the last event"),
            }
        }
    })
}
