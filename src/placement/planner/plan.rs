//! What a planner answers: moves, what is blocked and why, and the figures to alert on.

use std::fmt;

use super::view::{FleetView, Held, ProcessState};
use crate::placement::{
    cores::Cores,
    name::{Fleet, Index, Owner},
    table::{Change, Changes, Version},
};

/// An owner that is to run elsewhere, and what that does to both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Move {
    /// Who.
    pub owner: Owner,
    /// What it weighs.
    pub weight: Cores,
    /// From where.
    pub from: Index,
    /// To where.
    pub to: Index,
    /// The load of the source before and after it.
    pub source: (Cores, Cores),
    /// The load of the destination before and after it.
    pub destination: (Cores, Cores),
}

impl fmt::Display for Move {
    /// `42 (0.090) from 1 to 0: 0.790 -> 0.700, 0.510 -> 0.600`: its weight, and what the move does to the source and to the destination.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, weight, from, to, source, destination } = self;
        write!(f, "{owner} ({weight:.3}) from {from} to {to}: ")?;
        write!(f, "{:.3} -> {:.3}, {:.3} -> {:.3}", source.0, source.1, destination.0, destination.1)
    }
}

/// Why no move relieves a process that is above the high mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BlockedReason {
    /// All that weighs enough and is not pinned was moved lately. Wait.
    Cooldown,
    /// No process that reports is below the high mark. Add one, if the fair share is near the marks.
    NoDestination,
    /// There are destinations, and none would leave both sides well below what the source is.
    NoImprovement,
    /// All that weighs enough is pinned.
    Pinned,
    /// No owner uses it: what does the process do?
    Unattributed,
    /// One owner is the load, and cannot be split. No number of processes helps.
    Unsplittable,
}

impl BlockedReason {
    /// A word for labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::NoDestination => "no_destination",
            Self::NoImprovement => "no_improvement",
            Self::Pinned => "pinned",
            Self::Unattributed => "unattributed",
            Self::Unsplittable => "unsplittable",
        }
    }
}

/// Whether a signal that a ceiling cannot clip says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confirmation {
    /// Streams are behind, wakes wait, or streams are refused.
    Confirmed,
    /// Measured, and nothing of it: the process is busy, and serves all the same.
    Denied,
    /// Nothing was measured.
    Unmeasured,
}

/// A process above the high mark that no legal move relieves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// Which.
    pub index: Index,
    /// Its load after the run's moves.
    pub load: Cores,
    /// Why.
    pub reason: BlockedReason,
    /// What else says so.
    pub confirmation: Confirmation,
}

impl fmt::Display for Blocked {
    /// `3 at 0.912: no_destination, confirmed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let confirmation = match self.confirmation {
            Confirmation::Confirmed => "confirmed",
            Confirmation::Denied => "denied",
            Confirmation::Unmeasured => "unmeasured",
        };
        write!(f, "{} at {:.3}: {}, {confirmation}", self.index, self.load, self.reason.as_str())
    }
}

/// Which marks are below the fair share, so that a level fleet would call itself out of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarksBelow {
    /// None. As it should be at the peak hour.
    #[default]
    None,
    /// The low one.
    Low,
    /// Both.
    Both,
}

/// What the loads of a fleet come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The load of all processes.
    pub total: Cores,
    /// `total / n`, rounded down: what each would have of a level fleet.
    pub fair_share: Cores,
    /// No placement has a lower worst load: `max(total / n, the heaviest owner, w_n + w_(n+1))` with owners by falling weight, of which two
    /// of the first n + 1 share a process.
    pub floor: Cores,
    /// The process that reports and has the highest load.
    pub hottest: Option<(Index, Cores)>,
    /// The process that reports and has the lowest load.
    pub coldest: Option<(Index, Cores)>,
    /// The marks against the fair share.
    pub marks_below_fair_share: MarksBelow,
}

impl Figures {
    /// The hottest over the coldest, for metrics. `None` without processes that report, or with one that does nothing.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let coldest = self.coldest?.1.as_f64();
        (coldest > 0.0).then_some(self.hottest?.1.as_f64() / coldest)
    }
}

/// What one run decided. Its fields are what an operator watches, in dry run and live alike.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Whose.
    pub fleet: Fleet,
    /// The version of the table that it is based on.
    pub base: Version,
    /// Whether it is only shown.
    pub dry_run: bool,
    /// What is moved, in this order.
    pub moves: Vec<Move>,
    /// Who stays above the high mark with no legal move, by index.
    pub blocked: Vec<Blocked>,
    /// Who is above the high mark and waits for the next run's moves, by index.
    pub waiting: Vec<Index>,
    /// How many moves it would take in all, those of this run included, were there no budget and no new load; counted up to a thousand.
    pub moves_wanted: usize,
    /// Nobody is moved, whatever the loads.
    pub held: Option<Held>,
    /// Before the moves.
    pub before: Figures,
    /// After them.
    pub after: Figures,
    /// Processes whose reports are stale or never came.
    pub stale_reports: usize,
    /// Processes that report, and whose loads are not known for long enough: they take no part.
    pub warming: usize,
    /// The load of each process after the moves, by index.
    pub loads: Vec<Cores>,
}

impl Plan {
    /// A run without moves yet.
    pub(super) fn of(view: &FleetView, dry_run: bool) -> Self {
        let count = |is: fn(ProcessState) -> bool| view.processes.iter().filter(|process| is(process.state)).count();
        Self {
            fleet: view.fleet.clone(),
            base: view.base,
            dry_run,
            moves: Vec::new(),
            blocked: Vec::new(),
            waiting: Vec::new(),
            moves_wanted: 0,
            held: view.held,
            before: Figures::default(),
            after: Figures::default(),
            stale_reports: count(|state| matches!(state, ProcessState::Silent | ProcessState::Stale)),
            warming: count(|state| state == ProcessState::Warming),
            loads: Vec::new(),
        }
    }

    /// What is to be written. `None` where nothing is: there is no move, or it is a dry run.
    #[must_use]
    pub fn changes(&self) -> Option<Changes> {
        if self.dry_run || self.moves.is_empty() {
            return None;
        }
        let put = |it: &Move| Change::Put { owner: it.owner.clone(), index: it.to, pinned: false };
        Some(Changes { fleet: self.fleet.clone(), base: self.base, changes: self.moves.iter().map(put).collect() })
    }
}

impl fmt::Display for Plan {
    /// One line for a log: the moves, who is blocked and who waits, and what keeps others from taking part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {} moves", self.fleet, if self.dry_run { " (dry run)" } else { "" }, self.moves.len())?;
        self.moves.iter().try_for_each(|it| write!(f, "; {it}"))?;
        self.blocked.iter().try_for_each(|it| write!(f, "; blocked: {it}"))?;
        if let Some(held) = self.held {
            write!(f, "; held: {}", held.as_str())?;
        }
        for (count, what) in
            [(self.waiting.len(), "waiting"), (self.warming, "warming up"), (self.stale_reports, "without reports")]
        {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}
