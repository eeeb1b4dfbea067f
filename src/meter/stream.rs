//! One stream's processor time: brackets around its polls and its synchronous work.

use std::{fmt, marker::PhantomData};

use super::{
    bracket::{Bracket, innermost},
    lane::Lane,
    roster::Roster,
    run::Metered,
    timing::{Clock, Rhythm, scaled},
};
use crate::{
    load::StreamClass,
    sync::{Arc, Mutex, Padded, unique_number},
};

/// What was charged to a stream, and what of it is open.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: u64,
    clock: Clock,
    books: Mutex<Books>,
}

/// What all of a stream's threads write to, unlike lanes, which have one writer each.
#[derive(Debug)]
struct Books {
    class: StreamClass,
    /// By scopes, and by lanes that are gone.
    charged: u64,
    rhythm: Rhythm,
    scopes: Vec<Holes>,
    lanes: Vec<(Arc<Padded<Lane>>, Holes)>,
}

/// What an open bracket waits for outside. At most one wait is open: those within it are no bracket's.
#[derive(Clone, Copy, Debug, Default)]
struct Holes {
    /// When the bracket began: what is said of an earlier one is void.
    of: u64,
    waited: u64,
    /// Since when it is waiting.
    waiting: Option<u64>,
}

impl Holes {
    /// How much of the bracket that began at `start` was not waiting.
    fn busy(&self, start: u64, now: u64) -> u64 {
        let age = now.saturating_sub(start);
        if self.of != start {
            return age;
        }
        let waiting = self.waiting.map_or(0, |since| now.saturating_sub(since));
        age.saturating_sub(self.waited).saturating_sub(waiting)
    }

    fn begin(&mut self, start: u64, now: u64) {
        if self.of != start {
            *self = Self { of: start, ..Self::default() };
        }
        self.waiting = Some(now);
    }

    fn end(&mut self, wait: u64) {
        self.waited = self.waited.saturating_add(wait);
        self.waiting = None;
    }
}

impl Books {
    /// Those of the bracket that began at `start`, of a scope or a lane.
    fn holes(&mut self, start: u64) -> Option<&mut Holes> {
        let lane = |(lane, holes)| (Lane::seen(lane).start == Some(start)).then_some(holes);
        let scope = self.scopes.iter_mut().find(|scope| scope.of == start);
        scope.or_else(|| self.lanes.iter_mut().map(|(lane, holes)| (&***lane, holes)).find_map(lane))
    }
}

/// What a stream's account says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) class: StreamClass,
    /// What was charged and what is open, nanoseconds.
    pub(super) charged: u64,
    /// For how long the oldest open poll has been open, nanoseconds.
    pub(super) open_for: Option<u64>,
}

impl Account {
    fn new(class: StreamClass, clock: Clock) -> Self {
        let books = Books { class, charged: 0, rhythm: Rhythm::new(), scopes: Vec::new(), lanes: Vec::new() };
        Self { id: unique_number(), clock, books: Mutex::new(books) }
    }

    /// With what is open at `now`.
    pub(super) fn read(&self, now: u64) -> Reading {
        let books = self.books.lock();
        let mut charged = books.charged;
        let mut open = 0_u64;
        let mut since = None;
        let mut add = |start: u64, holes: &Holes, ratio| {
            since = Some(since.map_or(start, |since: u64| since.min(start)));
            open = open.saturating_add(scaled(holes.busy(start, now), ratio));
        };
        for scope in &books.scopes {
            add(scope.of, scope, books.rhythm.ratio());
        }
        for (lane, holes) in &books.lanes {
            let seen = lane.seen();
            charged = charged.saturating_add(seen.charged);
            if let Some(start) = seen.start {
                add(start, holes, seen.ratio);
            }
        }
        let open_for = since.map(|since| now.saturating_sub(since));
        Reading { class: books.class, charged: charged.saturating_add(open), open_for }
    }

    fn new_lane(&self) -> (Arc<Padded<Lane>>, Rhythm) {
        let mut books = self.books.lock();
        let lane = Arc::new(Padded::new(Lane::new(books.rhythm.ratio())));
        books.lanes.push((Arc::clone(&lane), Holes::default()));
        (lane, books.rhythm)
    }

    /// Takes over what the lane was charged.
    fn retire(&self, lane: &Arc<Padded<Lane>>, rhythm: Rhythm) {
        let mut books = self.books.lock();
        let Some(at) = books.lanes.iter().position(|(kept, _)| Arc::ptr_eq(kept, lane)) else { return };
        books.lanes.swap_remove(at);
        books.charged = books.charged.saturating_add(lane.seen().charged);
        // What comes next in the stream begins with what is known of it.
        books.rhythm = rhythm;
    }
}

