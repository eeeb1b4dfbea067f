//! What the writer itself has to do to a key that N readers wait for, the relay polled by hand.
//!
//! All N have to park anew each time, on the writer's own core, so that nothing is left in its caches, which in a program readers
//! on other cores would not do. So a publish to another key comes in between: what belongs to no key is warm then, the key itself
//! is as its readers left it. The time without that is shown beside. Instructions are counted by callgrind, in a child.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Context,
    hand::{Hand, time_nothing},
    measure::{
        clock::median,
        words::{grouped, three_digits, time},
    },
    table::Row,
};

/// What the child is started with, and how many readers it shall have.
pub(crate) const PROBE: &str = "own-part";
/// Few: the child is slow. Block boundaries are in it, the same for all sizes.
const PUBLISHES: u64 = 16;

pub(crate) fn run(context: &Context) -> Vec<Row> {
    let scale = context.options.scale;
    let sizes: Vec<usize> = [1, 10_000, 100_000].into_iter().filter(|readers| *readers <= scale.most_readers).collect();
    let mut hands: Vec<Hand> = sizes.iter().map(|readers| Hand::new(*readers)).collect();
    let mut samples = vec![[const { Vec::new() }; 2]; sizes.len()];
    for _ in 0..=2 * scale.rounds {
        for (hand, samples) in hands.iter_mut().zip(&mut samples) {
            let over = Instant::now() + scale.turn.max(Duration::from_millis(5));
            for count in 0.. {
                if count >= 10 && Instant::now() > over {
                    break;
                }
                let is_warm = count % 2 == 0;
                if is_warm {
                    hand.other_key();
                }
                samples[usize::from(!is_warm)].push(hand.publish().as_nanos() as f64);
                hand.fan_out();
                hand.read_and_park();
            }
        }
    }
    drop(hands);
    let nothing = time_nothing();
    let middle = |samples: &mut [f64]| (median(samples) - nothing).max(0.1);
    let (times, cold): (Vec<f64>, Vec<f64>) = samples.iter_mut().map(|[warm, cold]| (middle(warm), middle(cold))).unzip();
    // The child takes seconds to make many readers park.
    let counted = if scale.few_shapes { &sizes[..sizes.len().min(2)] } else { &sizes[..] };
    let instructions: Vec<Option<f64>> = counted.iter().map(|readers| instructions("counted_publish", *readers)).collect();
    let said = |count: &Option<f64>| count.map_or_else(|| "?".to_owned(), |count| format!("{count:.0}"));
    let targets = [("<= 60 ns", 60.0 / times[0]), ("<= 1.3x of the first", 1.3), ("<= 3x of the first", 3.0)];
    let mut rows: Vec<Row> = sizes
        .iter()
        .zip(times.iter().zip(&cold))
        .zip(targets)
        .map(|((readers, (nanos, cold)), (target, most))| {
            Row::new(format!("own part of publish, hand-polled relay, {} parked", grouped(*readers as u64)), "").with(
                target,
                *nanos <= most * times[0],
                format!(
                    "{} = {}x; right after {} polls {}",
                    time(*nanos),
                    three_digits(*nanos / times[0]),
                    grouped(*readers as u64),
                    time(*cold)
                ),
            )
        })
        .collect();
    let flat = instructions
        .iter()
        .all(|count| count.is_some_and(|n| Some((n * 50.0).round()) == instructions[0].map(|n| (n * 50.0).round())));
    let told = instructions.iter().map(said).collect::<Vec<_>>().join(", ");
    let row = Row::new("the same in instructions (callgrind)", "");
    rows.push(if instructions.iter().any(Option::is_none) {
        row.shown(format!("not counted: no valgrind, or it failed ({told})"))
    } else {
        row.with("flat", flat, told)
    });
    rows
}

/// Instructions per publish of the functions that are called so; `None` without valgrind.
pub(super) fn instructions(function: &str, readers: usize) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*::{function}"))
        .arg(program)
        .args(["--probe", PROBE, &readers.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    // `==123== Collected : 45678`
    let said = String::from_utf8_lossy(&output.stderr);
    let collected: f64 = said.lines().find_map(|line| line.split_once("Collected : "))?.1.trim().parse().ok()?;
    (collected > 0.0).then(|| collected / PUBLISHES as f64)
}

/// The child.
pub(crate) fn probe(arguments: &[String]) {
    let readers = arguments.first().and_then(|readers| readers.parse().ok()).unwrap_or(1);
    let mut hand = Hand::new(readers);
    for _ in 0..PUBLISHES {
        hand.counted_publish();
        hand.counted_fan_out();
        hand.counted_read_and_park();
    }
}
