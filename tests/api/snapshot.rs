//! Snapshot then follow: nothing twice, nothing missing, one run for all who ask at once.

use std::{
    cell::Cell,
    convert::Infallible,
    future::{Future, ready},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

use keywake::{Builder, CloseReason, Hub, Position, Publisher, Received, SnapshotFailed, Subscription};
use tokio::sync::oneshot;

use crate::support::{CountingWaker, assert_closed, assert_empty, block_on, drain, next_event, next_gap, within_limit};

type Snapshotting<'a> = Pin<Box<dyn Future<Output = Result<Subscription<String, u64>, SnapshotFailed>> + 'a>>;

fn hub_of_epoch_7() -> (Publisher<String, u64>, Hub<String, u64>) {
    Builder::new().epoch(7).build()
}

/// What a snapshot function answers: values, and the position they reflect.
fn state(values: &[u64], seq: u64) -> Result<(Vec<u64>, Position), Infallible> {
    Ok((values.to_vec(), Position::new(7, seq)))
}

/// The values of the snapshot, which must be complete, and the position it ends with.
fn take_snapshot(sub: &mut Subscription<String, u64>) -> (Vec<u64>, Position) {
    let mut values = Vec::new();
    loop {
        match sub.try_recv() {
            Ok(Received::Event(event)) => values.push(*event),
            Ok(Received::SnapshotEnd(position)) => return (values, position),
            _ => panic!("expected the rest of the snapshot"),
        }
    }
}

fn poll(future: &mut Snapshotting<'_>, waker: &Arc<CountingWaker>) -> Poll<Result<Subscription<String, u64>, SnapshotFailed>> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
}

/// A snapshot that is answered from outside.
async fn answered_by(
    answer: oneshot::Receiver<Result<(Vec<u64>, Position), &'static str>>,
) -> Result<(Vec<u64>, Position), &'static str> {
    answer.await.expect("the answer comes")
}

#[test]
fn snapshot_comes_first_then_its_end_then_what_follows() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[10, 20, 30], 0)))).expect("the snapshot is there");
    publisher.publish("a", 40);
    assert_eq!(take_snapshot(&mut sub), (vec![10, 20, 30], Position::new(7, 0)));
    assert_eq!(*next_event(&mut sub), 40);
    assert_empty(&mut sub);
}

#[test]
fn empty_snapshot_still_says_where_it_ends() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[], 0)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub), (vec![], Position::new(7, 0)));
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn reader_is_registered_before_the_snapshot_is_taken() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let ran = Cell::new(false);
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        ran.set(true);
        assert_eq!(publisher.publish("a", 1).readers, 1, "nobody would keep this event");
        // The state is read after the event was published, the position before.
        ready(state(&[], 0))
    }))
    .expect("the snapshot is there");
    assert!(ran.get());
    assert_eq!(take_snapshot(&mut sub).0, [0; 0]);
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn event_that_the_snapshot_reflects_does_not_come_again() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        publisher.publish("a", 1);
        publisher.publish("a", 2);
        publisher.publish("a", 3);
        ready(state(&[12], 2))
    }))
    .expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub), (vec![12], Position::new(7, 2)));
    assert_eq!(drain(&mut sub), [3]);
    assert_eq!(sub.position(), Position::new(7, 3));
}

#[test]
fn snapshot_older_than_the_subscription_tells_a_gap_behind_itself() {
    let (mut publisher, hub) = hub_of_epoch_7();
    for value in 1..=4 {
        publisher.publish("a", value);
    }
    // A replica's state: it reflects 2, and 3 and 4 were published while nobody read.
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[12], 2)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub), (vec![12], Position::new(7, 2)));
    let gap = next_gap(&mut sub);
    assert_eq!((gap.from, gap.to), (2, 4));
    assert_empty(&mut sub);
    publisher.publish("a", 5);
    assert_eq!(drain(&mut sub), [5]);
}

