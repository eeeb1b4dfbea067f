//! A set that reads by pattern misses nothing from when its join returned, whoever makes or removes a topic that the pattern names
//! meanwhile; it is told nothing twice, and leaves nothing behind.

use std::sync::Arc;

use keywake::{Hub, Pattern, Publisher, Start};
use loom_tests::{
    Payload, Payloads, SetSleeper,
    atomic::{AtomicBool, Ordering},
    builder_of_names, model, model_within, position, race, race3,
};

const NAME: &str = "a";

type Names = Hub<&'static str, Payload>;

fn any() -> Pattern {
    "*".parse().expect("it is a pattern")
}

/// A set that joins, perhaps at once with others; and where it says that it stands when it has, and where the hub does.
struct Joined {
    sleeper: SetSleeper<&'static str>,
    from: u64,
    now: u64,
}

fn joined(hub: &Names, start: Start) -> Joined {
    let mut sleeper = SetSleeper::new(hub.subscribe_set());
    sleeper.set.add_matching_from(&any(), start);
    let from = sleeper.set.position().seq();
    Joined { sleeper, from, now: hub.position().seq() }
}

impl Joined {
    fn polled(self, times: usize) -> Self {
        Self { sleeper: self.sleeper.polled(times), ..self }
    }

    /// All threads are joined: one more event reaches the set, and all that came after `from` was told, and once (`SetSleeper` demands
    /// that seqs rise). Then nothing stays of it.
    #[track_caller]
    fn judge(mut self, mut publisher: Publisher<&'static str, Payload>, hub: Names, payloads: &Payloads) {
        self.sleeper.judge();
        let last = publisher.publish(&NAME, payloads.make(9));
        assert_eq!(last.readers, 1, "the set reads it, once");
        self.sleeper.judge();
        assert_eq!(self.sleeper.told.last(), Some(&(NAME, last.seq)), "{:?}", self.sleeper);
        for seq in self.from + 1..=last.seq {
            let is_event = self.sleeper.told.contains(&(NAME, seq));
            let gaps = self.sleeper.gaps.iter().filter(|(_, gap)| gap.from < seq && seq <= gap.to).count();
            assert_eq!(usize::from(is_event) + gaps, 1, "{seq} after {} is told once: {:?}", self.from, self.sleeper);
        }
        let lost = self.sleeper.gaps.iter().map(|(_, gap)| gap.to).max();
        assert!(lost <= Some(self.now + 1), "what the join met on its way is lost, and no more: {:?}", self.sleeper);
        let alarm = self.sleeper.alarm.clone();
        drop(self.sleeper);
        assert_eq!(alarm.copies(), 0, "no waker is left behind");
        assert_eq!((hub.topics(), hub.readers(&NAME)), (0, 0), "topics and readers");
        assert_eq!(payloads.alive(), 0, "payloads without a reader");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    }
}

/// The first makes the topic if its publisher finds the pattern. What is published on the strength of the join's return is no loss.
#[test]
fn join_against_first_events() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let events = [payloads.make(1), payloads.make(2)];
        let is_joined = Arc::new(AtomicBool::new(false));
        let (other, says) = (hub.clone(), Arc::clone(&is_joined));
        let (mut set, (publisher, owed)) = race(
            move || {
                let set = joined(&other, Start::Next);
                // Release (pairs with the load below): as whoever tells somebody else that it has joined.
                says.store(true, Ordering::Release);
                set
            },
            move || {
                let mut owed = Vec::new();
                for event in events {
                    // Acquire (pairs with the store above): see there.
                    let is_owed = is_joined.load(Ordering::Acquire);
                    let published = publisher.publish(&NAME, event);
                    assert!(!is_owed || published.readers == 1, "{} comes after the join", published.seq);
                    owed.extend(is_owed.then_some((NAME, published.seq)));
                }
                (publisher, owed)
            },
        );
        set.sleeper.judge();
        assert!(owed.iter().all(|event| set.sleeper.told.contains(event)), "{owed:?} of {:?}", set.sleeper);
        set.judge(publisher, hub, &payloads);
    });
}

/// Another set is there, so that the topic is made, and the one that joins is not forgotten.
#[test]
fn second_join_against_first_event() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let first = joined(&hub, Start::Next);
        let event = payloads.make(1);
        let other = hub.clone();
        let (set, (publisher, readers)) = race(
            move || joined(&other, Start::Next),
            move || {
                let readers = publisher.publish(&NAME, event).readers;
                (publisher, readers)
            },
        );
        let mut first = first;
        first.sleeper.judge();
        first.sleeper.assert_told(&[(NAME, 1)]);
        assert!((1..=2).contains(&readers), "{readers} readers, of two sets");
        assert_eq!(hub.readers(&NAME), 2, "the topic that was made for the one is read by the other");
        drop(first);
        set.judge(publisher, hub, &payloads);
    });
}

