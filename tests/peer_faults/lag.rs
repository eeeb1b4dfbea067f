//! Slow readers: what they are told, and whom they must not slow down.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    thread,
};

use futures_core::Stream;
use keywake::{Builder, Event, GapCause, Position, Received, ReceivedRef, Start, hub};

use crate::support::{CountingWaker, Ledger, assert_empty, block_on, drain, event, next_event, next_gap, park, within_limit};

// jito shredstream #68, telcoin #541, base #1221, Polymarket #279, breez #540, dash #448: `while let Ok` ended at a lag.
#[test]
fn while_let_ok_survives_a_lag() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut sub = hub.subscribe("a");
    for value in 0..1_000 {
        publisher.publish("a", value);
    }
    drop(publisher);
    let mut values = Vec::new();
    block_on(async {
        while let Ok(received) = sub.recv().await {
            if let Received::Event(event) = received {
                values.push(*event);
            }
        }
    });
    assert_eq!(values.last(), Some(&999));
    assert!(values.len() >= 4);
}

// tempo #2846, mdk #606: `continue` on a lag hid a permanent loss; there was nothing to recover from.
#[test]
fn lag_tells_the_range_so_that_the_state_can_be_read_anew() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut sub = hub.subscribe("a");
    let mut state = 0;
    let mut model = 0;
    for value in 1..=1_000 {
        publisher.publish("a", value);
        model += value;
    }
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.cause), (0, GapCause::Retention));
    // The "source of truth" knows the sum up to any seq.
    state += (1..=gap.to).sum::<u64>();
    while let Ok(received) = sub.try_recv() {
        state += *event(received);
    }
    assert_eq!(state, model);
}

// async-broadcast #55, zbus #178: the Stream swallowed the overflow.
#[test]
fn stream_tells_a_loss_in_its_place() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut sub = hub.subscribe("a");
    for value in 0..1_000 {
        publisher.publish("a", value);
    }
    let first = block_on(poll_fn(|cx| Pin::new(&mut sub).poll_next(cx)));
    let Some(Received::Gap(gap)) = first else { panic!("the stream is silent about the loss") };
    let second = block_on(poll_fn(|cx| Pin::new(&mut sub).poll_next(cx)));
    assert_eq!(event(second.expect("goes on")).seq(), gap.to + 1);
}

#[test]
fn every_form_of_receiving_tells_a_loss() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
        let mut subs: Vec<_> = (0..5).map(|_| hub.subscribe("a")).collect();
        for value in 0..500 {
            publisher.publish("a", value);
        }
        assert!(matches!(block_on(subs[0].recv()), Ok(Received::Gap(_))));
        assert!(matches!(subs[1].recv_blocking(), Ok(Received::Gap(_))));
        assert!(matches!(subs[2].try_recv_ref(), Ok(ReceivedRef::Gap(_))));
        assert!(matches!(block_on(subs[3].recv_ref()), Ok(ReceivedRef::Gap(_))));
        let mut buf = Vec::new();
        block_on(subs[4].recv_many(&mut buf, 1_000)).expect("open");
        assert!(matches!(buf[0], Received::Gap(_)));
    });
}

// tokio #2123, #2425: `Lagged` near 2^64, overflow panics: the arithmetic of a lag was not total.
#[test]
fn lag_near_the_end_of_the_number_space_is_exact() {
    let start = Position::MAX_SEQ - 1_100;
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).start_seq(start).retain_events(16).build();
    let mut sub = hub.subscribe("a");
    assert_eq!(sub.lag(), 0);
    for value in 1..=1_100 {
        publisher.publish("a", value);
        assert!(sub.lag() <= 16 + 64);
    }
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.missed), (start, Some(gap.to - start)));
    let rest = drain(&mut sub);
    assert_eq!(rest, (gap.to + 1..=Position::MAX_SEQ).collect::<Vec<_>>());
    assert_eq!(sub.position().seq(), Position::MAX_SEQ);
}

// The first difference of all: a reader that has received nothing at all, with nothing published.
#[test]
fn lag_of_a_fresh_reader_is_zero_at_any_number() {
    for start in [0, 1, Position::MAX_SEQ] {
        let (_publisher, hub) = Builder::<String, u64>::new().epoch(1).start_seq(start).build();
        for from in [Start::Next, Start::Oldest, Start::Latest, Start::After(Position::new(1, start))] {
            let mut sub = hub.subscribe_from("a", from);
            assert_eq!(sub.lag(), 0);
            assert_empty(&mut sub);
        }
    }
}

// async-broadcast #80, #74, #73, badger #1749, tendermint #951, osm #4847, k8s #16916, #24091: one reader that did
// not read stopped the publisher, or everybody.
#[test]
fn reader_that_never_reads_stops_nobody() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(8).build();
        let idle: Vec<_> = (0..10).map(|_| hub.subscribe("a")).collect();
        let mut parked = hub.subscribe("a");
        park(&mut parked, &CountingWaker::new());
        let mut busy = hub.subscribe("a");
        for value in 0..100_000 {
            assert_eq!(publisher.publish("a", value).readers, 12);
            assert_eq!(*next_event(&mut busy), value);
        }
        drop(idle);
    });
}

