//! What does it cost per event to read a million events that were published while the reader was away?
//!
//! One key; `owned` is `try_recv`, which counts a reference per event in keywake and clones the `u64` in the peers.

use std::time::Duration;

use criterion::{Criterion, Throughput};

use measure::{
    catch_up::{BATCH, CatchUp, lent, many, owned},
    peers::{Peer, async_broadcast::AsyncBroadcast, broadcast::Broadcast, keywake::Keywake},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let events = if measure::full_size() { 1_000_000 } else { 1_000 };
    let mut group = criterion.benchmark_group("catch up");
    group.throughput(Throughput::Elements(events as u64));
    read::<Keywake>(&mut group, "keywake, lent", events, lent);
    read::<Keywake>(&mut group, &format!("keywake, recv_many({BATCH})"), events, many);
    read::<Keywake>(&mut group, "keywake, owned", events, owned::<Keywake>);
    read::<Broadcast>(&mut group, Broadcast::NAME, events, owned::<Broadcast>);
    read::<AsyncBroadcast>(&mut group, AsyncBroadcast::NAME, events, owned::<AsyncBroadcast>);
    group.finish();
    criterion.final_summary();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn read<P: Peer>(group: &mut Group<'_>, name: &str, events: usize, read: impl Fn(&mut P::Reader) -> u64) {
    let mut catch_up = None;
    group.bench_function(name, |bencher| {
        let catch_up = catch_up.get_or_insert_with(CatchUp::<P>::new);
        bencher.iter_custom(|count| (0..count).map(|_| catch_up.read(events, &read)).sum());
    });
}
