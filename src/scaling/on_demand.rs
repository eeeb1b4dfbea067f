//! What becomes of requests that no instance can take at once: wait, start an instance, or be refused.

use std::{cmp::Reverse, time::Duration};

/// How long a request waits at most: 10 s or 3.5 times the start-up, whichever is longer. Source: Cloud Run.
///
/// The admission of an instance has the same rule for those who wait inside of it.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use keywake::scaling::max_wait;
/// assert_eq!(max_wait(Duration::from_secs(2)), Duration::from_secs(10));
/// assert_eq!(max_wait(Duration::from_secs(4)), Duration::from_secs(14));
/// ```
#[must_use]
pub fn max_wait(start_up: Duration) -> Duration {
    Duration::from_secs(10).max(start_up.saturating_mul(7) / 2)
}

/// An instance that is starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starting {
    /// In what time it can take requests.
    pub ready_in: Duration,
    /// How many it will take, less those that wait for it already and are not among those asked about.
    pub room: u32,
}

/// What there is for requests that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    /// How many requests the running instances can take now.
    pub free: u32,
    /// In what time the running instances have room for one more, each time. `None`: nobody knows, so that nobody waits for it.
    pub frees_every: Option<Duration>,
    /// The instances that are starting.
    pub starting: Vec<Starting>,
    /// Instances that run or are starting.
    pub instances: u32,
    /// At most so many instances; with a fixed count, that count.
    pub max: u32,
    /// How long an instance takes to start.
    pub start_up: Duration,
    /// How many requests an instance takes; at least one is taken for granted.
    pub max_concurrency: u32,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placing {
    /// It is refused: it has waited for as long as one may, and there are as many instances as may be. HTTP 429.
    Refuse,
    /// It goes to an instance that has room.
    Serve,
    /// One more instance is started, and the request waits for it.
    Start,
    /// It waits for what comes: there are as many instances as may be.
    Wait,
    /// It waits for a running instance to have room.
    WaitForRunning,
    /// It waits for an instance that is starting.
    WaitForStarting,
}

/// What becomes of each of these requests, the longest waiting first: `waited` is how long each has waited.
///
/// In order, for each: room that is free serves it. Who has waited for [`max_wait`] is refused if there are as many instances as may be, and
/// otherwise waits for an instance that is starting with room, or starts one. Who has not: if an instance that is starting is there sooner
/// than another would be, it waits for that; then if a running one has room sooner; then one more is started, if it may; else it waits.
/// Room and instances that an earlier request has taken are taken. As soon counts as sooner: what need not be started is not.
///
/// This alone leads from no instance to one. Source: Cloud Run; that an overdue request does not start a second instance while one with room
/// is starting is ours.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use keywake::scaling::{Placing, Supply, place};
///
/// let second = Duration::from_secs(1);
/// let supply = Supply {
///     free: 1, frees_every: Some(3 * second), starting: Vec::new(), instances: 1, max: 2, start_up: 4 * second, max_concurrency: 80,
/// };
/// let placed = place(&supply, &[second, second, Duration::ZERO, Duration::ZERO]);
/// assert_eq!(placed, [Placing::Serve, Placing::WaitForRunning, Placing::Start, Placing::WaitForStarting]);
/// ```
#[must_use]
pub fn place(supply: &Supply, waited: &[Duration]) -> Vec<Placing> {
    let mut left = Left::of(supply);
    let limit = max_wait(supply.start_up);
    waited.iter().map(|waited| left.place(*waited >= limit)).collect()
}

/// What is left of a supply.
struct Left {
    free: u32,
    frees_every: Option<Duration>,
    /// How many wait for running instances.
    for_running: u32,
    /// The soonest last.
    starting: Vec<Starting>,
    more: u32,
    new: Starting,
}

impl Left {
    fn of(supply: &Supply) -> Self {
        let mut starting: Vec<_> = supply.starting.iter().copied().filter(|starting| starting.room > 0).collect();
        starting.sort_by_key(|starting| Reverse(starting.ready_in));
        Self {
            free: supply.free,
            frees_every: supply.frees_every,
            for_running: 0,
            starting,
            more: supply.max.saturating_sub(supply.instances),
            new: Starting { ready_in: supply.start_up, room: supply.max_concurrency.max(1) },
        }
    }

    fn place(&mut self, overdue: bool) -> Placing {
        if self.free > 0 {
            self.free -= 1;
            return Placing::Serve;
        }
        if overdue && self.more == 0 {
            return Placing::Refuse;
        }
        if self.starting.last().is_some_and(|soonest| soonest.ready_in <= self.new.ready_in) {
            self.take_starting();
            return Placing::WaitForStarting;
        }
        let in_turn = self.frees_every.map(|every| every.saturating_mul(self.for_running.saturating_add(1)));
        if !overdue && in_turn.is_some_and(|wait| wait <= self.new.ready_in) {
            self.for_running += 1;
            return Placing::WaitForRunning;
        }
        if self.more == 0 {
            return Placing::Wait;
        }
        self.more -= 1;
        // It is sooner than all that are left.
        self.starting.push(self.new);
        self.take_starting();
        Placing::Start
    }

    fn take_starting(&mut self) {
        if let Some(soonest) = self.starting.last_mut() {
            soonest.room = soonest.room.saturating_sub(1);
            if soonest.room == 0 {
                self.starting.pop();
            }
        }
    }
}
