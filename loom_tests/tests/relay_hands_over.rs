//! With a relay no wake is lost either: it comes, works, sleeps, or goes in any way, while an event is published.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Wake, Waker},
    time::{Duration, Instant},
};

use keywake::{Hub, Publisher, Relay};
use loom_tests::{KEY, Payload, Payloads, Runner, Sleeper, builder, model, model_within, race, race3};

const HOUR: Duration = Duration::from_secs(3_600);

/// A hub with a relay that was polled `polls` times, and a reader that is parked.
struct Stage {
    payloads: Payloads,
    publisher: Publisher<u8, Payload>,
    hub: Hub<u8, Payload>,
    relay: Runner<Relay>,
    sleeper: Sleeper,
}

impl Stage {
    fn new(polls: usize, is_bound: bool) -> Self {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let relay = hub.relay();
        let handle = relay.handle();
        let mut relay = Runner::new(relay);
        for _ in 0..polls {
            relay.poll();
        }
        let reader = hub.subscribe(&KEY);
        let mut sleeper = Sleeper::new(if is_bound { reader.on(&handle) } else { reader });
        assert!(sleeper.poll().is_pending(), "nothing yet");
        Self { payloads, publisher, hub, relay, sleeper }
    }
}

/// All threads are joined, and every relay that was woken has run.
#[track_caller]
fn judge(sleeper: &mut Sleeper, published: &[u64], hub: &Hub<u8, Payload>) {
    sleeper.judge();
    sleeper.told.assert_no_silent_hole(published);
    assert!(sleeper.told.gaps.is_empty(), "nothing was lost: {:?}", sleeper.told);
    assert_eq!(hub.stats().empty_wakes, 0, "a wake for nothing");
}

fn polled_against_publish(polls: usize, is_bound: bool) {
    let Stage { payloads, mut publisher, hub, mut relay, mut sleeper } = Stage::new(polls, is_bound);
    let event = payloads.make(1);
    let (mut relay, publisher) = race(
        move || {
            relay.poll();
            relay
        },
        move || {
            publisher.publish(&KEY, event);
            publisher
        },
    );
    relay.run();
    assert!(sleeper.was_woken(), "the relay, or the publisher where it came first, gives the wake");
    judge(&mut sleeper, &[1], &hub);
    let mut publisher = publisher;
    assert!(sleeper.poll().is_pending(), "nothing yet");
    publisher.publish(&KEY, payloads.make(2));
    relay.run();
    assert!(sleeper.was_woken(), "whoever gave the first wake, the second one is the relay's");
    judge(&mut sleeper, &[1, 2], &hub);
    drop((publisher, sleeper, hub));
    relay.run();
    assert!(relay.has_ended(), "a relay does not keep its hub");
    drop(relay);
    payloads.assert_all_dropped();
}

#[test]
fn first_poll_against_publish() {
    model(|| polled_against_publish(0, false));
}

#[test]
fn falls_asleep_against_publish() {
    model(|| polled_against_publish(1, false));
}

#[test]
fn first_poll_against_publish_to_who_is_bound() {
    model(|| polled_against_publish(0, true));
}

#[test]
fn falls_asleep_against_publish_to_who_is_bound() {
    model(|| polled_against_publish(1, true));
}

