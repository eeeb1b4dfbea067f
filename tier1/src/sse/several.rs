//! Several keys read as one sequence, in the order of the numbers: a [`SubscriptionSet`], and the id that goes with each thing.
//!
//! The set has one position for all its keys: everything up to it has been delivered, or told as lost. An event is delivered
//! only when all before it were, so its own number is its id. Two things hold ids back:
//!
//! * **A key that ended**, of which this stream may miss what is published next. Its clients are to come back with what was
//!   safe before it, so that is the id from then on. What others have ready is sent all the same, so that a key that is
//!   refused does not keep them from being read; then the stream ends.
//! * **A hub that is shut down while events are published** may have closed one key before and another one after them: the
//!   set's position says at the end how far all of them go.

use std::task::{Context, Poll, ready};

use keywake::{Closed, Gap, Hub, Pattern, Received, ReceivedRef, Start, SubscriptionSet, TryRecvError};

use super::feed::{End, Sent, What};
use crate::{app::App, key::Key, payload::Payload};

/// See the module.
#[derive(Debug)]
pub struct Several {
    set: SubscriptionSet<Key, Payload>,
    hub: Hub<Key, Payload>,
    /// The hub's.
    epoch: u64,
    /// The last number that was known to be safe; `None`: only the position that the client came with is.
    reached: Option<u64>,
    /// How many keys it may read at once.
    most: usize,
    /// Why the first key ended that did, or all of them.
    end: Option<End>,
}

impl Several {
    pub(super) fn new(app: &App, keys: Vec<Key>, patterns: &[Pattern], start: Start) -> Self {
        let mut set = app.hub.subscribe_set();
        for key in keys {
            set.add_owned_from(key, start);
        }
        let most = set.len().saturating_add(app.config.limits.max_stream_matches);
        for pattern in patterns {
            if set.len() <= most {
                set.add_matching_from(pattern, start);
            }
        }
        let mut several = Self { set, hub: app.hub.clone(), epoch: app.hub.position().epoch(), reached: None, most, end: None };
        several.safe();
        several.check_room();
        several
    }

    pub(super) fn next_with<R>(&mut self, send: impl FnOnce(Sent<'_>) -> R) -> Option<R> {
        loop {
            if !self.check_room() {
                return None;
            }
            let gap = match self.set.try_recv_ref() {
                Ok((key, ReceivedRef::Event(event))) => {
                    self.reached = id(&self.hub, self.end.is_some(), self.reached, event.seq());
                    return Some(send(Sent { key, id: self.reached, what: What::Event(&event) }));
                }
                Ok((key, ReceivedRef::Gap(gap))) => (Key::clone(key), gap),
                Ok((_, ReceivedRef::Ended(closed))) => {
                    self.end_with(&closed);
                    continue;
                }
                // Cursors without an event: the position says the same.
                Ok(_) => continue,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Closed(closed)) => {
                    self.all_ended(&closed);
                    return None;
                }
            };
            return Some(self.send_gap(&gap.0, gap.1, send));
        }
    }

    pub(super) fn poll_next_with<R>(&mut self, cx: &mut Context<'_>, send: impl FnOnce(Sent<'_>) -> R) -> Poll<Option<R>> {
        loop {
            return Poll::Ready(match ready!(self.set.poll_recv(cx)) {
                Ok((key, Received::Event(event))) => {
                    self.reached = id(&self.hub, self.end.is_some(), self.reached, event.seq());
                    Some(send(Sent { key: &key, id: self.reached, what: What::Event(&event) }))
                }
                Ok((key, Received::Gap(gap))) => Some(self.send_gap(&key, gap, send)),
                Ok((_, Received::Ended(closed))) => {
                    self.end_with(&closed);
                    None
                }
                Ok(_) => continue,
                Err(closed) => {
                    self.all_ended(&closed);
                    None
                }
            });
        }
    }

    fn send_gap<R>(&mut self, key: &Key, gap: Gap, send: impl FnOnce(Sent<'_>) -> R) -> R {
        // It may reach beyond what is still to come of other keys; the set knows.
        let id = self.safe();
        send(Sent { key, id, what: What::Loss(gap) })
    }

    /// Whether it may read so many keys. If not, it ends here: all up to its position is sent, and nothing more is taken.
    fn check_room(&mut self) -> bool {
        let has_room = self.set.len() <= self.most;
        if !has_room && self.end.is_none() {
            self.safe();
            self.end = Some(End::TooManyMatches);
        }
        has_room
    }

    /// A key ended: it is not of the set any more, so the set's position means nothing for it.
    fn end_with(&mut self, closed: &Closed) {
        self.end.get_or_insert_with(|| End::Closed(closed.reason().clone()));
    }

    /// The hub is shut down, and everything that was buffered is read.
    fn all_ended(&mut self, closed: &Closed) {
        self.safe();
        self.end_with(closed);
    }

    pub(super) fn safe(&mut self) -> Option<u64> {
        if self.end.is_none() {
            let position = self.set.position();
            // Of another epoch: where its reader came from, as long as some key is not told so.
            self.reached = (position.epoch() == self.epoch).then(|| position.seq());
        }
        self.reached
    }

    pub(super) const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }
}