// tokio #4246: a borrowed value held by a reader stopped the sender, in production.
#[test]
fn lent_event_stops_neither_the_publisher_nor_other_readers() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
        let mut holder = hub.subscribe("a");
        let mut other = hub.subscribe("a");
        publisher.publish("a", 7);
        let Ok(ReceivedRef::Event(lent)) = holder.try_recv_ref() else { panic!("expected an event") };
        let work = thread::spawn(move || {
            for value in 0..10_000 {
                publisher.publish("a", value);
            }
            let mut events = 0;
            while let Ok(received) = other.try_recv() {
                if let Received::Event(event) = received {
                    assert!(*event <= 10_000);
                    events += 1;
                }
            }
            (publisher, events)
        });
        let (_publisher, events) = work.join().expect("nobody waits for the loan");
        assert!(events >= 1);
        // Its slot was neither overwritten nor freed.
        assert_eq!((*lent, lent.seq()), (7, 1));
    });
}

// crossbeam #566 (epoch garbage), Consul and Nomad (a pointer to an old item keeps everything after it).
#[test]
fn sleeping_reader_pins_a_block_and_not_everything_since() {
    const EVENTS: usize = 50_000;
    let ledger = Ledger::new(EVENTS);
    let (mut publisher, hub) = Builder::<String, crate::support::Counted>::new().retain_events(8).build();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", ledger.payload(0));
    let held = next_event(&mut sub);
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    for number in 1..EVENTS {
        publisher.publish("a", ledger.payload(number));
        let alive = number + 1 - ledger.dropped();
        // What retention may keep, the block of the held event, the block that the reader stands in.
        assert!(alive <= 8 + 3 * 64, "{alive} of {number} alive");
    }
    assert_eq!(held.number, 0);
    assert_eq!(waker.wakes(), 1);
    // What lies in the block that it pins it still gets, and then the gap.
    let mut last = 1;
    let gap = loop {
        match sub.try_recv().expect("there is more") {
            Received::Event(event) => {
                assert_eq!(event.seq(), last + 1);
                last = event.seq();
            }
            Received::Gap(gap) => break gap,
            _ => panic!("neither an event nor a gap"),
        }
    };
    assert_eq!((gap.from, gap.missed), (last, Some(gap.to - last)));
    drop((sub, held, publisher, hub));
    ledger.assert_each_dropped_once();
}

// hyperlane-monorepo #4190: a large capacity was paid for at once, and never given back when drained.
#[test]
fn retention_without_a_bound_by_count_still_works_by_age() {
    let ledger = Ledger::new(1_000);
    let (mut publisher, hub) = Builder::<String, crate::support::Counted>::new()
        .retain_events(usize::MAX)
        .retain_for(std::time::Duration::from_secs(1))
        .build();
    let _sub = hub.subscribe("a");
    for number in 0..1_000 {
        publisher.publish("a", ledger.payload(number));
    }
    hub.sweep(std::time::Instant::now() + std::time::Duration::from_secs(60));
    ledger.assert_each_dropped_once();
}

/// Gives way to whatever else is ready, without tokio's deferring of `yield_now`.
async fn give_way() {
    let mut given = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

// tokio #6855, #6870: a receiver that always found something starved its worker.
#[test]
fn busy_reader_lets_other_tasks_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let turns = Arc::new(AtomicU32::new(0));
    let seen = runtime.block_on(async {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(20_000).build();
        let mut sub = hub.subscribe("a");
        for value in 0..20_000 {
            publisher.publish("a", value);
        }
        let witness = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    give_way().await;
                }
            }
        });
        let reader = tokio::spawn(async move {
            for value in 0..20_000 {
                assert_eq!(*event(sub.recv().await.expect("buffered")), value);
            }
            turns.load(Ordering::Relaxed)
        });
        let seen = reader.await.expect("no panic");
        witness.abort();
        seen
    });
    assert!(seen >= 20, "20,000 results in a row left {seen} turns for others");
}

// The same for executors that know nothing of tokio's budget: a run of ready results ends in a Pending that wakes itself.
#[cfg(not(feature = "tokio"))]
#[test]
fn run_of_ready_results_yields_once_and_wakes_itself() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(20_000).build();
    let mut sub = hub.subscribe("a");
    for value in 0..10_000 {
        publisher.publish("a", value);
    }
    let waker = CountingWaker::new();
    let (mut events, mut yields) = (0, 0);
    while events < 10_000 {
        match crate::support::poll(&mut sub, &waker) {
            Poll::Ready(Ok(received)) => {
                assert_eq!(*event(received), events);
                events += 1;
            }
            Poll::Ready(Err(closed)) => panic!("{closed}"),
            Poll::Pending => {
                yields += 1;
                assert_eq!(waker.wakes(), yields, "nobody would poll again");
            }
        }
    }
    assert!((10..=1_000).contains(&yields), "{yields} yields in 10,000 results");
}

// RUSTSEC-2025-0023, async-broadcast #18: readers cloned the value, under a lock, and it had to be `Clone`.
#[test]
fn payload_that_cannot_be_cloned_reaches_every_reader() {
    struct NotClone(String);
    let (mut publisher, hub) = hub::<String, NotClone>();
    let mut subs: Vec<_> = (0..3).map(|_| hub.subscribe("a")).collect();
    publisher.publish("a", NotClone("x".to_owned()));
    let events: Vec<Event<NotClone>> = subs.iter_mut().map(next_event).collect();
    assert!(events.iter().all(|event| event.0 == "x"));
    assert!(events.windows(2).all(|pair| std::ptr::eq(&raw const *pair[0], &raw const *pair[1])));
}
