//! Who is let in, who waits, and when room is free again: the contract of `overload::admission::Admission`, and what other servers were reported for.

use std::{
    collections::VecDeque,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_core::Stream;
use keywake::{
    load::StreamClass,
    overload::{
        admission::{Admission, AdmissionLimits, Decision, Permit, Permitted, Refusal, RefusalKind, RefusalReason},
        concurrency::{AdaptiveConcurrency, ConcurrencySample},
        pending::{Admitting, PendingLimits},
    },
};

fn admission(limits: AdmissionLimits) -> Admission {
    Admission::with_seed(limits, 1).expect("limits that work")
}

fn with_hard(hard: usize) -> Admission {
    admission(AdmissionLimits { hard, ..AdmissionLimits::default() })
}

#[track_caller]
fn admitted(decision: Decision) -> Permit {
    decision.into_result().expect("let in")
}

#[track_caller]
fn refused(decision: Decision) -> RefusalReason {
    decision.into_result().expect_err("refused").reason().clone()
}

fn live(admission: &Admission) -> Decision {
    admission.try_admit(StreamClass::Live, None)
}

/// A task that counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// One who waits, polled by hand.
struct Guest {
    waiting: Pin<Box<Admitting>>,
    bell: Arc<Bell>,
}

impl Guest {
    fn new(waiting: Admitting) -> Self {
        Self { waiting: Box::pin(waiting), bell: Arc::default() }
    }

    fn of(admission: &Admission, identity: &str, now: Instant) -> Self {
        Self::new(admission.admit(StreamClass::Live, Some(identity), now))
    }

    fn poll(&mut self) -> Poll<Decision> {
        self.waiting.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self.bell))))
    }

    #[track_caller]
    fn assert_waits(&mut self) {
        assert!(self.poll().is_pending());
    }

    #[track_caller]
    fn decided(&mut self) -> Decision {
        let Poll::Ready(decision) = self.poll() else { panic!("it waits") };
        decision
    }

    fn rings(&self) -> usize {
        self.bell.0.load(Ordering::SeqCst)
    }
}

fn is_send<T: Send + 'static>(_: &T) {}

#[test]
fn handles_cross_threads_and_live_as_long_as_they_must() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Admission>();
    check::<Permit>();
    check::<Permitted<Vec<u8>>>();
    check::<Refusal>();
    let admission = with_hard(1);
    let waiting = admission.admit(StreamClass::Live, None, Instant::now());
    is_send(&waiting);
}

// R1.

#[test]
fn soft_limit_only_makes_unready_and_tells_it_on_the_arrival() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let seen = Arc::clone(&seen);
        // It looks by itself, under its own lock.
        move |admission: &Admission| {
            let mut seen = seen.lock().unwrap();
            seen.push(admission.is_accepting());
        }
    };
    let admission = Admission::with_hook(AdmissionLimits { soft: 2, hard: 3, ..AdmissionLimits::default() }, hook).unwrap();
    let one = admitted(live(&admission));
    assert_eq!(*seen.lock().unwrap(), []);
    let two = admitted(live(&admission));
    assert_eq!(*seen.lock().unwrap(), [false], "count + 1 >= soft");
    let three = admitted(live(&admission));
    assert_eq!(refused(live(&admission)), RefusalReason::HardLimit { limit: 3 });
    drop(three);
    assert_eq!(*seen.lock().unwrap(), [false], "no flip without a change");
    drop((one, two));
    assert_eq!(*seen.lock().unwrap(), [false, true]);
}

#[test]
fn limits_that_are_off_let_everybody_in() {
    let admission = admission(AdmissionLimits::default());
    let permits: Vec<_> = (0..10_000).map(|_| admitted(live(&admission))).collect();
    assert_eq!((admission.active(), admission.is_accepting()), (10_000, true));
    drop(permits);
    assert_eq!(admission.active(), 0);
}

