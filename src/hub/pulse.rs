//! How far the one sequence has come, and the waking that follows it.
//!
//! What relays need of a hub lies here, apart from the rest: a relay must not keep its hub alive.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    fmt,
    task::Waker,
    time::{Duration, Instant},
};

use super::{
    set::Roster,
    shared::FirstPanic,
    topic::{Topic, TopicArc},
};
use crate::{
    buffer::word::{State, Waiting},
    few::Few,
    sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, Padded, Tally, unique_number},
    wake::{Bell, Counts, Pass, Pushed, Ring, Woken},
};

/// Wakes that a relay gives before it lets others run. Above 256 a worker's local queue of tokio's spills over; from 64 on the cost of a
/// wake does not fall any more (`cargo bench --bench wake_cost`).
const BATCH: usize = if cfg!(keywake_loom) { 2 } else { 64 };
/// Events of a key after which a relay that has not come by is overdue, at most.
const OVERDUE: u64 = 256;

/// How far the one sequence has come. The writer alone stores.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Every event up to this seq can be read, and those that wait for it have been marked to be woken.
    completed: AtomicU64,
    /// Every event that anybody can have read is up to this seq.
    issued: AtomicU64,
    pub(crate) published: Tally,
    pub(crate) unread: Tally,
    /// Publishes that found their key's readers about to be woken by the relay.
    pub(crate) coalesced: Tally,
    /// Publishes that found the relay asleep, and woke it.
    pub(crate) relay_wakes: Tally,
}

impl Progress {
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        // Acquire (pairs with `complete`): the events up to it are in their topics, and noted where they are not.
        self.completed.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn complete(&self, seq: u64) {
        // Release (pairs with `completed`): see there.
        self.completed.store(seq, Ordering::Release);
    }

    #[inline]
    pub(crate) fn issue(&self, seq: u64) {
        // Relaxed: the append of the event releases it.
        self.issued.store(seq, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn issued(&self) -> u64 {
        // Relaxed: whoever holds the position of an event has acquired the count that covers it.
        self.issued.load(Ordering::Relaxed)
    }
}

/// What fan-outs did, and what readers were told.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) fan_outs: Tally,
    pub(crate) wakes: Tally,
    pub(crate) empty: Tally,
    /// Readers' own: not beside what publishers count.
    pub(crate) gaps: Padded<Tally>,
    /// Fan-outs that a publisher did though there is a relay.
    pub(crate) fall_backs: Tally,
    /// Those of whom the main one is woken for what was pushed are counted by the writer.
    pub(crate) relay_wakes: Tally,
    /// Panics of wakers that relays swallowed.
    pub(crate) panics: Tally,
}

/// See the module.
pub(crate) struct Pulse<K, T> {
    /// The writer's, with every publish.
    pub(crate) progress: Padded<Progress>,
    pub(crate) tallies: Padded<Tallies>,
    /// Topics that wait for the relay of those who are bound to none.
    ring: Ring<TopicArc<K, T>>,
    /// Who works on the ring: 0 nobody; whoever raises it from there works, until nobody has raised it since.
    turn: Padded<AtomicU32>,
    /// Used by who works, who takes it out, and left here between turns.
    desk: Mutex<Desk<K, T>>,
    pub(crate) roster: Roster,
    /// Topics of the ring whose sets have been marked.
    done: AtomicU64,
    /// Of every event up to this seq the sets that wait for it have been marked.
    low: AtomicU64,
    /// The main relay's, and its twin's; each is its holder's while the role is taken.
    bells: [Bell; 2],
    roles: [AtomicU32; 2],
    /// Every relay, for those who are bound to one.
    servers: Mutex<Vec<Arc<Server<K, T>>>>,
    /// The hub is shut down or gone: relays end.
    ended: AtomicU32,
    pub(crate) interval: Option<Duration>,
    overdue: u64,
    /// Whether what is done is counted for each key as well.
    counts_topics: bool,
}

/// The one of the two who serve the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Main = 0,
    Twin = 1,
}

/// What work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// Somebody else is at it, and does ours too.
    Busy,
    /// There is nothing left.
    Idle,
    /// There is more: come again when others have run.
    More,
}

