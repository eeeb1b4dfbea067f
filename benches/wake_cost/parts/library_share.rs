//! What the library itself has to do per delivery, where waking costs nothing and nobody switches tasks.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{
    Context,
    hand::{Hand, time_nothing},
    measure::{
        clock::median,
        words::{grouped, time},
    },
    parts::own_part::instructions,
    table::Row,
};

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let scale = context.options.scale;
    let nothing = time_nothing();
    let locked = Row::new("one locked read-modify-write here, its line at hand", "").shown(time(locked_instruction()));
    let sizes: &[usize] = if scale.few_shapes { &[1_000] } else { &[1_000, 10_000] };
    sizes
        .iter()
        .copied()
        .filter(|readers| *readers <= scale.most_readers)
        .flat_map(|readers| {
            let mut hand = Hand::new(readers);
            let rounds = (2_000_000 / readers).min(200) * scale.rounds / 5 + 3;
            let per_reader = |took: Duration| (took.as_nanos() as f64 - nothing) / readers as f64;
            let (mut fan_outs, mut reads): (Vec<f64>, Vec<f64>) = (0..rounds)
                .map(|_| {
                    // Without a relay, or where it is not asked, the wakes are part of the publish.
                    let published = hand.publish();
                    (per_reader(published + hand.fan_out()), per_reader(hand.read_and_park()))
                })
                .unzip();
            let (fan_out, read) = (median(&mut fan_outs), median(&mut reads));
            let counted = |functions: &[&str]| {
                let counts = functions.iter().map(|function| instructions(function, readers)).sum::<Option<f64>>();
                counts.map_or_else(String::new, |count| format!("; {:.0} instructions", count / readers as f64))
            };
            let share =
                |what: &str| format!("library share per delivery, no-op wakers, {} readers: {what}", grouped(readers as u64));
            [
                Row::new(share("publish and fan-out"), "").with(
                    "<= 6 ns",
                    fan_out <= 6.0,
                    time(fan_out) + &counted(&["counted_publish", "counted_fan_out"]),
                ),
                Row::new(share("poll, read, park"), "").with(
                    "<= 20 ns",
                    read <= 20.0,
                    time(read) + &counted(&["counted_read_and_park"]),
                ),
            ]
        })
        .chain([locked])
        .collect()
}

/// What one of the instructions takes of which a delivery needs two (the reader's when it parks, the event's count), in ns.
fn locked_instruction() -> f64 {
    const TIMES: u32 = 10_000;
    let word = AtomicU64::new(0);
    let mut rounds: Vec<f64> = (0..101)
        .map(|_| {
            let start = Instant::now();
            for bit in 0..TIMES {
                // Relaxed: one thread; on this machine's kind all orderings are the same instruction.
                black_box(&word).fetch_or(1 << (bit % 64), Ordering::Relaxed);
            }
            start.elapsed().as_nanos() as f64 / f64::from(TIMES)
        })
        .collect();
    median(&mut rounds)
}
