//! What happens between two readings: counters, bursts, throttling, pressure, time.

use std::time::Duration;

use keywake::meter::cgroup::{Notice, Signal};

use super::tree::{Tree, notices, usage};

const APP: &str = "sys/fs/cgroup/app";

fn tree() -> Tree {
    let tree = Tree::v2("/app");
    tree.put(&format!("{APP}/cpu.max"), "100000 100000\n").used(APP, 0);
    tree
}

/// C3.
#[test]
fn first_reading_has_a_quota_and_no_sample() {
    let tree = tree();
    let reading = tree.used(APP, 5_000_000).probe().at(0);
    assert_eq!((reading.sample.as_ref(), reading.ratio(), reading.signal), (None, None, Signal::Groups));
    assert_eq!(reading.quota_cores, Some(1.0));
    assert_eq!(reading.own().unwrap().usage, Some(Duration::from_secs(5)));
}

/// C3, C17; 3A 30.
#[test]
fn counter_that_begins_anew_is_nothing_and_the_base_of_the_next() {
    let tree = tree();
    tree.used(APP, 16_405_214_312);
    let mut probe = tree.probe();
    probe.at(0);
    tree.used(APP, 781_274_824);
    assert_eq!(usage(&probe.at(1_000)), Some(0.0));
    tree.used(APP, 781_774_824);
    assert_eq!(usage(&probe.at(2_000)), Some(0.5));
    tree.used(APP, u64::MAX);
    assert!(usage(&probe.at(3_000)).unwrap().is_finite());
    tree.used(APP, 0);
    assert_eq!(probe.at(4_000).ratio(), Some(0.0));
}

/// C11; F37.
#[test]
fn burst_makes_a_ratio_above_one() {
    let tree = tree();
    tree.put(&format!("{APP}/cpu.max.burst"), "50000\n");
    let mut probe = tree.probe();
    assert_eq!(probe.at(0).own().unwrap().burst, Some(Duration::from_millis(50)));
    tree.used(APP, 150_000);
    let reading = probe.at(100);
    assert_eq!((reading.ratio(), reading.sample.unwrap().usage_cores), (Some(1.5), 1.5));
}

/// C11; 3A 27 (gVisor 13777): a pod of .66 cores that uses 1.675, for ever.
#[test]
fn limit_that_nobody_enforces_is_not_cut_at() {
    let tree = tree();
    tree.put(&format!("{APP}/cpu.max"), "66000 100000\n");
    let mut probe = tree.probe();
    probe.at(0);
    for second in 1..10 {
        tree.used(APP, second * 1_675_000);
        let ratio = probe.at(second * 1_000).ratio().unwrap();
        assert!((ratio - 1.675 / 0.66).abs() < 1e-9, "{ratio}");
    }
}

/// C17; weakness 7: two readings within a microsecond.
#[test]
fn ticks_within_a_millisecond_are_one() {
    let tree = tree();
    let mut probe = tree.probe();
    probe.at(0);
    tree.used(APP, 900_000);
    for nanoseconds in [0, 1, 999, 1_000, 999_999] {
        let reading = probe.reader.tick(probe.begin + Duration::from_nanos(nanoseconds));
        assert_eq!((reading.sample.as_ref(), reading.signal, reading.quota_cores), (None, Signal::Groups, Some(1.0)));
    }
    let reading = probe.at(1_000);
    assert_eq!((usage(&reading), reading.sample.unwrap().elapsed), (Some(0.9), Duration::from_secs(1)), "nothing is lost");
}

/// C17; section 3E: 10, 9, 9, 11 seconds.
#[test]
fn time_that_goes_back_is_no_sample_and_the_next_covers_all() {
    let tree = tree();
    let mut probe = tree.probe();
    probe.at(10_000);
    for back in [9_000, 9_000, 10_000] {
        tree.used(APP, 100_000);
        assert_eq!(probe.at(back).sample, None);
    }
    tree.used(APP, 250_000);
    let sample = probe.at(11_000).sample.unwrap();
    assert_eq!((sample.elapsed, sample.usage_cores), (Duration::from_secs(1), 0.25));
}

