//! Whole trees as runtimes make them: every file that is there, none that is not, and a second of work in them.

use keywake::{
    load::QuotaSource,
    meter::cgroup::{CgroupError, CpuReading, Notice, Signal},
};

use super::tree::{Tree, V2, notices, usage};

/// A group of version 1, with a quota in microseconds per 100 ms.
fn first(tree: &Tree, cpu: &str, cpuacct: &str, quota: &str) {
    tree.group(cpu, &[("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n"), ("cpu.shares", "1024\n")]);
    tree.put(&format!("{cpu}/cpu.stat"), "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
    tree.put(&format!("{cpuacct}/cpuacct.usage"), "1000000000\n");
}

fn after_a_second(tree: &Tree, used: &[(&str, u64)]) -> (CpuReading, CpuReading) {
    let mut probe = tree.probe();
    let begin = probe.at(0);
    for (path, text) in used {
        tree.put(path, &format!("{text}\n"));
    }
    (begin, probe.at(1_000))
}

/// Docker and the kubelet on version 1: mounts whose root is the container's group, both controllers on one mount under either name.
#[test]
fn containers_of_the_first_version_are_read_at_the_top_of_their_mounts() {
    let pod = "pod0c5b1f6a-2c5f-4a8e-9f5e-6f3b1d3a9d11";
    let paths = [
        "/docker/7f1c".to_owned(),
        format!("/kubepods/burstable/{pod}/7f1c"),
        format!("/kubepods/{pod}/7f1c"),
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c5b.slice/crio-7f1c.scope".to_owned(),
        // Containerd's name where its driver and the kubelet's are not the same.
        "/system.slice/containerd.service/kubepods-burstable-pod0c5b.slice:cri-containerd:7f1c".to_owned(),
    ];
    for path in paths {
        for (names, point) in
            [("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"), ("cpuacct,cpu", "/sys/fs/cgroup/cpu,cpuacct"), ("cpuacct,cpu", "/cg")]
        {
            let rows = format!(
                "1 0 0:21 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a:/b\n\
                 730 729 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755\n\
                 731 730 0:30 {path} /sys/fs/cgroup/systemd ro,nosuid master:11 - cgroup cgroup rw,xattr,name=systemd\n\
                 738 730 0:37 {path} {point} ro,nosuid,nodev,noexec,relatime master:18 - cgroup cgroup rw,{names}\n\
                 741 730 0:40 {path} /sys/fs/cgroup/memory ro,nosuid master:21 - cgroup cgroup rw,memory\n"
            );
            let tree = Tree::new(&format!("11:memory:{path}\n4:{names}:{path}\n1:name=systemd:{path}\n0::/\n"), &rows);
            let (cpu, memory) = (&point[1..], "sys/fs/cgroup/memory");
            first(&tree, cpu, cpu, "150000\n");
            tree.group(memory, &[("memory.limit_in_bytes", "1073741824\n"), ("memory.usage_in_bytes", "268435456\n")]);
            let (begin, reading) = after_a_second(&tree, &[(&format!("{cpu}/cpuacct.usage"), 1_750_000_000)]);
            assert_eq!((begin.quota_cores, begin.quota_source), (Some(1.5), Some(QuotaSource::Leaf)), "{path} {names}");
            assert_eq!((usage(&reading), reading.ratio(), notices(&begin).len()), (Some(0.75), Some(0.5), 0), "{path} {names}");
            let memory = tree.probe().reader.memory().unwrap();
            assert_eq!((memory.limit, memory.headroom), (Some(1 << 30), Some((1 << 30) - (1 << 28))));
        }
    }
}

/// Version 1 in a namespace of its own: all paths are `/`, and nothing but what the machine's own groups have tells them from these.
#[test]
fn private_namespace_of_the_first_version_is_the_containers() {
    let rows = "738 730 0:37 / /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n";
    let tree = Tree::new("4:cpu,cpuacct:/\n0::/\n", rows);
    let dir = "sys/fs/cgroup/cpu,cpuacct";
    first(&tree, dir, dir, "50000\n");
    let (begin, reading) = after_a_second(&tree, &[(&format!("{dir}/cpuacct.usage"), 1_500_000_000)]);
    assert_eq!((begin.quota_cores, reading.ratio()), (Some(0.5), Some(1.0)));
}

/// Docker within Docker, version 1: the inner mounts begin at the inner group, and the outer container's limit cannot be seen.
#[test]
fn container_within_a_container_knows_its_own_limit() {
    let path = "/docker/outer/docker/inner";
    let rows = format!("900 800 0:37 {path} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
    let tree = Tree::new(&format!("4:cpu,cpuacct:{path}\n"), &rows);
    let dir = "sys/fs/cgroup/cpu,cpuacct";
    first(&tree, dir, dir, "200000\n");
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.groups.len(), notices(&reading).len()), (Some(2.0), 1, 0));
}

