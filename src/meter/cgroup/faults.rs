//! Files that fail as no tree of files can: groups that go while they are open, reads that the kernel refuses, reads in small pieces.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    error::CgroupError,
    files::{Files, Handle, Kept},
    reader::CgroupReader,
    reading::{CpuReading, Notice, Signal},
};
use crate::{
    load::QuotaSource,
    sync::{Mutex, PlainArc},
};

const EACCES: i32 = 13;
const EIO: i32 = 5;
const EMFILE: i32 = 24;
const EOPNOTSUPP: i32 = 95;
const ENODEV: i32 = 19;

/// What is in a file: text, or the number of the error that reading it meets.
type Content = Result<String, i32>;

#[derive(Default)]
struct State {
    /// With a number that says which file of this name it is: a handle of another is dead.
    files: BTreeMap<PathBuf, (u64, Content)>,
    made: u64,
    opened: Vec<PathBuf>,
    read: Vec<PathBuf>,
    /// How many bytes one read gives at most.
    piece: Option<usize>,
    /// Errors to be met before the next read succeeds.
    before_next_read: Vec<i32>,
}

#[derive(Clone, Default)]
struct Fake(PlainArc<Mutex<State>>);

impl Fake {
    /// Makes the file, or writes into the one there is.
    fn put(&self, path: &str, content: Content) {
        let state = &mut *self.0.lock();
        let number = state.files.get(Path::new(path)).map(|(number, _)| *number);
        state.made += 1;
        state.files.insert(path.into(), (number.unwrap_or(state.made), content));
    }

    fn text(&self, path: &str, text: &str) {
        self.put(path, Ok(text.to_owned()));
    }

    /// Removes a directory with all that is in it.
    fn remove(&self, dir: &str) {
        self.0.lock().files.retain(|path, _| !path.starts_with(dir));
    }

    fn opened(&self) -> usize {
        self.0.lock().opened.len()
    }

    fn reads_of(&self, name: &str) -> usize {
        self.0.lock().read.iter().filter(|path| path.ends_with(name)).count()
    }

    /// A unified group with two cores, of which one second was used.
    fn group(&self, dir: &str) {
        self.text(&format!("{dir}/cpu.max"), "200000 100000\n");
        self.used(dir, 1_000_000);
    }

    fn used(&self, dir: &str, micros: u64) {
        self.text(&format!("{dir}/cpu.stat"), &format!("usage_usec {micros}\n"));
    }

    fn belongs_to(&self, group: &str) {
        self.text("/proc/self/cgroup", &format!("0::{group}\n"));
    }
}

struct Open {
    files: Fake,
    path: PathBuf,
    number: u64,
}

impl Files for Fake {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let state = &mut *self.0.lock();
        let Some((number, _)) = state.files.get(path) else { return Err(io::ErrorKind::NotFound.into()) };
        state.opened.push(path.to_owned());
        Ok(Box::new(Open { files: self.clone(), path: path.to_owned(), number: *number }))
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.lock().files.keys().any(|file| file.starts_with(path))
    }
}

