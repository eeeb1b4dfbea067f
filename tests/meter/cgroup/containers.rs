//! Version 2 as runtimes and namespaces show it: slices, private and host namespaces, bind mounts, no groups at all.

use keywake::{
    load::QuotaSource,
    meter::cgroup::{CgroupError, Notice, Signal},
};

use super::tree::{Tree, V2, notices, usage};

/// F08, C15; 3A 13; weakness 6: Envoy read the machine's 17341693371 µs for the container's 12356042342.
#[test]
fn container_in_the_namespace_of_its_host_reads_its_own_group() {
    let group = "kubepods.slice/kubepods-pod1234.slice/cri-containerd-5678.scope";
    let tree = Tree::v2(&format!("/{group}"));
    let dir = format!("sys/fs/cgroup/{group}");
    tree.put(&format!("{dir}/cpu.max"), "max 100000\n").used(&dir, 12_356_042_342);
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.quota_cores, reading.groups.len(), reading.error.clone()), (None, 3, None));
    assert_eq!(reading.own().unwrap().usage.unwrap().as_micros(), 12_356_042_342);
    tree.used(&dir, 12_356_542_342).used("sys/fs/cgroup", 17_349_693_371);
    assert_eq!(usage(&probe.at(1_000)), Some(0.5));
}

/// C15; weakness 6.
#[test]
fn process_in_the_machines_own_group_is_measured_by_its_own_clock() {
    let tree = Tree::v2("/");
    tree.put(
        "proc/pressure/cpu",
        "some avg10=92.18 avg60=78.31 avg300=38.27 total=188026423\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    let mut probe = tree.probe_with(|builder| builder.affinity(|| Some(4)));
    let reading = probe.at(0);
    assert_eq!((reading.signal, reading.groups.len(), reading.quota_cores), (Signal::Groups, 0, Some(4.0)));
    assert_eq!(reading.quota_source, Some(QuotaSource::Affinity));
    tree.used("sys/fs/cgroup", 17_349_693_371);
    tree.put(
        "proc/pressure/cpu",
        "some avg10=92.18 avg60=78.31 avg300=38.27 total=188926423\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    probe.process_used(250_000);
    let sample = probe.at(1_000).sample.unwrap();
    assert_eq!((sample.usage_cores, sample.process_cores), (0.25, 0.25));
    // F31; 3A 29: the machine's `full` is always 0, and says nothing.
    assert_eq!((sample.some_stalled, sample.full_stalled), (Some(0.9), None));
}

/// C12, C15: what the process used while nobody looked is no sample.
#[test]
fn process_without_a_group_is_not_compared_with_what_was_before_a_loss() {
    let tree = Tree::v2("/");
    let mut probe = tree.probe();
    probe.at(0);
    tree.put("proc/self/cgroup", "garbage");
    let signals = [1, 2, 3].map(|second| probe.at(second * 1_000).signal);
    assert_eq!(signals, [Signal::Holding, Signal::Holding, Signal::Lost]);
    tree.put("proc/self/cgroup", "0::/\n");
    probe.process_used(4_000_000);
    let reading = probe.at(4_000);
    assert_eq!((reading.signal, reading.sample, &reading.notices[..]), (Signal::Groups, None, &[Notice::Recovered][..]));
    probe.process_used(4_500_000);
    assert_eq!(usage(&probe.at(5_000)), Some(0.5));
}

/// C15: what distinguishes a container's group at the mount from the machine's.
#[test]
fn own_group_at_the_top_of_a_private_namespace_is_not_the_machines() {
    let tree = Tree::v2("/");
    tree.group("sys/fs/cgroup", &[("cgroup.type", "domain\n"), ("cpu.stat", "usage_usec 100\n")]);
    let mut probe = tree.probe();
    assert_eq!((probe.at(0).groups.len(), probe.at(0).quota_cores), (1, None));
    tree.used("sys/fs/cgroup", 500_100);
    probe.process_used(100_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.5), "with what else is in the container");
    tree.put("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_eq!(probe.at(2_000).quota_cores, Some(2.0));
}

/// F05; 3A 9: a row behind the right one that is none of ours does not undo it.
#[test]
fn rows_of_other_file_systems_change_nothing_in_any_order() {
    let other =
        "31 23 0:27 / /sys/fs/bpf rw - bpf bpf rw\n560 77 0:138 / /c rw - 9p drvfs rw,aname=drvfs;path=C:\\Program Files\\x\n";
    for rows in [format!("{V2}{other}"), format!("{other}{V2}")] {
        let tree = Tree::new("0::/app\n", &rows);
        tree.put("sys/fs/cgroup/app/cpu.max", "150000 100000\n").used("sys/fs/cgroup/app", 0);
        assert_eq!(tree.probe().at(0).quota_cores, Some(1.5));
    }
}

/// 3A 10: a container within a container.
#[test]
fn of_several_mounts_the_one_that_shows_the_own_group_is_taken() {
    let rows = "40 23 0:26 /docker/outer/docker/other /mnt rw - cgroup2 cgroup2 rw\n\
                41 23 0:26 /docker/outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                42 23 0:26 /docker/last /var/last rw - cgroup2 cgroup2 rw\n";
    let tree = Tree::new("0::/docker/outer/docker/inner\n", rows);
    let dir = "sys/fs/cgroup/docker/inner";
    tree.put("mnt/cpu.max", "100000 100000\n").put("var/last/cpu.max", "100000 100000\n");
    tree.put("sys/fs/cgroup/cpu.max", "500000 100000\n").put(&format!("{dir}/cpu.max"), "600000 100000\n").used(dir, 0);
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.groups.len()), (Some(5.0), 3), "with those around up to the mount");
    assert_eq!(notices(&reading).len(), 0);
}

