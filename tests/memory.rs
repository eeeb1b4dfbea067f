//! What idling, waiting and publishing allocate: measured by an allocator that counts per thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use keywake::{Builder, Pattern, Subscription, hub};

struct Counting;

thread_local! {
    /// Bytes that this thread allocated and nobody has freed, as far as this thread knows.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count(allocations: usize, bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call goes to `System` with the caller's arguments; the counting allocates nothing, since the thread
// locals are initialised by constants and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, signed(new_size) - signed(layout.size()));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations `work` makes on this thread, and by how many bytes the living memory grows.
fn cost(work: impl FnOnce()) -> (usize, isize) {
    let before = (ALLOCATIONS.get(), LIVE.get());
    work();
    (ALLOCATIONS.get() - before.0, LIVE.get() - before.1)
}

struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

fn park(sub: &mut Subscription<u64, u64>) {
    assert!(sub.poll_recv(&mut Context::from_waker(Waker::noop())).is_pending());
}

// mini-redis #38, tokio #2509: memory grew with every connection although nothing was ever sent.
#[test]
fn connections_that_come_and_go_without_a_publish_leave_no_memory() {
    let (_publisher, hub) = hub::<u64, u64>();
    let mut keeper = hub.subscribe(&1);
    park(&mut keeper);
    let connections = |number: u64| {
        for key in 0..number {
            // A shared key and one of its own, waiting in every way, given up in every way.
            for key in [1, 2 + key % 50] {
                let mut sub = hub.subscribe(&key);
                park(&mut sub);
                {
                    let mut cancelled = pin!(sub.recv());
                    assert!(cancelled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                }
                assert!(sub.recv_timeout(Duration::ZERO).is_err());
            }
        }
    };
    connections(200);
    let (_, grown) = cost(|| connections(20_000));
    assert!(grown < 4_096, "{grown} bytes are left of 20,000 connections");
}

// n0-watcher #45, eyeball (2.10 MB) and postage (4.85 MB after 100,000 idle polls), rust-lightning #2874.
#[test]
fn idle_polls_allocate_nothing() {
    let (_publisher, hub) = hub::<u64, u64>();
    let mut sub = hub.subscribe(&1);
    let wakers = [Waker::from(Arc::new(Idle)), Waker::from(Arc::new(Idle))];
    let mut poll = |number: usize| {
        for n in 0..number {
            assert!(sub.poll_recv(&mut Context::from_waker(&wakers[n % 2])).is_pending());
            assert!(pin!(sub.recv()).poll(&mut Context::from_waker(&wakers[n % 2])).is_pending());
        }
    };
    poll(1);
    assert_eq!(cost(|| poll(100_000)), (0, 0));
}

// bus #5, #23, #11: 2 MB/s were leaked by doing nothing.
#[test]
fn idle_waits_of_a_thread_leave_no_memory() {
    let (_publisher, hub) = hub::<u64, u64>();
    let mut sub = hub.subscribe(&1);
    let mut wait = |number: usize| {
        for _ in 0..number {
            assert!(sub.recv_timeout(Duration::from_micros(1)).is_err());
        }
    };
    wait(10);
    let (_, grown) = cost(|| wait(1_000));
    assert_eq!(grown, 0);
}

// oxia #1185, nomad (two channels and two structs per publish): a publish with no waiter allocated and locked.
#[test]
fn publish_that_nobody_waits_for_allocates_nothing_but_blocks() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().build();
    let mut sub = hub.subscribe(&1);
    let mut publish = |number: u64| {
        for value in 0..number {
            publisher.publish(&1, value);
            assert!(sub.try_recv_ref().is_ok());
        }
    };
    publish(2_000);
    let (allocations, grown) = cost(|| publish(64_000));
    assert!(allocations <= 2 * 64_000 / 32, "{allocations} allocations for 64,000 events");
    assert!(grown <= 4_096, "{grown} bytes grown");
}

#[test]
fn publish_to_a_key_without_readers_allocates_nothing() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let _other = hub.subscribe(&1);
    publisher.publish(&1, 0);
    publisher.publish(&2, 0);
    let publish = || {
        for key in 2..10_000 {
            publisher.publish(&key, key);
        }
    };
    assert_eq!(cost(publish), (0, 0));
}

#[test]
fn publish_to_a_borrowed_key_clones_it_only_for_a_new_topic() {
    let (mut publisher, hub) = Builder::<String, u64>::new().build();
    let _reader = hub.subscribe("with a name that is long enough to be on the heap");
    let keys = ["with a name that is long enough to be on the heap", "another long name that nobody listens to"];
    let mut publish = |number: u64| {
        for value in 0..number {
            publisher.publish(keys[0], value);
            publisher.publish(keys[1], value);
        }
    };
    publish(2_000);
    let (allocations, _) = cost(|| publish(6_400));
    assert!(allocations <= 6_400 / 16, "{allocations} allocations");
}

// hyperlane-monorepo #4190 (100 MB per idle channel); an idle broadcast(16) of tokio's in a DashMap takes 803 bytes.
#[test]
fn idle_key_with_a_reader_costs_a_few_hundred_bytes_whatever_it_may_retain() {
    const KEYS: u64 = 10_000;
    let (_publisher, hub) = Builder::<u64, u64>::new().retain_events(1 << 20).build();
    let mut subs = Vec::with_capacity(usize::try_from(KEYS).expect("small"));
    let (_, grown) = cost(|| subs.extend((0..KEYS).map(|key| hub.subscribe(&key))));
    let per_key = grown / signed(subs.len());
    assert!(per_key < 803 / 2, "{per_key} bytes per idle key");
}