#[test]
fn greatest_limits_and_limits_of_one_work_like_any_other() {
    let most = usize::MAX;
    let pending = PendingLimits { length: most, start_up: Duration::MAX };
    let limits =
        AdmissionLimits { soft: most, hard: most, per_identity: most, catch_ups: most, pending, ..AdmissionLimits::default() };
    let admission = admission(AdmissionLimits { retry_max: Duration::MAX, ..limits });
    admission.set_concurrency_limit(Some(most));
    let _permit = admitted(admission.try_admit(StreamClass::CatchUp, Some("a")));
    assert!(admission.is_accepting());
    admission.set_concurrency_limit(Some(0));
    let mut guest = Guest::of(&admission, "a", Instant::now());
    guest.assert_waits();
    assert_eq!(
        admission.sweep(Instant::now() + Duration::from_secs(1 << 32)).map(|left| left > Duration::from_secs(1 << 33)),
        Some(true)
    );
    admission.set_concurrency_limit(Some(2));
    let _second = admitted(guest.decided());
    let one = AdmissionLimits { soft: 1, hard: 1, per_identity: 1, catch_ups: 1, ..AdmissionLimits::default() };
    let admission =
        Admission::with_seed(AdmissionLimits { retry_min: Duration::ZERO, retry_max: Duration::ZERO, ..one }, 1).unwrap();
    drop(admitted(admission.try_admit(StreamClass::Cached, Some("a"))));
    let _permit = admitted(admission.try_admit(StreamClass::Cached, Some("a")));
    assert!(!admission.is_accepting());
    assert_eq!(live(&admission).into_result().unwrap_err().retry_after(), Duration::ZERO);
}

/// Weakness 10 of the source: readiness was a flag, and a late writer could overwrite it.
#[test]
fn readiness_that_is_told_by_many_threads_ends_as_the_count_has_it() {
    let told = Arc::new(Mutex::new(true));
    let hook = {
        let told = Arc::clone(&told);
        move |admission: &Admission| {
            let mut told = told.lock().unwrap();
            *told = admission.is_accepting();
        }
    };
    let admission = Admission::with_hook(AdmissionLimits { soft: 2, ..AdmissionLimits::default() }, hook).unwrap();
    for round in 0..50 {
        let kept = Mutex::new(Vec::new());
        let come_and_go = |keep: bool| {
            (0..20).for_each(|_| drop(live(&admission)));
            kept.lock().unwrap().extend(keep.then(|| admitted(live(&admission))));
        };
        thread::scope(|scope| {
            for worker in 0..4 {
                let come_and_go = &come_and_go;
                scope.spawn(move || come_and_go(round % 2 == 0 && worker < 2));
            }
        });
        assert_eq!(*told.lock().unwrap(), round % 2 == 1, "round {round}");
        assert_eq!(admission.is_accepting(), round % 2 == 1);
    }
}

// R2, weakness 11.

#[test]
fn of_two_who_come_at_once_one_is_let_in() {
    let admission = with_hard(1);
    for _ in 0..100 {
        let kept = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| kept.lock().unwrap().extend(live(&admission).into_result()));
            }
        });
        let kept = kept.into_inner().unwrap();
        assert_eq!((kept.len(), admission.active()), (1, 1));
        drop(kept);
        assert_eq!(admission.active(), 0);
    }
}

#[test]
fn count_never_passes_the_limit_while_threads_come_and_go() {
    let (admission, inside, most) = (with_hard(3), AtomicUsize::new(0), AtomicUsize::new(0));
    let come_and_go = || {
        let Decision::Admit(permit) = live(&admission) else { return };
        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    };
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..200).for_each(|_| come_and_go()));
        }
    });
    assert!((1..=3).contains(&most.into_inner()));
    assert_eq!(admission.active(), 0);
}

// R3, reports 58 to 61.

/// A body of so many chunks.
struct Body(VecDeque<u8>);

impl Stream for Body {
    type Item = u8;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u8>> {
        Poll::Ready(self.0.pop_front())
    }
}

/// What a handler returns when it sends the headers: it is over, the body is not.
async fn handler(admission: &Admission) -> Result<Permitted<Body>, Refusal> {
    let permit = live(admission).into_result()?;
    std::future::ready(()).await;
    Ok(permit.attach(Body(VecDeque::from([1, 2]))))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let Poll::Ready(output) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else { panic!("it waits") };
    output
}

fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    let Poll::Ready(item) = Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop())) else { panic!("it waits") };
    item
}

#[test]
fn streams_count_after_their_headers_until_their_bodies_end() {
    let admission = with_hard(64);
    let mut bodies: Vec<_> = (0..64).map(|_| block_on(handler(&admission)).unwrap()).collect();
    assert_eq!(admission.active(), 64, "headers sent, bodies open");
    let refusal = block_on(handler(&admission)).err().unwrap();
    assert_eq!(refusal.reason(), &RefusalReason::HardLimit { limit: 64 });
    // A client that goes away drops its body.
    bodies.pop();
    let last = block_on(handler(&admission)).unwrap();
    assert_eq!(admission.active(), 64);
    drop((bodies, last));
    assert_eq!(admission.active(), 0);
}

