//! What the handles, the permits and those who wait share: one lock around counts and queue, and what is done when it is let go.
//!
//! * **S1** Room that is free and that one who waits may have is given to him before the lock is let go. So whoever waits could not be let
//!   in when the lock was last held, and who comes then takes nothing from him.
//! * **S2** Who was given room holds it until he takes it, and gives it back if he goes: the seat is in `waiting` until then.
//! * **S3** User code (wakers, the hook) runs outside of the lock.

use std::{
    collections::BTreeMap,
    fmt, mem,
    task::Waker,
    time::{Duration, Instant},
};

use super::{
    Admission, AdmissionLimits, AdmissionStats, Decision, Jitter, Ledger, Permit, Refusal, RefusalCounts, RefusalReason, Seat,
};
use crate::{
    hub::FirstPanic,
    load::StreamClass,
    overload::pending::{Admitting, Entry, Place, Queue},
    sync::{Arc, Mutex},
};

/// How it stands with one who waits.
enum Waiter {
    Granted(Seat),
    Refused(RefusalReason),
    /// `None`: not polled yet.
    Waiting(Option<Waker>),
}

struct State {
    ledger: Ledger,
    queue: Queue,
    /// Those of the queue, and those who were given an answer and have not taken it.
    waiting: BTreeMap<Place, Waiter>,
    jitter: Jitter,
    start_up: Duration,
    admitted: u64,
    refused: RefusalCounts,
    /// Whom to wake when the lock is let go.
    woken: Vec<Waker>,
}

/// What is called when [`Admission::is_accepting`](super::Admission::is_accepting) changes.
pub(crate) type Hook = Box<dyn Fn(&Admission) + Send + Sync>;

/// See the module.
pub(crate) struct Shared {
    limits: AdmissionLimits,
    hook: Option<Hook>,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(limits: AdmissionLimits, seed: u64, hook: Option<Hook>) -> Self {
        let state = State {
            ledger: Ledger::new(limits.clone()),
            queue: Queue::default(),
            waiting: BTreeMap::new(),
            jitter: Jitter::new(seed),
            start_up: limits.pending.start_up,
            admitted: 0,
            refused: RefusalCounts::default(),
            woken: Vec::new(),
        };
        Self { limits, hook, state: Mutex::new(state) }
    }

    /// Changes something, gives what became free to those who wait, and tells who is to know. What the change returns may come to be
    /// dropped here, by a panic of user code: it gives back by itself what it holds.
    fn change<R>(this: &Arc<Self>, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = this.state.lock();
        let was_accepting = state.ledger.is_accepting();
        let result = change(&mut state);
        state.grant();
        let woken = mem::take(&mut state.woken);
        let has_turned = state.ledger.is_accepting() != was_accepting;
        drop(state);
        let mut panics = FirstPanic::default();
        for waker in woken {
            panics.run(|| waker.wake());
        }
        if let Some(hook) = this.hook.as_ref().filter(|_| has_turned) {
            panics.run(|| hook(&Admission { shared: Arc::clone(this) }));
        }
        panics.go_on();
        result
    }

    pub(super) fn try_admit(this: &Arc<Self>, class: StreamClass, identity: Option<&str>) -> Decision {
        Self::change(this, |state| match state.arrive(class, identity) {
            Ok(seat) => Decision::Admit(Permit::new(Arc::clone(this), seat)),
            Err((reason, claim)) => {
                if let Some(claim) = claim {
                    state.ledger.unclaim(claim);
                }
                Decision::Reject(state.refuse(reason, &this.limits))
            }
        })
    }

    pub(super) fn admit(this: &Arc<Self>, class: StreamClass, identity: Option<&str>, now: Instant) -> Admitting {
        let length = this.limits.pending.length;
        Self::change(this, |state| match state.arrive(class, identity) {
            Ok(seat) => Admitting::decided(Decision::Admit(Permit::new(Arc::clone(this), seat))),
            Err((_, Some(claim))) if state.queue.len() < length => {
                let place = state.queue.enter(Entry { class, claim, since: now });
                state.waiting.insert(place, Waiter::Waiting(None));
                Admitting::queued(Arc::clone(this), place)
            }
            Err((mut reason, claim)) => {
                if let Some(claim) = claim {
                    state.ledger.unclaim(claim);
                    if length > 0 {
                        reason = RefusalReason::QueueFull { length };
                    }
                }
                Admitting::decided(Decision::Reject(state.refuse(reason, &this.limits)))
            }
        })
    }

    /// What who waits there was answered; or the waker is kept.
    pub(in crate::overload) fn take(this: &Arc<Self>, place: Place, waker: &Waker) -> Option<Decision> {
        // User code, so before the lock.
        let waker = waker.clone();
        let mut state = this.state.lock();
        if let Some(Waiter::Waiting(kept)) = state.waiting.get_mut(&place) {
            let old = kept.replace(waker);
            drop(state);
            // User code, so after the lock.
            drop(old);
            return None;
        }
        match state.waiting.remove(&place)? {
            Waiter::Granted(seat) => {
                state.admitted += 1;
                drop(state);
                Some(Decision::Admit(Permit::new(Arc::clone(this), seat)))
            }
            Waiter::Refused(reason) => Some(Decision::Reject(state.refuse(reason, &this.limits))),
            Waiter::Waiting(_) => None,
        }
    }

