//! What is known of the process without any group: its own clock, and the processors it may run on.

use std::time::Duration;

/// The processor time of all threads there were: `CLOCK_PROCESS_CPUTIME_ID`, exact to the nanosecond. `None`: not Linux.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}

/// The processors that the process's first thread may run on, from which all others have their mask unless it is changed. (The calling
/// thread may be pinned by its runtime.) Where the mask is larger than the call's, the list in `/proc/self/status`.
#[cfg(target_os = "linux")]
pub(crate) fn affinity() -> Option<u64> {
    let mask = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
    let listed = || super::text::allowed_list(&std::fs::read("/proc/self/status").ok()?).ok();
    mask.ok().map(|mask| u64::from(mask.count())).or_else(listed)
}

/// As many as there are.
#[cfg(not(target_os = "linux"))]
pub(crate) fn affinity() -> Option<u64> {
    std::thread::available_parallelism().ok().and_then(|cpus| u64::try_from(cpus.get()).ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_on_while_the_process_works() {
        let before = cpu_time().unwrap();
        let mut spun = 0_u64;
        while cpu_time().unwrap() < before + Duration::from_millis(2) {
            spun = std::hint::black_box(spun + 1);
        }
        assert!(spun > 0);
    }

    #[test]
    fn thread_that_is_pinned_does_not_shrink_the_process() {
        let before = affinity().unwrap();
        let pinned = std::thread::spawn(|| {
            let own = rustix::thread::sched_getaffinity(None).unwrap();
            let mut one = rustix::thread::CpuSet::new();
            one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| own.is_set(*cpu)).unwrap());
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            affinity().unwrap()
        });
        assert_eq!(pinned.join().unwrap(), before);
    }
}
