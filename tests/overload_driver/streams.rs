//! What goes with a stream, and what a cancel is to it.

use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use keywake::{
    load::StreamClass,
    meter::{Meter, Timing},
    overload::{
        admission::{Admission, AdmissionLimits, Decision},
        driver::{CancelToken, Driver, Registration, StreamInfo, Streams},
        events::LoadHub,
        evictor::{EVICTED_MESSAGE, EvictReason, EvictorBuilder, Mode},
        status::{Classifier, Code, EndCause},
        watchdog::{Watchdog, WatchdogLimits},
    },
};

use crate::{
    support::CountingWaker,
    world::{World, evicted, evictor},
};

#[test]
fn handles_cross_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Driver>();
    shared::<Streams>();
    shared::<LoadHub>();
    sent::<Registration>();
    sent::<CancelToken>();
}

/// Drops a stream when it is woken.
struct Drops(Mutex<Option<Registration>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().expect("nobody panics with it").take());
    }
}

/// E23.
#[test]
fn victim_that_ends_before_its_cancel_is_nothing_and_not_counted() {
    let mut world = World::with(evictor(Mode::Full).max_per_round(Some(2)), |builder| builder);
    let (first, second) = (world.stream(StreamClass::Dev, "first"), world.stream(StreamClass::Live, "second"));
    let third = world.stream(StreamClass::CatchUp, "third");
    let second_id = second.id();
    let before = world.ticks(5, &[&first, &second, &third]);
    assert_eq!(evicted(&before), []);
    // Both are of the next round; the task of the first ends the second when it is woken, on this thread, before its turn comes.
    let mut token = first.token();
    let waker = Waker::from(Arc::new(Drops(Mutex::new(Some(second)))));
    assert!(token.poll_cancelled(&mut Context::from_waker(&waker)).is_pending());
    let chosen: Vec<_> = world.driver.explain().chosen().map(|stream| stream.id).collect();
    assert_eq!(chosen, [first.id(), second_id]);
    let lines = world.ticks(1, &[&first, &third]);
    assert_eq!(evicted(&lines), [(30.0, "first".to_owned())]);
    let [count] = world.driver.evictions()[..] else { panic!("one kind") };
    assert_eq!((count.class, count.action, count.count), (StreamClass::Dev, "cancelled", 1));
    assert_eq!(count.reason, EvictReason::Saturated);
    assert!(!world.driver.streams().cancel(second_id, EndCause::Evicted), "it is gone");
}

/// E23.
#[test]
fn first_cause_wins_and_a_second_cancel_is_not_counted() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    world.ticks(5, &[&hot, &cool]);
    let streams = world.driver.streams().clone();
    assert!(streams.cancel(hot.id(), EndCause::Stalled));
    assert!(!streams.cancel(hot.id(), EndCause::ShuttingDown));
    let mut own = world.driver.load().hub().subscribe(&keywake::overload::events::LoadKey::Stream(hot.id()));
    // It lingers, and is the victim; that is nothing.
    let lines = world.ticks(1, &[&hot, &cool]);
    assert_eq!((evicted(&lines), world.driver.evictions()), (Vec::new(), Vec::new()));
    assert_eq!(hot.cancelled().map(|cancelled| cancelled.cause()), Some(EndCause::Stalled));
    assert!(own.try_recv().is_err(), "nothing further is said to it");
    assert_eq!(streams.cancel_all(EndCause::ShuttingDown), 1, "the other one");
}

