//! What the command line asks for.

use std::{path::PathBuf, time::Duration};

use crate::{measure, measure::surroundings::cores};

const HELP: &str = "\
What does waking cost, keywake's ways beside its peers'?

cargo bench --bench wake_cost                  everything, in about three minutes
cargo bench --bench wake_cost -- [OPTIONS]
  --quick          everything coarsely, in one to two minutes
  --only PART      one part (may be given more than once); --only matrix,burst is the same as two of them
  --plot           writes docs/wake_cost.csv and docs/wake_cost_*.svg (else only the CSV, under target)
  --threads N      at most N workers in a runtime (default: as many as there are cores)
  --pin            writer and workers each on a core of its own, as far as there are as many
  --list           the names of the parts
";

/// What to run, and how much of it.
pub(crate) struct Options {
    pub(crate) scale: Scale,
    pub(crate) only: Vec<String>,
    pub(crate) plot: bool,
    pub(crate) threads: usize,
    pub(crate) pin: bool,
    /// A child of this program's own runs this part alone, and prints nothing but its tables.
    pub(crate) part: Option<String>,
    /// A child of this program's own asks for one small thing (see `probe`).
    pub(crate) probe: Option<Vec<String>>,
}

/// How much of everything.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Rounds in which all sides take turns, after one that does not count.
    pub(crate) rounds: usize,
    /// How long one side works in one round, about.
    pub(crate) turn: Duration,
    /// Subscriptions of the source's workload, in thousandths of the real one.
    pub(crate) source_permille: u64,
    /// How long each cell of the source's workload runs, per round.
    pub(crate) source_turn: Duration,
    /// The largest crowd.
    pub(crate) most_readers: usize,
    /// Whether only the shapes that the plots cannot do without are run.
    pub(crate) few_shapes: bool,
}

impl Scale {
    const FULL: Self = Self {
        rounds: 5,
        turn: Duration::from_millis(20),
        source_permille: 1_000,
        source_turn: Duration::from_millis(1_000),
        most_readers: 150_000,
        few_shapes: false,
    };
    const QUICK: Self = Self {
        rounds: 2,
        turn: Duration::from_millis(8),
        source_permille: 1_000,
        source_turn: Duration::from_millis(200),
        most_readers: 100_000,
        few_shapes: true,
    };
    /// Shows that all of it works.
    const SMALL: Self = Self {
        rounds: 1,
        turn: Duration::from_millis(2),
        source_permille: 10,
        source_turn: Duration::from_millis(50),
        most_readers: 1_000,
        few_shapes: true,
    };
}

impl Options {
    /// From the command line; `None` if that only wanted to be told something.
    #[expect(clippy::print_stdout, reason = "it is asked for")]
    pub(crate) fn from_arguments(parts: &[&str]) -> Option<Self> {
        let scale = if measure::full_size() { Scale::FULL } else { Scale::SMALL };
        let mut options = Self { scale, only: Vec::new(), plot: false, threads: cores(), pin: false, part: None, probe: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bench" => {}
                "--only" => options.only.extend(arguments.next().unwrap_or_default().split(',').map(str::to_owned)),
                "--pin" => options.pin = true,
                "--plot" => options.plot = true,
                "--part" => options.part = arguments.next(),
                "--probe" => options.probe = Some(arguments.by_ref().collect()),
                "--quick" if measure::full_size() => options.scale = Scale::QUICK,
                "--quick" => {}
                "--threads" => {
                    options.threads = arguments.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(options.threads);
                }
                "--help" | "-h" => {
                    println!("{HELP}");
                    return None;
                }
                "--list" => {
                    println!("{}", parts.join("\n"));
                    return None;
                }
                unknown => {
                    println!("{unknown}?\n\n{HELP}");
                    return None;
                }
            }
        }
        if let Some(unknown) = options.only.iter().find(|part| !parts.contains(&part.as_str())) {
            println!("There is no part {unknown}; there are:\n{}", parts.join("\n"));
            return None;
        }
        Some(options)
    }

    pub(crate) fn wants(&self, part: &str) -> bool {
        if let Some(one) = &self.part {
            return one == part;
        }
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    /// One worker, then twice as many, and so on up to all of them.
    pub(crate) fn workers(&self) -> Vec<usize> {
        let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < self.threads).collect();
        counts.push(self.threads);
        counts
    }

    /// Where the files go.
    pub(crate) fn folder(&self) -> PathBuf {
        if self.plot {
            PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/docs"))
        } else {
            PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        }
    }
}
