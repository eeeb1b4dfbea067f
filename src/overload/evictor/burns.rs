//! What each stream burns: the growth of its counter over the last ticks.

use std::time::{Duration, Instant};

use super::{demand::TICKS, memory::Brought};
use crate::load::StreamClass;

/// One stream, as the driver sees it at a tick.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamSample<K> {
    /// What it is called here; evictions name it. One that comes back under the same id begins anew, if its `started` differs.
    pub id: K,
    /// What kind of stream it is now; it may change.
    pub class: StreamClass,
    /// When it began.
    pub started: Instant,
    /// Processor time since it began, what is under way included: a counter that does not fall.
    pub cpu: Duration,
    /// A hash of what comes back when it is evicted: this client's request, not the client. With it, the stream is spared for the cool-off
    /// wherever it turns up again under it; two requests of one client are two.
    pub identity: Option<u64>,
    /// On how many processors it can run at once, 1 for a plain task: bounds what it can have burnt. `None`: not known.
    pub parallelism: Option<f64>,
    /// Where it is, for the log: a block, a sequence number.
    pub position: Option<u64>,
    /// How much work would have to be done again if it were evicted.
    pub resume_cost: Duration,
    /// How often it was evicted elsewhere, as its client tells. Only to be taken from a token that was signed: it spares its bearer.
    pub evictions_so_far: u32,
    /// When it was evicted last, as its client tells.
    pub last_evicted: Option<Instant>,
}

impl<K> StreamSample<K> {
    /// A stream of which nothing is known but this.
    #[must_use]
    pub fn new(id: K, class: StreamClass, started: Instant, cpu: Duration) -> Self {
        Self {
            id,
            class,
            started,
            cpu,
            identity: None,
            parallelism: None,
            position: None,
            resume_cost: Duration::ZERO,
            evictions_so_far: 0,
            last_evicted: None,
        }
    }
}

/// What is kept of a stream from tick to tick.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) class: StreamClass,
    pub(super) started: Instant,
    pub(super) identity: Option<u64>,
    pub(super) position: Option<u64>,
    pub(super) resume_cost: Duration,
    pub(super) brought: Brought,
    parallelism: Option<f64>,
    /// The evictor's time and the counter, the oldest first.
    points: [(Duration, Duration); TICKS + 1],
    len: usize,
    /// In cores, over the last ticks. `None`: seen only once.
    burn: Option<f64>,
    /// When it was told to go, or would have been, by the evictor's time.
    pub(super) taken: Option<Duration>,
    seen: u64,
}

impl Tracked {
    fn new<K>(sample: &StreamSample<K>) -> Self {
        Self {
            class: sample.class,
            started: sample.started,
            identity: None,
            position: None,
            resume_cost: Duration::ZERO,
            brought: Brought::default(),
            parallelism: None,
            points: [(Duration::ZERO, Duration::ZERO); TICKS + 1],
            len: 0,
            burn: None,
            taken: None,
            seen: 0,
        }
    }

    fn observe<K>(&mut self, sample: &StreamSample<K>, time: Duration) {
        self.class = sample.class;
        self.identity = sample.identity;
        self.position = sample.position;
        self.resume_cost = sample.resume_cost;
        self.brought = Brought { times: sample.evictions_so_far, last: sample.last_evicted };
        self.parallelism = sample.parallelism.filter(|most| most.is_finite() && *most > 0.0);
        let last = self.len.checked_sub(1).map(|last| self.points[last]);
        if last.is_some_and(|(at, _)| at >= time) {
            return;
        }
        let fell = last.is_some_and(|(_, cpu)| cpu > sample.cpu);
        if fell {
            // Based anew, with a burn of nothing: two points, so that it counts as sampled.
            let at = last.map_or(time, |(at, _)| at);
            self.points[0] = (at, sample.cpu);
            self.len = 1;
        } else if self.len == self.points.len() {
            self.points.rotate_left(1);
            self.len -= 1;
        }
        self.points[self.len] = (time, sample.cpu);
        self.len += 1;
        self.burn = self.measured();
    }

    fn measured(&self) -> Option<f64> {
        let (first, last) = (self.points[0], self.points[self.len.checked_sub(1)?]);
        let time = last.0.saturating_sub(first.0).as_secs_f64();
        let burn = last.1.saturating_sub(first.1).as_secs_f64() / time;
        (self.len > 1 && burn.is_finite()).then(|| self.parallelism.map_or(burn, |most| burn.min(most)))
    }
}

