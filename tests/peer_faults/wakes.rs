//! Who is woken by what, and how often.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, Wake, Waker},
};

use keywake::{CloseReason, Hub, Start, Subscription, hub};

use crate::support::{CountingWaker, assert_empty, drain, next_event, park, poll};

// consul #12080, elixir #14654, nomad (one buffer for all): every publish made every reader runnable.
#[test]
fn publish_to_one_key_wakes_no_reader_of_another() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let mut others: Vec<_> = (1..=1_000).map(|key| hub.subscribe(&key)).collect();
    let wakers: Vec<_> = others.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in others.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    for value in 0..100 {
        publisher.publish(&0, value);
        publisher.publish(&(5_000 + value), value);
    }
    publisher.publish_batch((0..10).map(|key| (key * 10_000, 0)));
    drop(hub.subscribe(&0));
    hub.close(&0, CloseReason::KeyClosed);
    assert!(wakers.iter().all(|waker| waker.wakes() == 0));
    assert_eq!(hub.stats().wakes, 0);
    // And the readers are not just deaf.
    publisher.publish(&500, 1);
    let woken: Vec<_> = (1..).zip(&wakers).filter(|(_, waker)| waker.wakes() > 0).map(|(key, _)| key).collect();
    assert_eq!(woken, [500]);
}

// tokio #5396, #3168: one notification satisfied two waits.
#[test]
fn one_publish_wakes_each_parked_reader_exactly_once() {
    let (mut publisher, hub) = hub::<String, u64>();
    // More than one chunk and more than one summary word of waiting slots, and not a round number.
    let mut subs: Vec<_> = (0..2_100).map(|_| hub.subscribe("a")).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    for sub in &mut subs {
        assert_eq!(drain(sub), [1, 2]);
    }
    // Those who did not wait again are not woken again; the others are.
    for (sub, waker) in subs.iter_mut().zip(&wakers).step_by(3) {
        park(sub, waker);
    }
    publisher.publish("a", 3);
    for (n, waker) in wakers.iter().enumerate() {
        assert_eq!(waker.wakes(), if n % 3 == 0 { 2 } else { 1 }, "reader {n}");
    }
    assert_eq!((hub.stats().wakes, hub.stats().empty_wakes), (2_100 + 700, 0));
}

// tokio #5396: two waits of one task were satisfied by one notification.
#[test]
fn one_event_does_not_end_two_waits() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish("a", 1);
    assert!(poll(&mut sub, &waker).is_ready());
    park(&mut sub, &waker);
    assert_eq!(waker.wakes(), 1);
}

// tokio #8065: threads and tasks were woken although nobody could use it.
#[test]
fn nobody_is_woken_who_does_not_wait() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    publisher.publish("a", 1);
    assert_eq!(next_event(&mut sub).seq(), 1);
    publisher.publish("a", 2);
    // A poll that finds an event leaves no waker behind.
    assert!(poll(&mut sub, &waker).is_ready());
    publisher.publish("a", 3);
    assert_eq!((waker.wakes(), hub.stats().wakes, hub.stats().fan_outs), (0, 0, 0));
}

// tokio #3757, #2123: a notification that came before the first poll was gone; sequence numbers remember.
#[test]
fn publish_before_the_first_poll_is_not_missed() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let recv = sub.recv();
    publisher.publish("a", 1);
    let mut recv = std::pin::pin!(recv);
    assert!(recv.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

// Our own promise: a reader that took the event by itself is not woken for it later.
#[test]
fn reader_that_saw_the_event_by_itself_is_not_woken_for_it() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut subs: Vec<_> = (0..3).map(|_| hub.subscribe("a")).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    publisher.publish("a", 1);
    for sub in &mut subs {
        assert_eq!(drain(sub), [1]);
    }
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    assert_eq!(hub.stats().empty_wakes, 0);
}

/// A task that, when it is woken, at once takes what is there and waits again, from inside `wake`.
struct Eager {
    sub: Mutex<Subscription<String, u64>>,
    myself: Weak<Self>,
    got: Mutex<Vec<u64>>,
    woken: Mutex<usize>,
}

impl Eager {
    fn start(sub: Subscription<String, u64>) -> Arc<Self> {
        let task = Arc::new_cyclic(|myself| Self {
            sub: Mutex::new(sub),
            myself: Weak::clone(myself),
            got: Mutex::default(),
            woken: Mutex::default(),
        });
        task.run();
        task
    }

    fn run(&self) {
        let Some(myself) = self.myself.upgrade() else { return };
        let waker = Waker::from(myself);
        let mut sub = self.sub.lock().expect("not poisoned");
        while let Poll::Ready(Ok(received)) = sub.poll_recv(&mut Context::from_waker(&waker)) {
            let event = crate::support::event(received);
            self.got.lock().expect("not poisoned").push(*event);
        }
    }
}

impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().expect("not poisoned") += 1;
        self.run();
    }
}

