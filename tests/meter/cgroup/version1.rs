//! Version 1, and both side by side.

use keywake::{
    load::QuotaSource,
    meter::cgroup::{CgroupError, Notice, Signal},
};

use super::tree::{Tree, notices, usage};

const JOINT: &str = "44 33 0:39 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:18 - cgroup cgroup rw,cpu,cpuacct\n";
const UNIFIED: &str = "34 33 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const CPU: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
const CPUACCT: &str = "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n";
const DIR: &str = "sys/fs/cgroup/cpu,cpuacct";

fn quota(tree: &Tree, dir: &str, quota: &str) {
    tree.group(dir, &[("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n")]);
}

/// C9; 3A 3, 24, 32: nanoseconds, and the usage of `cpuacct.usage` rather than of `cpuacct.stat`.
#[test]
fn quota_usage_and_throttling_of_the_first_version_are_read() {
    let tree = Tree::new("4:cpu,cpuacct:/app\n", JOINT);
    let dir = format!("{DIR}/app");
    quota(&tree, &dir, "150000\n");
    let stat = |periods, throttled, time| {
        tree.put(&format!("{dir}/cpu.stat"), &format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {time}\n"));
    };
    stat(10, 0, 0_u64);
    tree.group(
        &dir,
        &[("cpuacct.usage", "69609281262\n"), ("cpuacct.stat", "user 1\nsystem 999999\n"), ("cpu.cfs_burst_us", "20000\n")],
    );
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.5), Some(QuotaSource::Leaf)));
    let own = reading.own().unwrap();
    assert_eq!((own.usage.unwrap().as_nanos(), own.burst.unwrap().as_micros()), (69_609_281_262, 20_000));
    stat(20, 5, 250_000_000);
    tree.put(&format!("{dir}/cpuacct.usage"), "70359281262\n");
    let reading = probe.at(1_000);
    assert_eq!((usage(&reading), reading.ratio()), (Some(0.75), Some(0.5)));
    assert_eq!((reading.sample.unwrap().throttled_share, reading.own().unwrap().throttled_cores), (Some(0.5), Some(0.25)));
}

/// C9; F10: two controllers on mounts apart, each with its own path.
#[test]
fn controllers_on_mounts_apart_are_put_together() {
    let tree = Tree::new("2:cpuacct:/pod/app\n1:cpu:/pod/app\n0::/\n", &format!("{CPU}{CPUACCT}"));
    quota(&tree, "sys/fs/cgroup/cpu/pod/app", "-1\n");
    quota(&tree, "sys/fs/cgroup/cpu/pod", "200000\n");
    let used = |own: u64, pod: u64| {
        tree.put("sys/fs/cgroup/cpuacct/pod/app/cpuacct.usage", &own.to_string());
        tree.put("sys/fs/cgroup/cpuacct/pod/cpuacct.usage", &pod.to_string());
    };
    used(0, 0);
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(2.0), Some(QuotaSource::Ancestor)));
    used(500_000_000, 1_500_000_000);
    let reading = probe.at(1_000);
    assert_eq!((usage(&reading), reading.own().unwrap().usage_cores), (Some(1.5), Some(0.5)));
}

/// C9: what another group counts is not ours.
#[test]
fn usage_of_another_group_is_not_taken() {
    let tree = Tree::new("2:cpuacct:/all\n1:cpu:/app\n", &format!("{CPU}{CPUACCT}"));
    quota(&tree, "sys/fs/cgroup/cpu/app", "200000\n");
    tree.put("sys/fs/cgroup/cpuacct/all/cpuacct.usage", "0\n");
    let mut probe = tree.probe();
    probe.at(0);
    tree.put("sys/fs/cgroup/cpuacct/all/cpuacct.usage", "9000000000\n");
    probe.process_used(300_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.3), "the process's own");
}