/// What some turns came to.
struct Turns {
    /// There is more to do.
    more: bool,
    /// Somebody else came by, and was told that we are at work.
    was_joined: bool,
}

/// Where the work lies between two turns.
struct Desk<K, T> {
    /// `None`: somebody is at it.
    work: Option<Box<Work<K, T>>>,
    /// The time that a sweep told while somebody was at it.
    swept: Option<Instant>,
}

/// What is left to do.
struct Work<K, T> {
    /// Sets of which a member was marked: before any task of a topic.
    sets: VecDeque<Waker>,
    run: VecDeque<Run<K, T>>,
    resting: Resting<K, T>,
}

impl<K, T> Work<K, T> {
    fn new() -> Self {
        let resting = Resting { order: VecDeque::new(), topics: HashMap::new(), awaited: BinaryHeap::new() };
        Self { sets: VecDeque::new(), run: VecDeque::new(), resting }
    }
}

/// A topic whose tasks are to be woken, RUNNING.
struct Run<K, T> {
    topic: TopicArc<K, T>,
    /// Once it has begun.
    pass: Option<Pass>,
}

/// What a part of a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    /// The key was fanned out less than the interval ago.
    Rests,
    /// There is more to do at that key.
    Stopped,
    /// The pass is through.
    Through,
}

/// What the first step found.
struct Marked<K, T> {
    sets: Few<Waker>,
    /// RUNNING since.
    run: Few<Run<K, T>>,
    dropped: Few<TopicArc<K, T>>,
}

/// Each may be the last that holds its topic, whose events' drops are user code.
fn drop_each<K, T>(topics: Few<TopicArc<K, T>>, panics: &mut FirstPanic) {
    topics.pour(|topic| panics.run(|| drop(topic)));
}

/// Topics that were fanned out less than the interval ago.
struct Resting<K, T> {
    /// By when they may be again, which is the order in which they came here. By address: nothing is read by it; and by hash, since where a
    /// topic lay that is gone one of another key may lie.
    order: VecDeque<(Instant, (usize, u64))>,
    topics: HashMap<(usize, u64), Rest<K, T>>,
    /// By when those may be that something waits for: not all are looked at for that.
    awaited: BinaryHeap<Reverse<Instant>>,
}

struct Rest<K, T> {
    due: Instant,
    /// What waits for that.
    run: Option<Run<K, T>>,
}

impl<K, T> Resting<K, T> {
    /// Lets go what may be fanned out again at `now`; everything, without one.
    fn release(&mut self, now: Option<Instant>, run: &mut VecDeque<Run<K, T>>) {
        while self.order.front().is_some_and(|(due, _)| now.is_none_or(|now| *due <= now)) {
            let Some((_, key)) = self.order.pop_front() else { break };
            run.extend(self.topics.remove(&key).and_then(|rest| rest.run));
        }
        while self.awaited.peek().is_some_and(|Reverse(due)| now.is_none_or(|now| *due <= now)) {
            self.awaited.pop();
        }
    }
}

/// One relay, and what those who are bound to it wait for.
pub(crate) struct Server<K, T> {
    id: u64,
    pub(crate) bell: Bell,
    /// That of a task beside the relay that does nothing: see `push`.
    pub(crate) nudge: Bell,
    list: Mutex<List<K, T>>,
}

struct List<K, T> {
    is_alive: bool,
    bound: VecDeque<BoundRun<K, T>>,
}

/// A bound lane of a topic whose readers are to be woken.
struct BoundRun<K, T> {
    topic: TopicArc<K, T>,
    lane: u8,
    pass: Option<Pass>,
}

impl<K, T> Pulse<K, T> {
    pub(crate) fn new(start_seq: u64, retain_events: u64, interval: Option<Duration>, counts_topics: bool) -> Self {
        Self {
            progress: Padded::new(Progress {
                completed: AtomicU64::new(start_seq),
                issued: AtomicU64::new(start_seq),
                published: Tally::new(0),
                unread: Tally::new(0),
                coalesced: Tally::new(0),
                relay_wakes: Tally::new(0),
            }),
            tallies: Padded::default(),
            ring: Ring::new(),
            turn: Padded::new(AtomicU32::new(0)),
            desk: Mutex::new(Desk { work: Some(Box::new(Work::new())), swept: None }),
            roster: Roster::new(),
            done: AtomicU64::new(0),
            low: AtomicU64::new(start_seq),
            bells: [Bell::new(), Bell::new()],
            roles: [AtomicU32::new(0), AtomicU32::new(0)],
            servers: Mutex::new(Vec::new()),
            ended: AtomicU32::new(0),
            interval,
            overdue: (retain_events / 4).clamp(1, OVERDUE),
            counts_topics,
        }
    }

