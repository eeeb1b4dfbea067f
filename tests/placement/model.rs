//! What owners weigh: PL-40 to PL-4A, G14 to G21, G36, and the reports about stale, doubled and missing measurements.

use std::time::Duration;

use keywake::placement::{
    Cores, Ewma, Folded, Held, Index, LOAD_MODEL, LoadModel, Planner, ProcessState, Report, Row, Settings, StoreTime, Table,
    Version,
};

use crate::fleet::{Random, Reporter, WINDOW, fleet, milli, moves, owner};

fn folded(mean: &mut Ewma, cores: u64, windows: usize) -> String {
    (0..windows).for_each(|_| mean.fold(milli(cores), WINDOW));
    shown(mean.raw())
}

/// To the millionth, rounded.
fn shown(cores: Cores) -> String {
    format!("{:.6}", cores + Cores::from_nanos(500))
}

/// A fleet whose model is warm: two hundred minutes of the same.
struct World {
    model: LoadModel,
    table: Table,
    reporter: Reporter,
}

impl World {
    fn new(size: u32) -> Self {
        Self { model: LoadModel::new(fleet("ded")), table: Table::empty(fleet("ded")), reporter: Reporter::new(size) }
    }

    /// Rows for these owners.
    fn place(&mut self, owners: &[(&str, u32)]) {
        for (name, index) in owners {
            self.table.insert(owner(name), Row::at(Index(*index)));
        }
    }

    fn fold(&mut self, reports: &[Report]) -> Folded {
        self.model.fold(reports, &self.table, self.reporter.size, self.reporter.now())
    }

    /// A minute passes, and these processes report these owners.
    fn minute(&mut self, processes: &[(u32, &[(&str, u64)])]) -> Folded {
        self.reporter.minute += 1;
        let reports: Vec<_> = processes.iter().map(|(index, owners)| self.reporter.report(*index, owners)).collect();
        self.fold(&reports)
    }

    fn minutes(&mut self, count: usize, processes: &[(u32, &[(&str, u64)])]) {
        for _ in 0..count {
            self.minute(processes);
        }
    }

    fn weight(&self, name: &str) -> String {
        shown(self.model.weight(&owner(name)).unwrap_or_default())
    }

    fn view(&self) -> keywake::placement::FleetView {
        self.model.view(&self.table, self.reporter.size, self.reporter.now(), &Settings::default())
    }

    fn states(&self) -> Vec<ProcessState> {
        self.view().processes.iter().map(|process| process.state).collect()
    }
}

#[test]
fn step_is_charged_a_sixtieth_a_window_and_63_5_percent_in_an_hour() {
    let mut mean = Ewma::default();
    assert_eq!(folded(&mut mean, 600, 1), "0.010000");
    assert_eq!(folded(&mut mean, 600, 59), "0.381125");
    let mut unit = Ewma::default();
    assert_eq!(folded(&mut unit, 1_000, 60), "0.635208");
}

#[test]
fn owner_that_is_absent_fades_and_is_half_gone_after_41_windows() {
    let mut mean = Ewma::default();
    folded(&mut mean, 500, 100_000);
    assert_eq!(shown(mean.raw()), "0.500000", "it settles at what it is");
    assert_eq!(folded(&mut mean, 0, 1), "0.491667");
    assert_eq!(folded(&mut mean, 0, 59), "0.182396");
    let mut half = Ewma::default();
    folded(&mut half, 1_000, 100_000);
    assert!(*folded(&mut half, 0, 41) > *"0.500000" && *folded(&mut half, 0, 1) < *"0.500000");
}

#[test]
fn busy_minute_costs_at_most_a_sixtieth_and_less_with_age() {
    let mut mean = Ewma::default();
    assert_eq!(folded(&mut mean, 1_000, 1), "0.016667");
    assert_eq!(folded(&mut mean, 0, 59), "0.006183");
}

#[test]
fn means_move_from_one_level_to_the_next() {
    let mut mean = Ewma::default();
    folded(&mut mean, 200, 100_000);
    assert_eq!(folded(&mut mean, 800, 60), "0.581125");
}

#[test]
fn missing_owner_counts_as_nothing_and_means_add_up_to_the_process() {
    let (mut a, mut b, mut process) = (Ewma::default(), Ewma::default(), Ewma::default());
    for (of_a, of_b) in [(600, 300), (0, 300)] {
        a.fold(milli(of_a), WINDOW);
        b.fold(milli(of_b), WINDOW);
        process.fold(milli(of_a + of_b), WINDOW);
    }
    assert_eq!(
        [a, b, process].map(|mean| format!("{:.7}", mean.raw() + Cores::from_nanos(50))),
        ["0.0098333", "0.0099167", "0.0197500"]
    );
}