/// An account for as long as anybody may charge it, and then its end in the meter.
#[derive(Debug)]
struct Tracked {
    account: Arc<Account>,
    roster: Arc<Roster>,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.roster.forget(self.account.id, |account| account.read(0).charged);
    }
}

/// A stream that is metered: what of its work stands in brackets is charged to it.
///
/// The stream is tracked until the last of its handles is gone: this, its clones, the futures, closures and timers made from it. Its
/// state is freed then; what it used since the last sample is told as [`Split::departed`](super::Split::departed).
///
/// Brackets of different streams may stand within each other on one thread; each stream is charged what was not within another's. A
/// bracket within one of the same stream changes nothing.
///
/// # Examples
/// ```
/// use keywake::{load::StreamClass, meter::Meter};
///
/// # async fn next() -> Option<u64> { None }
/// # fn main() {
/// let meter = Meter::new();
/// let stream = meter.track(StreamClass::Live);
/// let serve = stream.run(async {
///     while let Some(block) = next().await {
///         std::hint::black_box(block);
///     }
/// });
/// # let waker = std::task::Waker::noop();
/// # let mut serve = std::pin::pin!(serve);
/// # assert!(serve.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready());
/// # use std::future::Future;
/// # }
/// ```
#[derive(Clone)]
pub struct StreamMeter {
    tracked: Arc<Tracked>,
}

impl StreamMeter {
    pub(super) fn new(class: StreamClass, clock: Clock, roster: Arc<Roster>) -> Self {
        let account = Arc::new(Account::new(class, clock));
        roster.add(Arc::clone(&account));
        Self { tracked: Arc::new(Tracked { account, roster }) }
    }

    fn account(&self) -> &Account {
        &self.tracked.account
    }

    /// The number of this stream, which no other stream of the process had or will have: a client that comes back is another stream,
    /// and begins without a past.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.account().id
    }

    /// What kind of stream it is.
    #[must_use]
    pub fn class(&self) -> StreamClass {
        self.account().books.lock().class
    }

    /// From now on it is of another kind.
    pub fn set_class(&self, class: StreamClass) {
        self.account().books.lock().class = class;
    }

    /// Runs a future whose polls, and whose drop, are charged to the stream.
    ///
    /// Time between polls is not: awaiting costs nothing. Several futures of one stream may run, at the same time, too.
    ///
    /// # Cancel safety
    /// As the future's: dropping it drops the future.
    ///
    /// # Panics
    /// In a poll, if the future does; what the poll had taken until then is charged.
    pub fn run<F: Future>(&self, future: F) -> Metered<F> {
        Metered::new(self.poll_timer(), future)
    }

    /// A timer for polls that are no future's: those of a hand-written body or stream.
    ///
    /// # Examples
    /// ```
    /// use keywake::{load::StreamClass, meter::Meter};
    /// let mut timer = Meter::new().track(StreamClass::Dev).poll_timer();
    /// // In `poll_frame`, `poll_next`, ..
    /// assert_eq!(timer.time(|| 1 + 1), 2);
    /// ```
    #[must_use]
    pub fn poll_timer(&self) -> PollTimer {
        let account = self.account();
        let (lane, rhythm) = account.new_lane();
        PollTimer { clock: account.clock, id: account.id, charged: 0, rhythm, lane, stream: self.clone() }
    }

    /// A closure that is charged to the stream where it runs: for `spawn_blocking`, `rayon`, threads. While it waits for a thread it
    /// costs nothing.
    ///
    /// # Examples
    /// ```
    /// use keywake::{load::StreamClass, meter::Meter};
    /// let stream = Meter::new().track(StreamClass::Dev);
    /// let sum = std::thread::spawn(stream.closure(|| (0..1_000).sum::<u64>()));
    /// assert_eq!(sum.join().unwrap(), 499_500);
    /// ```
    pub fn closure<R, F: FnOnce() -> R>(&self, work: F) -> impl FnOnce() -> R + use<R, F> {
        let mut timer = self.poll_timer();
        move || timer.time(work)
    }

    /// Charges what this thread does until the guard is dropped: for synchronous work outside of a metered future. Guards of several
    /// streams may be dropped in any order: what they have in common is charged once.
    ///
    /// Do not hold it over an `.await`: another task would run on this thread meanwhile, and the stream be charged for it. (The guard is
    /// not `Send`, so a future that does cannot be spawned on a runtime of several threads.)
    #[must_use = "the bracket ends when the guard is dropped"]
    pub fn scope(&self) -> Scope<'_> {
        let account = self.account();
        let mut books = account.books.lock();
        let bracket = Bracket::open(&account.clock, account.id, books.rhythm.measures(account.clock.timing()));
        if let Some(bracket) = &bracket {
            books.scopes.push(Holes { of: bracket.start(), ..Holes::default() });
        }
        drop(books);
        Scope { account, bracket, _here: PhantomData }
    }

    /// Excludes what this thread does until the guard is dropped: a call to another service that blocks, a wait for a lock. The bracket
    /// of the stream that is open here goes on behind it; where none is, this does nothing. As with [`scope`](Self::scope), not to be
    /// held over an `.await`, which needs no such guard.
    #[must_use = "what is excluded ends when the guard is dropped"]
    pub fn excluded(&self) -> Excluded<'_> {
        let account = self.account();
        let outer = innermost().filter(|(stream, _)| *stream == account.id).map(|(_, start)| start);
        let wait = outer.map(|outer| {
            let bracket = Bracket::open_excluded(&account.clock);
            if let Some(holes) = account.books.lock().holes(outer) {
                holes.begin(outer, bracket.start());
            }
            (bracket, outer)
        });
        Excluded { account, wait, _here: PhantomData }
    }
}

