//! One run after the other: reads, folds, plans, writes. It has no clock and no timer; a server calls it about once a minute.

use std::time::Instant;

use super::{
    model::{Folded, LoadModel},
    name::Fleet,
    planner::{FleetView, Plan, Planner},
    store::{ApplyError, ReadOutcome, ReportStore, StoreError, TableReader, TableStore},
    table::Version,
};

/// What became of a plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Its moves are written, as this version.
    Applied(Version),
    /// It is a dry run with moves; nothing was written.
    DryRun,
    /// There is nothing to move.
    Nothing,
    /// They could not be written, or are not known to be. The next run reads anew.
    NotApplied(ApplyError),
    /// The table could not be read, or not believed. The plan is by the last good one, and nothing was written.
    TableAway(ReadOutcome),
}

/// One run: what was decided, and what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run {
    /// The fleet as it was seen: each process's age and pressure, how many owners have no row.
    pub view: FleetView,
    /// What was decided.
    pub plan: Plan,
    /// What became of it.
    pub outcome: RunOutcome,
    /// What came of the reports.
    pub folded: Folded,
    /// Reports could not be read: those that are held age.
    pub reports_away: Option<StoreError>,
    /// Reports that could not be used.
    pub malformed_reports: usize,
}

/// Counters over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BalancerStats {
    /// Runs.
    pub runs: u64,
    /// Moves that were written.
    pub moves: u64,
    /// Moves that a dry run would have made.
    pub moves_dry_run: u64,
    /// Runs in which a process was blocked.
    pub blocked_runs: u64,
    /// Plans that another planner was faster than.
    pub conflicts: u64,
    /// Reads and writes that failed.
    pub store_errors: u64,
}

/// Balances one fleet: the load model, the planner, and the last good table. One process of a fleet runs one; if two do, what one writes the
/// other does not.
#[derive(Debug)]
pub struct Balancer {
    model: LoadModel,
    planner: Planner,
    stats: BalancerStats,
}

impl Balancer {
    /// Of that fleet.
    #[must_use]
    pub fn new(fleet: Fleet, planner: Planner) -> Self {
        Self { model: LoadModel::new(fleet), planner, stats: BalancerStats::default() }
    }

    /// What owners weigh.
    #[must_use]
    pub fn model(&self) -> &LoadModel {
        &self.model
    }

    /// Counters over all runs.
    #[must_use]
    pub fn stats(&self) -> BalancerStats {
        self.stats
    }

    /// One run, for a fleet of `processes`. Errors of a store are in the answer, and end nothing: reports that cannot be read grow stale,
    /// and a table that cannot be read is not written.
    ///
    /// # Cancel safety
    /// Cancelled while it writes, the moves are made or not; nothing is lost.
    pub async fn run(
        &mut self,
        reader: &TableReader,
        tables: &impl TableStore,
        reports: &impl ReportStore,
        processes: u32,
        now: Instant,
    ) -> Run {
        self.stats.runs += 1;
        let fleet = reader.table().fleet().clone();
        let read = reader.refresh(tables).await;
        let table = reader.table();
        let (told, reports_away) = match reports.read_all(&fleet).await {
            Ok(reports) => (reports, None),
            Err(error) => (super::store::Reports::default(), Some(error)),
        };
        let folded = self.model.fold(&told.reports, &table, processes, now);
        let view = self.model.view(&table, processes, now, self.planner.settings());
        let plan = self.planner.plan(&view);
        let outcome = if read.is_current() { write(&plan, tables).await } else { RunOutcome::TableAway(read) };
        if matches!(outcome, RunOutcome::Applied(_)) {
            // An outage that begins now finds the moves known here. What this read comes to the next run sees.
            reader.refresh(tables).await;
        }
        self.count(&plan, &outcome, reports_away.is_some());
        Run { view, plan, outcome, folded, reports_away, malformed_reports: told.malformed.len() }
    }

    fn count(&mut self, plan: &Plan, outcome: &RunOutcome, reports_away: bool) {
        let stats = &mut self.stats;
        let moves = u64::try_from(plan.moves.len()).unwrap_or(u64::MAX);
        stats.blocked_runs += u64::from(!plan.blocked.is_empty());
        stats.store_errors += u64::from(reports_away);
        match outcome {
            RunOutcome::Applied(_) => stats.moves += moves,
            RunOutcome::DryRun => stats.moves_dry_run += moves,
            RunOutcome::NotApplied(ApplyError::Refused(_)) => stats.conflicts += 1,
            RunOutcome::NotApplied(ApplyError::Store(_)) | RunOutcome::TableAway(ReadOutcome::Failed(_)) => {
                stats.store_errors += 1
            }
            RunOutcome::Nothing | RunOutcome::TableAway(_) => {}
        }
    }
}

async fn write(plan: &Plan, tables: &impl TableStore) -> RunOutcome {
    match plan.changes() {
        Some(changes) => tables.apply(&changes).await.map_or_else(RunOutcome::NotApplied, RunOutcome::Applied),
        None if plan.moves.is_empty() => RunOutcome::Nothing,
        None => RunOutcome::DryRun,
    }
}