#[test]
fn room_is_free_when_the_stream_has_ended_though_it_is_still_held() {
    let admission = with_hard(2);
    let mut body = block_on(handler(&admission)).unwrap();
    assert_eq!((next(&mut body), next(&mut body), admission.active()), (Some(1), Some(2), 1));
    assert_eq!((next(&mut body), admission.active()), (None, 0));
    assert!(body.permit().is_none());
    let mut done = admitted(live(&admission)).attach(std::future::ready(7));
    assert_eq!(admission.active(), 1);
    let Poll::Ready(7) = Pin::new(&mut done).poll(&mut Context::from_waker(Waker::noop())) else { panic!("it is ready") };
    assert_eq!((admission.active(), done.permit().is_some()), (0, false));
}

#[test]
fn room_is_free_after_the_stream_is_gone_and_not_before() {
    struct Checks(Admission, Arc<AtomicUsize>);
    impl Drop for Checks {
        fn drop(&mut self) {
            self.1.store(self.0.active(), Ordering::SeqCst);
        }
    }
    let (admission, at_drop) = (with_hard(1), Arc::new(AtomicUsize::new(usize::MAX)));
    drop(admitted(live(&admission)).attach(Checks(admission.clone(), Arc::clone(&at_drop))));
    assert_eq!((at_drop.load(Ordering::SeqCst), admission.active()), (1, 0));
}

#[test]
fn permit_of_a_task_that_panics_is_given_back() {
    let admission = with_hard(1);
    let task = thread::spawn({
        let permit = admitted(live(&admission));
        move || {
            let _body = permit.attach(());
            panic!("a task fails, on purpose");
        }
    });
    assert!(task.join().is_err());
    assert_eq!(admission.active(), 0);
}

// Refusals.

#[test]
fn hints_of_those_who_are_refused_together_are_spread_over_four_seconds() {
    let admission = with_hard(1);
    let _permit = admitted(live(&admission));
    let mut quarters = [0; 4];
    for _ in 0..1_000 {
        let hint = live(&admission).into_result().unwrap_err().retry_after();
        assert!(hint >= Duration::from_secs(1) && hint < Duration::from_secs(5), "{hint:?}");
        quarters[usize::try_from(hint.as_secs() - 1).unwrap()] += 1;
    }
    assert!(quarters.iter().all(|quarter| (200..300).contains(quarter)), "{quarters:?}");
}

#[test]
fn instances_give_different_hints_and_one_seed_gives_the_same() {
    let hints = |admission: &Admission| {
        let _permit = admission.try_admit(StreamClass::Live, None);
        [(); 4].map(|()| live(admission).into_result().unwrap_err().retry_after())
    };
    let limits = AdmissionLimits { hard: 1, ..AdmissionLimits::default() };
    assert_eq!(hints(&admission(limits.clone())), hints(&admission(limits.clone())));
    assert_ne!(hints(&Admission::new(limits.clone()).unwrap()), hints(&Admission::new(limits).unwrap()));
}

#[test]
fn refusal_says_in_words_what_is_in_the_way() {
    let limits = AdmissionLimits { hard: 3, per_identity: 1, catch_ups: 1, ..AdmissionLimits::default() };
    let admission = admission(limits);
    let message = |class, identity: &str| admission.try_admit(class, Some(identity)).into_result().unwrap_err().to_string();
    let _one = admitted(admission.try_admit(StreamClass::CatchUp, Some("a")));
    let assert_says = |class, identity, words: &str, reason: &str| {
        let message = message(class, identity);
        assert!(message.starts_with(&format!("{words} ({reason}; in ")), "{message}");
    };
    const LOAD: &str = "service under heavy load, please try connecting again";
    assert_says(StreamClass::Live, "a", "too many streams of this client", "limit of 1 streams per identity is reached");
    assert_says(StreamClass::Cached, "b", LOAD, "limit of 1 streams that catch up is reached");
    admission.set_concurrency_limit(Some(1));
    assert_says(StreamClass::Live, "b", LOAD, "adaptive limit of 1 streams is reached");
    admission.set_overloaded(true);
    assert_says(StreamClass::Live, "b", LOAD, "processors are overloaded");
    admission.shutdown();
    assert_says(StreamClass::Live, "b", "the server is shutting down, please reconnect", "shutting down");
}

