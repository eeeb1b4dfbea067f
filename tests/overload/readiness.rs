//! Named conditions, their AND, and what is for good.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use keywake::{
    load::StreamClass,
    overload::{
        evictor::{Action, EvictorBuilder, Mode},
        readiness::{FleetGuard, Overruled, Readiness, SharedReadiness},
    },
};

use crate::world::{World, seconds};

fn later(now: Instant, after: f64) -> Instant {
    now + seconds(after)
}

#[test]
fn ready_is_the_and_of_conditions_each_with_its_reason_and_since() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now);
    readiness.set("a", true, "fine", now);
    readiness.set("b", false, "starting", later(now, 1.0));
    readiness.set("c", false, "disk full", later(now, 2.0));
    assert_eq!(readiness.verdict().reason, "b: starting");
    readiness.set("b", true, "up", later(now, 3.0));
    assert_eq!((readiness.is_ready(), readiness.verdict().reason), (false, "c: disk full".to_owned()));
    let change = readiness.set("c", true, "cleaned", later(now, 4.0)).unwrap();
    assert_eq!((change.ready, change.reason.as_str(), change.since), (true, "c: cleaned", later(now, 4.0)));
    let told: Vec<_> = readiness.conditions().iter().map(|c| (c.name, c.met, &*c.reason, c.since)).collect();
    let since = [now, later(now, 3.0), later(now, 4.0)];
    assert_eq!(told, [("a", true, "fine", since[0]), ("b", true, "up", since[1]), ("c", true, "cleaned", since[2])]);
}

#[test]
fn watchers_see_no_flip_that_is_none() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now);
    readiness.set("a", true, "", now);
    let mut changes = Vec::new();
    for (after, name, met) in [
        (1.0, "a", true),
        (2.0, "a", false),
        (3.0, "a", false),
        (4.0, "b", false),
        (5.0, "a", true),
        (6.0, "b", true),
        (7.0, "b", true),
    ] {
        changes.extend(readiness.set(name, met, format!("at {after}"), later(now, after)));
        changes.extend(readiness.tick(later(now, after + 0.5)));
    }
    let told: Vec<_> = changes.iter().map(|change| (change.ready, change.since)).collect();
    assert_eq!(told, [(false, later(now, 2.0)), (true, later(now, 6.0))]);
    let a = &readiness.conditions()[0];
    assert_eq!((a.since, &*a.reason), (later(now, 5.0), "at 5"), "since when it is so, not since it was last said");
}

#[test]
fn condition_that_nobody_spoke_of_is_not_met() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now).min_ready_share(Some(0.9));
    readiness.observe_peers(Some(0.0), now);
    readiness.require("hub synced", now);
    readiness.require_bounded("room", seconds(60.0), now);
    readiness.set("hub synced", true, "", now);
    assert_eq!((readiness.is_ready(), readiness.verdict().reason), (false, "room: not told yet".to_owned()));
    readiness.set("room", true, "", now);
    assert!(readiness.is_ready());
    // Nor where it is alone, and the fleet would hold it back if it had been met before.
    let mut alone = Readiness::new(now).min_ready_share(Some(0.9));
    alone.observe_peers(Some(0.0), now);
    assert!(alone.require_bounded("room", seconds(60.0), now).is_some_and(|change| !change.ready));
    alone.set("room", true, "", now);
    assert_eq!((alone.set("room", false, "full", now), alone.is_ready()), (None, true));
}

#[test]
fn evictor_and_readiness_go_from_thread_to_thread() {
    fn crosses<T: Send + Sync + Clone + std::fmt::Debug + 'static>() {}
    fn moves<T: Send + Sync + std::fmt::Debug + 'static>() {}
    crosses::<SharedReadiness>();
    crosses::<Readiness>();
    moves::<keywake::overload::evictor::Evictor<String>>();
    moves::<EvictorBuilder>();
}

#[test]
fn shutdown_is_for_good_and_its_first_reason_stays() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now);
    readiness.set("a", true, "", now);
    assert!(readiness.shut_down("SIGTERM", now).is_some_and(|change| change.reason == "shutting down: SIGTERM"));
    for after in 1..10 {
        let now = later(now, f64::from(after));
        assert_eq!(readiness.set("a", after % 2 == 0, "", now), None);
        assert_eq!(readiness.shut_down("again", now), None);
        assert_eq!(readiness.tick(now), None);
        assert!(!readiness.is_ready());
    }
    assert_eq!(readiness.shutting_down(), Some(("SIGTERM", now)));
}

#[test]
fn shutdown_is_told_though_it_was_not_ready_already() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now);
    readiness.set("not overloaded", false, "full", now);
    assert!(!readiness.verdict().for_good);
    let change = readiness.shut_down("SIGTERM", later(now, 5.0)).expect("a change: it is for good now");
    assert_eq!((change.ready, change.for_good, change.since), (false, true, now));
    assert_eq!(change.reason, "shutting down: SIGTERM");
    assert_eq!(readiness.shut_down("again", later(now, 6.0)), None, "once");
    assert_eq!(readiness.verdict(), change);
}

