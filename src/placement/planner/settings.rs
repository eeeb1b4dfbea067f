//! The planner's settings: defaults, and what is refused because it cannot work.

use std::{fmt, time::Duration};

use crate::placement::cores::Cores;

/// What a planner goes by. The defaults are S1's, for processes of one core; [`Settings::for_capacity`] scales them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// A process above it (not at it) is relieved. 0.75 core.
    pub high: Cores,
    /// Owners leave a process above `high` until it is at or below this. 0.65 core.
    pub low: Cores,
    /// By so much the larger of source and destination must be below what the source was, for a move to be worth it. 0.02 core.
    pub min_gain: Cores,
    /// Moves of one run, of one fleet. 2.
    pub moves_per_run: usize,
    /// For how long an owner that was moved stays. 1 h.
    pub cooldown: Duration,
    /// Reports that did not advance for longer are stale. 180 s: three windows. (Not in S1.)
    pub stale_after: Duration,
    /// Windows of a process's life that must be known before it takes part in moves. 10. (Not in S1.)
    pub warm_up: u32,
    /// A stream that is so many events behind confirms that a process is overloaded. 10,000; a choice, to be set to what a reader may lag.
    pub stream_lag: u64,
    /// A wake that waits for so long confirms it. 100 ms; a choice.
    pub relay_lag: Duration,
    /// So many refused streams in a window confirm it. 1.
    pub refused: u64,
    /// Plans, and does not write. Live if not said.
    pub dry_run: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            high: Cores::from_milli(750),
            low: Cores::from_milli(650),
            min_gain: Cores::from_milli(20),
            moves_per_run: 2,
            cooldown: Duration::from_secs(3_600),
            stale_after: Duration::from_secs(180),
            warm_up: 10,
            stream_lag: 10_000,
            relay_lag: Duration::from_millis(100),
            refused: 1,
            dry_run: false,
        }
    }
}

impl Settings {
    /// The defaults for processes that may each use `capacity`: both marks and the least gain are the same shares of it.
    #[must_use]
    pub fn for_capacity(capacity: Cores) -> Self {
        let of = |milli| capacity.scale(milli, 1_000);
        Self { high: of(750), low: of(650), min_gain: of(20), ..Self::default() }
    }

    /// Whether they can work.
    ///
    /// # Errors
    /// When the low mark is above the high one or 0, no gain is asked for, or no move allowed: a planner would move for ever, or never.
    pub fn check(&self) -> Result<(), SettingsError> {
        let faults = [
            (self.low.nanos() == 0, "low", self.low.to_string(), "a mark above 0"),
            (self.low > self.high, "low", self.low.to_string(), "at most the high mark"),
            (self.min_gain.nanos() == 0, "min_gain", self.min_gain.to_string(), "above 0: without a gain moves never end"),
            (
                self.moves_per_run == 0,
                "moves_per_run",
                self.moves_per_run.to_string(),
                "at least 1; dry_run plans without moving",
            ),
        ];
        let fault = faults.into_iter().find(|(holds, ..)| *holds);
        fault.map_or(Ok(()), |(_, setting, value, wanted)| Err(SettingsError { setting, value, wanted }))
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// Its name.
    pub setting: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it must be.
    pub wanted: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "placement: {} is {}, and must be {}", self.setting, self.value, self.wanted)
    }
}

impl std::error::Error for SettingsError {}
