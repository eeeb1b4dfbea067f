//! User code that uses the hub from where the hub calls it: wakers, drops of payloads, keys.
//!
//! tokio #5429, #5482, #5578, #8558, asyncband #125, ngx-rust #294, async-broadcast, event-listener, eyeball, fibre:
//! deadlocks, because the waker was cloned, woken or dropped under a lock.

use std::{
    borrow::Borrow,
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

use keywake::{Builder, CloseReason, Hub, SharedPublisher, Start, Subscription, hub};

use crate::{
    hooks::{Moment, hooked_waker},
    support::{CountingWaker, Ledger, assert_closed, drain, park, within_limit},
};

/// Everything that can be done to a hub, on the key that is being woken and on another.
fn use_everything(publisher: &SharedPublisher<String, u64>, hub: &Hub<String, u64>) {
    for key in ["a", "elsewhere"] {
        let mut sub = hub.subscribe(key);
        assert!(publisher.publish(key, 1_000).readers >= 1);
        assert!(sub.try_recv().is_ok());
        park(&mut sub, &CountingWaker::new());
        assert!(hub.readers(key) >= 1);
        assert!(hub.topic_stats(key).is_some());
        assert!(hub.stats().topics >= 1);
    }
    publisher.publish_batch([("a".to_owned(), 1_001), ("b".to_owned(), 1_002)]);
    hub.close("elsewhere", CloseReason::KeyClosed);
    hub.sweep(std::time::Instant::now());
    hub.for_each_topic(|_, _| {});
}

/// A waker that uses everything at the given moment, and counts how often it did.
fn busy_waker(publisher: &SharedPublisher<String, u64>, at: Moment) -> (Waker, Arc<AtomicUsize>) {
    let (publisher, hub) = (publisher.clone(), publisher.hub());
    let count = Arc::new(AtomicUsize::new(0));
    let waker = hooked_waker({
        let count = Arc::clone(&count);
        move |moment| {
            if moment == at {
                count.fetch_add(1, Ordering::SeqCst);
                use_everything(&publisher, &hub);
            }
        }
    });
    (waker, count)
}

#[test]
fn waker_may_use_the_hub_while_it_is_woken() {
    for position in [0, 10, 40] {
        within_limit(move || {
            let (publisher, hub) = hub::<String, u64>();
            let publisher = publisher.shared();
            let mut subs: Vec<_> = (0..41).map(|_| hub.subscribe("a")).collect();
            let (busy, woken) = busy_waker(&publisher, Moment::Wake);
            let counting: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
            for (n, (sub, waker)) in subs.iter_mut().zip(&counting).enumerate() {
                if n == position {
                    assert!(sub.poll_recv(&mut Context::from_waker(&busy)).is_pending());
                } else {
                    park(sub, waker);
                }
            }
            publisher.publish("a", 1);
            assert_eq!(woken.load(Ordering::SeqCst), 1);
            // The publishes from within the wake find the others still to be woken, or woken already: once, in any case.
            for (n, waker) in counting.iter().enumerate() {
                assert_eq!(waker.wakes(), usize::from(n != position), "reader {n}");
            }
            // And they published two more events to the key.
            assert!(subs.iter_mut().all(|sub| drain(sub).len() == 3));
            hub.shutdown(CloseReason::Shutdown);
        });
    }
}

#[test]
fn waker_may_use_the_hub_while_it_is_cloned_or_dropped() {
    for at in [Moment::Clone, Moment::Drop] {
        within_limit(move || {
            let (publisher, hub) = hub::<String, u64>();
            let publisher = publisher.shared();
            let (waker, count) = busy_waker(&publisher, at);
            let mut sub = hub.subscribe("quiet");
            // Registered, replaced by another and back, woken, given up, dropped.
            assert!(sub.poll_recv(&mut Context::from_waker(&waker)).is_pending());
            park(&mut sub, &CountingWaker::new());
            assert!(sub.poll_recv(&mut Context::from_waker(&waker)).is_pending());
            publisher.publish("quiet", 1);
            assert_eq!(drain(&mut sub).len(), 1);
            {
                let mut cancelled = std::pin::pin!(sub.recv());
                assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            assert!(sub.poll_recv(&mut Context::from_waker(&waker)).is_pending());
            drop(sub);
            drop(waker);
            assert!(count.load(Ordering::SeqCst) >= 2, "{at:?} was never seen");
            assert_eq!(hub.readers("quiet"), 0);
            hub.shutdown(CloseReason::Shutdown);
        });
    }
}

// tokio #8558: the waker of `closed()` ran under the tail lock, at teardown.
#[test]
fn waker_may_use_the_hub_while_the_key_or_the_hub_is_closed() {
    type End = fn(SharedPublisher<String, u64>, &Hub<String, u64>);
    let ends: [End; 3] = [
        |_, hub| assert!(hub.close("a", CloseReason::KeyClosed)),
        |_, hub| hub.shutdown(CloseReason::Shutdown),
        |publisher, _| drop(publisher),
    ];
    for end in ends {
        within_limit(move || {
            let (publisher, hub) = hub::<String, u64>();
            let mut sub = hub.subscribe("a");
            // Holds no publisher, or its drop would not be the last.
            let waker = CallsBack::waker(&hub);
            assert!(sub.poll_recv(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
            end(publisher.shared(), &hub);
            assert_eq!(waker.woken.load(Ordering::SeqCst), 1);
            assert_closed(&mut sub);
        });
    }
}

/// Uses what a `Hub` offers, ends included, whenever it is woken.
struct CallsBack {
    hub: Hub<String, u64>,
    woken: AtomicUsize,
}

impl CallsBack {
    fn waker(hub: &Hub<String, u64>) -> Arc<Self> {
        Arc::new(Self { hub: hub.clone(), woken: AtomicUsize::new(0) })
    }
}

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        let mut sub = self.hub.subscribe("a");
        let _ = sub.try_recv();
        drop((sub, self.hub.subscribe("elsewhere")));
        self.hub.for_each_topic(|_, _| {});
        let _ = (self.hub.readers("a"), self.hub.stats(), self.hub.is_shutdown());
        self.hub.close("a", CloseReason::KeyClosed);
        self.hub.shutdown(CloseReason::Shutdown);
    }
}

/// Subscriptions that wait to be dropped.
type Shelf = Arc<Mutex<Vec<Subscription<String, u64>>>>;

fn empty(shelf: &Shelf, moment: Moment) {
    if moment == Moment::Wake {
        let all = std::mem::take(&mut *shelf.lock().expect("not poisoned"));
        drop(all);
    }
}

// cskr/pubsub #6, #7: unsubscribing from within a delivery dead-locked.
#[test]
fn waker_may_drop_its_own_and_other_subscriptions() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let shelf = Shelf::default();
        let waker = hooked_waker({
            let shelf = Arc::clone(&shelf);
            move |moment| empty(&shelf, moment)
        });
        let mut subs: Vec<_> = (0..50).map(|_| hub.subscribe("a")).collect();
        for sub in &mut subs {
            assert!(sub.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        }
        let mut stays = hub.subscribe("a");
        let counting = CountingWaker::new();
        park(&mut stays, &counting);
        *shelf.lock().expect("not poisoned") = subs;
        publisher.publish("a", 1);
        assert_eq!((hub.readers("a"), counting.wakes()), (1, 1));
        assert_eq!(drain(&mut stays), [1]);
        publisher.publish("a", 2);
        assert_eq!(drain(&mut stays), [2]);
    });
}

