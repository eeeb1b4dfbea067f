//! What does a publish cost when no reader of the key waits?
//!
//! * `1 reader`: every key has one reader that is subscribed but neither parked nor reading.
//! * `and try_recv`: the reader takes each event at once, on the same thread.
//! * `no topic`: nobody reads the key (10,000 others are read), so a map would miss.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};

use measure::{
    peers::{
        Peer, async_broadcast::AsyncBroadcast, broadcast::Broadcast, event_listener::EventListener,
        keyed_broadcast::KeyedBroadcast, keywake::Keywake, watch::Watch,
    },
    publishing::{Publishing, RETAINED},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

const KEYS: [u64; 3] = [1, 10_000, 100_000];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    one_reader(&mut criterion);
    and_try_recv(&mut criterion);
    no_topic(&mut criterion);
    criterion.final_summary();
}

fn one_reader(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish, 1 reader");
    for keys in KEYS {
        publish::<Keywake>(&mut group, Keywake::NAME, keys, RETAINED);
        publish::<KeyedBroadcast>(&mut group, KeyedBroadcast::NAME, keys, RETAINED);
    }
    // The default; at 100,000 keys that would be gigabytes of events.
    publish::<Keywake>(&mut group, "keywake, 1,024 retained", 1, 1_024);
    publish::<Keywake>(&mut group, "keywake, 1,024 retained", 10_000, 1_024);
    // One channel whatever the key is, so one key says it all.
    publish::<Broadcast>(&mut group, Broadcast::NAME, 1, RETAINED);
    publish::<Watch>(&mut group, Watch::NAME, 1, RETAINED);
    publish::<AsyncBroadcast>(&mut group, AsyncBroadcast::NAME, 1, RETAINED);
    publish::<EventListener>(&mut group, EventListener::NAME, 1, RETAINED);
    group.finish();
}

fn and_try_recv(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish and try_recv");
    for keys in KEYS {
        publish_and_receive::<Keywake>(&mut group, keys);
        publish_and_receive::<KeyedBroadcast>(&mut group, keys);
    }
    publish_and_receive::<Broadcast>(&mut group, 1);
    publish_and_receive::<Watch>(&mut group, 1);
    publish_and_receive::<AsyncBroadcast>(&mut group, 1);
    publish_and_receive::<EventListener>(&mut group, 1);
    group.finish();
}

fn no_topic(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish, no topic");
    for living in [0, 10_000] {
        miss(&mut group, Keywake::NAME, living, || Publishing::<Keywake>::to_nobody(living, 10_000));
        miss(&mut group, KeyedBroadcast::NAME, living, || Publishing::<KeyedBroadcast>::to_nobody(living, 10_000));
        // A key that had readers is remembered by keywake (its tombstone), and forgotten by the map.
        miss(&mut group, "keywake, left keys", living, || Publishing::<Keywake>::to_left_keys(living, 10_000));
    }
    group.finish();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn publish<P: Peer>(group: &mut Group<'_>, name: &str, keys: u64, retained: usize) {
    // Made at the first use: a filtered run does not set up what it does not measure.
    let mut publishing = None;
    group.bench_function(BenchmarkId::new(name, keys), |bencher| {
        let publishing = publishing.get_or_insert_with(|| {
            let mut publishing = Publishing::<P>::to_readers(keys, retained);
            publishing.settle();
            publishing
        });
        bencher.iter_custom(|count| publishing.publish(as_count(count)));
    });
}

fn publish_and_receive<P: Peer>(group: &mut Group<'_>, keys: u64) {
    let mut publishing = None;
    group.bench_function(BenchmarkId::new(P::NAME, keys), |bencher| {
        let publishing = publishing.get_or_insert_with(|| Publishing::<P>::to_readers(keys, RETAINED));
        bencher.iter_custom(|count| publishing.publish_and_receive(as_count(count)));
    });
}

fn miss<P: Peer>(group: &mut Group<'_>, name: &str, living: u64, set_up: impl Fn() -> Publishing<P>) {
    let mut publishing = None;
    group.bench_function(BenchmarkId::new(name, format!("{living} others")), |bencher| {
        let publishing = publishing.get_or_insert_with(&set_up);
        bencher.iter_custom(|count| publishing.publish(as_count(count)));
    });
}

fn as_count(count: u64) -> usize {
    usize::try_from(count).expect("criterion counts in words")
}