    // The publisher's side.

    /// Whether the next topic somebody waits at goes to the relay.
    #[inline]
    pub(crate) fn has_relay(&self) -> bool {
        self.ring.accepts()
    }

    /// Gives a topic to the relay.
    ///
    /// # Safety
    /// The caller is the hub's writer, in its exclusive section, and `has_relay` was true since it last called this.
    #[inline]
    pub(crate) unsafe fn push(&self, topic: TopicArc<K, T>) -> Pushed {
        // SAFETY: W4: by the contract of this function.
        unsafe { self.ring.push(topic) }
    }

    /// Whether a relay that was to come by for a topic this many events ago is waited for no more.
    #[inline]
    pub(crate) fn is_overdue(&self, events: u64) -> bool {
        events >= self.overdue
    }

    /// Wakes the relay.
    pub(crate) fn rouse(&self, panics: &mut FirstPanic) {
        let mut woken = Woken::default();
        self.bells[Role::Main as usize].ring(&mut woken);
        // A publisher that runs on a worker of the relay's runtime, and computes on, keeps from running what it woke last: that is the
        // twin then, and the relay goes to whoever is free.
        if !self.lacks_twin() && super::relay::is_in_runtime() {
            self.bells[Role::Twin as usize].ring(&mut woken);
        }
        panics.note(woken.panic);
    }

    /// Wakes the tasks that are parked at a topic, here and now.
    pub(crate) fn wake_tasks(&self, topic: &Topic<K, T>, panics: &mut FirstPanic) {
        let mut woken = Woken::default();
        topic.waiters.wake_tasks(&topic.chain.word, &mut woken);
        if self.ring.is_alive() {
            self.tallies.fall_backs.add(1);
            self.count(topic, |counts| &counts.fall_backs);
        }
        self.count_woken(topic, 1, &woken);
        self.note(1, woken, panics);
    }

    /// Wakes the first of the threads that are parked at a topic, and tells relays of those who are bound to them.
    pub(crate) fn wake_aside(&self, topic: &TopicArc<K, T>, panics: &mut FirstPanic) {
        let mut woken = Woken::default();
        let lanes = topic.waiters.wake_aside(&topic.chain.word, &mut woken);
        for lane in lanes {
            self.wake_bound(topic, lane, &mut woken);
        }
        self.count_woken(topic, 1, &woken);
        self.note(1, woken, panics);
    }

    fn wake_bound(&self, topic: &TopicArc<K, T>, lane: u8, woken: &mut Woken) {
        let Some(relay) = topic.waiters.relay_of(lane) else { return };
        let count = topic.chain.word.observe().count();
        let server = self.servers.lock().iter().find(|server| server.id == relay).cloned();
        let is_served = server.is_some_and(|server| match topic.waiters.queue_bound(lane, count) {
            Ok(()) => self.give_to(&server, topic, lane, woken),
            Err(since) => !self.is_overdue(count.saturating_sub(since)),
        });
        if !is_served {
            topic.waiters.wake_bound(lane, &topic.chain.word, woken);
        }
    }

    /// False: the relay was never polled, or is gone.
    fn give_to(&self, server: &Server<K, T>, topic: &TopicArc<K, T>, lane: u8, woken: &mut Woken) -> bool {
        let mut rung = Woken::default();
        let is_taken = server.push(topic, lane, &mut rung);
        // These are wakes of no reader.
        self.tallies.relay_wakes.add(u64::from(rung.wakes > 0));
        if let Some(panic) = rung.panic {
            woken.panic.get_or_insert(panic);
        }
        is_taken
    }

