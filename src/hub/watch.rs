//! A subscription's side of its predicate.

use std::{fmt, task::Waker};

use super::{
    extra::Slow,
    filter::{Filter, Known, Predicate, TopicReader, Verdict},
    shared::{FirstPanic, Shared},
    subscription::{Found, Subscription},
    topic::TopicArc,
};
use crate::{
    CloseReason, Closed, Gap, GapCause, Key,
    buffer::reader::Step,
    sync::{Arc, PlainArc},
    wake::FilterLane,
};

/// What a subscription with a predicate has of it.
pub(super) struct Watch<K: Key, T: Send + Sync + 'static> {
    filter: PlainArc<Filter<K, T>>,
    known: Known,
    /// The cursor may be with the filter, and the subscription's reader is the spare one.
    is_away: bool,
    spare: Option<TopicReader<K, T>>,
    /// It has looked at as many events as it may at once, and there are more.
    pub(super) is_tired: bool,
}

impl<K: Key, T: Send + Sync + 'static> Watch<K, T> {
    pub(super) fn new(shared: &Arc<Shared<K, T>>, topic: &TopicArc<K, T>, predicate: Predicate<T>) -> Self {
        let filter = Filter::new(Arc::clone(shared), Arc::clone(topic), predicate);
        Self { filter, known: Known::default(), is_away: false, spare: None, is_tired: false }
    }

    /// Has the cursor here. False: somebody is just looking with it.
    fn fetch(&mut self, reader: &mut TopicReader<K, T>) -> bool {
        if self.is_away {
            let Some(known) = self.filter.fetch(reader, &mut self.spare) else { return false };
            self.known = known;
            self.is_away = false;
        }
        true
    }

    /// Parks, having looked at all that there was. False: something came.
    pub(super) fn park(&mut self, reader: &mut TopicReader<K, T>, lane: FilterLane, waker: &Waker) -> bool {
        if self.is_away {
            return self.filter.wait_on(lane, waker);
        }
        self.is_away = self.filter.park(reader, &mut self.spare, self.known, lane, waker);
        self.is_away
    }

    /// Nobody waits any more.
    pub(super) fn unpark(&mut self, reader: &mut TopicReader<K, T>) {
        if !self.fetch(reader) {
            let waker = self.filter.forget_waker();
            drop(waker);
        }
    }

    /// The subscription goes. False: whoever is looking with the cursor does the rest.
    pub(super) fn leave(&mut self, reader: &mut TopicReader<K, T>, panics: &mut FirstPanic) -> bool {
        let mut is_here = false;
        while !is_here {
            panics.run(|| is_here = self.fetch(reader));
            if !is_here {
                let (is_away, waker) = self.filter.leave_to_others();
                panics.run(|| drop(waker));
                if is_away {
                    return false;
                }
                // He has come out meanwhile.
            }
        }
        panics.run(|| self.filter.give_slot_back());
        true
    }

    /// Where the cursor stands, if it is not with the subscription.
    pub(super) fn stands(&self) -> Option<(u64, u64)> {
        self.is_away.then(|| self.filter.stands())
    }
}

impl<K: Key, T: Send + Sync + 'static> Subscription<K, T> {
    /// The next thing that the predicate lets through, after looking at no more than `most` that it does not.
    pub(super) fn find_chosen(&mut self, most: u32) -> Option<Result<Found, Closed>> {
        let extra = self.extra.as_mut()?;
        let watch = extra.watch.as_mut()?;
        watch.is_tired = false;
        if !watch.fetch(&mut self.reader) {
            return None;
        }
        if extra.slow == Slow::Latest && !std::mem::take(&mut extra.is_due) {
            if let Some(gap) = self.skip_chosen() {
                self.tell(&gap);
                return Some(Ok(Found::Gap(gap)));
            }
        }
        let watch = self.extra.as_mut()?.watch.as_mut()?;
        let mut looks = 0;
        loop {
            let seq = self.reader.seq();
            match self.reader.advance() {
                Step::Empty => return None,
                Step::Event => match watch.filter.judge(&self.reader, &mut watch.known) {
                    Verdict::Accepted => return Some(Ok(Found::Step)),
                    Verdict::Panicked => return Some(Err(self.end_early(seq, CloseReason::PredicatePanicked))),
                    Verdict::Rejected => {}
                },
                step => return Some(self.find_slow(step)),
            }
            looks += 1;
            if looks == most {
                watch.is_tired = true;
                return None;
            }
        }
    }

    /// Goes to the newest event that the predicate lets through, up to the next loss or end, so that it is what comes next, and tells
    /// what it skips.
    fn skip_chosen(&mut self) -> Option<Gap> {
        let extra = self.extra.as_mut()?;
        let watch = extra.watch.as_mut()?;
        let reader = &mut self.reader;
        let from = reader.seq();
        let mut newest = None;
        let mut accepted = 0;
        loop {
            let (next, seq) = (reader.next(), reader.seq());
            match reader.advance() {
                Step::Closed | Step::Empty => break,
                Step::Event => match watch.filter.judge(reader, &mut watch.known) {
                    Verdict::Accepted => {
                        newest = reader.stand(seq, newest);
                        accepted += 1;
                    }
                    Verdict::Panicked => {
                        watch.known.at = Some((reader.next() - 1, Verdict::Panicked));
                        reader.step_back(seq);
                        break;
                    }
                    Verdict::Rejected => {}
                },
                Step::Mark { from, .. } => {
                    reader.step_back(from);
                    break;
                }
                Step::Lost(_) => {
                    reader.go_back(next, seq);
                    break;
                }
            }
        }
        let newest = newest?;
        watch.known = Known { at: Some((newest.number(), Verdict::Accepted)), up_to: reader.next() };
        let skips = accepted > 1;
        let to = reader.return_to(newest, skips);
        extra.is_due = skips;
        skips.then(|| Gap { from, to, missed: Some(accepted - 1), cause: GapCause::Conflated })
    }
}

impl<K: Key, T: Send + Sync + 'static> fmt::Debug for Watch<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("known", &self.known).field("is_away", &self.is_away).finish_non_exhaustive()
    }
}
