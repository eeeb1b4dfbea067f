//! A close or shutdown wakes whoever sleeps; each reader drains what is buffered and is told the reason; what a reader of the closed
//! topic was given is not given to a later one again.

use keywake::{CloseReason, Received, Start, TryRecvError};
use loom_tests::{KEY, Payloads, Sleeper, Told, builder, model, position, race, race3};

#[test]
fn close_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let closing = hub.clone();
        let (mut sleeper, closed) = race(move || sleeper.polled(3), move || closing.close(&KEY, CloseReason::KeyClosed));
        assert!(closed, "the key had a topic");
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, sleeper.told.end.clone()), (&[1][..], Some(CloseReason::KeyClosed)));
        assert_eq!(hub.topics(), 0);
        drop(sleeper);
        assert_eq!(payloads.alive(), 0, "payloads of a closed topic without readers");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn two_readers_against_close() {
    model(|| {
        let (publisher, hub) = builder().build();
        let (one, two) = (Sleeper::new(hub.subscribe(&KEY)), Sleeper::new(hub.subscribe(&KEY)));
        let closing = hub.clone();
        let (mut one, mut two, _) =
            race3(move || one.polled(1), move || two.polled(1), move || closing.close(&KEY, CloseReason::KeyClosed));
        for sleeper in [&mut one, &mut two] {
            sleeper.judge();
            assert_eq!(sleeper.told.end, Some(CloseReason::KeyClosed));
        }
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, one, two, hub));
    });
}

/// The event is either the old topic's, and then its readers get it and nobody else, or it is not, and then they do not.
#[test]
fn close_against_publish_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish(&KEY, payloads.make(1));
        let (closing, event) = (hub.clone(), payloads.make(2));
        let (mut sleeper, _, (publisher, published)) = race3(
            move || sleeper.polled(2),
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || {
                let published = publisher.publish(&KEY, event);
                (publisher, published)
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.told.end, Some(CloseReason::KeyClosed));
        assert_eq!(sleeper.told.seqs.contains(&2), published.readers == 1, "{published:?}, {:?}", sleeper.told);
        let mut later = hub.subscribe_from(&KEY, Start::After(position(0)));
        let mut told = Told::since(0);
        told.take_all(&mut later);
        told.assert_no_silent_hole(&[1, 2]);
        assert!(told.seqs.is_empty(), "given again: {told:?}");
        drop((publisher, sleeper, later, hub));
        payloads.assert_all_dropped();
    });
}

/// Three end one topic at once: its reader leaves, it is closed, and the writer is inside.
#[test]
fn close_against_last_unsubscribe_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let reader = hub.subscribe(&KEY);
        publisher.publish(&KEY, payloads.make(1));
        let (closing, event) = (hub.clone(), payloads.make(2));
        let (publisher, _, ()) = race3(
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || drop(reader),
        );
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn shutdown_against_subscribe() {
    model(|| {
        let (publisher, hub) = builder().build();
        let (other, closing) = (hub.clone(), hub.clone());
        let (mut sleeper, ()) =
            race(move || Sleeper::new(other.subscribe(&KEY)).polled(1), move || closing.shutdown(CloseReason::Shutdown));
        sleeper.judge();
        assert_eq!(sleeper.told.end, Some(CloseReason::Shutdown));
        assert!(hub.is_shutdown() && hub.topics() == 0);
        drop((publisher, sleeper, hub));
    });
}

#[test]
fn shutdown_against_publish_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        let (closing, event) = (hub.clone(), payloads.make(1));
        let (mut sleeper, (), (mut publisher, published)) = race3(
            move || sleeper.polled(1),
            move || closing.shutdown(CloseReason::Shutdown),
            move || {
                let published = publisher.publish(&KEY, event);
                (publisher, published)
            },
        );
        sleeper.judge();
        assert_eq!(sleeper.told.end, Some(CloseReason::Shutdown));
        assert_eq!(sleeper.told.seqs.len(), published.readers, "{published:?}, {:?}", sleeper.told);
        assert_eq!(publisher.publish(&KEY, payloads.make(2)).readers, 0);
        drop(sleeper);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics and payloads");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}

/// The first reason stays, and is everybody's.
#[test]
fn two_shutdowns_at_once() {
    model(|| {
        let (publisher, hub) = builder().build();
        let mut reader = hub.subscribe(&KEY);
        let (one, two) = (hub.clone(), hub.clone());
        race(move || one.shutdown(CloseReason::Shutdown), move || two.shutdown(CloseReason::SlowReader));
        let Err(TryRecvError::Closed(first)) = reader.try_recv().map(|_: Received<_>| ()) else { panic!("closed") };
        let Err(TryRecvError::Closed(later)) = hub.subscribe(&KEY).try_recv().map(|_: Received<_>| ()) else { panic!("closed") };
        assert_eq!(first, later);
        drop((publisher, reader, hub));
    });
}