/// C17, E28: a clock that is set anew is not waited for.
#[test]
fn time_that_goes_back_far_begins_anew() {
    let tree = tree();
    let mut probe = tree.probe();
    probe.at(3_600_000);
    tree.used(APP, 100_000);
    assert_eq!(probe.at(10_000).sample, None);
    tree.used(APP, 350_000);
    let sample = probe.at(11_000).sample.unwrap();
    assert_eq!((sample.elapsed, sample.usage_cores), (Duration::from_secs(1), 0.25));
}

/// C17: late and bunched ticks, by real time.
#[test]
fn rate_is_over_the_time_that_passed() {
    let tree = tree();
    let mut probe = tree.probe();
    probe.at(0);
    for (at, used, elapsed) in [(5_000, 2_500_000, 5_000), (5_100, 2_550_000, 100), (30_000, 15_000_000, 24_900)] {
        tree.used(APP, used);
        let sample = probe.at(at).sample.unwrap();
        assert_eq!((sample.elapsed, sample.at), (Duration::from_millis(elapsed), probe.begin + Duration::from_millis(at)));
        assert!((sample.usage_cores - 0.5).abs() < 1e-9, "{}", sample.usage_cores);
    }
}

/// F21, F24, F25, F26; 3A 31: throttled in half of the periods at a ratio of .60.
#[test]
fn throttling_is_seen_where_the_ratio_is_low() {
    let tree = tree();
    let stat = |used, periods, throttled, time| {
        let text = format!(
            "usage_usec {used}\nuser_usec 1\nsystem_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {time}\n"
        );
        tree.put(&format!("{APP}/cpu.stat"), &text);
    };
    stat(98_701_325_189_u64, 3_936_904, 6_004, 19_175_137_007_u64);
    let mut probe = tree.probe();
    probe.at(0);
    stat(98_704_325_189, 3_936_954, 6_029, 19_176_137_007);
    let reading = probe.at(5_000);
    let sample = reading.sample.unwrap();
    assert_eq!((reading.ratio(), sample.throttled_share), (Some(0.6), Some(0.5)));
    assert_eq!((reading.own().unwrap().throttled_cores, sample.throttled_cores), (Some(0.2), Some(0.2)), "1 s over 5 s");
    stat(98_704_325_189, 3_936_954, 6_029, 19_176_137_007);
    assert_eq!(probe.at(10_000).sample.unwrap().throttled_share, None, "no period began");
    tree.used(APP, 98_704_325_189);
    let sample = probe.at(15_000).sample.unwrap();
    assert_eq!(
        (sample.throttled_share, sample.throttled_cores),
        (None, None),
        "the controller is gone: not told, rather than none"
    );
}

/// F28, F29; pressure is the growth of `total` of the group's own file, whatever the kernel's averages say.
#[test]
fn pressure_is_the_share_of_the_interval() {
    let tree = tree();
    let put = |text: &str| {
        tree.put(&format!("{APP}/cpu.pressure"), text);
    };
    put("some avg10=1.71 avg60=2.36 avg300=2.57 total=230548833\nfull avg10=1.00 avg60=1.01 avg300=1.00 total=157622356\n");
    let mut probe = tree.probe();
    assert_eq!(probe.at(0).notices, []);
    put("some avg10=1.71 avg60=2.36 avg300=2.57 total=231548833\nfull avg10=1.00 avg60=1.01 avg300=1.00 total=158122356\n");
    let sample = probe.at(2_000).sample.unwrap();
    assert_eq!((sample.some_stalled, sample.full_stalled), (Some(0.5), Some(0.25)));
    put("some avg10=1.71 avg60=2.36 avg300=2.57 total=231648833\n");
    let sample = probe.at(3_000).sample.unwrap();
    assert_eq!((sample.some_stalled, sample.full_stalled), (Some(0.1), None), "no `full`: absent, not 0");
}