    /// Marks the members of sets that wait for a topic, in the writer's exclusive section, before anything else is published and before the
    /// event is told as completed (P2). Of those whose sets sleep, puts the wakers into `sets`. No user code runs.
    #[cold]
    pub(crate) fn mark_here(topic: &Topic<K, T>, sets: &mut Few<Waker>) {
        let mut woken = Woken { later: std::mem::take(sets), ..Woken::default() };
        // First: whoever finds SETS by this finds the lane.
        let state = topic.chain.word.take(Waiting::SETS);
        topic.waiters.mark(state, &topic.chain.word, &mut woken);
        *sets = woken.later;
    }

    /// The same at a topic that was closed, beside the writer.
    fn mark_closed(&self, topic: &Topic<K, T>, panics: &mut FirstPanic) {
        // Where it does not show, somebody else is at it, and finds out by himself that the topic is closed.
        if !topic.chain.word.observe().has(Waiting::SETS) {
            return;
        }
        let mut sets = Few::default();
        self.roster.begin();
        Self::mark_here(topic, &mut sets);
        self.roster.end(&mut sets);
        self.wake_sets(sets, panics);
    }

    /// Wakes sets, of which each was marked.
    pub(crate) fn wake_sets(&self, sets: Few<Waker>, panics: &mut FirstPanic) {
        sets.pour(|waker| {
            self.tallies.wakes.add(1);
            panics.run(|| waker.wake());
        });
    }

    /// Up to where a set knows all of its keys that takes over what was marked now, and has seen the event `seen`, or that the hub has
    /// completed it. Up to `known` it did before. See `Roster`.
    #[inline]
    pub(crate) fn watermark(&self, seen: u64, known: u64) -> u64 {
        // In this order: of what was pushed for events up to `seen`, which shows here, all was marked if as much was done.
        let pushed = self.ring.pushed();
        // Acquire (pairs with the store in `mark`): the marks are in the lists.
        let is_done = self.done.load(Ordering::Acquire) >= pushed;
        // Acquire (pairs with the store in `mark`): likewise, of events up to it.
        let reached = if is_done { seen } else { self.low.load(Ordering::Acquire) };
        if self.roster.is_marking() { known } else { reached.max(known) }
    }

    /// Does the relay's first step for it, which is late, or that somebody waits for who does not depend on relays.
    pub(crate) fn mark_now(&self, panics: &mut FirstPanic) {
        // AcqRel (pairs with the exchange in `take_turns`): as in `work`.
        if self.turn.fetch_add(1, Ordering::AcqRel) == 0 {
            let turns = self.take_turns(panics, true);
            // A relay that came by meanwhile was told that somebody is at work, and is not asleep for who pushes next.
            if turns.more || turns.was_joined {
                self.ring_main(panics);
            }
        }
    }

