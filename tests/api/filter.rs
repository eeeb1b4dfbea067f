//! Subscriptions with a predicate: what it rejects wakes nobody, pins nothing, and is no gap.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use keywake::{
    Builder, CloseReason, GapCause, Hub, Position, Publisher, Received, RecvTimeoutError, Slow, Start, Subscription, TryRecvError,
};

use crate::support::{
    CountingWaker, LIMIT, Ledger, assert_closed, assert_empty, block_on, drain, next_event, next_gap, park, poll, within_limit,
};

fn hub(retain: usize) -> (Publisher<String, u64>, Hub<String, u64>) {
    Builder::new().epoch(7).retain_events(retain).build()
}

fn even(hub: &Hub<String, u64>) -> Subscription<String, u64> {
    hub.subscribe_where("a", |value| value % 2 == 0)
}

fn publish(publisher: &mut Publisher<String, u64>, values: std::ops::RangeInclusive<u64>) {
    for value in values {
        publisher.publish("a", value);
    }
}

#[test]
fn only_what_is_accepted_is_received() {
    let (mut publisher, hub) = hub(1_000);
    let mut sub = even(&hub);
    publish(&mut publisher, 1..=300);
    assert_eq!(drain(&mut sub), (2..=300).step_by(2).collect::<Vec<_>>());
    assert_eq!((sub.position(), sub.lag()), (hub.position(), 0));
}

#[test]
fn every_form_of_subscribing_takes_a_predicate() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_unread(true).build();
    publish(&mut publisher, 1..=4);
    let key = || "a".to_owned();
    let mut oldest = [
        hub.subscribe_where_from("a", Start::Oldest, |value| *value > 2),
        hub.subscribe_owned_where_from(key(), Start::Oldest, |value| *value > 2),
    ];
    let mut next = [hub.subscribe_where("a", |value| *value > 2), hub.subscribe_owned_where(key(), |value| *value > 2)];
    publish(&mut publisher, 5..=5);
    for sub in &mut oldest {
        assert_eq!(drain(sub), [3, 4, 5]);
    }
    for sub in &mut next {
        assert_eq!(drain(sub), [5]);
        assert_eq!(sub.key(), "a");
    }
    assert_eq!(publisher.publish("a", 6).readers, 4);
}

#[test]
fn rejected_events_wake_nobody() {
    let (mut publisher, hub) = hub(16);
    let mut sub = even(&hub);
    let mut plain = hub.subscribe("a");
    let (waker, other) = (CountingWaker::new(), CountingWaker::new());
    park(&mut sub, &waker);
    for value in (1..=999).step_by(2) {
        park(&mut plain, &other);
        publish(&mut publisher, value..=value);
        let _ = poll(&mut plain, &other);
    }
    assert_eq!((waker.wakes(), other.wakes()), (0, 500));
    publish(&mut publisher, 1_000..=1_001);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(drain(&mut sub), [501]);
    assert_eq!((hub.stats().wakes, hub.stats().empty_wakes, hub.stats().gaps), (501, 0, 0));
}

#[test]
fn rejected_events_move_the_reader_that_sleeps() {
    let (mut publisher, hub) = hub(4);
    let mut sub = even(&hub);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    for value in 0..1_000 {
        publish(&mut publisher, 2 * value + 1..=2 * value + 1);
        assert_eq!((sub.position(), sub.lag()), (hub.position(), 0));
    }
    assert_eq!(hub.stats().pinned_bytes, 0, "it sleeps at the newest block");
    publish(&mut publisher, 2..=2);
    assert_eq!(sub.position(), Position::new(7, 1_000), "the last that was looked at");
    assert_eq!(sub.lag(), 1);
    // No gap, though the events passed by a hundred times faster than retention lets a sleeper sleep.
    assert_eq!(drain(&mut sub), [1_001]);
}

#[test]
fn awake_reader_is_moved_by_nobody() {
    let (mut publisher, hub) = hub(4);
    let mut sub = even(&hub);
    publish(&mut publisher, 1..=1_000);
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.missed, gap.cause), (0, Some(gap.to), GapCause::Retention));
    assert_eq!(drain(&mut sub), (gap.to + 1..=1_000).filter(|seq| seq % 2 == 0).collect::<Vec<_>>());
}

