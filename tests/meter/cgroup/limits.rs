//! Which limit counts, and whose usage goes with it.

use keywake::{load::QuotaSource, meter::cgroup::Notice};

use super::tree::{Tree, notices, usage};

const POD: &str = "sys/fs/cgroup/pod";
const APP: &str = "sys/fs/cgroup/pod/app";

/// C1, C4; F01, F03, F04, F07; 3A 5, 21.
#[test]
fn quota_of_the_own_group_is_read_as_a_float() {
    let all =
        [("max 100000\n", None), ("250000 100000", Some(2.5)), ("150000 100000\n", Some(1.5)), ("50000 100000\n", Some(0.5))];
    for (text, cores) in all {
        let tree = Tree::v2("/pod/app");
        tree.put(&format!("{APP}/cpu.max"), text).used(APP, 0);
        let mut probe = tree.probe();
        let reading = probe.at(0);
        assert_eq!(reading.quota_cores, cores, "{text}");
        assert_eq!(reading.quota_source, cores.map(|_| QuotaSource::Leaf));
        tree.used(APP, 500_000);
        let reading = probe.at(1_000);
        assert_eq!((usage(&reading), reading.ratio()), (Some(0.5), cores.map(|cores| 0.5 / cores)), "{text}");
    }
}

/// C5, C6; F35; 3A 4, 6, 7, 12, 20.
#[test]
fn tightest_of_the_groups_around_counts() {
    use QuotaSource::{Ancestor, Leaf};
    let cases = [
        ("max 100000", Some("200000 100000"), Some((2.0, Ancestor))),
        ("800000 100000", Some("200000 100000"), Some((2.0, Ancestor))),
        ("200000 100000", Some("800000 100000"), Some((2.0, Leaf))),
        ("200000 100000", None, Some((2.0, Leaf))),
        ("max 100000", None, None),
        ("50000 100000", Some("100000 100000"), Some((0.5, Leaf))),
    ];
    for (own, around, least) in cases {
        let tree = Tree::v2("/pod/app");
        tree.put(&format!("{APP}/cpu.max"), own).used(APP, 0);
        if let Some(around) = around {
            tree.put(&format!("{POD}/cpu.max"), around);
        }
        let reading = tree.probe().at(0);
        assert_eq!(reading.quota_cores.zip(reading.quota_source), least, "{own} in {around:?}");
        assert_eq!(reading.groups.len(), 2, "the machine's own is none of them");
    }
}

/// C6; F35; 3A 7: the controller is not enabled in the own group, and the limit is two above.
#[test]
fn group_without_the_controller_does_not_end_the_way_up() {
    let tree = Tree::v2("/top/mid/app");
    tree.used("sys/fs/cgroup/top/mid/app", 0).put("sys/fs/cgroup/top/cpu.max", "400000 100000\n");
    let reading = tree.probe().at(0);
    assert_eq!((reading.quota_cores, reading.binding), (Some(4.0), Some(2)));
    assert_eq!(reading.binding().unwrap().path, tree.dir("sys/fs/cgroup/top"));
}

/// C7.
#[test]
fn usage_is_that_of_the_group_whose_quota_binds_and_both_are_told() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("cpu.max", "800000 100000\n"), ("cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\n")]);
    tree.group(
        POD,
        &[("cpu.max", "200000 100000\n"), ("cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")],
    );
    let pressure = |some, full| {
        format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n")
    };
    tree.put(&format!("{APP}/cpu.pressure"), &pressure(0, 0)).put(&format!("{POD}/cpu.pressure"), &pressure(0, 0));
    let mut probe = tree.probe();
    probe.at(0);
    tree.group(APP, &[("cpu.stat", "usage_usec 500000\nnr_periods 10\nnr_throttled 0\n")]);
    tree.group(POD, &[("cpu.stat", "usage_usec 1900000\nnr_periods 10\nnr_throttled 5\nthrottled_usec 250000\n")]);
    tree.put(&format!("{APP}/cpu.pressure"), &pressure(900_000, 800_000))
        .put(&format!("{POD}/cpu.pressure"), &pressure(300_000, 200_000));
    probe.process_used(400_000);
    let reading = probe.at(1_000);
    let sample = reading.sample.unwrap();
    assert_eq!((sample.usage_cores, sample.process_cores, sample.quota_cores), (1.9, 0.4, Some(2.0)));
    assert_eq!((sample.throttled_share, sample.some_stalled, sample.full_stalled), (Some(0.5), Some(0.3), Some(0.2)));
    assert_eq!(sample.throttled_cores, Some(0.25), "the pod's, whose quota it is");
    assert_eq!(reading.own().unwrap().usage_cores, Some(0.5));
    let pod = reading.binding().unwrap();
    assert_eq!((&pod.path, pod.usage_cores, pod.throttled_cores), (&tree.dir(POD), Some(1.9), Some(0.25)));
}

