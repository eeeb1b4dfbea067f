//! What a publish writes does not grow with readers or with keys, and what it touches no reader of another key writes: counted line by
//! line, since time on few cores does not show it.
//!
//! `cargo counted -- --nocapture` prints the counts. Only under `cfg(keywake_count)` is this file more than this comment: then
//! everything that comes through `src/sync.rs` (atomics, locks and what they guard, cells, reference counts, tallies, the hub's
//! settings) notes the cache line, of 64 bytes, that it touches. What does not come from there is private to a thread, guarded by a lock
//! that is counted, or does not change; keys note what is compared of them. Each allocation here begins on a line of its own
//! and small ones are not given back, so that a line is one thing for the whole run; what a user's allocator puts beside each
//! other is not what is promised. (All loads and stores of the real build, by `valgrind --tool=lackey --trace-mem=yes`, showed a publish
//! two lines that readers of other keys write, of 23: a small allocation in front of its topic, and one behind its index.)
//!
//! A test that cannot fail shows nothing. These were planted one by one, `cargo counted` run, and taken out again (2026-11-30):
//!
//! | planted | where | failed |
//! |---|---|---|
//! | `tallies.fan_outs.add(0)`: a counter that each publish and each receive adds to | `Writer::finish`, `Subscription::find` | both of publish against readers, both of a reader against others, the counts of a publish |
//! | `tallies.gaps.add(0)`: a counter that each parking reader adds to | `Subscription::park` | `a_reader_meets_no_reader_of_another_key` |
//! | `wake: true`: a publish goes over its readers' slots, parked or not | `Chain::append` | `a_publish_writes_the_same_for_any_number_of_readers_and_of_keys` |
//! | a look at the word of one topic of each table | `Writer::finish` | the counts of a publish, all three; `a_publish_meets_no_reader_of_another_key` |
//! | `registry.shard(..).lock()` | `Writer::append` | the counts of a publish; `a_publish_meets_no_reader_of_another_key` |
//! | no `repr(align(128))` | `Padded` | `a_publish_meets_no_reader_of_another_key` |
//! | readers begin at `progress.completed()` | `Hub::begin_now` | `a_publish_meets_no_reader_of_another_key` |
//! | `push_once(&mut self.wake, topic)` also where there is a relay: the publisher wakes them all | `After::wake` | `a_publish_with_a_relay_writes_the_same_for_any_number_of_parked_readers` |
//! | `Pulse::mark_here` also where there is a relay: the publisher marks the sets | `After::wake` | `a_publish_with_a_relay_writes_the_same_for_any_number_of_sets_that_wait` |
//! | `has_relay()` asked for each event | `Writer::append` | `a_publish_that_meets_nobody_parked_does_not_meet_a_relay_at_work` |

#![cfg(keywake_count)]
#![expect(clippy::print_stdout, reason = "the tables are what this program is for as well")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeSet,
    convert::Infallible,
    future::Future,
    hash::{Hash, Hasher},
    pin::{Pin, pin},
    ptr,
    task::{Context, Poll, Waker},
    time::Duration,
};

use keywake::{
    Builder, CloseReason, Hub, Publisher, Received, Relay, Start, Subscription, SubscriptionSet,
    counting::{Access, LINE, Record, note, record},
};

/// Allocations on lines of their own; what is smaller than this is not given back.
struct OwnLines;

const SMALL: usize = 8 << 10;

fn on_own_lines(layout: Layout) -> Layout {
    layout.align_to(LINE).map_or(layout, |layout| layout.pad_to_align())
}

