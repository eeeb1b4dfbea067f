//! The story of a load-measured balancer, replayed with this crate's own parts: a fleet whose hash has a hot shard, two load models that
//! cannot help it, and one that does.
//!
//! `cargo run --release --example placement_story` prints the figures beside those of the source, Mergify's account of 8 -> 10 -> 12
//! processes, and writes plots to `target/placement_story/`. (With `-p keywake` it asks for `--features placement`.) The owners are made up:
//! 200 of them, of a Pareto distribution (1.15) that is scaled to 5.66 cores, each with a burst of most of a core now and then. The seed was
//! chosen so that the fleet begins much like the source's; everything after that is what the balancer does.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

mod plot;
#[path = "../../tests/support/random.rs"]
mod random;
mod world;

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use keywake::placement::{Figures, Fleet, Index, Plan, Planner, Table};
use plot::{BLUE, Foot, GREEN, GREY, Line, RED, draw, lines};
use world::{OWNERS, REMEMBERED, World, peak};

/// The mark that the source drains above.
const HIGH: f64 = 0.75;
/// The first hour only watches; four hours of runs follow.
const WATCHED: u32 = 60;
const RUNS: u32 = 240;

fn hottest(figures: &Figures) -> f64 {
    figures.hottest.map_or(0.0, |(_, load)| load.as_f64())
}

fn coldest(figures: &Figures) -> f64 {
    figures.coldest.map_or(0.0, |(_, load)| load.as_f64())
}

/// A number of processes: what each owner wants in the mean, by the hash, and after the planner's moves until it is content.
struct Draw {
    processes: u32,
    first: Plan,
    last: Plan,
    moves: usize,
    /// The share of owners that the hash places elsewhere than with two processes fewer.
    moved: f64,
}

fn drawn(fleet: &Fleet, processes: u32) -> Result<Draw, Box<dyn Error>> {
    let (planner, mut world) = (Planner::default(), World::new(fleet, processes)?);
    let first = planner.plan(&world.seen_by(|owner| world.town.mean(owner), None)?);
    let (mut last, mut moves) = (first.clone(), 0);
    while !last.moves.is_empty() {
        moves += world.carry_out(&last)?;
        last = planner.plan(&world.seen_by(|owner| world.town.mean(owner), None)?);
    }
    let empty = Table::empty(fleet.clone());
    let mut moved = 0;
    for (owner, _) in &world.town.owners {
        moved += u32::from(empty.resolve(owner, processes - 2)?.index != empty.resolve(owner, processes)?.index);
    }
    Ok(Draw { processes, first, last, moves, moved: f64::from(moved) / OWNERS as f64 })
}

fn tell_draws(draws: &[Draw], folder: &Path) -> Result<(), Box<dyn Error>> {
    println!(
        "The load of the hottest of n processes, in cores of demand: by the hash alone, and by the table after its moves. None can be"
    );
    println!("below the floor, which is the heaviest owner's; with fair shares all were alike.\n");
    println!("   n   hash   table   moves   floor   fair share");
    let mut plotted = lines([("hash", RED), ("table", BLUE), ("floor", GREEN), ("high mark", GREY)]);
    for Draw { processes, first, last, moves, moved } in draws {
        let (by_hash, by_table) = (hottest(&first.before), hottest(&last.after));
        let (floor, fair) = (first.before.floor.as_f64(), first.before.fair_share.as_f64());
        let source = match processes {
            10 => "; of 8 -> 10 the hash moves 80% at the source",
            12 => "; of 10 -> 12 the hash moves 83% at the source",
            _ => "",
        };
        let moved = if source.is_empty() { String::new() } else { format!("{source}, {:.0}% here", moved * 100.0) };
        let blocked =
            last.blocked.first().map_or(String::new(), |blocked| format!("; above {HIGH}, blocked: {}", blocked.reason.as_str()));
        let notes = format!("{blocked}{moved}");
        let notes = notes.trim_start_matches("; ");
        println!("{processes:>4}  {by_hash:>5.2}  {by_table:>6.2}  {moves:>6}  {floor:>6.2}  {fair:>11.2}   {notes}");
        let values = [by_hash, by_table, floor, HIGH];
        plotted.iter_mut().zip(values).for_each(|(line, value)| line.points.push(((*processes).into(), value)));
    }
    let title = "The worst process, by hash and by table";
    draw(&folder.join("worst_by_processes.svg"), title, &Foot::Steady("processes"), &plotted)
}

