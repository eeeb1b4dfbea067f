//! Who would be let go, and why: for an operator who asks.

use std::{cmp::Reverse, fmt};

use super::{
    state::Phase,
    victims::{Candidate, Spared},
};

/// The answer to "who goes, and why", as of the last step; also in mode observe, and when nothing is wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation<K> {
    /// Where the evictor stands.
    pub phase: Phase,
    /// Usage over quota.
    pub usage_ratio: Option<f64>,
    /// Demand over quota.
    pub demand_ratio: Option<f64>,
    /// What would have to go to reach the target, in cores; negative: what there is room for.
    pub excess_cores: Option<f64>,
    /// All streams: those that would go now, those that would be next, in their order, and those that are spared, the costliest first.
    pub streams: Vec<Explained<K>>,
}

/// One stream of an [`Explanation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained<K> {
    /// Which.
    pub id: K,
    /// What the policy knows of it.
    pub candidate: Candidate,
    /// Its score, if the policy ranks it and nothing spares it.
    pub score: Option<f64>,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is in the round, if one came now.
    Chosen,
    /// It may go, and is not needed.
    Next,
    /// It may not go.
    Spared(Spared),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("would go"),
            Self::Next => f.write_str("may go"),
            Self::Spared(why) => write!(f, "stays, {why}"),
        }
    }
}

impl<K> Explanation<K> {
    /// Those of the round that would come now, in the order of their going.
    pub fn chosen(&self) -> impl Iterator<Item = &Explained<K>> {
        self.streams.iter().filter(|stream| stream.fate == Fate::Chosen)
    }

    /// Who would be next after those.
    #[must_use]
    pub fn next(&self) -> Option<&Explained<K>> {
        self.streams.iter().find(|stream| stream.fate == Fate::Next)
    }

    pub(super) fn sort(&mut self) {
        // The order of those that may go is the policy's, and `sort_by` keeps it.
        self.streams.sort_by(|a, b| {
            let place = |fate: Fate| match fate {
                Fate::Chosen => 0,
                Fate::Next => 1,
                Fate::Spared(_) => 2,
            };
            let order = place(a.fate).cmp(&place(b.fate));
            let both_spared = order.is_eq() && place(a.fate) == 2;
            if both_spared { b.candidate.cost_cores.total_cmp(&a.candidate.cost_cores) } else { order }
        });
    }

    /// Why streams were spared, and how many each; the most frequent first.
    pub(super) fn tally(spared: impl Iterator<Item = Spared>) -> Vec<(Spared, usize)> {
        let mut tally: Vec<(Spared, usize)> = Vec::new();
        for why in spared {
            match tally.iter_mut().find(|(other, _)| *other == why) {
                Some((_, count)) => *count += 1,
                None => tally.push((why, 1)),
            }
        }
        tally.sort_by_key(|(why, count)| (Reverse(*count), *why));
        tally
    }
}

impl<K: fmt::Display> fmt::Display for Explanation<K> {
    /// One line on the whole, one per stream.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.3}"));
        write!(f, "{}: usage {} and demand {} of the quota, ", self.phase, or(self.usage_ratio), or(self.demand_ratio))?;
        match self.excess_cores {
            Some(excess) if excess > 0.0 => writeln!(f, "{excess:.3} cores too many")?,
            Some(excess) => writeln!(f, "room for {:.3} cores", excess.abs())?,
            None => writeln!(f, "excess unknown")?,
        }
        for Explained { id, candidate, score, fate } in &self.streams {
            let Candidate { class, burn_cores, cost_cores, age, evictions_so_far, .. } = candidate;
            write!(
                f,
                "{id} {class} burns {burn_cores:.3}, would free {cost_cores:.3}, is {age:.0?} old, was evicted {evictions_so_far} times"
            )?;
            match score {
                Some(score) if !matches!(fate, Fate::Spared(_)) => writeln!(f, ": {fate}, score {score:.3}")?,
                _ => writeln!(f, ": {fate}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::StreamClass;

    #[test]
    fn text_says_what_there_is_room_for_and_rounds_ages() {
        let (age, resume_cost) = (Duration::from_nanos(3_945_192_758), Duration::ZERO);
        let candidate =
            Candidate { age, burn_cores: 0.25, class: StreamClass::Dev, cost_cores: 0.5, evictions_so_far: 0, resume_cost };
        let stream = Explained { id: 7, candidate, score: None, fate: Fate::Spared(Spared::TooYoung) };
        let of = |ratio, excess_cores, streams| Explanation {
            phase: Phase::Healthy,
            usage_ratio: ratio,
            demand_ratio: ratio,
            excess_cores,
            streams,
        };
        let head = |ratio, excess| of(ratio, excess, Vec::<Explained<u32>>::new()).to_string();
        assert_eq!(head(Some(1.0), Some(0.5)), "healthy: usage 1.000 and demand 1.000 of the quota, 0.500 cores too many\n");
        assert_eq!(head(Some(0.5), Some(-0.115)), "healthy: usage 0.500 and demand 0.500 of the quota, room for 0.115 cores\n");
        assert_eq!(head(None, None), "healthy: usage unknown and demand unknown of the quota, excess unknown\n");
        let text = of(None, None, vec![stream]).to_string();
        let line = "7 dev burns 0.250, would free 0.500, is 4s old, was evicted 0 times: stays, too young";
        assert_eq!(text.lines().nth(1), Some(line));
    }
}
