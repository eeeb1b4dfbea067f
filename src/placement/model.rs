//! What every owner of a fleet costs, out of the reports of its processes.
//!
//! The weight belongs to (fleet, owner), whoever reports it, and so travels with it on a move: the process that it left is relieved at
//! once, and the one that it went to is charged. Had each process a mean of its own per owner, the source would be charged for an hour
//! more, and the next run would drain it too far.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use super::{
    cores::Cores,
    ewma::Ewma,
    name::{Fleet, Index, Owner},
    planner::{FleetView, Held, OwnerView, ProcessState, ProcessView, Settings},
    report::{LOAD_MODEL, Pressure, Report},
    table::Table,
};

/// An owner that is absent and weighs less is forgotten: a millionth of a core.
const FORGOTTEN: Cores = Cores::from_nanos(1_000);
/// A report stands for at most so many windows, those included that were missed before it.
const MOST_WINDOWS: u64 = 10;

/// So many ended lives of a process are remembered. One that is forgotten, and speaks, would be taken for the next life, and the real one be
/// outlived by it.
const MOST_LIVES: usize = 32;

/// What came of folding the reports of one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folded {
    /// Reports that were folded.
    pub folded: usize,
    /// Reports that had been folded before, or are older than one that was.
    pub known: usize,
    /// Reports of lives that ended: somebody claims an index that another holds.
    pub outlived: usize,
    /// Reports of other fleets, or from outside this one.
    pub foreign: usize,
    /// Reports of another load model; never folded.
    pub other_model: usize,
    /// Windows that no report told of; the next one stood for them.
    pub missed: u64,
}

#[derive(Clone, Debug)]
struct Process {
    run: u64,
    /// The lives before, the latest last: what still speaks for one is outlived.
    former: VecDeque<u64>,
    number: u64,
    /// When its reports were last seen to advance. `None`: never; what is there may be of yesterday.
    advanced: Option<Instant>,
    /// Windows that were folded in this life.
    windows: u32,
    total: Ewma,
    unattributed: Ewma,
    processes: u32,
    model: u32,
    capped: bool,
    draining: bool,
    pressure: Pressure,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    mean: Ewma,
    /// In the reports that are being folded: cores times nanoseconds, of all who told of it, and for how long.
    work: u128,
    told_for: Duration,
}

/// The means of a fleet's owners and processes. One planner has one, and folds every read into it.
///
/// After a start it knows nothing: means are then those of what was measured since ([`Ewma::corrected`]), and no process takes part in moves
/// before `warm_up` windows of it were folded.
#[derive(Clone, Debug)]
pub struct LoadModel {
    fleet: Fleet,
    owners: HashMap<Owner, Weight, foldhash::fast::RandomState>,
    processes: HashMap<Index, Process>,
}