/// What came of runs of the planner.
struct Runs {
    runs: usize,
    moves: usize,
    blocked: usize,
    last: Plan,
}

/// Two hours of runs by somebody who goes by peaks: those of owners, added up, or those of the process, which cannot use more than it has.
fn by_peaks(fleet: &Fleet, are_added: bool) -> Result<Runs, Box<dyn Error>> {
    let (planner, mut world) = (Planner::default(), World::new(fleet, 12)?);
    (0..REMEMBERED).try_for_each(|_| world.work())?;
    let (runs, mut moves, mut blocked, mut last) = (120, 0, 0, None);
    for _ in 0..runs {
        world.work()?;
        let loads = |process: usize| peak(&world.process_hours[process]);
        let view = world.seen_by(|owner| peak(&world.owner_hours[owner]), if are_added { None } else { Some(&loads) })?;
        let plan = planner.plan(&view);
        blocked += usize::from(!plan.blocked.is_empty());
        moves += world.carry_out(&plan)?;
        last = Some(plan);
    }
    Ok(Runs { runs, moves, blocked, last: last.ok_or("no run")? })
}

fn tell_peaks(added: &Runs, capped: &Runs) {
    let ends = |runs: &Runs| (coldest(&runs.last.after), hottest(&runs.last.after));
    let (least, most) = ends(added);
    println!("\nBy the sum of owners' peaks: loads of {least:.2} to {most:.2} on processes that cannot use more than 1.00");
    println!("moves {} (the source: 0), blocked in {} of {} runs", added.moves, added.blocked, added.runs);
    let (least, most) = ends(capped);
    println!(
        "\nBy the peak of the process, which is capped: every process at {least:.3} to {most:.3} (the source: 0.987 to 1.008)"
    );
    let Runs { runs, moves, blocked, .. } = capped;
    println!("moves {moves} (the source: 0), blocked in {blocked} of {runs} runs (the source: 119 in 2 h)");
}

/// Why the peaks are no use: those and the means of one fleet, side by side.
fn plot_peaks(fleet: &Fleet, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut world = World::new(fleet, 12)?;
    (0..REMEMBERED).try_for_each(|_| world.work())?;
    let mut plotted = lines([("peak of six hours", RED), ("mean", BLUE)]);
    for (process, hours) in world.process_hours.iter().enumerate() {
        let mean = world.model.measured(Index(u32::try_from(process)?)).unwrap_or_default();
        let values = [peak(hours), mean.as_f64()];
        plotted.iter_mut().zip(values).for_each(|(line, value)| line.points.push((process as f64, value)));
    }
    draw(&folder.join("peaks_and_means.svg"), "A capped peak ranks nothing", &Foot::Single("process"), &plotted)
}

/// Four hours of runs by means.
struct Means {
    before: Figures,
    runs: Runs,
    /// Of the run that made most.
    most_moves: usize,
    plotted: [Line; 4],
}

fn by_means(fleet: &Fleet) -> Result<Means, Box<dyn Error>> {
    let (planner, mut world) = (Planner::default(), World::new(fleet, 12)?);
    let mut plotted = lines([("hottest", RED), ("coldest", BLUE), ("high mark", GREY), ("fair share", GREEN)]);
    let (mut moves, mut most_moves, mut blocked, mut before, mut last) = (0, 0, 0, None, None);
    for minute in 0..WATCHED + RUNS {
        world.work()?;
        let plan = planner.plan(&world.view(planner.settings()));
        let is_allowed = minute >= WATCHED;
        let figures = if is_allowed { &plan.after } else { &plan.before };
        // The first minutes say nothing of any process.
        if figures.hottest.is_some() {
            let values = [hottest(figures), coldest(figures), HIGH, figures.fair_share.as_f64()];
            let at = f64::from(minute) - f64::from(WATCHED);
            plotted.iter_mut().zip(values).for_each(|(line, value)| line.points.push((at, value)));
        }
        if is_allowed {
            let made = world.carry_out(&plan)?;
            (moves, most_moves) = (moves + made, most_moves.max(made));
            blocked += usize::from(!plan.blocked.is_empty());
            last = Some(plan);
        } else {
            before = Some(plan.before);
        }
    }
    let runs = Runs { runs: RUNS as usize, moves, blocked, last: last.ok_or("no run")? };
    Ok(Means { before: before.ok_or("no hour")?, runs, most_moves, plotted })
}