/// A reader makes the topic while the set comes, and goes again; both pass by the topic's death.
#[test]
fn join_against_a_reader_that_comes_and_goes() {
    model(|| {
        let payloads = Payloads::new();
        let (publisher, hub) = builder_of_names().build();
        let (one, two) = (hub.clone(), hub.clone());
        let (mut set, ()) = race(move || joined(&one, Start::Next).polled(1), move || drop(two.subscribe(&NAME)));
        set.sleeper.judge();
        assert_eq!(hub.topics(), set.sleeper.set.len(), "there is a topic if the set reads it");
        set.judge(publisher, hub, &payloads);
    });
}

/// A reader makes the topic, and an event is on its way to it or finds nobody.
#[test]
fn join_against_subscribe_against_publish() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let event = payloads.make(1);
        let (one, two) = (hub.clone(), hub.clone());
        let (set, reader, publisher) = race3(
            move || joined(&one, Start::Next).polled(1),
            move || two.subscribe(&NAME),
            move || {
                publisher.publish(&NAME, event);
                publisher
            },
        );
        drop(reader);
        set.judge(publisher, hub, &payloads);
    });
}

/// A topic that the pattern names loses its last reader, which may be the set then, or is made anew for it.
#[test]
fn join_against_last_unsubscribe_against_publish() {
    model_within(1, || {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let reader = hub.subscribe(&NAME);
        publisher.publish(&NAME, payloads.make(1));
        let event = payloads.make(2);
        let other = hub.clone();
        let (set, (), publisher) = race3(
            move || joined(&other, Start::Next).polled(1),
            move || drop(reader),
            move || {
                publisher.publish(&NAME, event);
                publisher
            },
        );
        set.judge(publisher, hub, &payloads);
    });
}

/// The same by one who comes back: what it missed is read where the topic lives, and told as lost where it went.
#[test]
fn return_against_last_unsubscribe_and_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let reader = hub.subscribe(&NAME);
        publisher.publish(&NAME, payloads.make(1));
        publisher.publish(&NAME, payloads.make(2));
        let event = payloads.make(3);
        let other = hub.clone();
        let (mut set, publisher) = race(
            move || joined(&other, Start::After(position(1))).polled(1),
            move || {
                drop(reader);
                publisher.publish(&NAME, event);
                publisher
            },
        );
        // It was given a position to begin at, and is owed all from there on.
        set.from = 1;
        set.judge(publisher, hub, &payloads);
    });
}

/// A set that has nothing but its pattern falls asleep while the topic is made: the topic comes to it, before its first event.
#[test]
fn first_events_against_a_set_that_falls_asleep() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let set = joined(&hub, Start::Next);
        let events = [payloads.make(1), payloads.make(2)];
        let (mut set, publisher) = race(
            move || set.polled(1),
            move || {
                for event in events {
                    assert_eq!(publisher.publish(&NAME, event).readers, 1);
                }
                publisher
            },
        );
        set.sleeper.judge();
        set.sleeper.assert_told(&[(NAME, 1), (NAME, 2)]);
        set.judge(publisher, hub, &payloads);
    });
}

/// The set lets go of a key, and is its last reader: the next topic of it is joined anew, and an event goes with the one or to the other.
#[test]
fn removal_against_publishes() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let mut set = joined(&hub, Start::Next);
        publisher.publish(&NAME, payloads.make(1));
        assert!(set.sleeper.poll().is_ready());
        let events = [payloads.make(2), payloads.make(3)];
        let (mut set, publisher) = race(
            move || {
                assert!(set.sleeper.set.remove(&NAME));
                set.polled(1)
            },
            move || {
                for event in events {
                    publisher.publish(&NAME, event);
                }
                publisher
            },
        );
        set.sleeper.judge();
        let all = [(NAME, 1), (NAME, 2), (NAME, 3)];
        let told = &set.sleeper.told;
        assert!(told[1..].is_empty() || told[1..] == all[1..] || told[1..] == all[2..], "{told:?}");
        set.from = set.sleeper.set.position().seq().max(3);
        set.judge(publisher, hub, &payloads);
    });
}

/// The set goes while a topic is made for it: nobody reads that then.
#[test]
fn drop_against_first_events() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder_of_names().build();
        let mut set = joined(&hub, Start::Next);
        assert!(set.sleeper.poll().is_pending());
        let events = [payloads.make(1), payloads.make(2)];
        let alarm = set.sleeper.alarm.clone();
        let ((), mut publisher) = race(
            move || drop(set),
            move || {
                for event in events {
                    publisher.publish(&NAME, event);
                }
                publisher
            },
        );
        assert!(alarm.rings() <= 1);
        assert_eq!(alarm.copies(), 0, "no waker is left behind");
        assert_eq!(publisher.publish(&NAME, payloads.make(3)).readers, 0);
        assert_eq!((hub.topics(), payloads.alive()), (0, 0), "topics, and payloads without a reader");
        drop((publisher, hub));
        payloads.assert_all_dropped();
    });
}
