//! What does waking cost, in all of keywake's ways and in its peers', and does that reach what was set out to be reached?
//!
//! `cargo bench --bench wake_cost` (`-- --help` for more): one table of everybody over readers and keys, the source's own workload,
//! and for each row of README's table a part of its own. Each part has a process of its own, so that it does not matter in what state
//! the others left the heap, and in it all sides run in turns; where the box's own cost of waking is in a figure, bare wakes stand
//! beside it. Nothing here is asserted but that events come.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the tables are what this program is for")]

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use counters::Busy;
use crowd::{Contender, Figures, Place, Setting, compare};
use measure::{
    allocator::Counting,
    surroundings::{self, cores},
};
use options::Options;
use pins::Pins;
use syscalls::Tracer;

mod burners;
mod contenders;
mod counters;
mod crowd;
mod hand;
mod matrix;
#[expect(dead_code, reason = "each bench uses its part")]
#[path = "../measure/mod.rs"]
mod measure;
mod options;
mod pace;
mod parts;
mod pins;
mod plots;
mod source;
mod syscalls;
mod table;
mod tally;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MATRIX: &str = "matrix";
const SOURCE: &str = "source-workload";

/// What all parts need.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) pins: Option<Arc<Pins>>,
    tracer: Tracer,
    began: Instant,
    busy: Option<Busy>,
}

fn main() {
    let names: Vec<&str> = [MATRIX, SOURCE].into_iter().chain(parts::ALL.iter().map(|(name, _)| *name)).collect();
    let Some(options) = Options::from_arguments(&names) else { return };
    if let Some(probe) = &options.probe {
        return match probe.first().map(String::as_str) {
            Some(burners::PROBE) => burners::burn(),
            Some(parts::own_part::PROBE) => parts::own_part::probe(&probe[1..]),
            Some(source::PROBE) => source::probe(&options, &probe[1..]),
            _ => eprintln!("not a probe"),
        };
    }
    let context = Context::new(options);
    if let Some(part) = &context.options.part {
        return run(&context, part);
    }
    context.print_surroundings();
    let mut rows = Vec::new();
    for name in [MATRIX].into_iter().chain(parts::ALL.iter().map(|(name, _)| *name)).chain([SOURCE]) {
        if context.options.wants(name) {
            heading(name, if name == MATRIX { "everybody over keys x readers of each" } else { "" });
            match in_a_child(name) {
                Ok(new) => rows.extend(new),
                Err(error) => println!("**not run**: {error}"),
            }
        }
    }
    if !rows.is_empty() {
        heading("all rows", "once more, to be copied");
        println!("{}\n{}\n", table::HEAD, rows.join("\n"));
    }
    context.say_how_quiet_it_was();
}

/// One part, here.
fn run(context: &Context, name: &str) {
    if name == MATRIX {
        let cells = matrix::run(context);
        let draw = |folder: &Path, surroundings: &str| plots::write_matrix(folder, surroundings, &cells);
        context.write("wake_cost.csv", &matrix::csv(&cells), draw);
        return;
    }
    for (_, part) in parts::ALL.into_iter().chain([(SOURCE, source::run as parts::Part)]).filter(|(other, _)| *other == name) {
        let start = Instant::now();
        table::print(&part(context));
        println!("({:.1} s)", start.elapsed().as_secs_f64());
    }
}

