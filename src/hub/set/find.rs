//! How a set finds what comes next, and how it sleeps until something does.

use std::{
    cmp::Reverse,
    task::{Context, Poll, Waker},
    time::Instant,
};

use super::{
    SubscriptionSet,
    entry::{News, Phase, Ready, What},
};
use crate::{
    CloseReason, Closed, Gap, Key,
    hub::{
        shared::{FirstPanic, Shared},
        waiting::Unpark,
    },
    sync::{Arc, PlainArc, thread},
    trace,
    wake::{Member, Parking},
};

/// Members that may be awake after a look: further ones are parked.
const AWAKE: usize = 8;
/// Parked members that may keep their block, so that a key that is busy need not find its place anew with every event.
pub(super) const WARM: usize = 8;

#[cfg(not(feature = "tokio"))]
/// Results in a row after which a reader lets others run once.
const RUN: u8 = 128;

/// What is to be delivered.
pub(super) enum Found {
    /// The key is `SubscriptionSet::gone`.
    Ended(Closed),
    /// That of the current key.
    Event(u32),
    Gap(u32, Gap),
}

impl<K: Key, T: Send + Sync + 'static> SubscriptionSet<K, T> {
    /// The next thing; `None`: nothing now.
    pub(super) fn find(&mut self) -> Option<Result<Found, Closed>> {
        self.finish_last();
        // Where something is beyond the watermark that was known, the first look finds it and the second has a watermark that covers it.
        let mut looks = 0;
        let mut has_helped = false;
        loop {
            let next = self.order.peek().map(|Reverse(next)| *next);
            if let Some(next) = next {
                // A loss or an end is not held back: telling it earlier tells nothing false, and no number may ever come to cover it.
                if next.rank <= self.known || looks > 0 && !next.is_event {
                    return Some(Ok(self.deliver(next.index)));
                }
            }
            if looks < 2 && (looks == 0 || next.is_some()) {
                self.look();
                looks += 1;
            } else if !has_helped && self.hub.shared.pulse.is_behind() {
                // What was published waits for the relay: who asks for it need not.
                self.hub.shared.pulse.help();
                (has_helped, looks) = (true, 0);
            } else {
                break;
            }
        }
        if self.order.is_empty() { self.find_end().map(Err) } else { None }
    }

    /// What was delivered last is done with: its key goes on.
    fn finish_last(&mut self) {
        if let Some(index) = self.current {
            self.go_on(index);
            self.current = None;
        }
        if let Some(gone) = self.gone.take() {
            let mut panics = FirstPanic::default();
            self.let_go(gone, &mut panics);
            panics.go_on();
        }
    }

    /// Looks for a key's next thing.
    fn go_on(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index as usize).and_then(Option::as_mut) else { return };
        entry.step(&self.hub.shared);
        match entry.phase() {
            Phase::Ready => {
                let ready = entry.ready(index);
                if ready.is_event {
                    self.seen = self.seen.max(ready.rank);
                }
                self.order.push(Reverse(ready));
            }
            Phase::Over => self.note_over(index),
            _ => self.awake.push(index),
        }
    }

    pub(super) fn note_over(&mut self, index: u32) {
        if let Some(entry) = self.entry(index) {
            let bound = entry.bound();
            self.over = Some(self.over.map_or(bound, |over| over.min(bound)));
            self.number_over += 1;
        }
    }

    /// Takes a new watermark, and then over what came: in this order (see `Roster`).
    pub(super) fn look(&mut self) {
        let known = self.hub.shared.pulse.watermark(self.seen, self.known);
        self.take_marked();
        self.take_newcomers();
        self.look_at_awake();
        self.limit_awake();
        self.known = known;
    }

    /// Takes over what was marked; of topics in the inbox, only that they lie there no more.
    pub(super) fn take_marked(&mut self) {
        for member in self.core.take_marked() {
            if member.index() == Member::INBOX {
                self.empty_inbox();
                continue;
            }
            // Of one that was removed since, nobody wants to know.
            if self.entry_mut(member.index()).is_some_and(|entry| entry.take_back(&member)) {
                self.awake.push(member.index());
            }
        }
    }

    /// Parks those that are awake where they have become many.
    pub(super) fn limit_awake(&mut self) {
        if self.awake.len() > AWAKE {
            self.park_awake();
        }
    }

    fn look_at_awake(&mut self) {
        let mut at = 0;
        while let Some(&index) = self.awake.get(at) {
            match self.entry(index) {
                Some(entry) if entry.phase() == Phase::Awake => {
                    if entry.is_quiet() {
                        at += 1;
                    } else {
                        self.wake_up(index);
                        self.go_on_awake(at, index);
                    }
                }
                // It was removed, and perhaps another one has its place.
                _ => drop(self.awake.swap_remove(at)),
            }
        }
    }

    /// A key that was read to the end has something. It is known that it had nothing up to `known`, and so a loss begins no earlier, or it
    /// would take the position back.
    fn wake_up(&mut self, index: u32) {
        let known = self.known;
        if let Some(entry) = self.entry_mut(index) {
            entry.reader_mut().know(known);
        }
    }

    /// As `go_on`, for what stands at `at` in `awake`: it stands there until it has gone on.
    pub(super) fn go_on_awake(&mut self, at: usize, index: u32) {
        self.go_on(index);
        self.awake.swap_remove(at);
    }

    /// Parks all that are awake and may be parked. False: some are left about which nobody will tell us.
    pub(super) fn park_awake(&mut self) -> bool {
        let mut all_told = true;
        let mut at = 0;
        while let Some(&index) = self.awake.get(at) {
            let entry = self.entry_mut(index);
            let Some(entry) = entry.filter(|entry| entry.phase() == Phase::Awake) else {
                self.awake.swap_remove(at);
                continue;
            };
            match entry.park() {
                Parking::Parked => {
                    self.awake.swap_remove(at);
                    self.keep_warm(index);
                }
                Parking::Came => {
                    self.wake_up(index);
                    self.go_on_awake(at, index);
                }
                Parking::Marked => at += 1,
                Parking::Busy => {
                    all_told = false;
                    at += 1;
                }
            }
        }
        all_told
    }

    /// The last few that were parked keep their blocks; the others let go of them.
    fn keep_warm(&mut self, index: u32) {
        let has_block = self.entry(index).is_some_and(|entry| entry.reader().has_block());
        if !has_block || self.warm.contains(&index) {
            return;
        }
        let colder = std::mem::replace(&mut self.warm[self.next_warm], index);
        self.next_warm = (self.next_warm + 1) % WARM;
        let entry = self.entry_mut(colder);
        if let Some(entry) = entry.filter(|entry| entry.phase() == Phase::Parked) {
            entry.reader_mut().leave();
        }
    }

    /// Takes the first of those that are ready, which is that of this index.
    fn deliver(&mut self, index: u32) -> Found {
        self.order.pop();
        let Some(entry) = self.entry_mut(index) else { unreachable!("it is ready") };
        let news = entry.take_news();
        entry.set_phase(Phase::Current);
        self.current = Some(index);
        let found = news.map_or(Found::Event(index), |news| self.deliver_news(index, news));
        self.tidy_order();
        found
    }

    #[cold]
    fn deliver_news(&mut self, index: u32, news: News) -> Found {
        if news.came.is_some() {
            self.told_foreign();
        }
        match news.what {
            What::Gap(gap) => {
                self.hub.shared.pulse.tallies.gaps.add(1);
                trace::gap_told(&gap);
                Found::Gap(index, gap)
            }
            What::Ended(closed) => {
                self.current = None;
                self.gone = self.take_out(index);
                Found::Ended(closed)
            }
        }
    }

    /// Whether this stands for something that is ready, and not for what was removed since.
    fn is_ready(&self, what: Ready) -> bool {
        self.entry(what.index).is_some_and(|entry| entry.phase() == Phase::Ready && entry.ready(what.index) == what)
    }

    /// What comes next, but for keys that are to be told first that they came from elsewhere.
    pub(super) fn first_numbered(&self) -> Option<Ready> {
        let first = self.order.peek().map(|Reverse(next)| *next);
        if self.foreign.is_none() {
            return first;
        }
        // Rare, and soon over.
        self.order.iter().map(|Reverse(next)| *next).filter(|next| next.rank > 0 && self.is_ready(*next)).min()
    }

    /// What stands first is ready.
    pub(super) fn tidy_order(&mut self) {
        while self.order.peek().is_some_and(|Reverse(next)| !self.is_ready(*next)) {
            self.order.pop();
        }
    }

    /// Whether all is over, with the hub.
    fn find_end(&mut self) -> Option<Closed> {
        if self.closed.is_none() && self.number_over == self.len() && self.hub.shared.is_shutdown() {
            let reason = self.hub.shared.shutdown_reason().unwrap_or(CloseReason::Shutdown);
            self.closed = Some(Closed::new(reason));
        }
        self.closed.clone()
    }

    #[cfg_attr(not(feature = "tokio"), expect(clippy::needless_pass_by_ref_mut, reason = "tokio's budget takes the context so"))]
    pub(super) fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<Result<Found, Closed>> {
        // A reader that always finds something must let the others of its thread run.
        #[cfg(feature = "tokio")]
        let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        #[cfg(not(feature = "tokio"))]
        if self.run >= RUN {
            self.run = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(found) = self.find() {
                #[cfg(feature = "tokio")]
                budget.made_progress();
                #[cfg(not(feature = "tokio"))]
                {
                    self.run += 1;
                }
                return Poll::Ready(found);
            }
            if self.sleep(cx.waker()) {
                #[cfg(not(feature = "tokio"))]
                {
                    self.run = 0;
                }
                return Poll::Pending;
            }
        }
    }

    /// Parks, having read all. False: something came.
    fn sleep(&mut self, waker: &Waker) -> bool {
        let ready = self.order.len();
        let all_told = self.park_awake();
        if self.order.len() > ready {
            return false;
        }
        // What is ready lies beyond the watermark. Anew each time: who wakes us takes us off the list.
        self.hold(false);
        self.hold(ready > 0);
        // Before anything of the user's runs: whatever it does, the waker is ours to take back.
        self.is_asleep = true;
        self.core.sleep(waker);
        if self.has_come() {
            self.rouse();
            return false;
        }
        if !all_told {
            waker.wake_by_ref();
        }
        true
    }

    /// Whether something came that nobody will wake us for, since it was there before our waker was.
    fn has_come(&self) -> bool {
        let shared = &self.hub.shared;
        let ended = || self.number_over == self.len() && shared.is_shutdown();
        let moved = || self.is_held && shared.pulse.watermark(self.seen, self.known) > self.known;
        self.core.has_marked() || ended() || moved()
    }

    /// Takes the waker back, if it is still there.
    pub(super) fn rouse(&mut self) {
        if self.is_asleep {
            self.is_asleep = false;
            self.core.rouse();
        }
        self.hold(false);
    }

    fn hold(&mut self, hold: bool) {
        if self.is_held == hold {
            return;
        }
        self.is_held = hold;
        let roster = &self.hub.shared.pulse.roster;
        if hold { roster.hold(&self.core) } else { roster.let_go(&self.core) }
    }

    /// Blocks; `None` at the deadline.
    pub(super) fn block_until(&mut self, deadline: Option<Instant>) -> Result<Option<Found>, Closed> {
        if let Some(found) = self.find() {
            return found.map(Some);
        }
        let waker = Waker::from(PlainArc::new(Unpark(thread::current())));
        // Before it sleeps.
        let _blocked = Blocked::new(&self.hub.shared);
        loop {
            if let Some(found) = self.find() {
                self.rouse();
                return found.map(Some);
            }
            if !self.sleep(&waker) {
                continue;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                Some(_) => {
                    self.rouse();
                    // What came since the last look is received, and not timed out.
                    return self.find().transpose();
                }
            }
        }
    }
}

/// While it is there, publishers do the relay's first step: a blocked thread does not depend on relays.
struct Blocked<K: Key, T: Send + Sync + 'static>(Arc<Shared<K, T>>);

impl<K: Key, T: Send + Sync + 'static> Blocked<K, T> {
    fn new(shared: &Arc<Shared<K, T>>) -> Self {
        shared.pulse.block();
        Self(Arc::clone(shared))
    }
}

impl<K: Key, T: Send + Sync + 'static> Drop for Blocked<K, T> {
    fn drop(&mut self) {
        self.0.pulse.roster.unblock();
    }
}
