//! A loss that the source tells of reaches every reader: those that are there, those that come, and those that come back.

use keywake::{GapCause, Hub, SourcePublisher, Start};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, position, race, race3};

fn resume(hub: &Hub<u8, Payload>, seq: u64) -> Sleeper {
    Sleeper::new(hub.subscribe_from(&KEY, Start::After(position(seq))))
}

/// 2 to 4 are lost, 5 is published.
fn lose_and_publish(mut publisher: SourcePublisher<u8, Payload>, event: Payload) -> SourcePublisher<u8, Payload> {
    publisher.lost(2..=4, GapCause::Source).expect("rising");
    publisher.publish_at(5, &KEY, event).expect("rising");
    publisher
}

#[track_caller]
fn judge(sleeper: &mut Sleeper) {
    sleeper.judge();
    sleeper.told.assert_no_silent_hole_up_to(&[1, 2, 3, 4, 5]);
    assert!(sleeper.told.seqs.iter().all(|seq| [1, 5].contains(seq)), "{:?}", sleeper.told);
}

#[test]
fn loss_against_recv() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build_from_source();
        let sleeper = Sleeper::new(hub.subscribe(&KEY));
        publisher.publish_at(1, &KEY, payloads.make(1)).expect("rising");
        let event = payloads.make(5);
        let (mut sleeper, publisher) = race(move || sleeper.polled(3), move || lose_and_publish(publisher, event));
        judge(&mut sleeper);
        let &[gap] = &sleeper.told.gaps[..] else { panic!("one gap: {:?}", sleeper.told) };
        assert_eq!((gap.from, gap.to, gap.cause), (1, 4, GapCause::Source));
        assert_eq!(hub.stats().empty_wakes, 0);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The topic is made while the loss is told.
#[test]
fn loss_against_a_topic_being_made() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build_from_source();
        let (other, event) = (hub.clone(), payloads.make(5));
        let (mut sleeper, publisher) = race(move || resume(&other, 1), move || lose_and_publish(publisher, event));
        judge(&mut sleeper);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// The topic goes while the loss is told, and a reader comes back.
#[test]
fn loss_against_removal_against_resume() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build_from_source();
        let first = hub.subscribe(&KEY);
        publisher.publish_at(1, &KEY, payloads.make(1)).expect("rising");
        let (other, event) = (hub.clone(), payloads.make(5));
        let (mut sleeper, (), publisher) =
            race3(move || resume(&other, 0), move || drop(first), move || lose_and_publish(publisher, event));
        judge(&mut sleeper);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

/// A bookmark moves the position of who has read all, and nobody's past what is to come.
#[test]
fn bookmark_against_position_and_resume() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build_from_source();
        let reader = hub.subscribe(&KEY);
        let (other, event) = (hub.clone(), payloads.make(5));
        let ((told, mut sleeper, reader), publisher) = race(
            move || {
                let told = reader.position();
                (told, resume(&other, told.seq()), reader)
            },
            move || {
                publisher.advance_to(4).expect("rising");
                publisher.publish_at(5, &KEY, event).expect("rising");
                publisher
            },
        );
        assert!([0, 4].contains(&told.seq()), "{told} was never reached, or 5 is unread");
        sleeper.judge();
        assert_eq!((&*sleeper.told.seqs, sleeper.told.gaps.len()), (&[5][..], 0));
        assert_eq!(sleeper.reader.position(), hub.position());
        drop((publisher, reader, sleeper, hub));
        payloads.assert_all_dropped();
    });
}
