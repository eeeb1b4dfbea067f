//! Is a publish disturbed when another thread subscribes and unsubscribes at the same time?
//!
//! A histogram of single publishes, so no Criterion. The times hold one look at the clock, on both sides alike. The two
//! sides run in turns; each figure is the median over the rounds of that round's percentile.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use measure::{
    churn::{Churn, Latencies, compare},
    clock::look_at_the_clock,
    peers::{Peer, keyed_broadcast::KeyedBroadcast, keywake::Keywake},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

fn main() {
    let (keys, rounds, publishes) = if measure::full_size() { (10_000, 9, 300_000) } else { (100, 1, 3_000) };
    println!("Publish to {keys} keys with one reader each, ns; {rounds} rounds of {publishes}.");
    println!("One look at the clock is {:.0} ns of each.\n", look_at_the_clock());
    println!("| channel | the other thread churns | p50 | p99 | p99.9 | p50 / quiet | p99 / quiet | churned per publish |");
    println!("|---|---|---|---|---|---|---|---|");
    let sides = compare::<Keywake, KeyedBroadcast>(keys, rounds, publishes, &Churn::ALL);
    for (name, side) in [Keywake::NAME, KeyedBroadcast::NAME].into_iter().zip(sides) {
        let quiet = side[0];
        for (churn, Latencies { p50, p99, p999, churned }) in Churn::ALL.into_iter().zip(side) {
            println!(
                "| {name} | {} | {p50:.0} | {p99:.0} | {p999:.0} | {:.2} | {:.2} | {churned:.2} |",
                churn.name(),
                p50 / quiet.p50,
                p99 / quiet.p99,
            );
        }
    }
}
