//! What does admission take of a stream, and does that grow with who waits, and with threads that let streams in at the same time?
//!
//! A stream is let in and goes at once; each figure is the median over the rounds of a round's mean. The peer counts and names nobody:
//! tokio's semaphore, as servers limit streams with it.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::{
    sync::{Arc, Barrier},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use keywake::{
    load::StreamClass,
    overload::{
        admission::{Admission, AdmissionLimits},
        pending::PendingLimits,
    },
};
use measure::{
    clock::{look_at_the_clock, per},
    rounds::{Side, medians},
    surroundings,
};
use tokio::sync::Semaphore;

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

/// How many catch-ups wait in the row of that name: the default length of the queue.
const WAITING: usize = 1024;
/// How many identities there are.
const IDENTITIES: usize = 1_000;

/// Lets one in, and lets it go.
type Visit<'a> = &'a (dyn Fn(usize) + Sync);

fn admission(catch_ups: usize) -> Admission {
    let pending = PendingLimits { length: WAITING, ..PendingLimits::default() };
    let limits = AdmissionLimits { soft: 60_000, hard: 70_000, catch_ups, pending, ..AdmissionLimits::default() };
    Admission::new(limits).expect("limits that work")
}

/// Nanoseconds per stream and thread.
fn visits(threads: usize, count: usize, visit: Visit<'_>) -> f64 {
    let start = Barrier::new(threads);
    let time = || {
        start.wait();
        let began = Instant::now();
        (0..count).for_each(visit);
        began.elapsed()
    };
    let times = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(time)).collect();
        workers.into_iter().map(|worker| worker.join().expect("nothing fails")).collect::<Vec<_>>()
    });
    per(times.iter().sum::<Duration>() / u32::try_from(threads).expect("few"), count)
}

fn side(count: usize, visit: Visit<'_>) -> Side<'_, 3> {
    Side::new(move || [1, 2, 4].map(|threads| visits(threads, count, visit)))
}

fn main() {
    let (rounds, count) = if measure::full_size() { (31, 100_000) } else { (1, 100) };
    surroundings::print();
    println!("* {rounds} rounds of {count}; one look at the clock is {:.1} ns\n", look_at_the_clock());

    let permits = Arc::new(Semaphore::new(70_000));
    let semaphore = |_| drop(Arc::clone(&permits).try_acquire_owned().expect("there is room"));
    let plain = admission(0);
    let nobody = |_| assert!(plain.try_admit(StreamClass::Live, None).is_admitted());
    let names: Vec<_> = (0..IDENTITIES).map(|number| format!("customer-{number}")).collect();
    let named = |turn: usize| assert!(plain.try_admit(StreamClass::Live, Some(&names[turn % IDENTITIES])).is_admitted());
    let crowded = admission(1);
    let _catch_up = crowded.try_admit(StreamClass::CatchUp, None);
    let waiting: Vec<_> = (0..WAITING).map(|_| crowded.admit(StreamClass::CatchUp, None, Instant::now())).collect();
    assert!(waiting.iter().all(keywake::overload::pending::Admitting::is_queued));
    let beside = |_| assert!(crowded.try_admit(StreamClass::Live, None).is_admitted());
    let future = |_| {
        let mut waiting = std::pin::pin!(plain.admit(StreamClass::Live, None, Instant::now()));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    };
    let sides: [(&str, Visit<'_>); 5] = [
        ("tokio's semaphore, `try_acquire_owned`", &semaphore),
        ("`try_admit`", &nobody),
        ("`try_admit`, one of 1,000 identities", &named),
        ("`try_admit`, while 1,024 catch-ups wait", &beside),
        ("`admit`, polled once (with a look at the clock)", &future),
    ];
    let figures = medians(rounds, sides.map(|(_, visit)| side(count, visit)));
    println!("| in and out, ns per stream and thread | 1 thread | 2 | 4 |");
    println!("|---|---|---|---|");
    for ((name, _), [one, two, four]) in sides.iter().zip(figures) {
        println!("| {name} | {one:.0} | {two:.0} | {four:.0} |");
    }
}