#[test]
fn means_of_owners_add_up_whatever_they_do() {
    let mut random = Random(5);
    let mut owners = vec![Ewma::default(); 50];
    let mut process = Ewma::default();
    for _ in 0..500 {
        let window = Duration::from_millis(1 + random.below(200_000));
        let used: Vec<_> = owners.iter().map(|_| milli(random.below(3) * random.below(1_000))).collect();
        process.fold(used.iter().copied().sum(), window);
        owners.iter_mut().zip(used).for_each(|(owner, cores)| owner.fold(cores, window));
    }
    let sum: Cores = owners.iter().map(Ewma::raw).sum();
    // Each mean is cut to whole nano-cores when it is read.
    assert!(process.raw().nanos() - sum.nanos() <= 50, "{sum} of {}", process.raw());
}

#[test]
fn peaks_do_not_add_up_and_means_do() {
    // A from 9 to 10, B from 13 to 14: never above .4 together.
    let (mut a, mut b, mut process, mut peak) = (Ewma::default(), Ewma::default(), Ewma::default(), 0);
    for minute in 0..24 * 60 {
        let (of_a, of_b) = (if minute / 60 == 9 { 400 } else { 0 }, if minute / 60 == 13 { 400 } else { 0 });
        a.fold(milli(of_a), WINDOW);
        b.fold(milli(of_b), WINDOW);
        process.fold(milli(of_a + of_b), WINDOW);
        peak = peak.max(of_a + of_b);
        assert!((a.raw() + b.raw()).nanos().abs_diff(process.raw().nanos()) <= 2);
    }
    assert_eq!(peak, 400, "and the sum of peaks is 800");
}

#[test]
fn mean_after_a_cold_start_is_of_what_was_measured() {
    let mut mean = Ewma::default();
    assert_eq!(mean.corrected(), None);
    assert_eq!(folded(&mut mean, 900, 10), "0.139236");
    assert_eq!(mean.corrected(), Some(milli(900)));
}

#[test]
fn uneven_windows_count_by_their_length() {
    let (mut minutes, mut one) = (Ewma::default(), Ewma::default());
    folded(&mut minutes, 700, 7);
    one.fold(milli(700), WINDOW * 7);
    assert_eq!(one, minutes, "a window of seven minutes is seven windows");
    let (mut halves, mut whole) = (Ewma::default(), Ewma::default());
    (0..120).for_each(|_| halves.fold(milli(700), WINDOW / 2));
    folded(&mut whole, 700, 60);
    let off = halves.raw().nanos().abs_diff(whole.raw().nanos());
    assert!(off < 3_000_000, "two halves are a window, but for what a sixtieth of a sixtieth is: {off}");
    let mut late = Ewma::default();
    late.fold(milli(700), Duration::from_millis(60_300));
    assert!(late.raw() > milli(700).scale(1, 60) && late.raw() < milli(700).scale(1, 59));
    late.fold(milli(700), Duration::ZERO);
    late.fold(Cores::MAX, Duration::MAX);
    assert!(late.raw() > Cores::ONE, "and no window is too long");
}

#[test]
fn report_that_is_read_twice_counts_once() {
    let mut world = World::new(1);
    world.minutes(30, &[(0, &[("a", 600)])]);
    let before = world.weight("a");
    let again = world.reporter.report(0, &[("a", 100)]);
    let outcome = world.fold(&[again]);
    assert_eq!((outcome.known, outcome.folded), (1, 0));
    assert_eq!(world.weight("a"), before);
}

#[test]
fn window_that_nobody_saw_is_stood_for_by_the_next() {
    let (mut seen, mut missed) = (World::new(1), World::new(1));
    seen.minutes(30, &[(0, &[("a", 600)])]);
    missed.minutes(30, &[(0, &[("a", 600)])]);
    seen.minutes(3, &[(0, &[("a", 100)])]);
    missed.reporter.minute += 2;
    let outcome = missed.minute(&[(0, &[("a", 100)])]);
    assert_eq!((outcome.folded, outcome.missed), (1, 2));
    assert_eq!(missed.weight("a"), seen.weight("a"));
}