#[test]
fn last_reader_may_leave_from_within_its_wake() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        for round in 0..100 {
            let shelf = Shelf::default();
            let waker = hooked_waker({
                let shelf = Arc::clone(&shelf);
                move |moment| empty(&shelf, moment)
            });
            let mut sub = hub.subscribe("a");
            assert!(sub.poll_recv(&mut Context::from_waker(&waker)).is_pending());
            *shelf.lock().expect("not poisoned") = vec![sub];
            publisher.publish("a", round);
            assert_eq!((hub.readers("a"), hub.topics()), (0, 0));
        }
        let mut sub = hub.subscribe("a");
        publisher.publish("a", 7);
        assert_eq!(drain(&mut sub), [101]);
    });
}

/// The way from a payload to the hub it lies in, until it is cut.
type Handles = Arc<Mutex<Option<(SharedPublisher<String, Busy>, Hub<String, Busy>)>>>;

/// A payload whose drop uses the hub it lies in.
struct Busy {
    hub: Handles,
    drops: Arc<AtomicUsize>,
    active: bool,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        if !self.active {
            return;
        }
        let handles = self.hub.lock().expect("not poisoned").clone();
        if let Some((publisher, hub)) = handles {
            let last_words = Self { hub: Arc::clone(&self.hub), drops: Arc::clone(&self.drops), active: false };
            publisher.publish("obituaries", last_words);
            drop(hub.subscribe_from("a", Start::Oldest));
            drop(hub.subscribe_from("obituaries", Start::Oldest));
            assert!(hub.stats().published >= 1);
        }
    }
}

struct BusyHub {
    publisher: SharedPublisher<String, Busy>,
    hub: Hub<String, Busy>,
    handles: Handles,
    drops: Arc<AtomicUsize>,
}