/// C14; F11; 3A 15.
#[test]
fn path_from_outside_the_namespace_stays_within_the_mount() {
    for path in ["/../../test", "/../../../../../../test", "/lost/and/test"] {
        let tree = Tree::v2(path);
        tree.put("sys/fs/cgroup/test/cpu.max", "150000 100000\n").used("sys/fs/cgroup/test", 0);
        tree.put("test/cpu.max", "900000 100000\n").put("cpu.max", "900000 100000\n");
        let reading = tree.probe().at(0);
        assert_eq!(reading.quota_cores, Some(1.5), "{path}");
        assert_eq!(notices(&reading), [&Notice::Guessed { path: Some(tree.dir("sys/fs/cgroup/test")) }], "and it is told");
    }
    let tree = Tree::v2("/../../gone");
    tree.group("sys/fs/cgroup", &[("cgroup.type", "domain\n"), ("cpu.max", "250000 100000\n")]);
    assert_eq!(tree.probe().at(0).quota_cores, Some(2.5), "the mount itself is what is left");
}

/// C13, C14: a path that begins with a slash is joined, not taken alone; colons and spaces are part of names.
#[test]
fn names_with_colons_and_spaces_are_names() {
    let rows = "30 23 0:26 / /sys/fs/my\\040groups rw shared:4 master:2 - cgroup2 cgroup2 rw\n";
    let tree = Tree::new("0::/some/long/path:foobar\n", rows);
    let dir = "sys/fs/my groups/some/long/path:foobar";
    tree.put(&format!("{dir}/cpu.max"), "150000 100000\n").used(dir, 0);
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, &reading.own().unwrap().path), (Some(1.5), &tree.dir(dir)));
}

/// F12; 3A 27 (gVisor 9580): the sandbox sits beside, the limit is on the pod.
#[test]
fn limit_of_the_pod_holds_for_the_child_without_one() {
    let tree = Tree::v2("/kubepods/pod1/pause");
    let dir = "sys/fs/cgroup/kubepods/pod1";
    tree.put(&format!("{dir}/pause/cpu.max"), "max 100000\n").used(&format!("{dir}/pause"), 0);
    tree.put(&format!("{dir}/cpu.max"), "66000 100000\n").used(dir, 0);
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(0.66), Some(QuotaSource::Ancestor)));
}

/// F13; 3A 28: the controller is not delegated, or the kernel has no bandwidth control.
#[test]
fn group_with_no_more_than_its_usage_has_no_quota_of_its_own() {
    let tree = Tree::v2("/user.slice/user-1000.slice");
    let (user, slice) = ("sys/fs/cgroup/user.slice/user-1000.slice", "sys/fs/cgroup/user.slice");
    let pressure = ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    tree.group(user, &[pressure, ("cpu.stat", "usage_usec 5\n"), ("cpuset.cpus.effective", "0-3\n"), ("cpu.weight", "100\n")]);
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.quota_cores, reading.quota_source, reading.error), (Some(4.0), Some(QuotaSource::Cpuset), None));
    tree.put(&format!("{slice}/cpu.max"), "350000 100000\n");
    assert_eq!(probe.at(1_000).quota_cores, Some(3.5));
}

