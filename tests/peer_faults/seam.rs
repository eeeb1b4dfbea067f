//! The seam between a snapshot and what follows it.

use std::{
    convert::Infallible,
    future::{Future, ready},
    sync::{Arc, Mutex, atomic::AtomicUsize, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use keywake::{Builder, Hub, Position, Publisher, Received, Subscription};

use crate::support::{assert_empty, block_on, drain, next_event};

fn hub_of_epoch_1() -> (Publisher<String, u64>, Hub<String, u64>) {
    Builder::new().epoch(1).build()
}

/// The snapshot's values and the seqs of the events behind it; anything else fails.
fn read(sub: &mut Subscription<String, u64>) -> (Vec<u64>, Vec<u64>) {
    let mut values = Vec::new();
    loop {
        match sub.try_recv() {
            Ok(Received::Event(event)) => values.push(*event),
            Ok(Received::SnapshotEnd(_)) => return (values, drain(sub)),
            _ => panic!("expected the rest of the snapshot"),
        }
    }
}

fn snapshot(hub: &Hub<String, u64>, values: &[u64], seq: u64) -> Subscription<String, u64> {
    block_on(hub.subscribe_with_snapshot("a", || ready(Ok::<_, Infallible>((values.to_vec(), Position::new(1, seq))))))
        .expect("the snapshot is there")
}

// consul #10355: the newest buffered event was lost, because the splice skipped the head itself. And its mirror image:
// consul event_snapshot tests x4, every place of the seam.
#[test]
fn no_event_is_lost_or_doubled_wherever_the_seam_lies() {
    for before in [0_u64, 1, 4, 63, 64, 65, 200] {
        for reflects in [0, before / 2, before.saturating_sub(1), before] {
            let (mut publisher, hub) = hub_of_epoch_1();
            let _keeper = hub.subscribe("a");
            for value in 0..before {
                publisher.publish("a", value);
            }
            let mut sub = snapshot(&hub, &[1_000, 1_001], reflects);
            publisher.publish("a", 7);
            let (values, events) = read(&mut sub);
            assert_eq!(values, [1_000, 1_001]);
            assert_eq!(events, (reflects + 1..=before + 1).collect::<Vec<_>>(), "{before} before, {reflects} reflected");
        }
    }
}

// consul #7128, nomad: an event published while the snapshot is taken was missed, there was nothing to hold it.
#[test]
fn event_published_while_the_snapshot_is_taken_is_kept() {
    let (mut publisher, hub) = hub_of_epoch_1();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        for value in 0..100 {
            publisher.publish("a", value);
        }
        ready(Ok::<_, Infallible>((vec![0], Position::new(1, 60))))
    }))
    .expect("the snapshot is there");
    assert_eq!(read(&mut sub), (vec![0], (61..=100).collect()));
}

// consul (derived), PR 7128's filter lost in a refactor: an event that the snapshot reflects, published only after it.
#[test]
fn event_that_the_snapshot_reflects_but_that_comes_later_is_not_delivered() {
    let (mut publisher, hub) = Builder::<String, u64>::new().epoch(1).build_from_source();
    publisher.publish_at(1, "a", 1).expect("rising");
    // The store is at 3 already, the publishes of 2 and 3 are still queued.
    let mut sub = snapshot(&hub, &[33], 3);
    publisher.publish_at(2, "a", 2).expect("rising");
    publisher.publish_at(3, "a", 3).expect("rising");
    publisher.publish_at(4, "a", 4).expect("rising");
    assert_eq!(read(&mut sub), (vec![33], vec![4]));
}

