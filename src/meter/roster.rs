//! A meter, and the streams that it tracks.

use std::{
    collections::BTreeMap,
    fmt, thread,
    time::{Duration, Instant},
};

use super::{
    split::{Ends, Fold, Ledger, Split, split},
    stream::{Account, StreamMeter},
    timing::{Clock, Timing, nanos},
};
use crate::{
    load::StreamClass,
    sync::{Arc, Mutex},
};

/// Three ticks of five seconds: over one, whoever has a burst looks worst.
const WINDOW: Duration = Duration::from_secs(15);
/// Below this a rate is noise.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Tracks streams, and says of each what processor time it uses.
///
/// Nothing here ticks by itself: whoever samples does. Sampling passes over all streams, and keeps streams from coming and going for as
/// long; it does not keep them from running.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// use keywake::{load::StreamClass, meter::Meter};
/// let meter = Meter::new();
/// let begin = Instant::now();
/// meter.sample(begin, Some(Duration::ZERO));
/// let stream = meter.track(StreamClass::Dev);
/// let split = meter.sample(begin + Duration::from_secs(5), Some(Duration::from_secs(1))).unwrap();
/// assert_eq!(split.streams[0].id, stream.id());
/// assert_eq!(split.unattributed, Some(Duration::from_secs(1)), "nothing ran in a bracket");
/// ```
#[derive(Clone)]
pub struct Meter {
    roster: Arc<Roster>,
}

/// How a [`Meter`] is to be.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Builder {
    timing: Timing,
    window: Duration,
    min_interval: Duration,
    parallelism: Option<u32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self { timing: Timing::default(), window: WINDOW, min_interval: MIN_INTERVAL, parallelism: None }
    }
}

impl Builder {
    /// How brackets are timed; [`Timing::Adaptive`] unless set. Where threads have no processor clock, it is [`Timing::Wall`].
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Over how long [`StreamCost::burn_cores`](super::StreamCost::burn_cores) is a mean; 15 s unless set, three ticks of the evictor.
    /// With zero it is that of the last interval.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// A sample that comes sooner after the one before is none; 1 ms unless set. Half a tick keeps ticks that come bunched from making
    /// rates of noise.
    pub fn min_interval(mut self, interval: Duration) -> Self {
        self.min_interval = interval;
        self
    }

    /// How many cores one stream can use at once: it is charged no more than that, times the interval. All that the process may use
    /// (`std::thread::available_parallelism`) unless set; at least 1.
    pub fn parallelism(mut self, cores: u32) -> Self {
        self.parallelism = Some(cores);
        self
    }

    /// Makes the meter.
    #[must_use]
    pub fn build(self) -> Meter {
        let all = || thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
        let roster = Roster {
            clock: Clock::new(Instant::now(), self.timing),
            window: self.window,
            min_interval: self.min_interval,
            parallelism: self.parallelism.unwrap_or_else(all).max(1),
            streams: Mutex::new(Streams { ledger: Ledger::default(), tracked: BTreeMap::new(), departed: 0 }),
        };
        Meter { roster: Arc::new(roster) }
    }
}

/// The streams of a meter.
#[derive(Debug)]
pub(super) struct Roster {
    clock: Clock,
    window: Duration,
    min_interval: Duration,
    parallelism: u32,
    streams: Mutex<Streams>,
}

#[derive(Debug)]
struct Streams {
    ledger: Ledger,
    /// By number, hence in the order in which they came. A tree, for its memory goes with its streams.
    tracked: BTreeMap<u64, (Arc<Account>, Fold)>,
    /// What streams that are gone used since the last sample, nanoseconds.
    departed: u64,
}

impl Roster {
    pub(super) fn add(&self, account: Arc<Account>) {
        let id = account.id;
        self.streams.lock().tracked.insert(id, (account, Fold::default()));
    }

    /// The stream is over, and was charged `charged` all in all.
    pub(super) fn forget(&self, id: u64, charged: impl FnOnce(&Account) -> u64) {
        let mut streams = self.streams.lock();
        let gone = streams.tracked.remove(&id);
        if let Some((account, fold)) = &gone {
            streams.departed = streams.departed.saturating_add(fold.rest(charged(account)));
        }
        drop(streams);
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

impl Meter {
    /// A meter as [`Builder`] makes it if nothing is set.
    #[must_use]
    pub fn new() -> Self {
        Builder::default().build()
    }

    /// A meter that is to be set up.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How brackets are timed here.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.roster.clock.timing()
    }

    /// Tracks one more stream, until the last of its handles is gone.
    #[must_use]
    pub fn track(&self, class: StreamClass) -> StreamMeter {
        StreamMeter::new(class, self.roster.clock, Arc::clone(&self.roster))
    }

    /// How many streams are tracked.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.roster.streams.lock().tracked.len()
    }

    /// Splits what was used since the sample before over the streams.
    ///
    /// `total` is all that was ever used, a counter: [`process_cpu`](super::process_cpu), or the usage of the process's cgroup; read
    /// it next to `now`. With `None` each stream is charged what was measured.
    ///
    /// `None` is the answer to the first sample, which begins the first interval, and to one that comes too early (less than
    /// [`Builder::min_interval`] after the one before, at the same time, or before it): the interval then goes on. One that is more than
    /// 10 s before it is of a clock that was set anew, and begins the first interval again.
    #[must_use]
    pub fn sample(&self, now: Instant, total: Option<Duration>) -> Option<Split> {
        let Roster { clock, window, min_interval, parallelism, streams } = &*self.roster;
        let stamp = clock.stamp(now);
        let mut streams = streams.lock();
        let Streams { ledger, tracked, departed } = &mut *streams;
        let interval = match ledger.sample(now, total, *min_interval) {
            Ends::Begins => None,
            Ends::Interval(interval) => Some(interval),
            Ends::TooEarly => return None,
        };
        let most = interval.map_or(0, |interval| nanos(interval.elapsed).saturating_mul(u64::from(*parallelism)));
        let departed = std::mem::take(departed);
        let costs = tracked.iter_mut().map(|(&id, (account, fold))| {
            let reading = account.read(stamp);
            let weight = fold.advance(reading.charged, most);
            fold.cost(id, reading.class, weight, reading.open_for.map(Duration::from_nanos))
        });
        let costs = costs.collect();
        Some(split(interval?, costs, tracked.values_mut().map(|(_, fold)| fold), departed, *window))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("timing", &self.timing()).field("streams", &self.streams()).finish_non_exhaustive()
    }
}
