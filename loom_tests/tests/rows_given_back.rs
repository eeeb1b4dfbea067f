//! A row of slots that its last reader leaves is given back: not under a fan-out that is at it, and who joins there is woken.

use keywake::{Hub, SharedPublisher};
use loom_tests::{KEY, Payload, Payloads, Sleeper, builder, model, race, race3};

/// Readers who fill the slots that are never given back.
const SETTLERS: usize = if cfg!(keywake_loom) { 3 } else { 33 };
/// Readers who come next, the last of whom is alone in a row. In a stress run two rows are full, one of which is kept in spare.
const CROWD: usize = if cfg!(keywake_loom) { 1 } else { 65 };

/// A hub, and those who stay in it.
struct Scene {
    payloads: Payloads,
    publisher: SharedPublisher<u8, Payload>,
    hub: Hub<u8, Payload>,
    settlers: Vec<Sleeper>,
}

impl Scene {
    fn new() -> Self {
        let (publisher, hub) = builder().build();
        let publisher = publisher.shared();
        let mut settlers = sleepers(&hub, SETTLERS);
        for settler in &mut settlers {
            assert!(settler.poll_and_cancel().is_pending(), "nothing yet");
        }
        Self { payloads: Payloads::new(), publisher, hub, settlers }
    }

    /// A crowd that is parked.
    fn crowd(&self) -> Vec<Sleeper> {
        let mut crowd = sleepers(&self.hub, CROWD);
        for sleeper in &mut crowd {
            assert!(sleeper.poll().is_pending(), "nothing yet");
        }
        crowd
    }

    /// A crowd that has no slots yet.
    fn newcomers(&self) -> Vec<Sleeper> {
        sleepers(&self.hub, CROWD)
    }

    fn publish(&self, id: u64) -> impl FnOnce() + use<> {
        let (publisher, event) = (self.publisher.clone(), self.payloads.make(id));
        move || {
            publisher.publish(&KEY, event);
        }
    }

    /// All threads are joined: these have been told all, without a wake too few, too many, or for nothing.
    #[track_caller]
    fn judge(&self, sleepers: &mut [Sleeper], seqs: &[u64]) {
        for sleeper in sleepers {
            sleeper.judge();
            assert_eq!(sleeper.told.seqs, seqs);
        }
        assert_eq!(self.hub.stats().empty_wakes, 0, "a wake for nothing");
    }

    fn end(self) {
        drop((self.publisher, self.settlers, self.hub));
        self.payloads.assert_all_dropped();
    }
}

fn sleepers(hub: &Hub<u8, Payload>, number: usize) -> Vec<Sleeper> {
    (0..number).map(|_| Sleeper::new(hub.subscribe(&KEY))).collect()
}

fn polled(sleepers: Vec<Sleeper>, times: usize) -> Vec<Sleeper> {
    sleepers.into_iter().map(|sleeper| sleeper.polled(times)).collect()
}

/// They leave. Who has joined all threads asks the answer whether their wakers are gone, and whether they were woken too often.
fn leave(crowd: Vec<Sleeper>) -> impl FnOnce() {
    let (readers, alarms): (Vec<_>, Vec<_>) =
        crowd.into_iter().map(|sleeper| (sleeper.reader, (sleeper.alarm, sleeper.polls))).unzip();
    drop(readers);
    move || {
        for (alarm, polls) in alarms {
            assert_eq!(alarm.copies(), 0, "a waker is left");
            assert!(alarm.rings() <= polls, "{} wakes for {polls} polls", alarm.rings());
        }
    }
}

#[test]
fn row_given_back_against_a_fan_out() {
    model(|| {
        let scene = Scene::new();
        let crowd = scene.crowd();
        let (judge, ()) = race(move || leave(crowd), scene.publish(1));
        judge();
        scene.judge(&mut [], &[]);
        scene.end();
    });
}

/// Whichever goes out last frees the row.
#[test]
fn row_given_back_against_two_fan_outs() {
    model(|| {
        let scene = Scene::new();
        let crowd = scene.crowd();
        let (judge, (), ()) = race3(move || leave(crowd), scene.publish(1), scene.publish(2));
        judge();
        scene.judge(&mut [], &[]);
        scene.end();
    });
}

/// The row is made anew in its old place while the fan-out is at it.
#[test]
fn row_made_anew_during_a_fan_out() {
    model(|| {
        let scene = Scene::new();
        let (crowd, new) = (scene.crowd(), scene.newcomers());
        let anew = move || {
            let judge = leave(crowd);
            (judge, polled(new, 2))
        };
        let ((judge, mut new), ()) = race(anew, scene.publish(1));
        scene.judge(&mut new, &[1]);
        judge();
        // They park for another one, in the new row.
        for sleeper in &mut new {
            assert!(sleeper.poll().is_pending());
        }
        scene.publish(2)();
        scene.judge(&mut new, &[1, 2]);
        leave(new)();
        scene.end();
    });
}

/// As above, with both of two fan-outs at it: the older one may have met the old row, and the younger one the new.
#[test]
fn row_made_anew_during_two_fan_outs() {
    model(|| {
        let scene = Scene::new();
        let (crowd, new) = (scene.crowd(), scene.newcomers());
        let anew = move || {
            let judge = leave(crowd);
            (judge, polled(new, 1))
        };
        let ((judge, mut new), (), ()) = race3(anew, scene.publish(1), scene.publish(2));
        scene.judge(&mut new, &[1, 2]);
        judge();
        leave(new)();
        scene.end();
    });
}

/// One leaves the row, one comes into it, and an event comes.
#[test]
fn row_given_back_against_a_reader_that_joins() {
    model(|| {
        let scene = Scene::new();
        let (crowd, new) = (scene.crowd(), scene.newcomers());
        let (judge, mut new, ()) = race3(move || leave(crowd), move || polled(new, 1), scene.publish(1));
        scene.judge(&mut new, &[1]);
        judge();
        leave(new)();
        scene.end();
    });
}