/// The kubelet on version 2, by either driver and class, from the node's own namespace: container, pod, class and all pods, of which the
/// pod binds.
#[test]
fn pods_of_the_second_version_are_limited_by_the_tightest_of_four() {
    for path in [
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c5b.slice/cri-containerd-7f1c.scope",
        "kubepods/burstable/pod0c5b/7f1c",
    ] {
        let tree = Tree::v2(&format!("/{path}"));
        let mut dir = format!("sys/fs/cgroup/{path}");
        for (quota, used) in
            [("max 100000\n", 400_000), ("250000 100000\n", 1_000_000), ("max 100000\n", 7), ("3000000 100000\n", 8)]
        {
            tree.put(&format!("{dir}/cpu.max"), quota).used(&dir, used);
            dir.truncate(dir.rfind('/').unwrap());
        }
        let pod = tree.dir(&format!("sys/fs/cgroup/{path}")).parent().unwrap().to_owned();
        let mut probe = tree.probe();
        let reading = probe.at(0);
        assert_eq!((reading.quota_cores, reading.binding, reading.groups.len()), (Some(2.5), Some(1), 4), "{path}");
        tree.put(pod.join("cpu.stat").to_str().unwrap(), "usage_usec 2000000\n");
        assert_eq!((usage(&probe.at(1_000)), &reading.binding().unwrap().path), (Some(1.0), &pod));
    }
    // One of the class `Guaranteed` is a level less deep, and limited itself.
    let tree = Tree::v2("/kubepods.slice/kubepods-pod0c5b.slice/crio-7f1c.scope");
    let dir = "sys/fs/cgroup/kubepods.slice/kubepods-pod0c5b.slice/crio-7f1c.scope";
    tree.put(&format!("{dir}/cpu.max"), "200000 100000\n").used(dir, 0);
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.quota_source, reading.groups.len()), (Some(2.0), Some(QuotaSource::Leaf), 3));
}

