//! What the kernel counts for us, and what the readers count themselves while they are asked to.

use std::{
    fs,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use nix::sys::{
    resource::{Usage, UsageWho, getrusage},
    time::TimeVal,
};

use crate::measure::clock::{median, thread_cpu};

/// Context switches of all threads of this process, wanted and unwanted.
pub(crate) fn switches_of_process() -> i64 {
    switches(UsageWho::RUSAGE_SELF)
}

/// Context switches of this thread.
pub(crate) fn switches_of_thread() -> i64 {
    switches(UsageWho::RUSAGE_THREAD)
}

fn switches(who: UsageWho) -> i64 {
    let usage = usage(who);
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

fn usage(who: UsageWho) -> Usage {
    getrusage(who).expect("the kernel tells of oneself")
}

/// User and system time of this process. Their sum is exact; how it is split up is sampled by the kernel's tick, so it needs a
/// second or so to mean anything.
pub(crate) fn user_and_system() -> (Duration, Duration) {
    times(&usage(UsageWho::RUSAGE_SELF))
}

fn times(usage: &Usage) -> (Duration, Duration) {
    let duration = |time: TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).expect("a process has not run for a negative time"))
    };
    (duration(usage.user_time()), duration(usage.system_time()))
}

/// How long threads of this process that could have run waited for a core, in all; `None` where the kernel does not say.
pub(crate) fn run_queue_wait() -> Option<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        // A thread may have ended meanwhile.
        if let Ok(line) = fs::read_to_string(thread.ok()?.path().join("schedstat")) {
            nanos += line.split(' ').nth(1)?.parse::<u64>().ok()?;
        }
    }
    Some(Duration::from_nanos(nanos))
}

/// Processor time used on the machine, by whomever; and of this process and its children that have ended. In seconds.
pub(crate) struct Busy {
    machine: f64,
    own: f64,
}

impl Busy {
    pub(crate) fn now() -> Option<Self> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = fs::read_to_string("/proc/stat").ok()?;
        // user nice system idle iowait irq softirq steal
        let ticks: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
        let busy = ticks.iter().take(8).sum::<f64>() - ticks.get(3)? - ticks.get(4)?;
        let own = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| {
            let (user, system) = times(&usage(who));
            (user + system).as_secs_f64()
        });
        Some(Self { machine: busy / TICKS_PER_SECOND, own: own.iter().sum() })
    }

    /// What others (and the hypervisor) have used since `before`.
    pub(crate) fn by_others_since(&self, before: &Self) -> f64 {
        (self.machine - before.machine - (self.own - before.own)).max(0.0)
    }
}

/// What two looks at this thread's processor time find between them if nothing is: to be taken off what they find otherwise.
pub(crate) fn look_at_thread_cpu() -> Duration {
    let mut looks: Vec<f64> = (0..1_001)
        .map(|_| {
            let before = thread_cpu();
            (thread_cpu() - before).as_secs_f64()
        })
        .collect();
    Duration::from_secs_f64(median(&mut looks))
}

/// While set, readers count their wakes and polls. Waking then costs more, so nothing is timed meanwhile.
static COUNTING: AtomicBool = AtomicBool::new(false);
static WAKES: AtomicU64 = AtomicU64::new(0);
static POLLS: AtomicU64 = AtomicU64::new(0);

/// What the readers counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) wakes: u64,
    pub(crate) polls: u64,
}

/// Has the readers count, or not.
pub(crate) fn count(on: bool) {
    // Relaxed: nobody is polled meanwhile; the next publish orders it before the polls.
    COUNTING.store(on, Ordering::Relaxed);
}

pub(crate) fn counted() -> Counts {
    // Relaxed: both are read when the readers sleep.
    Counts { wakes: WAKES.load(Ordering::Relaxed), polls: POLLS.load(Ordering::Relaxed) }
}

/// Runs `future`; while [`count`] says so, with a waker that counts.
pub(crate) async fn counting<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut counter: Option<Waker> = None;
    std::future::poll_fn(|context| {
        // Relaxed: see `count`.
        if !COUNTING.load(Ordering::Relaxed) {
            counter = None;
            return future.as_mut().poll(context);
        }
        // Relaxed: a count.
        POLLS.fetch_add(1, Ordering::Relaxed);
        // The same one each time, as the task's own is.
        let waker = counter.get_or_insert_with(|| Waker::from(Arc::new(Counter(context.waker().clone()))));
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

struct Counter(Waker);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        // Relaxed: a count.
        WAKES.fetch_add(1, Ordering::Relaxed);
        self.0.wake_by_ref();
    }
}
