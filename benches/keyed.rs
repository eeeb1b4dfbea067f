//! What is it worth to wake only the readers of one key, with 10,000 keys of one reader each?
//!
//! Two quantities per publish, so no Criterion: the writer's time and the processor time of the whole process. All readers are
//! tokio tasks in a runtime with one worker, the writer is another thread; the next publish comes when all that were woken
//! wait again. That waiting is the harness; a line of its own says what it costs, and it is subtracted from nothing.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use measure::{
    clock,
    crowd::Crowd,
    peers::{Peer, broadcast::Broadcast, keyed_broadcast::KeyedBroadcast, keywake::Keywake},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

fn main() {
    let (keys, rounds) = if measure::full_size() { (10_000, 9) } else { (50, 1) };
    let mut keywake = Crowd::<Keywake>::new(keys, 1);
    let mut map = Crowd::<KeyedBroadcast>::new(keys, 1);
    let mut one = Crowd::<Broadcast>::new(keys, 1);
    let [of_keywake, of_map, of_one, of_harness] = measure::rounds::medians(
        rounds,
        [
            measure::rounds::Side::new(|| publish(&mut keywake, 200)),
            measure::rounds::Side::new(|| publish(&mut map, 200)),
            // Fewer, since each wakes all.
            measure::rounds::Side::new(|| publish(&mut one, 20)),
            measure::rounds::Side::new(harness_alone),
        ],
    );
    println!("{keys} keys with one waiting reader each, us per publish; medians of {rounds} rounds.\n");
    println!("| channel | send p50 | until all that were woken have looked, p50 | processor |");
    println!("|---|---|---|---|");
    for (name, [send, last, cpu]) in [
        (Keywake::NAME, of_keywake),
        (KeyedBroadcast::NAME, of_map),
        ("one tokio broadcast, filtered", of_one),
        ("no publish: the harness alone", of_harness),
    ] {
        println!("| {name} | {send:.2} | {last:.1} | {cpu:.0} |");
    }
}

fn publish<P: Peer>(crowd: &mut Crowd<P>, publishes: u32) -> [f64; 3] {
    let before = clock::process_cpu();
    let times: Vec<_> = (0..publishes).map(|_| crowd.publish_from_outside()).collect();
    let cpu = clock::process_cpu() - before;
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let mut send: Vec<_> = times.iter().map(|times| micros(times.writer)).collect();
    let mut last: Vec<_> = times.iter().map(|times| micros(times.last)).collect();
    [clock::median(&mut send), clock::median(&mut last), micros(cpu) / f64::from(publishes)]
}

fn harness_alone() -> [f64; 3] {
    let crowd = Crowd::<Keywake>::new(1, 1);
    let before = clock::process_cpu();
    (0..200).for_each(|_| crowd.settle());
    let cpu = clock::process_cpu() - before;
    [0.0, 0.0, cpu.as_secs_f64() * 1e6 / 200.0]
}