impl BusyHub {
    fn new() -> Self {
        let (publisher, hub) = Builder::new().retain_events(2).build();
        let publisher = publisher.shared();
        let handles = Arc::new(Mutex::new(Some((publisher.clone(), hub.clone()))));
        Self { publisher, hub, handles, drops: Arc::default() }
    }

    fn payload(&self) -> Busy {
        Busy { hub: Arc::clone(&self.handles), drops: Arc::clone(&self.drops), active: true }
    }

    /// The payloads hold the publisher that holds them: cut that before the end.
    fn end(self) {
        self.handles.lock().expect("not poisoned").take();
    }
}

#[test]
fn payload_may_publish_from_its_drop_when_retention_evicts_it() {
    within_limit(|| {
        let busy = BusyHub::new();
        let _reader = busy.hub.subscribe("a");
        let mut obituaries = busy.hub.subscribe("obituaries");
        let mut read = 0;
        for _ in 0..2_000 {
            busy.publisher.publish("a", busy.payload());
            while obituaries.try_recv().is_ok() {
                read += 1;
            }
        }
        assert!(busy.drops.load(Ordering::SeqCst) >= 1_900 && read >= 1_900);
        busy.end();
    });
}

#[test]
fn payload_may_publish_from_its_drop_when_key_reader_or_hub_go() {
    within_limit(|| {
        let busy = BusyHub::new();
        let mut obituaries = busy.hub.subscribe("obituaries");
        // Nobody reads: dropped by the publish itself.
        busy.publisher.publish("nobody", busy.payload());
        assert!(obituaries.try_recv().is_ok());
        // The last reader leaves.
        let reader = busy.hub.subscribe("a");
        busy.publisher.publish("a", busy.payload());
        drop(reader);
        assert!(obituaries.try_recv().is_ok());
        // The key is closed, and then its reader goes.
        let reader = busy.hub.subscribe("a");
        busy.publisher.publish("a", busy.payload());
        assert!(busy.hub.close("a", CloseReason::KeyClosed));
        drop(reader);
        assert!(obituaries.try_recv().is_ok());
        // An event that was kept goes.
        let mut reader = busy.hub.subscribe("a");
        busy.publisher.publish("a", busy.payload());
        let kept = reader.try_recv();
        drop(reader);
        drop(kept);
        assert!(obituaries.try_recv().is_ok());
        // The hub is shut down with events in it.
        let reader = busy.hub.subscribe("a");
        busy.publisher.publish("a", busy.payload());
        busy.hub.shutdown(CloseReason::Shutdown);
        drop(reader);
        assert_eq!(busy.publisher.publish("a", busy.payload()).readers, 0);
        busy.end();
    });
}

// Keys are cloned before and dropped after the registry's lock, and hashed outside it.
struct BusyKey {
    name: Box<str>,
    hub: Arc<Mutex<Option<Hub<Self, u64>>>>,
}

impl PartialEq for BusyKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for BusyKey {}

impl Borrow<str> for BusyKey {
    fn borrow(&self) -> &str {
        &self.name
    }
}

impl BusyKey {
    /// Looks the very same key up.
    fn look(&self) {
        let hub = self.hub.try_lock().ok().and_then(|mut hub| hub.take());
        if let Some(hub) = hub {
            let _ = (hub.readers(&*self.name), hub.topic_stats(&*self.name), hub.topics());
            *self.hub.lock().expect("not poisoned") = Some(hub);
        }
    }
}

impl Hash for BusyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.look();
        (*self.name).hash(state);
    }
}

impl Clone for BusyKey {
    fn clone(&self) -> Self {
        self.look();
        Self { name: self.name.clone(), hub: Arc::clone(&self.hub) }
    }
}

impl Drop for BusyKey {
    fn drop(&mut self) {
        self.look();
    }
}

#[test]
fn key_may_use_the_hub_from_its_hash_clone_and_drop() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<BusyKey, u64>::new().max_tombstones(2).retain_unread(false).build();
        let inner: Arc<Mutex<Option<Hub<BusyKey, u64>>>> = Arc::new(Mutex::new(None));
        let key = |n: u64| BusyKey { name: n.to_string().into(), hub: Arc::clone(&inner) };
        let keys: Vec<_> = (0..200).map(key).collect();
        // Only what the hub itself does with keys may run with the hub in reach.
        *inner.lock().expect("not poisoned") = Some(hub.clone());
        let mut subs: Vec<_> = keys.iter().map(|key| hub.subscribe(key)).collect();
        for key in &keys {
            publisher.publish(key, 1);
        }
        assert!(subs.iter_mut().all(|sub| drain(sub).len() == 1));
        drop(subs.split_off(100));
        for key in &keys[..50] {
            assert!(hub.close(key, CloseReason::KeyClosed));
        }
        for key in &keys {
            publisher.publish(key, 2);
            drop(hub.subscribe(key));
        }
        hub.shutdown(CloseReason::Shutdown);
        drop((subs, publisher));
        inner.lock().expect("not poisoned").take();
    });
}

