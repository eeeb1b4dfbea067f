//! Which owners are moved: PL-50 to PL-5J, G22 to G39.

use keywake::placement::{BlockedReason, Confirmation, Cores, Index, MarksBelow, Pressure, ProcessState, ProcessView, Settings};

use crate::fleet::{NOW, after, blocked, loads, milli, moves, plan, planner, process, view};

#[test]
fn at_the_high_mark_nothing_happens() {
    for processes in [["a 740", "b 200"], ["a 130, b 170, c 170, d 280", "e 100"]] {
        let plan = plan(&processes);
        assert_eq!((moves(&plan), blocked(&plan)), (vec![], vec![]), "{processes:?}");
    }
    assert_eq!(plan(&["a 130, b 170, c 170, d 281", "e 100"]).moves.len(), 1, "and above it something does");
}

#[test]
fn best_move_is_the_one_with_the_smallest_worst_load() {
    let plan = plan(&["a 400, b 300, c 150", "d 300", "e 200"]);
    assert_eq!((moves(&plan), loads(&plan)), (vec![("b", 0, 2)], vec![550, 300, 500]));
    let it = &plan.moves[0];
    assert_eq!((it.weight, it.source, it.destination), (milli(300), (milli(850), milli(550)), (milli(200), milli(500))));
    assert_eq!((plan.before.hottest, plan.after.hottest), (Some((Index(0), milli(850))), Some((Index(0), milli(550)))));
}

#[test]
fn move_that_gains_exactly_the_least_gain_is_legal() {
    let level = plan(&["a 360, b* 400", "c 380"]);
    assert_eq!((moves(&level), loads(&level), blocked(&level)), (vec![("a", 0, 1)], vec![400, 740], vec![]));
    let above = plan(&["a 360, b* 400", "c 381"]);
    assert_eq!((moves(&above), blocked(&above)), (vec![], vec![(0, BlockedReason::NoImprovement)]));
    // 0.55 + 0.30 is above 0.87 - 0.02 in f64.
    assert_eq!(loads(&plan(&["a 300, b* 570", "c 550"])), [570, 850]);
}

#[test]
fn destination_may_end_above_the_mark_if_the_worst_improves() {
    let first = plan(&["a 500, b 400", "c 390"]);
    assert_eq!((moves(&first), loads(&first)), (vec![("b", 0, 1)], vec![500, 790]));
    assert_eq!(blocked(&first), [(1, BlockedReason::NoImprovement)]);
    let next = planner(|_| ()).plan(&after(&view(&["a 500, b 400", "c 390"]), &first, Some(NOW)));
    assert_eq!((moves(&next), blocked(&next)), (vec![], vec![(1, BlockedReason::NoImprovement)]), "and stays so");
}

#[test]
fn owner_is_never_split_and_one_that_is_the_load_blocks() {
    let plan = plan(&["a 950", "b 100", "", "", "", "", "", ""]);
    assert_eq!((moves(&plan), blocked(&plan)), (vec![], vec![(0, BlockedReason::Unsplittable)]));
    assert_eq!(plan.before.floor, milli(950));
}

#[test]
fn pinned_owner_counts_and_stays() {
    let plan = plan(&["a* 500, b* 400", "c 100"]);
    assert_eq!((moves(&plan), blocked(&plan), loads(&plan)), (vec![], vec![(0, BlockedReason::Pinned)], vec![900, 100]));
}

#[test]
fn plan_is_told_in_one_line() {
    let told = plan(&["a* 500, b 400~3599", "c 100"]).to_string();
    assert_eq!(told.split_once(": ").unwrap().1, "0 moves; blocked: 0 at 0.900: cooldown, unmeasured");
}

#[test]
fn cooldown_ends_after_an_hour_to_the_second() {
    let cooling = plan(&["a* 500, b 400~3599", "c 100"]);
    assert_eq!((moves(&cooling), blocked(&cooling)), (vec![], vec![(0, BlockedReason::Cooldown)]));
    let over = plan(&["a* 500, b 400~3600", "c 100"]);
    assert_eq!((moves(&over), loads(&over)), (vec![("b", 0, 1)], vec![500, 500]));
    assert_eq!(plan(&["a* 500, b 400~-3600", "c 100"]).moves.len(), 0, "a move in the future counts as now");
}