// tokio #5923: a send re-read the live list while receivers re-queued: quadratic, minutes. postage: livelock.
#[test]
fn reader_that_waits_again_during_the_publish_is_not_woken_by_it_again() {
    let (mut publisher, hub) = hub::<String, u64>();
    let tasks: Vec<_> = (0..300).map(|_| Eager::start(hub.subscribe("a"))).collect();
    for value in 0..20 {
        publisher.publish("a", value);
    }
    for task in &tasks {
        assert_eq!(*task.woken.lock().expect("not poisoned"), 20);
        assert_eq!(*task.got.lock().expect("not poisoned"), (0..20).collect::<Vec<_>>());
    }
    assert_eq!(hub.stats().wakes, 300 * 20);
    hub.shutdown(CloseReason::Shutdown);
}

/// The same for new subscriptions: whoever subscribes during a fan-out belongs to the next one.
#[test]
fn reader_that_subscribes_during_the_publish_is_not_woken_by_it() {
    struct Joiner {
        hub: Hub<String, u64>,
        joined: Mutex<Vec<Parked>>,
    }
    type Parked = (Subscription<String, u64>, Arc<CountingWaker>);
    impl Wake for Joiner {
        fn wake(self: Arc<Self>) {
            let mut sub = self.hub.subscribe("a");
            let waker = CountingWaker::new();
            park(&mut sub, &waker);
            self.joined.lock().expect("not poisoned").push((sub, waker));
        }
    }

    let (mut publisher, hub) = hub::<String, u64>();
    let joiner = Arc::new(Joiner { hub: hub.clone(), joined: Mutex::default() });
    let task = Waker::from(Arc::clone(&joiner));
    let mut first: Vec<_> = (0..100).map(|_| hub.subscribe("a")).collect();
    for sub in &mut first {
        assert!(sub.poll_recv(&mut Context::from_waker(&task)).is_pending());
    }
    publisher.publish("a", 1);
    let joined = std::mem::take(&mut *joiner.joined.lock().expect("not poisoned"));
    assert_eq!(joined.len(), 100);
    assert!(joined.iter().all(|(_, waker)| waker.wakes() == 0));
    publisher.publish("a", 2);
    for (mut sub, waker) in joined {
        assert_eq!(waker.wakes(), 1);
        assert_eq!(drain(&mut sub), [2]);
    }
    for sub in &mut first {
        assert_eq!(drain(sub), [1, 2]);
    }
}

// n0-watcher #45 and flume: the task's latest waker counts, whatever was registered before.
#[test]
fn polling_from_another_task_moves_the_wake_there() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let (old, new) = (CountingWaker::new(), CountingWaker::new());
    park(&mut sub, &old);
    park(&mut sub, &old);
    park(&mut sub, &new);
    publisher.publish("a", 1);
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
    assert_eq!(drain(&mut sub), [1]);
    // And back.
    park(&mut sub, &new);
    park(&mut sub, &old);
    publisher.publish("a", 2);
    assert_eq!((old.wakes(), new.wakes()), (1, 1));
}

#[test]
fn one_task_that_waits_for_two_keys_is_woken_by_each() {
    let (mut publisher, hub) = hub::<String, u64>();
    let (mut a, mut b) = (hub.subscribe("a"), hub.subscribe("b"));
    let waker = CountingWaker::new();
    park(&mut a, &waker);
    park(&mut b, &waker);
    publisher.publish("a", 1);
    assert_eq!(waker.wakes(), 1);
    publisher.publish("b", 2);
    assert_eq!(waker.wakes(), 2);
    assert_eq!((drain(&mut a), drain(&mut b)), (vec![1], vec![2]));
}

// consul #14324, #10514: no counters told what waking costs; nobody could see it.
#[test]
fn counters_stay_exact_while_a_thousand_keys_churn() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let mut parked: VecDeque<(Subscription<u64, u64>, Arc<CountingWaker>)> = VecDeque::new();
    let mut wakes = 0;
    let mut random = 1_u64;
    for step in 0..50_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (random >> 33) % 1_000;
        match (random >> 17) % 4 {
            0 => {
                let mut sub = hub.subscribe_from(&key, Start::Next);
                let waker = CountingWaker::new();
                park(&mut sub, &waker);
                parked.push_back((sub, waker));
            }
            1 if parked.len() > 1_500 => {
                let (sub, waker) = parked.pop_front().expect("not empty");
                drop(sub);
                wakes += waker.wakes();
                assert_eq!(Arc::strong_count(&waker), 1, "step {step}");
            }
            2 => {
                if let Some((mut sub, waker)) = parked.pop_front() {
                    drain(&mut sub);
                    assert_empty(&mut sub);
                    park(&mut sub, &waker);
                    parked.push_back((sub, waker));
                }
            }
            _ => {
                publisher.publish(&key, random);
            }
        }
    }
    wakes += parked.iter().map(|(_, waker)| waker.wakes()).sum::<usize>();
    let stats = hub.stats();
    assert_eq!((stats.wakes, stats.empty_wakes), (u64::try_from(wakes).expect("small"), 0));
    assert!(wakes > 1_000, "the mix woke hardly anybody: {wakes}");
}