#[test]
fn nothing_is_ready_after_a_shutdown_that_races_with_it() {
    let now = Instant::now();
    for _ in 0..200 {
        let readiness = SharedReadiness::new(Readiness::new(now));
        let together = Arc::new(Barrier::new(2));
        let setter = {
            let (readiness, together) = (readiness.clone(), Arc::clone(&together));
            thread::spawn(move || {
                together.wait();
                (0..500).filter_map(|_| readiness.set("a", true, "", now)).filter(|change| change.ready).count()
            })
        };
        together.wait();
        readiness.set("a", false, "", now);
        readiness.shut_down("SIGTERM", now);
        assert!(!readiness.is_ready());
        let flips = setter.join().unwrap();
        assert!(flips <= 1 && !readiness.is_ready(), "{flips} flips to ready");
    }
}

#[test]
fn foreign_flip_is_undone_within_a_tick() {
    let mut world = World::new(EvictorBuilder::new().mode(Mode::Full));
    world.add_many(0..8, StreamClass::Dev, 0.5);
    let mut readiness = Readiness::new(world.now());
    let tell = |readiness: &mut Readiness, world: &mut World, ratio: f64| {
        for action in world.tick(5.0, ratio) {
            match action {
                Action::Ready => drop(readiness.set("not overloaded", true, "calm", world.now())),
                Action::Unready { bound, .. } => drop(readiness.set("not overloaded", false, bound.to_string(), world.now())),
                _ => {}
            }
        }
        readiness.is_ready()
    };
    assert_eq!([1.0; 4].map(|ratio| tell(&mut readiness, &mut world, ratio)), [true, true, true, false]);
    readiness.set("not overloaded", true, "somebody meant well", world.now());
    assert!(readiness.is_ready());
    assert!(!tell(&mut readiness, &mut world, 0.85), "within an interval");
    assert_eq!(readiness.verdict().reason, "not overloaded: server CPU overloaded");
    readiness.shut_down("SIGTERM", world.now());
    (0..20).for_each(|_| assert!(!tell(&mut readiness, &mut world, 0.1), "but shutdown is for good"));
}

#[test]
fn bounded_condition_keeps_unready_no_longer_than_its_bound() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now);
    readiness.require_bounded("room", seconds(300.0), now);
    readiness.set("room", true, "", now);
    readiness.set("room", false, "full", later(now, 10.0));
    assert_eq!(readiness.tick(later(now, 309.9)), None);
    let change = readiness.tick(later(now, 310.0)).unwrap();
    assert_eq!((change.ready, change.reason.as_str()), (true, "room: overruled, unmet for too long"));
    assert_eq!(readiness.conditions()[0].overruled, Some(Overruled::ByBound));
    assert_eq!(readiness.set("room", false, "full still", later(now, 400.0)), None, "until it has been met again");
    readiness.set("room", true, "", later(now, 500.0));
    assert!(readiness.set("room", false, "full", later(now, 501.0)).is_some_and(|change| !change.ready));
}

#[test]
fn bound_survives_a_clock_that_goes_back() {
    let now = Instant::now() + Duration::from_secs(10_000);
    let mut readiness = Readiness::new(now);
    readiness.require_bounded("room", seconds(60.0), now);
    readiness.set("room", false, "full", now);
    assert_eq!(readiness.tick(now - seconds(5_000.0)), None);
    assert_eq!(readiness.tick(now - seconds(4_941.0)), None);
    assert!(readiness.tick(now - seconds(4_940.0)).is_some_and(|change| change.ready));
}

#[test]
fn too_few_ready_peers_overrule_what_is_full_and_not_what_cannot() {
    let now = Instant::now();
    let mut readiness = Readiness::new(now).min_ready_share(Some(0.5));
    readiness.require_bounded("room", seconds(300.0), now);
    readiness.set("room", true, "", now);
    readiness.set("synced", true, "", now);
    readiness.observe_peers(Some(0.4), now);
    assert_eq!(readiness.set("room", false, "full", now), None);
    assert_eq!(readiness.conditions()[0].overruled, Some(Overruled::ByFleet));
    assert!(readiness.set("synced", false, "lost", now).is_some(), "this one counts");
    assert!(readiness.set("synced", true, "", now).is_some_and(|change| change.ready));
    // Enough are back: now it counts, for its whole bound.
    let change = readiness.observe_peers(Some(0.8), later(now, 400.0)).unwrap();
    assert_eq!((change.ready, change.reason.as_str()), (false, "room: full"));
    assert_eq!(readiness.observe_peers(Some(0.1), later(now, 401.0)), None, "it is out already, and stays out");
    assert!(readiness.tick(later(now, 700.0)).is_some_and(|change| change.ready));
}

#[test]
fn guard_that_knows_nothing_holds_nobody_back() {
    let mut guard = FleetGuard::new(Some(0.5));
    assert!(guard.allows_unready());
    for (share, allows) in [(Some(0.49), false), (Some(0.5), true), (Some(f64::NAN), true), (None, true)] {
        guard.observe(share);
        assert_eq!(guard.allows_unready(), allows, "{share:?}");
    }
    for off in [None, Some(f64::NAN), Some(f64::INFINITY)] {
        let mut off = FleetGuard::new(off);
        off.observe(Some(0.0));
        assert!(off.allows_unready(), "{off:?}");
    }
}
