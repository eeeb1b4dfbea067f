//! Who of those that may go goes: the policy's interface, and the selection of one round.

use std::{cmp::Ordering, collections::HashSet, fmt, time::Duration};

use crate::load::StreamClass;

/// What a policy may know of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Since its stream began.
    pub age: Duration,
    /// What was measured of it over the last three ticks, in cores.
    pub burn_cores: f64,
    /// What kind of stream it is.
    pub class: StreamClass,
    /// What its end would free, in cores: its burn, and what of the demand that was not served is held to be its own.
    pub cost_cores: f64,
    /// How often it was evicted already, as far as anybody remembers.
    pub evictions_so_far: u32,
    /// How much work would have to be done again, as the host told.
    pub resume_cost: Duration,
}

/// Where a stream stands in the order in which streams are let go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// Lower ones go first, all of one tier before the next.
    pub tier: u32,
    /// Within a tier, higher ones go first; ties go by age, the oldest first, and then by id. What is no number lets nobody go.
    pub score: f64,
    /// Whether `cost_cores` says what its end frees. Where not, the floor on burn does not apply, and the stream ends its round: what it freed
    /// is measured first.
    pub cost_known: bool,
}

/// In which order streams are let go. [`ClassOrder`](super::ClassOrder) is the one that comes along.
///
/// A policy only ranks. What is too young, too cheap, cooling off or over a cap is spared by the evictor, whatever the policy says.
///
/// # Examples
/// ```
/// use keywake::overload::{evictor::{Candidate, Rank, VictimPolicy}};
/// /// Whose end loses the least work, per core that it frees.
/// #[derive(Debug)]
/// struct LeastLoss;
/// impl VictimPolicy for LeastLoss {
///     fn rank(&self, candidate: &Candidate) -> Option<Rank> {
///         let loss = candidate.resume_cost.as_secs_f64() + 1.0;
///         Some(Rank { tier: candidate.evictions_so_far, score: candidate.cost_cores / loss, cost_known: true })
///     }
/// }
/// let evictor = keywake::overload::evictor::EvictorBuilder::new().policy(LeastLoss).build::<u64>()?;
/// # Ok::<(), keywake::overload::evictor::SettingsError>(())
/// ```
pub trait VictimPolicy: fmt::Debug + Send + Sync + 'static {
    /// Where the stream stands; `None`: it is never let go.
    fn rank(&self, candidate: &Candidate) -> Option<Rank>;
}

/// The most streams of one class in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassCap {
    /// Of which class.
    pub class: StreamClass,
    /// How many.
    pub most: usize,
}

/// Why a stream is not let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Spared {
    /// It burns less than the floor.
    BelowFloor,
    /// The round has as many as it may, in all, of production, or of its class.
    Capped,
    /// Its identity was evicted within the cool-off, or by this very round.
    CoolsOff,
    /// Nobody else burns, and it fits the quota: it would burn as much wherever it goes.
    OnlyBurner,
    /// The mode is dev-only, and it is not.
    OnlyDevGoes,
    /// It was told to go, or (in mode observe) would have been.
    Taken,
    /// It is younger than the least age.
    TooYoung,
    /// The policy does not let it go.
    Unranked,
    /// It was seen only once: what it burns is not known.
    Unsampled,
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BelowFloor => "burns less than the floor",
            Self::Capped => "over the cap of a round",
            Self::CoolsOff => "its identity was evicted lately",
            Self::OnlyBurner => "the only one that burns, and it fits the quota",
            Self::OnlyDevGoes => "not dev, and the mode is dev-only",
            Self::Taken => "told to go already",
            Self::TooYoung => "too young",
            Self::Unranked => "its class is not in the order",
            Self::Unsampled => "seen only once",
        })
    }
}

/// One that may go.
#[derive(Debug)]
pub(super) struct Ranked<'a, K> {
    pub(super) id: &'a K,
    pub(super) identity: Option<u64>,
    pub(super) candidate: Candidate,
    pub(super) rank: Rank,
}

/// What one round must not exceed.
#[derive(Debug)]
pub(super) struct Caps<'a> {
    pub(super) round: usize,
    pub(super) production: usize,
    pub(super) classes: &'a [ClassCap],
}

/// Rounding errors of sums of burns are far below this, and nobody's burn is known that well.
const EXACT: f64 = 1e-6;

