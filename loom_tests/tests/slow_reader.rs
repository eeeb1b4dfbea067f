//! A slow reader gets what it asked for: the newest event, with what it skips told exactly, or an end that it may come back from.

use std::time::{Duration, Instant};

use keywake::{CloseReason, GapCause, Publisher, Slow, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, Told, builder, model, race, race3};

fn publish_all(
    mut publisher: Publisher<u8, Payload>,
    ids: std::ops::RangeInclusive<u64>,
    payloads: &Payloads,
) -> Publisher<u8, Payload> {
    for id in ids {
        publisher.publish(&KEY, payloads.make(id));
    }
    publisher
}

/// All threads are joined: what was told is exact, each skip is followed by the event it skipped to, and the last event is the newest.
#[track_caller]
fn judge_latest(sleeper: &mut Sleeper, published: &[u64]) {
    sleeper.judge();
    let told = &sleeper.told;
    told.assert_no_silent_hole(published);
    told.assert_gaps_exact(published);
    for gap in told.gaps.iter().filter(|gap| gap.cause == GapCause::Conflated) {
        assert!(gap.missed.is_some_and(|missed| missed > 0), "{gap:?} of {told:?}");
        assert!(told.seqs.contains(&(gap.to + 1)), "the event after {gap:?} is missing: {told:?}");
    }
    assert_eq!(told.seqs.last(), published.last(), "the newest: {told:?}");
}

/// Blocks of one event, one block retained: where it goes to is severed behind it.
#[test]
fn reader_of_the_newest_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY).slow(Slow::Latest));
        let publisher = publish_all(publisher, 1..=1, &payloads);
        assert!(sleeper.poll().is_ready(), "the first event");
        let making = payloads.clone();
        let (mut sleeper, publisher) = race(move || sleeper.polled(2), move || publish_all(publisher, 2..=4, &making));
        judge_latest(&mut sleeper, &[1, 2, 3, 4]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// Blocks of four events, all retained.
#[test]
fn reader_of_the_newest_within_a_block_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY).slow(Slow::Latest));
        let making = payloads.clone();
        let (mut sleeper, publisher) = race(move || sleeper.polled(2), move || publish_all(publisher, 1..=2, &making));
        judge_latest(&mut sleeper, &[1, 2]);
        assert_eq!(sleeper.reader.position(), hub.position());
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A sweep takes all that there is to go to.
#[test]
fn reader_of_the_newest_against_a_sweep_against_a_publish() {
    model(|| {
        let payloads = Payloads::new();
        let age = Duration::from_secs(3_600);
        let (publisher, hub) = builder().retain_events(1).retain_for(age).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY).slow(Slow::Latest));
        let publisher = publish_all(publisher, 1..=2, &payloads);
        let (sweeping, making) = (hub.clone(), payloads.clone());
        let (mut sleeper, (), publisher) = race3(
            move || sleeper.polled(1),
            move || sweeping.sweep(Instant::now() + 2 * age),
            move || publish_all(publisher, 3..=3, &making),
        );
        sleeper.judge();
        sleeper.told.assert_no_silent_hole(&[1, 2, 3]);
        sleeper.told.assert_gaps_exact(&[1, 2, 3]);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// It is told the end at the latest when it comes to what it lost; it has left then, and who comes back is told of the loss.
#[test]
fn reader_that_is_to_be_closed_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY).slow(Slow::Close));
        let publisher = publish_all(publisher, 1..=1, &payloads);
        assert!(sleeper.poll().is_ready(), "the first event");
        let making = payloads.clone();
        let (mut sleeper, publisher) = race(move || sleeper.polled(3), move || publish_all(publisher, 2..=4, &making));
        sleeper.judge();
        assert!(sleeper.told.gaps.is_empty(), "an end and no gap: {:?}", sleeper.told);
        let is_closed = sleeper.told.end == Some(CloseReason::SlowReader);
        assert!(is_closed || sleeper.told.seqs == [1, 2, 3, 4], "neither all nor an end: {:?}", sleeper.told);
        assert_eq!((hub.readers(&KEY), hub.topics()), if is_closed { (0, 0) } else { (1, 1) });
        assert!(!is_closed || payloads.alive() == 0, "it holds {} payloads", payloads.alive());
        let position = sleeper.reader.position();
        assert_eq!(Some(&position.seq()), sleeper.told.seqs.last(), "it stands where it read up to");
        let mut again = hub.subscribe_from(&KEY, Start::After(position));
        let mut later = Told::since(position.seq());
        later.take_all(&mut again);
        later.assert_no_silent_hole(&[1, 2, 3, 4]);
        drop((publisher, sleeper, again, hub));
        payloads.assert_all_dropped();
    });
}

/// It leaves by itself while its key is closed, and while it is published to.
#[test]
fn reader_that_is_to_be_closed_against_a_close_against_a_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().retain_events(1).build();
        let sleeper = Sleeper::new(hub.subscribe(&KEY).slow(Slow::Close));
        // Two blocks, of which one is evicted: the reader stands in none.
        let publisher = publish_all(publisher, 1..=2, &payloads);
        let (closing, making) = (hub.clone(), payloads.clone());
        let (sleeper, _, publisher) = race3(
            move || sleeper.polled(1),
            move || closing.close(&KEY, CloseReason::KeyClosed),
            move || publish_all(publisher, 3..=3, &making),
        );
        assert_eq!(sleeper.told.end, Some(CloseReason::SlowReader), "{:?}", sleeper.told);
        assert_eq!(sleeper.reader.position().seq(), 0);
        assert_eq!((hub.readers(&KEY), hub.topics(), payloads.alive()), (0, 0, 0), "readers, topics, payloads");
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}