#[test]
fn refusals_are_counted_for_each_kind_of_reason() {
    let pending = PendingLimits { length: 1, ..PendingLimits::default() };
    let limits = AdmissionLimits { hard: 3, per_identity: 2, catch_ups: 1, pending, ..AdmissionLimits::default() };
    let (admission, now) = (admission(limits), Instant::now());
    let came = |class, identity: &str| admission.try_admit(class, Some(identity)).into_result();
    let _permits = [came(StreamClass::CatchUp, "a").unwrap(), came(StreamClass::Live, "a").unwrap()];
    // As many of each as it stands far in the list.
    assert!(came(StreamClass::Cached, "b").is_err());
    admission.set_concurrency_limit(Some(2));
    (0..2).for_each(|_| assert!(came(StreamClass::Live, "b").is_err()));
    admission.set_concurrency_limit(None);
    let _third = came(StreamClass::Live, "b").unwrap();
    (0..3).for_each(|_| assert!(came(StreamClass::Live, "b").is_err()));
    (0..4).for_each(|_| assert!(came(StreamClass::Live, "a").is_err()));
    let mut guest = Guest::of(&admission, "c", now);
    (0..6).for_each(|_| _ = refused(Guest::of(&admission, "d", now).decided()));
    for _ in 0..8 {
        admission.sweep(now + Duration::from_secs(10));
        _ = refused(guest.decided());
        guest = Guest::of(&admission, "c", now);
    }
    // Who waits and goes is neither let in nor refused, also where his answer was there.
    admission.set_overloaded(true);
    drop(guest);
    (0..5).for_each(|_| assert!(came(StreamClass::Live, "e").is_err()));
    admission.shutdown();
    (0..7).for_each(|_| assert!(came(StreamClass::Live, "e").is_err()));
    let stats = admission.stats();
    assert_eq!(RefusalKind::ALL.map(|kind| stats.refused.of(kind)), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((stats.refused.total(), stats.admitted), (36, 3));
}

// Report 38.

#[test]
fn arrivals_while_overloaded_are_refused_with_a_hint_and_none_waits() {
    let admission = with_hard(10);
    let running = admitted(live(&admission));
    admission.set_overloaded(true);
    assert!(!admission.is_accepting());
    let began = Instant::now();
    for seconds in [1, 4, 9] {
        let mut guest = Guest::of(&admission, "a", began + Duration::from_secs(seconds));
        let refusal = guest.decided().into_result().unwrap_err();
        assert_eq!(refusal.reason(), &RefusalReason::Overloaded);
        assert!(refusal.retry_after() >= Duration::from_secs(1));
    }
    assert_eq!((admission.active(), admission.stats().waiting), (1, 0), "what runs is left alone");
    admission.set_overloaded(false);
    assert!(admission.is_accepting() && live(&admission).is_admitted());
    drop(running);
}

#[test]
fn overload_and_shutdown_refuse_those_who_wait_at_once() {
    for (shut_down, reason) in [(false, RefusalReason::Overloaded), (true, RefusalReason::ShuttingDown)] {
        let admission = with_hard(1);
        let permit = admitted(live(&admission));
        let mut guests = ["a", "b"].map(|identity| Guest::of(&admission, identity, Instant::now()));
        guests.iter_mut().for_each(Guest::assert_waits);
        if shut_down {
            admission.shutdown()
        } else {
            admission.set_overloaded(true)
        }
        drop(permit);
        for guest in &mut guests {
            assert_eq!(guest.rings(), 1);
            assert_eq!(refused(guest.decided()), reason);
        }
        assert_eq!((admission.stats().waiting, admission.stats().identities), (0, 0));
    }
}

#[test]
fn shutdown_is_for_good() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    admission.shutdown();
    admission.set_overloaded(false);
    admission.set_concurrency_limit(None);
    assert_eq!((admission.is_accepting(), admission.active()), (false, 1));
    drop(permit);
    assert_eq!(refused(live(&admission)), RefusalReason::ShuttingDown);
    assert!(!admission.is_accepting());
}

// Catch-ups.

#[test]
fn catch_up_that_goes_live_lets_the_next_catch_up() {
    let admission = admission(AdmissionLimits { catch_ups: 1, ..AdmissionLimits::default() });
    let mut first = admitted(admission.try_admit(StreamClass::CatchUp, Some("a")));
    let mut second = Guest::new(admission.admit(StreamClass::CatchUp, Some("b"), Instant::now()));
    second.assert_waits();
    // Whoever is at the head passes them.
    let passing = admitted(admission.try_admit(StreamClass::Live, None));
    first.set_class(StreamClass::Live);
    assert_eq!(second.rings(), 1);
    let second = admitted(second.decided());
    assert_eq!((second.class(), second.identity()), (StreamClass::CatchUp, Some("b")));
    assert_eq!((admission.stats().catching_up, admission.active()), (1, 3));
    drop((first, second, passing));
    assert_eq!((admission.stats().catching_up, admission.active(), admission.stats().identities), (0, 0, 0));
}