#[test]
fn weight_travels_with_the_owner_on_a_move() {
    let mut world = World::new(2);
    let here: &[(&str, u64)] = &[("a", 200), ("b", 700)];
    world.place(&[("a", 0), ("b", 0), ("c", 1)]);
    world.minutes(200, &[(0, here), (1, &[("c", 200)])]);
    let loads = |world: &World| world.view().processes.iter().map(|process| shown(process.load())).collect::<Vec<_>>();
    assert_eq!(loads(&world), ["0.900000", "0.200000"]);
    let plan = Planner::default().plan(&world.view());
    assert_eq!(moves(&plan), [("a", 0, 1)], "b there would be as hot: {plan:?}");
    world.place(&[("a", 1)]);
    assert_eq!(loads(&world), ["0.700000", "0.400000"], "at once, before anything more was measured");
    for _ in 0..60 {
        assert_eq!(moves(&Planner::default().plan(&world.view())), [], "nobody else is moved for it");
        world.minute(&[(0, &[("b", 700)]), (1, &[("c", 200), ("a", 200)])]);
        assert_eq!(loads(&world), ["0.700000", "0.400000"]);
    }
}

#[test]
fn owner_that_two_processes_report_in_the_window_of_its_move_has_the_sum() {
    let mut world = World::new(2);
    world.place(&[("a", 0)]);
    world.minutes(100, &[(0, &[("a", 300)]), (1, &[])]);
    world.place(&[("a", 1)]);
    world.minute(&[(0, &[("a", 200)]), (1, &[("a", 100)])]);
    assert_eq!(world.weight("a"), "0.300000");
}

#[test]
fn new_owner_on_a_known_process_was_absent_until_now() {
    let mut world = World::new(1);
    world.minutes(400, &[(0, &[("a", 100)])]);
    world.minute(&[(0, &[("a", 100), ("new", 600)])]);
    let weight = world.model.weight(&owner("new")).unwrap();
    assert!(weight > milli(10) && weight < milli(11), "a sixtieth of .6, and not .6: {weight}");
}

#[test]
fn faded_owners_are_forgotten_and_memory_is_bounded() {
    let mut world = World::new(1);
    for minute in 0..3_000 {
        let name = format!("visitor-{minute}");
        world.minute(&[(0, &[(name.as_str(), 500), ("a", 100)])]);
    }
    // .5 / 60 is under a millionth after 538 windows.
    assert!(world.model.owners() < 545, "{}", world.model.owners());
    assert!(world.model.weight(&owner("a")).is_some() && world.model.weight(&owner("visitor-7")).is_none());
}

#[test]
fn unattributed_use_stays_with_its_process() {
    let mut world = World::new(2);
    for _ in 0..100 {
        world.reporter.minute += 1;
        let mut reports = [world.reporter.report(0, &[("a", 300)]), world.reporter.report(1, &[])];
        (reports[0].unattributed, reports[0].process) = (milli(50), milli(350));
        world.place(&[("a", 0)]);
        world.fold(&reports);
    }
    let view = world.view();
    assert_eq!((view.processes[0].unattributed, view.processes[0].load()), (milli(50), milli(350)));
    assert_eq!(world.model.measured(Index(0)), Some(milli(350)), "the sum is what the process itself measured");
    world.place(&[("a", 1)]);
    assert_eq!(world.view().processes.iter().map(|process| process.load()).collect::<Vec<_>>(), [milli(50), milli(300)]);
}

#[test]
fn restarted_process_keeps_its_load_and_is_no_destination_until_it_is_known_again() {
    let mut world = World::new(3);
    world.place(&[("a", 0), ("b", 0), ("c", 1), ("d", 2)]);
    let usual: [(u32, &[(&str, u64)]); 3] = [(0, &[("a", 500), ("b", 350)]), (1, &[("c", 700)]), (2, &[("d", 400)])];
    world.minutes(100, &usual);
    assert_eq!(moves(&Planner::default().plan(&world.view())), [("b", 0, 2)]);
    // It comes back, and has done nearly nothing yet.
    world.reporter.minute += 1;
    let mut reports: Vec<_> = usual[..2].iter().map(|(index, owners)| world.reporter.report(*index, owners)).collect();
    let mut restarted = world.reporter.report(2, &[("d", 15)]);
    (restarted.run, restarted.number) = (2, 1);
    reports.push(restarted);
    assert_eq!(world.fold(&reports).folded, 3);
    assert_eq!(world.states()[2], ProcessState::Warming);
    assert!(world.view().processes[2].load() > milli(390), "its owners weigh what they did");
    assert_eq!(moves(&Planner::default().plan(&world.view())), []);
}

