//! Who holds what, and whether one more may come: counts and limits, without clock and lock.

use std::collections::HashMap;

use super::{AdmissionLimits, RefusalReason};
use crate::{load::StreamClass, sync::PlainArc};

/// One of the streams that are counted. It is given back to the ledger that gave it out, once.
#[derive(Debug)]
#[must_use = "a seat that is not given back is never free again"]
pub(crate) struct Seat {
    pub(crate) class: StreamClass,
    pub(crate) claim: Claim,
}

/// One of what an identity may have. It is given back to the ledger that gave it out, once.
#[derive(Debug)]
#[must_use = "a claim that is not given back is never free again"]
pub(crate) struct Claim(Option<PlainArc<str>>);

impl Claim {
    /// Of whom; `None`: of nobody in particular.
    pub(crate) fn identity(&self) -> Option<&PlainArc<str>> {
        self.0.as_ref()
    }
}

/// What is held, and what may be.
///
/// * **L1** `active` is the number of seats given out and not given back, `catching_up` that of those whose class catches up.
/// * **L2** `claims` has, for each identity, the number of its claims given out and not given back; never 0: who holds nothing is
///   forgotten.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: AdmissionLimits,
    /// What Cloud Run's rule allows at the moment.
    concurrency: Option<usize>,
    overloaded: bool,
    shut_down: bool,
    active: usize,
    catching_up: usize,
    claims: HashMap<PlainArc<str>, usize>,
}

/// Whether streams of the class count against the cap on catch-ups.
fn catches_up(class: StreamClass) -> bool {
    matches!(class, StreamClass::CatchUp | StreamClass::Cached)
}

impl Ledger {
    pub(crate) fn new(limits: AdmissionLimits) -> Self {
        Self { limits, concurrency: None, overloaded: false, shut_down: false, active: 0, catching_up: 0, claims: HashMap::new() }
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    pub(crate) fn catching_up(&self) -> usize {
        self.catching_up
    }

    /// How many identities hold or wait for something.
    pub(crate) fn identities(&self) -> usize {
        self.claims.len()
    }

    pub(crate) fn concurrency(&self) -> Option<usize> {
        self.concurrency
    }

    pub(crate) fn set_concurrency(&mut self, limit: Option<usize>) {
        self.concurrency = limit;
    }

    pub(crate) fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    pub(crate) fn set_overloaded(&mut self, overloaded: bool) {
        self.overloaded = overloaded;
    }

    pub(crate) fn shut_down(&mut self) {
        self.shut_down = true;
    }

    /// Whether the instance should be told to be ready, as far as this goes (`canAccept` of the source).
    pub(crate) fn is_accepting(&self) -> bool {
        let below_soft = self.limits.soft == 0 || self.active < self.limits.soft;
        !self.shut_down && !self.overloaded && below_soft
    }

    /// Why nobody at all is let in, whoever it is.
    pub(crate) fn closed(&self) -> Option<RefusalReason> {
        if self.shut_down {
            Some(RefusalReason::ShuttingDown)
        } else if self.overloaded {
            Some(RefusalReason::Overloaded)
        } else {
            None
        }
    }

    /// Counts one more for the identity.
    pub(crate) fn claim(&mut self, identity: Option<&str>) -> Result<Claim, RefusalReason> {
        let Some(identity) = identity else { return Ok(Claim(None)) };
        let limit = self.limits.per_identity;
        let Some((known, held)) = self.claims.get_key_value(identity) else {
            let identity: PlainArc<str> = PlainArc::from(identity);
            self.claims.insert(PlainArc::clone(&identity), 1);
            return Ok(Claim(Some(identity)));
        };
        if limit > 0 && *held >= limit {
            return Err(RefusalReason::IdentityLimit { limit });
        }
        let known = PlainArc::clone(known);
        if let Some(held) = self.claims.get_mut(identity) {
            *held += 1;
        }
        Ok(Claim(Some(known)))
    }

    pub(crate) fn unclaim(&mut self, claim: Claim) {
        let Some(identity) = claim.0 else { return };
        let Some(held) = self.claims.get_mut(&*identity) else { return };
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.claims.remove(&*identity);
            // Many who came at once and are gone leave no table behind.
            if self.claims.capacity() > 64 && self.claims.len() < self.claims.capacity() / 8 {
                self.claims.shrink_to(self.claims.len() * 2);
            }
        }
    }