// consul #9772: framing was cached with the snapshot and reached the wrong clients.
#[test]
fn each_of_those_who_share_a_snapshot_has_its_own_seam() {
    let (mut publisher, hub) = hub_of_epoch_1();
    let runs = Arc::new(AtomicUsize::new(0));
    let (answer, wait) = tokio::sync::oneshot::channel::<Position>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let ask = || {
        let (runs, wait) = (Arc::clone(&runs), Arc::clone(&wait));
        Box::pin(hub.subscribe_with_snapshot("a", move || {
            runs.fetch_add(1, Ordering::SeqCst);
            let wait = wait.lock().expect("not poisoned").take().expect("one run");
            async move { Ok::<_, Infallible>((vec![500], wait.await.expect("answered"))) }
        }))
    };
    let mut cx = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (ask(), ask());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    assert!(second.as_mut().poll(&mut cx).is_pending());
    publisher.publish("a", 3);
    answer.send(Position::new(1, 1)).expect("awaited");
    let Poll::Ready(Ok(mut first)) = first.as_mut().poll(&mut cx) else { panic!("the leader is not done") };
    // The first reads on before the second even has its handle.
    assert_eq!(read(&mut first), (vec![500], vec![2, 3]));
    let Poll::Ready(Ok(mut second)) = second.as_mut().poll(&mut cx) else { panic!("the joiner is not done") };
    assert_eq!(read(&mut second), (vec![500], vec![2, 3]));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

// consul #8799: N clients that miss at once built N snapshots.
#[test]
fn herd_of_callers_takes_one_snapshot() {
    let (_publisher, hub) = hub_of_epoch_1();
    let runs = AtomicUsize::new(0);
    let gate = tokio::sync::Semaphore::new(0);
    let mut cx = Context::from_waker(Waker::noop());
    let mut herd: Vec<_> = (0..500)
        .map(|_| {
            Box::pin(hub.subscribe_with_snapshot("a", || async {
                runs.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.expect("open").forget();
                Ok::<_, Infallible>((vec![1, 2, 3], Position::new(1, 0)))
            }))
        })
        .collect();
    for caller in &mut herd {
        assert!(caller.as_mut().poll(&mut cx).is_pending());
    }
    gate.add_permits(1);
    for mut caller in herd {
        let Poll::Ready(Ok(mut sub)) = caller.as_mut().poll(&mut cx) else { panic!("a caller was forgotten") };
        assert_eq!(read(&mut sub), (vec![1, 2, 3], vec![]));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

// consul SnapshotIndex0, #8799: "empty" and "up to date" looked alike.
#[test]
fn empty_snapshot_at_the_very_beginning_is_a_snapshot() {
    let (mut publisher, hub) = hub_of_epoch_1();
    let mut sub = snapshot(&hub, &[], 0);
    assert!(matches!(sub.try_recv(), Ok(Received::SnapshotEnd(position)) if position == Position::new(1, 0)));
    assert_empty(&mut sub);
    publisher.publish("a", 1);
    assert_eq!(next_event(&mut sub).seq(), 1);
}

// consul: the snapshot handler ran under the publisher's lock; everything else had to wait for it.
#[test]
fn hub_works_while_a_snapshot_is_taken() {
    let (publisher, hub) = hub_of_epoch_1();
    let publisher = publisher.shared();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        let mut other = hub.subscribe("a");
        publisher.publish("a", 1);
        assert_eq!(drain(&mut other), [1]);
        drop(other);
        publisher.publish("b", 2);
        drop(hub.subscribe("b"));
        let _ = (hub.stats(), hub.readers("a"));
        hub.for_each_topic(|_, _| {});
        hub.sweep(std::time::Instant::now());
        ready(Ok::<_, Infallible>((Vec::new(), Position::new(1, 0))))
    }))
    .expect("the snapshot is there");
    assert_eq!(read(&mut sub), (vec![], vec![1]));
}

// consul "failed snapshot": events that were already appended came, then the error, and the ruin stayed in the cache.
#[test]
fn failed_snapshot_yields_no_subscription_and_is_not_cached() {
    let (_publisher, hub) = hub_of_epoch_1();
    let failed = block_on(hub.subscribe_with_snapshot("a", || ready(Err::<(Vec<u64>, Position), _>("no store"))));
    assert!(failed.is_err());
    assert_eq!(hub.readers("a"), 0);
    let (values, events) = read(&mut snapshot(&hub, &[4], 0));
    assert_eq!((values, events), (vec![4], vec![]));
}

// A snapshot items' payloads are dropped like all others.
#[test]
fn snapshot_items_are_dropped_exactly_once() {
    let ledger = crate::support::Ledger::new(30);
    let (_publisher, hub) = Builder::<String, crate::support::Counted>::new().epoch(1).build();
    let items = |from: usize| (from..from + 10).map(|number| ledger.payload(number)).collect::<Vec<_>>();
    let mut read_all = block_on(hub.subscribe_with_snapshot("a", || ready(Ok::<_, Infallible>((items(0), Position::new(1, 0))))))
        .expect("the snapshot is there");
    while read_all.try_recv().is_ok() {}
    let mut half = block_on(hub.subscribe_with_snapshot("a", || ready(Ok::<_, Infallible>((items(10), Position::new(1, 0))))))
        .expect("the snapshot is there");
    for _ in 0..5 {
        assert!(half.try_recv().is_ok());
    }
    let unread = block_on(hub.subscribe_with_snapshot("a", || ready(Ok::<_, Infallible>((items(20), Position::new(1, 0))))))
        .expect("the snapshot is there");
    drop((read_all, half, unread));
    ledger.assert_each_dropped_once();
}