#[test]
fn snapshot_older_than_retained_events_is_followed_by_them() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let _keeper = hub.subscribe("a");
    for value in 1..=4 {
        publisher.publish("a", value);
    }
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[12], 2)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub), (vec![12], Position::new(7, 2)));
    assert_eq!(drain(&mut sub), [3, 4]);
}

#[test]
fn snapshot_of_another_epoch_is_told() {
    let (_publisher, hub) = hub_of_epoch_7();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(Ok::<_, Infallible>((vec![1], Position::new(8, 2))))))
        .expect("the snapshot is there");
    while let Ok(received) = sub.try_recv() {
        if let Received::Gap(gap) = received {
            assert_eq!(gap.cause, keywake::GapCause::OtherEpoch);
            return;
        }
    }
    panic!("no word about the epoch");
}

#[test]
fn position_within_the_snapshot_does_not_promise_the_rest_of_it() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let _keeper = hub.subscribe("a");
    for value in 1..=4 {
        publisher.publish("a", value);
    }
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[10, 20], 4)))).expect("the snapshot is there");
    assert!(sub.position().seq() < 4);
    assert_eq!(*next_event(&mut sub), 10);
    assert!(sub.position().seq() < 4, "whoever resumes here would miss the rest of the snapshot");
    take_snapshot(&mut sub);
    assert_eq!(sub.position(), Position::new(7, 4));
}

#[test]
fn callers_at_the_same_time_share_one_run() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let runs = AtomicUsize::new(0);
    let (answer, wait) = oneshot::channel();
    let slot = Mutex::new(Some(wait));
    let waker = CountingWaker::new();
    let mut callers: Vec<Snapshotting<'_>> = (0..10)
        .map(|_| {
            let (runs, slot) = (&runs, &slot);
            Box::pin(hub.subscribe_with_snapshot("a", move || {
                runs.fetch_add(1, Ordering::SeqCst);
                answered_by(slot.lock().expect("not poisoned").take().expect("only one run"))
            })) as Snapshotting<'_>
        })
        .collect();
    for caller in &mut callers {
        assert!(poll(caller, &waker).is_pending());
        publisher.publish("a", 0);
    }
    assert_eq!(hub.readers("a"), 10);
    answer.send(Ok((vec![50, 60], Position::new(7, 4)))).expect("somebody waits");
    assert!(waker.wakes() >= 1);
    let mut done = Vec::new();
    // The leader may have to be polled before the others are ready.
    for _ in 0..2 {
        callers.retain_mut(|caller| match poll(caller, &waker) {
            Poll::Pending => true,
            Poll::Ready(sub) => {
                done.push(sub.expect("the snapshot is there"));
                false
            }
        });
    }
    assert_eq!((done.len(), runs.load(Ordering::SeqCst)), (10, 1));
    for sub in &mut done {
        // Also those who registered after position 4 get all that follows it.
        assert_eq!(take_snapshot(sub), (vec![50, 60], Position::new(7, 4)));
        assert_eq!(drain(sub), [5, 6, 7, 8, 9, 10]);
    }
}

#[test]
fn every_joiner_is_woken_when_the_shared_run_ends() {
    let (_publisher, hub) = hub_of_epoch_7();
    let (answer, wait) = oneshot::channel();
    let slot = Mutex::new(Some(wait));
    let wakers: Vec<_> = (0..5).map(|_| CountingWaker::new()).collect();
    let mut callers: Vec<Snapshotting<'_>> = (0..5)
        .map(|_| {
            let slot = &slot;
            Box::pin(hub.subscribe_with_snapshot("a", move || {
                answered_by(slot.lock().expect("not poisoned").take().expect("only one run"))
            })) as Snapshotting<'_>
        })
        .collect();
    for (caller, waker) in callers.iter_mut().zip(&wakers) {
        assert!(poll(caller, waker).is_pending());
    }
    answer.send(Ok((vec![1], Position::new(7, 0)))).expect("somebody waits");
    assert_eq!(wakers[0].wakes(), 1, "the leader waits for the answer");
    assert!(poll(&mut callers[0], &wakers[0]).is_ready());
    for (caller, waker) in callers.iter_mut().zip(&wakers).skip(1) {
        assert!(waker.wakes() >= 1);
        assert!(poll(caller, waker).is_ready());
    }
}

