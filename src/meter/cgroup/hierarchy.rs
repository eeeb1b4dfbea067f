//! How many cores there are in effect: the least of what the groups, the processor sets and the operator allow.

use crate::load::QuotaSource;

/// What limits, of everything that does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tightest {
    pub(crate) cores: f64,
    pub(crate) source: QuotaSource,
    /// Which of the groups, counted from the process's own outwards, where it is one of theirs.
    pub(crate) group: Option<usize>,
}

/// The least of the groups' quotas (`None`: that group has none), the group's processor set, and the process's own.
///
/// Of equal quotas the outermost: others may share it, so that it is used up no later. A quota goes before a processor set that
/// allows as much, since only there is throttling, and the group's set before the process's, which is a copy of it unless somebody made
/// it smaller. A set without processors says nothing.
pub(crate) fn tightest(
    quotas: impl IntoIterator<Item = Option<f64>>,
    cpuset: Option<u64>,
    affinity: Option<u64>,
) -> Option<Tightest> {
    let mut least: Option<Tightest> = None;
    for (group, cores) in quotas.into_iter().enumerate() {
        if let Some(cores) = cores.filter(|cores| least.is_none_or(|least| *cores <= least.cores)) {
            let source = if group == 0 { QuotaSource::Leaf } else { QuotaSource::Ancestor };
            least = Some(Tightest { cores, source, group: Some(group) });
        }
    }
    for (cpus, source) in [(cpuset, QuotaSource::Cpuset), (affinity, QuotaSource::Affinity)] {
        let cores = cpus.filter(|cpus| *cpus > 0).map(|cpus| cpus as f64);
        if let Some(cores) = cores.filter(|cores| least.is_none_or(|least| *cores < least.cores)) {
            least = Some(Tightest { cores, source, group: None });
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(quotas: &[Option<f64>], cpuset: Option<u64>, affinity: Option<u64>) -> Option<(f64, QuotaSource, Option<usize>)> {
        tightest(quotas.iter().copied(), cpuset, affinity).map(|tightest| (tightest.cores, tightest.source, tightest.group))
    }

    /// C5, C6; F35; 3A 4, 6, 7, 12.
    #[test]
    fn least_of_all_limits_counts() {
        use QuotaSource::{Affinity, Ancestor, Cpuset, Leaf};
        for (quotas, cpuset, affinity, least) in [
            (&[Some(8.0), None, Some(2.0)][..], None, None, Some((2.0, Ancestor, Some(2)))),
            (&[Some(2.0), Some(8.0)], None, None, Some((2.0, Leaf, Some(0)))),
            (&[None, Some(2.0)], None, None, Some((2.0, Ancestor, Some(1)))),
            (&[None, None], None, None, None),
            (&[], None, None, None),
            (&[Some(0.5), Some(1.0)], Some(8), Some(8), Some((0.5, Leaf, Some(0)))),
            (&[Some(8.0)], None, Some(2), Some((2.0, Affinity, None))),
            (&[Some(8.0)], Some(3), Some(4), Some((3.0, Cpuset, None))),
            (&[None], Some(4), Some(4), Some((4.0, Cpuset, None))),
            (&[Some(2.0)], Some(2), Some(2), Some((2.0, Leaf, Some(0)))),
            (&[], Some(0), Some(2), Some((2.0, Affinity, None))),
            (&[], None, Some(0), None),
        ] {
            assert_eq!(of(quotas, cpuset, affinity), least, "{quotas:?} {cpuset:?} {affinity:?}");
        }
    }

    #[test]
    fn of_equal_quotas_the_one_that_others_share_binds() {
        assert_eq!(of(&[Some(2.0), None, Some(2.0), Some(3.0)], None, None).unwrap().2, Some(2));
    }
}