/// C10, C15; F10: this is a machine as it was met, with what its kernel writes.
#[test]
fn machine_with_both_versions_and_no_groups_made_is_recognised() {
    let cgroup = "9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/\n5:devices:/\n4:memory:/process_api/9706\n3:cpuset:/\n2:cpuacct:/\n\
                  1:cpu:/\n0::/\n";
    let tree = Tree::new(cgroup, &format!("{CPU}{CPUACCT}{UNIFIED}"));
    let marks = [("cgroup.sane_behavior", "0\n"), ("release_agent", "\n")];
    let stat = "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0\n";
    quota(&tree, "sys/fs/cgroup/cpu", "-1\n");
    tree.group("sys/fs/cgroup/cpu", &marks).put("sys/fs/cgroup/cpu/cpu.stat", stat);
    tree.group("sys/fs/cgroup/cpuacct", &marks).put("sys/fs/cgroup/cpuacct/cpuacct.usage", "69609281262\n");
    tree.put("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n").used("sys/fs/cgroup/unified", 69_609_281);
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.signal, reading.quota_cores, reading.groups.len()), (Signal::Groups, None, 0));
    tree.put("sys/fs/cgroup/cpuacct/cpuacct.usage", "71609281262\n").used("sys/fs/cgroup/unified", 71_609_281);
    probe.process_used(125_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.125));
}

/// F10: the same files in a container's own namespace are the container's.
#[test]
fn container_at_the_top_of_its_mounts_is_not_the_machine() {
    let tree = Tree::new("2:cpuacct:/\n1:cpu:/\n0::/\n", &format!("{CPU}{CPUACCT}{UNIFIED}"));
    quota(&tree, "sys/fs/cgroup/cpu", "-1\n");
    tree.put("sys/fs/cgroup/cpuacct/cpuacct.usage", "69609281262\n");
    let reading = tree.probe().at(0);
    assert_eq!(reading.own().unwrap().usage.unwrap().as_nanos(), 69_609_281_262);
}

/// C10; F09, F16; 3A 1, 3, 25: the quota is of the version that has the controller, whatever the other's files say.
#[test]
fn hybrid_takes_the_quota_from_the_version_that_has_the_controller() {
    let service = "system.slice/docker.service";
    let cgroup = format!("8:net_cls:/\n2:cpu,cpuacct:/{service}\n1:name=systemd:/{service}\n0::/{service}\n");
    for rows in [format!("{UNIFIED}{JOINT}"), format!("{JOINT}{UNIFIED}")] {
        let tree = Tree::new(&cgroup, &rows);
        let (first, unified) = (format!("{DIR}/{service}"), format!("sys/fs/cgroup/unified/{service}"));
        quota(&tree, &first, "250000\n");
        tree.put(&format!("{first}/cpuacct.usage"), "0\n");
        tree.put(&format!("{unified}/cpu.max"), "max 100000\n").used(&unified, 0);
        let pressure = |total| {
            format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"
            )
        };
        tree.put(&format!("{unified}/cpu.pressure"), &pressure(0));
        let mut probe = tree.probe();
        assert_eq!(probe.at(0).quota_cores, Some(2.5));
        tree.put(&format!("{first}/cpuacct.usage"), "500000000\n").used(&unified, 9_000_000);
        tree.put(&format!("{unified}/cpu.pressure"), &pressure(100_000));
        let sample = probe.at(1_000).sample.unwrap();
        assert_eq!(sample.usage_cores, 0.5, "never the unified group's counter");
        assert_eq!(
            (sample.some_stalled, sample.full_stalled),
            (Some(0.1), Some(0.1)),
            "pressure is of the unified group of that name alone"
        );
    }
}

/// C10: a line without a mount is not "no limit" (3A 17), and not the other version.
#[test]
fn controller_that_is_not_mounted_is_told() {
    let tree = Tree::new("2:cpu,cpuacct:/app\n0::/app\n", UNIFIED);
    tree.put("sys/fs/cgroup/unified/app/cpu.max", "max 100000\n").used("sys/fs/cgroup/unified/app", 0);
    let reading = tree.probe().at(0);
    assert_eq!(
        (reading.signal, notices(&reading)),
        (Signal::Process, vec![&Notice::NoGroups(CgroupError::NoMount { controller: "cpu" })])
    );
}