    /// Why no further stream is let in, of whatever class.
    pub(crate) fn full(&self) -> Option<RefusalReason> {
        let hard = self.limits.hard;
        match self.concurrency {
            _ if hard > 0 && self.active >= hard => Some(RefusalReason::HardLimit { limit: hard }),
            Some(limit) if self.active >= limit => Some(RefusalReason::ConcurrencyLimit { limit }),
            _ => None,
        }
    }

    /// Why no further stream of this class is let in.
    pub(crate) fn obstacle(&self, class: StreamClass) -> Option<RefusalReason> {
        let limit = self.limits.catch_ups;
        let crowded = limit > 0 && catches_up(class) && self.catching_up >= limit;
        self.full().or_else(|| crowded.then_some(RefusalReason::CatchUpLimit { limit }))
    }

    /// Counts one more stream; gives the claim back where there is no room.
    pub(crate) fn sit(&mut self, class: StreamClass, claim: Claim) -> Result<Seat, (RefusalReason, Claim)> {
        if let Some(reason) = self.obstacle(class) {
            return Err((reason, claim));
        }
        self.active += 1;
        self.catching_up += usize::from(catches_up(class));
        Ok(Seat { class, claim })
    }

    pub(crate) fn rise(&mut self, seat: Seat) {
        self.active = self.active.saturating_sub(1);
        self.catching_up = self.catching_up.saturating_sub(usize::from(catches_up(seat.class)));
        self.unclaim(seat.claim);
    }

