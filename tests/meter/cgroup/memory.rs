//! How much memory there may be, and is used.

use keywake::meter::cgroup::CgroupError;

use super::tree::Tree;

const POD: &str = "sys/fs/cgroup/pod";
const APP: &str = "sys/fs/cgroup/pod/app";

#[test]
fn memory_of_the_own_group_is_read() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("memory.max", "1000\n"), ("memory.current", "600\n"), ("memory.stat", "anon 1\ninactive_file 50\n")]);
    tree.put("proc/meminfo", "MemTotal:  8 kB\n").put("proc/self/status", "Name:\tx\nVmRSS:\t  2 kB\n");
    let sample = tree.probe().reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage, sample.headroom, sample.reclaimable), (Some(1000), 600, Some(400), Some(50)));
    assert_eq!((sample.group, sample.machine, sample.process), (Some(tree.dir(APP)), Some(8192), Some(2048)));
}

#[test]
fn least_limit_counts_with_its_usage_and_the_least_headroom_with_it() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("memory.max", "max\n"), ("memory.current", "100\n")]);
    tree.group(POD, &[("memory.max", "1000\n"), ("memory.current", "900\n")]);
    let mut probe = tree.probe();
    let sample = probe.reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage, sample.headroom, sample.group), (Some(1000), 900, Some(100), Some(tree.dir(POD))));
    tree.put(&format!("{APP}/memory.max"), "500\n");
    let sample = probe.reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage, sample.headroom), (Some(500), 100, Some(100)), "the pod is nearer to its limit");
    tree.put(&format!("{POD}/memory.current"), "1001\n");
    assert_eq!(probe.reader.memory().unwrap().headroom, Some(0), "beyond it");
}

#[test]
fn without_a_limit_there_is_usage() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("memory.max", "max\n"), ("memory.current", "100\n")]).put(&format!("{POD}/memory.current"), "700\n");
    let sample = tree.probe().reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage, sample.headroom), (None, 100, None));
}

#[test]
fn first_version_and_its_number_for_no_limit_are_read() {
    let rows = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let tree = Tree::new("4:memory:/pod/app\n0::/\n", rows);
    let (pod, app) = ("sys/fs/cgroup/memory/pod", "sys/fs/cgroup/memory/pod/app");
    let none = "9223372036854771712\n";
    tree.group(app, &[("memory.limit_in_bytes", none), ("memory.usage_in_bytes", "10\n")]);
    tree.group(pod, &[("memory.limit_in_bytes", "100\n"), ("memory.usage_in_bytes", "40\n"), ("memory.use_hierarchy", "1\n")]);
    tree.put(&format!("{pod}/memory.stat"), "inactive_file 1\ntotal_inactive_file 7\n");
    let machine = "sys/fs/cgroup/memory";
    tree.group(
        machine,
        &[("memory.limit_in_bytes", none), ("memory.usage_in_bytes", "99999\n"), ("cgroup.sane_behavior", "0\n")],
    );
    let sample = tree.probe().reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage, sample.reclaimable), (Some(100), 40, Some(7)));
    tree.put(&format!("{pod}/memory.use_hierarchy"), "0\n");
    let sample = tree.probe().reader.memory().unwrap();
    assert_eq!((sample.limit, sample.usage), (None, 10), "a group that counts its own processes alone limits none within");
}

#[test]
fn process_in_no_group_but_the_machines_is_its_own_measure() {
    for tree in [Tree::v2("/"), Tree::new("", "")] {
        assert!(matches!(tree.probe().reader.memory(), Err(CgroupError::NotThere { .. } | CgroupError::NoEntry { .. })));
        tree.put("proc/self/status", "VmRSS:\t  2 kB\n");
        let sample = tree.probe().reader.memory().unwrap();
        assert_eq!((sample.limit, sample.usage, sample.group), (None, 2048, None));
    }
}

#[test]
fn garbage_is_an_error_and_the_next_reading_looks_anew() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("memory.max", "much\n"), ("memory.current", "100\n")]);
    let mut probe = tree.probe();
    let error = probe.reader.memory().unwrap_err().to_string();
    assert!(error.ends_with("memory.max:1: \"much\": a number is expected, of no more than 64 bits"), "{error}");
    tree.put("proc/self/cgroup", "0::/pod\n").group(POD, &[("memory.max", "5\n"), ("memory.current", "1\n")]);
    assert_eq!(probe.reader.memory().unwrap().limit, Some(5));
    tree.put("proc/self/cgroup", "0::/other\n").group("sys/fs/cgroup/other", &[("memory.max", "7\n"), ("memory.current", "1\n")]);
    assert_eq!(probe.reader.memory().unwrap().limit, Some(7), "moved");
}
