//! The story of a load-measured balancer, replayed with this crate's own parts: a fleet whose hash has a hot shard, two load models that
//! cannot help it, and one that does.
//!
//! `cargo run --release --features placement --example placement_story` prints the figures beside those of the source, Mergify's account of
//! 8 -> 10 -> 12 processes, and writes plots to `target/placement_story/`. The owners are made up: 200 of them, of a Pareto distribution
//! (1.15) that is scaled to 5.66 cores, each with a burst of most of a core now and then. The seed was chosen so that the fleet begins much like
//! the source's; everything after that is what the balancer does.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use keywake::placement::{
    Cores, Fleet, FleetView, Index, LoadModel, Owner, OwnerView, Plan, Planner, ProcessState, ProcessView, Recorder, Settings,
    StoreTime, Table, Version,
};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{IntoDrawingArea, PathElement, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color, RGBColor, WHITE},
};
use random::Random;

#[path = "../tests/support/random.rs"]
mod random;

const MINUTE: Duration = Duration::from_secs(60);
const OWNERS: usize = 200;
/// In cores, bursts included.
const TOTAL: f64 = 5.66;
/// What an owner wants in a minute of burst, in cores, and how often: once in so many minutes.
const BURST: f64 = 0.98;
const BURST_EVERY: u64 = 120;
const SEED: u64 = 19_919;
/// Minutes that the models of peaks look back.
const REMEMBERED: usize = 360;
/// The mark that the source drains above.
const HIGH: f64 = 0.75;

impl Random {
    /// From 0 to 1, without the ends.
    fn share(&mut self) -> f64 {
        ((self.next() >> 32) as f64 + 0.5) / 4_294_967_296.0
    }
}

/// The owners, and what each wants from minute to minute.
struct Town {
    random: Random,
    owners: Vec<(Owner, f64)>,
}

impl Town {
    fn new(seed: u64) -> Result<Self, Box<dyn Error>> {
        let mut random = Random(seed);
        let weights: Vec<f64> = (0..OWNERS).map(|_| random.share().powf(-1.0 / 1.15)).collect();
        let bursts = OWNERS as f64 * BURST / BURST_EVERY as f64;
        let scale = (TOTAL - bursts) / weights.iter().sum::<f64>();
        let named =
            weights.iter().enumerate().map(|(number, weight)| Ok((Owner::new(&format!("owner-{number}"))?, weight * scale)));
        Ok(Self { owners: named.collect::<Result<_, keywake::placement::NameError>>()?, random })
    }

    /// What each wants in the next minute, in cores.
    fn minute(&mut self) -> Vec<f64> {
        let random = &mut self.random;
        let demand = self.owners.iter().map(|(_, base)| {
            let burst = if random.next() % BURST_EVERY == 0 { BURST } else { 0.0 };
            base * (0.5 + random.share()) + burst
        });
        demand.collect()
    }

    /// What each wants in the mean.
    fn mean(&self, owner: usize) -> f64 {
        self.owners[owner].1 + BURST / BURST_EVERY as f64
    }
}

/// Processes of one core, with a recorder each, and the planner's load model.
struct World {
    town: Town,
    table: Table,
    processes: u32,
    recorders: Vec<Recorder>,
    cpu: Vec<Duration>,
    start: Instant,
    minute: u32,
    model: LoadModel,
    /// The last hours of each owner and of each process, as measured: what the models of peaks go by.
    owner_hours: Vec<Vec<f64>>,
    process_hours: Vec<Vec<f64>>,
}

impl World {
    fn new(fleet: &Fleet, processes: u32) -> Result<Self, Box<dyn Error>> {
        let recorder = |index| Recorder::new(fleet.clone(), Index(index), 1).ceiling(Cores::ONE);
        let mut world = Self {
            town: Town::new(SEED)?,
            table: Table::empty(fleet.clone()),
            processes,
            recorders: (0..processes).map(recorder).collect(),
            cpu: vec![Duration::ZERO; processes as usize],
            start: Instant::now(),
            minute: 0,
            model: LoadModel::new(fleet.clone()),
            owner_hours: vec![Vec::new(); OWNERS],
            process_hours: vec![Vec::new(); processes as usize],
        };
        for (recorder, cpu) in world.recorders.iter_mut().zip(&world.cpu) {
            drop(recorder.close(world.start, Some(*cpu), processes));
        }
        Ok(world)
    }

