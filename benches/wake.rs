//! What does one publish to N parked readers cost its writer, and when has the last of them the event?
//!
//! Tokio tasks in a runtime with one worker; the writer is another thread (`outside`) or a task of that runtime
//! (`inside`). `writer` is the time of the call, `last` the time from before it until the last reader has the event.
//! `bare wakes` are the wakes alone, no channel: the machine's and the executor's part. `no-op wakers` leaves the executor
//! out: the readers are polled by hand.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};

use measure::{
    crowd::{Crowd, Times},
    hand_polled::HandPolled,
    peers::{
        Peer, async_broadcast::AsyncBroadcast, bare_wakes::BareWakes, broadcast::Broadcast, event_listener::EventListener,
        keyed_broadcast::KeyedBroadcast, keywake::Keywake, watch::Watch,
    },
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

const READERS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args();
    for place in [Place::Outside, Place::Inside] {
        for moment in [Moment::Writer, Moment::Last] {
            let mut group = criterion.benchmark_group(format!("wake from {}, {}", place.name(), moment.name()));
            wake::<Keywake>(&mut group, place, moment);
            wake::<KeyedBroadcast>(&mut group, place, moment);
            wake::<Broadcast>(&mut group, place, moment);
            wake::<Watch>(&mut group, place, moment);
            wake::<AsyncBroadcast>(&mut group, place, moment);
            wake::<EventListener>(&mut group, place, moment);
            wake::<BareWakes>(&mut group, place, moment);
            group.finish();
        }
    }
    let mut group = criterion.benchmark_group("wake, no-op wakers");
    hand_polled::<Keywake>(&mut group);
    hand_polled::<KeyedBroadcast>(&mut group);
    hand_polled::<Broadcast>(&mut group);
    hand_polled::<Watch>(&mut group);
    hand_polled::<AsyncBroadcast>(&mut group);
    hand_polled::<EventListener>(&mut group);
    hand_polled::<BareWakes>(&mut group);
    group.finish();
    criterion.final_summary();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

/// Where the writer is.
#[derive(Clone, Copy)]
enum Place {
    Inside,
    Outside,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
        }
    }

    fn publish<P: Peer>(self, crowd: &mut Crowd<P>, count: u64) -> Times {
        match self {
            Self::Inside => crowd.publish_from_inside(count),
            Self::Outside => crowd.publish_many_from_outside(count),
        }
    }
}

/// Up to when the time is taken.
#[derive(Clone, Copy)]
enum Moment {
    Last,
    Writer,
}

impl Moment {
    fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Writer => "writer",
        }
    }

    fn of(self, times: Times) -> Duration {
        match self {
            Self::Last => times.last,
            Self::Writer => times.writer,
        }
    }
}

fn wake<P: Peer>(group: &mut Group<'_>, place: Place, moment: Moment) {
    for readers in sizes() {
        let mut crowd = None;
        group.bench_function(BenchmarkId::new(P::NAME, readers), |bencher| {
            let crowd = crowd.get_or_insert_with(|| Crowd::<P>::new(1, readers));
            bencher.iter_custom(|count| moment.of(place.publish(crowd, count)));
        });
    }
}

fn hand_polled<P: Peer>(group: &mut Group<'_>) {
    for readers in sizes() {
        let mut crowd = None;
        group.bench_function(BenchmarkId::new(P::NAME, readers), |bencher| {
            let crowd = crowd.get_or_insert_with(|| HandPolled::<P>::new(readers));
            bencher.iter_custom(|count| (0..count).map(|_| crowd.wake_all()).sum());
        });
    }
}

fn sizes() -> impl Iterator<Item = usize> {
    READERS.into_iter().filter(|readers| measure::full_size() || *readers <= 100)
}