#[test]
fn failed_snapshot_fails_all_who_shared_it_and_nobody_later() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let (answer, wait) = oneshot::channel();
    let slot = Mutex::new(Some(wait));
    let waker = CountingWaker::new();
    let mut callers: Vec<Snapshotting<'_>> = (0..3)
        .map(|_| {
            let slot = &slot;
            Box::pin(hub.subscribe_with_snapshot("a", move || {
                answered_by(slot.lock().expect("not poisoned").take().expect("only one run"))
            })) as Snapshotting<'_>
        })
        .collect();
    for caller in &mut callers {
        assert!(poll(caller, &waker).is_pending());
    }
    answer.send(Err("the store is down")).expect("somebody waits");
    for caller in &mut callers {
        let Poll::Ready(Err(failed)) = poll(caller, &waker) else { panic!("expected the failure") };
        assert!(format!("{failed}{}", source_of(&failed)).contains("the store is down"), "{failed}");
    }
    drop(callers);
    assert_eq!((hub.readers("a"), hub.topics()), (0, 0), "a failed caller leaves nothing behind");
    // Not remembered: the next one runs its own.
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[1], 0)))).expect("works again");
    publisher.publish("a", 2);
    assert_eq!(take_snapshot(&mut sub).0, [1]);
    assert_eq!(drain(&mut sub), [1]);
}

fn source_of(failed: &SnapshotFailed) -> String {
    std::error::Error::source(failed).map(ToString::to_string).unwrap_or_default()
}

#[test]
fn cancelled_leader_hands_over_to_a_joiner() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let (leader_waker, joiner_waker) = (CountingWaker::new(), CountingWaker::new());
    let mut leader: Snapshotting<'_> =
        Box::pin(hub.subscribe_with_snapshot("a", std::future::pending::<Result<(Vec<u64>, Position), Infallible>>));
    let runs = Cell::new(0);
    let mut joiners: Vec<Snapshotting<'_>> = (0..3)
        .map(|_| {
            let runs = &runs;
            Box::pin(hub.subscribe_with_snapshot("a", move || {
                runs.set(runs.get() + 1);
                ready(state(&[5], 1))
            })) as Snapshotting<'_>
        })
        .collect();
    assert!(poll(&mut leader, &leader_waker).is_pending());
    for joiner in &mut joiners {
        assert!(poll(joiner, &joiner_waker).is_pending());
    }
    publisher.publish("a", 1);
    publisher.publish("a", 2);
    assert_eq!(runs.get(), 0);
    drop(leader);
    assert!(joiner_waker.wakes() >= 1, "somebody must be told to take over");
    let mut done = Vec::new();
    for _ in 0..4 {
        joiners.retain_mut(|joiner| match poll(joiner, &joiner_waker) {
            Poll::Pending => true,
            Poll::Ready(sub) => {
                done.push(sub.expect("the snapshot is there"));
                false
            }
        });
    }
    assert_eq!(done.len(), 3);
    assert!((1..=3).contains(&runs.get()));
    for sub in &mut done {
        assert_eq!(take_snapshot(sub), (vec![5], Position::new(7, 1)));
        assert_eq!(drain(sub), [2]);
    }
}

