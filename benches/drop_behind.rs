//! How long does a thread take to drop a reader that is a million events behind?
//!
//! The drop alone is timed, on the thread that drops. With another reader staying the events stay; with the last reader they
//! go, and keywake may hand them on to its writer: that work is moved, not saved, and the next publishes pay it.

use std::time::Duration;

use criterion::Criterion;

use measure::{
    dropping::{Dropping, Leaver},
    peers::{Peer, broadcast::Broadcast, keywake::Keywake},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for leaver in Leaver::ALL {
        let mut group = criterion.benchmark_group(format!("drop of {}", leaver.name()));
        drop_reader::<Keywake>(&mut group, leaver);
        drop_reader::<Broadcast>(&mut group, leaver);
        group.finish();
    }
    criterion.final_summary();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn drop_reader<P: Peer>(group: &mut Group<'_>, leaver: Leaver) {
    let events = if measure::full_size() { 1_000_000 } else { 1_000 };
    let mut dropping = None;
    group.bench_function(P::NAME, |bencher| {
        let dropping = dropping.get_or_insert_with(|| Dropping::<P>::new(leaver));
        bencher.iter_custom(|count| (0..count).map(|_| dropping.drop_reader(events)).sum());
    });
}
