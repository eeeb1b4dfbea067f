//! Where the driver's readings come from: the process's control groups, or what a test says.

use std::time::{Duration, Instant};

use crate::{
    load::CpuSample,
    meter::{
        cgroup::{CgroupReader, Notice, Signal},
        process_cpu,
    },
};

/// What was read of the processors at a tick.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CpuRead {
    /// Reading failed. Several times in a row, and the evictor takes the process for healthy.
    Failed,
    /// Nothing to compare with yet: the first reading, or the first in another group. That is no failure.
    Pending,
    /// What was used since the reading before.
    Sample(CpuSample),
}

/// What a driver reads. [`CgroupReader`] is one.
///
/// It is called under the driver's lock, and must not call the driver.
pub trait CpuSource: Send + 'static {
    /// Reads, and says what happened since the reading before.
    fn read(&mut self, now: Instant) -> CpuRead;

    /// All the processor time that this process has ever used, which is split over its streams. `None`: not known, and streams are charged
    /// what was measured of each.
    fn process_cpu(&mut self) -> Option<Duration> {
        process_cpu()
    }

    /// What an operator should be told of the reading, once. Asked after each.
    fn notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
}

/// A reader of control groups, and what it noticed last.
#[derive(Debug)]
pub(super) struct Groups {
    reader: CgroupReader,
    notices: Vec<Notice>,
}

impl From<CgroupReader> for Groups {
    fn from(reader: CgroupReader) -> Self {
        Self { reader, notices: Vec::new() }
    }
}

impl CpuSource for Groups {
    fn read(&mut self, now: Instant) -> CpuRead {
        let reading = self.reader.tick(now);
        self.notices.extend(reading.notices);
        match (reading.sample, reading.signal) {
            (Some(sample), _) => CpuRead::Sample(sample),
            (None, Signal::Groups | Signal::Process) => CpuRead::Pending,
            (None, Signal::Holding | Signal::Lost) => CpuRead::Failed,
        }
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}
