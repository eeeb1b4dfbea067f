//! Very many events, very many readers: no recursion, no quadratic walk.

use std::{
    sync::Arc,
    task::{Context, Waker},
};

use keywake::{Builder, OnLastPublisher, Received, hub};

use crate::support::{
    CountingWaker, Ledger, assert_empty, drain, next_event, next_gap, park, within_limit, within_limit_on_stack,
};

const SMALL_STACK: usize = 64 << 10;
const MILLION: u64 = 1_000_000;

// concread #142, rpds #41, #46, rodio #285, sled #641, ureq #290: stack overflow in the drop of a long chain of `Arc`s.
#[test]
fn chain_of_a_million_events_held_by_one_old_reader_drops_on_a_small_stack() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(usize::MAX).build();
    let mut old = hub.subscribe(&1);
    publisher.publish(&1, 0);
    let held = next_event(&mut old);
    for value in 1..MILLION {
        publisher.publish(&1, value);
    }
    assert_eq!(old.lag(), MILLION - 1);
    within_limit_on_stack(SMALL_STACK, move || {
        drop(old);
        drop(held);
    });
    assert_eq!(hub.topics(), 0);
}

#[test]
fn hub_with_a_million_events_drops_on_a_small_stack() {
    let ledger = Arc::new(());
    let (mut publisher, hub) = Builder::<u64, Arc<()>>::new().retain_events(usize::MAX).build();
    let mut old = hub.subscribe(&1);
    for _ in 0..MILLION {
        publisher.publish(&1, Arc::clone(&ledger));
    }
    let held = next_event(&mut old);
    within_limit_on_stack(SMALL_STACK, move || {
        drop(publisher);
        drop(hub);
        drop(old);
        drop(held);
    });
    assert_eq!(Arc::strong_count(&ledger), 1, "events are left");
}

// Nobody reads, nobody closes: the events go with the hub's last handle.
#[test]
fn hub_that_kept_a_million_unread_events_drops_on_a_small_stack() {
    let alive = Arc::new(());
    let (mut publisher, hub) = Builder::<u64, Arc<()>>::new()
        .retain_events(usize::MAX)
        .retain_unread(true)
        .on_last_publisher(OnLastPublisher::Keep)
        .build();
    for _ in 0..MILLION {
        publisher.publish(&1, Arc::clone(&alive));
    }
    drop(publisher);
    assert_eq!(Arc::strong_count(&alive), 1_000_001);
    within_limit_on_stack(SMALL_STACK, move || drop(hub));
    assert_eq!(Arc::strong_count(&alive), 1, "events are left");
}

#[test]
fn reader_a_million_events_behind_leaves_while_another_stays() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(usize::MAX).build();
    let mut behind = hub.subscribe(&1);
    publisher.publish(&1, 0);
    assert_eq!(*next_event(&mut behind), 0);
    let mut stays = hub.subscribe(&1);
    for value in 1..MILLION {
        publisher.publish(&1, value);
    }
    within_limit_on_stack(SMALL_STACK, move || drop(behind));
    // Nothing was lost for the other by that.
    for value in 1..MILLION {
        assert_eq!(*next_event(&mut stays), value);
    }
    assert_empty(&mut stays);
}

// The chain that retention severed: a reader that sleeps on its first block, and every event held by somebody.
#[test]
fn severed_blocks_held_by_events_drop_on_a_small_stack() {
    const EVENTS: usize = 100_000;
    let ledger = Ledger::new(EVENTS);
    let (mut publisher, hub) = Builder::<u64, crate::support::Counted>::new().retain_events(1).build();
    let mut reader = hub.subscribe(&1);
    let mut held = Vec::with_capacity(EVENTS);
    for number in 0..EVENTS {
        publisher.publish(&1, ledger.payload(number));
        held.push(next_event(&mut reader));
    }
    assert_eq!(ledger.dropped(), 0);
    within_limit_on_stack(SMALL_STACK, move || {
        drop((publisher, hub, reader));
        // From the newest to the oldest, the unkind order.
        while held.pop().is_some() {}
    });
    ledger.assert_each_dropped_once();
}

// elixir #15304, #15128, phoenix_pubsub #75, absinthe #1268: leaving a key with 150,000 readers walked all of them.
#[test]
fn readers_leave_a_key_with_150_000_others() {
    const READERS: usize = 150_000;
    within_limit(|| {
        let (mut publisher, hub) = hub::<u64, u64>();
        let waker = CountingWaker::new();
        let task = Waker::from(Arc::clone(&waker));
        let mut subs: Vec<_> = (0..READERS).map(|_| hub.subscribe(&1)).collect();
        for sub in &mut subs {
            assert!(sub.poll_recv(&mut Context::from_waker(&task)).is_pending());
        }
        // 1,000 join and 1,000 leave, from all over the crowd.
        for n in 0..1_000 {
            let mut new = hub.subscribe(&1);
            park(&mut new, &waker);
            drop(subs.swap_remove(n * 149));
            subs.push(new);
        }
        assert_eq!(hub.readers(&1), READERS);
        assert_eq!(publisher.publish(&1, 1).readers, READERS);
        assert_eq!(waker.wakes(), READERS);
        // A walk of the others per leaving reader would be 10^10 steps.
        while let Some(mut sub) = subs.pop() {
            if subs.len() % 1_000 == 0 {
                assert_eq!(drain(&mut sub), [1]);
            }
        }
        assert_eq!((hub.readers(&1), hub.topics()), (0, 0));
        assert_eq!(Arc::strong_count(&waker), 2);
    });
}

// consul TestEventBufferFuzz: a thousand readers, a thousand events, everyone sees them all in order.
#[test]
fn thousand_readers_see_a_thousand_events_in_order() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let mut subs: Vec<_> = (0..1_000).map(|_| hub.subscribe(&1)).collect();
    for value in 0..1_000 {
        publisher.publish(&1, value);
        // Each reads at a pace of its own.
        for (n, sub) in (2_u64..).zip(&mut subs) {
            if value % n == 0 {
                drain(sub);
            }
        }
    }
    for sub in &mut subs {
        if let Some(last) = drain(sub).last() {
            assert_eq!(*last, 1_000);
        }
        assert_eq!(sub.position().seq(), 1_000);
    }
    assert_eq!(hub.stats().gaps, 0);
}

// etcd #4567, #17529: ten thousand slow watchers, each ten thousand events behind.
#[test]
fn ten_thousand_slow_readers_cost_the_writer_no_memory_and_no_time() {
    within_limit(|| {
        let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(100).build();
        let mut slow: Vec<_> = (0..10_000).map(|_| hub.subscribe(&1)).collect();
        for value in 0..10_000 {
            publisher.publish(&1, value);
        }
        let stats = hub.topic_stats(&1).expect("has readers");
        assert!(stats.retained_events <= 100 + 2 * 64);
        for sub in &mut slow {
            let gap = next_gap(sub);
            let Ok(Received::Event(event)) = sub.try_recv() else { panic!("expected an event") };
            assert_eq!(event.seq(), gap.to + 1);
        }
        assert_eq!(hub.stats().gaps, 10_000);
    });
}
