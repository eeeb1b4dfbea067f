//! When the last publisher is dropped no reader sleeps on: each drains what was published and is told so.

use keywake::{CloseReason, OnLastPublisher};
use loom_tests::{KEY, Payloads, Sleeper, builder, model, race, race3};

#[test]
fn drop_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let event = payloads.make(1);
        let (mut sleeper, ()) = race(
            move || sleeper.polled(2),
            move || {
                publisher.publish(&KEY, event);
                drop(publisher);
            },
        );
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, sleeper.told.end.clone()), (&[1][..], Some(CloseReason::PublisherDropped)));
        drop(sleeper);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        payloads.assert_all_dropped();
    });
}

#[test]
fn drop_against_subscribe() {
    model(|| {
        let (publisher, hub) = builder().build();
        let other = hub.clone();
        let (mut sleeper, ()) = race(move || Sleeper::new(other.subscribe(&KEY)).polled(1), move || drop(publisher));
        sleeper.judge();
        assert_eq!(sleeper.told.end, Some(CloseReason::PublisherDropped));
        drop((sleeper, hub));
    });
}

#[test]
fn last_two_clones_are_dropped_at_once() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let other = publisher.clone();
        let event = payloads.make(1);
        let (mut sleeper, (), ()) = race3(
            move || sleeper.polled(1),
            move || drop(publisher),
            move || {
                other.publish(&KEY, event);
                drop(other);
            },
        );
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, sleeper.told.end.clone()), (&[1][..], Some(CloseReason::PublisherDropped)));
        drop((sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn readers_stay_where_that_was_asked_for() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().on_last_publisher(OnLastPublisher::Keep).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let event = payloads.make(1);
        let (mut sleeper, ()) = race(
            move || sleeper.polled(2),
            move || {
                publisher.publish(&KEY, event);
                drop(publisher);
            },
        );
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, sleeper.told.end.clone()), (&[1][..], None));
        drop((sleeper, hub));
        payloads.assert_all_dropped();
    });
}