#[test]
fn predicate_is_asked_once_per_event() {
    let (mut publisher, hub) = hub(1_000);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asking = Arc::clone(&asked);
    let mut sub = hub.subscribe_where("a", move |value| {
        asking.lock().expect("no panic").push(*value);
        value % 5 == 0
    });
    let waker = CountingWaker::new();
    for value in 1..=100 {
        if value % 3 == 0 {
            let _ = poll(&mut sub, &waker);
        }
        publish(&mut publisher, value..=value);
    }
    drain(&mut sub);
    assert_eq!(*asked.lock().expect("no panic"), (1..=100).collect::<Vec<_>>());
}

#[test]
fn cancelled_wait_leaves_nothing_and_loses_nothing() {
    let (mut publisher, hub) = hub(100);
    let mut sub = even(&hub);
    let waker = CountingWaker::new();
    for round in 0..5 {
        {
            let mut recv = std::pin::pin!(sub.recv());
            let task = Waker::from(Arc::clone(&waker));
            assert!(recv.as_mut().poll(&mut std::task::Context::from_waker(&task)).is_pending());
            publish(&mut publisher, 10 * round + 1..=10 * round + 1);
        }
        assert_eq!(Arc::strong_count(&waker), 1, "no waker is left");
        publish(&mut publisher, 10 * round + 2..=10 * round + 2);
        assert_eq!(drain(&mut sub), [2 * round + 2]);
    }
    assert_eq!(waker.wakes(), 0);
}

#[test]
fn last_waker_is_the_one_that_is_woken() {
    let (mut publisher, hub) = hub(100);
    let mut sub = even(&hub);
    let (old, new) = (CountingWaker::new(), CountingWaker::new());
    park(&mut sub, &old);
    publish(&mut publisher, 1..=1);
    park(&mut sub, &new);
    assert_eq!(Arc::strong_count(&old), 1);
    publish(&mut publisher, 2..=2);
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
}

#[test]
fn all_ways_to_receive_choose() {
    let (mut publisher, hub) = hub(100);
    let mut sub = even(&hub);
    publish(&mut publisher, 1..=12);
    assert!(matches!(block_on(sub.recv()), Ok(Received::Event(event)) if *event == 2));
    assert!(matches!(block_on(sub.recv_ref()), Ok(keywake::ReceivedRef::Event(event)) if *event == 4));
    assert!(matches!(sub.try_recv_ref(), Ok(keywake::ReceivedRef::Event(event)) if *event == 6));
    assert!(matches!(sub.recv_blocking(), Ok(Received::Event(event)) if *event == 8));
    assert!(matches!(sub.recv_timeout(Duration::ZERO), Ok(Received::Event(event)) if *event == 10));
    let mut buffer = Vec::new();
    assert_eq!(block_on(sub.recv_many(&mut buffer, 9)), Ok(1));
    assert!(matches!(sub.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout)));
}

#[test]
fn blocked_thread_is_woken_for_what_it_wants() {
    let (mut publisher, hub) = hub(100);
    let mut sub = even(&hub);
    let (told, tell) = mpsc::channel();
    let reader = thread::spawn(move || {
        while let Ok(Received::Event(event)) = sub.recv_blocking() {
            told.send(*event).expect("somebody listens");
        }
    });
    for value in 1..=200 {
        publish(&mut publisher, value..=value);
        if value % 2 == 0 {
            assert_eq!(tell.recv_timeout(LIMIT), Ok(value));
        }
    }
    drop(publisher);
    within_limit(move || reader.join().expect("no panic"));
}

#[test]
fn closed_key_wakes_and_ends_also_who_wants_nothing() {
    let (mut publisher, hub) = hub(100);
    let mut sub = hub.subscribe_where("a", |_| false);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publish(&mut publisher, 1..=50);
    hub.close("a", CloseReason::KeyClosed);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::KeyClosed);
    assert_eq!(sub.position(), Position::new(7, 50));
    drop(sub);
    assert_eq!(hub.topics(), 0);
}

