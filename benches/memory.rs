//! How many bytes do keys and readers keep while nothing happens?
//!
//! Bytes asked of the allocator and not given back, the handles that the user holds included. No times, so no Criterion.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use measure::{
    allocator::Counting,
    memory,
    peers::{Peer, broadcast::Broadcast, keyed_broadcast::KeyedBroadcast, keywake::Keywake},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let count: u64 = if measure::full_size() { 10_000 } else { 200 };
    let readers = usize::try_from(count).expect("few");
    println!("Bytes asked of the allocator and kept; u64 keys, u64 events, {count} of each.\n");
    println!("| what | {} | {} | ratio |", Keywake::NAME, KeyedBroadcast::NAME);
    println!("|---|---|---|---|");
    println!("| a hub without keys, in all | {} | {} | |", memory::empty::<Keywake>(), memory::empty::<KeyedBroadcast>());
    for events in [0, 1, 16, 64] {
        row(
            &format!("a key with one reader that has read {events} events"),
            memory::idle_key::<Keywake>(count, events),
            memory::idle_key::<KeyedBroadcast>(count, events),
        );
    }
    row(
        "one more reader of a key, waiting in recv()",
        memory::parked_keywake(readers),
        memory::parked_broadcast::<KeyedBroadcast>(readers),
    );
    row("the same, of one tokio broadcast", memory::parked_keywake(readers), memory::parked_broadcast::<Broadcast>(readers));
    let (hub, left) = memory::left_key::<Keywake>(count);
    row("a key whose only reader has left", left, memory::left_key::<KeyedBroadcast>(count).1);
    println!("\nOf these keys keywake remembers {} exactly (tombstones).", hub.0.stats().tombstones);
}

fn row(what: &str, keywake: f64, map: f64) {
    // Where the map keeps nothing there is no ratio.
    let ratio = if map < 1.0 { String::new() } else { format!("{:.2}", keywake / map) };
    println!("| {what} | {keywake:.0} | {map:.0} | {ratio} |");
}
