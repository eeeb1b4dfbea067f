//! What holds of every plan (1E): over random fleets. Seeded, so that a failure can be run again.

use std::collections::{BTreeMap, BTreeSet};

use keywake::placement::{Cores, FleetView, Index, Plan, ProcessState, Row, Settings, StoreTime, Table};

use crate::fleet::{NOW, Random, after, fleet, milli, owner, planner, process, view};

/// A fleet of up to 12 processes with up to 10 owners each; of all kinds and states.
fn random_view(random: &mut Random) -> FleetView {
    let mut fleet = view(&[]);
    let heavy = 1 + random.below(600);
    for index in 0..1 + random.below(12) {
        let mut owners = Vec::new();
        for number in 0..random.below(10) {
            let pin = if random.below(8) == 0 { "*" } else { "" };
            let moved = if random.below(6) == 0 { format!("~{}", random.below(7_200)) } else { String::new() };
            owners.push(format!("o{index}-{number}{pin} {}{moved}", random.below(heavy)));
        }
        let mut process = process(&owners.join(", "));
        process.unattributed = milli(random.below(50));
        process.state = match random.below(10) {
            0 => ProcessState::Silent,
            1 => ProcessState::Stale,
            2 => ProcessState::Warming,
            _ => ProcessState::Reporting,
        };
        fleet.processes.push(process);
    }
    fleet
}

fn total(loads: &[Cores]) -> Cores {
    loads.iter().copied().sum()
}

fn check(fleet: &FleetView, plan: &Plan, settings: &Settings) {
    let before: Vec<_> = fleet.processes.iter().map(|process| process.load()).collect();
    let mut loads = before.clone();
    let mut moved = BTreeSet::new();
    assert!(plan.moves.len() <= settings.moves_per_run);
    for it in &plan.moves {
        let (from, to) = (it.from.0 as usize, it.to.0 as usize);
        let owner = fleet.processes[from].owners.iter().find(|owner| owner.owner == it.owner).expect("it was there");
        assert!(!owner.pinned && moved.insert(it.owner.clone()) && from != to);
        assert!(owner.moved_at.is_none_or(|at| NOW.since(at) >= settings.cooldown));
        assert!([from, to].iter().all(|process| fleet.processes[*process].state == ProcessState::Reporting));
        assert!(loads[to] < settings.high && loads[from] > settings.low);
        let source = loads[from];
        loads[from] = loads[from].saturating_sub(it.weight);
        loads[to] = loads[to] + it.weight;
        assert!(loads[from].max(loads[to]) + settings.min_gain <= source);
        assert_eq!((it.source, it.destination.1), ((source, loads[from]), loads[to]));
    }
    assert!(plan.moves.is_empty() || before.iter().any(|load| *load > settings.high));
    assert_eq!((&plan.loads, total(&loads)), (&loads, total(&before)));
    let reports = |index: usize| fleet.processes[index].state == ProcessState::Reporting;
    let high: BTreeSet<_> = (0..loads.len()).filter(|&index| reports(index) && loads[index] > settings.high).collect();
    let told: Vec<_> =
        plan.blocked.iter().map(|it| it.index).chain(plan.waiting.iter().copied()).map(|index| index.0 as usize).collect();
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), high, "who is above the mark is blocked or waits");
    assert_eq!(told.len(), high.len(), "and not both");
    assert!(plan.waiting.is_empty() || plan.moves.len() == settings.moves_per_run, "who could be relieved is, within the budget");
    for it in &plan.blocked {
        assert!(!any_legal(fleet, plan, &loads, it.index.0 as usize, settings), "{it:?} has a legal move: {fleet:?}");
    }
    assert!(plan.after.floor <= loads.iter().copied().max().unwrap_or_default(), "no placement beats the floor");
}