/// One part, in a process of its own; the rows of its table, which it has printed.
fn in_a_child(name: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let mut child = Command::new(env::current_exe()?)
        .args(env::args().skip(1))
        .args(["--part", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut rows = Vec::new();
    let mut is_table = false;
    for line in BufReader::new(child.stdout.take().ok_or("it has no output")?).lines() {
        let line = line?;
        println!("{line}");
        // The table of rows, and not another one's.
        is_table = line.starts_with('|') && (is_table || table::HEAD.starts_with(&line));
        if is_table && !table::HEAD.contains(&line) {
            rows.push(line);
        }
    }
    let status = child.wait()?;
    if status.success() { Ok(rows) } else { Err(status.to_string().into()) }
}

fn heading(name: &str, what: &str) {
    println!("\n## {name}{}{what}\n", if what.is_empty() { "" } else { ": " });
}

impl Context {
    fn new(options: Options) -> Self {
        let pins = options.pin.then(|| Pins::new().map(Arc::new)).flatten();
        Self { pins, tracer: Tracer::find(), options, began: Instant::now(), busy: Busy::now() }
    }

    fn print_surroundings(&self) {
        let Options { scale, threads, pin, .. } = &self.options;
        if !measure::full_size() {
            println!("Without `cargo bench` this only shows that it works: the figures mean nothing.\n");
        }
        surroundings::print();
        let twin = if cfg!(feature = "tokio") {
            "spawns its twin, has a timer"
        } else {
            "has no timer, twins by hand where workers are several"
        };
        println!("* keywake's feature `tokio` is {}: the relay {twin}", if cfg!(feature = "tokio") { "on" } else { "off" });
        println!("* at most {threads} worker(s) per runtime, pinned: {}", if *pin && self.pins.is_some() { "yes" } else { "no" });
        println!(
            "* all sides in turns, {} rounds of about {} ms each; times are percentiles of publishes, the rest medians of rounds",
            scale.rounds,
            scale.turn.as_millis()
        );
        println!("* system calls: {}", self.tracer.name());
        println!(
            "* time is in wall time, but for CPU; a context switch is any thread's, but for the writer's own while it waits"
        );
        println!(
            "* CPU per delivery: of all threads, without what the writer spent while it waited for the last reader (`with \
             spinning`: with that)"
        );
        if *threads >= cores() && cores() > 1 {
            println!("* a writer outside has a core of its own, but where there are as many workers as cores");
        }
    }

    /// One line for files.
    fn surroundings(&self) -> String {
        format!(
            "{}; Linux {}; {} cores{}; tokio {}; keywake {}; others used {} of a core",
            surroundings::date(),
            surroundings::kernel(),
            cores(),
            if self.pins.is_some() { ", pinned" } else { "" },
            surroundings::locked("tokio"),
            surroundings::commit(),
            self.share_of_others().map_or_else(|| "?".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        )
    }

    /// Whoever else used the processor, used it instead of us. In cores.
    fn share_of_others(&self) -> Option<f64> {
        Some(Busy::now()?.by_others_since(self.busy.as_ref()?) / self.began.elapsed().as_secs_f64())
    }

    fn say_how_quiet_it_was(&self) {
        /// Of one core.
        const QUIET: f64 = 0.05;
        println!("Took {:.0} s; load {} after.", self.began.elapsed().as_secs_f64(), surroundings::load());
        match self.share_of_others() {
            None => println!("Whether the machine was quiet cannot be seen here."),
            Some(share) if share <= QUIET => println!("The machine was quiet: others used {:.0} % of one core.", share * 100.0),
            Some(share) => println!(
                "THE MACHINE WAS NOT QUIET: others (or the hypervisor) used {:.0} % of one core of {}. Take no figure from it.",
                share * 100.0,
                cores(),
            ),
        }
    }

    /// Writes a table below a line on where it was measured, and draws it if that is wanted.
    pub(crate) fn write(&self, name: &str, table: &str, draw: impl FnOnce(&Path, &str) -> Result<(), Box<dyn Error>>) {
        let (folder, surroundings) = (self.options.folder(), self.surroundings());
        let path = folder.join(name);
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, format!("# {surroundings}\n{table}")));
        match written {
            Ok(()) => println!("written: {}", path.display()),
            Err(error) => println!("NOT written: {}: {error}", path.display()),
        }
        if self.options.plot {
            match draw(&folder, &surroundings) {
                Ok(()) => println!("drawn: {}/wake_cost_*.svg", folder.display()),
                Err(error) => println!("NOT drawn: {error}"),
            }
        }
    }

    /// Does it with this thread on the writer's core, if there is to be one.
    pub(crate) fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        if let Some(pins) = &self.pins {
            pins.pin_writer();
        }
        let result = work();
        if let Some(pins) = &self.pins {
            pins.free();
        }
        result
    }

    /// One worker, and the writer on a core of its own if there are two.
    pub(crate) fn one_worker(&self) -> Setting {
        Setting::new(1, self.pins.as_ref())
    }

    /// Everybody's figures with the writer outside, by more rounds than the matrix has.
    pub(crate) fn compare(&self, crowds: &mut [Box<dyn Contender>]) -> Vec<Figures> {
        const ROUNDS: usize = 3;
        let scale = self.options.scale;
        self.pinned(|| compare(crowds, Place::Outside, ROUNDS * scale.rounds, scale.turn))
    }

    /// Per publish.
    pub(crate) fn syscalls(&self, crowd: &mut dyn Contender) -> Option<f64> {
        const PUBLISHES: usize = 50;
        let calls = self.tracer.count(|| crowd.publish_unwatched(PUBLISHES))?;
        Some(calls as f64 / PUBLISHES as f64)
    }
}
