//! Which instances end when there are more than recommended, and which stay for now.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use super::{
    amount::{Amount, MILLION},
    settings::IDLE_LIMIT,
};

/// Below this an instance that is not recommended may go at once. Source: Cloud Run, 10 % over one minute.
const LOW: u64 = MILLION / 10;

/// What is known of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance<I> {
    /// Which one.
    pub id: I,
    /// Its utilisation over the last minute, the larger of that of its CPUs and of its concurrency. `None`: not known.
    pub utilisation: Option<f64>,
    /// Requests in flight now.
    pub in_flight: u64,
    /// When it last had a request.
    pub last_active: Instant,
}

/// What becomes of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It ends: its utilisation was below 10 % over the last minute (group 1).
    EndLow,
    /// It ends: it was kept in reserve, and had no request for the idle limit (group 2).
    EndIdle,
    /// It gets requests only when all recommended ones are busy, and has some: nobody's request is cut.
    KeepBusy,
    /// It gets requests only when all recommended ones are busy, and ends when idle for the limit (group 2).
    KeepReserve,
    /// It told nothing that could be used: whether it may go is not known.
    KeepUnknown,
    /// It gets requests only when all recommended ones are busy, and was used by 10 % or more.
    KeepUsed,
    /// Requests go to it first.
    Recommended,
}

impl Fate {
    /// Whether it ends now.
    #[must_use]
    pub fn ends(self) -> bool {
        matches!(self, Self::EndIdle | Self::EndLow)
    }

    /// Whether it is one of those that get requests last.
    #[must_use]
    pub fn is_deprioritised(self) -> bool {
        self != Self::Recommended
    }
}

/// Which instances end. Source: Cloud Run, whose two groups these are; who is in which is not documented there, and decided here.
///
/// Recommended are the most used ones; among equals, those active last; then the lowest id. Of the others, those that were used by less than
/// 10 % over the last minute and have no request end, but for a reserve: as many as set of those active last, which end when they had no
/// request for the idle limit.
///
/// # Examples
/// ```
/// use std::time::Instant;
/// use keywake::scaling::{Fate, Instance, ScaleDown};
///
/// let now = Instant::now();
/// let instance = |id, utilisation| Instance { id, utilisation: Some(utilisation), in_flight: 0, last_active: now };
/// let fates = ScaleDown::new().plan(&[instance("a", 0.01), instance("b", 0.5), instance("c", 0.12)], 1, now);
/// assert_eq!(fates, [Fate::EndLow, Fate::Recommended, Fate::KeepUsed]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleDown {
    idle_limit: Duration,
    reserve: usize,
    min: u32,
}

impl Default for ScaleDown {
    fn default() -> Self {
        Self::new()
    }
}

impl ScaleDown {
    /// With an idle limit of 15 min, no reserve, and no minimum.
    #[must_use]
    pub fn new() -> Self {
        Self { idle_limit: IDLE_LIMIT, reserve: 0, min: 0 }
    }

    /// For how long an instance in reserve is without a request before it ends. Default 15 min; Cloud Run has 10 min for those with a GPU.
    #[must_use]
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// How many are kept in reserve. Default 0.
    #[must_use]
    pub fn reserve(mut self, instances: usize) -> Self {
        self.reserve = instances;
        self
    }

    /// How many never end, whatever is recommended. Default 0.
    #[must_use]
    pub fn min(mut self, instances: u32) -> Self {
        self.min = instances;
        self
    }

    /// What becomes of each, in their order. `recommended` is [`Decision::count`](super::Decision::count).
    #[must_use]
    pub fn plan<I: Ord>(&self, instances: &[Instance<I>], recommended: u32, now: Instant) -> Vec<Fate> {
        let used = |index: usize| instances.get(index).and_then(|instance| Amount::read(instance.utilisation).ok());
        let mut order: Vec<(usize, &Instance<I>)> = instances.iter().enumerate().collect();
        order.sort_by(|(one, a), (other, b)| {
            let key = |index, instance: &Instance<I>| Reverse((used(index), instance.last_active));
            key(*one, a).cmp(&key(*other, b)).then_with(|| a.id.cmp(&b.id))
        });
        let stay = usize::try_from(recommended.max(self.min)).unwrap_or(usize::MAX).min(order.len());
        let mut fates = vec![Fate::Recommended; instances.len()];
        let mut low = order.split_off(stay);
        low.retain(|(index, instance)| {
            fates[*index] = match used(*index) {
                _ if instance.in_flight > 0 => Fate::KeepBusy,
                None => Fate::KeepUnknown,
                Some(used) if used.millionths() >= LOW => Fate::KeepUsed,
                Some(_) => return true,
            };
            false
        });
        low.sort_by(|(_, a), (_, b)| b.last_active.cmp(&a.last_active).then_with(|| a.id.cmp(&b.id)));
        for (place, (index, instance)) in low.into_iter().enumerate() {
            let is_idle = now.saturating_duration_since(instance.last_active) >= self.idle_limit;
            fates[index] = match place < self.reserve {
                true if is_idle => Fate::EndIdle,
                true => Fate::KeepReserve,
                false => Fate::EndLow,
            };
        }
        fates
    }
}