/// C12; 3A 29: `cgroup.pressure` is 0, or the kernel has no pressure.
#[test]
fn pressure_that_is_not_there_is_told_once_and_may_come() {
    let tree = tree();
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!(reading.notices, [Notice::NoPressure { path: tree.dir(APP).join("cpu.pressure"), error: None }]);
    assert_eq!(probe.at(1_000).notices, []);
    tree.put(&format!("{APP}/cpu.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    assert_eq!(probe.at(2_000).sample.unwrap().some_stalled, None);
    tree.put(&format!("{APP}/cpu.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=400000\n");
    assert_eq!(probe.at(3_000).sample.unwrap().some_stalled, Some(0.4));
}

/// C12: what is no pressure costs nothing but the pressure.
#[test]
fn pressure_that_is_garbage_costs_no_sample() {
    let tree = tree();
    tree.put(&format!("{APP}/cpu.pressure"), "some total=x\n");
    let mut probe = tree.probe();
    let told = probe.at(0).notices[0].to_string();
    assert!(told.contains("cpu.pressure:1: \"total=x\""), "{told}");
    tree.used(APP, 500_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.5));
}

/// C1, C2, C12; F04, F06, F26: garbage is held, then lost, with file, line and value; never a quota of infinity, never a usage of 0.
#[test]
fn garbage_in_a_file_is_a_typed_error_and_no_sample() {
    for (name, text, message) in [
        ("cpu.max", "600000 0", "cpu.max:1: \"0\": must not be 0"),
        ("cpu.max", "500000", "cpu.max:1: \"500000\": two fields are expected"),
        ("cpu.max", "", "cpu.max:1: \"\": two fields are expected"),
        ("cpu.max", "asdf 100000", "cpu.max:1: \"asdf\": a number is expected, of no more than 64 bits"),
        ("cpu.stat", "nr_periods 500\n", "cpu.stat:1: \"\": there is no line usage_usec"),
        ("cpu.stat", "a 1\nusage_usec x\n", "cpu.stat:2: \"x\": a number is expected, of no more than 64 bits"),
        ("cpuset.cpus.effective", "3-0\n", "cpuset.cpus.effective:1: \"3-0\": ranges that rise are expected"),
    ] {
        let tree = tree();
        let mut probe = tree.probe();
        probe.at(0);
        tree.put(&format!("{APP}/{name}"), text);
        let readings = [probe.at(1_000), probe.at(2_000), probe.at(3_000), probe.at(4_000)];
        let signals = readings.each_ref().map(|reading| reading.signal);
        assert_eq!(signals, [Signal::Holding, Signal::Holding, Signal::Lost, Signal::Lost], "{name} {text:?}");
        assert!(readings.iter().all(|reading| reading.sample.is_none() && reading.quota_cores.is_none()));
        let error = readings[0].error.clone().unwrap().to_string();
        assert!(error.ends_with(message) && error.contains(APP), "{error}");
        assert_eq!(readings.each_ref().map(|reading| notices(reading).len()), [0, 0, 1, 0], "told once");
    }
}

/// Weakness 8, C12: the membership cannot be read for one tick.
#[test]
fn membership_that_fails_once_is_held() {
    let tree = tree();
    let mut probe = tree.probe();
    probe.at(0);
    tree.put("proc/self/cgroup", "garbage");
    let reading = probe.at(1_000);
    assert_eq!(reading.signal, Signal::Holding);
    assert!(reading.error.unwrap().to_string().contains("proc/self/cgroup:1: \"garbage\""));
    tree.put("proc/self/cgroup", "0::/app\n").used(APP, 1_000_000);
    assert_eq!(usage(&probe.at(2_000)), Some(0.5));
}