/// It was polled in one task, and is now in another, with another waker.
#[test]
fn polled_by_another_task_against_publish() {
    model(|| {
        let Stage { payloads, mut publisher, hub, mut relay, mut sleeper } = Stage::new(1, false);
        let event = payloads.make(1);
        let (mut relay, publisher) = race(
            move || {
                relay.change_task();
                relay.poll();
                relay
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        relay.run();
        assert!(sleeper.was_woken(), "by the task that has the relay now");
        judge(&mut sleeper, &[1], &hub);
        drop((publisher, sleeper, hub, relay));
        payloads.assert_all_dropped();
    });
}

/// A hub whose interval is an hour, a key that was just fanned out, and its reader, parked again.
fn resting() -> Stage {
    let payloads = Payloads::new();
    let (mut publisher, hub) = builder().min_fanout_interval(HOUR).build();
    let mut relay = Runner::new(hub.relay());
    relay.poll();
    let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
    assert!(sleeper.poll().is_pending(), "nothing yet");
    publisher.publish(&KEY, payloads.make(1));
    relay.run();
    assert!(sleeper.poll().is_ready() && sleeper.poll().is_pending(), "one event");
    Stage { payloads, publisher, hub, relay, sleeper }
}

/// A sweep says that a key that rests may be fanned out, while the relay has its work in its hands.
#[test]
fn sweep_against_relay_at_work() {
    model(|| {
        let Stage { payloads, mut publisher, hub, mut relay, mut sleeper } = resting();
        publisher.publish(&KEY, payloads.make(2));
        relay.run();
        assert!(!sleeper.was_woken(), "the key rests");
        let other = hub.clone();
        let (mut relay, ()) = race(
            move || {
                relay.poll();
                relay
            },
            move || other.sweep(Instant::now() + 2 * HOUR),
        );
        relay.run();
        assert!(sleeper.was_woken(), "its time is over");
        judge(&mut sleeper, &[1, 2], &hub);
        drop((publisher, sleeper, hub, relay));
        payloads.assert_all_dropped();
    });
}

/// The same while the event is published for which the key is to be fanned out.
#[test]
fn sweep_against_relay_against_publish_to_a_key_that_rests() {
    model(|| {
        let Stage { payloads, mut publisher, hub, mut relay, mut sleeper } = resting();
        let (other, event) = (hub.clone(), payloads.make(2));
        let (mut relay, publisher, ()) = race3(
            move || {
                relay.poll();
                relay
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
            move || other.sweep(Instant::now() + 2 * HOUR),
        );
        relay.run();
        assert!(sleeper.was_woken(), "its time is over");
        judge(&mut sleeper, &[1, 2], &hub);
        drop((publisher, sleeper, hub, relay));
        payloads.assert_all_dropped();
    });
}

fn works_against_publish_against_recv(is_bound: bool) {
    let Stage { payloads, mut publisher, hub, mut relay, sleeper } = Stage::new(1, is_bound);
    publisher.publish(&KEY, payloads.make(1));
    let event = payloads.make(2);
    let (mut relay, publisher, mut sleeper) = race3(
        move || {
            relay.poll();
            relay
        },
        move || {
            publisher.publish(&KEY, event);
            publisher
        },
        move || sleeper.polled(2),
    );
    relay.run();
    judge(&mut sleeper, &[1, 2], &hub);
    drop((publisher, sleeper, hub, relay));
    payloads.assert_all_dropped();
}

#[test]
fn works_against_publish_against_a_reader_that_parks_anew() {
    model_within(1, || works_against_publish_against_recv(false));
}

#[test]
fn works_against_publish_against_a_bound_reader_that_parks_anew() {
    model_within(1, || works_against_publish_against_recv(true));
}

/// The smaller one of two threads: the reader itself publishes, once it has parked anew.
fn works_against_who_parks_anew_and_publishes(is_bound: bool) {
    let Stage { payloads, mut publisher, hub, mut relay, sleeper } = Stage::new(1, is_bound);
    publisher.publish(&KEY, payloads.make(1));
    let event = payloads.make(2);
    let (mut relay, (mut sleeper, publisher)) = race(
        move || {
            relay.poll();
            relay
        },
        move || {
            let sleeper = sleeper.polled(2);
            publisher.publish(&KEY, event);
            (sleeper, publisher)
        },
    );
    relay.run();
    assert!(sleeper.was_woken(), "it had parked before the second event");
    judge(&mut sleeper, &[1, 2], &hub);
    drop((publisher, sleeper, hub, relay));
    payloads.assert_all_dropped();
}

#[test]
fn works_against_a_reader_that_parks_anew_and_publishes() {
    model(|| works_against_who_parks_anew_and_publishes(false));
}

#[test]
fn works_against_a_bound_reader_that_parks_anew_and_publishes() {
    model(|| works_against_who_parks_anew_and_publishes(true));
}

fn dropped_against_publish(is_bound: bool) {
    let Stage { payloads, mut publisher, hub, relay, mut sleeper } = Stage::new(1, is_bound);
    let event = payloads.make(1);
    let ((), publisher) = race(
        move || drop(relay),
        move || {
            publisher.publish(&KEY, event);
            publisher
        },
    );
    assert!(sleeper.was_woken(), "by whichever of the two came second");
    judge(&mut sleeper, &[1], &hub);
    drop((publisher, sleeper, hub));
    payloads.assert_all_dropped();
}

#[test]
fn dropped_against_a_publish() {
    model(|| dropped_against_publish(false));
}

#[test]
fn dropped_against_a_publish_to_who_is_bound() {
    model(|| dropped_against_publish(true));
}

#[test]
fn dropped_with_a_wake_pending_against_publish() {
    model(|| {
        let Stage { payloads, mut publisher, hub, relay, mut sleeper } = Stage::new(1, false);
        publisher.publish(&KEY, payloads.make(1));
        assert!(!sleeper.was_woken(), "the relay was not polled");
        let event = payloads.make(2);
        let ((), publisher) = race(
            move || drop(relay),
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert!(sleeper.was_woken(), "a relay that goes gives all that is pending");
        judge(&mut sleeper, &[1, 2], &hub);
        drop((publisher, sleeper, hub));
        payloads.assert_all_dropped();
    });
}

#[test]
fn twins_at_work_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let relay = hub.relay();
        let mut twin = Runner::new(relay.twin());
        let mut relay = Runner::new(relay);
        relay.poll();
        twin.poll();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll().is_pending(), "nothing yet");
        let event = payloads.make(1);
        let (mut relay, mut twin, publisher) = race3(
            move || {
                relay.poll();
                relay
            },
            move || {
                twin.poll();
                twin
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        // One of them sleeps on: its worker computes.
        relay.run();
        twin.run();
        assert!(sleeper.was_woken());
        judge(&mut sleeper, &[1], &hub);
        drop((publisher, sleeper, hub));
        relay.run();
        twin.run();
        assert!(relay.has_ended() && twin.has_ended());
        drop((relay, twin));
        payloads.assert_all_dropped();
    });
}

/// The relay finds its twin at work and sleeps on; the twin begins with a crowd, and goes.
#[test]
fn twin_that_goes_against_relay() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let relay = hub.relay();
        let mut twin = Runner::new(relay.twin());
        let mut relay = Runner::new(relay);
        relay.poll();
        twin.poll();
        // More than are woken in two rounds of a model: the seat and a row, then a row of two.
        let mut sleepers: Vec<_> = (0..7).map(|_| Sleeper::new(hub.subscribe(&KEY))).collect();
        for sleeper in &mut sleepers {
            assert!(sleeper.poll().is_pending(), "nothing yet");
        }
        publisher.publish(&KEY, payloads.make(1));
        let (mut relay, ()) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                twin.poll();
                drop(twin);
            },
        );
        relay.run();
        for sleeper in &mut sleepers {
            assert!(sleeper.was_woken(), "what a twin had begun is the relay's");
            sleeper.judge();
        }
        drop((publisher, sleepers, hub, relay));
        payloads.assert_all_dropped();
    });
}

