//! How many instances would there have been? Replays a trace of a fleet, tells every change with its reason, and plots it.

mod options;
mod plot;
mod replay;
mod trace;

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, BufReader, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use keywake::scaling::{Decision, Vote};
use options::{Options, USAGE};
use replay::{Step, changes, replay, scaler, winners};
use trace::Trace;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where not even that can be told, the code tells it.
            drop(writeln!(io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let Some(options) = Options::parse(env::args_os().skip(1))? else {
        return Ok(out.write_all(USAGE.as_bytes())?);
    };
    let of = |path: &Path, error: &dyn Error| format!("{}: {error}", path.display());
    let file = File::open(&options.trace).map_err(|error| of(&options.trace, &error))?;
    let trace = Trace::read(BufReader::new(file)).map_err(|error| of(&options.trace, &error))?;
    let steps = replay(&scaler(&trace, &options)?, &trace, &options);
    tell(&mut out, &steps)?;

    let svg = options.svg.clone().map_or_else(beside_what_is_built, Ok)?;
    let title = format!("{}: instances over time", options.trace.display());
    plot::write(&svg, &title, &steps).map_err(|error| of(&svg, &*error))?;
    Ok(writeln!(out, "plot: {}", svg.display())?)
}

fn beside_what_is_built() -> io::Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    fs::create_dir_all(&target)?;
    Ok(target.join("scaling_trace.svg"))
}

fn tell(out: &mut impl Write, steps: &[Step]) -> io::Result<()> {
    writeln!(out, "{:>8} {:>8} {:>7}  why", "seconds", "running", "wanted")?;
    for Step { seconds, running, decision } in changes(steps) {
        let whole = decision.to_string();
        let (what, _) = whole.split_once("; ").unwrap_or((&whole, ""));
        writeln!(out, "{seconds:>8} {running:>8} {:>7}  {what}; {}", decision.count, asked(decision))?;
    }
    let counts = || steps.iter().map(|step| step.decision.count);
    let (least, most) = (counts().min().unwrap_or_default(), counts().max().unwrap_or_default());
    let changed = changes(steps).count().saturating_sub(1);
    writeln!(out, "\n{} rows, {changed} changes, {least} to {most} instances", steps.len())?;
    for (driver, rows) in winners(steps) {
        writeln!(out, "{driver:>12} had the say in {rows} rows")?;
    }
    let unusable = steps.iter().filter(|step| !step.decision.is_valid()).count();
    writeln!(out, "{unusable} rows had a number that says nothing")
}

/// What the driver asked for that has the say, and what the first one did.
fn asked(decision: &Decision) -> String {
    let shown = |(index, vote): &(usize, &Vote)| *index == 0 || Some(vote.driver) == decision.driver;
    let shown: Vec<_> = decision.votes.iter().enumerate().filter(shown).map(|(_, vote)| vote.to_string()).collect();
    shown.join("; ")
}