/// C7: the group around can be limited without being counted.
#[test]
fn own_usage_stands_in_where_the_binding_group_has_none() {
    let tree = Tree::v2("/pod/app");
    tree.put(&format!("{POD}/cpu.max"), "200000 100000\n").used(APP, 0);
    let mut probe = tree.probe();
    probe.at(0);
    tree.used(APP, 700_000);
    assert_eq!(usage(&probe.at(1_000)), Some(0.7));
}

/// C5; 3A 2, 19, 23, 26; 2.1: a list with holes.
#[test]
fn processor_sets_and_masks_limit_too() {
    use QuotaSource::{Affinity, Cpuset, Leaf};
    let cases = [
        ("800000 100000", Some("0-1\n"), None, (2.0, Cpuset)),
        ("max 100000", Some("0-3,8-11\n"), Some(64), (8.0, Cpuset)),
        ("800000 100000", None, Some(2), (2.0, Affinity)),
        ("200000 100000", Some("0\n"), Some(1), (1.0, Cpuset)),
        ("200000 100000", Some("0-7\n"), Some(1), (1.0, Affinity)),
        ("300000 100000", None, None, (3.0, Leaf)),
        ("150000 100000", Some("0-1\n"), Some(2), (1.5, Leaf)),
    ];
    for (max, cpuset, affinity, (cores, source)) in cases {
        let tree = Tree::v2("/pod/app");
        tree.put(&format!("{APP}/cpu.max"), max).used(APP, 0);
        if let Some(list) = cpuset {
            tree.put(&format!("{APP}/cpuset.cpus.effective"), list);
        }
        let mut probe = tree.probe_with(|builder| builder.affinity(move || affinity));
        let reading = probe.at(0);
        assert_eq!((reading.quota_cores, reading.quota_source), (Some(cores), Some(source)), "{max} {cpuset:?} {affinity:?}");
        // A mask is the process's, a set is the group's.
        tree.used(APP, 900_000);
        probe.process_used(600_000);
        assert_eq!(usage(&probe.at(1_000)), Some(if source == Affinity { 0.6 } else { 0.9 }), "{source:?}");
    }
}

/// C5: the nearest group that has a set is the one in force.
#[test]
fn processor_set_of_a_group_around_is_found() {
    let tree = Tree::v2("/pod/app");
    tree.used(APP, 0).put(&format!("{POD}/cpuset.cpus.effective"), "4-6\n");
    let reading = tree.probe().at(0);
    assert_eq!((reading.cpuset_cpus, reading.quota_cores, reading.quota_source), (Some(3), Some(3.0), Some(QuotaSource::Cpuset)));
}

/// C4; weakness 5 of the original's override; F33.
#[test]
fn override_counts_and_is_told_when_it_is_above_the_limit() {
    let tree = Tree::v2("/pod/app");
    tree.put(&format!("{APP}/cpu.max"), "200000 100000\n").used(APP, 0);
    let mut probe = tree.probe_with(|builder| builder.affinity(|| None).override_cores(4.0));
    let reading = probe.at(0);
    assert_eq!(
        (reading.quota_cores, reading.quota_source, reading.limit_cores),
        (Some(4.0), Some(QuotaSource::Override), Some(2.0))
    );
    let above = |limit_cores| Notice::OverrideAboveLimit { override_cores: 4.0, limit_cores };
    assert_eq!(notices(&reading), [&above(2.0)]);
    assert!(above(2.0).to_string().contains("override of 4 cores is above the limit of 2"), "{}", above(2.0));
    tree.used(APP, 1_000_000);
    let reading = probe.at(1_000);
    assert_eq!((reading.ratio(), notices(&reading).len()), (Some(0.25), 0), "told once");
    tree.put(&format!("{APP}/cpu.max"), "300000 100000\n");
    assert_eq!(notices(&probe.at(2_000)), [&above(3.0)], "of another limit it is told again");
    tree.put(&format!("{APP}/cpu.max"), "max 100000\n");
    assert_eq!(notices(&probe.at(3_000)).len(), 0);
    for cores in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = tree.builder().override_cores(cores).build().unwrap_err();
        assert!(error.to_string().contains("a number above 0 is expected"), "{error}");
    }
}