#[test]
fn catch_ups_that_wait_stop_no_live_stream_behind_them() {
    let admission = admission(AdmissionLimits { hard: 2, catch_ups: 1, ..AdmissionLimits::default() });
    let _catch_up = admitted(admission.try_admit(StreamClass::CatchUp, None));
    let other = admitted(live(&admission));
    let now = Instant::now();
    let mut catch_up = Guest::new(admission.admit(StreamClass::Cached, None, now));
    let mut live = Guest::of(&admission, "b", now);
    catch_up.assert_waits();
    live.assert_waits();
    drop(other);
    assert_eq!((catch_up.rings(), live.rings()), (0, 1));
    let _permit = admitted(live.decided());
}

// The queue.

#[test]
fn who_waits_is_let_in_in_order_and_woken_once() {
    let admission = with_hard(1);
    let mut permit = admitted(live(&admission));
    let mut guests = ["a", "b", "c"].map(|identity| Guest::of(&admission, identity, Instant::now()));
    guests.iter_mut().for_each(Guest::assert_waits);
    for turn in 0..guests.len() {
        drop(permit);
        assert_eq!(guests.each_ref().map(Guest::rings), [0, 1, 2].map(|guest| usize::from(guest <= turn)));
        guests[turn + 1..].iter_mut().for_each(Guest::assert_waits);
        permit = admitted(guests[turn].decided());
        assert_eq!(admission.active(), 1);
    }
    drop(permit);
    let stats = admission.stats();
    assert_eq!((stats.admitted, stats.refused.total(), stats.waiting, stats.active), (4, 0, 0, 0));
}

#[test]
fn who_comes_does_not_pass_those_who_wait() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    let mut guest = Guest::of(&admission, "a", Instant::now());
    drop(permit);
    // The room is given, though the one who waited was not polled yet.
    assert_eq!(refused(live(&admission)), RefusalReason::HardLimit { limit: 1 });
    let _permit = admitted(guest.decided());
}

#[test]
fn one_identity_that_floods_the_queue_waits_for_itself() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    let now = Instant::now();
    let mut flood: Vec<_> = (0..100).map(|_| Guest::of(&admission, "a", now)).collect();
    let mut other = Guest::of(&admission, "b", now);
    drop(permit);
    drop(admitted(flood[0].decided()));
    let _permit = admitted(other.decided());
    flood[1].assert_waits();
}

#[test]
fn who_waits_counts_against_the_limit_of_the_identity() {
    let admission = admission(AdmissionLimits { hard: 2, per_identity: 2, ..AdmissionLimits::default() });
    let permit = admitted(admission.try_admit(StreamClass::Live, Some("a")));
    let other = admitted(live(&admission));
    let mut second = Guest::of(&admission, "a", Instant::now());
    second.assert_waits();
    let mut third = Guest::of(&admission, "a", Instant::now());
    assert_eq!(refused(third.decided()), RefusalReason::IdentityLimit { limit: 2 });
    drop(second);
    let mut third = Guest::of(&admission, "a", Instant::now());
    third.assert_waits();
    drop((third, permit, other));
    assert_eq!(admission.stats().identities, 0);
}

#[test]
fn queue_holds_as_many_as_it_may_and_refuses_the_next() {
    for (length, expected) in [
        (2, RefusalReason::QueueFull { length: 2 }),
        (0, RefusalReason::HardLimit { limit: 1 }),
        (1024, RefusalReason::QueueFull { length: 1024 }),
    ] {
        let pending = PendingLimits { length, ..PendingLimits::default() };
        let admission = admission(AdmissionLimits { hard: 1, pending, ..AdmissionLimits::default() });
        let _permit = admitted(live(&admission));
        let now = Instant::now();
        let mut guests: Vec<_> = (0..length).map(|_| Guest::of(&admission, "a", now)).collect();
        guests.iter_mut().for_each(Guest::assert_waits);
        let mut late = Guest::of(&admission, "b", now);
        assert_eq!(refused(late.decided()), expected);
        drop(guests);
        assert_eq!((admission.stats().waiting, admission.stats().identities), (0, 0));
    }
}