#[test]
fn loss_of_the_source_is_told_whatever_the_predicate_says() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let mut sub = hub.subscribe_where("a", |_| false);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish_at(1, "a", 1).expect("rising");
    publisher.lost(2..=5, GapCause::Source).expect("rising");
    publisher.publish_at(6, "a", 6).expect("rising");
    assert_eq!(waker.wakes(), 1);
    assert_eq!(sub.position(), Position::new(7, 1));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.cause), (1, 5, GapCause::Source));
    assert_empty(&mut sub);
    assert_eq!(sub.position(), Position::new(7, 6));
}

#[test]
fn position_of_a_reader_that_chooses_is_safe_to_come_back_with() {
    let (mut publisher, hub) = hub(1_000);
    let keeper = hub.subscribe("a");
    let mut sub = even(&hub);
    let waker = CountingWaker::new();
    for value in 1..=40 {
        if value % 7 == 0 {
            let _ = poll(&mut sub, &waker);
        }
        publish(&mut publisher, value..=value);
        let mut again = hub.subscribe_where_from("a", Start::After(sub.position()), |value| value % 2 == 0);
        let mut copy = drain(&mut again);
        let seq = sub.position().seq();
        copy.retain(|next| *next > seq);
        let owed: Vec<_> = (1..=value).filter(|next| next % 2 == 0 && *next > seq).collect();
        assert_eq!(copy, owed, "of {value}, after {seq}");
    }
    drop(keeper);
}

#[test]
fn predicate_that_panics_ends_its_subscription_and_no_other() {
    let (mut publisher, hub) = hub(100);
    let mut bad = hub.subscribe_where("a", |value| *value < 3 || panic!("a predicate"));
    let mut others = [even(&hub), hub.subscribe("a"), even(&hub)];
    let wakers = [(); 4].map(|()| CountingWaker::new());
    park(&mut bad, &wakers[3]);
    publish(&mut publisher, 1..=1);
    assert_eq!(drain(&mut bad), [1]);
    park(&mut bad, &wakers[3]);
    for (sub, waker) in others.iter_mut().zip(&wakers) {
        drain(sub);
        park(sub, waker);
    }
    // Nothing of it comes to the publisher.
    publish(&mut publisher, 4..=4);
    assert_eq!(wakers.each_ref().map(|waker| waker.wakes()), [1, 1, 1, 2]);
    assert_eq!(hub.readers("a"), 4, "until it is told");
    assert_eq!(assert_closed(&mut bad).reason(), &CloseReason::PredicatePanicked);
    assert!(!CloseReason::PredicatePanicked.may_resume());
    assert_eq!(bad.close_reason(), Some(&CloseReason::PredicatePanicked));
    assert_eq!((bad.position(), bad.lag()), (Position::new(7, 1), 0), "before the event that it panicked at");
    assert_eq!(hub.readers("a"), 3);
    drop(bad);
    assert_eq!(hub.readers("a"), 3);
    for sub in &mut others {
        assert_eq!(drain(sub), [2]);
    }
}

#[test]
fn predicate_that_panics_as_the_reader_reads_ends_it_too() {
    let (mut publisher, hub) = hub(100);
    let mut sub = hub.subscribe_where("a", |value| *value < 3 || panic!("a predicate"));
    publish(&mut publisher, 1..=5);
    assert_eq!((next_event(&mut sub).seq(), next_event(&mut sub).seq()), (1, 2));
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::PredicatePanicked);
    assert_eq!(sub.position(), Position::new(7, 2));
    assert_eq!((hub.topics(), hub.stats().pinned_bytes, hub.stats().retained_bytes), (0, 0, 0));
}

#[test]
fn what_a_predicate_panics_with_may_panic_itself() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("a payload's drop");
            }
        }
    }
    let (mut publisher, hub) = hub(100);
    let mut sub = hub.subscribe_where("a", |_| std::panic::panic_any(Bomb));
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publish(&mut publisher, 1..=1);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::PredicatePanicked);
}