/// F02, F18; 3A 10, 18: the mount shows a group as its top.
#[test]
fn root_of_the_mount_is_cut_from_the_path() {
    let pod = "/kubepods/besteffort/pod9a18ffb8-8513-11e7-b26e-7e29fbe2a5a3/d28e0087";
    for (root, path) in [(pod, pod), ("/docker", "/docker")] {
        let rows = format!(
            "396 394 0:21 {root} /sys/fs/cgroup-a/cpu ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu\n\
             397 394 0:22 {root} /sys/fs/cgroup-a/cpuacct ro,relatime master:9 - cgroup cgroup rw,cpuacct\n"
        );
        let tree = Tree::new(&format!("3:memory:/docker/large\n4:cpuacct:{path}\n2:cpu:{path}\n1:cpuset:/\n"), &rows);
        quota(&tree, "sys/fs/cgroup-a/cpu", "50000\n");
        tree.put("sys/fs/cgroup-a/cpuacct/cpuacct.usage", "5\n");
        let reading = tree.probe().at(0);
        assert_eq!((reading.quota_cores, &reading.own().unwrap().path), (Some(0.5), &tree.dir("sys/fs/cgroup-a/cpu")));
        assert_eq!(reading.own().unwrap().usage.unwrap().as_nanos(), 5);
    }
}

/// F19; 3A 8: Amazon's ECS limits the task, and its container not.
#[test]
fn limit_of_the_task_holds_for_its_container() {
    let rows = JOINT.replace("0:39 / ", "0:39 /ecs ");
    let tree = Tree::new("4:cpu,cpuacct:/ecs/task/container\n", &rows);
    quota(&tree, &format!("{DIR}/task/container"), "-1\n");
    quota(&tree, &format!("{DIR}/task"), "100000\n");
    tree.put(&format!("{DIR}/task/container/cpuacct.usage"), "0\n");
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.0), Some(QuotaSource::Ancestor)));
}

/// F20.
#[test]
fn half_a_quota_and_numbers_that_are_none_are_errors() {
    let missing = |name| Some(format!("cpu,cpuacct/app/{name}: not there"));
    let wrong = |text| Some(format!("{text:?}: a number is expected, of no more than 64 bits"));
    for (quota, period, error) in [
        (Some("-1"), Some("100000"), None),
        (None, None, None),
        (Some("800000"), None, missing("cpu.cfs_period_us")),
        (None, Some("100000"), missing("cpu.cfs_quota_us")),
        (Some("600000"), Some("0"), Some("\"0\": must not be 0".to_owned())),
        (Some("non-an-integer"), Some("100000"), wrong("non-an-integer")),
        (Some("18446744073709551616"), Some("18446744073709551616"), wrong("18446744073709551616")),
    ] {
        let tree = Tree::new("4:cpu,cpuacct:/app\n", JOINT);
        tree.put(&format!("{DIR}/app/cpuacct.usage"), "0\n");
        for (name, text) in [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", period)] {
            if let Some(text) = text {
                tree.put(&format!("{DIR}/app/{name}"), text);
            }
        }
        let reading = tree.probe().at(0);
        assert_eq!((reading.quota_cores, reading.error.is_some()), (None, error.is_some()));
        let said = reading.error.map(|error| error.to_string()).unwrap_or_default();
        assert!(said.ends_with(&error.unwrap_or_default()), "{said}");
    }
}

/// F33: gVisor's own version 1, where nothing is limited.
#[test]
fn sandbox_with_a_group_without_limits_falls_back_to_its_processors() {
    let tree = Tree::new("4:cpu,cpuacct:/\n", JOINT);
    quota(&tree, DIR, "-1\n");
    tree.put(&format!("{DIR}/cpuacct.usage"), "0\n");
    let reading = tree.probe_with(|builder| builder.affinity(|| Some(255))).at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(255.0), Some(QuotaSource::Affinity)));
    let reading = tree.probe_with(|builder| builder.override_cores(1.0)).at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.0), Some(QuotaSource::Override)));
}

/// C5: the set of the first version, which may be empty until somebody writes it.
#[test]
fn processor_set_of_the_first_version_is_read() {
    let rows = format!("{JOINT}34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    let tree = Tree::new("4:cpu,cpuacct:/app\n3:cpuset:/set/own\n", &rows);
    quota(&tree, &format!("{DIR}/app"), "-1\n");
    tree.put(&format!("{DIR}/app/cpuacct.usage"), "0\n").put("sys/fs/cgroup/cpuset/set/own/cpuset.cpus", "\n");
    tree.put("sys/fs/cgroup/cpuset/set/cpuset.cpus", "0,2\n");
    let mut probe = tree.probe();
    assert_eq!(probe.at(0).cpuset_cpus, Some(2));
    tree.put("sys/fs/cgroup/cpuset/set/own/cpuset.effective_cpus", "2\n");
    let reading = probe.at(1_000);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.0), Some(QuotaSource::Cpuset)));
}