// SAFETY: every call goes to `System`, with a layout that is at least the caller's, and the same for both of a pair.
unsafe impl GlobalAlloc for OwnLines {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise: not of size zero.
        unsafe { System.alloc(on_own_lines(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= SMALL {
            // SAFETY: made by `alloc` with this layout.
            unsafe { System.dealloc(block, on_own_lines(layout)) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: OwnLines = OwnLines;

/// A key that notes where it is found: in its topic. Where it is compared and not found, it counts that.
#[derive(Clone, Debug, Eq)]
struct Key(u64);

thread_local! {
    static MISTAKEN: Cell<u64> = const { Cell::new(0) };
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let is_found = self.0 == other.0;
        if is_found {
            note(Access::Fixed, ptr::from_ref(self).addr(), size_of::<Self>());
        } else {
            MISTAKEN.set(MISTAKEN.get() + 1);
        }
        is_found
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

type Reader = Subscription<Key, u64>;

/// The key whose cost is asked for; the others count from 1.
const OURS: Key = Key(0);

fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Receives one thing; false: there is none, and the reader is parked.
fn receive(reader: &mut Reader) -> bool {
    match reader.poll_recv(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(received) => {
            drop(received.expect("not closed"));
            true
        }
        Poll::Pending => false,
    }
}

/// Receives all that is there, and parks.
fn drain(reader: &mut Reader) -> u64 {
    let mut received = 0;
    while reader.try_recv().is_ok() {
        received += 1;
    }
    assert!(!receive(reader), "all was received");
    received
}

/// A hub with readers of our key and of others.
struct Scene {
    publisher: Publisher<Key, u64>,
    hub: Hub<Key, u64>,
    ours: Vec<Reader>,
    others: Vec<Reader>,
}

impl Scene {
    /// `readers` of our key, and one of each of `keys` others, who is parked. Blocks of our key are as long as they get, and the tail is
    /// neither empty nor full for 32 events.
    fn new(builder: Builder<Key, u64>, readers: usize, keys: u64) -> Self {
        let (mut publisher, hub) = builder.build();
        let ours = (0..readers).map(|_| hub.subscribe(&OURS)).collect();
        let mut others: Vec<_> = (1..=keys).map(|key| hub.subscribe(&Key(key))).collect();
        for (key, reader) in (1..).map(Key).zip(&mut others) {
            publisher.publish(&key, 0);
            assert_eq!(drain(reader), 1, "the event");
        }
        let mut scene = Self { publisher, hub, ours, others };
        scene.publish_ours(4 + 16 + 64 + 16);
        scene
    }

    fn usual(readers: usize, keys: u64) -> Self {
        Self::new(Builder::new(), readers, keys)
    }

    fn publish_ours(&mut self, events: u64) {
        for event in 0..events {
            self.publisher.publish(&OURS, event);
        }
    }

    fn publish_others(&mut self, keys: u64, event: u64) {
        for key in (1..=keys).map(Key) {
            self.publisher.publish(&key, event);
        }
    }

    /// Publishes until the tail has room for 48 events more: whatever was put off by others, such as the freeing of what they left, is
    /// done by then, and a block that was just started has come of age.
    fn come_to_rest(&mut self) {
        let at = self.hub.topic_stats(&OURS).expect("it is read").published;
        let into_block = (at - (4 + 16)) % 64;
        self.publish_ours(64 - into_block + 16);
    }

    /// What 32 publishes to our key touch.
    fn publishes(&mut self) -> Record {
        record(|| self.publish_ours(32)).1
    }

    /// What readers of other keys do all day: come, receive, wait, are cancelled, are told of losses, go; those of keys that are known and of
    /// such as were not, with their topics made and removed; one is closed, somebody waits for a reader.
    fn what_readers_of_others_do(&mut self) -> Record {
        let keys = self.others.len() as u64;
        for event in 0..8 {
            self.publish_others(keys, event);
        }
        // Far more than is kept.
        for event in 0..3_000 {
            self.publisher.publish(&Key(1), event);
        }
        let Self { hub, others, .. } = self;
        let mut closed = others.remove(2);
        hub.close(closed.key(), CloseReason::Shutdown);
        let ((), record) = record(|| {
            for reader in others.iter_mut() {
                receive(reader);
                drop(reader.try_recv_ref());
                let held = reader.try_recv();
                drain(reader);
                drop(held);
                assert!(poll(pin!(reader.recv())).is_none(), "a cancelled wait");
                assert_eq!(reader.lag(), 0);
                let mut second = hub.subscribe_from(reader.key(), Start::Oldest);
                drain(&mut second);
                let mut third = hub.subscribe_from(reader.key(), Start::Latest);
                drain(&mut third);
                // Blocks, and is not woken in time.
                assert!(third.recv_timeout(Duration::ZERO).is_err(), "all was received");
            }
            for key in (u64::MAX - 1_000..u64::MAX).map(Key) {
                receive(&mut hub.subscribe(&key));
            }
            let mut waiting = pin!(hub.wait_for_reader(&Key(u64::MAX)));
            assert!(poll(waiting.as_mut()).is_none(), "nobody reads it");
            drop(hub.subscribe(&Key(u64::MAX)));
            while closed.try_recv().is_ok() {}
            drop(closed);
            // The last of its key, with 9 events: what it leaves is freed by itself.
            drop(others.remove(2));
        });
        self.come_to_rest();
        record
    }
}

/// Prints a row of the README's table: per operation.
fn row(what: &str, operations: u64, record: &Record) {
    let total = record.total();
    let per = |number: u64| {
        let text = format!("{:.2}", number as f64 / operations as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let (rmws, stores, loads, fixed) = (per(total.rmws), per(total.stores), per(total.loads), per(total.fixed));
    println!("| {what} | {rmws} | {stores} | {loads} | {fixed} | {} | {} |", record.written(), record.lines.len());
}

fn head(of: &str) {
    println!(
        "\n| {of} | read-modify-writes | stores | loads | reads of settings | lines written, in all | lines touched, in all |"
    );
    println!("|---|---|---|---|---|---|---|");
}

/// The counts, and how many lines are written.
fn size(record: &Record) -> ((u64, u64, u64), usize) {
    (record.total().numbers(), record.written())
}

/// Neither touches what the other writes.
#[track_caller]
fn assert_apart(one: &Record, other: &Record) {
    let conflicts = one.conflicts_with(other);
    assert!(conflicts.is_empty(), "lines that one writes and the other touches: {conflicts:?}");
}

const SIZES: [usize; 4] = [1, 10, 1_000, 100_000];

#[test]
fn a_publish_writes_the_same_for_any_number_of_readers_and_of_keys() {
    head("a publish, nobody of its key parked; 32 in a row");
    let mut sizes = BTreeSet::new();
    let scenes = SIZES.map(|readers| (readers, 1)).into_iter().chain(SIZES.map(|keys| (1, keys)));
    for (readers, keys) in scenes {
        let record = Scene::usual(readers, keys as u64).publishes();
        row(&format!("{readers} readers of the key, {keys} other keys with a parked reader each"), 32, &record);
        assert_eq!(record.total().rmws, 2 * 32, "going in and going out: {record:?}");
        sizes.insert(size(&record));
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

#[test]
fn a_publish_that_starts_a_block_writes_the_same_too() {
    head("64 publishes in a row, one of which starts a block and takes the oldest out of reach");
    let mut sizes = BTreeSet::new();
    for (readers, keys) in [(1, 1), (1_000, 1), (1, 1_000)] {
        let mut scene = Scene::usual(readers, keys);
        // Until blocks go.
        scene.publish_ours(2_000);
        scene.come_to_rest();
        let ((), record) = record(|| scene.publish_ours(64));
        row(&format!("{readers} readers of the key, {keys} other keys"), 64, &record);
        sizes.insert(size(&record));
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

/// A relay, polled until it sleeps.
fn rest(relay: &mut Pin<Box<Relay>>) {
    let mut cx = Context::from_waker(Waker::noop());
    // It comes back once after each part of a crowd.
    for _ in 0..10_000 {
        assert!(relay.as_mut().poll(&mut cx).is_pending(), "the hub is alive");
    }
}

#[test]
fn a_publish_with_a_relay_writes_the_same_for_any_number_of_parked_readers() {
    head("one publish, all readers of its key parked, the relay asleep; and the next one, the relay not having come by");
    let mut sizes = BTreeSet::new();
    for readers in SIZES {
        let mut scene = Scene::usual(readers, 1_000);
        let mut relay = Box::pin(scene.hub.relay());
        rest(&mut relay);
        // The first time some are parked in a place of their own for the first time.
        for _ in 0..2 {
            for reader in &mut scene.ours {
                drain(reader);
            }
            scene.publish_ours(1);
            rest(&mut relay);
        }
        for reader in &mut scene.ours {
            drain(reader);
        }
        let wakes = scene.hub.stats().wakes;
        let ((), first) = record(|| scene.publish_ours(1));
        let ((), second) = record(|| scene.publish_ours(1));
        assert_eq!(scene.hub.stats().wakes, wakes, "nobody is woken by the publisher");
        row(&format!("{readers} readers of the key, 1000 other keys with a parked reader each"), 1, &first);
        row("the next one", 1, &second);
        rest(&mut relay);
        assert_eq!(scene.hub.stats().wakes, wakes + readers as u64, "all are woken by the relay");
        sizes.insert((size(&first), size(&second)));
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

#[test]
fn a_publish_that_meets_nobody_parked_does_not_meet_a_relay_at_work() {
    let mut scene = Scene::usual(10, 1_000);
    let mut relay = Box::pin(scene.hub.relay());
    rest(&mut relay);
    scene.publish_others(1_000, 1);
    let ((), works) = record(|| rest(&mut relay));
    assert_eq!(scene.hub.stats().wakes, 1_000, "of others");
    let publishes = scene.publishes();
    // A relay looks at the position each time it is polled: sets must not hear of an event before those that came before it.
    let conflicts = publishes.conflicts_with(&works);
    assert!(conflicts.len() == 1 && !conflicts[0].other.is_written(), "{conflicts:?}");
}

#[test]
fn a_publish_to_a_key_that_nobody_reads_writes_the_same_for_any_number_of_keys() {
    head("a publish to a key that nobody reads; 32 in a row");
    let mut sizes = BTreeSet::new();
    for keys in SIZES {
        let mut scene = Scene::usual(1, keys as u64);
        let nobodys = Key(u64::MAX);
        scene.publisher.publish(&nobodys, 0);
        let ((), record) = record(|| {
            for event in 0..32 {
                scene.publisher.publish(&nobodys, event);
            }
        });
        row(&format!("{keys} other keys with a parked reader each"), 32, &record);
        sizes.insert(size(&record));
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

#[test]
fn a_publish_meets_no_reader_of_another_key() {
    for builder in [Builder::new(), Builder::new().weigher(|_| 8).retain_events(100)] {
        let mut scene = Scene::new(builder, 10, 1_000);
        let others = scene.what_readers_of_others_do();
        assert_apart(&scene.publishes(), &others);
        // Nor does one that wakes.
        for reader in &mut scene.ours {
            drain(reader);
        }
        let ((), waking) = record(|| scene.publish_ours(1));
        assert_eq!(scene.hub.stats().empty_wakes, 0);
        assert_apart(&waking, &others);
    }
}

#[test]
fn a_publish_meets_no_set_of_other_keys_but_at_the_position() {
    let mut scene = Scene::usual(10, 1_000);
    let mut relay = Box::pin(scene.hub.relay());
    rest(&mut relay);
    let mut set = scene.hub.subscribe_set();
    for key in (1..=1_000).map(Key) {
        set.add(&key);
    }
    let receive = |set: &mut SubscriptionSet<Key, u64>| {
        while set.try_recv().is_ok() {}
        assert!(set.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending(), "all was received");
    };
    receive(&mut set);
    scene.publish_others(1_000, 1);
    rest(&mut relay);
    let ((), sets) = record(|| {
        receive(&mut set);
        set.remove(&Key(1));
        let mut second = scene.hub.subscribe_set();
        for key in (1..=100).chain(2_000..2_010).map(Key) {
            second.add(&key);
        }
        receive(&mut second);
        drop(second);
        set.add(&Key(1));
        receive(&mut set);
    });
    rest(&mut relay);
    scene.come_to_rest();
    let publishes = scene.publishes();
    for reader in &mut scene.ours {
        drain(reader);
    }
    rest(&mut relay);
    let ((), rousing) = record(|| scene.publish_ours(1));
    for publishes in [publishes, rousing] {
        let conflicts = publishes.conflicts_with(&sets);
        assert!(conflicts.iter().all(|conflict| !conflict.other.is_written()), "{conflicts:?}");
        // And, with a relay, at how much was given to that.
        assert!(conflicts.len() <= 2, "{conflicts:?}");
    }
}

#[test]
fn a_publish_with_a_relay_writes_the_same_for_any_number_of_sets_that_wait() {
    head("one publish, all sets with its key parked, the relay asleep; and the next one, the relay not having come by");
    let mut sizes = BTreeSet::new();
    for sets in [1, 10, 1_000] {
        let mut scene = Scene::usual(0, 1);
        let mut relay = Box::pin(scene.hub.relay());
        rest(&mut relay);
        let mut waiting: Vec<_> = (0..sets).map(|_| scene.hub.subscribe_set()).collect();
        for round in 0..3 {
            for set in &mut waiting {
                assert_eq!(set.add(&OURS), round == 0);
                while set.try_recv().is_ok() {}
                assert!(set.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending(), "all was received");
            }
            if round < 2 {
                scene.publish_ours(1);
                rest(&mut relay);
            }
        }
        let ((), first) = record(|| scene.publish_ours(1));
        let ((), second) = record(|| scene.publish_ours(1));
        row(&format!("{sets} sets"), 1, &first);
        row("the next one", 1, &second);
        sizes.insert((size(&first), size(&second)));
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

#[test]
fn a_publish_to_blocked_threads_wakes_one_and_writes_a_line_per_32_at_most() {
    head("one publish, all readers of its key blocked threads");
    for threads in [10, 100, 400] {
        let mut scene = Scene::usual(threads, 1_000);
        for reader in &mut scene.ours {
            drain(reader);
        }
        let (here, blocked) = std::sync::mpsc::channel();
        let readers = std::mem::take(&mut scene.ours);
        let readers = readers.into_iter().map(|mut reader| {
            let here = here.clone();
            std::thread::spawn(move || here.send(()).is_ok() && reader.recv_blocking().is_ok())
        });
        let readers: Vec<_> = readers.collect();
        readers.iter().for_each(|_| blocked.recv().expect("they began"));
        // They are about to block. Nothing is wrong if one is not yet: one that is blocked is enough for this.
        std::thread::sleep(Duration::from_millis(200));
        let ((), record) = record(|| scene.publish_ours(1));
        row(&format!("{threads} threads"), 1, &record);
        assert!(readers.into_iter().all(|reader| reader.join().expect("it does not panic")));
        // Where the first one, which wakes the next two, and so on, outruns the publisher, that finds all rows empty; otherwise it stops at
        // the first row with somebody in it.
        assert!(record.total().rmws <= 24 + threads.div_ceil(32) as u64, "{record:?}");
    }
}

#[test]
fn what_a_publish_shares_with_readers_of_other_keys_after_all() {
    let mut scene = Scene::usual(1, 1_000);
    // A position is the hub's, over all keys: who asks for one looks at the writer's line.
    let (position, asked) = record(|| scene.others[0].position());
    let ((), resumed) = record(|| drop(scene.hub.subscribe_from(&Key(1), Start::After(position))));
    let ((), taken) = record(|| {
        let snapshot = scene.hub.subscribe_with_snapshot(&Key(3), || async { Ok::<_, Infallible>(([1], position)) });
        let snapshot = poll(pin!(snapshot)).expect("nothing to wait for");
        drain(&mut snapshot.expect("it does not fail"));
    });
    // Who is the last to leave a long chain leaves most of it to the publisher, which must see that.
    for event in 0..1_000 {
        scene.publisher.publish(&Key(2), event);
    }
    let leaver = scene.others.remove(1);
    let ((), left) = record(|| drop(leaver));
    scene.come_to_rest();
    let publishes = scene.publishes();
    let shared =
        [("position", asked, true), ("resumption", resumed, true), ("snapshot", taken, true), ("long chain", left, false)];
    for (what, reader, written) in shared {
        let conflicts = publishes.conflicts_with(&reader);
        assert_eq!(conflicts.len(), 1, "{what}: {conflicts:?}");
        assert!(conflicts.iter().all(|conflict| conflict.one.is_written() == written), "{what}: {conflicts:?}");
    }
    // One that starts a block meets those who free theirs, in the hub's accounts.
    let others = scene.what_readers_of_others_do();
    let ((), starts) = record(|| scene.publish_ours(64));
    assert!(starts.conflicts_with(&others).len() <= 2, "{:?}", starts.conflicts_with(&others));
}

#[test]
fn a_reader_meets_no_reader_of_another_key() {
    head("a reader of one key, with 1,000 other keys");
    let mut scene = Scene::usual(1, 1_000);
    let others = scene.what_readers_of_others_do();
    let Scene { publisher, ours, .. } = &mut scene;
    let reader = &mut ours[0];
    let (events, first) = record(|| drain(reader));
    row(&format!("receives {events}, and parks for the first time"), 1, &first);
    assert_apart(&first, &others);
    publisher.publish(&OURS, 1);
    let (events, again) = record(|| drain(reader));
    assert_eq!(events, 1);
    row("receives one, and parks again", 1, &again);
    assert_apart(&again, &others);
    let ((), cancelled) = record(|| assert!(poll(pin!(reader.recv())).is_none()));
    row("parks, and is cancelled", 1, &cancelled);
    assert_apart(&cancelled, &others);
    publisher.publish(&OURS, 2);
    let (received, lent) = record(|| reader.try_recv_ref().is_ok());
    assert!(received);
    row("is lent one", 1, &lent);
    assert_apart(&lent, &others);
}

#[test]
fn a_reader_meets_no_publish_to_another_key() {
    let mut scene = Scene::usual(2, 1_000);
    let Scene { publisher, ours, .. } = &mut scene;
    drain(&mut ours[0]);
    publisher.publish(&OURS, 0);
    let (_, reads) = record(|| drain(&mut ours[0]));
    let ((), publishes) = record(|| {
        for key in (1..=1_000).map(Key) {
            for event in 0..100 {
                publisher.publish(&key, event);
            }
        }
    });
    assert_apart(&reads, &publishes);
}

/// Where seven bits of two hashes agree the writer's look-up compares a key in another one's topic: it reads a line there.
#[test]
fn a_look_up_seldom_looks_at_another_key() {
    let mut scene = Scene::usual(1, 10_000);
    MISTAKEN.set(0);
    scene.publish_others(10_000, 1);
    let mistaken = MISTAKEN.get();
    println!("\n10,000 keys looked up in the writer's index: {mistaken} comparisons with another key");
    assert!(mistaken < 1_000, "{mistaken}");
}

#[test]
fn the_count_sees_who_does_meet() {
    let mut scene = Scene::usual(2, 1);
    let publishes = scene.publishes();
    let (_, reads) = record(|| drain(&mut scene.ours[0]));
    assert!(publishes.conflicts_with(&reads).len() > 4, "the word, entries, a block's length: {publishes:?}{reads:?}");
    let ((), joins) = record(|| drop(scene.hub.subscribe(&OURS)));
    assert!(!publishes.conflicts_with(&joins).is_empty(), "{joins:?}");
    let Received::Event(event) = scene.ours[1].try_recv().expect("an event") else { panic!("an event") };
    let ((), counts) = record(|| drop(event.clone()));
    assert_eq!(counts.total().rmws, 2, "a reference made and dropped: {counts:?}");
}