#[test]
fn predicate_may_use_the_hub() {
    type Shelf = Arc<Mutex<Option<Subscription<String, u64>>>>;
    within_limit(|| {
        let (publisher, hub) = keywake::hub::<String, u64>();
        let publisher = publisher.shared();
        let mut other = hub.subscribe("b");
        let (inner, publishing) = (hub.clone(), publisher.clone());
        let mut sub = hub.subscribe_where("a", move |value| {
            // To another key, and once to its own.
            publishing.publish("b", *value);
            if *value == 1 {
                publishing.publish("a", 2);
            }
            drop(inner.subscribe("a"));
            assert!(inner.readers("a") > 0);
            *value == 2
        });
        let waker = CountingWaker::new();
        park(&mut sub, &waker);
        publisher.publish("a", 1);
        assert_eq!(waker.wakes(), 1);
        assert_eq!(*next_event(&mut sub), 2);
        assert_eq!(drain(&mut other).len(), 2);
        // One that drops its own subscription.
        let shelf: Shelf = Arc::default();
        let inner = Arc::clone(&shelf);
        let mut sub = hub.subscribe_where("c", move |_| {
            drop(inner.lock().map(|mut shelf| shelf.take()));
            false
        });
        park(&mut sub, &waker);
        *shelf.lock().expect("no panic") = Some(sub);
        publisher.publish("c", 1);
        assert!(shelf.lock().expect("no panic").is_none());
        assert_eq!((hub.readers("c"), Arc::strong_count(&waker)), (0, 1));
        // One that shuts the hub down.
        let inner = hub.clone();
        let mut sub = hub.subscribe_where("d", move |_| {
            inner.shutdown(CloseReason::Shutdown);
            false
        });
        park(&mut sub, &waker);
        publisher.publish("d", 1);
        assert_closed(&mut sub);
    });
}

#[test]
fn waker_of_a_reader_that_chooses_may_use_the_hub_and_panic() {
    struct Rude(Mutex<Option<Subscription<String, u64>>>);
    impl std::task::Wake for Rude {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().map(|mut sub| sub.take()));
            panic!("a waker");
        }
    }
    let (mut publisher, hub) = hub(100);
    let mut others = [even(&hub), hub.subscribe("a")];
    let mut sub = even(&hub);
    let rude = Arc::new(Rude(Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&rude));
    assert!(sub.poll_recv(&mut std::task::Context::from_waker(&waker)).is_pending());
    *rude.0.lock().expect("no panic") = Some(sub);
    let counting = CountingWaker::new();
    for sub in &mut others {
        park(sub, &counting);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| publisher.publish("a", 2))).is_err(), "as the panic of any waker");
    assert_eq!((counting.wakes(), hub.readers("a")), (2, 2));
}

#[test]
fn payload_whose_drop_panics_in_a_look_costs_nothing() {
    struct Bomb(u64);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(self.0 != 1, "a payload's drop");
        }
    }
    let (mut publisher, hub) = Builder::<String, Bomb>::new().retain_events(1).build();
    let mut sub = hub.subscribe_where("a", |bomb| bomb.0 == 3);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish("a", Bomb(1));
    // The look at the second leaves the block of the first, which retention has dropped: its drop is in the look.
    let _ = catch_unwind(AssertUnwindSafe(|| publisher.publish("a", Bomb(2))));
    let _ = catch_unwind(AssertUnwindSafe(|| publisher.publish("a", Bomb(3))));
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(sub.try_recv_ref(), Ok(keywake::ReceivedRef::Event(event)) if event.0 == 3));
}

