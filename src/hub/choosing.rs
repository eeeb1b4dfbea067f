//! Subscribing with a predicate.

use std::{borrow::Borrow, hash::Hash};

use super::{Hub, Start, Subscription};
use crate::Key;

impl<K: Key, T: Send + Sync + 'static> Hub<K, T> {
    /// Reads from now on those events of a key that `predicate` accepts, and is not woken for others:
    /// [`subscribe_where_from`](Self::subscribe_where_from) with [`Start::Next`].
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<String, u64>();
    /// let mut even = hub.subscribe_where("key", |number| number % 2 == 0);
    /// publisher.publish_batch((1..=3).map(|number| ("key".to_owned(), number)));
    /// assert!(matches!(even.try_recv(), Ok(keywake::Received::Event(event)) if *event == 2));
    /// assert!(even.try_recv().is_err());
    /// assert_eq!(even.position(), hub.position(), "what it rejects is read, too");
    /// ```
    #[must_use]
    pub fn subscribe_where<Q>(&self, key: &Q, predicate: impl Fn(&T) -> bool + Send + Sync + 'static) -> Subscription<K, T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.subscribe_where_from(key, Start::Next, predicate)
    }

    /// Reads those events of a key that `predicate` accepts, from where `start` says.
    ///
    /// While the reader waits, the predicate is run by whoever wakes the key's readers (the relay, or the publishing or closing thread;
    /// for a blocked thread always the latter), one event after the other, outside of every lock: an event that is rejected costs no wake,
    /// and the reader moves on behind it. Otherwise it is run by the reader itself, as it reads. It should be quick: what takes
    /// microseconds belongs behind the reader. It may call the hub, but a publish to its own key comes back to it.
    ///
    /// * [`Subscription::position`] is that of the last event that was looked at, accepted and received or rejected.
    /// * [`Gap`](crate::Gap)s are told as to any reader: what is lost was not looked at. `missed` counts all lost events of the key; only
    ///   of a gap that is [`Conflated`](crate::GapCause::Conflated) those that the predicate accepted.
    /// * With [`Slow::Latest`](crate::Slow::Latest) the newest event is the newest that the predicate accepts before the next loss; all that is
    ///   unread up to there is looked at.
    /// * A predicate that panics ends this subscription, with
    ///   [`CloseReason::PredicatePanicked`](crate::CloseReason::PredicatePanicked), and costs no other reader anything; its position stays before that
    ///   event.
    /// * [`try_recv`](Subscription::try_recv) says `Empty` also while the predicate is just being run elsewhere.
    /// * It may run for an instant after the subscription was dropped; the key then counts the reader until that is over.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// use keywake::Start;
    /// let (mut publisher, hub) = keywake::Builder::<String, u64>::new().retain_unread(true).build();
    /// publisher.publish_batch((1..=9).map(|number| ("key".to_owned(), number)));
    /// let mut large = hub.subscribe_where_from("key", Start::Oldest, |number| *number > 7);
    /// let mut sum = 0;
    /// while let Ok(keywake::Received::Event(event)) = large.try_recv() {
    ///     sum += *event;
    /// }
    /// assert_eq!(sum, 8 + 9);
    /// ```
    #[must_use]
    pub fn subscribe_where_from<Q>(
        &self,
        key: &Q,
        start: Start,
        predicate: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Subscription<K, T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.subscribe_from(key, start).chosen_by(Box::new(predicate))
    }

    /// As [`subscribe_where`](Self::subscribe_where), for keys that are not the owned form of anything, like `Arc<str>`.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// let (mut publisher, hub) = keywake::hub::<(u32, u32), u64>();
    /// let mut even = hub.subscribe_owned_where((1, 2), |number| number % 2 == 0);
    /// publisher.publish_owned((1, 2), 4);
    /// assert!(even.try_recv().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe_owned_where(&self, key: K, predicate: impl Fn(&T) -> bool + Send + Sync + 'static) -> Subscription<K, T> {
        self.subscribe_owned_where_from(key, Start::Next, predicate)
    }

    /// As [`subscribe_where_from`](Self::subscribe_where_from), for keys that are not the owned form of anything.
    ///
    /// # Panics
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Examples
    /// ```
    /// use keywake::Start;
    /// let (mut publisher, hub) = keywake::Builder::<(u32, u32), u64>::new().retain_unread(true).build();
    /// publisher.publish_owned((1, 2), 4);
    /// let mut even = hub.subscribe_owned_where_from((1, 2), Start::Oldest, |number| number % 2 == 0);
    /// assert!(even.try_recv().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe_owned_where_from(
        &self,
        key: K,
        start: Start,
        predicate: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Subscription<K, T> {
        self.subscribe_owned_from(key, start).chosen_by(Box::new(predicate))
    }
}