#[test]
fn nobody_waits_longer_than_the_start_up_allows() {
    let admission = with_hard(1);
    let _permit = admitted(live(&admission));
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    assert_eq!(admission.sweep(began), None, "nobody waits");
    let mut guests = [Guest::of(&admission, "a", began), Guest::of(&admission, "b", at(3))];
    guests.iter_mut().for_each(Guest::assert_waits);
    assert_eq!(admission.sweep(at(4)), Some(Duration::from_secs(6)), "until it should look again");
    assert_eq!(admission.oldest_wait(at(4)), Some(Duration::from_secs(4)));
    assert_eq!(admission.sweep(at(10)), Some(Duration::from_secs(3)));
    assert_eq!(refused(guests[0].decided()), RefusalReason::WaitedTooLong { limit: Duration::from_secs(10) });
    assert_eq!(guests.each_ref().map(Guest::rings), [1, 0]);
    // A start of ten seconds: others may be there within 35.
    admission.set_start_up(Duration::from_secs(10));
    assert_eq!(admission.sweep(at(30)), Some(Duration::from_secs(8)));
    // A clock that goes back ends no wait.
    assert_eq!(admission.sweep(began - Duration::from_secs(1)), Some(Duration::from_secs(35)));
    assert_eq!(admission.sweep(at(38)), None);
    assert_eq!(refused(guests[1].decided()), RefusalReason::WaitedTooLong { limit: Duration::from_secs(35) });
}

/// Two modules have the rule, which do not know of each other.
#[cfg(feature = "scaling")]
#[test]
fn wait_inside_of_an_instance_is_as_long_as_the_wait_for_one() {
    for start_up in [0, 1, 2_857, 2_858, 4_000, 10_000, u64::MAX].map(Duration::from_millis) {
        let pending = PendingLimits { start_up, ..PendingLimits::default() };
        assert_eq!(pending.max_wait(), keywake::scaling::max_wait(start_up), "{start_up:?}");
    }
}

#[test]
fn who_stops_waiting_leaves_and_hands_on_what_he_was_given() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    let mut guests = ["a", "b", "c"].map(|identity| Guest::of(&admission, identity, Instant::now()));
    guests.iter_mut().for_each(Guest::assert_waits);
    let [first, second, mut third] = guests;
    drop(second);
    drop(permit);
    assert_eq!((first.rings(), third.rings()), (1, 0));
    // It was given room, and goes without having taken it.
    drop(first);
    assert_eq!((third.rings(), admission.active()), (1, 1));
    drop(admitted(third.decided()));
    assert_eq!((admission.active(), admission.stats().waiting, admission.stats().identities), (0, 0, 0));
}

#[test]
fn who_has_never_been_polled_is_let_in_as_well_and_may_go() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    let mut first = Guest::of(&admission, "a", Instant::now());
    let second = Guest::of(&admission, "b", Instant::now());
    drop(permit);
    drop(second);
    drop(admitted(first.decided()));
    assert!(first.poll().is_pending(), "told once");
    assert_eq!(admission.active(), 0);
}

#[test]
fn decision_that_is_not_taken_gives_its_room_back() {
    let admission = with_hard(1);
    drop(Guest::of(&admission, "a", Instant::now()));
    assert_eq!(admission.active(), 0);
    assert!(live(&admission).is_admitted());
}

#[test]
fn waiting_moves_to_the_task_that_polls_last() {
    let admission = with_hard(1);
    let permit = admitted(live(&admission));
    let mut guest = Guest::of(&admission, "a", Instant::now());
    guest.assert_waits();
    let first = std::mem::take(&mut guest.bell);
    guest.assert_waits();
    assert_eq!(Arc::strong_count(&first), 1, "the old waker is not kept");
    drop(permit);
    assert_eq!((first.0.load(Ordering::SeqCst), guest.rings()), (0, 1));
}

#[test]
fn waker_may_use_the_admission_and_one_that_panics_keeps_no_other_from_being_woken() {
    struct Curious(Admission);
    impl Wake for Curious {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.0.active(), 2);
            panic!("a waker fails, on purpose");
        }
    }
    let admission = with_hard(2);
    admission.set_concurrency_limit(Some(0));
    let mut curious = Box::pin(admission.admit(StreamClass::Live, None, Instant::now()));
    let waker = Waker::from(Arc::new(Curious(admission.clone())));
    assert!(curious.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let mut other = Guest::of(&admission, "b", Instant::now());
    other.assert_waits();
    let raised = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| admission.set_concurrency_limit(None)));
    assert!(raised.is_err());
    assert_eq!(other.rings(), 1);
    let _permit = admitted(other.decided());
}