#[test]
fn cancelled_joiner_leaves_the_leader_alone() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let (waker, joiner_waker) = (CountingWaker::new(), CountingWaker::new());
    let (answer, wait) = oneshot::channel();
    let mut leader: Snapshotting<'_> = Box::pin(hub.subscribe_with_snapshot("a", move || answered_by(wait)));
    let mut joiner: Snapshotting<'_> = Box::pin(hub.subscribe_with_snapshot("a", || ready(state(&[], 0))));
    assert!(poll(&mut leader, &waker).is_pending());
    assert!(poll(&mut joiner, &joiner_waker).is_pending());
    assert!(poll(&mut joiner, &joiner_waker).is_pending());
    assert_eq!(Arc::strong_count(&joiner_waker), 2, "one registration");
    drop(joiner);
    assert_eq!(Arc::strong_count(&joiner_waker), 1, "none is left");
    assert_eq!(hub.readers("a"), 1);
    answer.send(Ok((vec![9], Position::new(7, 0)))).expect("the leader waits");
    let Poll::Ready(Ok(mut sub)) = poll(&mut leader, &waker) else { panic!("expected the subscription") };
    publisher.publish("a", 1);
    assert_eq!(take_snapshot(&mut sub).0, [9]);
    assert_eq!(drain(&mut sub), [1]);
}

#[test]
fn key_that_is_closed_while_its_snapshot_is_taken_ends_behind_it() {
    let (mut publisher, hub) = hub_of_epoch_7();
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        publisher.publish("a", 1);
        assert!(hub.close("a", CloseReason::KeyClosed));
        ready(state(&[10], 0))
    }))
    .expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub).0, [10]);
    assert_eq!(drain(&mut sub), [1]);
    assert_closed(&mut sub);
    // Whoever comes now has nothing to do with the old one.
    let mut new = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[20], 1)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut new).0, [20]);
    assert_empty(&mut new);
}

#[test]
fn panicking_snapshot_fails_its_caller_only() {
    let (_publisher, hub) = hub_of_epoch_7();
    let waker = CountingWaker::new();
    let (answer, wait) = oneshot::channel::<()>();
    let mut leader: Snapshotting<'_> = Box::pin(hub.subscribe_with_snapshot("a", move || async move {
        let _ = wait.await;
        if hub_is_bad() { panic!("the snapshot function gives up") } else { state(&[], 0) }
    }));
    let mut joiner: Snapshotting<'_> = Box::pin(hub.subscribe_with_snapshot("a", || ready(state(&[1], 0))));
    assert!(poll(&mut leader, &waker).is_pending());
    assert!(poll(&mut joiner, &waker).is_pending());
    drop(answer);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut leader, &waker).is_ready()));
    assert!(panicked.is_err());
    drop(leader);
    let Poll::Ready(joined) = poll(&mut joiner, &waker) else { panic!("the joiner hangs") };
    assert_eq!(take_snapshot(&mut joined.expect("ran its own")).0, [1]);
    // And a new caller is not held up by the ruin.
    assert!(block_on(hub.subscribe_with_snapshot("a", || ready(state(&[1], 0)))).is_ok());
}

fn hub_is_bad() -> bool {
    true
}

#[test]
fn keys_do_not_share_a_snapshot() {
    let (_publisher, hub) = hub_of_epoch_7();
    let waker = CountingWaker::new();
    let mut stuck: Snapshotting<'_> =
        Box::pin(hub.subscribe_with_snapshot("a", std::future::pending::<Result<(Vec<u64>, Position), Infallible>>));
    assert!(poll(&mut stuck, &waker).is_pending());
    let mut sub = block_on(hub.subscribe_with_snapshot("b", || ready(state(&[3], 0)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut sub).0, [3]);
}

#[test]
fn later_caller_gets_a_snapshot_of_its_own() {
    let (_publisher, hub) = hub_of_epoch_7();
    let mut first = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[1], 0)))).expect("the snapshot is there");
    let mut second = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[2], 0)))).expect("the snapshot is there");
    assert_eq!(take_snapshot(&mut first).0, [1]);
    assert_eq!(take_snapshot(&mut second).0, [2]);
}

