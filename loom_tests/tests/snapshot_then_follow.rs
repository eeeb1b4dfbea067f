//! A snapshot and what follows it leave no hole and repeat nothing; who shares a run that fails or is abandoned is told or takes
//! over, and never sleeps on.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use keywake::{GapCause, Hub, Position, SnapshotFailed, Subscription};
use loom_tests::{Alarm, KEY, Payload, Payloads, Told, atomic::AtomicU64, builder, model, race};

type Outcome = Result<Subscription<u8, Payload>, SnapshotFailed>;
type Items = Result<([Payload; 1], Position), std::io::Error>;

/// Somebody who wants a snapshot, polled by hand.
struct Seeker {
    future: Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    alarm: Alarm,
    /// The rings before the last poll, if that left it asleep.
    asleep_at: Option<usize>,
    outcome: Option<Outcome>,
}

impl Seeker {
    fn new<Fut>(hub: &Hub<u8, Payload>, take: impl FnOnce() -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Items> + Send + 'static,
    {
        let hub = hub.clone();
        let future = async move { hub.subscribe_with_snapshot(&KEY, take).await };
        Self { future: Some(Box::pin(future)), alarm: Alarm::new(), asleep_at: None, outcome: None }
    }

    fn polled(mut self, times: usize) -> Self {
        for _ in 0..times {
            let Some(future) = &mut self.future else { break };
            let rings = self.alarm.rings();
            match self.alarm.poll(|cx| future.as_mut().poll(cx)) {
                Poll::Pending => self.asleep_at = Some(rings),
                Poll::Ready(outcome) => {
                    self.outcome = Some(outcome);
                    self.asleep_at = None;
                    self.future = None;
                }
            }
        }
        self
    }

    /// All threads are joined: whoever still sleeps was woken, and is served at the next poll.
    fn judge(mut self) -> Outcome {
        if let Some(rings) = self.asleep_at {
            assert!(self.alarm.rings() > rings, "it sleeps, and nobody is at work on a snapshot");
            self = self.polled(1);
        }
        assert_eq!(self.alarm.copies(), 0, "wakers");
        self.outcome.take().expect("an outcome")
    }
}

/// A snapshot of one item that says up to where `state` has come; counts its runs.
fn take(
    hub: &Hub<u8, Payload>,
    state: &Arc<AtomicU64>,
    runs: &Arc<AtomicUsize>,
    payloads: &Payloads,
) -> impl Fn() -> Items + use<> {
    let (hub, state, runs, payloads) = (hub.clone(), Arc::clone(state), Arc::clone(runs), payloads.clone());
    move || {
        // Relaxed: a count.
        runs.fetch_add(1, Ordering::Relaxed);
        let position = hub.position();
        Ok(([payloads.make(state.load(Ordering::Acquire))], position))
    }
}

#[track_caller]
fn judge_told(reader: &mut Subscription<u8, Payload>, published: &[u64]) {
    let mut told = Told::since(0);
    told.take_all(reader);
    let end = told.snapshot_end.expect("the snapshot's end");
    let &[state] = &told.items[..] else { panic!("one item: {told:?}") };
    assert!(state >= end, "the snapshot says {end} and holds {state}");
    told.assert_no_silent_hole(published);
    // A gap may be told that was none: of an event that was under way, to no topic yet, when the topic was made.
    assert!(told.gaps.iter().all(|gap| gap.cause == GapCause::Unread), "nothing was lost: {told:?}");
}

#[test]
fn snapshot_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let (state, runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let seeker = {
            let take = take(&hub, &state, &runs, &payloads);
            Seeker::new(&hub, move || async move { take() })
        };
        let events = [payloads.make(1), payloads.make(2)];
        let (seeker, publisher) = race(
            move || seeker.polled(1),
            move || {
                for event in events {
                    state.store(event.id(), Ordering::Release);
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        let mut reader = seeker.judge().expect("a snapshot");
        judge_told(&mut reader, &[1, 2]);
        drop((publisher, reader, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn two_share_a_run_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let runs = Arc::new(AtomicUsize::new(0));
        let seeker = || {
            let (at, runs, payloads) = (hub.clone(), Arc::clone(&runs), payloads.clone());
            Seeker::new(&hub, move || async move {
                // Relaxed: a count.
                runs.fetch_add(1, Ordering::Relaxed);
                let position = at.position();
                Ok(([payloads.make(position.seq())], position))
            })
        };
        let (one, two) = (seeker(), seeker());
        let event = payloads.make(1);
        let (one, (two, publisher)) = race(
            move || one.polled(1),
            move || {
                publisher.publish(&KEY, event);
                (two.polled(1), publisher)
            },
        );
        for outcome in [one.judge(), two.judge()] {
            judge_told(&mut outcome.expect("a snapshot"), &[1]);
        }
        // Relaxed: a count, and all threads are joined.
        assert!((1..=2).contains(&runs.load(Ordering::Relaxed)), "each ran at most once");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// One of the two would fail: who shares its run fails as well, who does not does not.
#[test]
fn failing_run_is_shared() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let (state, runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let fails = Seeker::new(&hub, || async { Err(std::io::Error::other("no")) });
        let succeeds = {
            let take = take(&hub, &state, &runs, &payloads);
            Seeker::new(&hub, move || async move { take() })
        };
        let (fails, succeeds) = race(move || fails.polled(1), move || succeeds.polled(1));
        let (fails, succeeds) = (fails.judge(), succeeds.judge());
        // Relaxed: a count, and all threads are joined.
        let ran = runs.load(Ordering::Relaxed) == 1;
        assert_eq!(succeeds.is_ok(), ran, "a run of its own succeeds");
        assert!(fails.is_err() || ran, "no run but the other's can have served it");
        drop((publisher, fails, succeeds));
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        payloads.assert_all_dropped();
    });
}

/// The one that leads is cancelled in the middle of its run: another takes over.
#[test]
fn cancelled_leader_hands_over() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let (state, runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let leaves = Seeker::new(&hub, || poll_fn(|_| Poll::Pending));
        let stays = {
            let take = take(&hub, &state, &runs, &payloads);
            Seeker::new(&hub, move || async move { take() })
        };
        let ((), stays) = race(
            move || {
                let leaves = leaves.polled(1);
                drop(leaves);
            },
            move || stays.polled(1),
        );
        let mut reader = stays.judge().expect("a snapshot");
        judge_told(&mut reader, &[]);
        drop((publisher, reader));
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        drop(hub);
        payloads.assert_all_dropped();
    });
}

/// The one that waits is cancelled while the run ends.
#[test]
fn cancelled_follower_leaves_nothing() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let (state, runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let seeker = || {
            let take = take(&hub, &state, &runs, &payloads);
            Seeker::new(&hub, move || async move { take() })
        };
        let (stays, leaves) = (seeker(), seeker());
        let (stays, ()) = race(
            move || stays.polled(1),
            move || {
                let Seeker { future, alarm, outcome, .. } = leaves.polled(1);
                drop((future, outcome));
                assert_eq!(alarm.copies(), 0, "wakers");
            },
        );
        drop(stays.judge().expect("a snapshot"));
        drop(publisher);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        payloads.assert_all_dropped();
    });
}