impl LoadModel {
    /// Of which nothing is known yet.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet, owners: HashMap::default(), processes: HashMap::new() }
    }

    /// How many owners it remembers: those that were seen and did not fade.
    #[must_use]
    pub fn owners(&self) -> usize {
        self.owners.len()
    }

    /// What the owner weighs: the mean of what was measured. `None`: it is not known.
    #[must_use]
    pub fn weight(&self, owner: &Owner) -> Option<Cores> {
        self.owners.get(owner)?.mean.corrected()
    }

    /// The mean of what a process itself said that it used in all.
    #[must_use]
    pub fn measured(&self, index: Index) -> Option<Cores> {
        self.processes.get(&index)?.total.corrected()
    }

    /// Folds what is new in `reports`, which were read at `now`, for a fleet of `processes` placed by `table`.
    ///
    /// A report is new when its number is above the last one of the same life. One that comes after windows that nobody saw stands for them
    /// too, up to ten. The first report that is seen of a process is not folded: it may be old; that it advances shows that it is
    /// not. An owner that its process does not tell of is folded as 0.
    pub fn fold(&mut self, reports: &[Report], table: &Table, processes: u32, now: Instant) -> Folded {
        let mut outcome = Folded::default();
        let mut windows: HashMap<Index, Duration> = HashMap::new();
        for report in reports {
            if let Some(window) = self.admit(report, processes, now, &mut outcome) {
                windows.insert(report.index, window);
                self.note(report, window, table, processes);
            }
        }
        self.fold_owners(&windows, table, processes);
        for report in reports {
            let Some(window) = windows.remove(&report.index) else { continue };
            if let Some(process) = self.processes.get_mut(&report.index) {
                process.total.fold(report.process, window);
                process.unattributed.fold(report.unattributed, window);
            }
        }
        outcome
    }

    /// For how long the report stands; `None` where it is not to be folded.
    fn admit(&mut self, report: &Report, processes: u32, now: Instant, outcome: &mut Folded) -> Option<Duration> {
        if report.fleet != self.fleet || report.index.0 >= processes {
            outcome.foreign += 1;
            return None;
        }
        let Some(process) = self.processes.get_mut(&report.index) else {
            self.processes.insert(report.index, Process::first(report));
            outcome.known += 1;
            return None;
        };
        if process.former.contains(&report.run) {
            outcome.outlived += 1;
            return None;
        }
        let same_life = process.run == report.run;
        if same_life && report.number <= process.number {
            outcome.known += 1;
            return None;
        }
        let step = if same_life { report.number - process.number } else { 1 };
        process.take(report, now);
        if report.model != LOAD_MODEL {
            outcome.other_model += 1;
            return None;
        }
        process.windows = process.windows.saturating_add(1);
        outcome.folded += 1;
        outcome.missed = outcome.missed.saturating_add(step - 1);
        let step = u32::try_from(step.min(MOST_WINDOWS)).unwrap_or(1);
        Some(report.window.saturating_mul(step))
    }

    /// Notes what a report says of owners, before any is folded.
    fn note(&mut self, report: &Report, window: Duration, table: &Table, processes: u32) {
        for load in &report.owners {
            let weight = match self.owners.get_mut(&load.owner) {
                Some(weight) => weight,
                None => {
                    // Where it runs it was not, for as long as that process is known.
                    let home = table.resolve(&load.owner, processes).map_or(report.index, |resolved| resolved.index);
                    let home = self.processes.get(&home).or_else(|| self.processes.get(&report.index));
                    let mean = home.map(|home| Ewma::absent_since(&home.total)).unwrap_or_default();
                    self.owners.entry(load.owner.clone()).or_insert_with(|| Weight { mean, ..Weight::default() })
                }
            };
            weight.work = weight.work.saturating_add(u128::from(load.cores.nanos()).saturating_mul(window.as_nanos()));
            weight.told_for = weight.told_for.max(window);
        }
    }

    /// Each owner by the window of the process that it belongs to, or of whoever told of it while that one says nothing.
    fn fold_owners(&mut self, windows: &HashMap<Index, Duration>, table: &Table, processes: u32) {
        if windows.is_empty() {
            return;
        }
        let mut by_index = vec![None; usize::try_from(processes).unwrap_or_default()];
        for (index, window) in windows {
            if let Some(slot) = by_index.get_mut(index.at()) {
                *slot = Some(*window);
            }
        }
        self.owners.retain(|owner, weight| {
            let home = table.resolve(owner, processes).ok().and_then(|resolved| *by_index.get(resolved.index.at())?);
            let told = !weight.told_for.is_zero();
            let Some(window) = home.or_else(|| told.then_some(weight.told_for)) else { return true };
            let nanos = weight.work.checked_div(window.as_nanos()).unwrap_or_default();
            weight.mean.fold(Cores::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)), window);
            (weight.work, weight.told_for) = (0, Duration::ZERO);
            told || weight.mean.raw() >= FORGOTTEN
        });
    }

    /// What a planner sees at `now`: every process of the fleet, and on each the owners that `table` puts there.
    #[must_use]
    pub fn view(&self, table: &Table, processes: u32, now: Instant, settings: &Settings) -> FleetView {
        let mut view = FleetView::new(self.fleet.clone(), table.version(), table.read_at());
        view.processes = (0..processes).map(|index| self.process_view(Index(index), now, settings)).collect();
        view.held = self.held(processes, now, settings);
        for (owner, weight) in &self.owners {
            let Ok((resolved, row)) = table.place(owner, processes) else { continue };
            view.owners_without_row += usize::from(row.is_none());
            let Some(process) = view.processes.get_mut(resolved.index.at()) else { continue };
            process.owners.push(OwnerView {
                owner: owner.clone(),
                weight: weight.mean.corrected().unwrap_or_default(),
                pinned: row.is_some_and(|row| row.pinned),
                moved_at: row.and_then(|row| row.moved_at),
            });
        }
        view.out_of_range_rows = table.out_of_range(processes);
        view.malformed_rows = table.malformed().len();
        view
    }

    fn process_view(&self, index: Index, now: Instant, settings: &Settings) -> ProcessView {
        let Some(process) = self.processes.get(&index) else { return ProcessView::new(ProcessState::Silent) };
        let report_age = process.advanced.map(|at| now.saturating_duration_since(at));
        let state = match report_age {
            Some(age) if age <= settings.stale_after && process.windows >= settings.warm_up => ProcessState::Reporting,
            Some(age) if age <= settings.stale_after => ProcessState::Warming,
            _ => ProcessState::Stale,
        };
        let mut view = ProcessView::new(state);
        view.unattributed = process.unattributed.corrected().unwrap_or_default();
        view.capped = process.capped;
        view.pressure = process.pressure;
        view.report_age = report_age;
        view
    }

    /// Why nobody may be moved now, whatever the loads: the fleet is changing.
    fn held(&self, processes: u32, now: Instant, settings: &Settings) -> Option<Held> {
        let alive =
            |process: &&Process| process.advanced.is_some_and(|at| now.saturating_duration_since(at) <= settings.stale_after);
        let inside = self.processes.iter().filter(|(index, _)| index.0 < processes).map(|(_, process)| process);
        let (mut draining, mut models, mut sizes) = (false, false, false);
        for process in inside.filter(alive) {
            draining |= process.draining;
            models |= process.model != LOAD_MODEL;
            sizes |= process.processes != processes;
        }
        let reasons = [(models, Held::MixedModels), (sizes, Held::MixedSizes), (draining, Held::Draining)];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }
}

impl Process {
    fn first(report: &Report) -> Self {
        Self {
            run: report.run,
            former: VecDeque::new(),
            number: report.number,
            advanced: None,
            windows: 0,
            total: Ewma::default(),
            unattributed: Ewma::default(),
            processes: report.processes,
            model: report.model,
            capped: report.capped,
            draining: report.draining,
            pressure: report.pressure,
        }
    }

    fn take(&mut self, report: &Report, now: Instant) {
        if self.run != report.run {
            self.former.push_back(self.run);
            if self.former.len() > MOST_LIVES {
                self.former.pop_front();
            }
            self.windows = 0;
        }
        (self.run, self.number, self.advanced) = (report.run, report.number, Some(now));
        (self.processes, self.model) = (report.processes, report.model);
        (self.capped, self.draining, self.pressure) = (report.capped, report.draining, report.pressure);
    }
}