#[test]
fn waker_may_drop_what_it_holds_of_the_admission() {
    /// Gives up a permit and a place, which lets in and wakes others.
    struct Leaving(Mutex<Option<(Permit, Admitting)>>);
    impl Wake for Leaving {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let admission = with_hard(2);
    let (first, second) = (admitted(live(&admission)), admitted(live(&admission)));
    let mut leaving = Box::pin(admission.admit(StreamClass::Live, None, Instant::now()));
    let place = admission.admit(StreamClass::Live, None, Instant::now());
    let mut others = ["a", "b"].map(|identity| Guest::of(&admission, identity, Instant::now()));
    others.iter_mut().for_each(Guest::assert_waits);
    let waker = Waker::from(Arc::new(Leaving(Mutex::new(Some((second, place))))));
    assert!(leaving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(first);
    // Let in: who was woken, and of the others the first, by the permit that he gave up.
    assert_eq!((others.each_ref().map(Guest::rings), admission.active()), ([1, 0], 2));
    drop(leaving);
    let _permits = others.map(|mut other| admitted(other.decided()));
    assert_eq!((admission.active(), admission.stats().waiting), (2, 0));
}

#[test]
fn hook_that_panics_costs_no_room() {
    let limits = AdmissionLimits { soft: 1, hard: 1, ..AdmissionLimits::default() };
    let admission = Admission::with_hook(limits, |_| panic!("a hook fails, on purpose")).unwrap();
    let raised = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(&admission)));
    assert!(raised.is_err());
    assert_eq!((admission.active(), admission.is_accepting()), (0, true));
}

#[test]
fn raised_limit_lets_in_as_many_as_it_has_room_for() {
    let admission = with_hard(10);
    admission.set_concurrency_limit(Some(1));
    let _permit = admitted(live(&admission));
    let mut guests = ["a", "b", "c"].map(|identity| Guest::of(&admission, identity, Instant::now()));
    guests.iter_mut().for_each(Guest::assert_waits);
    admission.set_concurrency_limit(Some(3));
    assert_eq!(guests.each_ref().map(Guest::rings), [1, 1, 0]);
    admission.set_concurrency_limit(Some(1));
    assert_eq!(admission.active(), 3, "who was given room keeps it");
}

#[test]
fn adaptive_limit_steers_who_is_let_in_and_no_duration_does() {
    let (admission, mut concurrency) = (with_hard(3), AdaptiveConcurrency::new(1, 3).unwrap());
    let permits = [(); 3].map(|()| admitted(live(&admission)));
    let began = Instant::now();
    let mut step = |cpu, seconds| {
        let sample = ConcurrencySample { cpu, active: admission.active() };
        let limit = concurrency.step(&sample, began + Duration::from_secs(seconds));
        admission.set_concurrency_limit(Some(limit));
        limit
    };
    assert_eq!([step(0.8, 0), step(0.95, 1), step(0.95, 2)], [3, 2, 1]);
    assert_eq!(admission.active(), 3, "nobody is sent away");
    // A ten minutes' download ends: how long it took moves nothing.
    assert_eq!(step(0.8, 600), 1);
    drop(permits);
    assert_eq!(step(0.8, 601), 1);
    let _permit = admitted(live(&admission));
    assert_eq!(refused(live(&admission)), RefusalReason::ConcurrencyLimit { limit: 1 });
    assert_eq!([step(0.5, 602), step(0.5, 603)], [2, 2], "it rises where it is reached");
    assert!(live(&admission).is_admitted());
}