#[test]
fn predicate_is_dropped_with_its_subscription() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut publisher, hub) = hub(4);
    let subscribe = || {
        let guard = Guard(Arc::clone(&drops));
        hub.subscribe_where("a", move |value| value % 2 == 0 && guard.0.load(Ordering::SeqCst) < 100)
    };
    let mut subs = [subscribe(), subscribe(), subscribe().slow(Slow::Close)];
    let waker = CountingWaker::new();
    park(&mut subs[0], &waker);
    publish(&mut publisher, 1..=100);
    assert_closed(&mut subs[2]);
    assert_eq!(drops.load(Ordering::SeqCst), 1, "who is closed keeps nothing");
    drop(subs);
    assert_eq!((drops.load(Ordering::SeqCst), hub.topics(), Arc::strong_count(&waker)), (3, 0, 1));
    // Of one that never begins.
    hub.shutdown(CloseReason::Shutdown);
    assert!(matches!(subscribe().try_recv(), Err(TryRecvError::Closed(_))));
    assert_eq!(drops.load(Ordering::SeqCst), 4);
}

#[test]
fn latest_goes_to_the_newest_that_is_accepted() {
    let (mut publisher, hub) = hub(1_000);
    let mut sub = even(&hub).slow(Slow::Latest);
    publish(&mut publisher, 1..=101);
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.missed, gap.cause), (0, 99, Some(49), GapCause::Conflated));
    assert_eq!(sub.position(), Position::new(7, 99));
    publish(&mut publisher, 102..=104);
    assert_eq!(next_event(&mut sub).seq(), 100, "what was told of comes");
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to, gap.missed, gap.cause), (100, 103, Some(1), GapCause::Conflated));
    assert_eq!(drain(&mut sub), [104]);
    publish(&mut publisher, 105..=107);
    assert_eq!(drain(&mut sub), [106], "one is no skip");
    publish(&mut publisher, 109..=109);
    assert_empty(&mut sub);
    assert_eq!(sub.position(), hub.position());
}

