//! What an autoscaler should be told instead of the number of streams.

/// The number of streams, or what the demand would be in streams of nominal cost, if that is more.
///
/// The plain count falls when streams are evicted and when a process refuses new ones, just when more instances are wanted; and pods that
/// are unready because they are full are no longer counted by some autoscalers. `nominal` x `ratio` / `target` is the source's formula,
/// where `ratio` is demand over quota. Without a ratio, a nominal number, or with a nominal number of 0: the plain count.
///
/// # Examples
/// ```
/// use keywake::overload::evictor::effective_active;
/// assert_eq!(effective_active(5, Some(14), Some(0.75), 0.75), 14.0);
/// assert_eq!(effective_active(5, None, Some(0.75), 0.75), 5.0);
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 streams")]
pub fn effective_active(active: usize, nominal: Option<usize>, ratio: Option<f64>, target: f64) -> f64 {
    let active = active as f64;
    let by_load = nominal.zip(ratio).map_or(0.0, |(nominal, ratio)| nominal as f64 * ratio / target);
    if by_load.is_finite() { active.max(by_load) } else { active }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_metric_is_the_sources_table() {
        for (active, ratio, expected) in [(0, 0.0, 0.0), (5, 0.1, 5.0), (5, 0.3, 5.6), (5, 0.75, 14.0), (8, 0.95, 17.73)] {
            let effective = effective_active(active, Some(14), Some(ratio), 0.75);
            assert!((effective - expected).abs() < 0.005, "({active}, {ratio}) -> {effective}");
            for plain in [effective_active(active, Some(0), Some(ratio), 0.75), effective_active(active, None, Some(ratio), 0.75)]
            {
                assert!((plain - f64::from(u32::try_from(active).unwrap())).abs() < 1e-12, "plain count");
            }
        }
        assert!((effective_active(3, Some(14), None, 0.75) - 3.0).abs() < 1e-12, "without a signal");
        assert!((effective_active(3, Some(14), Some(f64::NAN), 0.75) - 3.0).abs() < 1e-12);
        assert!((effective_active(3, Some(14), Some(1.0), 0.0) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn unready_pods_count_with_what_they_burn() {
        let pods = [(10, 0.5), (5, 1.0), (4, 1.0)].map(|(active, ratio)| effective_active(active, Some(12), Some(ratio), 0.75));
        assert!((pods.iter().sum::<f64>() - 42.0).abs() < 1e-9, "10 + 16 + 16, not 19: {pods:?}");
    }
}
