//! Everybody over readers and keys, from outside and from inside, on one worker and on all of them.

use crate::{
    Context,
    contenders::{ALL, Kind},
    crowd::{Contender, Figures, Place, Setting, Shape, compare},
    measure::words::{grouped, rounded, three_digits, time},
};

/// One contender in one situation.
pub(crate) struct Cell {
    pub(crate) workers: usize,
    pub(crate) place: Place,
    pub(crate) shape: Shape,
    pub(crate) name: &'static str,
    pub(crate) figures: Figures,
    wakes: f64,
    polls: f64,
    syscalls: Option<f64>,
}

const fn shape(keys: u64, per_key: usize) -> Shape {
    Shape { keys, per_key }
}

/// With one worker, and the writer outside.
const ALL_SHAPES: [Shape; 11] = [
    shape(1, 1),
    shape(1, 10),
    shape(1, 100),
    shape(1, 1_000),
    shape(1, 10_000),
    shape(1, 100_000),
    shape(100, 100),
    shape(1_000, 10),
    shape(10_000, 1),
    shape(1_000, 100),
    shape(100_000, 1),
];
const INSIDE_SHAPES: [Shape; 6] = [shape(1, 1), shape(1, 10), shape(1, 100), shape(1, 1_000), shape(1, 10_000), shape(100, 100)];
const FEW_SHAPES: [Shape; 3] = [shape(1, 1), shape(1, 1_000), shape(100, 100)];
/// Beyond that, not everybody takes part.
const LARGE: usize = 10_000;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub(crate) fn run(context: &Context) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workers in context.options.workers() {
        for place in [Place::Outside, Place::Inside] {
            let setting = Setting::new(workers, context.pins.as_ref());
            println!("\nWriter {} the runtime, {workers} worker(s); per publish:\n", place.name());
            if place == Place::Outside && setting.sleeps {
                println!(
                    "WARNING: the workers take all cores, so the writer competes with them, and it sleeps while it waits, where it \
                     otherwise spins: figures cannot be compared with those of fewer workers.\n"
                );
            }
            println!(
                "| keys x readers | who | writer p50 | p99 | last reader p50 | p99 | CPU per delivery | with spinning | switches \
                 | system calls | wakes | polls |"
            );
            println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
            for shape in shapes(context, workers, place) {
                let new = of_shape(context, &setting, place, shape);
                new.iter().for_each(|cell| println!("{}", cell.row()));
                cells.extend(new);
            }
        }
    }
    println!();
    cells
}

fn shapes(context: &Context, workers: usize, place: Place) -> Vec<Shape> {
    let shapes: &[Shape] = match (context.options.scale.few_shapes, workers, place) {
        (false, 1, Place::Outside) => &ALL_SHAPES,
        (false, 1, Place::Inside) => &INSIDE_SHAPES,
        (true, 1, Place::Outside) => &INSIDE_SHAPES,
        _ => &FEW_SHAPES,
    };
    shapes.iter().copied().filter(|shape| shape.readers() <= context.options.scale.most_readers).collect()
}

fn of_shape(context: &Context, setting: &Setting, place: Place, shape: Shape) -> Vec<Cell> {
    let takes_part = |kind: &&Kind| shape.readers() <= LARGE || kind.in_large_crowds;
    let mut crowds: Vec<Box<dyn Contender>> = ALL.iter().filter(takes_part).map(|kind| (kind.make)(shape, setting)).collect();
    let scale = context.options.scale;
    let figures = context.pinned(|| compare(&mut crowds, place, scale.rounds, scale.turn));
    let counts_calls = place == Place::Outside && !setting.sleeps && shape.readers() <= LARGE;
    crowds
        .iter_mut()
        .zip(figures)
        .map(|(crowd, figures)| {
            let (wakes, polls) = crowd.wakes_and_polls();
            let syscalls = counts_calls.then(|| context.syscalls(crowd.as_mut())).flatten();
            Cell { workers: setting.workers, place, shape, name: crowd.name(), figures, wakes, polls, syscalls }
        })
        .collect()
}

impl Cell {
    fn row(&self) -> String {
        let Self { shape, name, figures, wakes, polls, syscalls, .. } = self;
        format!(
            "| {} x {} | {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            grouped(shape.keys),
            grouped(shape.per_key as u64),
            time(figures.writer_p50),
            time(figures.writer_p99),
            time(figures.last_p50),
            time(figures.last_p99),
            time(figures.cpu),
            time(figures.cpu_with_spinning),
            three_digits(figures.switches),
            syscalls.map_or_else(|| "-".to_owned(), three_digits),
            rounded(*wakes),
            rounded(*polls),
        )
    }

    fn line(&self) -> String {
        let Self { workers, place, shape, name, figures, wakes, polls, syscalls } = self;
        let syscalls = syscalls.map(|calls| calls.to_string()).unwrap_or_default();
        let Figures { publishes, writer_p50, writer_p99, last_p50, last_p99, cpu, cpu_with_spinning, switches } = figures;
        let who = format!("{workers},{},{},{},\"{name}\"", place.name(), shape.keys, shape.per_key);
        let times = format!("{publishes},{writer_p50},{writer_p99},{last_p50},{last_p99},{cpu:.1},{cpu_with_spinning:.1}");
        format!("{who},{times},{switches:.3},{syscalls},{wakes},{polls}")
    }
}

/// All of it.
pub(crate) fn csv(cells: &[Cell]) -> String {
    const HEAD: &str = "workers,writer,keys,readers_per_key,who,publishes,writer_p50_ns,writer_p99_ns,last_p50_ns,last_p99_ns,\
                        cpu_per_delivery_ns,cpu_with_spinning_ns,switches,syscalls,wakes,polls\n";
    cells.iter().fold(HEAD.to_owned(), |text, cell| text + &cell.line() + "\n")
}