#[derive(Debug)]
struct Layer(Box<dyn Error + Send + Sync>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a layer failed")
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// E17.
#[test]
fn client_of_a_victim_is_told_unavailable_in_the_evictors_words_and_when_to_come_again() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    world.ticks(6, &[&hot, &cool]);
    let cancelled = hot.cancelled().expect("it is the victim");
    assert_eq!((cancelled.to_string(), cancelled.cause()), (EVICTED_MESSAGE.to_owned(), EndCause::Evicted));
    assert_eq!(cancelled.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(cancelled.victim().map(|victim| victim.eviction.evictions), Some(1));
    let classifier = Classifier::new();
    let mut wrapped: Box<dyn Error + Send + Sync> = Box::new(cancelled.clone());
    for _ in 0..5 {
        wrapped = Box::new(Layer(wrapped));
    }
    let unrelated = std::io::Error::other("the handler failed in some way after it");
    for end in [classifier.classify(Some(&*wrapped), None), classifier.classify(Some(&unrelated), Some(&cancelled))] {
        assert_eq!((end.code(), end.message(), end.cause()), (Code::Unavailable, EVICTED_MESSAGE, Some(EndCause::Evicted)));
    }
}

#[test]
fn token_tells_what_was_before_it_and_tells_it_each_time() {
    let world = World::new(Mode::Full);
    let stream = world.stream(StreamClass::Live, "one");
    let mut early = stream.token();
    assert!(world.driver.streams().cancel(stream.id(), EndCause::ShuttingDown));
    let mut late = stream.token();
    let waker = Waker::from(CountingWaker::new());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..2 {
        for token in [&mut early, &mut late] {
            let Poll::Ready(cancelled) = token.poll_cancelled(&mut cx) else { panic!("it was cancelled") };
            assert_eq!(cancelled.cause(), EndCause::ShuttingDown);
        }
    }
    let mut orphan = world.stream(StreamClass::Live, "two").token();
    assert!(orphan.poll_cancelled(&mut cx).is_pending(), "its stream is gone, and nothing is told");
    assert_eq!(crate::support::block_on(early.cancelled()).cause(), EndCause::ShuttingDown);
}

fn world_with_all() -> (World, Admission, Watchdog, Meter) {
    let admission = Admission::new(AdmissionLimits { catch_ups: 1, ..AdmissionLimits::default() }).expect("limits that work");
    let watchdog = Watchdog::new(WatchdogLimits::default()).expect("limits that work");
    let meter = Meter::new();
    let world = World::with(EvictorBuilder::new().mode(Mode::Full), |builder| {
        builder.admission(admission.clone()).watchdog(watchdog.clone()).meter(meter.clone())
    });
    (world, admission, watchdog, meter)
}

fn permit(admission: &Admission, class: StreamClass) -> keywake::overload::admission::Permit {
    match admission.try_admit(class, Some("alice")) {
        Decision::Admit(permit) => permit,
        Decision::Reject(refusal) => panic!("there is room: {refusal}"),
    }
}

/// E24.
#[test]
fn streams_that_come_and_go_leave_nothing() {
    let (mut world, admission, watchdog, meter) = world_with_all();
    world.source.says(crate::world::Says::Ratio(0.1));
    world.tick(5.0);
    for number in 0..100_000 {
        let permit = permit(&admission, StreamClass::Live);
        let stream = world.register(StreamInfo::new(StreamClass::Live, "one").permit(permit));
        if number % 10 == 0 {
            let progress = stream.progress("blocks").expect("there is a watchdog");
            progress.advance(1);
            let token = stream.token();
            assert!(number % 20 == 0 || world.driver.streams().cancel(stream.id(), EndCause::Stalled));
            drop((token, stream));
        }
        if number % 10_000 == 0 {
            world.tick(5.0);
        }
    }
    let left = (world.driver.streams().len(), meter.streams(), admission.active(), watchdog.active(world.now()).tasks);
    assert_eq!(left, (0, 0, 0, 0));
    assert!(world.driver.streams().is_empty());
    let stats = world.driver.load().hub().stats();
    assert_eq!((stats.topics, stats.readers, stats.tombstones), (2, 2, 0), "readiness and overload");
    world.tick(5.0);
    assert_eq!(world.driver.gauges().streams, 0);
}

#[test]
fn everything_of_a_stream_is_given_back_on_a_panic_too() {
    let (world, admission, watchdog, meter) = world_with_all();
    let stream = world.register(StreamInfo::new(StreamClass::Dev, "one").permit(permit(&admission, StreamClass::Dev)));
    assert_eq!((admission.active(), watchdog.active(world.now()).tasks, meter.streams()), (1, 1, 1));
    let result = catch_unwind(AssertUnwindSafe(move || {
        let _stream = stream;
        panic!("the handler panics");
    }));
    assert!(result.is_err());
    let left = (admission.active(), watchdog.active(world.now()).tasks, meter.streams(), world.driver.streams().len());
    assert_eq!(left, (0, 0, 0, 0));
}

/// E25.
#[test]
fn client_that_comes_back_is_another_stream_and_begins_unsampled() {
    let mut world = World::new(Mode::Full);
    let other = world.stream(StreamClass::Live, "other");
    let first = world.stream(StreamClass::Dev, "request");
    world.ticks(3, &[&first, &other]);
    let id = first.id();
    drop(first);
    let second = world.stream(StreamClass::Dev, "request");
    assert_ne!(second.id(), id);
    crate::world::burn(&second, Duration::from_millis(1));
    world.tick(5.0);
    let explanation = world.driver.explain();
    let of_second = explanation.streams.iter().find(|stream| stream.id == second.id()).expect("it is known");
    assert_eq!(of_second.fate, keywake::overload::evictor::Fate::Spared(keywake::overload::evictor::Spared::Unsampled));
    assert!(explanation.streams.iter().all(|stream| stream.id != id));
    assert_eq!(world.driver.streams().trace_id(second.id()).as_deref(), Some("request"));
    assert_eq!(world.driver.streams().trace_id(id), None);
}

#[test]
fn class_that_changes_is_the_meters_and_the_permits() {
    let (mut world, admission, ..) = world_with_all();
    let catch_up = permit(&admission, StreamClass::CatchUp);
    let mut stream = world.register(StreamInfo::new(StreamClass::CatchUp, "one").permit(catch_up).identity(7).parallelism(1.0));
    assert!(!admission.try_admit(StreamClass::CatchUp, None).is_admitted(), "one at a time");
    stream.set_class(StreamClass::Live);
    assert!(admission.try_admit(StreamClass::CatchUp, None).is_admitted());
    assert_eq!(stream.meter().class(), StreamClass::Live);
    world.ticks(3, &[&stream]);
    assert_eq!(world.driver.explain().streams[0].candidate.class, StreamClass::Live);
}

#[test]
fn what_its_client_tells_of_earlier_evictions_spares_a_stream() {
    let mut world = World::with(evictor(Mode::Full), |builder| builder);
    let just_now = world.base - Duration::from_secs(5);
    let hot = world.register(
        StreamInfo::new(StreamClass::Dev, "hot").identity(1).evicted_before(2, just_now).resume_cost(Duration::from_secs(9)),
    );
    let cool = world.stream(StreamClass::Dev, "cool");
    let lines = world.ticks(6, &[&hot, &cool]);
    assert_eq!(evicted(&lines), [(30.0, "cool".to_owned())]);
    let explanation = world.driver.explain();
    let hot = explanation.streams.iter().find(|stream| stream.id == hot.id()).expect("it is there");
    assert_eq!((hot.candidate.evictions_so_far, hot.candidate.resume_cost), (2, Duration::from_secs(9)));
}

#[test]
fn stream_that_is_metered_and_not_registered_costs_the_others_nothing() {
    let meter = Meter::builder().timing(Timing::ThreadCpu).build();
    let mut world = World::with(evictor(Mode::Full), |builder| builder.meter(meter.clone()));
    let mut foreign = vec![meter.track(StreamClass::Live)];
    let first = world.stream(StreamClass::Dev, "first");
    foreign.push(meter.track(StreamClass::Live));
    let second = world.stream(StreamClass::Dev, "second");
    world.ticks(4, &[&first, &second]);
    let known: Vec<_> = world.driver.explain().streams;
    assert_eq!(known.len(), 2);
    assert!(known.iter().all(|stream| stream.candidate.burn_cores > 0.0), "{known:?}");
    drop(foreign);
}

#[test]
fn stream_without_a_watchdog_has_no_source_of_progress() {
    let world = World::new(Mode::Full);
    let stream = world.stream(StreamClass::Dev, "one");
    stream.data_sent();
    assert!(stream.progress("blocks").is_none());
}