#[test]
fn two_moves_a_run_and_who_waits_is_not_blocked() {
    let ten = (0..10).map(|n| format!("o{n} 100")).collect::<Vec<_>>().join(", ");
    let first_view = view(&[&ten, "", "", ""]);
    let first = planner(|_| ()).plan(&first_view);
    assert_eq!((first.moves.len(), loads(&first)[0], blocked(&first)), (2, 800, vec![]));
    assert_eq!((first.waiting.as_slice(), first.moves_wanted), ([Index(0)].as_slice(), 4));
    let second_view = after(&first_view, &first, Some(NOW));
    let second = planner(|_| ()).plan(&second_view);
    assert_eq!((second.moves.len(), loads(&second)), (2, vec![600, 200, 100, 100]), "the coldest first");
}

#[test]
fn runs_do_not_remember_that_they_were_draining() {
    let nineteen = (0..19).map(|n| format!("o{n:02} 40")).collect::<Vec<_>>().join(", ");
    let first_view = view(&[&nineteen, "", ""]);
    let first = planner(|_| ()).plan(&first_view);
    assert_eq!((first.moves.len(), loads(&first)[0]), (2, 680));
    let second = planner(|_| ()).plan(&after(&first_view, &first, None));
    assert_eq!((moves(&second), blocked(&second)), (vec![], vec![]), "between the marks nothing begins");
}

#[test]
fn full_fleet_is_blocked_everywhere_for_want_of_a_destination() {
    let plan = plan(&(0..12).map(|_| "a 500, b 500").collect::<Vec<_>>());
    assert_eq!(moves(&plan), []);
    assert_eq!(blocked(&plan), (0..12).map(|index| (index, BlockedReason::NoDestination)).collect::<Vec<_>>());
}

#[test]
fn hottest_that_is_stuck_does_not_stop_the_next() {
    let plan = plan(&["a 950", "b 500, c 350", "d 100"]);
    assert_eq!((moves(&plan), loads(&plan)), (vec![("c", 1, 2)], vec![950, 500, 450]));
    assert_eq!(blocked(&plan), [(0, BlockedReason::Unsplittable)]);
}

#[test]
fn between_the_marks_a_process_without_a_legal_move_is_not_blocked() {
    let plan = plan(&["a* 400, b 300, c 150", "d 620", "e 550"]);
    assert_eq!((moves(&plan), loads(&plan), blocked(&plan)), (vec![("c", 0, 2)], vec![700, 620, 700], vec![]));
}

#[test]
fn silent_process_is_not_an_empty_one() {
    let mut fleet = view(&["a 500, b 400", "x 50", "c 300"]);
    for state in [ProcessState::Stale, ProcessState::Silent, ProcessState::Warming] {
        fleet.processes[1].state = state;
        let plan = planner(|_| ()).plan(&fleet);
        assert_eq!((moves(&plan), loads(&plan)[2]), (vec![("b", 0, 2)], 700), "{state:?}");
        assert_eq!(plan.stale_reports, usize::from(state != ProcessState::Warming));
        assert_eq!(plan.before.fair_share, milli(1_250).scale(1, 3), "it does not vanish from the fleet");
    }
    fleet.processes[1] = ProcessView::new(ProcessState::Reporting);
    let plan = planner(|_| ()).plan(&fleet);
    assert_eq!((moves(&plan), loads(&plan)), (vec![("b", 0, 1)], vec![500, 400, 300]));
}

#[test]
fn stale_process_is_no_source_either() {
    let mut fleet = view(&["a 500, b 400", ""]);
    fleet.processes[0].state = ProcessState::Stale;
    let plan = planner(|_| ()).plan(&fleet);
    assert_eq!((moves(&plan), blocked(&plan)), (vec![], vec![]));
}

#[test]
fn only_what_was_above_the_high_mark_is_relieved() {
    let plan = plan(&["a 300, b 300, c 200", "d 400, e 300", "f 50"]);
    assert_eq!((moves(&plan), loads(&plan)), (vec![("a", 0, 2)], vec![500, 700, 350]));
}