#[test]
fn dropped_while_its_twin_works_against_publish() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let relay = hub.relay();
        let mut twin = Runner::new(relay.twin());
        let mut relay = Runner::new(relay);
        relay.poll();
        twin.poll();
        let mut sleeper = Sleeper::new(hub.subscribe(&KEY));
        assert!(sleeper.poll().is_pending(), "nothing yet");
        publisher.publish(&KEY, payloads.make(1));
        let event = payloads.make(2);
        let ((), twin, publisher) = race3(
            move || drop(relay),
            move || {
                twin.poll();
                twin
            },
            move || {
                publisher.publish(&KEY, event);
                publisher
            },
        );
        assert!(sleeper.was_woken(), "also where nobody polls the twin again");
        judge(&mut sleeper, &[1, 2], &hub);
        drop((publisher, sleeper, hub, twin));
        payloads.assert_all_dropped();
    });
}

/// Bound to a relay that is never polled, so that publishers wake them: one parks anew, having seen all, while the other is being woken,
/// and stays parked.
struct Bound {
    payloads: Payloads,
    publisher: Publisher<u8, Payload>,
    hub: Hub<u8, Payload>,
    relay: Relay,
    /// The first one is parked.
    sleepers: [Sleeper; 2],
}

impl Bound {
    fn new() -> Self {
        let payloads = Payloads::new();
        let (publisher, hub) = builder().build();
        let relay = hub.relay();
        let bound = || Sleeper::new(hub.subscribe(&KEY).on(&relay.handle()));
        let mut sleepers = [bound(), bound()];
        assert!(sleepers[0].poll().is_pending(), "nothing yet");
        Self { payloads, publisher, hub, relay, sleepers }
    }
}

#[test]
fn bound_reader_that_parks_anew_against_two_publishes() {
    model(|| {
        let Bound { payloads, mut publisher, hub, relay, sleepers: [mut one, two] } = Bound::new();
        let events = [payloads.make(1), payloads.make(2)];
        let (mut two, publisher) = race(
            move || two.polled(2),
            move || {
                for event in events {
                    publisher.publish(&KEY, event);
                }
                publisher
            },
        );
        for sleeper in [&mut one, &mut two] {
            judge(sleeper, &[1, 2], &hub);
        }
        drop((publisher, one, two, hub, relay));
        payloads.assert_all_dropped();
    });
}

/// A task that runs as soon as it is woken, and then is at its reader, which is another one than it was woken for.
struct RunsAtOnce(Mutex<Sleeper>);

impl Wake for RunsAtOnce {
    fn wake(self: Arc<Self>) {
        let mut sleeper = self.0.lock().expect("nobody panics with it");
        while sleeper.poll().is_ready() {}
    }
}

