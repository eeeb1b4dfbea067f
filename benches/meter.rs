//! What does metering add to a short poll, and to a piece of synchronous work?
//!
//! Polls of a future that does nothing, plain and in each mode in turns; each figure is the median over the rounds of a round's mean,
//! so that of the default mode holds the polls that read the processor clock.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::{
    hint::black_box,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use keywake::{
    load::StreamClass,
    meter::{Meter, StreamMeter, Timing},
};
use measure::{
    clock::{look_at_the_clock, per},
    rounds::{Side, medians},
    surroundings,
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

/// Nothing to do, and nobody to wake.
fn idle() -> impl Future<Output = ()> {
    std::future::poll_fn(|_| if black_box(true) { Poll::Pending } else { Poll::Ready(()) })
}

/// Nanoseconds per poll.
fn polls(future: Pin<&mut impl Future>, count: usize) -> f64 {
    let mut future = future;
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    for _ in 0..count {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    per(start.elapsed(), count)
}

/// Nanoseconds per scope.
fn scopes(stream: &StreamMeter, count: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        let _scope = black_box(stream).scope();
    }
    per(start.elapsed(), count)
}

fn metered<'a>(timing: Timing, count: usize) -> Side<'a, 2> {
    let meter = Meter::builder().timing(timing).build();
    let stream = meter.track(StreamClass::Live);
    let mut future = Box::pin(stream.run(idle()));
    Side::new(move || [polls(future.as_mut(), count), scopes(&stream, count)])
}

fn main() {
    let (rounds, count) = if measure::full_size() { (101, 100_000) } else { (1, 100) };
    surroundings::print();
    println!("* {rounds} rounds of {count}; one look at the clock is {:.1} ns\n", look_at_the_clock());
    let mut plain = Box::pin(idle());
    let plain = Side::new(move || [polls(plain.as_mut(), count), 0.0]);
    let sides = [plain, metered(Timing::Wall, count), metered(Timing::Adaptive, count), metered(Timing::ThreadCpu, count)];
    let [plain, rest @ ..] = medians(rounds, sides);
    println!("| timing | a poll, ns | more than a plain one | a scope, ns |");
    println!("|---|---|---|---|");
    println!("| none | {:.1} | | |", plain[0]);
    for (timing, [poll, scope]) in [Timing::Wall, Timing::Adaptive, Timing::ThreadCpu].into_iter().zip(rest) {
        println!("| {timing:?} | {poll:.1} | {:.1} | {scope:.1} |", poll - plain[0]);
    }
}
