//! A tree of files as a machine has them, and a reader of it whose time, process clock and processors the test sets.
#![expect(clippy::unwrap_used, reason = "a tree that cannot be made fails its test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use keywake::meter::cgroup::{CgroupReader, CgroupReaderBuilder, CpuReading, Notice};

/// Version 2 alone, mounted where all have it.
pub(crate) const V2: &str =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/// Files under a directory of its own, which goes with it.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(cgroup: &str, mountinfo: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cgroup-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let tree = Self { root: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) };
        tree.put("proc/self/cgroup", cgroup);
        tree.put("proc/self/mountinfo", mountinfo);
        tree
    }

    pub(crate) fn v2(group: &str) -> Self {
        let tree = Self::new(&format!("0::{group}\n"), V2);
        // What the machine's own group has.
        tree.put("sys/fs/cgroup/cpu.stat", "usage_usec 17341693371\n");
        tree
    }

    pub(crate) fn put(&self, path: &str, text: &str) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Several files of one directory.
    pub(crate) fn group(&self, dir: &str, files: &[(&str, &str)]) -> &Self {
        for (name, text) in files {
            self.put(&format!("{dir}/{name}"), text);
        }
        self
    }

    pub(crate) fn used(&self, dir: &str, micros: u64) -> &Self {
        self.put(&format!("{dir}/cpu.stat"), &format!("usage_usec {micros}\n"))
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.root.join(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    pub(crate) fn dir(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn builder(&self) -> CgroupReaderBuilder {
        CgroupReader::builder().root(&self.root)
    }

    /// A reader that no processor mask limits, of a process that uses nothing until it is told.
    pub(crate) fn probe(&self) -> Probe {
        self.probe_with(|builder| builder.affinity(|| None))
    }

    pub(crate) fn probe_with(&self, set: impl FnOnce(CgroupReaderBuilder) -> CgroupReaderBuilder) -> Probe {
        let process = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&process);
        let builder = self.builder().process_clock(move || Some(Duration::from_micros(clock.load(Ordering::Relaxed))));
        Probe { reader: set(builder).build().unwrap(), begin: Instant::now(), process }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).ok();
    }
}

/// A reader and its clocks.
pub(crate) struct Probe {
    pub(crate) reader: CgroupReader,
    pub(crate) begin: Instant,
    process: Arc<AtomicU64>,
}

impl Probe {
    pub(crate) fn at(&mut self, milliseconds: u64) -> CpuReading {
        self.reader.tick(self.begin + Duration::from_millis(milliseconds))
    }

    /// How much processor time the process has used so far.
    pub(crate) fn process_used(&self, micros: u64) {
        self.process.store(micros, Ordering::Relaxed);
    }
}

pub(crate) fn usage(reading: &CpuReading) -> Option<f64> {
    reading.sample.as_ref().map(|sample| sample.usage_cores)
}

/// All but that there is no pressure, of which most trees have none.
pub(crate) fn notices(reading: &CpuReading) -> Vec<&Notice> {
    reading.notices.iter().filter(|notice| !matches!(notice, Notice::NoPressure { .. })).collect()
}