#[test]
fn planner_that_starts_knows_nothing_and_moves_nobody_for_ten_windows() {
    let mut world = World::new(2);
    world.place(&[("a", 0), ("b", 0)]);
    for window in 0..11 {
        assert_eq!(moves(&Planner::default().plan(&world.view())), [], "after {window} windows");
        world.minute(&[(0, &[("a", 500), ("b", 400)]), (1, &[])]);
    }
    assert_eq!(moves(&Planner::default().plan(&world.view())), [("b", 0, 1)], "at what it measured, not at a sixth of it");
}

#[test]
fn stale_silent_and_empty_are_told_apart() {
    let mut world = World::new(3);
    world.place(&[("a", 0)]);
    world.minutes(20, &[(0, &[("a", 400)]), (1, &[])]);
    assert_eq!(world.states(), [ProcessState::Reporting, ProcessState::Reporting, ProcessState::Silent]);
    world.minutes(3, &[(1, &[])]);
    assert_eq!(world.states()[0], ProcessState::Reporting, "180 s old is not stale");
    world.minutes(1, &[(1, &[])]);
    assert_eq!(world.states()[0], ProcessState::Stale);
    assert_eq!(world.weight("a"), "0.400000", "silence is not idleness");
    assert_eq!(world.view().processes[0].report_age, Some(WINDOW * 4));
}

#[test]
fn report_of_yesterday_is_not_taken_for_one_of_now() {
    let mut world = World::new(1);
    let old = world.reporter.report(0, &[("a", 900)]);
    for _ in 0..20 {
        world.reporter.minute += 1;
        assert_eq!(world.fold(std::slice::from_ref(&old)).folded, 0);
    }
    assert_eq!((world.states(), world.model.weight(&owner("a"))), (vec![ProcessState::Stale], None));
}

#[test]
fn clocks_of_reporters_do_not_matter_only_that_their_numbers_rise() {
    // There is no time in a report. A planner whose own clock goes back only waits.
    let mut world = World::new(1);
    world.minutes(50, &[(0, &[("a", 400)])]);
    let number = u64::from(world.reporter.minute) + 1;
    world.reporter.minute -= 5;
    let mut report = world.reporter.report(0, &[("a", 400)]);
    report.number = number + 1;
    assert_eq!(world.fold(&[report]).folded, 1);
    assert_eq!((world.states(), world.weight("a")), (vec![ProcessState::Reporting], "0.400000".to_owned()));
}

#[test]
fn life_that_ended_is_not_heard_any_more() {
    let mut world = World::new(1);
    world.minutes(20, &[(0, &[("a", 300)])]);
    let report = |world: &mut World, run: u64, number: u64, cores: u64| {
        world.reporter.minute += 1;
        let mut report = world.reporter.report(0, &[("a", cores)]);
        (report.run, report.number) = (run, number);
        world.fold(&[report])
    };
    assert_eq!(report(&mut world, 2, 1, 300).folded, 1);
    assert_eq!(report(&mut world, 1, 500, 900).outlived, 1, "a zombie");
    assert_eq!(report(&mut world, 2, 2, 300).folded, 1);
    // Nor is one from several lives ago, which would outlive the real one.
    for run in 3..20 {
        assert_eq!(report(&mut world, run, 1, 300).folded, 1);
        assert_eq!(report(&mut world, 1, 501, 900).outlived, 1, "in life {run}");
        assert_eq!(report(&mut world, run, 2, 300).folded, 1);
    }
    assert_eq!(world.weight("a"), "0.300000");
}

#[test]
fn numbers_that_leap_are_counted_and_stand_for_ten_windows_at_most() {
    let (mut leapt, mut ten) = (World::new(2), World::new(2));
    for world in [&mut leapt, &mut ten] {
        world.minutes(30, &[(0, &[("a", 600)]), (1, &[("b", 600)])]);
    }
    leapt.reporter.minute += 1;
    let mut reports = [leapt.reporter.report(0, &[("a", 0)]), leapt.reporter.report(1, &[("b", 0)])];
    reports.iter_mut().for_each(|report| report.number = u64::MAX);
    let outcome = leapt.fold(&reports);
    assert_eq!((outcome.folded, outcome.missed), (2, u64::MAX));
    ten.minutes(10, &[(0, &[]), (1, &[])]);
    assert_eq!(leapt.weight("a"), ten.weight("a"));
}

