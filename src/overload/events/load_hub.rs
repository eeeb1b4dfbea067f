//! The hub of load events, and the readiness that is told through it.

use std::{borrow::Cow, fmt, time::Instant};

use super::{LoadEvent, LoadKey, OverloadState};
use crate::{
    Builder, Hub, OnLastPublisher, SharedPublisher, Start, Subscription,
    hub::FirstPanic,
    overload::{
        admission::Admission,
        readiness::{Change, Readiness, SharedReadiness},
    },
    sync::{Arc, Mutex, PlainArc},
};

/// The readiness condition that is the evictor's.
pub const OVERLOAD: &str = "overload";
/// The readiness condition that is admission's: fewer streams than the soft limit.
pub const ROOM: &str = "room";

/// Of evictions and alerts, how many a follower may be behind before it is told of a gap: more than a round has by default.
const RETAINED: usize = 128;

/// The hub of load events, and the readiness that is told through it. A handle: its clones share everything.
///
/// # Examples
/// ```
/// use std::time::Instant;
/// use keywake::{Received, Start, overload::{events::{LoadEvent, LoadHub, LoadKey}, readiness::Readiness}};
///
/// let now = Instant::now();
/// let mut readiness = Readiness::new(now);
/// readiness.require("hub synced", now);
/// let load = LoadHub::new(readiness);
/// // A health endpoint that comes at any time begins with how it stands.
/// let mut health = load.hub().subscribe_from(&LoadKey::Readiness, Start::Latest);
/// let mut is_ready = || match health.try_recv() {
///     Ok(Received::Event(event)) => matches!(&*event, LoadEvent::Readiness(change) if change.ready),
///     _ => panic!("nothing new"),
/// };
/// assert!(!is_ready());
/// load.set("hub synced", true, "at the head", now);
/// assert!(is_ready());
/// load.shut_down("SIGTERM", now);
/// assert!(!is_ready());
/// ```
#[derive(Clone)]
pub struct LoadHub {
    shared: Arc<Shared>,
}

struct Shared {
    /// Dropped before the publisher. They never read: for their sake the topics stay, and the newest state in them.
    _kept: Mutex<[Subscription<LoadKey, LoadEvent>; 2]>,
    hub: Hub<LoadKey, LoadEvent>,
    publisher: SharedPublisher<LoadKey, LoadEvent>,
    readiness: SharedReadiness,
    telling: Mutex<Telling>,
}

/// Who tells readiness. Of several who have changed it one tells, and looks again as long as others have: none of them waits, and no
/// older verdict comes after a newer one (V1).
#[derive(Default)]
struct Telling {
    is_stale: bool,
    is_busy: bool,
    /// What was told last: whether it is ready, whether it shuts down, and since when it is ready or not.
    told: Option<(bool, bool, Instant)>,
}

impl LoadHub {
    /// A hub, and in it the readiness as it is, and that there is no overload.
    #[must_use]
    pub fn new(readiness: Readiness) -> Self {
        // Nobody comes back to a stream's key: nothing is remembered of those that are gone.
        let builder = Builder::new().retain_events(RETAINED).max_tombstones(0).on_last_publisher(OnLastPublisher::Keep);
        let (publisher, hub) = builder.build();
        let kept = [LoadKey::Overload, LoadKey::Readiness].map(|key| hub.subscribe(&key));
        let shared = Shared {
            _kept: Mutex::new(kept),
            hub,
            publisher: publisher.shared(),
            readiness: SharedReadiness::new(readiness),
            telling: Mutex::new(Telling::default()),
        };
        let this = Self { shared: Arc::new(shared) };
        this.publish(LoadKey::Overload, LoadEvent::Overload(OverloadState::default()));
        this.tell();
        this
    }

    /// Where to subscribe.
    #[must_use]
    pub fn hub(&self) -> &Hub<LoadKey, LoadEvent> {
        &self.shared.hub
    }

    /// Follows a state from how it stands now: [`LoadKey::Overload`] or [`LoadKey::Readiness`]. Other keys from their newest event that is
    /// kept, if one is.
    #[must_use]
    pub fn follow(&self, key: LoadKey) -> Subscription<LoadKey, LoadEvent> {
        self.shared.hub.subscribe_owned_from(key, Start::Latest)
    }

    /// Whether the process wants new work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.readiness.is_ready()
    }

    /// The readiness as it is, with all its conditions: what a health endpoint shows to who asks.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness.snapshot()
    }

    /// Sets a condition, see [`Readiness::set`], and tells what came of it.
    ///
    /// # Panics
    /// If the waker of somebody who follows panics, after all others were woken. So do the other methods that tell.
    pub fn set(&self, name: &'static str, met: bool, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        let change = self.shared.readiness.set(name, met, reason, now);
        self.tell();
        change
    }

    /// Sets the condition [`ROOM`] by how it stands with admission. The driver does at each tick; to be told when it happens, call it in
    /// [the hook](Admission::with_hook) too.
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn set_room(&self, admission: &Admission, now: Instant) -> Option<Change> {
        let (stats, soft) = (admission.stats(), admission.limits().soft);
        let has_room = soft == 0 || stats.active < soft;
        let reason =
            format!("{} streams, soft limit {}", stats.active, if soft == 0 { "off".to_owned() } else { soft.to_string() });
        self.set(ROOM, has_room, reason, now)
    }

    /// Shuts down, see [`Readiness::shut_down`], and tells it. (Streams are not cancelled by that, and the hub goes on. So does a driver,
    /// until it is [stopped](crate::overload::driver::Driver::stop).)
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn shut_down(&self, reason: impl Into<Cow<'static, str>>, now: Instant) -> Option<Change> {
        let change = self.shared.readiness.shut_down(reason, now);
        self.tell();
        change
    }

    /// See [`Readiness::observe_peers`]; tells what came of it.
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn observe_peers(&self, ready_share: Option<f64>, now: Instant) -> Option<Change> {
        let change = self.shared.readiness.observe_peers(ready_share, now);
        self.tell();
        change
    }

    /// Looks at the bounds of the conditions, and tells what came of it. The driver does at each tick.
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn tick(&self, now: Instant) -> Option<Change> {
        let change = self.shared.readiness.tick(now);
        self.tell();
        change
    }

    pub(in crate::overload) fn publish(&self, key: LoadKey, event: LoadEvent) {
        self.shared.publisher.publish_owned(key, event);
    }

    /// Publishes the verdict, if it is another one than was told last. A waker that panics does so when all is told, also what others left
    /// to this turn meanwhile.
    fn tell(&self) {
        let Shared { telling, readiness, .. } = &*self.shared;
        let mut state = telling.lock();
        state.is_stale = true;
        if state.is_busy {
            return;
        }
        state.is_busy = true;
        drop(state);
        let mut panics = FirstPanic::default();
        loop {
            let mut state = telling.lock();
            if !state.is_stale {
                state.is_busy = false;
                break;
            }
            state.is_stale = false;
            // Under the lock, so that what was changed after it is looked at again. Nobody's code runs in it.
            let verdict = readiness.verdict();
            let news = Some((verdict.ready, verdict.for_good, verdict.since));
            let is_news = state.told != news;
            state.told = news;
            drop(state);
            if is_news {
                panics.run(|| self.publish(LoadKey::Readiness, LoadEvent::Readiness(PlainArc::new(verdict))));
            }
        }
        panics.go_on();
    }
}

impl fmt::Debug for LoadHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadHub").field("readiness", &self.shared.readiness).finish_non_exhaustive()
    }
}