/// Who of two goes first. Ids differ, so no two are alike.
fn order<K: Ord>(one: &Ranked<'_, K>, other: &Ranked<'_, K>) -> Ordering {
    let by_score = other.rank.score.total_cmp(&one.rank.score);
    let by_age = other.candidate.age.cmp(&one.candidate.age);
    one.rank.tier.cmp(&other.rank.tier).then(by_score).then(by_age).then_with(|| one.id.cmp(other.id))
}

/// In the order in which they go.
pub(super) fn sort<K: Ord>(ranked: &mut [Ranked<'_, K>]) {
    ranked.sort_unstable_by(order);
}

/// So many are put in order at first, and twice as many as are each further time: of tens of thousands a round takes few.
const BLOCK: usize = 64;

/// The round so far.
struct Round<'a, 'k, K> {
    ranked: &'a mut [Ranked<'k, K>],
    /// So many of `ranked` are in order, before all others.
    sorted: usize,
    caps: &'a Caps<'a>,
    chosen: Vec<usize>,
    production: usize,
    /// How many of each class that has a cap, in the order of the caps.
    of_class: Vec<usize>,
    identities: HashSet<u64>,
}

impl<'a, 'k, K: Ord> Round<'a, 'k, K> {
    fn new(ranked: &'a mut [Ranked<'k, K>], sorted: usize, caps: &'a Caps<'a>) -> Self {
        let of_class = vec![0; caps.classes.len()];
        Self { ranked, sorted, caps, chosen: Vec::new(), production: 0, of_class, identities: HashSet::new() }
    }

    /// Puts in order, up to that one.
    fn sort_to(&mut self, index: usize) {
        if index < self.sorted {
            return;
        }
        let block = self.sorted.saturating_mul(2).max(BLOCK);
        let mut rest = &mut self.ranked[self.sorted..];
        if block < rest.len() {
            rest = rest.select_nth_unstable_by(block, order).0;
        }
        sort(rest);
        self.sorted += rest.len();
    }

    fn choose(&mut self, index: usize) {
        let one = &self.ranked[index];
        self.chosen.push(index);
        self.production += usize::from(one.candidate.class != StreamClass::Dev);
        for (count, cap) in self.of_class.iter_mut().zip(self.caps.classes) {
            *count += usize::from(cap.class == one.candidate.class);
        }
        self.identities.extend(one.identity);
    }

    /// Why that one may not come along any more.
    fn spared(&self, index: usize) -> Option<Spared> {
        let Ranked { candidate: Candidate { class, .. }, identity, .. } = &self.ranked[index];
        let production_full = *class != StreamClass::Dev && self.production >= self.caps.production;
        let class_full =
            || self.of_class.iter().zip(self.caps.classes).any(|(count, cap)| cap.class == *class && *count >= cap.most);
        if production_full || class_full() {
            return Some(Spared::Capped);
        }
        identity.is_some_and(|identity| self.identities.contains(&identity)).then_some(Spared::CoolsOff)
    }

    /// The one of least cost in `first`'s tier that still covers what is missing, if the greedy choice burns twice that, and if it is a
    /// tenth less: closer than that no burn is known, and the order decides.
    fn best_fit(&self, first: usize, missing: f64) -> usize {
        let tier = self.ranked[first].rank.tier;
        if self.ranked[first].candidate.cost_cores < 2.0 * missing {
            return first;
        }
        let most = 0.9 * self.ranked[first].candidate.cost_cores;
        let covers = |i: &usize| {
            let one = &self.ranked[*i];
            let fits = (missing - EXACT..=most).contains(&one.candidate.cost_cores);
            fits && one.rank.tier == tier && one.rank.cost_known
        };
        let fitting = (first..self.ranked.len()).filter(covers).filter(|i| self.spared(*i).is_none());
        let least = fitting.map(|i| (i, &self.ranked[i])).min_by(|(_, one), (_, other)| {
            // Those behind the ones in order lie anyhow.
            one.candidate.cost_cores.total_cmp(&other.candidate.cost_cores).then_with(|| order(one, other))
        });
        least.map_or(first, |(i, _)| i)
    }
}

