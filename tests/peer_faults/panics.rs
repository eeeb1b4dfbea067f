//! User code that panics must cost nobody else anything.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use keywake::{Builder, CloseReason, Hub, Publisher, Start, Subscription, hub};

use crate::support::{CountingWaker, assert_closed, drain, next_event, park};

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("the waker panics");
    }
}

/// Forty parked readers, some of them with a waker that panics; the counting ones are returned.
fn forty_readers(hub: &Hub<String, u64>, panicking: &[usize]) -> (Vec<Subscription<String, u64>>, Vec<Arc<CountingWaker>>) {
    let bad = Waker::from(Arc::new(PanickingWaker));
    let mut counting = Vec::new();
    let subs = (0..40)
        .map(|n| {
            let mut sub = hub.subscribe("a");
            if panicking.contains(&n) {
                assert!(sub.poll_recv(&mut Context::from_waker(&bad)).is_pending());
            } else {
                let waker = CountingWaker::new();
                park(&mut sub, &waker);
                counting.push(waker);
            }
            sub
        })
        .collect();
    (subs, counting)
}

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

// tokio broadcast (review of #5578): 0 of the other 39 were woken.
#[test]
fn panicking_waker_costs_none_of_the_other_39_its_wake() {
    for bad in [0, 1, 17, 39] {
        let (mut publisher, hub) = hub::<String, u64>();
        let (mut subs, counting) = forty_readers(&hub, &[bad]);
        assert!(panics(|| {
            publisher.publish("a", 1);
        }));
        assert_eq!(counting.len(), 39);
        assert!(counting.iter().all(|waker| waker.wakes() == 1));
        // The event is published, and the hub works on.
        assert!(subs.iter_mut().all(|sub| drain(sub) == [1]));
        assert_eq!(publisher.publish("a", 2).seq, 2);
        assert!(subs.iter_mut().all(|sub| drain(sub) == [2]));
    }
}

#[test]
fn two_panicking_wakers_do_not_abort_the_process() {
    let (publisher, hub) = hub::<String, u64>();
    let publisher = publisher.shared();
    let (mut subs, counting) = forty_readers(&hub, &[3, 4, 39]);
    assert!(panics(|| {
        publisher.publish("a", 1);
    }));
    assert!(counting.iter().all(|waker| waker.wakes() == 1));
    // The mutex of the shared publisher is not poisoned.
    publisher.publish("a", 2);
    assert!(subs.iter_mut().all(|sub| drain(sub) == [1, 2]));
}

#[test]
fn panicking_waker_of_one_key_costs_no_other_key_of_a_batch_its_wake() {
    let (mut publisher, hub) = hub::<String, u64>();
    let (_subs, counting) = forty_readers(&hub, &[0]);
    let mut other = hub.subscribe("b");
    let waker = CountingWaker::new();
    park(&mut other, &waker);
    assert!(panics(|| {
        publisher.publish_batch([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }));
    assert!(counting.iter().all(|waker| waker.wakes() == 1));
    assert_eq!((waker.wakes(), drain(&mut other)), (1, vec![2]));
}

#[test]
fn panicking_waker_costs_no_reader_of_its_key_the_news_of_the_close() {
    let (_publisher, hub) = hub::<String, u64>();
    let (mut subs, counting) = forty_readers(&hub, &[5, 6]);
    assert!(panics(|| {
        hub.close("a", CloseReason::KeyClosed);
    }));
    assert!(counting.iter().all(|waker| waker.wakes() == 1));
    for sub in &mut subs {
        assert_closed(sub);
    }
}

#[test]
fn panicking_waker_costs_no_key_the_news_of_the_end() {
    type End = fn(Publisher<String, u64>, &Hub<String, u64>);
    let ends: [End; 2] = [|_publisher, hub| hub.shutdown(CloseReason::Shutdown), |publisher, _| drop(publisher)];
    for end in ends {
        let (publisher, hub) = hub::<String, u64>();
        let (mut subs, counting) = forty_readers(&hub, &[5, 6]);
        // Many keys: wherever the panicking one stands among them, some are before and some behind it.
        let mut others: Vec<_> = (0..300).map(|key| hub.subscribe(&key.to_string())).collect();
        let wakers: Vec<_> = others.iter().map(|_| CountingWaker::new()).collect();
        for (sub, waker) in others.iter_mut().zip(&wakers) {
            park(sub, waker);
        }
        assert!(panics(|| end(publisher, &hub)));
        assert!(hub.is_shutdown());
        let forgotten = counting.iter().chain(&wakers).filter(|waker| waker.wakes() != 1).count();
        assert_eq!(forgotten, 0, "readers were forgotten");
        for sub in subs.iter_mut().chain(&mut others) {
            assert_closed(sub);
        }
        assert_closed(&mut hub.subscribe("new"));
        assert_eq!(hub.topics(), 0);
    }
}

/// A payload that panics when it is dropped, once armed.
struct Explosive {
    armed: Arc<AtomicBool>,
}

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "the payload panics in its drop");
    }
}

// Our own rule ("one that panics costs no other reader its wake") for the other piece of user code in a publish.
#[test]
fn payload_whose_drop_panics_costs_no_reader_its_wake() {
    let (publisher, hub) = Builder::<String, Explosive>::new().retain_events(16).build();
    let publisher = publisher.shared();
    let armed = Arc::new(AtomicBool::new(false));
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    let mut exploded = 0;
    for round in 0..1_000 {
        while sub.try_recv().is_ok() {}
        park(&mut sub, &waker);
        armed.store(round % 5 == 4, Ordering::SeqCst);
        if panics(|| {
            publisher.publish("a", Explosive { armed: Arc::clone(&armed) });
        }) {
            exploded += 1;
        }
        armed.store(false, Ordering::SeqCst);
        assert_eq!(waker.wakes(), round + 1, "round {round}");
    }
    assert!(exploded > 0, "no event was dropped by a publish");
}

