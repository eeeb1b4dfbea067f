//! The machine that the test runs on: as it is, and with a group of its own where one can be made.

use std::{
    fs, hint,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use keywake::{
    load::QuotaSource,
    meter::cgroup::{CgroupReader, CpuReading, Notice, Signal},
};

/// Which says to the test that it is the process in the group; its value is the name of the group.
const ROLE: &str = "KEYWAKE_TEST_GROUP";

fn spin(time: Duration) {
    let begin = Instant::now();
    let mut spun = 0_u64;
    while begin.elapsed() < time {
        spun = hint::black_box(spun.wrapping_add(1));
    }
}

fn is_sound(reading: &CpuReading) {
    if let Some(sample) = &reading.sample {
        assert!(
            sample.elapsed >= Duration::from_millis(1) && sample.quota_cores.is_none_or(|cores| cores.is_finite() && cores > 0.0)
        );
        assert!([sample.usage_cores, sample.process_cores].iter().all(|cores| cores.is_finite() && *cores >= 0.0), "{sample:?}");
        let shares = [sample.throttled_share, sample.some_stalled, sample.full_stalled];
        assert!(shares.iter().flatten().all(|share| (0.0..=1.0).contains(share)), "{sample:?}");
    }
}

#[test]
fn this_machine_is_read_whatever_it_has() {
    let mut reader = CgroupReader::new();
    let first = reader.tick(Instant::now());
    spin(Duration::from_millis(60));
    let second = reader.tick(Instant::now());
    println!(
        "as it is: {:?}, {:?} cores by {:?}, {} groups",
        second.signal,
        second.quota_cores,
        second.quota_source,
        second.groups.len()
    );
    println!("notices: {:?}; sample: {:?}", first.notices, second.sample);
    println!("memory: {:?}", reader.memory());
    is_sound(&second);
    assert!(first.sample.is_none());
    if cfg!(target_os = "linux") {
        assert!(matches!(second.signal, Signal::Groups | Signal::Process), "{:?}", second.error);
        let sample = second.sample.unwrap();
        // This thread worked all the time, if it was let.
        assert!(sample.process_cores > 0.0 && sample.usage_cores > 0.0, "{sample:?}");
        assert!(reader.memory().unwrap().process.is_none_or(|bytes| bytes > 0));
    } else {
        assert_eq!((second.signal, second.sample), (Signal::Lost, None));
    }
}

/// The directories of a group of this name, where it could be made and limited to half a core; the first has the quota.
fn make(name: &str) -> Option<Vec<PathBuf>> {
    let top = Path::new("/sys/fs/cgroup");
    let mut dirs = Vec::new();
    let make = |at: PathBuf| fs::create_dir(&at).ok().map(|()| at);
    if top.join("cgroup.controllers").exists() {
        fs::write(top.join("cgroup.subtree_control"), "+cpu").ok();
        dirs.extend(make(top.join(name)));
    } else {
        for (controller, is_needed) in [("cpu", true), ("cpuacct", true), ("unified", false)] {
            match make(top.join(controller).join(name)) {
                Some(dir) => dirs.push(dir),
                None if is_needed => return remove(&dirs),
                None => {}
            }
        }
    }
    if limit(dirs.first()?, 50_000) { Some(dirs) } else { remove(&dirs) }
}

fn remove(dirs: &[PathBuf]) -> Option<Vec<PathBuf>> {
    for dir in dirs {
        // The kernel has it empty a little after its last process ended.
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(dir).is_err() && dir.exists() && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
    None
}

fn limit(dir: &Path, micros: u64) -> bool {
    let first = fs::write(dir.join("cpu.cfs_quota_us"), micros.to_string());
    first.or_else(|_| fs::write(dir.join("cpu.max"), format!("{micros} 100000"))).is_ok()
}

/// With a quota of a real kernel: it is read, used up, changed under way, and left behind.
#[test]
fn real_group_is_read_changed_and_left_where_one_can_be_made() {
    if let Some(name) = std::env::var_os(ROLE) {
        return in_the_group(name.to_str().unwrap());
    }
    let name = format!("keywake-test-{}", std::process::id());
    let Some(dirs) = make(&name) else {
        println!("no group can be made here: this part did not run");
        return;
    };
    let other = make(&format!("{name}-b"));
    println!("a real group: {dirs:?}");
    let test = "cgroup::machine::real_group_is_read_changed_and_left_where_one_can_be_made";
    let child = Command::new(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]).env(ROLE, &name).output();
    remove(&dirs);
    remove(&other.unwrap_or_default());
    let child = child.unwrap();
    println!("{}{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success());
}

fn dirs_of(name: &str) -> impl Iterator<Item = PathBuf> {
    let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/unified"];
    tops.into_iter().map(move |top| Path::new(top).join(name)).filter(|dir| dir.is_dir())
}

#[expect(clippy::unwrap_used, reason = "part of a test")]
fn enter(name: &str) {
    for dir in dirs_of(name) {
        fs::write(dir.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "which ran, and what the kernel said")]
#[expect(clippy::unwrap_used, reason = "the part of a test that runs in a process of its own")]
fn in_the_group(name: &str) {
    enter(name);
    let mut reader = CgroupReader::new();
    let first = reader.tick(Instant::now());
    assert_eq!((first.quota_cores, first.quota_source, first.signal), (Some(0.5), Some(QuotaSource::Leaf), Signal::Groups));
    spin(Duration::from_millis(700));
    let reading = reader.tick(Instant::now());
    is_sound(&reading);
    let sample = reading.sample.unwrap();
    println!("under a quota of half a core: {sample:?}");
    // Half a core and what one period may be off at both ends; less where others are busy too.
    assert!(sample.usage_cores > 0.0 && sample.usage_cores < 0.7, "{sample:?}");
    assert!((sample.usage_cores - sample.process_cores).abs() < 0.1, "nobody else is in the group: {sample:?}");
    assert!(sample.throttled_share.is_some(), "{sample:?}");
    let has_pressure = dirs_of(name).any(|dir| fs::read(dir.join("cpu.pressure")).is_ok());
    assert_eq!(
        (sample.some_stalled.is_some(), sample.full_stalled.is_some()),
        (has_pressure, has_pressure),
        "{:?}",
        reading.notices
    );

    let dir = dirs_of(name).find(|dir| limit(dir, 80_000)).unwrap();
    spin(Duration::from_millis(5));
    let reading = reader.tick(Instant::now());
    let changed = Notice::QuotaChanged { from: Some(0.5), to: Some(0.8), source: Some(QuotaSource::Leaf) };
    assert_eq!((reading.quota_cores, &reading.notices[..]), (Some(0.8), &[changed][..]), "{dir:?}");

    let other = format!("{name}-b");
    if dirs_of(&other).count() == dirs_of(name).count() {
        let left: Vec<_> = dirs_of(name).collect();
        enter(&other);
        assert!(left.iter().all(|dir| fs::remove_dir(dir).is_ok()), "nobody is in it any more");
        let reading = reader.tick(Instant::now());
        assert_eq!((reading.signal, reading.sample.as_ref(), reading.quota_cores), (Signal::Groups, None, Some(0.5)));
        assert!(matches!(reading.notices[0], Notice::Moved { .. }), "{:?}", reading.notices);
        spin(Duration::from_millis(50));
        assert!(reader.tick(Instant::now()).sample.is_some());
        println!("left for another group, which is read");
    }
    println!("{}", cost(&mut reader));
}

/// The median of what a tick costs.
fn cost(reader: &mut CgroupReader) -> String {
    let mut times: Vec<Duration> = (0..2_000)
        .map(|_| {
            let begin = Instant::now();
            hint::black_box(reader.tick(begin));
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let groups = reader.tick(Instant::now()).groups.len();
    format!("a tick, {groups} groups: median {:?}, 99 % under {:?}", times[times.len() / 2], times[times.len() * 99 / 100])
}