/// The smallest number of streams, in their order, that free `excess` cores: indices into `ranked`, of which the first `sorted` are in
/// order, and more are put in order as it takes; and who was passed over.
pub(super) fn select<K: Ord>(
    ranked: &mut [Ranked<'_, K>],
    sorted: usize,
    excess: f64,
    caps: &Caps<'_>,
) -> (Vec<usize>, Vec<(usize, Spared)>) {
    let count = ranked.len();
    let mut round = Round::new(ranked, sorted, caps);
    let mut passed_over = Vec::new();
    let mut missing = excess;
    for index in 0..count {
        if missing <= EXACT || missing.is_nan() {
            break;
        }
        if round.chosen.len() >= caps.round {
            // Whatever their order.
            passed_over.extend((index..count).map(|index| (index, Spared::Capped)));
            break;
        }
        round.sort_to(index);
        if let Some(spared) = round.spared(index) {
            passed_over.push((index, spared));
            continue;
        }
        if !round.ranked[index].rank.cost_known {
            round.choose(index);
            break;
        }
        // Where it is another one than the next, it covers what is missing: nothing is put in order after it, and its index holds.
        let taken = round.best_fit(index, missing);
        missing -= round.ranked[taken].candidate.cost_cores;
        round.choose(taken);
    }
    (round.chosen, passed_over)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::evictor::order::ClassOrder;

    fn one(id: &u32, class: StreamClass, cost: f64, age: u64) -> Ranked<'_, u32> {
        let candidate = Candidate {
            age: Duration::from_secs(age),
            burn_cores: cost,
            class,
            cost_cores: cost,
            evictions_so_far: 0,
            resume_cost: Duration::ZERO,
        };
        let order = ClassOrder::new(&[StreamClass::Dev, StreamClass::Cached, StreamClass::Live]).unwrap();
        Ranked { id, identity: None, candidate, rank: order.rank(&candidate).unwrap() }
    }

    const IDS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    const NO_CAPS: Caps<'_> = Caps { round: usize::MAX, production: usize::MAX, classes: &[] };

    fn ids(mut ranked: Vec<Ranked<'_, u32>>, excess: f64, caps: &Caps<'_>) -> Vec<u32> {
        select(&mut ranked, 0, excess, caps).0.into_iter().map(|index| *ranked[index].id).collect()
    }

    #[test]
    fn classes_go_in_order_then_burn_then_age_then_id() {
        use StreamClass::{Dev, Live};
        let all = vec![
            one(&IDS[0], Live, 3.0, 100),
            one(&IDS[1], Dev, 0.2, 100),
            one(&IDS[2], Dev, 0.4, 100),
            one(&IDS[4], Dev, 0.4, 200),
            one(&IDS[3], Dev, 0.4, 100),
        ];
        assert_eq!(ids(all, 100.0, &NO_CAPS), [4, 2, 3, 1, 0]);
    }

    #[test]
    fn crossing_victim_is_included_and_none_after_it() {
        let burns = [0.9821, 0.9817, 0.9811, 0.9804, 0.98];
        let all = |n: usize| burns[..n].iter().zip(&IDS).map(|(burn, id)| one(id, StreamClass::Dev, *burn, 100)).collect();
        assert_eq!(ids(all(5), 3.672, &NO_CAPS), [0, 1, 2, 3]);
        assert_eq!(ids(all(3), 3.672, &NO_CAPS), [0, 1, 2], "three are not enough, and all there are");
        assert_eq!(ids(all(5), 0.0, &NO_CAPS), [0; 0]);
        assert_eq!(ids(all(5), -1.0, &NO_CAPS), [0; 0]);
        assert_eq!(ids(all(5), f64::NAN, &NO_CAPS), [0; 0]);
    }

    #[test]
    fn better_fitting_last_victim_goes_where_the_greedy_one_burns_twice_what_is_missing() {
        use StreamClass::{Dev, Live};
        let all = || vec![one(&IDS[0], Dev, 3.0, 100), one(&IDS[1], Dev, 0.15, 100), one(&IDS[2], Live, 0.11, 100)];
        assert_eq!(ids(all(), 0.1, &NO_CAPS), [1], "not the 3.0, and not of another class");
        assert_eq!(ids(all(), 0.2, &NO_CAPS), [0], "nothing smaller covers it");
        let closer = || vec![one(&IDS[0], Dev, 3.0, 100), one(&IDS[1], Dev, 1.7, 100)];
        assert_eq!(ids(closer(), 1.6, &NO_CAPS), [0], "less than twice what is missing");
        assert_eq!(ids(closer(), 1.5, &NO_CAPS), [1], "twice that");
        assert_eq!(ids(all(), 3.05, &NO_CAPS), [0, 1]);
        let alike = vec![one(&IDS[0], Dev, 1.0, 100), one(&IDS[1], Dev, 0.95, 100)];
        assert_eq!(ids(alike, 0.1, &NO_CAPS), [0], "hardly a difference: the order decides");
    }

    #[test]
    fn stream_of_unknown_cost_ends_its_round() {
        use StreamClass::{Cached, Dev, Live};
        let all = vec![
            one(&IDS[0], Dev, 0.5, 100),
            one(&IDS[1], Cached, 0.0, 100),
            one(&IDS[2], Cached, 0.0, 200),
            one(&IDS[3], Live, 2.0, 100),
        ];
        assert_eq!(ids(all, 2.0, &NO_CAPS), [0, 2]);
    }

    #[test]
    fn caps_hold_for_the_round_for_production_and_for_a_class() {
        use StreamClass::{Dev, Live};
        let all = || {
            let dev = IDS[..4].iter().map(|id| one(id, Dev, 1.0, 100));
            dev.chain(IDS[4..].iter().map(|id| one(id, Live, 1.0, 100))).collect::<Vec<_>>()
        };
        assert_eq!(ids(all(), 9.0, &Caps { round: 3, ..NO_CAPS }), [0, 1, 2]);
        assert_eq!(ids(all(), 9.0, &Caps { production: 1, ..NO_CAPS }), [0, 1, 2, 3, 4]);
        let classes = [ClassCap { class: Dev, most: 2 }, ClassCap { class: Live, most: 0 }];
        assert_eq!(ids(all(), 9.0, &Caps { classes: &classes, ..NO_CAPS }), [0, 1]);
    }

    #[test]
    fn one_identity_gives_one_victim_a_round() {
        let mut all: Vec<_> = IDS[..3].iter().map(|id| one(id, StreamClass::Dev, 1.0, 100)).collect();
        all[0].identity = Some(5);
        all[1].identity = Some(5);
        assert_eq!(ids(all, 3.0, &NO_CAPS), [0, 2]);
    }
    #[test]
    fn round_is_the_same_whether_all_are_in_order_or_as_many_as_it_takes() {
        use StreamClass::{Cached, Dev, Live};
        let mut state = 9_u64;
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % bound as u64).unwrap()
        };
        let all: Vec<u32> = (0..1_000).collect();
        let (mut long, mut fitted) = (0, 0);
        for _ in 0..300 {
            // Few costs and ages, so that many are alike but for their ids.
            let count = below(1_000);
            let make = |id, cost: u8, kind: usize, age: usize| {
                let class = [Dev, Live, Live, Cached][usize::from(kind > 40) + usize::from(kind > 70) + usize::from(kind > 98)];
                one(id, class, f64::from(1 + cost) / 100.0, age as u64)
            };
            let mut ranked: Vec<_> =
                all[..count].iter().map(|id| make(id, u8::try_from(below(40)).unwrap(), below(100), below(3))).collect();
            ranked.iter_mut().for_each(|one| one.identity = Some(below(400) as u64).filter(|identity| *identity < 300));
            ranked.sort_by_cached_key(|_| below(usize::MAX));
            let classes = [ClassCap { class: Dev, most: below(300) }];
            let caps = Caps {
                round: [usize::MAX, 50, 500][below(3)],
                production: [usize::MAX, below(200)][below(2)],
                classes: &classes[..below(2)],
            };
            let excess = [0.02, 1.0, 30.0, 500.0][below(4)] * f64::from(1 + u8::try_from(below(9)).unwrap());
            let mut sorted: Vec<_> = ranked.iter().map(|one| Ranked { ..*one }).collect();
            sort(&mut sorted);
            let (expected, spared) = select(&mut sorted, count, excess, &caps);
            let (chosen, passed_over) = select(&mut ranked, 0, excess, &caps);
            let names =
                |ranked: &[Ranked<'_, u32>], indices: &[usize]| indices.iter().map(|i| *ranked[*i].id).collect::<Vec<_>>();
            assert_eq!(names(&ranked, &chosen), names(&sorted, &expected), "{count} {excess} {caps:?}");
            let told = |ranked: &[Ranked<'_, u32>], told: &[(usize, Spared)]| {
                let mut told: Vec<_> = told.iter().map(|(i, why)| (*ranked[*i].id, *why)).collect();
                told.sort_unstable();
                told
            };
            assert_eq!(told(&ranked, &passed_over), told(&sorted, &spared), "{count} {excess} {caps:?}");
            long += usize::from(chosen.len() > BLOCK);
            fitted += usize::from(expected.windows(2).any(|pair| pair[1] > pair[0] + BLOCK));
        }
        assert!(long > 20 && fitted > 5, "{long} rounds of several blocks, {fitted} whose last one lay further back");
    }
}