    fn now(&self) -> Instant {
        self.start + MINUTE * self.minute
    }

    fn place(&self, owner: usize) -> Result<usize, Box<dyn Error>> {
        Ok(self.table.resolve(&self.town.owners[owner].0, self.processes)?.index.0 as usize)
    }

    /// Everybody works for a minute, no process for more than that, and all report.
    fn work(&mut self) -> Result<(), Box<dyn Error>> {
        let demand = self.town.minute();
        let mut wanted = vec![0.0_f64; self.processes as usize];
        for (owner, cores) in demand.iter().enumerate() {
            let process = self.place(owner)?;
            wanted[process] += cores;
            self.recorders[process].record(&self.town.owners[owner].0, MINUTE.mul_f64(*cores));
        }
        self.minute += 1;
        let now = self.now();
        let mut reports = Vec::new();
        for (process, recorder) in self.recorders.iter_mut().enumerate() {
            self.cpu[process] += MINUTE.mul_f64(wanted[process].min(1.0));
            reports.push(recorder.close(now, Some(self.cpu[process]), self.processes)?);
        }
        for (process, report) in reports.iter().enumerate() {
            remember(&mut self.process_hours[process], report.process.as_f64());
            for (owner, hour) in self.owner_hours.iter_mut().enumerate() {
                let name = &self.town.owners[owner].0;
                let told = report.owners.binary_search_by(|load| load.owner.cmp(name));
                if let Ok(at) = told {
                    remember(hour, report.owners[at].cores.as_f64());
                }
            }
        }
        self.model.fold(&reports, &self.table, self.processes, now);
        Ok(())
    }

    fn view(&self, settings: &Settings) -> FleetView {
        let mut view = self.model.view(&self.table, self.processes, self.now(), settings);
        view.now = self.store_time();
        view
    }