/// A key that publishes its name to the key `obituaries` when it is dropped.
struct LoudKey {
    name: Box<str>,
    publisher: Arc<Mutex<Option<SharedPublisher<Self, u64>>>>,
}

impl PartialEq for LoudKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LoudKey {}

impl Hash for LoudKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Clone for LoudKey {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), publisher: Arc::clone(&self.publisher) }
    }
}

impl Drop for LoudKey {
    fn drop(&mut self) {
        let publisher = self.publisher.lock().expect("not poisoned").clone();
        if let (Some(publisher), Ok(number)) = (publisher, self.name.parse()) {
            publisher.publish_owned(Self { name: "obituaries".into(), publisher: Arc::default() }, number);
        }
    }
}

// Found in this crate: the byte budget's list held the last reference to topics that were long gone, and dropped them, and so their
// keys, behind the publisher's mutex.
#[test]
fn key_may_publish_from_its_drop_when_the_byte_budget_lets_go_of_its_topic() {
    within_limit(|| {
        const KEYS: u64 = 1_000;
        // Without tombstones nobody else holds a topic that is gone.
        let builder = Builder::<LoudKey, u64>::new().retain_events(1_000_000).retain_total_bytes(64 << 10).max_tombstones(0);
        let (publisher, hub) = builder.build();
        let publisher = publisher.shared();
        let reach = Arc::new(Mutex::new(Some(publisher.clone())));
        let key = |number: u64| LoudKey { name: number.to_string().into(), publisher: Arc::clone(&reach) };
        let mut obituaries = hub.subscribe(&LoudKey { name: "obituaries".into(), publisher: Arc::default() });
        let mut dropped = vec![0_usize; usize::try_from(KEYS + 1).expect("small")];
        let mut note = || {
            while let Ok(received) = obituaries.try_recv() {
                if let keywake::Received::Event(event) = received {
                    dropped[usize::try_from(*event).expect("small")] += 1;
                }
            }
        };
        let busy = key(KEYS);
        let _reader = hub.subscribe(&busy);
        for number in 0..KEYS {
            let reader = hub.subscribe(&key(number));
            publisher.publish_owned(key(number), number);
            drop(reader);
            note();
            // The budget is used up from time to time, with some topics that are gone before those that hold something.
            for value in 0..if number % 100 == 99 { 10_000 } else { 0 } {
                publisher.publish_owned(busy.clone(), value);
                note();
            }
        }
        let gone = hub.stats();
        assert_eq!((gone.topics, gone.readers, gone.tombstones), (2, 2, 0));
        reach.lock().expect("not poisoned").take();
        // The test itself drops two of each, and most topics are gone for good.
        let let_go = dropped.iter().filter(|drops| **drops >= 3).count();
        assert!(let_go > 500, "the keys of {let_go} topics were dropped");
    });
}

// dashmap #79, #369, iris-mpc #959, kguardian #1343, pkdns #51: a guard held across a second call froze everything.
#[test]
fn whatever_a_caller_holds_the_hub_stays_usable() {
    within_limit(|| {
        let ledger = Ledger::new(4);
        let (publisher, hub) = Builder::<String, crate::support::Counted>::new().retain_events(1).build();
        let publisher = publisher.shared();
        let (mut first, mut second) = (hub.subscribe("a"), hub.subscribe("a"));
        publisher.publish("a", ledger.payload(0));
        publisher.publish("b", ledger.payload(1));
        let lent = first.try_recv_ref().expect("an event is there");
        let kept = second.try_recv().expect("an event is there");
        let waiting = hub.wait_for_reader("b");
        let pending = second.recv();
        // All of this is held, and everything below works.
        publisher.publish("a", ledger.payload(2));
        publisher.publish_batch([("a".to_owned(), ledger.payload(3))]);
        drop(hub.subscribe("a"));
        let _ = (hub.stats(), hub.readers("a"), hub.position(), hub.topic_stats("a"));
        hub.for_each_topic(|_, stats| assert_eq!(stats.readers, 2));
        hub.sweep(std::time::Instant::now());
        assert!(hub.close("a", CloseReason::KeyClosed));
        hub.shutdown(CloseReason::Shutdown);
        drop((pending, waiting, kept));
        drop(lent);
        drop((first, second, publisher, hub));
        ledger.assert_each_dropped_once();
    });
}
