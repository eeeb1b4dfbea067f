//! What does it cost to find where an owner runs, and to plan the moves of a large fleet?
//!
//! Resolving is timed in batches of 16 owners, in an order that is not theirs, so that the clock is a small part of it; each figure is
//! of the batches' means. A run of the planner is timed by itself. Bounds: a resolve 150 ns (median, 10,000 owners), a plan 50 ms (1,000
//! processes, 100,000 owners).

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use keywake::placement::{
    Cores, Fleet, FleetView, Index, LoadModel, Owner, OwnerLoad, OwnerView, Planner, ProcessState, ProcessView, Report, Row,
    Settings, StoreTime, Table, TableReader, Version,
};
use measure::{
    allocator::{Counting, live_bytes},
    clock::percentile,
    full_size, surroundings,
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH: usize = 16;

fn fleet() -> Fleet {
    Fleet::new("bench").expect("a name")
}

fn owners(count: usize) -> Vec<Owner> {
    (0..count).map(|number| Owner::new(&format!("organisation-{number}")).expect("a name")).collect()
}

fn table(owners: &[Owner], processes: usize) -> Table {
    let mut table = Table::new(fleet(), Version(1), StoreTime::default());
    for (number, owner) in owners.iter().enumerate() {
        table.insert(owner.clone(), Row::at(Index(u32::try_from(number % processes).unwrap_or_default())));
    }
    table
}

/// Median, 99th percentile of nanoseconds per owner.
fn resolving(name: &str, rounds: usize, owners: &[Owner], mut resolve: impl FnMut(&Owner) -> u32) {
    let mut nanos = Vec::with_capacity(rounds);
    // A step that is coprime to every count here: no neighbour follows its neighbour.
    let mut at = 0;
    for round in 0..rounds + rounds / 10 {
        let start = Instant::now();
        for _ in 0..BATCH {
            at = (at + 7_919) % owners.len();
            black_box(resolve(black_box(&owners[at])));
        }
        // The first tenth warms.
        if round >= rounds / 10 {
            nanos.push(u64::try_from(start.elapsed().as_nanos() * 10 / BATCH as u128).unwrap_or(u64::MAX));
        }
    }
    let [median, high] = [500, 990].map(|permille| percentile(&mut nanos, permille) as f64 / 10.0);
    println!("| {name} | {median:.1} ns | {high:.1} ns |");
}

fn resolve(count: usize, rounds: usize) {
    let (rows, strangers) =
        (owners(count), (0..count).map(|n| Owner::new(&format!("stranger-{n}")).expect("a name")).collect::<Vec<_>>());
    let table = table(&rows, 12);
    let at = |owner: &Owner, processes| table.resolve(owner, processes).map_or(0, |resolved| resolved.index.0);
    println!("\n| resolve, {count} owners | median | 99% |\n|---|---|---|");
    resolving("by its row", rounds, &rows, |owner| at(owner, 12));
    resolving("without a row", rounds, &strangers, |owner| at(owner, 12));
    resolving("with a row outside the fleet", rounds, &rows, |owner| at(owner, 1));
    let reader = TableReader::new(fleet());
    reader.take(Ok(table.clone()));
    resolving("through the reader and its lock", rounds, &rows, |owner| reader.resolve(owner, 12).map_or(0, |it| it.index.0));
    let first = strangers[0].as_str();
    resolving("making an owner of its name (hash included)", rounds / 4 + 1, &strangers, |owner| {
        let owner = Owner::new(black_box(owner.as_str())).unwrap_or_else(|_| Owner::new(first).expect("a name"));
        at(&owner, 12)
    });
}

/// Weights from 1 to 9,999 thousandths of a fair share of 0.6 core; every eighth process above the high mark.
fn large(owners: &[Owner], processes: usize) -> FleetView {
    let mut view = FleetView::new(fleet(), Version(1), StoreTime(Duration::from_secs(1_000_000)));
    view.processes = (0..processes).map(|_| ProcessView::new(ProcessState::Reporting)).collect();
    let each = 600_000_000 / (owners.len() / processes) as u64;
    for (number, owner) in owners.iter().enumerate() {
        let process = number % processes;
        let weight = each * (1 + owner.placement_hash() % 1_999) / 1_000;
        let weight = if process % 8 == 0 { weight * 3 / 2 } else { weight };
        let weight = if number < processes { weight * 5 } else { weight };
        let owner = OwnerView { owner: owner.clone(), weight: Cores::from_nanos(weight), pinned: false, moved_at: None };
        view.processes[process].owners.push(owner);
    }
    view
}

/// Median and worst of several runs, in milliseconds.
fn timed<R>(name: &str, runs: usize, mut run: impl FnMut() -> R) {
    let mut nanos: Vec<_> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
        .collect();
    let [median, worst] = [500, 1_000].map(|permille| percentile(&mut nanos, permille) as f64 / 1e6);
    println!("| {name} | {median:.2} ms | {worst:.2} ms |");
}

fn plan(processes: usize, count: usize, runs: usize) {
    let owners = owners(count);
    let view = large(&owners, processes);
    let planner = Planner::default();
    let first = planner.plan(&view);
    let hot = view.processes.iter().filter(|process| process.load() > planner.settings().high).count();
    println!("\n| {processes} processes, {count} owners | median | worst |\n|---|---|---|");
    println!(
        "| (of them hot {hot}, moved {}, blocked {}, moves wanted {}) | | |",
        first.moves.len(),
        first.blocked.len(),
        first.moves_wanted
    );
    timed("plan, with the moves wanted counted", runs, || planner.plan(&view));

    let size = u32::try_from(processes).unwrap_or_default();
    let table = table(&owners, processes);
    let (start, settings) = (Instant::now(), Settings::default());
    let reports = |number: u64| -> Vec<_> {
        let of = |(index, process): (usize, &ProcessView)| {
            let index = Index(u32::try_from(index).unwrap_or_default());
            let mut report = Report::new(fleet(), index, size, 1, number, Duration::from_secs(60));
            report.owners = process.owners.iter().map(|it| OwnerLoad { owner: it.owner.clone(), cores: it.weight }).collect();
            report
        };
        view.processes.iter().enumerate().map(of).collect()
    };
    let mut model = LoadModel::new(fleet());
    model.fold(&reports(1), &table, size, start);
    let (_, bytes) = live_bytes(|| model.fold(&reports(2), &table, size, start));
    let mut number = 2;
    let all: Vec<_> = (0..runs).map(|run| reports(3 + run as u64)).collect();
    let mut all = all.iter();
    timed("folding a report of every process", runs, || {
        number += 1;
        model.fold(all.next().map_or(&[], Vec::as_slice), &table, size, start)
    });
    timed("the view of the fleet", runs, || model.view(&table, size, start, &settings));
    println!("\nThe load model keeps {:.0} bytes per owner (its name is the table's).", bytes as f64 / count as f64);
}

fn memory(count: usize) {
    let ((names, table), bytes) = live_bytes(|| {
        let owners = owners(count);
        let table = table(&owners, 12);
        drop(owners);
        (count, table)
    });
    println!(
        "\nA table of {names} rows keeps {:.0} bytes per row, names of 18 to 19 bytes included.",
        bytes as f64 / names as f64
    );
    println!("Its text is {:.0} bytes per row.", table.to_text().len() as f64 / names as f64);
}

fn main() {
    surroundings::print();
    let full = full_size();
    resolve(if full { 10_000 } else { 100 }, if full { 100_000 } else { 10 });
    plan(if full { 1_000 } else { 10 }, if full { 100_000 } else { 1_000 }, if full { 30 } else { 2 });
    memory(if full { 10_000 } else { 100 });
}