/// C4: the operator speaks of the own group, whatever limits those around it.
#[test]
fn override_is_of_the_own_group() {
    let tree = Tree::v2("/pod/app");
    tree.used(APP, 0).used(POD, 0).put(&format!("{POD}/cpu.max"), "400000 100000\n");
    let mut probe = tree.probe_with(|builder| builder.affinity(|| None).override_cores(2.0));
    assert_eq!(probe.at(0).limit_cores, Some(4.0));
    tree.used(APP, 500_000).used(POD, 3_000_000);
    let reading = probe.at(1_000);
    assert_eq!((usage(&reading), reading.ratio()), (Some(0.5), Some(0.25)));
    assert_eq!(reading.binding().unwrap().usage_cores, Some(3.0));
}

/// C4: below the limit it is the lesser number that is meant.
#[test]
fn override_below_the_limit_is_nothing_to_warn_of() {
    let tree = Tree::v2("/pod/app");
    tree.put(&format!("{APP}/cpu.max"), "800000 100000\n").used(APP, 0);
    let reading = tree.probe_with(|builder| builder.affinity(|| None).override_cores(4.0)).at(0);
    assert_eq!((reading.quota_cores, notices(&reading).len()), (Some(4.0), 0));
    let reading = tree.probe_with(|builder| builder.affinity(|| Some(3)).override_cores(4.0)).at(0);
    assert_eq!(
        notices(&reading),
        [&Notice::OverrideAboveLimit { override_cores: 4.0, limit_cores: 3.0 }],
        "of the processors too"
    );
}

/// 3A 6, 14, 23: what is asked for is no limit.
#[test]
fn weights_and_shares_are_no_limits() {
    let tree = Tree::v2("/pod/app");
    tree.group(APP, &[("cpu.weight", "1\n"), ("cpu.weight.nice", "19\n"), ("cpu.max", "1600000 100000\n")]).used(APP, 0);
    assert_eq!(tree.probe().at(0).quota_cores, Some(16.0));
    tree.put(&format!("{APP}/cpu.max"), "max 100000\n");
    assert_eq!(tree.probe().at(0).quota_cores, None);
}

/// C8; 3A 4, 27 (gVisor 14141); weakness 5: a pod that is resized in place.
#[test]
fn quota_is_read_anew_at_every_tick_and_its_change_is_told() {
    let tree = Tree::v2("/pod/app");
    tree.put(&format!("{APP}/cpu.max"), "400000 100000\n").used(APP, 0);
    let mut probe = tree.probe();
    probe.at(0);
    tree.used(APP, 1_000_000);
    assert_eq!(probe.at(1_000).ratio(), Some(0.25));
    for (second, text, from, to) in
        [(2, "200000 100000", Some(4.0), Some(2.0)), (3, "max 100000", Some(2.0), None), (4, "50000 100000", None, Some(0.5))]
    {
        tree.put(&format!("{APP}/cpu.max"), text).used(APP, second * 1_000_000);
        let reading = probe.at(second * 1_000);
        let source = to.map(|_| QuotaSource::Leaf);
        assert_eq!(notices(&reading), [&Notice::QuotaChanged { from, to, source }]);
        assert_eq!((usage(&reading), reading.ratio()), (Some(1.0), to.map(|to| 1.0 / to)), "of that tick, by the new quota");
        assert_eq!(reading.sample.unwrap().quota_cores, to);
    }
    tree.put(&format!("{POD}/cpu.max"), "25000 100000");
    let reading = probe.at(5_000);
    assert_eq!(
        (reading.quota_cores, reading.quota_source),
        (Some(0.25), Some(QuotaSource::Ancestor)),
        "one that was not there before"
    );
}