#[test]
fn nothing_is_left_after_threads_have_come_waited_gone_and_given_up() {
    let admission = admission(AdmissionLimits { hard: 2, per_identity: 3, catch_ups: 1, ..AdmissionLimits::default() });
    let admission = &admission;
    let visit = move |worker: usize, turn: usize| {
        let class = if turn % 3 == 0 { StreamClass::CatchUp } else { StreamClass::Live };
        let identity = ["a", "b", "c"][(worker + turn) % 3];
        let mut guest = Guest::new(admission.admit(class, Some(identity), Instant::now()));
        for _ in 0..worker {
            match guest.poll() {
                Poll::Ready(Decision::Admit(mut permit)) => permit.set_class(StreamClass::Live),
                Poll::Ready(Decision::Reject(_)) => break,
                Poll::Pending => thread::yield_now(),
            }
        }
    };
    thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || (0..200).for_each(|turn| visit(worker, turn)));
        }
    });
    let stats = admission.stats();
    assert_eq!((stats.active, stats.catching_up, stats.waiting, stats.identities), (0, 0, 0, 0));
    assert!(live(admission).is_admitted());
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Everything that can be done, in any order: what is there and what was done to it.
struct Walk {
    admission: Admission,
    random: Random,
    now: Instant,
    permits: Vec<Permit>,
    guests: Vec<(Guest, StreamClass)>,
    most: usize,
    overloaded: bool,
}

impl Walk {
    const HARD: usize = 4;
    const CATCH_UPS: usize = 2;

    fn new(seed: u64) -> Self {
        let pending = PendingLimits { length: 6, ..PendingLimits::default() };
        let limits = AdmissionLimits {
            hard: Self::HARD,
            catch_ups: Self::CATCH_UPS,
            per_identity: 4,
            pending,
            ..AdmissionLimits::default()
        };
        let (admission, now) = (admission(limits), Instant::now());
        let (permits, guests) = (Vec::new(), Vec::new());
        Self { admission, random: Random(seed), now, permits, guests, most: Self::HARD, overloaded: false }
    }

    fn any<T>(random: &mut Random, things: &mut Vec<T>) -> Option<T> {
        let number = things.len();
        (number > 0).then(|| things.swap_remove(random.below(number)))
    }

    fn step(&mut self) {
        let class = [StreamClass::Live, StreamClass::CatchUp, StreamClass::Cached][self.random.below(3)];
        match self.random.below(10) {
            0..=3 => {
                let identity = ["a", "b", "c"][self.random.below(3)];
                self.guests.push((Guest::new(self.admission.admit(class, Some(identity), self.now)), class));
            }
            4 => drop(Self::any(&mut self.random, &mut self.guests)),
            5 | 6 => drop(Self::any(&mut self.random, &mut self.permits)),
            7 => {
                let number = self.random.below(Self::HARD);
                if let Some(permit) = self.permits.get_mut(number) {
                    permit.set_class(StreamClass::Live);
                }
            }
            8 => {
                self.most = 1 + self.random.below(Self::HARD);
                self.admission.set_concurrency_limit(Some(self.most));
            }
            _ => {
                self.now += Duration::from_secs(1);
                self.admission.sweep(self.now);
                self.overloaded = self.random.below(8) == 0;
                self.admission.set_overloaded(self.overloaded);
            }
        }
    }

    /// Takes what was decided; who was left asleep and was not woken has no answer.
    fn take_answers(&mut self) {
        for (mut guest, class) in std::mem::take(&mut self.guests) {
            let (asleep, rings) = (Arc::strong_count(&guest.bell) > 1, guest.rings());
            match guest.poll() {
                Poll::Pending => self.guests.push((guest, class)),
                Poll::Ready(decision) => {
                    assert!(!asleep || rings > 0, "an answer without a wake");
                    self.permits.extend(decision.into_result());
                }
            }
        }
    }

    fn judge(&self) {
        let stats = self.admission.stats();
        assert_eq!((stats.active, stats.waiting), (self.permits.len(), self.guests.len()));
        assert!(stats.active <= Self::HARD && stats.catching_up <= Self::CATCH_UPS, "{stats:?}");
        let has_room = !self.overloaded && stats.active < self.most;
        let may_catch_up = stats.catching_up < Self::CATCH_UPS;
        for (_, class) in self.guests.iter().filter(|_| has_room) {
            assert!(*class != StreamClass::Live && !may_catch_up, "there is room, and a {class:?} waits: {stats:?}");
        }
        assert!(!self.overloaded || self.guests.is_empty(), "nobody waits while it is overloaded");
    }
}

#[test]
fn whatever_is_done_counts_are_exact_limits_hold_and_no_room_is_left_while_one_waits_for_it() {
    for seed in 0..200 {
        let mut walk = Walk::new(seed);
        for _ in 0..200 {
            walk.step();
            walk.take_answers();
            walk.judge();
        }
        let Walk { admission, permits, guests, .. } = walk;
        drop((permits, guests));
        let stats = admission.stats();
        assert_eq!((stats.active, stats.catching_up, stats.waiting, stats.identities), (0, 0, 0, 0));
    }
}