/// Waiters' memory only: the handles stand in the list all the time.
#[test]
fn a_crowd_that_has_left_gives_back_what_it_waited_in() {
    const CROWD: usize = 150_000;
    let (_publisher, hub) = hub::<u64, u64>();
    let mut subs: Vec<_> = (0..CROWD).map(|_| Some(hub.subscribe(&1))).collect();
    let (_, peak) = cost(|| subs.iter_mut().flatten().for_each(park));
    assert!(peak > signed(CROWD) * 20, "{peak} bytes hold the wakers of {CROWD}");
    let mut random = 1_u64;
    let (_, given_back) = cost(|| {
        for left in (10..CROWD).rev() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let index = usize::try_from(random >> 33).expect("31 bits") % (left + 1);
            // Those that have left stand behind those that are left.
            subs.swap(index, left);
            subs[left] = None;
        }
    });
    let kept = peak + given_back;
    assert_eq!(hub.readers(&1), 10);
    assert!(kept < peak / 10, "{kept} bytes of {peak} are kept for 10 readers");
    // They were not lost on the way, and others may come.
    let (_, again) = cost(|| {
        let mut others: Vec<_> = (0..CROWD).map(|_| hub.subscribe(&1)).collect();
        others.iter_mut().for_each(park);
    });
    assert!(again < 4_096, "{again} bytes are left of the next crowd");
}

#[test]
fn reader_that_comes_and_goes_at_the_edge_of_a_row_allocates_nothing() {
    let (_publisher, hub) = hub::<u64, u64>();
    let guest = || park(&mut hub.subscribe(&1));
    // The seat, a row, two rows, a group of 64 rows behind the first one.
    for stay in [1, 33, 65, 33 + 64 * 32] {
        let mut subs: Vec<_> = (0..stay).map(|_| hub.subscribe(&1)).collect();
        subs.iter_mut().for_each(park);
        guest();
        assert_eq!(cost(|| (0..1_000).for_each(|_| guest())), (0, 0), "beside {stay} others");
    }
}

// hyperlane-monorepo #4190, tokio mpsc #7355: what was used once was kept for ever.
#[test]
fn memory_of_events_is_given_back_when_their_topic_goes() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().retain_events(1 << 20).build();
    let mut cycle = |number: u64| {
        for round in 0..number {
            let sub = hub.subscribe(&1);
            for value in 0..10_000 {
                publisher.publish(&1, value);
            }
            drop(sub);
            // What is handed to the writer to free is freed by its next publishes.
            for value in 0..500 {
                publisher.publish(&2, value + round);
            }
        }
    };
    cycle(2);
    let (_, grown) = cost(|| cycle(20));
    assert!(grown < 4_096, "{grown} bytes grown in 20 rounds");
}

// mini-redis #63: keys that were used once stayed. The memory of what is gone is bounded as well.
#[test]
fn keys_used_once_leave_bounded_memory() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().max_tombstones(1_000).build();
    let mut next = 0;
    let mut keys = |number: u64| {
        for _ in 0..number {
            next += 1;
            let sub = hub.subscribe(&next);
            publisher.publish(&next, next);
            drop(sub);
        }
    };
    keys(20_000);
    let (_, grown) = cost(|| keys(100_000));
    assert!(grown < 256 << 10, "{grown} bytes are left of 100,000 keys");
}

#[test]
fn asking_a_pattern_allocates_nothing() {
    let patterns: Vec<Pattern> = ["a.b.c", "*.b.*", "a.>", ">>a.b"].iter().map(|text| text.parse().expect("a pattern")).collect();
    let (allocations, _) = cost(|| {
        for key in ["a.b.c", "a.b", "", "a.b.c.d.e.f"] {
            assert!(patterns.iter().filter(|pattern| pattern.matches(key)).count() <= patterns.len());
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn last_handle_frees_everything() {
    let (_, grown) = cost(|| {
        let (mut publisher, hub) = Builder::<u64, Box<u64>>::new().retain_unread(true).retain_events(50).build();
        let mut subs: Vec<_> = (0..100).map(|key| hub.subscribe(&key)).collect();
        for value in 0..20_000 {
            publisher.publish(&(value % 200), Box::new(value));
        }
        let events: Vec<_> = subs.iter_mut().filter_map(|sub| sub.try_recv().ok()).collect();
        drop((publisher, hub));
        drop(subs);
        drop(events);
    });
    assert_eq!(grown, 0);
}

/// E24: what a meter knows of streams goes with them, sampled or not, and a poll takes no memory.
#[cfg(feature = "meter")]
#[test]
fn metered_streams_that_come_and_go_leave_no_memory() {
    use keywake::{
        load::StreamClass,
        meter::{Meter, PollTimer},
    };
    let meter = Meter::new();
    let mut now = std::time::Instant::now();
    let mut crowd = || {
        let mut timers: Vec<PollTimer> = (0..10_000).map(|_| meter.track(StreamClass::Dev).poll_timer()).collect();
        now += Duration::from_secs(5);
        drop(meter.sample(now, None));
        for timer in timers.iter_mut().step_by(3) {
            assert_eq!(cost(|| timer.time(|| ())), (0, 0), "a poll");
            drop(timer.stream().scope());
        }
        drop(timers);
    };
    crowd();
    assert_eq!(cost(&mut crowd).1, 0);
    assert_eq!(meter.streams(), 0);
}