/// The second event comes while the first one's publish tells again of who stays parked: so that is not all that it has to do.
#[test]
fn bound_reader_that_parks_anew_against_two_publishers() {
    model(|| {
        let Bound { payloads, publisher, hub, relay, sleepers: [mut one, two] } = Bound::new();
        let two = Arc::new(RunsAtOnce(Mutex::new(two)));
        let mut runs_two = hub.subscribe(&KEY);
        let waker = Waker::from(Arc::clone(&two));
        assert!(runs_two.poll_recv(&mut Context::from_waker(&waker)).is_pending(), "nothing yet");
        let publisher = publisher.shared();
        let other = publisher.clone();
        let (first, second) = (payloads.make(1), payloads.make(2));
        // Both stay: the last one that goes closes the hub, which wakes everybody.
        let publishers = race(
            move || {
                publisher.publish(&KEY, first);
                publisher
            },
            move || {
                other.publish(&KEY, second);
                other
            },
        );
        for sleeper in [&mut one, &mut two.0.lock().expect("nobody panics with it")] {
            judge(sleeper, &[1, 2], &hub);
        }
        drop((publishers, runs_two, one, two, waker, hub, relay));
        payloads.assert_all_dropped();
    });
}

fn overdue_publisher(is_bound: bool, is_polled: bool) {
    let payloads = Payloads::new();
    // A quarter of four events: every event but the first finds the relay overdue.
    let (mut publisher, hub) = builder().retain_events(4).build();
    let relay = hub.relay();
    let handle = relay.handle();
    let mut relay = Runner::new(relay);
    relay.poll();
    let reader = hub.subscribe(&KEY);
    let mut sleeper = Sleeper::new(if is_bound { reader.on(&handle) } else { reader });
    assert!(sleeper.poll().is_pending(), "nothing yet");
    publisher.publish(&KEY, payloads.make(1));
    let event = payloads.make(2);
    let (mut relay, publisher) = race(
        move || {
            if is_polled {
                relay.poll();
            }
            relay
        },
        move || {
            publisher.publish(&KEY, event);
            publisher
        },
    );
    assert!(sleeper.was_woken(), "by the one or the other");
    relay.run();
    judge(&mut sleeper, &[1, 2], &hub);
    drop((publisher, sleeper, hub, relay));
    payloads.assert_all_dropped();
}

#[test]
fn overdue_publisher_against_relay() {
    model(|| overdue_publisher(false, true));
}

#[test]
fn overdue_publisher_against_relay_of_who_is_bound() {
    model(|| overdue_publisher(true, true));
}

#[test]
fn overdue_publisher_beside_a_relay_that_is_not_polled() {
    model(|| overdue_publisher(false, false));
    model(|| overdue_publisher(true, false));
}

/// In a model the ring has two places: the third topic finds one that the relay has just emptied, or none.
#[test]
fn full_ring_against_relay() {
    model(|| {
        let payloads = Payloads::new();
        let (mut publisher, hub) = builder().build();
        let mut relay = Runner::new(hub.relay());
        relay.poll();
        let keys = [KEY, 2, 3];
        let mut sleepers = keys.map(|key| Sleeper::new(hub.subscribe(&key)));
        for sleeper in &mut sleepers {
            assert!(sleeper.poll().is_pending(), "nothing yet");
        }
        for key in &keys[..2] {
            publisher.publish(key, payloads.make(u64::from(*key)));
        }
        let event = payloads.make(3);
        let (mut relay, publisher) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                publisher.publish(&keys[2], event);
                publisher
            },
        );
        relay.run();
        for (sleeper, seq) in sleepers.iter_mut().zip(1..) {
            assert!(sleeper.was_woken(), "by the relay, or, where the ring is full, by the publisher");
            sleeper.judge();
            assert_eq!(sleeper.told.seqs, [seq]);
        }
        drop((publisher, sleepers, hub, relay));
        payloads.assert_all_dropped();
    });
}

#[test]
fn close_against_relay_at_work() {
    model(|| {
        let Stage { payloads, mut publisher, hub, mut relay, mut sleeper } = Stage::new(1, false);
        publisher.publish(&KEY, payloads.make(1));
        let closing = hub.clone();
        let (mut relay, ()) = race(
            move || {
                relay.poll();
                relay
            },
            move || {
                closing.close(&KEY, keywake::CloseReason::KeyClosed);
            },
        );
        assert!(sleeper.was_woken());
        relay.run();
        judge(&mut sleeper, &[1], &hub);
        drop((publisher, sleeper, hub, relay));
        payloads.assert_all_dropped();
    });
}