#[test]
fn fair_share_and_the_marks_under_it_are_told() {
    let of = |total: u64, processes: usize| {
        let owner = format!("a {total}");
        let mut all = vec![""; processes];
        all[0] = &owner;
        let figures = plan(&all).before;
        (format!("{:.4}", figures.fair_share + Cores::from_nanos(50_000)), figures.marks_below_fair_share)
    };
    assert_eq!(of(5_660, 7), ("0.8086".to_owned(), MarksBelow::Both));
    assert_eq!(of(5_660, 8), ("0.7075".to_owned(), MarksBelow::Low));
    assert_eq!(of(5_660, 12), ("0.4717".to_owned(), MarksBelow::None));
    assert_eq!(of(7_320, 12), ("0.6100".to_owned(), MarksBelow::None));
    assert_eq!(of(5_200, 8).1, MarksBelow::None, "at the mark is not under it");
}

#[test]
fn floor_is_what_no_placement_can_beat() {
    assert_eq!(plan(&["a 950, b 400, c 300", "d 200, e 150"]).before.floor, milli(1_000), "the fair share");
    assert_eq!(plan(&["a 600, b 550", "c 500", "d 450"]).before.floor, milli(950), "two of the first four share a process");
    assert_eq!(plan(&["a 600", "b 100", ""]).before.floor, milli(600), "the heaviest");
}

#[test]
fn dry_run_is_the_same_plan_and_writes_nothing() {
    let fleet = view(&["a 400, b 300, c 150", "d 300", "e 200"]);
    let (live, dry) = (planner(|_| ()).plan(&fleet), planner(|settings| settings.dry_run = true).plan(&fleet));
    assert_eq!((&dry.moves, &dry.blocked, &dry.loads), (&live.moves, &live.blocked, &live.loads));
    assert!(dry.dry_run && dry.changes().is_none() && live.changes().is_some_and(|changes| changes.changes.len() == 1));
}