/// F14, F15; 3A 12.
#[test]
fn groups_of_sessions_and_terminals_are_found() {
    for (cgroup, path) in [
        ("0::/user.slice/user-1001.slice/session-1.scope\n", "user.slice/user-1001.slice/session-1.scope"),
        (
            "2:cpuset:/foo\n1:name=systemd:/\n0::/user.slice/user-1001.slice/session-1.scope\n",
            "user.slice/user-1001.slice/session-1.scope",
        ),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/x.service\n",
            "user.slice/user-1000.slice/user@1000.service/x.service",
        ),
        (
            "0::/user.slice/user-cg.slice/user-cg-cpu.slice/run-r1.scope\n",
            "user.slice/user-cg.slice/user-cg-cpu.slice/run-r1.scope",
        ),
    ] {
        let tree = Tree::new(cgroup, V2);
        let dir = format!("sys/fs/cgroup/{path}");
        tree.used(&dir, 0).put(&format!("{}/cpu.max", dir.rsplit_once('/').unwrap().0), "200000 100000\n");
        let reading = tree.probe().at(0);
        assert_eq!((reading.quota_cores, reading.binding, &reading.own().unwrap().path), (Some(2.0), Some(1), &tree.dir(&dir)));
    }
}

/// C16; F33; 3A 27 (gVisor 1906).
#[test]
fn machine_without_groups_is_told_once_and_the_process_is_its_own_measure() {
    let tree = Tree::v2("/");
    tree.remove("proc");
    let mut probe = tree.probe_with(|builder| builder.affinity(|| Some(2)));
    let reading = probe.at(0);
    let [Notice::NoGroups(CgroupError::NotThere { path })] = &reading.notices[..] else { panic!("{:?}", reading.notices) };
    assert_eq!((path, reading.signal), (&tree.dir("proc/self/cgroup"), Signal::Process));
    for second in 1..40 {
        probe.process_used(second * 500_000);
        let reading = probe.at(second * 1_000);
        let sample = reading.sample.unwrap();
        assert_eq!((sample.usage_cores, sample.process_cores, reading.ratio()), (0.5, 0.5, Some(0.25)));
        assert_eq!((sample.quota_source, reading.notices.len()), (Some(QuotaSource::Affinity), 0));
    }
}

/// C16: with an override; 3A 2: and where not even the mask is known.
#[test]
fn override_stands_in_for_everything_that_is_not_known() {
    let tree = Tree::new("", "");
    let mut probe = tree.probe_with(|builder| builder.affinity(|| None).override_cores(1.5));
    assert_eq!(probe.at(0).quota_source, Some(QuotaSource::Override));
    probe.process_used(750_000);
    assert_eq!(probe.at(1_000).ratio(), Some(0.5));
}

/// C16: nothing at all is known, as elsewhere than on Linux.
#[test]
fn without_groups_and_without_a_clock_nothing_is_known() {
    let tree = Tree::new("", "");
    let mut probe = tree.probe_with(|builder| builder.affinity(|| Some(2)).process_clock(|| None));
    let readings = [probe.at(0), probe.at(1_000), probe.at(2_000)];
    assert!(readings.iter().all(|reading| reading.signal == Signal::Lost && reading.sample.is_none() && reading.error.is_some()));
    assert_eq!(readings.each_ref().map(|reading| reading.notices.len()), [1, 0, 0]);
    assert_eq!(readings[0].notices, [Notice::Lost(CgroupError::NoClock)]);
}

/// C16: a group file system that is mounted later is found.
#[test]
fn groups_that_come_later_are_found() {
    let tree = Tree::new("0::/app\n", "");
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!(reading.notices, [Notice::NoGroups(CgroupError::NoMount { controller: "cpu" })]);
    tree.put("proc/self/mountinfo", V2).put("sys/fs/cgroup/app/cpu.max", "150000 100000\n").used("sys/fs/cgroup/app", 0);
    let found = (1..20).map(|second| probe.at(second * 1_000)).find(|reading| reading.signal == Signal::Groups).unwrap();
    assert_eq!((found.quota_cores, found.sample.as_ref(), notices(&found)[0]), (Some(1.5), None, &Notice::Recovered));
    tree.used("sys/fs/cgroup/app", 500_000);
    assert_eq!(usage(&probe.at(100_000)).map(|cores| cores > 0.0), Some(true));
}

