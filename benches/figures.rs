//! Does keywake reach what it set out to reach? The README's table, in one run.
//!
//! `cargo bench --bench figures`: for each target our value, the peer's, their ratio, and whether that is reached. Both sides
//! run in turns in this one process; each value is the median over the rounds, after one that does not count. The peer is
//! `DashMap<u64, broadcast::Sender(16)>` (`broadcast(2^20)` for a million events) with keywake's hasher; events are `u64`;
//! both keep 16 events per key. What exactly is measured is said where it is done, in `benches/measure`.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::{fmt, time::Instant};

use measure::{
    allocator::Counting,
    catch_up::{self, CatchUp},
    churn::{self, Churn, Latencies},
    clock::{look_at_the_clock, median, per},
    crowd::{Crowd, Times},
    dropping::{Dropping, Leaver},
    hand_polled::HandPolled,
    memory,
    peers::{Peer, bare_wakes::BareWakes, broadcast::Broadcast, keyed_broadcast::KeyedBroadcast, keywake::Keywake},
    publishing::{Publishing, RETAINED},
    rounds::{Side, in_order, medians, over_set_ups},
    subscribing::{Join, Subscribing},
    surroundings,
    words::{grouped, three_digits},
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let begin = Instant::now();
    let scale = if measure::full_size() {
        Scale::FULL
    } else {
        println!("Without `cargo bench` this only shows that it works: the figures mean nothing.\n");
        Scale::SMALL
    };
    print_surroundings(&scale);
    println!("| what | keywake | peer | ratio | target | reached |");
    println!("|---|---|---|---|---|---|");
    publish(&scale);
    miss(&scale);
    churn(&scale);
    catch_up(&scale);
    subscribe(&scale);
    wake(&scale);
    drops(&scale);
    bytes(&scale);
    println!("\nTook {:.0} s.", begin.elapsed().as_secs_f64());
}

/// How much of everything.
struct Scale {
    rounds: usize,
    /// How often that is done anew, where it is quick and where the place in memory matters.
    set_ups: usize,
    keys: u64,
    many_keys: u64,
    /// Publishes, joins and the like per round.
    operations: usize,
    /// Events to catch up with, or to be behind.
    behind: usize,
    readers: usize,
}

impl Scale {
    const FULL: Self =
        Self { rounds: 9, set_ups: 3, keys: 10_000, many_keys: 100_000, operations: 100_000, behind: 1_000_000, readers: 10_000 };
    /// Shows that all of it works.
    const SMALL: Self = Self { rounds: 1, set_ups: 1, keys: 100, many_keys: 200, operations: 2_000, behind: 2_000, readers: 100 };
}

/// What a value must be at most.
enum Target {
    /// Of the same side's in quiet.
    OfQuiet(f64),
    /// Of the peer's.
    Ratio(f64),
    /// Nothing: it is shown beside the others.
    Shown,
    /// By itself, in us.
    Micros(f64),
}

impl Target {
    /// `value` in the target's own terms.
    fn is_reached(&self, value: f64) -> Option<bool> {
        match self {
            Self::OfQuiet(most) | Self::Ratio(most) | Self::Micros(most) => Some(value <= *most),
            Self::Shown => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfQuiet(most) => write!(f, "<= {most}x quiet"),
            Self::Ratio(most) => write!(f, "<= {most}"),
            Self::Shown => Ok(()),
            Self::Micros(most) => write!(f, "<= {most} us"),
        }
    }
}

fn row(what: &str, unit: &str, keywake: f64, peer: f64, target: Target) {
    let ratio = keywake / peer;
    let reached = target.is_reached(if matches!(target, Target::Micros(_)) { keywake } else { ratio });
    let [keywake, peer] = [keywake, peer].map(|value| format!("{} {unit}", three_digits(value)));
    print_row(what, &keywake, &peer, ratio, &target, reached);
}

fn print_row(what: &str, keywake: &str, peer: &str, ratio: f64, target: &Target, reached: Option<bool>) {
    let reached = reached.map_or("", |reached| if reached { "yes" } else { "**no**" });
    println!("| {what} | {keywake} | {peer} | {} | {target} | {reached} |", three_digits(ratio));
}

fn publish(scale: &Scale) {
    for (keys, retained, target) in [
        (1, RETAINED, Target::Ratio(0.5)),
        (scale.keys, RETAINED, Target::Ratio(0.6)),
        (scale.many_keys, RETAINED, Target::Ratio(0.6)),
        // The default, for which a broadcast would allocate 41 KB per key: its value is the one with 16.
        (scale.keys, 1_024, Target::Shown),
    ] {
        let [[ours], [theirs]] = publishing(
            scale,
            || Publishing::<Keywake>::to_readers(keys, retained),
            || Publishing::<KeyedBroadcast>::to_readers(keys, RETAINED),
        );
        let what = match retained {
            RETAINED => format!("publish, no reader waits, {} {}", grouped(keys), if keys == 1 { "key" } else { "keys" }),
            _ => format!("the same, {} keys, keywake keeps {retained} events per key", grouped(keys)),
        };
        row(&what, "ns", ours, theirs, target);
    }
}

