//! AS-20 to AS-25: who gets requests last, who ends, and what may be above the limit.

use std::time::Instant;

use keywake::scaling::{Extra, Fate, Instance, OverLimit, Rollout, ScaleDown};

use crate::totals::seconds;

/// Instances without requests: utilisation, and for how many seconds idle.
fn instances(of: &[(Option<f64>, u64)], now: Instant) -> Vec<Instance<usize>> {
    let one = |(id, (utilisation, idle)): (usize, &(Option<f64>, u64))| Instance {
        id,
        utilisation: *utilisation,
        in_flight: 0,
        last_active: now - seconds(*idle),
    };
    of.iter().enumerate().map(one).collect()
}

fn noon() -> Instant {
    Instant::now() + seconds(100_000)
}

#[test]
fn as_20_requests_go_first_to_the_most_used_ones() {
    let now = noon();
    let of = [(Some(0.2), 0), (Some(0.6), 0), (Some(0.4), 9), (Some(0.4), 3), (None, 0)];
    let fates = ScaleDown::new().plan(&instances(&of, now), 2, now);
    assert_eq!(fates, [Fate::KeepUsed, Fate::Recommended, Fate::KeepUsed, Fate::Recommended, Fate::KeepUnknown]);
    assert_eq!(fates.iter().filter(|fate| fate.is_deprioritised()).count(), 3);
    let all = ScaleDown::new().plan(&instances(&of, now), 9, now);
    assert_eq!(all, [Fate::Recommended; 5]);
}

#[test]
fn as_21_group_1_ends_below_ten_percent_and_not_at_it() {
    let now = noon();
    let of = [(Some(0.9), 0), (Some(0.1), 0), (Some(0.099_999), 0), (Some(0.0), 0)];
    let fates = ScaleDown::new().plan(&instances(&of, now), 1, now);
    assert_eq!(fates, [Fate::Recommended, Fate::KeepUsed, Fate::EndLow, Fate::EndLow]);
    assert_eq!(fates.iter().filter(|fate| fate.ends()).count(), 2);
}

#[test]
fn as_21_group_2_ends_after_fifteen_minutes_or_ten_where_so_set() {
    let now = noon();
    for (policy, limit) in [(ScaleDown::new(), 900), (ScaleDown::new().idle_limit(seconds(600)), 600)] {
        let of = [(Some(0.9), 0), (Some(0.0), limit), (Some(0.0), limit - 1), (Some(0.01), 5000)];
        let fates = policy.reserve(2).plan(&instances(&of, now), 1, now);
        assert_eq!(fates, [Fate::Recommended, Fate::EndIdle, Fate::KeepReserve, Fate::EndLow], "{limit} s");
    }
}

#[test]
fn as_21_nobodys_request_is_cut() {
    let now = noon();
    let mut of = instances(&[(Some(0.9), 0), (Some(0.01), 0), (Some(0.01), 0)], now);
    of[1].in_flight = 1;
    assert_eq!(ScaleDown::new().plan(&of, 1, now), [Fate::Recommended, Fate::KeepBusy, Fate::EndLow]);
}

#[test]
fn as_22_minimum_is_never_ended() {
    let now = noon();
    let of = instances(&[(Some(0.0), 9000); 5], now);
    for (min, left) in [(0, 0), (2, 2), (5, 5), (9, 5)] {
        let fates = ScaleDown::new().min(min).plan(&of, 0, now);
        assert_eq!(fates.iter().filter(|fate| !fate.ends()).count(), left, "at least {min}");
    }
}

#[test]
fn instance_that_tells_nothing_is_kept_and_gets_requests_last() {
    let now = noon();
    for odd in [None, Some(f64::NAN), Some(-1.0), Some(f64::INFINITY)] {
        let fates = ScaleDown::new().plan(&instances(&[(odd, 9000), (Some(0.0), 9000)], now), 1, now);
        assert_eq!(fates, [Fate::KeepUnknown, Fate::Recommended], "{odd:?}");
    }
}

#[test]
fn clock_that_goes_back_ends_nobody_for_being_idle() {
    let now = noon();
    let fates = ScaleDown::new().reserve(1).plan(&instances(&[(Some(0.0), 0)], now + seconds(50)), 0, now);
    assert_eq!(fates, [Fate::KeepReserve]);
}

#[test]
fn order_of_instances_changes_nothing() {
    let now = noon();
    let of = instances(&[(Some(0.0), 5), (Some(0.0), 5), (Some(0.5), 1), (Some(0.0), 7), (None, 5), (Some(0.3), 1)], now);
    let policy = ScaleDown::new().reserve(1);
    let fates = policy.plan(&of, 1, now);
    for turn in 0..of.len() {
        let mut turned = of.clone();
        turned.rotate_left(turn);
        let mut expected = fates.clone();
        expected.rotate_left(turn);
        assert_eq!(policy.plan(&turned, 1, now), expected);
        turned.reverse();
        expected.reverse();
        assert_eq!(policy.plan(&turned, 1, now), expected);
    }
}

#[test]
fn as_23_grace_above_the_limit_is_fifteen_minutes_or_the_requests_time() {
    let over = Instant::now();
    for (timeout, grace) in [(0, 900), (300, 900), (900, 900), (3600, 3600)] {
        let limit = OverLimit::new(seconds(timeout));
        assert_eq!(limit.grace(), seconds(grace));
        let busy = [grace - 1, grace].map(|after| limit.fate(over, None, over + seconds(after)));
        assert_eq!(busy, [Extra::Keep, Extra::EndGrace]);
    }
}

#[test]
fn as_23_extra_instance_that_is_idle_goes_after_fifteen_minutes() {
    let over = Instant::now();
    let limit = OverLimit::new(seconds(3600));
    let idle_since = over + seconds(100);
    let fates = [999, 1000].map(|after| limit.fate(over, Some(idle_since), over + seconds(after)));
    assert_eq!(fates, [Extra::Keep, Extra::EndIdle]);
    assert_eq!(limit.fate(over + seconds(9), Some(over + seconds(9)), over), Extra::Keep, "a clock that goes back");
}

#[test]
fn as_25_requests_move_when_enough_of_the_new_version_are_there() {
    let rollout = |new_ready, new_starting| Rollout { wanted: 6, new_ready, new_starting, old: 6 };
    for (update, to_start, may_shift, to_end) in [
        (rollout(0, 0), 6, false, 0),
        (rollout(2, 3), 1, false, 0),
        (rollout(5, 1), 0, false, 0),
        (rollout(6, 0), 0, true, 6),
        (rollout(u32::MAX, u32::MAX), 0, true, 6),
    ] {
        assert_eq!((update.to_start(), update.may_shift(), update.to_end()), (to_start, may_shift, to_end), "{update:?}");
    }
}