/// Beyond the fixtures: where other runtimes put a process, and where they limit it.
#[test]
fn limit_is_found_wherever_a_runtime_puts_it() {
    use QuotaSource::{Ancestor, Leaf};
    const PRIVATE: &str = "812 800 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n";
    const WSL: &str = "560 77 0:138 / /mnt/c rw,noatime - 9p drvfs rw,aname=drvfs;path=C:\\;uid=0;symlinkroot=/mnt/\n\
                       80 79 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const BOUND: &str = "900 800 0:26 /kubepods.slice/pod1.slice/crio-1.scope /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    let cases = [
        ("docker, private", "0::/", PRIVATE, "", "", Leaf),
        (
            "docker, host",
            "0::/system.slice/docker-1.scope",
            V2,
            "system.slice/docker-1.scope",
            "system.slice/docker-1.scope",
            Leaf,
        ),
        (
            "podman, rootless",
            "0::/user.slice/libpod-1.scope/container",
            V2,
            "user.slice/libpod-1.scope/container",
            "user.slice/libpod-1.scope",
            Ancestor,
        ),
        ("lxc", "0::/.lxc", PRIVATE, ".lxc", "", Ancestor),
        ("lxc, from the host", "0::/lxc.payload.c1/init.scope", V2, "lxc.payload.c1/init.scope", "lxc.payload.c1", Ancestor),
        (
            "kind",
            "0::/kubelet.slice/pod1.slice/cri-1.scope",
            PRIVATE,
            "kubelet.slice/pod1.slice/cri-1.scope",
            "kubelet.slice/pod1.slice",
            Ancestor,
        ),
        ("cri-o, bound", "0::/kubepods.slice/pod1.slice/crio-1.scope", BOUND, "", "", Leaf),
        ("systemd, a service", "0::/system.slice/app.service", V2, "system.slice/app.service", "system.slice/app.service", Leaf),
        ("systemd, its slice", "0::/system.slice/app.service", V2, "system.slice/app.service", "system.slice", Ancestor),
        (
            "nomad",
            "0::/nomad.slice/share.slice/1.task.scope",
            V2,
            "nomad.slice/share.slice/1.task.scope",
            "nomad.slice/share.slice",
            Ancestor,
        ),
        ("ecs", "0::/ecs/task/container", PRIVATE, "ecs/task/container", "ecs/task", Ancestor),
        (
            "slurm",
            "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0",
            V2,
            "system.slice/slurmstepd.scope/job_1/step_0/user/task_0",
            "system.slice/slurmstepd.scope/job_1",
            Ancestor,
        ),
        ("wsl", "0::/init.scope", WSL, "init.scope", "init.scope", Leaf),
    ];
    for (runtime, cgroup, rows, own, limited, source) in cases {
        let tree = Tree::new(&format!("{cgroup}\n"), rows);
        let dir = |path: &str| format!("sys/fs/cgroup/{path}").trim_end_matches('/').to_owned();
        if rows == PRIVATE {
            tree.put("sys/fs/cgroup/cgroup.type", "domain\n");
        }
        tree.used(&dir(own), 0).used(&dir(limited), 0).put(&format!("{}/cpu.max", dir(limited)), "150000 100000\n");
        let mut probe = tree.probe();
        let reading = probe.at(0);
        assert_eq!((reading.quota_cores, reading.quota_source), (Some(1.5), Some(source)), "{runtime}");
        assert_eq!((notices(&reading).len(), &reading.own().unwrap().path), (0, &tree.dir(&dir(own))), "{runtime}");
        tree.used(&dir(own), 250_000).used(&dir(limited), 750_000);
        assert_eq!(probe.at(1_000).ratio(), Some(0.5), "{runtime}: usage of the group that is limited");
    }
}

/// 3A 16: no controller list, no `/proc/cgroups`: what counts is what is mounted.
#[test]
fn version_is_told_by_what_is_mounted() {
    let tree = Tree::v2("/app");
    tree.put("sys/fs/cgroup/app/cpu.max", "200000 100000\n").used("sys/fs/cgroup/app", 0);
    tree.put("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\n");
    assert_eq!(tree.probe().at(0).quota_cores, Some(2.0));
}

/// Invariant 6: a mount point that would lead out of the tree.
#[test]
fn no_path_leads_out_of_the_root() {
    let rows = "30 23 0:26 / /../../../../../../../../sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let tree = Tree::new("0::/../app/../../app\n", rows);
    tree.put("sys/fs/cgroup/app/cpu.max", "125000 100000\n").used("sys/fs/cgroup/app", 0);
    assert_eq!(tree.probe().at(0).quota_cores, Some(1.25));
}
