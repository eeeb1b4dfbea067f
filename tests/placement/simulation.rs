//! The bar of 1E.9: 200 owners of very unequal weight, placed by the hash, and what the planner makes of that, with how few moves.

use std::time::Duration;

use keywake::placement::{Cores, FleetView, OwnerView, Plan, ProcessState, ProcessView, Table};

use crate::fleet::{Random, after, fleet, owner, planner, view};

/// 200 weights of a Pareto distribution (1.15), scaled to 5.66 cores, on `processes` by the hash.
fn hashed(seed: u64, processes: u32) -> FleetView {
    let mut random = Random(seed);
    let weights: Vec<f64> =
        (0..200).map(|_| (1.0 - (random.below(1 << 32) as f64 / 4_294_967_296.0)).powf(-1.0 / 1.15)).collect();
    let sum: f64 = weights.iter().sum();
    let table = Table::empty(fleet("ded"));
    let mut fleet = view(&[]);
    fleet.processes = (0..processes).map(|_| ProcessView::new(ProcessState::Reporting)).collect();
    for (number, weight) in weights.iter().enumerate() {
        let owner = owner(&format!("owner-{number}"));
        let index = table.resolve(&owner, processes).expect("a process").index.0 as usize;
        let weight = Cores::over(Duration::from_secs_f64(weight / sum * 5.66), Duration::from_secs(1)).unwrap_or_default();
        fleet.processes[index].owners.push(OwnerView { owner, weight, pinned: false, moved_at: None });
    }
    fleet
}

/// Runs until nothing moves: the first plan, the last one, the moves, and the fleet then.
fn settle(mut fleet: FleetView) -> (Plan, Plan, usize, FleetView) {
    let planner = planner(|_| ());
    let first = planner.plan(&fleet);
    let (mut last, mut moves) = (first.clone(), 0);
    while !last.moves.is_empty() {
        moves += last.moves.len();
        fleet = after(&fleet, &last, None);
        last = planner.plan(&fleet);
    }
    (first, last, moves, fleet)
}

fn worst(plan: &Plan) -> Cores {
    plan.before.hottest.map(|(_, load)| load).unwrap_or_default()
}

#[test]
fn few_moves_bring_the_hottest_under_the_mark_or_to_what_one_owner_is() {
    let (high, least) = (planner(|_| ()).settings().high, planner(|_| ()).settings().min_gain);
    for seed in 0..40 {
        for processes in [10, 12, 16] {
            let (first, last, moves, settled) = settle(hashed(seed, processes));
            assert!(worst(&last) <= worst(&first));
            // A repack would move about (n - 1) / n of 200.
            assert!(moves <= 40, "seed {seed}, {processes} processes: {moves} moves");
            // Who stays above it holds one owner that is worth a move, or owners that are too light for one: 0.02 and less.
            for it in &last.blocked {
                let worth = settled.processes[it.index.0 as usize].owners.iter().filter(|owner| owner.weight >= least).count();
                assert!(worth <= 1, "seed {seed}, {processes} processes: {it:?} has {worth}");
            }
            assert_eq!(worst(&last) > high, !last.blocked.is_empty(), "seed {seed}, {processes} processes");
        }
    }
}

#[test]
fn hash_is_a_lottery_and_the_worst_is_not_monotone_in_the_number_of_processes() {
    let mut rises = 0;
    for seed in 0..40 {
        let row: Vec<_> = (8..=16).map(|processes| worst(&planner(|_| ()).plan(&hashed(seed, processes)))).collect();
        rises += usize::from(row.windows(2).any(|pair| pair[1] > pair[0]));
    }
    assert!(rises > 30, "{rises} of 40");
}
