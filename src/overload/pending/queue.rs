//! In which order those who wait are let in, and until when they wait: no clock, no lock, no wakers.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use crate::{load::StreamClass, overload::admission::Claim, sync::PlainArc};

/// A place in the queue, never given out twice. They are served in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The round in which it is its identity's turn.
    turn: u64,
    /// Order of arrival.
    number: u64,
}

/// Who waits.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) class: StreamClass,
    pub(crate) claim: Claim,
    pub(crate) since: Instant,
}

/// Those who wait, first come, first served between identities that have as much: the first of each identity comes before the second of
/// any (start-time fair queueing, all of the same weight). Who has no identity is one of his own. A place is for good: where somebody gives
/// up, those behind him stay where they are, and who comes next takes the turn that he left if it was the last of his identity.
///
/// * **Q1** `lanes` has those identities that wait, with the turns of theirs in order: no two are the same.
/// * **Q2** `turn` is the highest of those that were served: nobody is given an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By class, so that those who fit are found without a look at all who do not.
    entries: BTreeMap<StreamClass, BTreeMap<Place, Entry>>,
    lanes: BTreeMap<PlainArc<str>, VecDeque<u64>>,
    turn: u64,
    arrivals: u64,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(BTreeMap::len).sum()
    }

    /// Puts it where it belongs.
    pub(crate) fn enter(&mut self, entry: Entry) -> Place {
        let mut turn = self.turn;
        if let Some(identity) = entry.claim.identity() {
            let turns = self.lanes.entry(PlainArc::clone(identity)).or_default();
            turn = turns.back().map_or(turn, |last| turn.max(last + 1));
            turns.push_back(turn);
        }
        self.arrivals += 1;
        let place = Place { turn, number: self.arrivals };
        self.entries.entry(entry.class).or_default().insert(place, entry);
        place
    }

    /// Takes it out, wherever it stands.
    pub(crate) fn leave(&mut self, place: Place) -> Option<Entry> {
        let entry = self.entries.values_mut().find_map(|of_class| of_class.remove(&place))?;
        if let Some((identity, turns)) =
            entry.claim.identity().and_then(|identity| Some((identity, self.lanes.get_mut(identity)?)))
        {
            if let Ok(index) = turns.binary_search(&place.turn) {
                turns.remove(index);
            }
            if turns.is_empty() {
                self.lanes.remove(identity);
            }
        }
        Some(entry)
    }

    /// Takes out the first of the classes that `fit`. Those before it stay where they are.
    pub(crate) fn serve(&mut self, fits: impl Fn(StreamClass) -> bool) -> Option<(Place, Entry)> {
        let fitting = self.entries.iter().filter(|(class, _)| fits(**class));
        let place = *fitting.filter_map(|(_, of_class)| of_class.keys().next()).min()?;
        self.turn = self.turn.max(place.turn);
        self.leave(place).map(|entry| (place, entry))
    }

    /// Takes out those that have waited for `limit`. A clock that goes back only makes it later.
    pub(crate) fn expire(&mut self, now: Instant, limit: Duration) -> Vec<(Place, Entry)> {
        let is_over = |entry: &Entry| now.saturating_duration_since(entry.since) >= limit;
        let mut places: Vec<_> = self.all().filter(|(_, entry)| is_over(entry)).map(|(place, _)| *place).collect();
        places.sort_unstable();
        places.into_iter().filter_map(|place| self.leave(place).map(|entry| (place, entry))).collect()
    }

    /// How long the oldest waits.
    pub(crate) fn oldest(&self, now: Instant) -> Option<Duration> {
        self.all().map(|(_, entry)| now.saturating_duration_since(entry.since)).max()
    }

    fn all(&self) -> impl Iterator<Item = (&Place, &Entry)> {
        self.entries.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::admission::{AdmissionLimits, Ledger};

    struct Fixture {
        ledger: Ledger,
        queue: Queue,
        began: Instant,
        names: BTreeMap<Place, &'static str>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                ledger: Ledger::new(AdmissionLimits::default()),
                queue: Queue::default(),
                began: Instant::now(),
                names: BTreeMap::new(),
            }
        }

        /// The identity is the first letter of the name; `-`: none.
        fn enter(&mut self, name: &'static str, class: StreamClass, at: u64) -> Place {
            let identity = Some(&name[..1]).filter(|identity| *identity != "-");
            let claim = self.ledger.claim(identity).unwrap();
            let since = self.began + Duration::from_secs(at);
            let place = self.queue.enter(Entry { class, claim, since });
            assert_eq!(self.names.insert(place, name), None, "a place is given out once");
            place
        }

        fn serve(&mut self) -> Option<&'static str> {
            let (place, entry) = self.queue.serve(|_| true)?;
            self.ledger.unclaim(entry.claim);
            Some(self.names[&place])
        }

        fn all(&mut self) -> Vec<&'static str> {
            std::iter::from_fn(|| self.serve()).collect()
        }
    }

    #[test]
    fn who_comes_first_is_served_first() {
        let mut fixture = Fixture::new();
        // Whatever their classes.
        for (name, class) in ["a", "b", "-1", "c", "-2"].into_iter().zip([
            StreamClass::Live,
            StreamClass::Cached,
            StreamClass::Dev,
            StreamClass::CatchUp,
            StreamClass::Live,
        ]) {
            fixture.enter(name, class, 0);
        }
        assert_eq!(fixture.all(), ["a", "b", "-1", "c", "-2"]);
        assert!(fixture.queue.lanes.is_empty(), "identities that do not wait are forgotten");
    }

    #[test]
    fn one_identity_that_floods_the_queue_does_not_keep_others_waiting() {
        let mut fixture = Fixture::new();
        for name in ["a1", "a2", "a3", "a4", "b1", "c1", "b2"] {
            fixture.enter(name, StreamClass::Live, 0);
        }
        assert_eq!([(); 4].map(|()| fixture.serve().unwrap()), ["a1", "b1", "c1", "a2"]);
        // Later arrivals begin with the turn that is on.
        fixture.enter("d1", StreamClass::Live, 0);
        fixture.enter("-x", StreamClass::Live, 0);
        assert_eq!(fixture.all(), ["b2", "d1", "-x", "a3", "a4"]);
    }

    #[test]
    fn who_does_not_fit_keeps_the_place_and_lets_others_pass() {
        let mut fixture = Fixture::new();
        fixture.enter("a", StreamClass::CatchUp, 0);
        fixture.enter("b", StreamClass::Live, 0);
        fixture.enter("c", StreamClass::CatchUp, 0);
        let (place, entry) = fixture.queue.serve(|class| class == StreamClass::Live).unwrap();
        assert_eq!(fixture.names[&place], "b");
        fixture.ledger.unclaim(entry.claim);
        assert!(fixture.queue.serve(|class| class == StreamClass::Dev).is_none());
        assert_eq!(fixture.all(), ["a", "c"]);
    }

    #[test]
    fn who_leaves_is_gone_once() {
        let mut fixture = Fixture::new();
        let places = ["a1", "a2", "b1"].map(|name| fixture.enter(name, StreamClass::Live, 0));
        let entry = fixture.queue.leave(places[1]).unwrap();
        fixture.ledger.unclaim(entry.claim);
        assert!(fixture.queue.leave(places[1]).is_none());
        assert_eq!(fixture.all(), ["a1", "b1"]);
    }

    #[test]
    fn who_gives_up_and_comes_again_falls_no_further_behind_others() {
        let mut fixture = Fixture::new();
        fixture.enter("a1", StreamClass::Live, 0);
        // A client that waits for less long than we would have it wait, and comes again each time.
        for _ in 0..5 {
            let place = fixture.enter("a2", StreamClass::Live, 0);
            let entry = fixture.queue.leave(place).unwrap();
            fixture.ledger.unclaim(entry.claim);
        }
        for name in ["a2", "b1", "b2", "b3"] {
            fixture.enter(name, StreamClass::Live, 0);
        }
        assert_eq!(fixture.all(), ["a1", "b1", "a2", "b2", "b3"]);
        // Of three the middle one goes: the turns of the others stay.
        let places = ["c1", "c2", "c3"].map(|name| fixture.enter(name, StreamClass::Live, 0));
        let entry = fixture.queue.leave(places[1]).unwrap();
        fixture.ledger.unclaim(entry.claim);
        for name in ["c4", "d1", "d2", "d3", "d4"] {
            fixture.enter(name, StreamClass::Live, 0);
        }
        assert_eq!(fixture.all(), ["c1", "d1", "d2", "c3", "d3", "c4", "d4"]);
        assert!(fixture.queue.lanes.is_empty() && fixture.queue.len() == 0);
    }

    #[test]
    fn those_who_do_not_fit_are_not_looked_at() {
        let mut fixture = Fixture::new();
        for _ in 0..1_000 {
            fixture.enter("a", StreamClass::CatchUp, 0);
        }
        fixture.enter("b", StreamClass::Live, 0);
        let looks = std::cell::Cell::new(0);
        let is_live = |class| {
            looks.set(looks.get() + 1);
            class == StreamClass::Live
        };
        let (place, entry) = fixture.queue.serve(is_live).unwrap();
        fixture.ledger.unclaim(entry.claim);
        assert_eq!(fixture.names[&place], "b");
        assert!(fixture.queue.serve(is_live).is_none());
        assert!(looks.get() <= 8, "once for each class: {}", looks.get());
        assert_eq!(fixture.queue.len(), 1_000);
    }

    #[test]
    fn waiting_ends_at_the_limit_and_not_before() {
        let mut fixture = Fixture::new();
        let limit = Duration::from_secs(10);
        let late = fixture.enter("a", StreamClass::Live, 2);
        let first = fixture.enter("b", StreamClass::Live, 1);
        let at = |seconds| fixture.began + Duration::from_secs(seconds);
        let (nine, eleven, twelve) = (at(10), at(11), at(12));
        let expire = |fixture: &mut Fixture, now, limit| -> Vec<_> {
            fixture.queue.expire(now, limit).into_iter().map(|(place, _)| place).collect()
        };
        assert_eq!(expire(&mut fixture, nine, limit), []);
        assert_eq!(fixture.queue.oldest(nine), Some(Duration::from_secs(9)));
        assert_eq!(expire(&mut fixture, eleven, limit), [first]);
        assert_eq!(expire(&mut fixture, eleven, limit), []);
        // A clock that goes back expires nobody.
        let began = fixture.began;
        assert_eq!(expire(&mut fixture, began, Duration::from_nanos(1)), []);
        assert_eq!(expire(&mut fixture, twelve, limit), [late]);
        assert_eq!((fixture.queue.len(), fixture.queue.oldest(twelve)), (0, None));
    }
}
