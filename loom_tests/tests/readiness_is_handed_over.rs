//! Of several who change readiness one tells it for all: what is told last is what holds, nobody sleeps on it, and nothing comes after a shutdown.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use keywake::{
    Received, Subscription,
    overload::{
        events::{LoadEvent, LoadHub, LoadKey},
        readiness::{Change, Readiness},
    },
};
use loom_tests::{Alarm, model, race, race3};

/// Who follows readiness, polled by hand, and what it was told.
struct Follower {
    reader: Subscription<LoadKey, LoadEvent>,
    alarm: Alarm,
    told: Vec<Change>,
    /// The rings before the last poll, if that left it asleep.
    asleep_at: Option<usize>,
}

impl Follower {
    fn of(load: &LoadHub) -> Self {
        Self { reader: load.follow(LoadKey::Readiness), alarm: Alarm::new(), told: Vec::new(), asleep_at: None }
    }

    /// Polled until it sleeps, or has been `times`.
    fn polled(mut self, times: usize) -> Self {
        for _ in 0..times {
            let rings = self.alarm.rings();
            match self.alarm.poll(|cx| self.reader.poll_recv(cx)) {
                Poll::Pending => {
                    self.asleep_at = Some(rings);
                    return self;
                }
                Poll::Ready(Ok(Received::Event(event))) => match &*event {
                    LoadEvent::Readiness(change) => self.told.push(Change::clone(change)),
                    other => panic!("not readiness: {other:?}"),
                },
                Poll::Ready(other) => panic!("no event: {other:?}"),
            }
            self.asleep_at = None;
        }
        self
    }

    /// All threads are joined: it was woken for whatever is left, the last that it is told holds, and nothing comes behind a shutdown.
    #[track_caller]
    fn judge(mut self, load: &LoadHub) -> Vec<Change> {
        let (before, woken) = (self.told.len(), self.asleep_at.is_none_or(|rings| self.alarm.rings() > rings));
        self = self.polled(usize::MAX);
        assert!(woken || self.told.len() == before, "lost wake: it sleeps, and there was more: {:?}", self.told);
        let holds = load.readiness().verdict();
        let last = self.told.last().expect("it began with how it stood");
        assert_eq!((last.ready, last.for_good), (holds.ready, holds.for_good), "told last, and what holds: {:?}", self.told);
        let of_shutdown = self.told.iter().position(|change| change.for_good);
        assert!(of_shutdown.is_none_or(|place| place + 1 == self.told.len()), "after a shutdown: {:?}", self.told);
        self.told
    }
}

fn not_ready(now: Instant) -> LoadHub {
    let mut readiness = Readiness::new(now);
    readiness.set("synced", false, "", now);
    LoadHub::new(readiness)
}

fn after(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}

#[test]
fn two_who_change_it_at_once() {
    model(|| {
        let now = Instant::now();
        let load = not_ready(now);
        let follower = Follower::of(&load).polled(2);
        let (one, two) = (load.clone(), load.clone());
        race(move || one.set("synced", true, "", after(now, 1)), move || two.set("overload", false, "", after(now, 2)));
        follower.judge(&load);
        assert!(!load.is_ready());
        drop(load);
    });
}

#[test]
fn change_against_change_against_a_follower_that_falls_asleep() {
    model(|| {
        let now = Instant::now();
        let load = not_ready(now);
        let follower = Follower::of(&load);
        let (one, two) = (load.clone(), load.clone());
        let (_, _, follower) = race3(
            move || one.set("synced", true, "", after(now, 1)),
            move || two.set("overload", false, "", after(now, 2)),
            move || follower.polled(2),
        );
        follower.judge(&load);
        drop(load);
    });
}

#[test]
fn ready_against_shutdown() {
    model(|| {
        let now = Instant::now();
        let load = not_ready(now);
        let follower = Follower::of(&load).polled(2);
        let (one, two) = (load.clone(), load.clone());
        race(move || one.set("synced", true, "", after(now, 1)), move || two.shut_down("SIGTERM", after(now, 2)));
        let told = follower.judge(&load);
        assert!(told.last().is_some_and(|change| change.for_good), "{told:?}");
        drop(load);
    });
}