#[test]
fn reports_of_other_fleets_sizes_and_models_are_not_compared() {
    let mut world = World::new(2);
    world.minutes(20, &[(0, &[("a", 500), ("b", 400)]), (1, &[])]);
    let mut reports = [world.reporter.report(5, &[("x", 1)]), world.reporter.report(1, &[("x", 1)])];
    reports[1].fleet = fleet("ing");
    assert_eq!(world.fold(&reports).foreign, 2);
    // A process of the next release measures otherwise: nobody moves until all do the same.
    world.reporter.minute += 1;
    let mut other = world.reporter.report(1, &[("c", 990)]);
    other.model = LOAD_MODEL + 1;
    assert_eq!(world.fold(&[other]).other_model, 1);
    assert_eq!(world.model.weight(&owner("c")), None);
    let plan = Planner::default().plan(&world.view());
    assert_eq!((plan.held, moves(&plan)), (Some(Held::MixedModels), vec![]));
}

#[test]
fn fleet_that_is_changing_is_left_alone() {
    let mut world = World::new(2);
    world.place(&[("a", 0), ("b", 0)]);
    world.minutes(20, &[(0, &[("a", 500), ("b", 400)]), (1, &[])]);
    let held = |change: fn(&mut Report), world: &mut World| {
        world.reporter.minute += 1;
        let mut report = world.reporter.report(1, &[]);
        change(&mut report);
        world.fold(&[report]);
        let plan = Planner::default().plan(&world.view());
        (plan.held, plan.moves.len(), plan.blocked.len())
    };
    assert_eq!(held(|report| report.draining = true, &mut world), (Some(Held::Draining), 0, 0));
    assert_eq!(held(|report| report.processes = 3, &mut world), (Some(Held::MixedSizes), 0, 0));
    assert_eq!(held(|_| (), &mut world).1, 1, "and then it is relieved");
}

#[test]
fn load_that_alternates_moves_nobody() {
    let mut world = World::new(2);
    world.place(&[("a", 0), ("b", 0)]);
    for minute in 0..300 {
        let cores = if minute % 2 == 0 { 550 } else { 150 };
        world.minute(&[(0, &[("a", cores), ("b", 350)]), (1, &[])]);
        assert_eq!(moves(&Planner::default().plan(&world.view())), [], "at minute {minute}");
    }
}

#[test]
fn thousand_runs_over_uneven_loads_move_few_owners_and_none_to_and_fro() {
    let mut random = Random(9);
    let mut world = World::new(6);
    // Usual loads of 60 owners, placed by the hash; each minute has a half to one and a half of it.
    let usual: Vec<_> = (0..60).map(|n| (format!("o{n}"), 10 + random.below(90))).collect();
    let planner = Planner::default();
    let mut moved: std::collections::HashMap<String, Vec<u32>> = Default::default();
    for run in 0..1_000 {
        world.reporter.minute += 1;
        let used: Vec<_> = usual.iter().map(|(name, cores)| (name.as_str(), cores / 2 + random.below(*cores))).collect();
        let here = |index: u32| -> Vec<(&str, u64)> {
            let at = |name: &str| world.table.resolve(&owner(name), 6).map(|resolved| resolved.index.0);
            used.iter().copied().filter(|(name, _)| at(name) == Ok(index)).collect()
        };
        let reports: Vec<_> = (0..6).map(|index| world.reporter.report(index, &here(index))).collect();
        world.fold(&reports);
        let at = StoreTime(WINDOW * world.reporter.minute);
        world.table = world.table.clone().with_read_at(at);
        let plan = planner.plan(&world.view());
        if let Some(changes) = plan.changes() {
            let next = Version(changes.base.0 + 1);
            world.table.apply(&changes, next, at).unwrap();
        }
        plan.moves.iter().for_each(|it| moved.entry(it.owner.to_string()).or_default().push(run));
    }
    let all: usize = moved.values().map(Vec::len).sum();
    assert!((1..=12).contains(&all), "{all} moves: {moved:?}");
    assert!(moved.values().flatten().all(|run| *run < 120), "it settles within two hours: {moved:?}");
    assert!(moved.values().all(|runs| runs.len() == 1), "nobody goes to and fro: {moved:?}");
}

#[test]
fn view_tells_what_the_table_does_not() {
    let mut world = World::new(2);
    world.place(&[("a", 1), ("far", 7)]);
    world.table.insert_raw("bad", -4, false, None);
    world.minutes(20, &[(0, &[("b", 10), ("far", 10)]), (1, &[("a", 10)])]);
    let view = world.view();
    assert_eq!((view.owners_without_row, view.out_of_range_rows, view.malformed_rows), (2, 1, 1));
}