#[test]
fn latest_that_chooses_stops_at_a_loss() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(7).build_from_source();
    let mut sub = hub.subscribe_where("a", |value| value % 2 == 0).slow(Slow::Latest);
    for seq in 1..=5 {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    publisher.lost(6..=9, GapCause::Source).expect("rising");
    for seq in 10..=14 {
        publisher.publish_at(seq, "a", seq).expect("rising");
    }
    let told: Vec<_> = std::iter::from_fn(|| match sub.try_recv() {
        Ok(Received::Gap(gap)) => Some((gap.from, gap.to, Some(gap.cause))),
        Ok(Received::Event(event)) => Some((event.seq(), event.seq(), None)),
        _ => None,
    })
    .collect();
    let expected = [
        (0, 3, Some(GapCause::Conflated)),
        (4, 4, None),
        (5, 9, Some(GapCause::Source)),
        (9, 13, Some(GapCause::Conflated)),
        (14, 14, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn reader_that_chooses_and_is_too_slow_is_closed() {
    let (mut publisher, hub) = hub(4);
    let mut sub = even(&hub).slow(Slow::Close);
    publish(&mut publisher, 1..=3);
    assert_eq!(drain(&mut sub), [2]);
    publish(&mut publisher, 4..=300);
    assert_eq!(next_event(&mut sub).seq(), 4, "of the block it stands in");
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::SlowReader);
    assert_eq!((sub.position(), hub.readers("a")), (Position::new(7, 4), 0));
}

#[test]
fn reader_that_rejects_a_lot_lets_others_run() {
    let (mut publisher, hub) = hub(10_000);
    let mut sub = hub.subscribe_where("a", |value| *value == 9_000);
    publish(&mut publisher, 1..=9_000);
    let waker = CountingWaker::new();
    let mut polls = 1;
    while poll(&mut sub, &waker).is_pending() {
        assert_eq!(waker.wakes(), polls, "it asks to be polled again");
        polls += 1;
    }
    assert!(polls > 5, "{polls} polls");
    // Who does not wait gets it at once.
    publish(&mut publisher, 1..=9_000);
    assert_eq!(*next_event(&mut sub), 9_000);
}

#[test]
fn batch_of_rejected_events_wakes_nobody_however_long_it_is() {
    let (mut publisher, hub) = hub(100_000);
    let mut sub = hub.subscribe_where("a", |value| *value == 0);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publisher.publish_batch((1..=50_000).map(|value| ("a".to_owned(), value)));
    assert_eq!(waker.wakes(), 0);
    publisher.publish("a", 0);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(drain(&mut sub), [50_001]);
}

#[test]
fn relay_offers_what_came() {
    let (mut publisher, hub) = hub(1_000);
    let relay = hub.relay();
    let mut relay = std::pin::pin!(relay);
    let relaying = CountingWaker::new();
    let mut run = |until_idle: bool| {
        let waker = Waker::from(Arc::clone(&relaying));
        let mut polls = 0;
        loop {
            let before = relaying.wakes();
            assert!(relay.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
            polls += 1;
            if !until_idle || relaying.wakes() == before {
                return polls;
            }
        }
    };
    run(true);
    let mut subs: Vec<_> = (0..300).map(|_| even(&hub)).collect();
    let wakers: Vec<_> = subs.iter().map(|_| CountingWaker::new()).collect();
    for (sub, waker) in subs.iter_mut().zip(&wakers) {
        park(sub, waker);
    }
    publish(&mut publisher, 1..=1);
    assert!(run(true) >= 300 / 64, "a predicate counts as a wake");
    assert!(wakers.iter().all(|waker| waker.wakes() == 0));
    assert!(subs.iter().all(|sub| sub.position().seq() == 1 && sub.lag() == 0));
    publish(&mut publisher, 2..=2);
    assert!(wakers.iter().all(|waker| waker.wakes() == 0), "the publisher does not");
    run(true);
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    for sub in &mut subs {
        assert_eq!(drain(sub), [2]);
    }
    assert_eq!(hub.stats().empty_wakes, 0);
    // Blocked threads depend on no relay.
    let mut sub = even(&hub);
    let thread =
        thread::spawn(move || sub.recv_blocking().map(|received| matches!(received, Received::Event(event) if *event == 4)));
    while hub.readers("a") < 301 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(20));
    publish(&mut publisher, 3..=4);
    assert_eq!(within_limit(move || thread.join().expect("no panic")), Ok(true));
}

#[test]
fn payloads_are_dropped_once_whoever_looks_at_them() {
    const EVENTS: usize = 4_000;
    let ledger = Ledger::new(EVENTS);
    let (publisher, hub) = Builder::<String, _>::new().retain_events(16).build();
    let publisher = publisher.shared();
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let hub = hub.clone();
            let mut sub = hub.subscribe_where("a", move |counted: &crate::support::Counted| counted.number % 7 == reader);
            thread::spawn(move || {
                let mut count = 0;
                for round in 1.. {
                    match sub.recv_timeout(Duration::from_millis(1)) {
                        Ok(Received::Event(event)) if event.number % 7 == reader => count += 1,
                        Ok(Received::Event(event)) => panic!("{} is of another reader", event.number),
                        Err(RecvTimeoutError::Closed(_)) => break,
                        _ => {}
                    }
                    if round % 50 == 0 {
                        sub = hub.subscribe_where("a", move |counted: &crate::support::Counted| counted.number % 7 == reader);
                    }
                }
                count
            })
        })
        .collect();
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (publisher, ledger) = (publisher.clone(), Arc::clone(&ledger));
            thread::spawn(move || {
                for number in (writer..EVENTS).step_by(2) {
                    publisher.publish("a", ledger.payload(number));
                }
            })
        })
        .collect();
    within_limit(move || writers.into_iter().for_each(|writer| writer.join().expect("no panic")));
    drop(publisher);
    within_limit(move || readers.into_iter().map(|reader| reader.join().expect("no panic")).sum::<usize>());
    assert_eq!(hub.topics(), 0);
    drop(hub);
    ledger.assert_each_dropped_once();
}

#[test]
fn ready_future_is_polled_no_more() {
    // A reader that found something is awake: what comes then is offered to nobody.
    let (mut publisher, hub) = hub(100);
    let mut sub = even(&hub);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    publish(&mut publisher, 1..=2);
    publish(&mut publisher, 3..=8);
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(poll(&mut sub, &waker), Poll::Ready(Ok(Received::Event(event))) if *event == 2));
    assert_eq!(drain(&mut sub), [4, 6, 8]);
}