    /// Who is in stays in, also where the new class has no room.
    pub(crate) fn change_class(&mut self, seat: &mut Seat, class: StreamClass) {
        self.catching_up = self.catching_up.saturating_sub(usize::from(catches_up(seat.class))) + usize::from(catches_up(class));
        seat.class = class;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sit(ledger: &mut Ledger, class: StreamClass, identity: Option<&str>) -> Result<Seat, RefusalReason> {
        let claim = ledger.claim(identity)?;
        ledger.sit(class, claim).map_err(|(reason, claim)| {
            ledger.unclaim(claim);
            reason
        })
    }

    /// (soft, hard, active, is ready, is let in): section 1.2, with 0 for off.
    #[test]
    fn soft_limit_makes_unready_and_hard_limit_refuses() {
        let table = [
            (0, 0, 1000, true, true),
            (10, 0, 8, true, true),
            (10, 0, 9, true, true),
            (10, 0, 10, false, true),
            (10, 0, 11, false, true),
            (0, 10, 9, true, true),
            (0, 10, 10, true, false),
            (5, 10, 5, false, true),
            (5, 10, 10, false, false),
            (10, 10, 9, true, true),
            (10, 10, 10, false, false),
            (1, 1, 0, true, true),
        ];
        for (soft, hard, active, is_ready, is_let_in) in table {
            let mut ledger = Ledger::new(AdmissionLimits { soft, hard, ..AdmissionLimits::default() });
            let mut seats: Vec<_> = (0..active).map(|_| sit(&mut ledger, StreamClass::Live, None).unwrap()).collect();
            let case = (soft, hard, active);
            assert_eq!(ledger.is_accepting(), is_ready, "{case:?}");
            let arrival = sit(&mut ledger, StreamClass::Live, None);
            if let Ok(seat) = arrival {
                assert!(is_let_in, "{case:?}");
                // Unready on the arrival that makes count + 1 >= soft.
                assert_eq!(ledger.is_accepting(), soft == 0 || active + 1 < soft, "{case:?}");
                seats.push(seat);
            } else {
                assert!(!is_let_in, "{case:?}");
                assert_eq!(arrival.unwrap_err(), RefusalReason::HardLimit { limit: hard }, "{case:?}");
                assert_eq!(ledger.active(), active, "a refused arrival is not counted: {case:?}");
            }
            seats.into_iter().for_each(|seat| ledger.rise(seat));
            assert_eq!((ledger.active(), ledger.is_accepting()), (0, true), "{case:?}");
        }
    }

    #[test]
    fn identities_that_hold_nothing_are_forgotten() {
        let mut ledger = Ledger::new(AdmissionLimits { per_identity: 2, ..AdmissionLimits::default() });
        let seats: Vec<_> =
            (0..10_000).map(|number| sit(&mut ledger, StreamClass::Live, Some(&number.to_string())).unwrap()).collect();
        assert_eq!(ledger.identities(), 10_000);
        seats.into_iter().for_each(|seat| ledger.rise(seat));
        assert_eq!(ledger.identities(), 0);
        assert!(ledger.claims.capacity() < 200, "the table is given back: {}", ledger.claims.capacity());
    }

    #[test]
    fn identity_at_its_limit_is_refused_and_others_are_not() {
        let mut ledger = Ledger::new(AdmissionLimits { per_identity: 2, ..AdmissionLimits::default() });
        let one = sit(&mut ledger, StreamClass::Live, Some("a")).unwrap();
        let _two = sit(&mut ledger, StreamClass::Dev, Some("a")).unwrap();
        assert_eq!(sit(&mut ledger, StreamClass::Live, Some("a")).unwrap_err(), RefusalReason::IdentityLimit { limit: 2 });
        let _other = sit(&mut ledger, StreamClass::Live, Some("b")).unwrap();
        let _nobody = sit(&mut ledger, StreamClass::Live, None).unwrap();
        ledger.rise(one);
        assert!(sit(&mut ledger, StreamClass::Live, Some("a")).is_ok());
    }

    #[test]
    fn refused_for_want_of_room_holds_nothing_of_its_identity() {
        let mut ledger = Ledger::new(AdmissionLimits { hard: 1, per_identity: 1, ..AdmissionLimits::default() });
        let seat = sit(&mut ledger, StreamClass::Live, Some("a")).unwrap();
        for _ in 0..3 {
            assert_eq!(sit(&mut ledger, StreamClass::Live, Some("b")).unwrap_err(), RefusalReason::HardLimit { limit: 1 });
        }
        ledger.rise(seat);
        assert!(sit(&mut ledger, StreamClass::Live, Some("b")).is_ok());
    }

    #[test]
    fn catch_ups_are_capped_and_others_pass() {
        let mut ledger = Ledger::new(AdmissionLimits { catch_ups: 2, ..AdmissionLimits::default() });
        let mut one = sit(&mut ledger, StreamClass::CatchUp, None).unwrap();
        let _two = sit(&mut ledger, StreamClass::Cached, None).unwrap();
        for class in [StreamClass::CatchUp, StreamClass::Cached] {
            assert_eq!(sit(&mut ledger, class, None).unwrap_err(), RefusalReason::CatchUpLimit { limit: 2 });
        }
        let _live = sit(&mut ledger, StreamClass::Live, None).unwrap();
        let _dev = sit(&mut ledger, StreamClass::Dev, None).unwrap();
        ledger.change_class(&mut one, StreamClass::Live);
        assert_eq!(ledger.catching_up(), 1);
        assert!(sit(&mut ledger, StreamClass::CatchUp, None).is_ok());
        // It falls behind again: it stays, and nobody else comes until there is room.
        ledger.change_class(&mut one, StreamClass::CatchUp);
        assert_eq!(ledger.catching_up(), 3);
        assert!(sit(&mut ledger, StreamClass::CatchUp, None).is_err());
        ledger.rise(one);
        assert_eq!(ledger.catching_up(), 2);
    }

    #[test]
    fn lower_of_hard_and_adaptive_limit_counts() {
        let mut ledger = Ledger::new(AdmissionLimits { hard: 3, ..AdmissionLimits::default() });
        ledger.set_concurrency(Some(1));
        let _one = sit(&mut ledger, StreamClass::Live, None).unwrap();
        assert_eq!(sit(&mut ledger, StreamClass::Live, None).unwrap_err(), RefusalReason::ConcurrencyLimit { limit: 1 });
        ledger.set_concurrency(Some(10));
        let _more = [sit(&mut ledger, StreamClass::Live, None).unwrap(), sit(&mut ledger, StreamClass::Live, None).unwrap()];
        assert_eq!(sit(&mut ledger, StreamClass::Live, None).unwrap_err(), RefusalReason::HardLimit { limit: 3 });
        // A limit that falls below what is there sends nobody away.
        ledger.set_concurrency(Some(1));
        assert_eq!(ledger.active(), 3);
    }
}
