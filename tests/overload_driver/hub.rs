//! What is told through the hub, to whom, and in which order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use keywake::{
    load::StreamClass,
    overload::{
        admission::{Admission, AdmissionLimits},
        events::{LoadEvent, LoadHub, LoadKey},
        evictor::{Alert, Mode},
        readiness::Readiness,
        status::EndCause,
    },
};

use crate::{
    support::{CountingWaker, within_limit},
    world::{World, events, evicted},
};

#[test]
fn cancelling_one_stream_wakes_one_task_among_70_000() {
    const STREAMS: usize = 70_000;
    let mut world = World::new(Mode::Full);
    let class = |number| if number == 7 { StreamClass::Live } else { StreamClass::Dev };
    let streams: Vec<_> = (0..STREAMS).map(|number| world.stream(class(number), &number.to_string())).collect();
    let wakers: Vec<_> = streams.iter().map(|_| CountingWaker::new()).collect();
    let mut tokens: Vec<_> = streams.iter().map(|stream| stream.token()).collect();
    for (token, waker) in tokens.iter_mut().zip(&wakers) {
        let waker = Waker::from(Arc::clone(waker));
        assert!(token.poll_cancelled(&mut Context::from_waker(&waker)).is_pending());
    }
    let hub = world.driver.load().hub().clone();
    assert_eq!((hub.stats().readers, hub.topics()), (STREAMS + 2, STREAMS + 2));
    let (hot, cool) = (&streams[41_234], &streams[7]);
    let lines = world.ticks(6, &[hot, cool]);
    assert_eq!(evicted(&lines), [(30.0, "41234".to_owned())], "saturated from 5 s on, unready from 20 s on");
    let woken: Vec<_> = wakers.iter().enumerate().filter(|(_, waker)| waker.wakes() > 0).map(|(number, _)| number).collect();
    assert_eq!((woken, wakers[41_234].wakes()), (vec![41_234], 1));
    assert_eq!((hub.stats().wakes, hub.stats().empty_wakes), (1, 0));
    assert_eq!(tokens[41_234].get().map(|cancelled| cancelled.cause()), Some(EndCause::Evicted));
    assert!(tokens.iter().enumerate().all(|(number, token)| number == 41_234 || token.get().is_none()));
}

#[test]
fn who_comes_late_begins_with_readiness_and_overload_as_they_are() {
    let mut world = World::new(Mode::Full);
    let load = world.driver.load().clone();
    let now = |key| match events(&mut load.follow(key)).as_slice() {
        [LoadEvent::Readiness(change)] => (change.ready, change.reason.clone()),
        [LoadEvent::Overload(state)] => (state.refuses(), state.to_string()),
        other => panic!("one state: {other:?}"),
    };
    assert_eq!(now(LoadKey::Readiness), (true, "nothing is required".to_owned()), "before the first tick");
    assert_eq!(now(LoadKey::Overload), (false, "enforced=false cpu_usage_ratio=unknown".to_owned()));
    world.ticks(5, &[]);
    assert_eq!(now(LoadKey::Readiness), (false, "overload: server CPU overloaded".to_owned()));
    let overloaded = "enforced=true cpu_usage_ratio=1.000 cpu_demand_ratio=1.000 because=Quota";
    assert_eq!(now(LoadKey::Overload), (true, overloaded.to_owned()));
    world.source.says(crate::world::Says::Ratio(0.1));
    world.ticks(7, &[]);
    assert_eq!(now(LoadKey::Readiness), (true, "overload: not overloaded".to_owned()));
    let recovered = "enforced=true cpu_usage_ratio=0.100 unready_for=40s because=Recovered";
    assert_eq!(now(LoadKey::Overload), (false, recovered.to_owned()));
}

/// Remembers whether the process was ready when it was woken.
struct WasReady {
    load: LoadHub,
    ready: AtomicBool,
    woken: AtomicBool,
}

impl Wake for WasReady {
    fn wake(self: Arc<Self>) {
        self.ready.store(self.load.is_ready(), Ordering::SeqCst);
        self.woken.store(true, Ordering::SeqCst);
    }
}