fn tell_means(means: &Means, folder: &Path) -> Result<(), Box<dyn Error>> {
    let Means { before, runs, most_moves, plotted } = means;
    let ((hot, cold), after) = ((hottest(before), coldest(before)), &runs.last.after);
    println!("\nBy means: four hours, at most 2 moves a run\n");
    println!("                     here             the source");
    println!("hottest     {hot:>5.3} -> {:>5.3}     0.953 -> 0.694", hottest(after));
    println!("coldest     {cold:>5.3} -> {:>5.3}     0.197 -> 0.261", coldest(after));
    println!("spread      {:>4.1}x -> {:>4.1}x       4.8x -> 2.7x", hot / cold, hottest(after) / coldest(after));
    println!("moves                  {:>3}               12", runs.moves);
    println!("blocked runs     {:>3} of {}                0", runs.blocked, runs.runs);
    println!("(The source tells no weights of its owners: these are drawn, so the number of moves it takes is another one.)");
    let side = if hottest(after) <= HIGH { "under" } else { "above" };
    println!("hottest is {side} the high mark of {HIGH}, and no run made more than {most_moves} of its 2 moves");
    let title = "Twelve processes, relieved by means";
    draw(&folder.join("by_means.svg"), title, &Foot::Steady("minutes since moves were allowed"), plotted)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::new("story")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = target.join("placement_story");
    std::fs::create_dir_all(&folder)?;
    let draws: Vec<_> = (8..=16).map(|processes| drawn(&fleet, processes)).collect::<Result<_, _>>()?;
    tell_draws(&draws, &folder)?;
    tell_peaks(&by_peaks(&fleet, true)?, &by_peaks(&fleet, false)?);
    plot_peaks(&fleet, &folder)?;
    tell_means(&by_means(&fleet)?, &folder)?;
    println!("\nplots: {}", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        Fleet::new("story").unwrap()
    }

    #[test]
    fn table_is_never_worse_than_the_hash_and_under_the_mark_where_it_is_not_blocked() {
        let draws: Vec<_> = (8..=16).map(|processes| drawn(&fleet(), processes).unwrap()).collect();
        let by_hash: Vec<_> = draws.iter().map(|draw| hottest(&draw.first.before)).collect();
        assert!(by_hash.windows(2).any(|pair| pair[1] > pair[0]), "more processes may be worse: {by_hash:?}");
        for Draw { processes, first, last, moves, .. } in &draws {
            let (hash, table) = (hottest(&first.before), hottest(&last.after));
            assert!(table < hash && (table <= HIGH || !last.blocked.is_empty()), "{processes}: {hash} and {table}");
            assert!(*moves <= 12, "{processes}: {moves} moves, and a full repack would be of nearly all owners");
        }
    }

    #[test]
    fn models_of_peaks_move_nobody_and_are_blocked_in_every_run() {
        for are_added in [true, false] {
            let runs = by_peaks(&fleet(), are_added).unwrap();
            assert_eq!((runs.moves, runs.blocked), (0, runs.runs), "added: {are_added}");
            let (least, most) = (coldest(&runs.last.after), hottest(&runs.last.after));
            assert!(if are_added { least > 1.5 } else { least > 0.98 && most < 1.01 }, "{least} to {most}");
        }
    }

    #[test]
    fn model_of_means_brings_the_hottest_under_the_mark_within_the_budget() {
        let Means { before, runs, most_moves, .. } = by_means(&fleet()).unwrap();
        let after = runs.last.after;
        assert!(hottest(&before) > HIGH && hottest(&after) <= HIGH, "{before:?}, {after:?}");
        assert!((1..=2).contains(&most_moves) && runs.moves <= 12 && runs.blocked == 0, "{} moves", runs.moves);
        assert!(after.spread() < before.spread(), "{before:?}, {after:?}");
    }
}