    /// Whether something was given to the relay that it has not come by for.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        let pushed = self.ring.pushed();
        // Relaxed: only whether it is worth while to work.
        self.done.load(Ordering::Relaxed) < pushed
    }

    /// A set that wants to go on does the relay's first step. Panics of other sets' wakers are not its own.
    #[cold]
    pub(crate) fn help(&self) {
        let mut panics = FirstPanic::default();
        self.mark_now(&mut panics);
        self.swallow(&panics);
    }

    /// A waker's panic is nobody's in the relay's work: the others were woken all the same. It is counted, and goes nowhere.
    pub(crate) fn swallow(&self, panics: &FirstPanic) {
        self.tallies.panics.add(u64::from(panics.is_some()));
    }

    /// A thread is about to block on a set.
    pub(crate) fn block(&self) {
        self.roster.block();
        if self.is_behind() {
            self.help();
        }
    }

    /// Wakes everybody who is parked at a topic that was closed.
    pub(crate) fn wake_all(&self, topic: &Topic<K, T>, panics: &mut FirstPanic) {
        self.mark_closed(topic, panics);
        let mut woken = Woken::default();
        topic.waiters.wake_tasks(&topic.chain.word, &mut woken);
        for lane in topic.waiters.wake_aside(&topic.chain.word, &mut woken) {
            topic.waiters.wake_bound(lane, &topic.chain.word, &mut woken);
        }
        self.count_woken(topic, 1, &woken);
        self.note(1, woken, panics);
    }

    /// A blocked thread was woken, or leaves without having seen that it was: it wakes the next ones.
    pub(crate) fn hand_on(&self, topic: &Topic<K, T>, panics: &mut FirstPanic) {
        let mut woken = Woken::default();
        topic.waiters.hand_on(&topic.chain.word, &mut woken);
        self.count_woken(topic, 0, &woken);
        self.note(0, woken, panics);
    }

    /// Counts one for a key, where that is wished.
    #[inline]
    pub(crate) fn count(&self, topic: &Topic<K, T>, which: impl Fn(&Counts) -> &Tally) {
        if self.counts_topics {
            which(topic.waiters.counts()).add(1);
        }
    }

    /// A reader whose predicate accepted something is woken.
    pub(crate) fn count_wake(&self, topic: &Topic<K, T>) {
        self.tallies.wakes.add(1);
        self.count(topic, |counts| &counts.wakes);
    }

    fn count_woken(&self, topic: &Topic<K, T>, fan_outs: u64, woken: &Woken) {
        self.count_since(topic, fan_outs, (0, 0), woken);
    }

    /// The same for what came to `woken` since it had so many wakes and empty ones.
    fn count_since(&self, topic: &Topic<K, T>, fan_outs: u64, (wakes, empty): (u64, u64), woken: &Woken) {
        if self.counts_topics {
            let counts = topic.waiters.counts();
            counts.fan_outs.add(fan_outs);
            counts.wakes.add(woken.wakes - wakes);
            counts.empty.add(woken.empty - empty);
        }
    }

    fn note(&self, fan_outs: u64, woken: Woken, panics: &mut FirstPanic) {
        self.tallies.fan_outs.add(fan_outs);
        if woken.wakes > 0 {
            self.tallies.wakes.add(woken.wakes);
        }
        if woken.empty > 0 {
            self.tallies.empty.add(woken.empty);
        }
        panics.note(woken.panic);
    }

    // The relays' side.

    pub(crate) fn has_ended(&self) -> bool {
        // Acquire (pairs with `end`): a relay that finds this has nothing more to do.
        self.ended.load(Ordering::Acquire) != 0
    }

    /// Takes a role that nobody has.
    pub(crate) fn take_role(&self, role: Role) -> bool {
        // Acquire (pairs with `leave_role`): the one who had it before is done with its bell. Failure Relaxed: nothing is done then.
        self.roles[role as usize].compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether nobody is the main relay's twin.
    pub(crate) fn lacks_twin(&self) -> bool {
        // Relaxed: a hint.
        self.roles[Role::Twin as usize].load(Ordering::Relaxed) == 0
    }

    fn leave_role(&self, role: Role) {
        // Release (pairs with `take_role`): we are done with the bell. A read-modify-write, as every change of it.
        self.roles[role as usize].swap(0, Ordering::Release);
    }

    /// The main relay's, or the twin's: for its holder to lay its waker into.
    pub(crate) fn bell(&self, role: Role) -> &Bell {
        &self.bells[role as usize]
    }

    /// A main relay is polled for the first time.
    pub(crate) fn open(&self) {
        self.ring.open();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.ring.is_alive()
    }

    /// The main relay goes, in whatever way: what waits for it is woken at once, and later events by their publishers, until another
    /// relay is polled.
    pub(crate) fn close(&self, panics: &mut FirstPanic) {
        self.ring.close();
        self.work(panics);
        // The drop of the waker is user code, and must not keep another relay from taking over.
        panics.run(|| self.bell(Role::Main).take());
        self.leave_role(Role::Main);
        let mut woken = Woken::default();
        self.bell(Role::Twin).ring(&mut woken);
        self.ring_servers(&mut woken);
        panics.note(woken.panic);
    }

    /// The twin goes: what it had begun is the main relay's.
    pub(crate) fn leave_twin(&self, panics: &mut FirstPanic) {
        panics.run(|| self.bell(Role::Twin).take());
        self.leave_role(Role::Twin);
        self.ring_main(panics);
    }

    /// Has the main relay look for work.
    pub(crate) fn ring_main(&self, panics: &mut FirstPanic) {
        let mut woken = Woken::default();
        self.bell(Role::Main).ring(&mut woken);
        panics.note(woken.panic);
    }

    /// The work of a relay that went while a publisher gave it something, by that publisher.
    pub(crate) fn drain(&self, panics: &mut FirstPanic) {
        if self.work(panics) != Worked::Busy {
            // Another relay may have come meanwhile: told that somebody is at work, it is not asleep for who pushes next.
            self.ring_main(panics);
        }
    }

    fn ring_servers(&self, woken: &mut Woken) {
        let servers = self.servers.lock().clone();
        for server in servers {
            server.bell.ring(woken);
        }
    }

    /// The hub is shut down, or the last of its handles is gone: relays end.
    pub(crate) fn end(&self, panics: &mut FirstPanic) {
        // Release (pairs with `has_ended`). A read-modify-write, as every change of it.
        self.ended.swap(1, Ordering::Release);
        let mut woken = Woken::default();
        for bell in &self.bells {
            bell.ring(&mut woken);
        }
        self.ring_servers(&mut woken);
        panics.note(woken.panic);
    }

    /// The relay has nothing left to do, and its waker lies in its bell. False: something came.
    pub(crate) fn sleep(&self) -> bool {
        self.ring.sleep()
    }

    /// When a resting topic that somebody waits at may be fanned out again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.interval?;
        self.desk.lock().work.as_ref()?.resting.awaited.peek().map(|Reverse(due)| *due)
    }

    /// For who has no timer: lets topics go that may be fanned out again at `now`.
    pub(crate) fn sweep(&self, now: Instant, panics: &mut FirstPanic) {
        if self.interval.is_none() {
            return;
        }
        let mut desk = self.desk.lock();
        let Some(work) = &mut desk.work else {
            desk.swept = desk.swept.max(Some(now));
            return;
        };
        let Work { run, resting, .. } = &mut **work;
        resting.release(Some(now), run);
        let is_due = !run.is_empty();
        drop(desk);
        if is_due {
            self.tallies.relay_wakes.add(1);
            self.rouse(panics);
        }
    }

    /// Does what a relay is there for: a part of it, where one is alive, and everything where there is none any more.
    pub(crate) fn work(&self, panics: &mut FirstPanic) -> Worked {
        // AcqRel (pairs with the exchange in `take_turns`): whoever finds 0 has what the one before left; whoever does not is seen by the one at work.
        if self.turn.fetch_add(1, Ordering::AcqRel) != 0 {
            return Worked::Busy;
        }
        if self.take_turns(panics, false).more { Worked::More } else { Worked::Idle }
    }

    /// Works until nobody has come by meanwhile.
    fn take_turns(&self, panics: &mut FirstPanic, only_marks: bool) -> Turns {
        let mut seen = 1;
        loop {
            // A relay that goes while we are at it leaves all its work to us.
            let more = if only_marks && self.ring.is_alive() { self.mark_once(panics) } else { self.work_once(panics) };
            // AcqRel (pairs with the additions in `work` and `mark_now`): see there. Failure Acquire: we see what they came for.
            match self.turn.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Turns { more, was_joined: seen != 1 },
                Err(now) => seen = now,
            }
        }
    }

    /// The first step only. True: there is more to do, for the relay.
    fn mark_once(&self, panics: &mut FirstPanic) -> bool {
        let marked = self.mark();
        // What rests stays on the desk meanwhile, where the relay finds it, for its timer.
        let mut desk = self.desk.lock();
        // The turn is ours: nobody else is at it.
        let work = desk.work.get_or_insert_with(|| Box::new(Work::new()));
        marked.run.pour(|run| work.run.push_back(run));
        marked.sets.pour(|waker| work.sets.push_back(waker));
        let more = !work.run.is_empty();
        let sets = std::mem::take(&mut work.sets);
        drop(desk);
        for waker in sets {
            self.wake_sets(Few::of(waker), panics);
        }
        drop_each(marked.dropped, panics);
        more
    }

    fn take_work(&self) -> Box<Work<K, T>> {
        self.desk.lock().work.take().unwrap_or_else(|| Box::new(Work::new()))
    }

    /// True: there is more to do.
    fn put_back(&self, mut work: Box<Work<K, T>>) -> bool {
        let mut desk = self.desk.lock();
        // A sweep may have come between, which found nothing.
        if let Some(now) = desk.swept.take() {
            let Work { run, resting, .. } = &mut *work;
            resting.release(Some(now), run);
        }
        let more = !work.run.is_empty() || !work.sets.is_empty();
        desk.work = Some(work);
        more
    }

    /// True: there is more to do.
    fn work_once(&self, panics: &mut FirstPanic) -> bool {
        let mut boxed = self.take_work();
        let work = &mut *boxed;
        let is_alive = self.ring.is_alive();
        let marked = self.mark();
        marked.run.pour(|run| work.run.push_back(run));
        marked.sets.pour(|waker| work.sets.push_back(waker));
        let mut dropped = marked.dropped;
        if self.interval.is_some() {
            work.resting.release(is_alive.then(Instant::now), &mut work.run);
        }
        let mut woken = Woken::default();
        let mut sets = 0;
        while !is_alive || sets < BATCH {
            let Some(waker) = work.sets.pop_front() else { break };
            sets += 1;
            self.wake_sets(Few::of(waker), panics);
        }
        let (mut looks, mut passes) = (0, 0);
        loop {
            let budget = if is_alive { BATCH.saturating_sub(sets + woken.spent()) } else { usize::MAX };
            if budget == 0 {
                break;
            }
            let Some(run) = work.run.pop_front() else { break };
            looks += 1;
            let ran = self.run(run, budget, is_alive, work, &mut woken, &mut dropped);
            passes += u64::from(ran == Ran::Through);
            // One that stopped had no room for a whole row: what is left of the budget is not worth cutting one.
            if ran == Ran::Stopped || looks >= BATCH && is_alive {
                break;
            }
        }
        let more = self.put_back(boxed);
        self.note(passes, woken, panics);
        drop_each(dropped, panics);
        more
    }

    /// The first step, for all that was pushed: whoever is to be told before any task is woken.
    fn mark(&self) -> Marked<K, T> {
        // First: of the events up to here, all pushes show below.
        let completed = self.progress.completed();
        let pushed = self.ring.pushed();
        // Relaxed: only who works changes it.
        let mut done = self.done.load(Ordering::Relaxed);
        let before = done;
        let mut marked = Marked { sets: Few::default(), run: Few::default(), dropped: Few::default() };
        let mut sets = Woken::default();
        while done < pushed {
            // SAFETY: W4: the turn is ours.
            let Some(topic) = (unsafe { self.ring.take() }) else { break };
            done += 1;
            let state: State = topic.chain.word.unqueue();
            if state.has(Waiting::SETS) {
                topic.waiters.mark(state, &topic.chain.word, &mut sets);
            }
            if state.has(Waiting::TASKS) && !state.is_running() {
                topic.chain.word.set_running(true);
                marked.run.push(Run { topic, pass: None });
            } else {
                marked.dropped.push(topic);
            }
        }
        // Release (pairs with `watermark`): the marks come before.
        self.low.store(completed, Ordering::Release);
        // Release (pairs with `watermark`): as `low`.
        self.done.store(done, Ordering::Release);
        if done != before {
            self.roster.release_held(&mut sets.later);
        }
        marked.sets = sets.later;
        marked
    }

    /// One part of a pass over a topic's tasks.
    fn run(
        &self,
        run: Run<K, T>,
        budget: usize,
        is_alive: bool,
        work: &mut Work<K, T>,
        woken: &mut Woken,
        dropped: &mut Few<TopicArc<K, T>>,
    ) -> Ran {
        let Run { topic, pass } = run;
        let word = &topic.chain.word;
        let key = (Arc::as_ptr(&topic).addr(), topic.hash());
        if let Some(rest) = work.resting.topics.get_mut(&key).filter(|_| pass.is_none() && is_alive) {
            work.resting.awaited.push(Reverse(rest.due));
            rest.run = Some(Run { topic, pass: None });
            return Ran::Rests;
        }
        let mut pass = pass.unwrap_or_else(|| Pass::begin(word));
        topic.waiters.note_queued(pass.count());
        let before = (woken.wakes, woken.empty);
        let is_through = topic.waiters.wake_some_tasks(&mut pass, budget, woken);
        self.count_since(&topic, u64::from(is_through), before, woken);
        if !is_through {
            work.run.push_back(Run { topic, pass: Some(pass) });
            return Ran::Stopped;
        }
        let again = pass.end(word);
        if let Some(interval) = self.interval.filter(|_| is_alive) {
            if let Some(due) = Instant::now().checked_add(interval) {
                work.resting.order.push_back((due, key));
                work.resting.topics.insert(key, Rest { due, run: None });
            }
        }
        if again {
            work.run.push_back(Run { topic, pass: None });
        } else {
            dropped.push(topic);
        }
        Ran::Through
    }

    /// A relay for whom readers can be bound to it.
    pub(crate) fn add_server(&self) -> Arc<Server<K, T>> {
        let server = Arc::new(Server {
            // Not the hub's own count: where a hub lay that is gone another one may lie.
            id: unique_number(),
            bell: Bell::new(),
            nudge: Bell::new(),
            list: Mutex::new(List { is_alive: false, bound: VecDeque::new() }),
        });
        self.servers.lock().push(Arc::clone(&server));
        server
    }

    /// A relay goes: those who are bound to it are woken at once, and later by their publishers.
    pub(crate) fn remove_server(&self, server: &Arc<Server<K, T>>, panics: &mut FirstPanic) {
        self.servers.lock().retain(|other| !Arc::ptr_eq(other, server));
        server.list.lock().is_alive = false;
        panics.run(|| server.bell.take());
        let mut woken = Woken::default();
        server.nudge.ring(&mut woken);
        panics.note(woken.panic);
        self.serve(server, usize::MAX, panics);
    }

    /// Wakes those who are bound to a relay, about `budget` of them. True: there are more.
    pub(crate) fn serve(&self, server: &Server<K, T>, budget: usize, panics: &mut FirstPanic) -> bool {
        let mut woken = Woken::default();
        let mut dropped = Few::default();
        let (mut looks, mut passes) = (0, 0);
        let more = loop {
            let left = budget.saturating_sub(usize::try_from(woken.wakes).unwrap_or(budget));
            let Some(BoundRun { topic, lane, pass }) = server.list.lock().bound.pop_front() else { break false };
            let mut pass = pass.unwrap_or_else(|| topic.waiters.begin_bound(lane, &topic.chain.word));
            looks += 1;
            let before = (woken.wakes, woken.empty);
            let is_through = topic.waiters.wake_some_bound(lane, &mut pass, left, &mut woken);
            passes += u64::from(is_through);
            self.count_since(&topic, u64::from(is_through), before, &woken);
            if !is_through {
                server.list.lock().bound.push_back(BoundRun { topic, lane, pass: Some(pass) });
            } else if topic.waiters.end_bound(lane, pass, &topic.chain.word) {
                server.list.lock().bound.push_back(BoundRun { topic, lane, pass: None });
            } else {
                dropped.push(topic);
            }
            if !is_through || usize::try_from(woken.wakes).unwrap_or(budget) >= budget || looks >= budget {
                break !server.list.lock().bound.is_empty();
            }
        };
        self.note(passes, woken, panics);
        drop_each(dropped, panics);
        more
    }

    /// How many wakes a relay gives before it lets others run.
    pub(crate) fn batch() -> usize {
        BATCH
    }
}

impl<K, T> Server<K, T> {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// It is polled for the first time.
    pub(crate) fn come_alive(&self) {
        self.list.lock().is_alive = true;
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.list.lock().is_alive
    }

    /// Takes on a bound lane, and wakes its relay. False: it was never polled, or is gone.
    fn push(&self, topic: &TopicArc<K, T>, lane: u8, woken: &mut Woken) -> bool {
        let run = BoundRun { topic: Arc::clone(topic), lane, pass: None };
        let mut list = self.list.lock();
        if !list.is_alive {
            drop(list);
            topic.waiters.unqueue_bound(lane);
            return false;
        }
        let was_empty = list.bound.is_empty();
        list.bound.push_back(run);
        drop(list);
        if was_empty {
            self.bell.ring(woken);
            // As for the twin, in `rouse`.
            if super::relay::is_in_runtime() {
                self.nudge.ring(woken);
            }
        }
        true
    }
}

impl<K, T> fmt::Debug for Pulse<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("progress", &self.progress).field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl<K, T> fmt::Debug for Server<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("id", &self.id).finish_non_exhaustive()
    }
}