/// All streams of the last tick.
#[derive(Debug)]
pub(super) struct Burns<K> {
    /// In the order of their ids: a tick goes through both once, in the order in which they lie in memory.
    streams: Vec<(K, Tracked)>,
    turn: u64,
    /// By what burns are multiplied, so that they are not more than the process used.
    scale: f64,
    /// What the process used beyond them, in cores.
    pub(super) unattributed_cores: f64,
    /// The sum over all, scaled, in cores.
    pub(super) attributed_cores: f64,
    /// The highest, scaled, in cores.
    pub(super) highest_cores: f64,
}

impl<K: Clone + Ord> Burns<K> {
    pub(super) fn new() -> Self {
        Self { streams: Vec::new(), turn: 0, scale: 1.0, unattributed_cores: 0.0, attributed_cores: 0.0, highest_cores: 0.0 }
    }

    /// Takes the streams of one tick; who is not among them is forgotten.
    pub(super) fn observe(&mut self, streams: &[StreamSample<K>], time: Duration) {
        self.turn = self.turn.wrapping_add(1);
        if streams.is_sorted_by(|one, next| one.id <= next.id) {
            self.merge(streams.iter(), time);
        } else {
            let mut sorted: Vec<_> = streams.iter().collect();
            sorted.sort_by(|one, other| one.id.cmp(&other.id));
            self.merge(sorted.into_iter(), time);
        }
        let turn = self.turn;
        self.streams.retain(|(_, tracked)| tracked.seen == turn);
        if self.streams.capacity() > 64 && self.streams.len() < self.streams.capacity() / 8 {
            self.streams.shrink_to(self.streams.len() * 2);
        }
    }

    /// Of samples in the order of their ids. One that is told twice counts as it was told first.
    fn merge<'a>(&mut self, samples: impl Iterator<Item = &'a StreamSample<K>>, time: Duration)
    where
        K: 'a,
    {
        let (known, turn) = (self.streams.len(), self.turn);
        let mut next = 0;
        for sample in samples {
            while next < known && self.streams[next].0 < sample.id {
                next += 1;
            }
            let place = if next < known && self.streams[next].0 == sample.id {
                next
            } else {
                if self.streams.len() == known || self.streams.last().is_some_and(|(id, _)| *id != sample.id) {
                    self.streams.push((sample.id.clone(), Tracked::new(sample)));
                }
                self.streams.len() - 1
            };
            let (_, tracked) = &mut self.streams[place];
            if tracked.seen == turn {
                continue;
            }
            if tracked.started != sample.started {
                *tracked = Tracked::new(sample);
            }
            tracked.observe(sample, time);
            tracked.seen = turn;
        }
        // Who comes mostly has the highest id yet; otherwise two sorted parts become one.
        if known > 0 && self.streams.get(known).is_some_and(|(id, _)| *id < self.streams[known - 1].0) {
            self.streams.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
    }

    /// Relates the streams' burns to what the process used. Cheap clocks overstate the burn of what waits for a processor, so the sum is cut
    /// to the total; what is missing of it is nobody's.
    pub(super) fn relate(&mut self, own_cores: f64) {
        let (mut sum, mut highest) = (0.0_f64, 0.0_f64);
        for burn in self.streams.iter().filter_map(|(_, tracked)| tracked.burn) {
            sum += burn;
            highest = highest.max(burn);
        }
        self.scale = if sum > own_cores { own_cores / sum } else { 1.0 };
        self.attributed_cores = sum * self.scale;
        self.highest_cores = highest * self.scale;
        self.unattributed_cores = (own_cores - self.attributed_cores).max(0.0);
    }

    /// In cores, scaled.
    pub(super) fn burn(&self, tracked: &Tracked) -> Option<f64> {
        tracked.burn.map(|burn| burn * self.scale)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Tracked)> {
        self.streams.iter().map(|(id, tracked)| (id, tracked))
    }

    fn place(&self, id: &K) -> Option<usize> {
        self.streams.binary_search_by(|(other, _)| other.cmp(id)).ok()
    }

    pub(super) fn get(&self, id: &K) -> Option<&Tracked> {
        self.place(id).map(|place| &self.streams[place].1)
    }

    pub(super) fn take(&mut self, id: &K, time: Duration) {
        if let Some(place) = self.place(id) {
            self.streams[place].1.taken = Some(time);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }
}
