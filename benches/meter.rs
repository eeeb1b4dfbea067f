//! What does metering add to a short poll and to a piece of synchronous work, and what does a tick of it take?
//!
//! Polls of a future that does nothing, plain and in each mode in turns; each figure is the median over the rounds of a round's mean,
//! so that of the default mode holds the polls that read the processor clock, which the median of single polls does not. Ticks one by
//! one: of the reader, over the groups that this process is in and over files on disk as of eight groups within each other, and of the
//! meter, over as many streams as a full server has.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::{
    fs,
    hint::black_box,
    path::Path,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use keywake::{
    load::StreamClass,
    meter::{Meter, PollTimer, StreamMeter, Timing, cgroup::CgroupReader, process_cpu},
};
use measure::{
    clock::{look_at_the_clock, per, percentile},
    rounds::{Side, medians},
    surroundings,
};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

/// Nothing to do, and nobody to wake.
fn idle() -> impl Future<Output = ()> {
    std::future::poll_fn(|_| if black_box(true) { Poll::Pending } else { Poll::Ready(()) })
}

/// Nanoseconds per poll.
fn polls(future: Pin<&mut impl Future>, count: usize) -> f64 {
    let mut future = future;
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    for _ in 0..count {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    per(start.elapsed(), count)
}

/// Nanoseconds per scope.
fn scopes(stream: &StreamMeter, count: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        let _scope = black_box(stream).scope();
    }
    per(start.elapsed(), count)
}

/// What most polls take, in nanoseconds: of polls that are timed one by one the median, less a look at the clock.
fn median_poll(timing: Timing, count: usize, look: f64) -> f64 {
    let mut future = Box::pin(Meter::builder().timing(timing).build().track(StreamClass::Live).run(idle()));
    let mut context = Context::from_waker(Waker::noop());
    let mut times = times(count, || assert!(future.as_mut().poll(&mut context).is_pending()));
    percentile(&mut times, 500) as f64 - look
}

fn metered<'a>(timing: Timing, count: usize) -> Side<'a, 2> {
    let meter = Meter::builder().timing(timing).build();
    let stream = meter.track(StreamClass::Live);
    let mut future = Box::pin(stream.run(idle()));
    Side::new(move || [polls(future.as_mut(), count), scopes(&stream, count)])
}

/// How long each of some calls takes; the first one, which opens what is kept open, does not count.
fn times(count: usize, mut call: impl FnMut()) -> Vec<u64> {
    let time = |_| {
        let start = Instant::now();
        call();
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    (0..=count).map(time).skip(1).collect()
}

/// A line of the table of ticks.
fn row(what: &str, mut times: Vec<u64>) {
    let [median, most] = [500, 990].map(|permille| percentile(&mut times, permille) as f64 / 1e3);
    println!("| {what} | {median:.1} | {most:.1} |");
}

/// What the kernel writes for a process in so many groups within each other, all limited, as files under `root`.
fn make_groups(root: &Path, count: usize) {
    let put = |path: &Path, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it has a directory")).expect("a directory of the bench's own");
        fs::write(path, text).expect("a file of the bench's own");
    };
    let group = "kubepods-burstable-pod0c5b1f6a_2c5f_4a8e.slice/".repeat(count);
    put(Path::new("proc/self/cgroup"), &format!("0::/{}\n", group.trim_end_matches('/')));
    let other = "36 35 0:31 / /var/lib/containers/overlay rw,relatime shared:9 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\n"
        .repeat(40);
    put(Path::new("proc/self/mountinfo"), &format!("{other}30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"));
    let stat = "usage_usec 98701325189\nuser_usec 61355716211\nsystem_usec 37345608977\nnice_usec 0\ncore_sched.force_idle_usec 0\n\
                nr_periods 3936904\nnr_throttled 6004\nthrottled_usec 19175137007\nnr_bursts 0\nburst_usec 0\n";
    let pressure =
        "some avg10=0.00 avg60=0.08 avg300=0.06 total=293391454\nfull avg10=0.00 avg60=0.08 avg300=0.05 total=277111656\n";
    for dir in Path::new("sys/fs/cgroup").join(&group).ancestors().take(count) {
        for (name, text) in [
            ("cpu.max", "400000 100000\n"),
            ("cpu.max.burst", "0\n"),
            ("cpu.stat", stat),
            ("cpu.pressure", pressure),
            ("cpuset.cpus.effective", "0-3,8-11\n"),
            ("memory.max", "8589934592\n"),
            ("memory.current", "1073741824\n"),
            ("memory.stat", "anon 1\ninactive_file 4096\n"),
        ] {
            put(&dir.join(name), text);
        }
    }
}

fn reader(what: &str, count: usize, mut reader: CgroupReader) {
    let groups = reader.tick(Instant::now()).groups.len();
    row(&format!("reader, {what}, groups: {groups}"), times(count, || drop(black_box(reader.tick(Instant::now())))));
    row("- its memory", times(count, || drop(black_box(reader.memory()))));
}

/// Samples of a meter whose streams have a future each; in between `share` of a thousand are polled.
fn meter(streams: usize, share: usize, count: usize) {
    let meter = Meter::new();
    let mut timers: Vec<PollTimer> = (0..streams).map(|_| meter.track(StreamClass::Live).poll_timer()).collect();
    let mut now = Instant::now();
    let mut sample = || {
        for timer in timers.chunks_mut(1_000).flat_map(|timers| timers.iter_mut().take(share)) {
            timer.time(|| black_box(()));
        }
        now += Duration::from_secs(5);
        let start = Instant::now();
        black_box(meter.sample(now, process_cpu()));
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    row(&format!("meter, {streams} streams, {} % polled since", share / 10), (0..=count).map(|_| sample()).skip(1).collect());
}

fn ticks(full: bool) {
    let (reads, samples, streams) = if full { (20_000, 200, 70_000) } else { (10, 2, 100) };
    println!("\n| a tick | us, median | 99 % below |");
    println!("|---|---|---|");
    reader("as this process is", reads, CgroupReader::new());
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("groups-{}", std::process::id()));
    make_groups(&root, 8);
    reader("files on disk", reads, CgroupReader::builder().root(&root).build().expect("without an override"));
    fs::remove_dir_all(&root).expect("the bench's own");
    for share in [0, 10, 1_000] {
        meter(streams, share, samples);
    }
}

fn main() {
    let (rounds, count) = if measure::full_size() { (101, 100_000) } else { (1, 100) };
    surroundings::print();
    let look = look_at_the_clock();
    println!("* {rounds} rounds of {count}; one look at the clock is {look:.1} ns\n");
    let mut plain = Box::pin(idle());
    let plain = Side::new(move || [polls(plain.as_mut(), count), 0.0]);
    let sides = [plain, metered(Timing::Wall, count), metered(Timing::Adaptive, count), metered(Timing::ThreadCpu, count)];
    let [plain, rest @ ..] = medians(rounds, sides);
    println!("| timing | a poll, ns | more than a plain one | the median poll | a scope, ns |");
    println!("|---|---|---|---|---|");
    println!("| none | {:.1} | | | |", plain[0]);
    for (timing, [poll, scope]) in [Timing::Wall, Timing::Adaptive, Timing::ThreadCpu].into_iter().zip(rest) {
        let median = median_poll(timing, count, look);
        println!("| {timing:?} | {poll:.1} | {:.1} | {median:.0} | {scope:.1} |", poll - plain[0]);
    }
    ticks(measure::full_size());
}