/// A snapshot of a key that the hub does not take: the function is not run, and the subscription ends at once with this reason.
fn assert_refused(hub: &Hub<String, u64>, reason: &CloseReason) {
    let runs = Cell::new(0);
    let take = || {
        runs.set(runs.get() + 1);
        ready(state(&[1], 0))
    };
    let mut sub = block_on(hub.subscribe_with_snapshot("a", take)).expect("no snapshot is no failed snapshot");
    assert_eq!(assert_closed(&mut sub).reason(), reason);
    assert_eq!(runs.get(), 0);
}

#[test]
fn snapshot_after_shutdown_is_not_taken() {
    let (_publisher, hub) = hub_of_epoch_7();
    hub.shutdown(CloseReason::Shutdown);
    assert_refused(&hub, &CloseReason::Shutdown);
}

#[test]
fn snapshot_beyond_the_topic_limit_is_not_taken() {
    let (_publisher, hub) = Builder::<String, u64>::new().epoch(7).max_topics(1).build();
    let taken = hub.subscribe("taken");
    assert_refused(&hub, &CloseReason::TopicLimit);
    assert_refused(&hub, &CloseReason::TopicLimit);
    drop(taken);
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || ready(state(&[1], 0)))).expect("there is room again");
    assert_eq!(take_snapshot(&mut sub).0, [1]);
}

/// A counter that its writer sets and then publishes; the snapshot is the counter.
struct Counter {
    value: u64,
    publisher: Publisher<String, u64>,
}

fn count_up(counter: &Mutex<Counter>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..8 {
            // State first, then the event: as the rule for snapshots says.
            let mut counter = counter.lock().expect("not poisoned");
            counter.value += 1;
            let value = counter.value;
            counter.publisher.publish("a", value);
        }
        thread::yield_now();
    }
}

/// The snapshot and a stretch of what follows must join without an event twice and without one missing.
fn snapshot_and_follow(hub: &Hub<String, u64>, counter: &Mutex<Counter>, is_kept: bool) {
    let mut sub = block_on(hub.subscribe_with_snapshot("a", || {
        // The position first, then the state.
        let position = hub.position();
        let value = counter.lock().expect("not poisoned").value;
        ready(Ok::<_, Infallible>((vec![position.seq(), value], position)))
    }))
    .expect("the snapshot is there");
    let (values, position) = take_snapshot(&mut sub);
    assert_eq!(position.seq(), values[0]);
    // The state may be newer than the position; what follows starts right behind the position.
    assert!(values[1] >= values[0]);
    let mut last = values[0];
    for n in 0..20 {
        match sub.recv_blocking().expect("the hub is open") {
            Received::Event(event) => {
                assert_eq!((*event, event.seq()), (last + 1, last + 1));
                last = *event;
            }
            // An event that was just being published when the key got its first reader: the state has it, and it is told.
            Received::Gap(gap) => {
                assert!(!is_kept && n == 0 && gap.from == last && gap.to <= values[1], "{gap:?} at {n} behind {values:?}");
                last = gap.to;
            }
            _ => panic!("neither an event nor a gap"),
        }
    }
}

fn follow_under_a_busy_writer(keep: bool) {
    within_limit(move || {
        let (publisher, hub) = Builder::<String, u64>::new().epoch(7).retain_events(usize::MAX).build();
        let counter = Mutex::new(Counter { value: 0, publisher });
        let stop = AtomicBool::new(false);
        let _keeper = keep.then(|| hub.subscribe("a"));
        thread::scope(|scope| {
            scope.spawn(|| count_up(&counter, &stop));
            let follow = || (0..300).for_each(|_| snapshot_and_follow(&hub, &counter, keep));
            let readers = [scope.spawn(follow), scope.spawn(follow), scope.spawn(follow)];
            let failed = readers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err).count();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0, "readers failed");
        });
    });
}

#[test]
fn snapshot_and_following_join_without_a_seam_under_a_busy_writer() {
    follow_under_a_busy_writer(true);
}

#[test]
fn snapshot_for_a_keys_first_reader_joins_or_tells_the_event_in_flight() {
    follow_under_a_busy_writer(false);
}