    /// Who waits there does so no more.
    pub(in crate::overload) fn forget(this: &Arc<Self>, place: Place) {
        let waiter = Self::change(this, |state| match state.waiting.remove(&place) {
            Some(Waiter::Granted(seat)) => {
                state.ledger.rise(seat);
                None
            }
            waiter => {
                if let Some(entry) = state.queue.leave(place) {
                    state.ledger.unclaim(entry.claim);
                }
                waiter
            }
        });
        // Its waker is user code.
        drop(waiter);
    }

    pub(super) fn rise(this: &Arc<Self>, seat: Seat) {
        Self::change(this, |state| state.ledger.rise(seat));
    }

    pub(super) fn change_class(this: &Arc<Self>, seat: &mut Seat, class: StreamClass) {
        Self::change(this, |state| state.ledger.change_class(seat, class));
    }

    pub(super) fn set_overloaded(this: &Arc<Self>, overloaded: bool) {
        Self::change(this, |state| {
            state.ledger.set_overloaded(overloaded);
            if overloaded {
                state.refuse_all(&RefusalReason::Overloaded);
            }
        });
    }

    pub(super) fn shutdown(this: &Arc<Self>) {
        Self::change(this, |state| {
            state.ledger.shut_down();
            state.refuse_all(&RefusalReason::ShuttingDown);
        });
    }

    pub(super) fn set_concurrency(this: &Arc<Self>, limit: Option<usize>) {
        Self::change(this, |state| state.ledger.set_concurrency(limit));
    }

    pub(super) fn set_start_up(this: &Arc<Self>, start_up: Duration) {
        Self::change(this, |state| state.start_up = start_up);
    }

    pub(super) fn sweep(this: &Arc<Self>, now: Instant) -> Option<Duration> {
        let pending = this.limits.pending;
        Self::change(this, |state| {
            let limit = super::PendingLimits { start_up: state.start_up, ..pending }.max_wait();
            for (place, entry) in state.queue.expire(now, limit) {
                state.answer(place, entry, RefusalReason::WaitedTooLong { limit });
            }
            state.queue.oldest(now).map(|waited| limit.saturating_sub(waited))
        })
    }

    pub(super) fn oldest_wait(&self, now: Instant) -> Option<Duration> {
        self.state.lock().queue.oldest(now)
    }

    pub(super) fn active(&self) -> usize {
        self.state.lock().ledger.active()
    }

    pub(super) fn is_accepting(&self) -> bool {
        self.state.lock().ledger.is_accepting()
    }

    pub(super) fn limits(&self) -> &AdmissionLimits {
        &self.limits
    }

    pub(super) fn stats(&self) -> AdmissionStats {
        let state = self.state.lock();
        AdmissionStats {
            active: state.ledger.active(),
            admitted: state.admitted,
            catching_up: state.ledger.catching_up(),
            concurrency_limit: state.ledger.concurrency(),
            identities: state.ledger.identities(),
            is_accepting: state.ledger.is_accepting(),
            is_overloaded: state.ledger.is_overloaded(),
            refused: state.refused,
            waiting: state.queue.len(),
        }
    }
}

impl State {
    /// A seat, or why there is none; with the claim where it is worth while to wait.
    fn arrive(&mut self, class: StreamClass, identity: Option<&str>) -> Result<Seat, (RefusalReason, Option<super::Claim>)> {
        if let Some(reason) = self.ledger.closed() {
            return Err((reason, None));
        }
        let claim = self.ledger.claim(identity).map_err(|reason| (reason, None))?;
        let seat = self.ledger.sit(class, claim).map_err(|(reason, claim)| (reason, Some(claim)))?;
        self.admitted += 1;
        Ok(seat)
    }

    fn refuse(&mut self, reason: RefusalReason, limits: &AdmissionLimits) -> Refusal {
        self.refused.add(reason.kind());
        Refusal::new(reason, self.jitter.between(limits.retry_min, limits.retry_max))
    }

    /// S1.
    fn grant(&mut self) {
        while self.queue.len() > 0 && self.ledger.closed().is_none() && self.ledger.full().is_none() {
            let ledger = &self.ledger;
            let Some((place, entry)) = self.queue.serve(|class| ledger.obstacle(class).is_none()) else { return };
            match self.ledger.sit(entry.class, entry.claim) {
                Ok(seat) => self.tell(place, Waiter::Granted(seat)),
                // Not reached: nothing was in the way a line above.
                Err((reason, claim)) => {
                    self.ledger.unclaim(claim);
                    self.tell(place, Waiter::Refused(reason));
                }
            }
        }
    }

    fn refuse_all(&mut self, reason: &RefusalReason) {
        while let Some((place, entry)) = self.queue.serve(|_| true) {
            self.answer(place, entry, reason.clone());
        }
    }

    fn answer(&mut self, place: Place, entry: Entry, reason: RefusalReason) {
        self.ledger.unclaim(entry.claim);
        self.tell(place, Waiter::Refused(reason));
    }

    fn tell(&mut self, place: Place, answer: Waiter) {
        if let Some(Waiter::Waiting(Some(waker))) = self.waiting.insert(place, answer) {
            self.woken.push(waker);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