/// A controller is where it is bound, each for itself: processors of version 1 and memory of version 2, and the other way round.
#[test]
fn hybrid_finds_each_controller_where_it_is_bound() {
    let unified = "34 33 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
    let rows = format!("{unified}44 33 0:39 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
    let tree = Tree::new("4:cpu,cpuacct:/app\n0::/app.scope\n", &rows);
    let (dir, group) = ("sys/fs/cgroup/cpu,cpuacct/app", "sys/fs/cgroup/unified/app.scope");
    first(&tree, dir, dir, "100000\n");
    tree.group(group, &[("memory.max", "4096\n"), ("memory.current", "1024\n"), ("cpu.stat", "usage_usec 9\n")]);
    tree.put(&format!("{group}/cpu.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    let mut probe = tree.probe();
    assert_eq!((probe.at(0).quota_cores, probe.reader.memory().unwrap().limit), (Some(1.0), Some(4096)));
    assert_eq!(
        probe.at(1_000).sample.unwrap().some_stalled,
        None,
        "the unified group has another name: it is another one's pressure"
    );

    let rows = format!("{unified}45 33 0:40 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    let tree = Tree::new("5:memory:/app\n0::/app.scope\n", &rows);
    tree.group("sys/fs/cgroup/memory/app", &[("memory.limit_in_bytes", "8192\n"), ("memory.usage_in_bytes", "1\n")]);
    tree.group(group, &[("cpu.max", "300000 100000\n"), ("cpu.stat", "usage_usec 9\n"), ("memory.max", "1\n")]);
    let mut probe = tree.probe();
    assert_eq!((probe.at(0).quota_cores, probe.reader.memory().unwrap().limit), (Some(3.0), Some(8192)));
}

/// LXC and systemd-nspawn: the payload is below the group that is limited; rootless Podman has no controller but usage; a threaded group
/// has processors and no memory.
#[test]
fn groups_that_lack_a_controller_take_it_from_those_around() {
    for (payload, limited, kind) in [
        ("machine.slice/systemd-nspawn@db.service/payload", "machine.slice/systemd-nspawn@db.service", "domain\n"),
        ("lxc.payload.c1/user.slice", "lxc.payload.c1", "domain\n"),
        (
            "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-7f1c.scope/container",
            "user.slice/user-1000.slice",
            "domain\n",
        ),
        ("app.service/workers", "app.service", "threaded\n"),
    ] {
        let tree = Tree::v2(&format!("/{payload}"));
        let (own, around) = (format!("sys/fs/cgroup/{payload}"), format!("sys/fs/cgroup/{limited}"));
        tree.used(&own, 0).put(&format!("{own}/cgroup.type"), kind);
        tree.group(&around, &[("cpu.max", "400000 100000\n"), ("memory.max", "4096\n"), ("memory.high", "2048\n")]);
        tree.put(&format!("{around}/memory.current"), "1024\n").used(&around, 0);
        let mut probe = tree.probe();
        let reading = probe.at(0);
        assert_eq!((reading.quota_cores, reading.quota_source), (Some(4.0), Some(QuotaSource::Ancestor)), "{payload}");
        let memory = probe.reader.memory().unwrap();
        assert_eq!(
            (memory.limit, memory.usage, memory.group),
            (Some(4096), 1024, Some(tree.dir(&around))),
            "the kernel kills at the limit"
        );
    }
}

/// gVisor's groups have a quota and a usage, and neither `cpu.stat` nor pressure; Fargate's mounts show the container and not the task.
#[test]
fn files_that_a_sandbox_leaves_out_are_not_missed() {
    let path = "/ecs/0c5b/7f1c";
    for root in ["/", path] {
        let mount =
            |name: &str, number: u32| format!("{number} 1 0:{number} {root} /sys/fs/cgroup/{name} rw - cgroup none rw,{name}\n");
        let rows = ["cpu", "cpuacct", "memory", "cpuset"].iter().zip(40..).map(|(name, number)| mount(name, number));
        let cgroup =
            ["cpu", "cpuacct", "memory", "cpuset"].iter().zip(1..).map(|(name, number)| format!("{number}:{name}:{root}\n"));
        let tree = Tree::new(&cgroup.collect::<String>(), &rows.collect::<String>());
        tree.group("sys/fs/cgroup/cpu", &[("cpu.cfs_quota_us", "25000\n"), ("cpu.cfs_period_us", "100000\n")]);
        tree.put("sys/fs/cgroup/cpuacct/cpuacct.usage", "0\n").put("sys/fs/cgroup/cpuset/cpuset.cpus", "0-1\n");
        tree.group(
            "sys/fs/cgroup/memory",
            &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "5\n")],
        );
        let (begin, reading) = after_a_second(&tree, &[("sys/fs/cgroup/cpuacct/cpuacct.usage", 125_000_000)]);
        assert_eq!((begin.quota_cores, begin.cpuset_cpus, reading.ratio()), (Some(0.25), Some(2), Some(0.5)));
        let sample = reading.sample.unwrap();
        assert_eq!((sample.throttled_share, sample.throttled_cores, sample.some_stalled), (None, None, None), "absent, not 0");
        let memory = tree.probe().reader.memory().unwrap();
        assert_eq!((memory.limit, memory.usage, memory.headroom), (None, 5, None));
    }
}

/// Where the process's group cannot be seen, and only the machine's own can: that is not "no limit" (3A 17).
#[test]
fn group_that_is_not_shown_is_told_and_the_machines_usage_is_not_taken() {
    let tree = Tree::v2("/system.slice/app.service");
    let mut probe = tree.probe();
    let reading = probe.at(0);
    assert_eq!((reading.groups.len(), reading.quota_cores, notices(&reading)), (0, None, vec![&Notice::Guessed { path: None }]));
    assert!(reading.notices[0].to_string().contains("its limits are not known"));
    tree.used("sys/fs/cgroup", 17_999_999_999);
    probe.process_used(250_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.25));
}

/// A set of processors is taken from the process's own group, or not at all: its mask is known in any case.
#[test]
fn processor_set_of_a_group_that_is_guessed_is_not_taken() {
    let rows = "44 33 0:39 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                45 33 0:40 /docker/7f1c /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    let tree = Tree::new("4:cpu,cpuacct:/app\n3:cpuset:/batch\n", rows);
    let dir = "sys/fs/cgroup/cpu,cpuacct/app";
    first(&tree, dir, dir, "-1\n");
    tree.put("sys/fs/cgroup/cpuset/cpuset.cpus", "0\n");
    let reading = tree.probe_with(|builder| builder.affinity(|| Some(6))).at(0);
    assert_eq!((reading.quota_cores, reading.quota_source), (Some(6.0), Some(QuotaSource::Affinity)));
}

/// What no kernel writes: each is an error that names file, line and value, at no tick a number.
#[test]
fn texts_that_no_kernel_writes_are_held_and_then_lost() {
    for (name, text, value) in [
        ("cpu.max", "max 100000\r\n", "100000\r"),
        ("cpu.max", "100000 100000\n\n", "100000 100000\n"),
        ("cpu.max", "-100000 100000\n", "-100000"),
        ("cpu.max", "99999999999999999999 100000\n", "99999999999999999999"),
        ("cpu.max", "1e5 100000\n", "1e5"),
        ("cpu.max", "\0\0\0\0", "\0\0\0\0"),
        ("cpu.stat", "usage_usec -5\n", "-5"),
        ("cpu.stat", "usage_usec 5\0\n", "5\0"),
        ("cpu.stat", "usage_usec 5\r\n", "5\r"),
        ("cpu.stat", "", ""),
    ] {
        let tree = Tree::v2("/app");
        tree.put("sys/fs/cgroup/app/cpu.max", "100000 100000\n").used("sys/fs/cgroup/app", 0);
        let mut probe = tree.probe();
        probe.at(0);
        tree.put(&format!("sys/fs/cgroup/app/{name}"), text);
        let readings = [1, 2, 3].map(|second| probe.at(second * 1_000));
        assert_eq!(
            readings.each_ref().map(|reading| reading.signal),
            [Signal::Holding, Signal::Holding, Signal::Lost],
            "{text:?}"
        );
        assert!(readings.iter().all(|reading| reading.sample.is_none() && reading.quota_cores.is_none()), "{text:?}");
        let Some(CgroupError::Parse(error)) = &readings[0].error else { panic!("{text:?}: {:?}", readings[0].error) };
        assert_eq!((error.value(), error.file()), (value, &*tree.dir(&format!("sys/fs/cgroup/app/{name}"))));
    }
}

/// Numbers beyond 32 bits are numbers; a newline at the end is not asked for; a mount may have a space in its name.
#[test]
fn large_numbers_and_odd_names_are_read() {
    let rows = V2.replace("/sys/fs/cgroup ", "/mnt/c\\134g\\040\\011x ");
    let tree = Tree::new("0::/a b/c\\d\n", &rows);
    let dir = "mnt/c\\g \tx/a b/c\\d";
    tree.put(&format!("{dir}/cpu.max"), "8589934592000 1000000").used(dir, 1 << 40);
    let mut probe = tree.probe();
    assert_eq!(probe.at(0).quota_cores, Some(8_589_934.592));
    tree.used(dir, (1 << 40) + 2_000_000);
    assert_eq!(usage(&probe.at(1_000)), Some(2.0));
}