fn miss(scale: &Scale) {
    let [[ours], [theirs]] = publishing(
        scale,
        || Publishing::<Keywake>::to_nobody(scale.keys, scale.keys),
        || Publishing::<KeyedBroadcast>::to_nobody(scale.keys, scale.keys),
    );
    row("publish to a key without a topic / map miss", "ns", ours, theirs, Target::Ratio(1.1));
}

fn publishing<A: Peer, B: Peer>(scale: &Scale, a: impl Fn() -> Publishing<A>, b: impl Fn() -> Publishing<B>) -> [[f64; 1]; 2] {
    over_set_ups(scale.set_ups, |a_first| {
        let (mut a, mut b) = in_order(a_first, &a, &b);
        a.settle();
        b.settle();
        let round_of_a = || publishes(&mut a, scale.operations);
        let round_of_b = || publishes(&mut b, scale.operations);
        medians(scale.rounds, [Side::new(round_of_a), Side::new(round_of_b)])
    })
}

fn publishes<P: Peer>(publishing: &mut Publishing<P>, operations: usize) -> [f64; 1] {
    publishing.warm_up();
    [per(publishing.publish(operations), operations)]
}

/// Each side is held against itself in quiet; the ratio of the two sides is shown beside.
fn churn(scale: &Scale) {
    const CHURNS: [Churn; 4] = [Churn::Quiet, Churn::AnotherHub, Churn::OtherKeysNew, Churn::OtherKeysRead];
    let [ours, theirs] = churn::compare::<Keywake, KeyedBroadcast>(scale.keys, scale.rounds, 2 * scale.operations, &CHURNS);
    for percentile in ["p50", "p99"] {
        let of = |latencies: &Latencies| if percentile == "p50" { latencies.p50 } else { latencies.p99 };
        for (at, churn) in CHURNS.into_iter().enumerate() {
            let [ours, our_quiet, theirs, their_quiet] = [&ours[at], &ours[0], &theirs[at], &theirs[0]].map(of);
            let target = match churn {
                Churn::OtherKeysNew | Churn::OtherKeysRead => Target::OfQuiet(1.2),
                Churn::AnotherHub | Churn::Quiet | Churn::SameKeys => Target::Shown,
            };
            print_row(
                &format!("publish {percentile}, another thread churns {}", churn.name()),
                &format!("{} ns = {:.2}x quiet", three_digits(ours), ours / our_quiet),
                &format!("{} ns = {:.2}x quiet", three_digits(theirs), theirs / their_quiet),
                ours / theirs,
                &target,
                target.is_reached(ours / our_quiet),
            );
        }
    }
}

fn catch_up(scale: &Scale) {
    let mut keywake = CatchUp::<Keywake>::new();
    let mut ring = CatchUp::<Broadcast>::new();
    let events = scale.behind;
    let [[lent, many, owned], [theirs, ..]] = medians(
        scale.rounds,
        [
            Side::new(|| {
                [
                    per(keywake.read(events, catch_up::lent), events),
                    per(keywake.read(events, catch_up::many), events),
                    per(keywake.read(events, catch_up::owned::<Keywake>), events),
                ]
            }),
            Side::new(|| [per(ring.read(events, catch_up::owned::<Broadcast>), events), 0.0, 0.0]),
        ],
    );
    let many_name = format!("catch up, recv_many({})", catch_up::BATCH);
    row("catch up, lent", "ns", lent, theirs, Target::Ratio(0.3));
    row(&many_name, "ns", many, theirs, Target::Ratio(0.3));
    row("catch up, owned", "ns", owned, theirs, Target::Ratio(0.6));
}

fn subscribe(scale: &Scale) {
    // Joins and leaves cost more than publishes.
    let operations = scale.operations / 2;
    for join in Join::ALL {
        let [ours, theirs] = over_set_ups(scale.set_ups, |keywake_first| {
            let (mut keywake, mut map) = in_order(
                keywake_first,
                || Subscribing::<Keywake>::new(join, scale.keys),
                || Subscribing::<KeyedBroadcast>::new(join, scale.keys),
            );
            let ours = || joins(&mut keywake, operations);
            let theirs = || joins(&mut map, operations);
            medians(scale.rounds, [Side::new(ours), Side::new(theirs)])
        });
        for (which, how) in ["alone", "while published to"].into_iter().enumerate() {
            let what = format!("subscribe and drop, {}, {how}", join.name());
            row(&what, "ns", ours[which], theirs[which], Target::Ratio(1.2));
        }
    }
}