/// By trying every owner on every process.
fn any_legal(fleet: &FleetView, plan: &Plan, loads: &[Cores], from: usize, settings: &Settings) -> bool {
    let gone = |name: &keywake::placement::Owner| plan.moves.iter().any(|it| it.owner == *name);
    fleet.processes[from].owners.iter().filter(|owner| !owner.pinned && !gone(&owner.owner)).any(|owner| {
        let free = owner.moved_at.is_none_or(|at| NOW.since(at) >= settings.cooldown);
        free && (0..loads.len()).any(|to| {
            let open = to != from && fleet.processes[to].state == ProcessState::Reporting && loads[to] < settings.high;
            open && loads[from].saturating_sub(owner.weight).max(loads[to] + owner.weight) + settings.min_gain <= loads[from]
        })
    })
}

#[test]
fn every_plan_keeps_every_rule() {
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let fleet = random_view(&mut random);
        let planner = planner(|settings| settings.moves_per_run = 1 + random.place(4));
        check(&fleet, &planner.plan(&fleet), planner.settings());
    }
}

/// The plan's moves by the letter of 1C.3: every owner of every hot process is tried on every process.
fn by_trying_everything(fleet: &FleetView, settings: &Settings, most: usize) -> Vec<(String, usize, usize)> {
    let mut loads: Vec<_> = fleet.processes.iter().map(|process| process.load()).collect();
    let reports = |index: usize| fleet.processes[index].state == ProcessState::Reporting;
    let mut hot: Vec<_> = loads.iter().map(|load| *load > settings.high).collect();
    let mut moved: Vec<(String, usize, usize)> = Vec::new();
    while moved.len() < most {
        let mut sources: Vec<_> =
            (0..loads.len()).filter(|&from| hot[from] && reports(from) && loads[from] > settings.low).collect();
        sources.sort_by_key(|&from| (std::cmp::Reverse(loads[from]), from));
        let best = sources.into_iter().find_map(|from| {
            let mut legal = Vec::new();
            for it in &fleet.processes[from].owners {
                let free = !it.pinned && it.moved_at.is_none_or(|at| NOW.since(at) >= settings.cooldown);
                if !free || moved.iter().any(|(owner, ..)| *owner == it.owner.as_str()) {
                    continue;
                }
                let open = (0..loads.len()).filter(|&to| to != from && reports(to) && loads[to] < settings.high);
                let worst = |to: usize| loads[from].saturating_sub(it.weight).max(loads[to] + it.weight);
                let fits = open.filter(|&to| worst(to) + settings.min_gain <= loads[from]);
                legal.extend(fits.map(|to| (worst(to), loads[to], it.weight, it.owner.as_str(), to)));
            }
            legal.into_iter().min().map(|(_, _, weight, owner, to)| (weight, owner.to_owned(), from, to))
        });
        let Some((weight, owner, from, to)) = best else { break };
        (loads[from], loads[to]) = (loads[from].saturating_sub(weight), loads[to] + weight);
        hot[to] |= loads[to] > settings.high;
        moved.push((owner, from, to));
    }
    moved
}

#[test]
fn plan_is_that_of_trying_every_owner_on_every_process() {
    let mut moves = 0;
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let mut fleet = random_view(&mut random);
        // Every other fleet has many equal weights, so that ties decide.
        let grain = if seed % 2 == 0 { 100 } else { 1 };
        for owner in fleet.processes.iter_mut().flat_map(|process| &mut process.owners) {
            owner.weight = milli(owner.weight.nanos() / 1_000_000 / grain * grain);
        }
        let planner = planner(|settings| {
            settings.moves_per_run = 1 + random.place(4);
            (settings.high, settings.low) = (milli(300 + random.below(500)), milli(250 + random.below(50)));
        });
        let plan = planner.plan(&fleet);
        let wanted = by_trying_everything(&fleet, planner.settings(), 1_000);
        let found: Vec<_> = plan.moves.iter().map(|it| (it.owner.to_string(), it.from.0 as usize, it.to.0 as usize)).collect();
        assert_eq!(found, wanted[..found.len()], "seed {seed}");
        assert_eq!(found.len(), wanted.len().min(planner.settings().moves_per_run), "seed {seed}");
        assert_eq!(plan.moves_wanted, wanted.len(), "seed {seed}");
        moves += wanted.len();
    }
    assert!(moves > 4_000, "{moves}");
}