impl fmt::Debug for StreamMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamMeter").field("id", &self.id()).field("class", &self.class()).finish_non_exhaustive()
    }
}

/// A bracket around synchronous work: [`StreamMeter::scope`].
#[derive(Debug)]
pub struct Scope<'a> {
    account: &'a Account,
    bracket: Option<Bracket>,
    /// What is open is known to this thread only.
    _here: PhantomData<*const ()>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let Some(bracket) = self.bracket else { return };
        bracket.close(&self.account.clock, |spent| {
            let mut books = self.account.books.lock();
            if let Some(at) = books.scopes.iter().position(|scope| scope.of == bracket.start()) {
                books.scopes.swap_remove(at);
            }
            let charged = books.rhythm.charge(spent);
            books.charged = books.charged.saturating_add(charged);
            charged
        });
    }
}

/// A hole in a bracket: [`StreamMeter::excluded`].
#[derive(Debug)]
pub struct Excluded<'a> {
    account: &'a Account,
    /// Itself, and when the bracket began that it is in.
    wait: Option<(Bracket, u64)>,
    _here: PhantomData<*const ()>,
}

impl Drop for Excluded<'_> {
    fn drop(&mut self) {
        let Some((bracket, outer)) = self.wait else { return };
        let (_, wait) = bracket.close(&self.account.clock, |_| 0);
        if let Some(holes) = self.account.books.lock().holes(outer) {
            holes.end(wait);
        }
    }
}

/// Times polls of one stream, one after the other: [`StreamMeter::poll_timer`].
pub struct PollTimer {
    clock: Clock,
    id: u64,
    /// What it charged all in all, nanoseconds.
    charged: u64,
    rhythm: Rhythm,
    lane: Arc<Padded<Lane>>,
    stream: StreamMeter,
}

impl PollTimer {
    /// Runs `work` and charges it to the stream. Nothing is allocated or locked; a panic goes on to the caller, and is charged.
    #[inline]
    pub fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let Some(bracket) = Bracket::open(&self.clock, self.id, self.rhythm.measures(self.clock.timing())) else {
            return work();
        };
        self.lane.open(bracket.start());
        let _open = Poll { timer: self, bracket };
        work()
    }

    /// The stream that it times.
    #[must_use]
    pub fn stream(&self) -> &StreamMeter {
        &self.stream
    }
}

/// An open poll; its drop ends it, however the poll ends.
struct Poll<'a> {
    timer: &'a mut PollTimer,
    bracket: Bracket,
}

impl Drop for Poll<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let PollTimer { clock, charged, rhythm, lane, .. } = &mut *self.timer;
        self.bracket.close(clock, |spent| {
            let now = rhythm.charge(spent);
            *charged = charged.saturating_add(now);
            lane.close(*charged, rhythm.ratio());
            now
        });
    }
}

impl Drop for PollTimer {
    fn drop(&mut self) {
        self.stream.account().retire(&self.lane, self.rhythm);
    }
}

impl fmt::Debug for PollTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollTimer").field("stream", &self.stream).finish_non_exhaustive()
    }
}
