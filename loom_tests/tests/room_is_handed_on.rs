//! Room for a stream is given to one at a time, and where it becomes free to one who waits: none is lost, whoever gives up.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

#[cfg(keywake_loom)]
use loom::sync::{Arc, Mutex};
#[cfg(not(keywake_loom))]
use std::sync::{Arc, Mutex};

use keywake::{
    load::StreamClass,
    overload::{
        admission::{Admission, AdmissionLimits, Decision, Permit, RefusalReason},
        pending::Admitting,
    },
};
use loom_tests::{Alarm, model, race, race3};

fn admission(limits: AdmissionLimits) -> Admission {
    Admission::with_seed(limits, 1).expect("limits that work")
}

fn with_one_seat() -> Admission {
    admission(AdmissionLimits { hard: 1, ..AdmissionLimits::default() })
}

fn taken(admission: &Admission) -> Permit {
    admission.try_admit(StreamClass::Live, None).into_result().expect("there is room")
}

/// One who waits, and what he knows.
struct Guest {
    waiting: Pin<Box<Admitting>>,
    alarm: Alarm,
    /// The rings before the last poll, if that left it asleep.
    asleep_at: Option<usize>,
    decision: Option<Decision>,
}

impl Guest {
    fn new(waiting: Admitting) -> Self {
        Self { waiting: Box::pin(waiting), alarm: Alarm::new(), asleep_at: None, decision: None }
    }

    fn of(admission: &Admission) -> Self {
        Self::new(admission.admit(StreamClass::Live, None, std::time::Instant::now()))
    }

    /// Polled once.
    fn polled(mut self) -> Self {
        let rings = self.alarm.rings();
        match self.alarm.poll(|cx| self.waiting.as_mut().poll(cx)) {
            Poll::Ready(decision) => (self.asleep_at, self.decision) = (None, Some(decision)),
            Poll::Pending => self.asleep_at = Some(rings),
        }
        self
    }

    /// All threads are joined: what it was told, which it was woken for if it slept.
    #[track_caller]
    fn judge(mut self) -> Option<Decision> {
        if self.decision.is_none() {
            let woken = self.asleep_at.is_none_or(|rings| self.alarm.rings() > rings);
            self = self.polled();
            assert!(woken || self.decision.is_none(), "lost wake: it sleeps, and there is an answer");
        }
        self.decision.take()
    }

    /// The same; and it has room.
    #[track_caller]
    fn assert_let_in(self) -> Permit {
        match self.judge() {
            Some(decision) => decision.into_result().expect("room"),
            None => panic!("lost: there is room, and it waits"),
        }
    }
}

#[test]
fn two_arrivals_at_one_seat() {
    model(|| {
        let admission = with_one_seat();
        let [one, two] = [admission.clone(), admission.clone()];
        let (one, two) = race(move || one.try_admit(StreamClass::Live, None), move || two.try_admit(StreamClass::Live, None));
        assert_eq!(usize::from(one.is_admitted()) + usize::from(two.is_admitted()), 1, "admitted");
        drop((one, two));
        assert_eq!(admission.active(), 0);
    });
}

#[test]
fn two_arrivals_of_an_identity_at_its_last_seat() {
    model(|| {
        let admission = admission(AdmissionLimits { per_identity: 1, ..AdmissionLimits::default() });
        let [one, two] = [admission.clone(), admission.clone()];
        let arrive = |admission: Admission| move || admission.try_admit(StreamClass::Live, Some("a"));
        let (one, two) = race(arrive(one), arrive(two));
        assert_eq!(usize::from(one.is_admitted()) + usize::from(two.is_admitted()), 1, "admitted");
        drop((one, two));
        assert_eq!((admission.active(), admission.stats().identities), (0, 0));
    });
}

#[test]
fn release_against_one_who_begins_to_wait() {
    model(|| {
        let admission = with_one_seat();
        let permit = taken(&admission);
        let arriving = admission.clone();
        let (guest, ()) = race(move || Guest::of(&arriving).polled(), move || drop(permit));
        let permit = guest.assert_let_in();
        assert_eq!(admission.active(), 1);
        drop(permit);
        assert_eq!(admission.active(), 0);
    });
}