#[test]
fn plans_that_are_carried_out_end_and_the_worst_never_rises() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut fleet = random_view(&mut random);
        let planner = planner(|_| ());
        let worst = |plan: &Plan| plan.after.hottest.map(|(_, load)| load);
        let mut last = planner.plan(&fleet);
        let mut runs = 0;
        while !last.moves.is_empty() {
            fleet = after(&fleet, &last, None);
            let next = planner.plan(&fleet);
            assert!(worst(&next) <= worst(&last), "seed {seed}");
            (last, runs) = (next, runs + 1);
            assert!(runs < 200, "seed {seed} does not end");
        }
        assert!(last.waiting.is_empty());
    }
}

#[test]
fn order_of_owners_and_of_processes_does_not_matter() {
    for seed in 0..1_000 {
        let mut random = Random(seed);
        let fleet = random_view(&mut random);
        let plan = planner(|_| ()).plan(&fleet);
        let mut shuffled = fleet.clone();
        shuffled.processes.iter_mut().for_each(|process| random.shuffle(&mut process.owners));
        assert_eq!(planner(|_| ()).plan(&shuffled), plan, "seed {seed}: owners in another order");
        // Renamed processes: the same plan under the new names, where no two are equally loaded, so that no index had to decide.
        let mut loads: Vec<_> = fleet.processes.iter().map(|process| process.load()).collect();
        let differ = |loads: &[Cores]| loads.iter().collect::<BTreeSet<_>>().len() == loads.len();
        let mut unequal = differ(&loads);
        for it in &plan.moves {
            (loads[it.from.0 as usize], loads[it.to.0 as usize]) = (it.source.1, it.destination.1);
            unequal &= differ(&loads);
        }
        let mut order: Vec<_> = (0..fleet.processes.len()).collect();
        random.shuffle(&mut order);
        let mut renamed = fleet.clone();
        renamed.processes = order.iter().map(|&index| fleet.processes[index].clone()).collect();
        if unequal {
            let old = |index: Index| Index(u32::try_from(order[index.0 as usize]).unwrap_or_default());
            let again = planner(|_| ()).plan(&renamed);
            let found: Vec<_> = again.moves.iter().map(|it| (it.owner.clone(), old(it.from), old(it.to))).collect();
            let wanted: Vec<_> = plan.moves.iter().map(|it| (it.owner.clone(), it.from, it.to)).collect();
            assert_eq!(found, wanted, "seed {seed}");
        }
    }
}

#[test]
fn fleet_whose_fair_share_is_above_the_mark_is_blocked_in_the_end_and_for_ever() {
    let mut seen = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut fleet = random_view(&mut random);
        fleet.processes.iter_mut().for_each(|process| process.state = ProcessState::Reporting);
        let planner = planner(|_| ());
        let mut plan = planner.plan(&fleet);
        if plan.before.fair_share <= planner.settings().high {
            continue;
        }
        seen += 1;
        while !plan.moves.is_empty() {
            fleet = after(&fleet, &plan, None);
            plan = planner.plan(&fleet);
        }
        assert!(!plan.blocked.is_empty(), "seed {seed}");
        assert_eq!(planner.plan(&fleet), plan);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn growing_moves_no_row_and_shrinking_moves_exactly_those_outside() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let (small, large) = (1 + random.small(12), 13 + random.small(12));
        let mut table = Table::empty(fleet("ded"));
        let rows: BTreeMap<_, _> = (0..50).map(|n| (n.to_string(), random.small(large.into()))).collect();
        for (name, index) in &rows {
            table.insert(owner(name), Row { index: Index(*index), pinned: false, moved_at: Some(StoreTime::default()) });
        }
        for (name, index) in &rows {
            let at = |processes| table.resolve(&owner(name), processes).map(|resolved| resolved.index.0);
            assert_eq!((at(large), at(large + 7)), (Ok(*index), Ok(*index)), "growing");
            let after = at(small).unwrap();
            assert!(if *index < small { after == *index } else { after < small }, "shrinking");
        }
    }
}