/// E6, E16.
#[test]
fn unready_is_visible_a_drain_before_the_first_eviction() {
    let admission = Admission::new(AdmissionLimits::default()).unwrap();
    let mut world = World::with(crate::world::evictor(Mode::Full), |builder| builder.admission(admission.clone()));
    let load = world.driver.load().clone();
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    let mut health = load.follow(LoadKey::Readiness);
    let mut all = load.hub().subscribe_set();
    all.add(&LoadKey::Readiness);
    all.add(&LoadKey::Stream(hot.id()));
    all.add(&LoadKey::Stream(cool.id()));
    assert_eq!(events(&mut health).len(), 1, "ready");
    let waker = Arc::new(WasReady { load: load.clone(), ready: AtomicBool::new(true), woken: AtomicBool::new(false) });
    let mut token = hot.token();
    assert!(token.poll_cancelled(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
    let mut unready_at = None;
    let mut evicted_at = None;
    for _ in 0..8 {
        let lines = world.ticks(1, &[&hot, &cool]);
        let is_unready = matches!(events(&mut health).last(), Some(LoadEvent::Readiness(change)) if !change.ready);
        if is_unready {
            unready_at.get_or_insert(world.time);
            // New streams are refused at once; those that are there are left alone.
            assert!(!admission.try_admit(StreamClass::Live, None).is_admitted());
            assert!(hot.cancelled().is_none() && cool.cancelled().is_none());
        }
        if let Some((time, _)) = evicted(&lines).first() {
            evicted_at.get_or_insert(*time);
        }
    }
    assert_eq!((unready_at, evicted_at), (Some(20.0), Some(30.0)));
    assert!(waker.woken.load(Ordering::SeqCst) && !waker.ready.load(Ordering::SeqCst), "unready when the first is told to go");
    let mut order = Vec::new();
    while let Ok((key, _)) = all.try_recv() {
        order.push(*key);
    }
    assert_eq!(order[..2], [LoadKey::Readiness, LoadKey::Stream(hot.id())], "one order over all keys");
}

#[test]
fn health_drain_and_a_second_admission_are_ordinary_subscribers() {
    let mut world = World::new(Mode::Full);
    let load = world.driver.load().clone();
    let (mut health, mut drain) = (load.follow(LoadKey::Readiness), load.follow(LoadKey::Readiness));
    let mut overload = load.follow(LoadKey::Overload);
    let other = Admission::new(AdmissionLimits::default()).unwrap();
    let mut follow = |load_says: &mut Vec<u16>| {
        for event in events(&mut health) {
            let LoadEvent::Readiness(change) = event else { panic!("readiness only") };
            load_says.push(if change.ready { 200 } else { 503 });
        }
        for event in events(&mut overload) {
            let LoadEvent::Overload(state) = event else { panic!("overload only") };
            other.set_overloaded(state.refuses());
        }
    };
    let mut statuses = Vec::new();
    follow(&mut statuses);
    assert!(other.is_accepting());
    world.ticks(5, &[]);
    follow(&mut statuses);
    assert!(!other.is_accepting());
    world.source.says(crate::world::Says::Ratio(0.1));
    world.ticks(7, &[]);
    follow(&mut statuses);
    assert!(other.is_accepting());
    load.shut_down("SIGTERM", world.now());
    world.ticks(2, &[]);
    follow(&mut statuses);
    assert_eq!(statuses, [200, 503, 200, 503], "sticky at shutdown");
    // The drain: whoever has to end its work learns why.
    let last = events(&mut drain).pop();
    assert!(matches!(last, Some(LoadEvent::Readiness(change)) if change.reason == "shutting down: SIGTERM"));
}

#[test]
fn stream_and_who_watches_all_are_told_of_an_eviction_and_of_a_would_be_one_only_the_latter() {
    for (mode, is_cut) in [(Mode::Full, true), (Mode::Observe, false)] {
        let mut world = World::new(mode);
        let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
        hot.set_position(17);
        let mut own = world.driver.load().follow(LoadKey::Stream(hot.id()));
        let mut all = world.driver.load().follow(LoadKey::Evictions);
        world.ticks(6, &[&hot, &cool]);
        let all = events(&mut all);
        let victim = match (is_cut, all.as_slice()) {
            (true, [LoadEvent::Evict(victim)]) | (false, [LoadEvent::WouldEvict(victim)]) => Arc::clone(victim),
            (_, other) => panic!("one: {other:?}"),
        };
        assert_eq!((&*victim.trace_id, victim.eviction.id, victim.eviction.position), ("hot", hot.id(), Some(17)));
        let own = events(&mut own);
        assert_eq!(own, if is_cut { vec![LoadEvent::Evict(victim)] } else { Vec::new() });
        assert_eq!(hot.cancelled().is_some(), is_cut);
    }
}

#[test]
fn alerts_are_told() {
    let mut world = World::new(Mode::Full);
    let mut alerts = world.driver.load().follow(LoadKey::Alerts);
    world.ticks(6, &[]);
    let [LoadEvent::Alert(alert)] = &events(&mut alerts)[..] else { panic!("one alert") };
    assert!(matches!(&**alert, Alert::NothingToEvict { spared, .. } if spared.is_empty()), "{alert}");
}

/// V1.
#[test]
fn newest_readiness_is_the_one_that_holds_whoever_sets_it() {
    let load = LoadHub::new(Readiness::new(Instant::now()));
    let base = Instant::now();
    let mut follower = load.follow(LoadKey::Readiness);
    let names = ["a", "b", "c", "d"];
    thread::scope(|scope| {
        for (place, name) in names.into_iter().enumerate() {
            let load = &load;
            scope.spawn(move || {
                for round in 0..2_000_u64 {
                    let now = base + Duration::from_micros(round * 10 + place as u64);
                    load.set(name, round % 2 == 1 || (round + place as u64) % 3 == 0, "toggled", now);
                }
            });
        }
    });
    let mut last = None;
    let mut previous = None;
    while let Ok(received) = follower.try_recv() {
        if let keywake::Received::Event(event) = received {
            let LoadEvent::Readiness(change) = &*event else { panic!("readiness only") };
            assert_ne!(previous.replace((change.ready, change.since)), Some((change.ready, change.since)), "told twice");
            last = Some(change.ready);
        }
    }
    assert_eq!(last, Some(load.is_ready()));
    assert!(load.is_ready(), "each is met by its last round");
}

/// Sets a condition from within the wake of readiness.
struct Answers(LoadHub, Instant);

impl Wake for Answers {
    fn wake(self: Arc<Self>) {
        self.0.set("reply", false, "heard", self.1);
    }
}

/// V4.
#[test]
fn waker_that_sets_readiness_is_told_of_it_without_a_deadlock() {
    within_limit(|| {
        let now = Instant::now();
        let load = LoadHub::new(Readiness::new(now));
        load.set("ask", false, "asked", now);
        let mut follower = load.follow(LoadKey::Readiness);
        assert_eq!(events(&mut follower).len(), 1);
        let waker = Waker::from(Arc::new(Answers(load.clone(), now + Duration::from_secs(2))));
        assert!(follower.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        load.set("ask", true, "answered", now + Duration::from_secs(1));
        let told = events(&mut follower);
        let told: Vec<_> = told.iter().map(|event| matches!(event, LoadEvent::Readiness(change) if change.ready)).collect();
        assert_eq!(told, [true, false], "first that it is ready, then what was made of that");
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[test]
fn waker_that_panics_costs_nobody_the_next_change() {
    let now = Instant::now();
    let load = LoadHub::new(Readiness::new(now));
    let (mut panicking, mut other) = (load.follow(LoadKey::Readiness), load.follow(LoadKey::Readiness));
    assert_eq!(events(&mut panicking).len() + events(&mut other).len(), 2);
    let waker = Waker::from(Arc::new(Panics));
    assert!(panicking.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    let set = |met| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| load.set("a", met, "set", now)));
    assert!(set(false).is_err());
    assert!(set(true).is_ok());
    let told = events(&mut other);
    let told: Vec<_> = told.iter().map(|event| matches!(event, LoadEvent::Readiness(change) if change.ready)).collect();
    assert_eq!(told, [false, true]);
}

/// Leaves a change to the turn in which it is woken, and panics.
struct AnswersAndPanics(LoadHub, Instant);

impl Wake for AnswersAndPanics {
    fn wake(self: Arc<Self>) {
        self.0.set("reply", false, "heard", self.1);
        panic!("a waker that panics");
    }
}

#[test]
fn change_that_was_left_to_a_turn_in_which_a_waker_panics_is_told() {
    let now = Instant::now();
    let load = LoadHub::new(Readiness::new(now));
    load.set("ask", false, "asked", now);
    let (mut panicking, mut other) = (load.follow(LoadKey::Readiness), load.follow(LoadKey::Readiness));
    assert_eq!(events(&mut panicking).len() + events(&mut other).len(), 2);
    let waker = Waker::from(Arc::new(AnswersAndPanics(load.clone(), now + Duration::from_secs(2))));
    assert!(panicking.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    let set = || load.set("ask", true, "answered", now + Duration::from_secs(1));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(set)).is_err());
    let told = events(&mut other);
    let told: Vec<_> = told.iter().map(|event| matches!(event, LoadEvent::Readiness(change) if change.ready)).collect();
    assert_eq!(told, [true, false], "though nobody has asked since");
}

/// 39: scaling in takes the unready first.
#[test]
fn drain_learns_of_a_shutdown_that_comes_in_an_overload() {
    let mut world = World::new(Mode::Full);
    let load = world.driver.load().clone();
    let mut drain = load.follow(LoadKey::Readiness);
    world.ticks(5, &[]);
    let is_for_good = |event: &LoadEvent| matches!(event, LoadEvent::Readiness(change) if change.for_good);
    let told = events(&mut drain);
    assert_eq!((told.len(), told.iter().filter(|event| is_for_good(event)).count()), (2, 0), "ready, unready");
    let waker = CountingWaker::new();
    assert!(drain.poll_recv(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
    load.shut_down("SIGTERM", world.now());
    assert_eq!(waker.wakes(), 1);
    let [last] = &events(&mut drain)[..] else { panic!("one change") };
    assert!(is_for_good(last), "{last:?}");
    world.source.says(crate::world::Says::Ratio(0.1));
    world.ticks(20, &[]);
    assert_eq!(events(&mut drain), [], "and that was the last");
}

#[test]
fn follower_that_lags_is_told_of_a_gap_and_ends_at_what_holds() {
    let now = Instant::now();
    let load = LoadHub::new(Readiness::new(now));
    let mut slow = load.follow(LoadKey::Readiness);
    for flip in 1..=1_001_u64 {
        load.set("flapping", flip % 2 == 0, "", now + Duration::from_secs(flip));
    }
    let (mut missed, mut events_seen, mut last) = (0, 0, None);
    while let Ok(received) = slow.try_recv() {
        match received {
            keywake::Received::Gap(gap) => missed += gap.missed.unwrap_or_default(),
            keywake::Received::Event(event) => (events_seen, last) = (events_seen + 1, Some((*event).clone())),
            other => panic!("neither: {other:?}"),
        }
    }
    assert!(missed > 0 && missed + events_seen == 1_002, "{missed} missed, {events_seen} received");
    assert!(matches!(last, Some(LoadEvent::Readiness(change)) if !change.ready) && !load.is_ready());
    assert_eq!(events(&mut load.follow(LoadKey::Readiness)).len(), 1, "who comes now needs none of it");
}

#[test]
fn hub_that_is_shut_down_in_an_overload_stops_no_driver() {
    let mut world = World::new(Mode::Full);
    let (hot, cool) = (world.stream(StreamClass::Dev, "hot"), world.stream(StreamClass::Live, "cool"));
    world.ticks(4, &[&hot, &cool]);
    world.driver.load().hub().shutdown(keywake::CloseReason::Shutdown);
    let lines = world.ticks(2, &[&hot, &cool]);
    assert_eq!(evicted(&lines), [(30.0, "hot".to_owned())]);
    assert_eq!(hot.cancelled().map(|cancelled| cancelled.cause()), Some(EndCause::Evicted));
    assert!(!world.driver.load().is_ready(), "who asks is answered");
}

#[test]
fn hub_that_is_shut_down_ends_every_stream() {
    let world = World::new(Mode::Full);
    let stream = world.stream(StreamClass::Live, "one");
    let mut token = stream.token();
    let waker = Waker::from(CountingWaker::new());
    let mut cx = Context::from_waker(&waker);
    assert!(token.poll_cancelled(&mut cx).is_pending());
    world.driver.load().hub().shutdown(keywake::CloseReason::Shutdown);
    let Poll::Ready(cancelled) = token.poll_cancelled(&mut cx) else { panic!("nothing else could be told") };
    assert_eq!(cancelled.cause(), EndCause::ShuttingDown);
}