    fn store_time(&self) -> StoreTime {
        StoreTime(MINUTE * (1_000_000 + self.minute))
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<usize, Box<dyn Error>> {
        let Some(changes) = plan.changes() else { return Ok(0) };
        let next = Version(changes.base.0 + 1);
        self.table.apply(&changes, next, self.store_time())?;
        Ok(changes.changes.len())
    }

    /// The same fleet as somebody sees it who takes these for the weights of owners, and, if told, these for the loads of processes.
    fn seen_by(&self, weight: impl Fn(usize) -> f64, load: Option<&dyn Fn(usize) -> f64>) -> Result<FleetView, Box<dyn Error>> {
        let mut view = FleetView::new(self.table.fleet().clone(), self.table.version(), self.store_time());
        view.processes = (0..self.processes).map(|_| ProcessView::new(ProcessState::Reporting)).collect();
        let mut sums = vec![0.0; self.processes as usize];
        (0..OWNERS).try_for_each(|owner| self.place(owner).map(|process| sums[process] += weight(owner)))?;
        for owner in 0..OWNERS {
            let process = self.place(owner)?;
            // Weights that add up to the load that the process is said to have.
            let factor = load.map_or(1.0, |load| load(process) / sums[process]);
            let (name, weight) = (self.town.owners[owner].0.clone(), cores(weight(owner) * factor));
            view.processes[process].owners.push(OwnerView { owner: name, weight, pinned: false, moved_at: None });
        }
        Ok(view)
    }
}

fn remember(hour: &mut Vec<f64>, cores: f64) {
    hour.push(cores);
    if hour.len() > REMEMBERED {
        hour.remove(0);
    }
}

fn peak(hour: &[f64]) -> f64 {
    hour.iter().copied().fold(0.0, f64::max)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cores of an example")]
fn cores(cores: f64) -> Cores {
    Cores::from_nanos((cores * 1e9) as u64)
}

fn hottest(plan: &Plan) -> f64 {
    plan.after.hottest.map_or(0.0, |(_, load)| load.as_f64())
}

fn coldest(plan: &Plan) -> f64 {
    plan.after.coldest.map_or(0.0, |(_, load)| load.as_f64())
}

struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

const RED: RGBColor = RGBColor(200, 30, 30);
const BLUE: RGBColor = RGBColor(30, 90, 200);
const GREY: RGBColor = RGBColor(150, 150, 150);
const GREEN: RGBColor = RGBColor(20, 130, 90);

fn draw(path: &Path, title: &str, x: &str, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (left, right) = ends(|point| point.0);
    let top = ends(|point| point.1).1.max(1.0) * 1.15;
    let area = SVGBackend::new(path, (900, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(left..right, 0.0..top)?;
    chart.configure_mesh().x_desc(x).y_desc("load, cores").light_line_style(WHITE).draw()?;
    for line in lines {
        let style = line.colour.stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        drawn.label(line.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// By hash and by table, of 8 to 16 processes: what each owner wants in the mean, and the planner's moves until it is content.
fn lottery(fleet: &Fleet, folder: &Path) -> Result<(), Box<dyn Error>> {
    println!("The worst load by number of processes, in cores of demand\n");
    println!("   n   hash   table   moves   floor   fair share   moved by the hash");
    let mut lines =
        [("hash", RED), ("table", BLUE), ("floor", GREY)].map(|(name, colour)| Line { name, colour, points: Vec::new() });
    let planner = Planner::default();
    for processes in 8..=16_u32 {
        let mut world = World::new(fleet, processes)?;
        let mut moves = 0;
        let first = planner.plan(&world.seen_by(|owner| world.town.mean(owner), None)?);
        let mut plan = first.clone();
        while !plan.moves.is_empty() {
            moves += world.carry_out(&plan)?;
            plan = planner.plan(&world.seen_by(|owner| world.town.mean(owner), None)?);
        }
        let by_hash = first.before.hottest.map_or(0.0, |(_, load)| load.as_f64());
        let (floor, fair) = (first.before.floor.as_f64(), first.before.fair_share.as_f64());
        let moved = match processes {
            10 => format!("{:.0}% of 8 -> 10, the source's \"about 80%\"", moved(&world, fleet, 8)? * 100.0),
            12 => format!("{:.0}% of 10 -> 12, the source's 83%", moved(&world, fleet, 10)? * 100.0),
            _ => String::new(),
        };
        println!("{processes:>4}  {by_hash:>5.2}  {:>6.2}  {moves:>6}  {floor:>6.2}  {fair:>11.2}   {moved}", hottest(&plan));
        let values = [by_hash, hottest(&plan), floor];
        lines.iter_mut().zip(values).for_each(|(line, value)| line.points.push((processes.into(), value)));
    }
    draw(&folder.join("worst_by_processes.svg"), "The worst process, by hash and by table", "processes", &lines)
}

/// The share of owners that the hash places elsewhere than with so many processes before.
fn moved(world: &World, fleet: &Fleet, before: u32) -> Result<f64, Box<dyn Error>> {
    let empty = Table::empty(fleet.clone());
    let mut moved = 0;
    for (owner, _) in &world.town.owners {
        moved += u32::from(empty.resolve(owner, before)?.index != empty.resolve(owner, world.processes)?.index);
    }
    Ok(f64::from(moved) / OWNERS as f64)
}

/// Two hours of runs by somebody who goes by peaks: moves, and runs that were blocked.
fn by_peaks(fleet: &Fleet, sum: bool) -> Result<(usize, usize, Plan), Box<dyn Error>> {
    let (planner, mut world) = (Planner::default(), World::new(fleet, 12)?);
    (0..REMEMBERED).try_for_each(|_| world.work())?;
    let (mut moves, mut blocked, mut last) = (0, 0, None);
    for _ in 0..120 {
        world.work()?;
        let loads = |process: usize| peak(&world.process_hours[process]);
        let view = world.seen_by(|owner| peak(&world.owner_hours[owner]), if sum { None } else { Some(&loads) })?;
        let plan = planner.plan(&view);
        blocked += usize::from(!plan.blocked.is_empty());
        moves += world.carry_out(&plan)?;
        last = Some(plan);
    }
    Ok((moves, blocked, last.ok_or("no run")?))
}

/// Four hours of runs by means, after an hour in which they only watch.
fn by_means(fleet: &Fleet, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (planner, mut world) = (Planner::default(), World::new(fleet, 12)?);
    (0..60).try_for_each(|_| world.work())?;
    let mut lines = [("hottest", RED), ("coldest", BLUE), ("high mark", GREY), ("fair share", GREEN)]
        .map(|(name, colour)| Line { name, colour, points: Vec::new() });
    let before = planner.plan(&world.view(planner.settings())).before;
    let (hot, cold) =
        (before.hottest.map_or(0.0, |(_, load)| load.as_f64()), before.coldest.map_or(0.0, |(_, load)| load.as_f64()));
    let (mut moves, mut last, mut blocked) = (0, None, 0);
    for minute in 0..240 {
        world.work()?;
        let plan = planner.plan(&world.view(planner.settings()));
        moves += world.carry_out(&plan)?;
        blocked += usize::from(!plan.blocked.is_empty());
        let values = [hottest(&plan), coldest(&plan), HIGH, plan.after.fair_share.as_f64()];
        lines.iter_mut().zip(values).for_each(|(line, value)| line.points.push((minute.into(), value)));
        last = Some(plan);
    }
    let plan = last.ok_or("no run")?;
    println!("\nBy means: four hours, at most 2 moves a run\n");
    println!("                     here             the source");
    println!("hottest     {hot:>5.3} -> {:>5.3}     0.953 -> 0.694", hottest(&plan));
    println!("coldest     {cold:>5.3} -> {:>5.3}     0.197 -> 0.261", coldest(&plan));
    println!("spread      {:>4.1}x -> {:>4.1}x       4.8x -> 2.7x", hot / cold, hottest(&plan) / coldest(&plan));
    println!("moves                  {moves:>3}               12");
    println!("blocked runs     {blocked:>3} of 240                0");
    println!("hottest is {} the high mark of {HIGH}", if hottest(&plan) <= HIGH { "under" } else { "above" });
    draw(&folder.join("by_means.svg"), "Twelve processes, relieved by means", "minutes since moves were allowed", &lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::new("story")?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/placement_story");
    std::fs::create_dir_all(&folder)?;
    lottery(&fleet, &folder)?;

    let ends = |plan: &Plan| (coldest(plan), hottest(plan));
    let (moves, blocked, plan) = by_peaks(&fleet, true)?;
    let (least, most) = ends(&plan);
    println!("\nBy the sum of owners' peaks: loads of {least:.2} to {most:.2} on processes that cannot use more than 1.00");
    println!("moves {moves} (the source: 0), blocked in {blocked} of 120 runs");
    let (moves, blocked, plan) = by_peaks(&fleet, false)?;
    let (least, most) = ends(&plan);
    println!(
        "\nBy the peak of the process, which is capped: every process at {least:.3} to {most:.3} (the source: 0.987 to 1.008)"
    );
    println!("moves {moves} (the source: 0), blocked in {blocked} of 120 runs (the source: 119 in 2 h)");
    let points =
        |value: fn(&World, usize) -> f64, world: &World| (0..12).map(|process| (process as f64, value(world, process))).collect();
    let mut world = World::new(&fleet, 12)?;
    (0..REMEMBERED).try_for_each(|_| world.work())?;
    let peaks = Line {
        name: "peak of six hours",
        colour: RED,
        points: points(|world, process| peak(&world.process_hours[process]), &world),
    };
    let means = points(
        |world, process| world.model.measured(Index(u32::try_from(process).unwrap_or_default())).unwrap_or_default().as_f64(),
        &world,
    );
    let means = Line { name: "mean", colour: BLUE, points: means };
    draw(&folder.join("peaks_and_means.svg"), "A capped peak ranks nothing", "process", &[peaks, means])?;

    by_means(&fleet, &folder)?;
    println!("\nplots: {}", folder.display());
    Ok(())
}
