//! What is known of a fleet when it is decided: plain numbers, whoever measured them.

use std::time::{Duration, Instant};

use super::amount::{Amount, Unusable};

/// How many instances there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    /// As many as are wanted: the count of the decision before. To hold is to keep this one, and not what happens to run during an update.
    pub desired: u32,
    /// As many as run and can take requests: what use is measured against.
    pub running: u32,
}

impl Fleet {
    /// One in which runs what is wanted.
    #[must_use]
    pub fn settled(count: u32) -> Self {
        Self { desired: count, running: count }
    }
}

/// The adaptive limits of those instances that told theirs: their sum and their number.
///
/// # Examples
/// ```
/// let limits: keywake::scaling::AdaptiveLimits = [60, 80].into_iter().collect();
/// assert_eq!((limits.total, limits.instances), (140, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdaptiveLimits {
    /// The limits' sum, in requests at once.
    pub total: u64,
    /// Of how many instances.
    pub instances: u32,
}

impl FromIterator<u32> for AdaptiveLimits {
    fn from_iter<I: IntoIterator<Item = u32>>(limits: I) -> Self {
        limits.into_iter().fold(Self::default(), |sum, limit| Self {
            total: sum.total.saturating_add(u64::from(limit)),
            instances: sum.instances.saturating_add(1),
        })
    }
}

/// What lies unread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// Events per second that come, over the last minute.
    pub arriving: f64,
    /// Events that lie unread now.
    pub unread: f64,
}

/// What is known of a fleet. Sums are over all instances. `None` is "not known", which is not zero: it holds the count, where zero lowers it.
///
/// # Examples
/// ```
/// use keywake::scaling::Sample;
/// let mut sample = Sample::default();
/// sample.cpu_cores = Some(4.2);
/// assert_eq!(sample.queued, None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// Cores that the fleet used, on average over the last minute.
    pub cpu_cores: Option<f64>,
    /// Cores that it would have used if there had been enough, over the last minute; what pressure and throttling tell.
    pub demand_cores: Option<f64>,
    /// Requests at once in the fleet, on average over the last minute: weighted by time, not counted per interval.
    pub concurrency_1m: Option<f64>,
    /// The same over the last ten minutes.
    pub concurrency_10m: Option<f64>,
    /// The instances' adaptive limits.
    pub adaptive_limits: Option<AdaptiveLimits>,
    /// Requests that wait now for an instance.
    pub queued: Option<f64>,
    /// Requests at once that those would be which were refused or let go in the last minute; see [`refused_streams`].
    pub refused: Option<f64>,
    /// The sum of the instances' effective numbers of streams: each max(active, nominal x (demand / quota) / target).
    pub effective_streams: Option<f64>,
    /// What lies unread.
    pub backlog: Option<Backlog>,
    /// Requests in flight now.
    pub in_flight: Option<u64>,
    /// When the last request was there, a refused one too; where none was seen, since when they are looked for. `None`: not known, and then
    /// nothing is idle.
    pub last_request: Option<Instant>,
    /// The most that was asked for of late, below which a count that is wanted does not fall; see [`Stabilization`](super::Stabilization).
    /// `None`: it falls at once.
    pub stabilized: Option<u32>,
    /// Over how many of the running instances the sums are. `None`: all of them.
    pub reporting: Option<u32>,
    /// Whether the means cover all of their minutes. While they do not, as after a start of whoever decides, the count does not fall, but from
    /// one to none by the requests, of which no mean says anything.
    pub complete: bool,
}

impl Default for Sample {
    /// Nothing is known, and what will be is complete.
    fn default() -> Self {
        Self {
            cpu_cores: None,
            demand_cores: None,
            concurrency_1m: None,
            concurrency_10m: None,
            adaptive_limits: None,
            queued: None,
            refused: None,
            effective_streams: None,
            backlog: None,
            in_flight: None,
            last_request: None,
            stabilized: None,
            reporting: None,
            complete: true,
        }
    }
}

impl Sample {
    /// Somebody waits for an instance.
    pub(super) fn is_awaited(&self) -> bool {
        Amount::read(self.queued).is_ok_and(|queued| !queued.is_zero())
    }

    /// It is known that no request is there: a zero that is one.
    pub(super) fn is_quiet(&self) -> bool {
        Amount::read(self.concurrency_1m).is_ok_and(Amount::is_zero)
    }

    /// Instances that run and told nothing.
    pub(super) fn silent(&self, fleet: Fleet) -> Result<u32, Unusable> {
        match self.reporting {
            None => Ok(0),
            Some(0) if fleet.running > 0 => Err(Unusable::Missing),
            Some(reporting) => Ok(fleet.running.saturating_sub(reporting)),
        }
    }
}

/// Requests at once that refused ones would be: their rate x the time each would stay, after Little.
///
/// `refused` of them came in `window`. `each` is how long a request lasts on average; for streams whose clients come back until they are let
/// in, it is the time between two tries, so that a client counts once. `None` if `window` is zero.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use keywake::scaling::refused_streams;
/// // 1,800 in a minute, by clients that come back every 10 s: 300 of them.
/// assert_eq!(refused_streams(1800, Duration::from_secs(60), Duration::from_secs(10)), Some(300.0));
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nobody refuses 2^53 requests a minute")]
pub fn refused_streams(refused: u64, window: Duration, each: Duration) -> Option<f64> {
    (!window.is_zero()).then(|| refused as f64 * each.as_secs_f64() / window.as_secs_f64())
}

/// CPUs that an instance can really use: not more than it has threads that can run.
///
/// One busy thread on two CPUs reads as 50 %, and is full. `None`: as many threads as CPUs, or more. NaN stays NaN. Source: the balancer's
/// story of a container that stood at its wall with 54.5 %.
///
/// # Examples
/// ```
/// use keywake::scaling::effective_cpus;
/// assert_eq!(effective_cpus(2.0, Some(1)), 1.0);
/// assert_eq!(effective_cpus(0.5, Some(4)), 0.5);
/// ```
#[must_use]
pub fn effective_cpus(cpus: f64, threads: Option<u32>) -> f64 {
    match threads.map(f64::from) {
        // Not `min`, which makes a number of NaN.
        Some(threads) if threads < cpus => threads,
        _ => cpus,
    }
}
