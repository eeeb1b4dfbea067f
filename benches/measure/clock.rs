//! Time, processor time, and what is read off many of them.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The processor time that all threads of this process have used.
pub(crate) fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// The processor time that this thread has used.
pub(crate) fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).expect("a process has not run for a negative time");
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below 10^9");
    Duration::new(seconds, nanos)
}

/// Nanoseconds per operation.
pub(crate) fn per(total: Duration, operations: usize) -> f64 {
    total.as_secs_f64() * 1e9 / operations as f64
}

/// The median; `values` are put in order.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The value below which `permille` of 1,000 values lie; `values` are put in another order.
pub(crate) fn percentile(values: &mut [u64], permille: usize) -> u64 {
    let rank = (values.len() - 1) * permille / 1_000;
    *values.select_nth_unstable(rank).1
}

/// What one look at the clock costs, in nanoseconds: part of every latency that is measured one by one.
pub(crate) fn look_at_the_clock() -> f64 {
    const LOOKS: usize = 100_000;
    let start = Instant::now();
    for _ in 0..LOOKS {
        std::hint::black_box(Instant::now());
    }
    per(start.elapsed(), LOOKS)
}