impl Handle for Open {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = &mut *self.files.0.lock();
        if let Some(error) = state.before_next_read.pop() {
            return Err(io::Error::from_raw_os_error(error));
        }
        state.read.push(self.path.clone());
        let alive = state.files.get(&self.path).filter(|(number, _)| *number == self.number);
        let text = match alive {
            Some((_, Ok(text))) => text,
            Some((_, Err(error))) => return Err(io::Error::from_raw_os_error(*error)),
            None => return Err(io::Error::from_raw_os_error(ENODEV)),
        };
        let rest = text.as_bytes().get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let length = rest.len().min(buffer.len()).min(state.piece.unwrap_or(usize::MAX));
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// A reader of the groups `/a` and `/`, of which the latter is a container's own.
struct Scene {
    files: Fake,
    reader: CgroupReader,
    begin: Instant,
}

impl Scene {
    fn new() -> Self {
        let files = Fake::default();
        files.text("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        files.belongs_to("/a");
        files.text("/sys/fs/cgroup/cgroup.type", "domain\n");
        files.text("/sys/fs/cgroup/cpu.stat", "usage_usec 70000000\n");
        files.group("/sys/fs/cgroup/a");
        let clock = || Some(Duration::from_secs(1));
        let builder = CgroupReader::builder().files(files.clone()).affinity(|| None).process_clock(clock);
        Self { files, reader: builder.build().unwrap(), begin: Instant::now() }
    }

    fn tick(&mut self, second: u64) -> CpuReading {
        self.reader.tick(self.begin + Duration::from_secs(second))
    }
}

fn cores(reading: &CpuReading) -> Option<f64> {
    reading.sample.as_ref().map(|sample| sample.usage_cores)
}

/// Without that there is no pressure, which is told at the first tick.
fn notices(reading: &CpuReading) -> Vec<&Notice> {
    reading.notices.iter().filter(|notice| !matches!(notice, Notice::NoPressure { .. })).collect()
}

const A: &str = "/sys/fs/cgroup/a";

/// C12.
#[test]
fn vanished_group_is_held_for_two_ticks_then_lost_and_told_once() {
    let mut scene = Scene::new();
    scene.tick(0);
    scene.files.used(A, 2_000_000);
    assert_eq!(cores(&scene.tick(1)), Some(1.0));
    scene.files.remove(A);
    for second in [2, 3] {
        let reading = scene.tick(second);
        assert_eq!((reading.signal, reading.sample, reading.notices.len()), (Signal::Holding, None, 0));
        assert_eq!(reading.error, Some(CgroupError::NotThere { path: "/sys/fs/cgroup/a/cpu.stat".into() }));
    }
    let reading = scene.tick(4);
    assert_eq!(reading.signal, Signal::Lost);
    assert!(matches!(notices(&reading)[..], [Notice::Lost(CgroupError::NotThere { .. })]), "{:?}", reading.notices);
    for second in 5..30 {
        let reading = scene.tick(second);
        assert_eq!((reading.signal, reading.notices.len(), reading.quota_cores), (Signal::Lost, 0, None));
    }
    scene.files.group(A);
    let reading = scene.tick(30);
    assert_eq!((reading.signal, reading.sample.as_ref(), notices(&reading)), (Signal::Groups, None, vec![&Notice::Recovered]));
    assert_eq!(reading.own().unwrap().usage_cores, None);
    scene.files.used(A, 1_500_000);
    assert_eq!(cores(&scene.tick(31)), Some(0.5), "compared with what was read after the loss");
}

/// Weakness 8: one failed read in the middle of a drain.
#[test]
fn single_failed_read_is_held_and_the_next_sample_covers_the_gap() {
    let mut scene = Scene::new();
    scene.tick(0);
    scene.files.put("/sys/fs/cgroup/a/cpu.stat", Err(EIO));
    let reading = scene.tick(5);
    assert_eq!((reading.signal, reading.sample, reading.notices.len()), (Signal::Holding, None, 0));
    assert!(matches!(reading.error, Some(CgroupError::Io { code: Some(EIO), .. })), "{:?}", reading.error);
    scene.files.used(A, 6_000_000);
    let reading = scene.tick(10);
    assert_eq!((cores(&reading), reading.sample.unwrap().elapsed), (Some(0.5), Duration::from_secs(10)));
    assert_eq!((reading.signal, reading.notices.len()), (Signal::Groups, 0));
}

/// Failures count in a row: two, a success, two are no loss.
#[test]
fn success_between_failures_begins_the_count_anew() {
    let mut scene = Scene::new();
    for round in 0..4 {
        scene.files.used(A, 1_000_000);
        assert_eq!(scene.tick(3 * round).signal, Signal::Groups);
        scene.files.put("/sys/fs/cgroup/a/cpu.stat", Err(EIO));
        assert_eq!(scene.tick(3 * round + 1).signal, Signal::Holding);
        assert_eq!(scene.tick(3 * round + 2).signal, Signal::Holding);
    }
}

/// C12, F32; 3A 29: netdata and below died of it, or tried for ever.
#[test]
fn pressure_that_is_not_supported_is_absent_and_told_once() {
    let mut scene = Scene::new();
    scene.files.put("/sys/fs/cgroup/a/cpu.pressure", Err(EOPNOTSUPP));
    let reading = scene.tick(0);
    let [Notice::NoPressure { path, error: Some(CgroupError::Io { code: Some(EOPNOTSUPP), .. }) }] = &reading.notices[..] else {
        panic!("{:?}", reading.notices)
    };
    assert_eq!(path, Path::new("/sys/fs/cgroup/a/cpu.pressure"));
    for second in 1..10 {
        scene.files.used(A, 1_000_000 * (second + 1));
        let reading = scene.tick(second);
        let sample = reading.sample.unwrap();
        assert_eq!((sample.usage_cores, sample.some_stalled, sample.full_stalled), (1.0, None, None));
        assert_eq!((reading.signal, reading.notices.len(), reading.error), (Signal::Groups, 0, None));
    }
    assert_eq!(scene.files.reads_of("cpu.pressure"), 1, "not tried for ever");
}

/// What fails for another reason may succeed at the next tick: it is told once, and tried again.
#[test]
fn pressure_that_fails_once_is_read_again() {
    let mut scene = Scene::new();
    scene.files.put("/sys/fs/cgroup/a/cpu.pressure", Err(EMFILE));
    assert!(matches!(
        scene.tick(0).notices[..],
        [Notice::NoPressure { error: Some(CgroupError::Io { code: Some(EMFILE), .. }), .. }]
    ));
    let pressure = |total| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
    scene.files.text("/sys/fs/cgroup/a/cpu.pressure", &pressure(0));
    assert_eq!(scene.tick(1).sample.unwrap().some_stalled, None);
    scene.files.text("/sys/fs/cgroup/a/cpu.pressure", &pressure(250_000));
    assert_eq!(scene.tick(2).sample.unwrap().some_stalled, Some(0.25));
}

/// 3A 20 (.NET 850): the process is moved, and its former group is still there.
#[test]
fn moved_process_is_never_compared_with_its_former_group() {
    let mut scene = Scene::new();
    scene.tick(0);
    scene.files.group("/sys/fs/cgroup/b");
    scene.files.used("/sys/fs/cgroup/b", 900_000_000);
    scene.files.text("/sys/fs/cgroup/b/cpu.max", "max 100000\n");
    scene.files.belongs_to("/b");
    let reading = scene.tick(1);
    assert_eq!((reading.signal, reading.sample.as_ref()), (Signal::Groups, None));
    let moved = Notice::Moved { path: Some("/sys/fs/cgroup/b".into()) };
    let changed = Notice::QuotaChanged { from: Some(2.0), to: None, source: None };
    assert_eq!(notices(&reading), [&moved, &changed]);
    scene.files.used("/sys/fs/cgroup/b", 900_500_000);
    assert_eq!(cores(&scene.tick(2)), Some(0.5));
}

/// The membership may change in lines that are none of ours.
#[test]
fn change_of_another_hierarchy_moves_nothing() {
    let mut scene = Scene::new();
    scene.tick(0);
    scene.files.text("/proc/self/cgroup", "1:name=systemd:/x\n0::/a\n");
    scene.files.used(A, 1_250_000);
    let reading = scene.tick(1);
    assert_eq!((cores(&reading), reading.notices.len()), (Some(0.25), 0));
}

/// C3, C12: the handle is of the former group of that name.
#[test]
fn group_that_is_made_again_under_its_name_is_opened_anew() {
    let mut scene = Scene::new();
    scene.files.used(A, 900_000_000);
    scene.tick(0);
    scene.files.remove(A);
    scene.files.group(A);
    let reading = scene.tick(1);
    assert_eq!(
        (cores(&reading), reading.signal, reading.error),
        (Some(0.0), Signal::Groups, None),
        "began anew: nothing, not huge"
    );
    scene.files.used(A, 1_750_000);
    assert_eq!(cores(&scene.tick(2)), Some(0.75));
}

/// The kernel says so of a group that is gone; what is left of the path is another group.
#[test]
fn deleted_group_is_no_reason_to_read_the_one_around_it() {
    let mut scene = Scene::new();
    scene.tick(0);
    scene.files.remove(A);
    scene.files.belongs_to("/a (deleted)");
    let signals: Vec<_> = (1..5).map(|second| scene.tick(second).signal).collect();
    assert_eq!(signals, [Signal::Holding, Signal::Holding, Signal::Lost, Signal::Lost]);
}

/// C6; F13: a controller that is disabled takes its files away under the open handles.
#[test]
fn quota_goes_with_its_controller_and_comes_back() {
    let mut scene = Scene::new();
    assert_eq!(scene.tick(0).quota_cores, Some(2.0));
    scene.files.remove("/sys/fs/cgroup/a/cpu.max");
    let reading = scene.tick(1);
    assert_eq!((reading.signal, reading.quota_cores), (Signal::Groups, None));
    scene.files.text("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    let reading = scene.tick(2);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.0), Some(QuotaSource::Ancestor)));
}

/// C12, of version 1: with its usage on another mount, and with none.
#[test]
fn vanished_group_of_the_first_version_is_lost_at_the_third_tick() {
    for has_cpuacct in [true, false] {
        let mut scene = Scene::new();
        let cpu = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let cpuacct = "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n";
        scene.files.text("/proc/self/mountinfo", &[cpu, cpuacct].concat());
        scene.files.text("/proc/self/cgroup", if has_cpuacct { "2:cpuacct:/v1\n1:cpu:/v1\n" } else { "1:cpu:/v1\n" });
        scene.files.text("/sys/fs/cgroup/cpu/v1/cpu.cfs_quota_us", "100000\n");
        scene.files.text("/sys/fs/cgroup/cpu/v1/cpu.cfs_period_us", "100000\n");
        scene.files.text("/sys/fs/cgroup/cpu/v1/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
        scene.files.text("/sys/fs/cgroup/cpuacct/v1/cpuacct.usage", "0\n");
        assert_eq!((scene.tick(0).quota_cores, scene.tick(1).sample.is_some()), (Some(1.0), true));
        scene.files.remove("/sys/fs/cgroup/cpu/v1");
        scene.files.remove("/sys/fs/cgroup/cpuacct/v1");
        let signals: Vec<_> = (2..6).map(|second| scene.tick(second).signal).collect();
        assert_eq!(signals, [Signal::Holding, Signal::Holding, Signal::Lost, Signal::Lost], "{has_cpuacct}");
    }
}

#[test]
fn group_around_that_may_not_be_read_is_left_out_and_told_once() {
    let mut scene = Scene::new();
    scene.files.put("/sys/fs/cgroup/cpu.max", Err(EACCES));
    let reading = scene.tick(0);
    assert_eq!((reading.quota_cores, reading.groups.len(), reading.error.clone()), (Some(2.0), 1, None));
    assert!(
        matches!(notices(&reading)[..], [Notice::Skipped(CgroupError::Io { code: Some(EACCES), .. })]),
        "{:?}",
        reading.notices
    );
    assert_eq!(notices(&scene.tick(1)).len(), 0);
}

/// The same of memory, whose guard would otherwise know nothing; `memory.stat` only adds to a sample.
#[test]
fn memory_of_a_group_around_that_may_not_be_read_is_left_out() {
    for (name, is_around) in [("memory.max", true), ("memory.current", true), ("memory.max", false), ("memory.stat", true)] {
        let scene = Scene::new();
        for (dir, limit) in [(A, "500\n"), ("/sys/fs/cgroup", "400\n")] {
            scene.files.text(&format!("{dir}/memory.max"), limit);
            scene.files.text(&format!("{dir}/memory.current"), "100\n");
        }
        let dir = if is_around { "/sys/fs/cgroup" } else { A };
        scene.files.put(&format!("{dir}/{name}"), Err(EACCES));
        let mut reader = scene.reader;
        let limit = reader.memory().map(|sample| sample.limit);
        match (name, is_around) {
            ("memory.stat", _) => assert_eq!(limit, Ok(Some(400))),
            (_, true) => assert_eq!(limit, Ok(Some(500)), "{name}"),
            (_, false) => assert!(matches!(limit, Err(CgroupError::Io { code: Some(EACCES), .. })), "the own one: {limit:?}"),
        }
    }
}

/// The group is seen somewhere else than before, which `/proc/self/cgroup` does not tell.
#[test]
fn memory_is_looked_for_anew_where_no_group_counts_it_any_more() {
    let mut scene = Scene::new();
    scene.files.text("/sys/fs/cgroup/a/memory.max", "500\n");
    scene.files.text("/sys/fs/cgroup/a/memory.current", "100\n");
    scene.files.text("/proc/self/status", "VmRSS:\t  2 kB\n");
    assert_eq!(scene.reader.memory().unwrap().limit, Some(500));
    scene.files.remove("/sys/fs/cgroup");
    scene.files.text("/proc/self/mountinfo", "31 23 0:26 / /elsewhere rw - cgroup2 cgroup2 rw\n");
    scene.files.text("/elsewhere/a/memory.max", "700\n");
    scene.files.text("/elsewhere/a/memory.current", "100\n");
    assert_eq!(scene.reader.memory().unwrap().limit, None, "nothing is where it was");
    assert_eq!(scene.reader.memory().unwrap().limit, Some(700));
}

/// The process's mask, which is known, lies within its group's set.
#[test]
fn processor_set_that_may_not_be_read_costs_no_sample() {
    let mut scene = Scene::new();
    scene.files.put("/sys/fs/cgroup/a/cpuset.cpus.effective", Err(EACCES));
    let reading = scene.tick(0);
    assert_eq!((reading.signal, reading.quota_cores, reading.error), (Signal::Groups, Some(2.0), None));
    scene.files.used(A, 1_500_000);
    assert_eq!(cores(&scene.tick(1)), Some(0.5));
}

/// 3A 17: what cannot be read is reported, and is not "unlimited".
#[test]
fn own_quota_that_may_not_be_read_is_not_no_quota() {
    let mut scene = Scene::new();
    scene.files.put("/sys/fs/cgroup/a/cpu.max", Err(EACCES));
    let signals: Vec<_> = (0..3).map(|second| scene.tick(second).signal).collect();
    assert_eq!(signals, [Signal::Holding, Signal::Holding, Signal::Lost]);
}

/// C8: what is kept open is read, not opened.
#[test]
fn files_are_opened_once() {
    let mut scene = Scene::new();
    scene.tick(0);
    let opened = scene.files.opened();
    for second in 1..20 {
        scene.tick(second);
    }
    assert_eq!((scene.files.opened(), scene.files.reads_of("cpu.max") / 2), (opened, 20));
}

#[test]
fn file_is_read_whole_whatever_pieces_it_comes_in() {
    let files = Fake::default();
    let long = "0123456789\n".repeat(3_000);
    files.text("/f", &long);
    let (mut file, mut buffer) = (Kept::new("/f".into()), Vec::new());
    for piece in [1, 7, 4095, 4096, 1 << 20] {
        files.0.lock().piece = Some(piece);
        files.0.lock().before_next_read = vec![4, 4];
        assert_eq!(file.read(&files, &mut buffer), Ok(true), "interrupted twice (EINTR)");
        assert!(buffer == long.as_bytes(), "pieces of {piece}");
    }
    files.text("/f", "short");
    assert_eq!((file.read(&files, &mut buffer), &*buffer), (Ok(true), &b"short"[..]));
}

#[test]
fn file_without_an_end_is_an_error_and_not_all_memory() {
    let files = Fake::default();
    files.text("/f", &"x".repeat(17 << 20));
    let read = Kept::new("/f".into()).read(&files, &mut Vec::new());
    assert!(matches!(read, Err(CgroupError::Io { kind: io::ErrorKind::FileTooLarge, .. })), "{read:?}");
}

#[test]
fn errors_say_what_an_operator_needs() {
    let mut scene = Scene::new();
    scene.files.text("/sys/fs/cgroup/a/cpu.max", "200000 0\n");
    let error = scene.tick(0).error.unwrap();
    assert_eq!(error.to_string(), "/sys/fs/cgroup/a/cpu.max:1: \"0\": must not be 0");
    scene.files.put("/sys/fs/cgroup/a/cpu.max", Err(EIO));
    let error = scene.tick(1).error.unwrap().to_string();
    assert!(error.starts_with("/sys/fs/cgroup/a/cpu.max: ") && error.ends_with("(errno 5)"), "{error}");
}
