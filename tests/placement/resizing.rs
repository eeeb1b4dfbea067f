//! Fleets that grow and shrink: PL-12, PL-70 to PL-73, G07.

use keywake::placement::{Index, Owner, ResolvedBy, Row, Table, placement_hash};

use crate::fleet::{fleet, owner};

fn owners(count: usize) -> Vec<Owner> {
    (0..count).map(|number| owner(&format!("owner-{number}"))).collect()
}

fn at(table: &Table, owner: &Owner, processes: u32) -> u32 {
    table.resolve(owner, processes).map_or(u32::MAX, |resolved| resolved.index.0)
}

#[test]
fn modulo_moves_all_but_min_over_lcm() {
    let table = Table::empty(fleet("ded"));
    let owners = owners(50_000);
    let fractions = [(8, 10, 4, 5), (10, 12, 5, 6), (8, 9, 8, 9), (12, 16, 3, 4), (8, 12, 2, 3), (12, 10, 5, 6)];
    for (from, to, part, whole) in fractions {
        // Exactly, over one period of hashes: 1 - min / lcm.
        let lcm = (1..).map(|times| from * times).find(|multiple| multiple % to == 0).unwrap();
        let moved = (0..lcm).filter(|hash| hash % from != hash % to).count();
        assert_eq!(moved * whole, lcm * part, "{from} -> {to}");
        // And what is measured with owners.
        let (small, large) = (u32::try_from(from).unwrap(), u32::try_from(to).unwrap());
        let moved = owners.iter().filter(|owner| at(&table, owner, small) != at(&table, owner, large)).count();
        let off = (moved * whole).abs_diff(owners.len() * part);
        assert!(off * 100 < owners.len() * whole, "{from} -> {to}: {moved} of {}", owners.len());
    }
}

#[test]
fn with_rows_a_grow_moves_only_owners_without_one() {
    let mut table = Table::empty(fleet("ded"));
    let all = owners(1_000);
    for (number, owner) in all.iter().enumerate().filter(|(number, _)| number % 2 == 0) {
        table.insert(owner.clone(), Row::at(Index(u32::try_from(number % 8).unwrap())));
    }
    let moved: Vec<_> = all.iter().filter(|owner| at(&table, owner, 8) != at(&table, owner, 10)).collect();
    assert!(moved.iter().all(|owner| table.row(owner).is_none()) && moved.len() > 300, "{}", moved.len());
}

#[test]
fn rows_outside_a_smaller_fleet_sleep_and_wake_when_it_grows_again() {
    let mut table = Table::empty(fleet("ded"));
    for number in 0..12 {
        table.insert(owner(&number.to_string()), Row::at(Index(number)));
    }
    let places = |processes| (0..12).map(|number: u32| at(&table, &owner(&number.to_string()), processes)).collect::<Vec<_>>();
    let full: Vec<u32> = (0..12).collect();
    assert_eq!(places(12), full);
    let small = places(8);
    assert_eq!(small[..8], full[..8]);
    assert!((8..12).all(|number| u64::from(small[number]) == placement_hash(number.to_string().as_bytes()) % 8));
    assert_eq!((places(12), table.out_of_range(8)), (full, 4), "those four move twice, and the balancer rewrites no row for it");
}

#[test]
fn process_that_leaves_takes_only_its_own_owners_along() {
    // librdkafka 3891: one member leaves, and others' partitions are revoked and returned.
    let mut table = Table::empty(fleet("ded"));
    let all = owners(400);
    for (number, owner) in all.iter().enumerate() {
        table.insert(owner.clone(), Row::at(Index(u32::try_from(number % 4).unwrap())));
    }
    for (number, owner) in all.iter().enumerate() {
        let moved = at(&table, owner, 4) != at(&table, owner, 3);
        assert_eq!(moved, number % 4 == 3);
    }
}

#[test]
fn more_processes_may_make_the_worst_one_worse() {
    // Weights as 1/rank: a few heavy owners whose hashes meet, or do not.
    let all = owners(200);
    let table = Table::empty(fleet("ded"));
    let worst = |processes: u32| {
        let mut loads = vec![0_u64; processes as usize];
        all.iter()
            .enumerate()
            .for_each(|(rank, owner)| loads[at(&table, owner, processes) as usize] += 1_000_000 / (rank as u64 + 1));
        loads.into_iter().max().unwrap_or_default()
    };
    let row: Vec<_> = (8..=16).map(worst).collect();
    assert!(row.windows(2).any(|pair| pair[1] > pair[0]) && row.windows(2).any(|pair| pair[1] < pair[0]), "{row:?}");
}

#[test]
fn each_stage_of_the_rollout_changes_nothing_by_itself() {
    // The table and its fallback: empty, every owner is where the hash alone puts it. Recorder and reports: no table is read or written
    // by them (no argument of theirs is one). The planner in a dry run: `dry_run_is_the_same_plan_and_writes_nothing`.
    let table = Table::empty(fleet("ded"));
    for owner in owners(1_000) {
        let resolved = table.resolve(&owner, 12).unwrap();
        assert_eq!((u64::from(resolved.index.0), resolved.by), (owner.placement_hash() % 12, ResolvedBy::Hash));
    }
}