#[test]
fn level_fleet_makes_no_move_for_ever() {
    let all: Vec<_> = (0..8).map(|n| format!("a{n} {}, b{n} 400", 400 + n % 2)).collect();
    let plan = plan(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((moves(&plan), plan.blocked.len(), plan.moves_wanted), (vec![], 8, 0));
}

#[test]
fn moves_of_one_run_are_decided_on_what_those_before_left() {
    // Both would go to p1 if it stayed empty.
    let plan = plan(&["a 300, b 300, c 300, d 300", "", "e 200"]);
    assert_eq!((moves(&plan), loads(&plan)), (vec![("a", 0, 1), ("b", 0, 2)], vec![600, 300, 500]));
}

#[test]
fn blocked_is_confirmed_by_what_the_ceiling_cannot_clip() {
    let confirmation = |shape: fn(&mut Pressure)| {
        let mut fleet = view(&["a 950", ""]);
        shape(&mut fleet.processes[0].pressure);
        planner(|_| ()).plan(&fleet).blocked[0].confirmation
    };
    assert_eq!(confirmation(|_| ()), Confirmation::Unmeasured);
    assert_eq!(confirmation(|pressure| pressure.refused = Some(0)), Confirmation::Denied);
    assert_eq!(confirmation(|pressure| (pressure.refused, pressure.stream_lag) = (Some(1), Some(0))), Confirmation::Confirmed);
    assert_eq!(confirmation(|pressure| pressure.stream_lag = Some(10_000)), Confirmation::Confirmed);
    assert_eq!(confirmation(|pressure| pressure.relay_lag = Some(std::time::Duration::from_millis(99))), Confirmation::Denied);
    assert_eq!(
        confirmation(|pressure| pressure.relay_lag = Some(std::time::Duration::from_millis(100))),
        Confirmation::Confirmed
    );
}

#[test]
fn every_reason_is_told_by_its_own_word() {
    let mut unattributed = process("");
    unattributed.unattributed = milli(900);
    let mut fleet = view(&["", ""]);
    fleet.processes[0] = unattributed;
    assert_eq!(blocked(&planner(|_| ()).plan(&fleet)), [(0, BlockedReason::Unattributed)]);
    assert_eq!(blocked(&plan(&["a* 900, b 10", ""])), [(0, BlockedReason::Pinned)], "what is light is not what is wrong");
    assert_eq!(blocked(&plan(&["a* 400, b 400~60", ""])), [(0, BlockedReason::Cooldown)]);
    let light = (0..60).map(|n| format!("o{n} 15")).collect::<Vec<_>>().join(", ");
    assert_eq!(blocked(&plan(&[&light, ""])), [(0, BlockedReason::NoImprovement)]);
    let words = [
        BlockedReason::Cooldown,
        BlockedReason::NoDestination,
        BlockedReason::NoImprovement,
        BlockedReason::Pinned,
        BlockedReason::Unattributed,
        BlockedReason::Unsplittable,
    ];
    assert_eq!(
        words.map(BlockedReason::as_str),
        ["cooldown", "no_destination", "no_improvement", "pinned", "unattributed", "unsplittable"]
    );
}

#[test]
fn spread_is_the_hottest_over_the_coldest() {
    let spread = |processes: &[&str]| plan(processes).before.spread().map(|spread| (spread * 100.0).round() / 100.0);
    assert_eq!(spread(&["a 953", "b 197"]), Some(4.84));
    assert_eq!(spread(&["a 694", "b 261"]), Some(2.66));
    // The peaks of a capped metric rank nothing; its means do.
    assert_eq!((spread(&["a 1008", "b 987"]), spread(&["a 950", "b 270"])), (Some(1.02), Some(3.52)));
    assert_eq!((spread(&["a 694", ""]), spread(&[])), (None, None));
}

#[test]
fn fleet_of_no_processes_and_of_one_has_a_plan_too() {
    let none = plan(&[]);
    assert_eq!(
        (none.before.hottest, none.before.fair_share, none.before.marks_below_fair_share),
        (None, Cores::ZERO, MarksBelow::None)
    );
    assert_eq!(blocked(&plan(&["a 500, b 400"])), [(0, BlockedReason::NoDestination)]);
}

#[test]
fn settings_are_the_sources_and_what_cannot_work_is_refused() {
    let settings = Settings::default();
    assert_eq!((settings.high, settings.low, settings.min_gain), (milli(750), milli(650), milli(20)));
    assert_eq!((settings.moves_per_run, settings.cooldown.as_secs(), settings.stale_after.as_secs()), (2, 3_600, 180));
    let four = Settings::for_capacity(Cores::from_milli(4_000));
    assert_eq!((four.high, four.low, four.min_gain), (milli(3_000), milli(2_600), milli(80)));
    let refused = |shape: fn(&mut Settings)| {
        let mut settings = Settings::default();
        shape(&mut settings);
        settings.check().unwrap_err().to_string()
    };
    assert_eq!(refused(|settings| settings.low = milli(751)), "placement: low is 0.751, and must be at most the high mark");
    assert!(refused(|settings| settings.low = Cores::ZERO).contains("a mark above 0"));
    assert!(refused(|settings| settings.min_gain = Cores::ZERO).contains("moves never end"));
    assert!(refused(|settings| settings.moves_per_run = 0).contains("dry_run"));
}

#[test]
fn loads_beyond_all_bounds_are_planned_without_a_wrap() {
    for weights in [[u64::MAX, u64::MAX, u64::MAX], [u64::MAX, u64::MAX / 2, 1], [u64::MAX - 1, 20_000_000, 1 << 63]] {
        let mut fleet = view(&["a 1, b 1, c 1", "d 1", ""]);
        for (owner, nanos) in fleet.processes[0].owners.iter_mut().zip(weights) {
            owner.weight = Cores::from_nanos(nanos);
        }
        fleet.processes[1].owners[0].weight = Cores::MAX;
        let plan = planner(|settings| settings.moves_per_run = 10).plan(&fleet);
        for it in &plan.moves {
            let (gain, worst) = (Settings::default().min_gain.nanos(), it.source.1.max(it.destination.1).nanos());
            assert!(u128::from(worst) + u128::from(gain) <= u128::from(it.source.0.nanos()), "{it:?}");
        }
        assert!(plan.blocked.iter().any(|it| it.index == Index(1)), "{plan:?}");
    }
}