#[test]
fn release_against_one_who_gives_up_before_another() {
    model(|| {
        let admission = with_one_seat();
        let permit = taken(&admission);
        let (first, second) = (Guest::of(&admission).polled(), Guest::of(&admission).polled());
        race(move || drop(permit), move || drop(first));
        let permit = second.assert_let_in();
        assert_eq!((admission.active(), admission.stats().waiting), (1, 0));
        drop(permit);
        assert_eq!(admission.active(), 0);
    });
}

#[test]
fn release_against_one_who_gives_up_against_an_arrival() {
    model(|| {
        let admission = with_one_seat();
        let permit = taken(&admission);
        let first = Guest::of(&admission).polled();
        let arriving = admission.clone();
        let ((), (), second) = race3(move || drop(permit), move || drop(first), move || Guest::of(&arriving).polled());
        drop(second.assert_let_in());
        assert_eq!((admission.active(), admission.stats().waiting), (0, 0));
    });
}

#[test]
fn release_against_sweep_against_poll() {
    model(|| {
        let admission = with_one_seat();
        let permit = taken(&admission);
        let began = std::time::Instant::now();
        let guest = Guest::new(admission.admit(StreamClass::Live, None, began));
        let sweeping = admission.clone();
        let ((), _, guest) =
            race3(move || drop(permit), move || sweeping.sweep(began + Duration::from_secs(10)), move || guest.polled());
        match guest.judge() {
            Some(Decision::Admit(permit)) => {
                assert_eq!(admission.active(), 1);
                drop(permit);
            }
            Some(Decision::Reject(refusal)) => {
                assert!(matches!(refusal.reason(), RefusalReason::WaitedTooLong { .. }), "{refusal}");
            }
            None => panic!("it waits, though its time is up and there is room"),
        }
        assert_eq!((admission.active(), admission.stats().waiting), (0, 0));
        drop(taken(&admission));
    });
}

#[test]
fn overload_against_release_against_poll() {
    model(|| {
        let admission = with_one_seat();
        let permit = taken(&admission);
        let guest = Guest::of(&admission);
        let overloaded = admission.clone();
        let ((), (), guest) = race3(move || drop(permit), move || overloaded.set_overloaded(true), move || guest.polled());
        let decision = guest.judge().expect("let in, or refused");
        assert_eq!(admission.active(), usize::from(decision.is_admitted()));
        drop(decision);
        assert_eq!((admission.active(), admission.stats().waiting), (0, 0));
    });
}

#[test]
fn catch_up_that_goes_live_against_one_who_begins_to_wait() {
    model(|| {
        let admission = admission(AdmissionLimits { catch_ups: 1, ..AdmissionLimits::default() });
        let mut first = admission.try_admit(StreamClass::CatchUp, None).into_result().expect("there is room");
        let arriving = admission.clone();
        let (guest, first) = race(
            move || Guest::new(arriving.admit(StreamClass::CatchUp, None, std::time::Instant::now())).polled(),
            move || {
                first.set_class(StreamClass::Live);
                first
            },
        );
        let second = guest.assert_let_in();
        assert_eq!((admission.active(), admission.stats().catching_up), (2, 1));
        drop((first, second));
        assert_eq!((admission.active(), admission.stats().catching_up), (0, 0));
    });
}

/// The hook looks under the lock under which it tells: the last one that tells, tells what holds.
#[test]
fn readiness_told_by_an_arrival_against_a_release() {
    model(|| {
        let told = Arc::new(Mutex::new(true));
        let telling = Arc::clone(&told);
        let hook = move |admission: &Admission| {
            let mut told = telling.lock().expect("no panic before");
            *told = admission.is_accepting();
        };
        let limits = AdmissionLimits { soft: 1, ..AdmissionLimits::default() };
        let admission = Admission::with_hook(limits, hook).expect("limits that work");
        let permit = taken(&admission);
        let arriving = admission.clone();
        let (second, ()) = race(move || taken(&arriving), move || drop(permit));
        assert_eq!((*told.lock().expect("no panic before"), admission.is_accepting()), (false, false));
        drop(second);
        assert!(*told.lock().expect("no panic before"));
    });
}
