//! Threads on cores of their own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use, in order: the first one for the writer, the others for workers.
pub(crate) struct Pins(Vec<usize>);

impl Pins {
    /// `None` if the kernel does not say which cores there are.
    pub(crate) fn new() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        (!cores.is_empty()).then_some(Self(cores))
    }

    pub(crate) fn pin_writer(&self) {
        set(&self.0[..1]);
    }

    /// Lets this thread, and those that it makes, run everywhere again.
    pub(crate) fn free(&self) {
        set(&self.0);
    }

    /// Each worker to the next core; where there are no more, from the first on again.
    pub(crate) fn pin_worker(&self, number: usize) {
        set(&[self.0[(number + 1) % self.0.len()]]);
    }
}

fn set(cores: &[usize]) {
    let mut allowed = CpuSet::new();
    cores.iter().for_each(|core| allowed.set(*core));
    // Where it may not, the thread stays where it is: that makes figures worse, and nothing wrong.
    let _ = sched_setaffinity(None, &allowed);
}