/// The id of an event with this number, which has been taken just now.
fn id(hub: &Hub<Key, Payload>, has_ended: bool, reached: Option<u64>, seq: u64) -> Option<u64> {
    // A hub that is open now was open when it was taken.
    if has_ended || hub.is_shutdown() { reached.min(Some(seq)) } else { Some(seq) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use keywake::{CloseReason, Position};

    use super::*;
    use crate::config::Config;

    fn app() -> Arc<App> {
        App::new(Config::parse_from(["tier1"]))
    }

    fn publish(app: &App, key: &str) -> u64 {
        app.publish(key.into(), Payload::from_body(b"1").unwrap()).unwrap().seq()
    }

    fn several(app: &App, keys: &[&str], start: Start) -> Several {
        Several::new(app, keys.iter().map(|key| (*key).into()).collect(), &[], start)
    }

    /// Key and id of all that is ready.
    fn ready(several: &mut Several) -> Vec<(String, Option<u64>)> {
        std::iter::from_fn(|| several.next_with(|sent| (sent.key.to_string(), sent.id))).collect()
    }

    #[test]
    fn what_is_ready_comes_in_the_order_of_its_numbers_and_each_is_its_own_id() {
        let app = app();
        for key in ["b", "a", "other", "c", "c", "a", "b"] {
            publish(&app, key);
        }
        let mut all = several(&app, &["a", "b", "c"], Start::Oldest);
        let expected = [("b", 1), ("a", 2), ("c", 4), ("c", 5), ("a", 6), ("b", 7)];
        let expected = expected.map(|(key, seq)| (key.to_owned(), Some(seq)));
        assert_eq!(ready(&mut all), expected);
        publish(&app, "other");
        assert_eq!(all.safe(), Some(8), "a quiet stream moves on with the hub");
        for (at, _) in expected.iter().enumerate() {
            let after = Start::After(Position::new(app.hub.position().epoch(), expected[at].1.unwrap()));
            assert_eq!(ready(&mut several(&app, &["c", "b", "a"], after)), expected[at + 1..]);
        }
    }

    #[test]
    fn after_the_end_of_a_key_ids_stay_before_it_and_what_others_have_is_sent() {
        let app = app();
        let mut all = several(&app, &["a", "b"], Start::Next);
        publish(&app, "a");
        assert_eq!(ready(&mut all), [("a".to_owned(), Some(1))]);
        app.hub.close("b", CloseReason::KeyClosed);
        // Of a new topic, which this stream does not read.
        publish(&app, "b");
        publish(&app, "a");
        assert_eq!(ready(&mut all), [("a".to_owned(), Some(1))]);
        assert_eq!(all.end(), Some(&End::Closed(CloseReason::KeyClosed)));
        assert_eq!(all.safe(), Some(1));
        let after = Start::After(Position::new(app.hub.position().epoch(), 1));
        let seqs: Vec<_> = ready(&mut several(&app, &["a", "b"], after)).into_iter().map(|(_, id)| id).collect();
        assert_eq!(seqs, [Some(2), Some(3)]);
    }

    #[test]
    fn with_the_hub_all_is_over_and_the_position_goes_as_far_as_all_do() {
        let app = app();
        let mut all = several(&app, &["a", "b"], Start::Next);
        publish(&app, "a");
        publish(&app, "other");
        app.hub.shutdown(CloseReason::Shutdown);
        assert_eq!(ready(&mut all).len(), 1);
        assert_eq!(all.end(), Some(&End::Closed(CloseReason::Shutdown)));
        assert_eq!(all.safe(), Some(2));
    }
}
