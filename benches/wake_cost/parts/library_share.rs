//! What the library itself has to do per delivery, where waking costs nothing and nobody switches tasks.

use std::time::Duration;

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
        .collect()
}