fn joins<P: Peer>(subscribing: &mut Subscribing<P>, operations: usize) -> [f64; 2] {
    subscribing.warm_up();
    [subscribing.alone(operations), subscribing.while_published(operations)].map(|time| per(time, operations))
}

/// Bare wakes bound from below what can be had: the executor's and the machine's part of the other two.
fn wake(scale: &Scale) {
    let mut keywake = Crowd::<Keywake>::new(1, scale.readers);
    let mut map = Crowd::<KeyedBroadcast>::new(1, scale.readers);
    let mut bare = Crowd::<BareWakes>::new(1, scale.readers);
    let [ours, theirs, bare] =
        medians(scale.rounds, [Side::new(|| wakes(&mut keywake)), Side::new(|| wakes(&mut map)), Side::new(|| wakes(&mut bare))]);
    let what = |end| format!("publish to {} waiting tasks from outside, {end}", grouped(scale.readers as u64));
    for (which, end, target) in
        [(0, "writer", Target::Ratio(0.7)), (1, "writer's processor time", Target::Shown), (2, "last reader", Target::Shown)]
    {
        row(&what(end), "us", ours[which], theirs[which], target);
        row(&format!("{}: bare wakes in keywake's place", what(end)), "us", bare[which], theirs[which], Target::Shown);
    }

    let mut keywake = HandPolled::<Keywake>::new(scale.readers);
    let mut map = HandPolled::<KeyedBroadcast>::new(scale.readers);
    let [[ours], [theirs]] =
        medians(scale.rounds, [Side::new(|| hand_polled(&mut keywake)), Side::new(|| hand_polled(&mut map))]);
    let what = format!("publish to {} waiting readers, wakers that do nothing", grouped(scale.readers as u64));
    row(&what, "us", ours, theirs, Target::Ratio(0.7));
}

/// Medians of some publishes: one is easily disturbed. Writer, its processor time, and last reader, in us.
fn wakes<P: Peer>(crowd: &mut Crowd<P>) -> [f64; 3] {
    let times: Vec<_> = (0..15).map(|_| crowd.publish_from_outside()).collect();
    [|times: &Times| times.writer, |times: &Times| times.writer_cpu, |times: &Times| times.last]
        .map(|moment| median(&mut times.iter().map(|times| moment(times).as_secs_f64() * 1e6).collect::<Vec<_>>()))
}

fn hand_polled<P: Peer>(crowd: &mut HandPolled<P>) -> [f64; 1] {
    let mut times: Vec<_> = (0..15).map(|_| crowd.wake_all().as_secs_f64() * 1e6).collect();
    [median(&mut times)]
}

fn drops(scale: &Scale) {
    for leaver in Leaver::ALL {
        let mut keywake = Dropping::<Keywake>::new(leaver);
        let mut ring = Dropping::<Broadcast>::new(leaver);
        let [[ours], [theirs]] = medians(
            scale.rounds,
            [
                Side::new(|| [keywake.drop_reader(scale.behind).as_secs_f64() * 1e6]),
                Side::new(|| [ring.drop_reader(scale.behind).as_secs_f64() * 1e6]),
            ],
        );
        let what = format!("drop of {}, {} events kept", leaver.name(), grouped(scale.behind as u64));
        row(&what, "us", ours, theirs, Target::Micros(10.0));
    }
}

/// Nothing is timed here, so once is enough.
fn bytes(scale: &Scale) {
    let idle = |events| (memory::idle_key::<Keywake>(scale.keys, events), memory::idle_key::<KeyedBroadcast>(scale.keys, events));
    for (events, target) in [(0, Target::Ratio(0.35)), (1, Target::Shown), (16, Target::Shown)] {
        let (ours, theirs) = idle(events);
        row(&format!("idle key with one reader, {events} events read"), "B", ours, theirs, target);
    }
    let ours = memory::parked_keywake(scale.readers);
    let theirs = memory::parked_broadcast::<KeyedBroadcast>(scale.readers);
    row("one more waiting reader", "B", ours, theirs, Target::Ratio(1.15));
}

fn print_surroundings(scale: &Scale) {
    surroundings::print();
    println!("* one look at the clock: {:.0} ns", look_at_the_clock());
    println!(
        "* medians of {} rounds (of publish and subscribe: of {} set-ups of as many), both sides in turns\n",
        scale.rounds, scale.set_ups
    );
}
