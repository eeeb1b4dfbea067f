//! Which owners to move: a function of the loads, without a clock.
//!
//! What holds of every plan:
//! * **L1** Nothing is moved unless a process is above the high mark; owners then leave it until it is at or below the low one.
//! * **L2** Each move leaves the larger of source and destination at least `min_gain` below what the source was.
//! * **L3** Nobody pinned is moved, nobody within its cooldown, nobody twice.
//! * **L4** Sources and destinations report; destinations are below the high mark before the move.
//! * **L5** There are at most `moves_per_run` moves, each decided on what the ones before it left.
//! * **L6** A process is blocked if and only if it is above the high mark and has no legal move; it does not keep others from being relieved.
//! * **L7** The plan depends on nothing but the view and the settings, and on no order within the view.
//!
//! The fleet is never repacked: with the fewest moves, cold processes stay cold.

mod plan;
mod settings;
mod simulation;
mod view;

pub use plan::{Blocked, BlockedReason, Confirmation, Figures, MarksBelow, Move, Plan};
pub use settings::{Settings, SettingsError};
use simulation::Simulation;
pub use view::{FleetView, Held, OwnerView, ProcessState, ProcessView};

use super::{cores::Cores, name::Index, report::Pressure};

/// Moves are counted up to so many.
const MOST_WANTED: usize = 1_000;

/// Plans moves for fleets. It has no state but its settings: whether a fleet is relieved is decided afresh at every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planner {
    settings: Settings,
}

impl Planner {
    /// By those settings.
    ///
    /// # Errors
    /// When they cannot work.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self { settings })
    }

    /// What it goes by.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One run. The same view gives the same plan, dry or live.
    ///
    /// Of the processes that were above the high mark in this run the hottest is relieved first, by the legal move with the smallest
    /// `max(source, destination)` after it; among equals the one to the colder destination, of the lighter owner, of the owner whose
    /// name comes first, to the lower index.
    ///
    /// # Examples
    /// ```
    /// use keywake::placement::{
    ///     Cores, Fleet, FleetView, Index, Owner, OwnerView, Planner, ProcessState, ProcessView, StoreTime, Version,
    /// };
    /// let mut view = FleetView::new(Fleet::new("ingest")?, Version::NONE, StoreTime::default());
    /// for weights in [&[("a", 400), ("b", 300), ("c", 150)][..], &[("d", 300)], &[("e", 200)]] {
    ///     let mut process = ProcessView::new(ProcessState::Reporting);
    ///     for (name, milli) in weights {
    ///         let weight = Cores::from_milli(*milli);
    ///         process.owners.push(OwnerView { owner: Owner::new(name)?, weight, pinned: false, moved_at: None });
    ///     }
    ///     view.processes.push(process);
    /// }
    /// let plan = Planner::default().plan(&view);
    /// assert_eq!((plan.moves[0].owner.as_str(), plan.moves[0].to), ("b", Index(2)));
    /// assert_eq!(plan.loads, [550, 300, 500].map(Cores::from_milli));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn plan(&self, view: &FleetView) -> Plan {
        let mut plan = Plan::of(view, self.settings.dry_run);
        let mut simulation = Simulation::new(&self.settings, view);
        let floor = floor(view);
        plan.before = simulation.figures(floor);
        if plan.held.is_none() {
            while plan.moves.len() < self.settings.moves_per_run {
                let Some(next) = simulation.relieve() else { break };
                plan.moves.push(next);
            }
            for hot in simulation.above_high() {
                match simulation.blocked(hot) {
                    Some(reason) => plan.blocked.push(Blocked {
                        index: Index::of(hot),
                        load: simulation.load(hot),
                        reason,
                        confirmation: self.confirmation(&view.processes[hot].pressure),
                    }),
                    None => plan.waiting.push(Index::of(hot)),
                }
            }
        }
        plan.after = simulation.figures(floor);
        plan.loads = simulation.loads().to_vec();
        plan.moves_wanted = plan.moves.len();
        if plan.held.is_none() && plan.moves_wanted == self.settings.moves_per_run {
            while plan.moves_wanted < MOST_WANTED && simulation.relieve().is_some() {
                plan.moves_wanted += 1;
            }
        }
        plan
    }

    fn confirmation(&self, pressure: &Pressure) -> Confirmation {
        let Settings { stream_lag, relay_lag, refused, .. } = self.settings;
        let signals = [
            pressure.stream_lag.map(|lag| lag >= stream_lag),
            pressure.relay_lag.map(|lag| lag >= relay_lag),
            pressure.refused.map(|count| count >= refused),
        ];
        match (signals.contains(&Some(true)), signals.contains(&Some(false))) {
            (true, _) => Confirmation::Confirmed,
            (false, true) => Confirmation::Denied,
            (false, false) => Confirmation::Unmeasured,
        }
    }
}

/// The part of [`Figures::floor`] that is about single owners: the heaviest, and `w_n + w_(n+1)`.
fn floor(view: &FleetView) -> Cores {
    let processes = view.processes.len();
    let mut weights: Vec<_> = view.processes.iter().flat_map(|process| process.owners.iter().map(|owner| owner.weight)).collect();
    let heaviest = weights.iter().max().copied().unwrap_or_default();
    if processes == 0 || weights.len() <= processes {
        return heaviest;
    }
    // The (n+1)th by falling weight, and the lightest of those before it.
    let (before, next, _) = weights.select_nth_unstable_by(processes, |one, other| other.cmp(one));
    let pair = before.iter().min().copied().unwrap_or_default() + *next;
    heaviest.max(pair)
}