#[test]
fn payload_whose_drop_panics_when_the_reader_leaves_does_not_leave_the_topic_behind() {
    let (mut publisher, hub) = hub::<String, Explosive>();
    let armed = Arc::new(AtomicBool::new(false));
    let sub = hub.subscribe("a");
    for _ in 0..10 {
        publisher.publish("a", Explosive { armed: Arc::clone(&armed) });
    }
    armed.store(true, Ordering::SeqCst);
    let _ = panics(|| drop(sub));
    armed.store(false, Ordering::SeqCst);
    assert_eq!((hub.topics(), hub.readers("a")), (0, 0));
    let mut again = hub.subscribe("a");
    publisher.publish("a", Explosive { armed });
    assert_eq!(next_event(&mut again).seq(), 11);
}

// The weigher is user code as well, and under nobody's lock.
#[test]
fn panicking_weigher_leaves_a_working_hub() {
    let (publisher, hub) = Builder::<String, u64>::new()
        .retain_bytes(1 << 20, |value| {
            assert_ne!(*value, 13, "the weigher panics");
            8
        })
        .build();
    let publisher = publisher.shared();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    assert!(panics(|| {
        publisher.publish("a", 13);
    }));
    publisher.publish("a", 1);
    assert_eq!(waker.wakes(), 1);
    let mut values = Vec::new();
    while let Ok(received) = sub.try_recv() {
        values.push(*crate::support::event(received));
    }
    assert_eq!(values, [1]);
}

/// A waker that panics when it is dropped.
struct BadDrop;

impl Wake for BadDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for BadDrop {
    fn drop(&mut self) {
        panic!("the waker panics in its drop");
    }
}

// A waker that panics while it is being replaced or dropped belongs to its own reader.
#[test]
fn waker_that_panics_in_its_drop_does_not_break_the_key() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let bad = Waker::from(Arc::new(BadDrop));
    assert!(sub.poll_recv(&mut Context::from_waker(&bad)).is_pending());
    drop(bad);
    let good = CountingWaker::new();
    let replaced = panics(|| park(&mut sub, &good));
    if replaced {
        park(&mut sub, &good);
    }
    publisher.publish("a", 1);
    assert_eq!(good.wakes(), 1);
    assert_eq!(drain(&mut sub), [1]);
    drop(sub);
    assert_eq!(hub.topics(), 0);
}

// The next three were found in this crate: the panic went on before there was a subscription to be dropped, or before it had left, and
// so a reader that nobody has was counted for good, and its topic stayed.
#[test]
fn panicking_waker_of_who_waits_for_a_reader_leaves_no_reader_behind() {
    for has_topic in [false, true] {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(has_topic).build();
        if has_topic {
            publisher.publish("a", 1);
        }
        let mut waits = Box::pin(hub.wait_for_reader("a"));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(PanickingWaker)))).is_pending());
        assert!(panics(|| drop(hub.subscribe("a"))));
        assert_eq!(hub.readers("a"), 0);
        drop(waits);
        hub.close("a", CloseReason::KeyClosed);
        assert_eq!(hub.topics(), 0);
        let mut again = hub.subscribe("a");
        let value = publisher.publish("a", 2).seq;
        assert_eq!(drain(&mut again), [value]);
    }
}

#[test]
fn payload_whose_drop_panics_when_a_reader_comes_leaves_no_reader_behind() {
    let (mut publisher, hub) = Builder::<String, Explosive>::new().retain_for(Duration::from_millis(1)).build();
    let armed = Arc::new(AtomicBool::new(false));
    let keeper = hub.subscribe("a");
    publisher.publish("a", Explosive { armed: Arc::clone(&armed) });
    std::thread::sleep(Duration::from_millis(50));
    armed.store(true, Ordering::SeqCst);
    assert!(panics(|| drop(hub.subscribe_from("a", Start::Oldest))), "the event expired and was dropped");
    assert_eq!(hub.readers("a"), 1);
    drop(keeper);
    assert_eq!((hub.readers("a"), hub.topics()), (0, 0));
    let mut again = hub.subscribe("a");
    publisher.publish("a", Explosive { armed });
    assert_eq!(next_event(&mut again).seq(), 2);
}

#[test]
fn waker_that_panics_in_its_drop_when_its_reader_leaves_does_not_leave_the_reader_behind() {
    // The first reader of a key waits in another place than the others.
    for others in [0, 1, 40] {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut stay: Vec<_> = (0..others).map(|_| hub.subscribe("a")).collect();
        for sub in &mut stay {
            park(sub, &CountingWaker::new());
        }
        let mut leaves = hub.subscribe("a");
        assert!(leaves.poll_recv(&mut Context::from_waker(&Waker::from(Arc::new(BadDrop)))).is_pending());
        assert!(panics(|| drop(leaves)));
        assert_eq!((hub.readers("a"), hub.topics()), (others, others.min(1)));
        assert_eq!(publisher.publish("a", 1).readers, others);
        assert!(stay.iter_mut().all(|sub| drain(sub) == [1]));
        drop(stay);
        assert_eq!((hub.readers("a"), hub.topics()), (0, 0));
    }
}
