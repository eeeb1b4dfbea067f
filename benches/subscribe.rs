//! What does it cost to subscribe to a key and leave it again?
//!
//! As its first reader, when the topic is made and removed, and as a further one; alone, and while another thread publishes to
//! these same 10,000 keys as fast as it can. The map's side removes the key with its last reader, as keywake does.

use std::time::Duration;

use criterion::Criterion;

use measure::{
    peers::{Peer, keyed_broadcast::KeyedBroadcast, keywake::Keywake},
    subscribing::{Join, Subscribing},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for join in Join::ALL {
        let mut group = criterion.benchmark_group(format!("subscribe and drop, {}, alone", join.name()));
        subscribe::<Keywake>(&mut group, join, Subscribing::alone);
        subscribe::<KeyedBroadcast>(&mut group, join, Subscribing::alone);
        group.finish();
        let mut group = criterion.benchmark_group(format!("subscribe and drop, {}, while published", join.name()));
        subscribe::<Keywake>(&mut group, join, Subscribing::while_published);
        subscribe::<KeyedBroadcast>(&mut group, join, Subscribing::while_published);
        group.finish();
    }
    criterion.final_summary();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn subscribe<P: Peer>(group: &mut Group<'_>, join: Join, measure: fn(&mut Subscribing<P>, usize) -> Duration) {
    let mut subscribing = None;
    group.bench_function(P::NAME, |bencher| {
        let subscribing = subscribing.get_or_insert_with(|| Subscribing::<P>::new(join, 10_000));
        bencher.iter_custom(|count| measure(subscribing, usize::try_from(count).expect("criterion counts in words")));
    });
}
