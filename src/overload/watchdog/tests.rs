//! The rules W1 to W5, and what the source was reported for, over time that is told.

use std::thread;

use super::*;

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// `m:ss` as seconds.
fn clock(text: &str) -> u64 {
    let (minutes, seconds) = text.split_once(':').unwrap();
    minutes.parse::<u64>().unwrap() * 60 + seconds.parse::<u64>().unwrap()
}

/// One task, with checks every second of a time that begins at 0:00.
struct Fixture {
    watchdog: Watchdog,
    task: Watched,
    blocks: Progress,
    began: Instant,
    /// Seconds.
    now: u64,
    verdicts: Vec<(u64, Verdict)>,
    long: Vec<(u64, LongActive)>,
}

impl Fixture {
    fn with(limits: WatchdogLimits) -> Self {
        let watchdog = Watchdog::new(limits).unwrap();
        // Not the process's first instant, so that time can go back.
        let began = Instant::now() + Duration::from_secs(100_000);
        let task = watchdog.watch("user=alice", began);
        let blocks = task.source("blocks");
        Self { watchdog, task, blocks, began, now: 0, verdicts: Vec::new(), long: Vec::new() }
    }

    fn new() -> Self {
        Self::with(WatchdogLimits::default())
    }

    fn check_at(&mut self, seconds: u64) {
        self.now = seconds;
        let check = self.watchdog.check(self.began + Duration::from_secs(seconds));
        self.verdicts.extend(check.verdicts.into_iter().map(|verdict| (seconds, verdict)));
        self.long.extend(check.long_active.into_iter().map(|long| (seconds, long)));
    }

    /// Checks each second, up to and including this time.
    fn run_to(&mut self, time: &str) -> &mut Self {
        while self.now < clock(time) {
            self.check_at(self.now + 1);
        }
        self
    }

    /// Gets on, in the second before this time.
    fn progress_at(&mut self, time: &str) -> &mut Self {
        self.run_to(&format!("0:{}", clock(time) - 1));
        self.blocks.advance(1);
        self.run_to(time)
    }

    #[track_caller]
    fn assert_alive_at(&mut self, time: &str) -> &mut Self {
        self.run_to(time);
        assert_eq!(self.verdicts, [], "at {time}");
        self
    }

    #[track_caller]
    fn assert_ended_at(&mut self, time: &str, text: &str) -> &mut Self {
        self.run_to(time);
        let [(at, verdict)] = &*self.verdicts else { panic!("one verdict at {time}: {:?}", self.verdicts) };
        assert_eq!(*at, clock(time), "{verdict}");
        assert!(verdict.to_string().starts_with(text), "{verdict}");
        self
    }
}

#[test]
fn handles_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Watchdog>();
    check::<Watched>();
    check::<Progress>();
    check::<Verdict>();
}

const STALLED: &str = "request stalled, no block progress";
const TOO_LONG: &str = "request active for too long";
const ITEM: &str = "request item took too long";

#[test]
fn task_without_progress_is_stalled_after_ten_minutes_and_not_at_them() {
    Fixture::new().assert_alive_at("10:00").assert_ended_at("10:01", STALLED);
}

#[test]
fn progress_at_five_minutes_is_alive_at_fourteen_and_dead_after_fifteen() {
    Fixture::new().progress_at("5:00").assert_alive_at("14:00").assert_alive_at("15:00").assert_ended_at("15:01", STALLED);
}

#[test]
fn stall_counts_from_the_last_progress_and_not_from_the_beginning() {
    Fixture::new().progress_at("9:30").assert_alive_at("18:30").assert_alive_at("19:30").assert_ended_at("19:31", STALLED);
}

#[test]
fn one_block_in_five_minutes_survives_three_hours() {
    let mut fixture = Fixture::new();
    for block in 1..=36 {
        fixture.progress_at(&format!("{}:00", block * 5));
    }
    fixture.assert_alive_at("180:00");
    let (at, record) = fixture.long.last().unwrap();
    assert_eq!((*at, &*record.progress), (clock("180:00"), &[("blocks".to_owned(), 36)][..]));
}

#[test]
fn batch_of_which_41_of_139_are_done_after_twenty_minutes_lives() {
    let mut fixture = Fixture::new();
    for batch in 1..=41 {
        fixture.progress_at(&format!("0:{}", batch * 1282 / 41));
    }
    fixture.assert_alive_at("21:22").assert_alive_at("31:22").assert_ended_at("31:23", STALLED);
}

#[test]
fn segment_that_inches_on_for_ever_ends_at_the_backstop_and_not_before() {
    let mut fixture = Fixture::with(WatchdogLimits { absolute: minutes(60), ..WatchdogLimits::default() });
    for minute in 1..=59 {
        fixture.progress_at(&format!("{minute}:00"));
    }
    fixture.assert_alive_at("60:00").assert_ended_at("60:01", TOO_LONG);
    assert!(!fixture.verdicts[0].1.to_string().contains("stalled"), "the two are told apart");
}

#[test]
fn zero_turns_each_limit_off_and_all_off_ends_nobody() {
    let off = Duration::ZERO;
    let limits = WatchdogLimits::default();
    Fixture::with(WatchdogLimits { stall: off, absolute: minutes(60), ..limits }).assert_ended_at("60:01", TOO_LONG);
    Fixture::with(WatchdogLimits { absolute: off, ..limits }).assert_ended_at("10:01", STALLED);
    let mut neither = Fixture::with(WatchdogLimits { stall: off, absolute: off, item: off, ..limits });
    let progress = neither.blocks.clone();
    let _item = progress.item();
    neither.assert_alive_at("600:00");
}

#[test]
fn stall_is_named_where_both_are_blown() {
    let limits = WatchdogLimits { absolute: minutes(10) + Duration::from_secs(1), ..WatchdogLimits::default() };
    let mut fixture = Fixture::with(limits);
    fixture.assert_alive_at("9:59");
    fixture.check_at(clock("10:02"));
    fixture.assert_ended_at("10:02", STALLED);
    let verdict = &fixture.verdicts[0].1;
    assert_eq!((verdict.active_for, verdict.since_last_progress), (Duration::from_secs(602), Duration::from_secs(602)));
}

#[test]
fn task_is_told_to_end_once_and_keeps_its_slot_until_it_has() {
    let mut fixture = Fixture::new();
    fixture.assert_ended_at("10:01", STALLED).run_to("300:00");
    assert_eq!(fixture.verdicts.len(), 1, "said once");
    let now = fixture.began + Duration::from_secs(fixture.now);
    let active = ActiveTasks { tasks: 1, oldest: Some(minutes(300)) };
    assert_eq!(fixture.watchdog.active(now), active, "what cannot be killed still runs");
    drop(fixture.task);
    assert_eq!(fixture.watchdog.active(now), ActiveTasks { tasks: 0, oldest: None });
}

#[test]
fn counter_that_falls_is_no_progress_and_neither_is_what_is_done_again() {
    let mut fixture = Fixture::new();
    fixture.blocks.report(100);
    fixture.assert_alive_at("1:00");
    for (time, total) in [("4:00", 0), ("6:00", 50), ("8:00", 100)] {
        fixture.run_to(time);
        fixture.blocks.report(total);
    }
    fixture.assert_alive_at("10:01").assert_ended_at("10:02", STALLED);
    // Behind a reorganisation it is, from where the old height is passed.
    let mut reorganised = Fixture::new();
    for (time, total) in [("0:30", 100), ("5:00", 97), ("8:00", 101)] {
        reorganised.run_to(time);
        reorganised.blocks.report(total);
    }
    reorganised.assert_alive_at("18:01").assert_ended_at("18:02", STALLED);
}

#[test]
fn any_of_several_sources_is_progress() {
    let mut fixture = Fixture::new();
    // Twelve minutes of loading a store, during which there are no blocks.
    let store = fixture.task.source("store bytes");
    for minute in 1..=12 {
        fixture.run_to(&format!("{minute}:00"));
        store.advance(1 << 20);
    }
    fixture.assert_alive_at("15:00").progress_at("20:00").assert_alive_at("30:00").assert_ended_at("30:01", STALLED);
}

#[test]
fn source_that_comes_is_no_progress() {
    let mut fixture = Fixture::new();
    for minute in 1..=9 {
        fixture.run_to(&format!("{minute}:00"));
        let _ = fixture.task.source("phase");
    }
    fixture.assert_ended_at("10:01", STALLED);
}

#[test]
fn heartbeats_and_data_that_is_sent_are_no_progress() {
    let mut fixture = Fixture::new();
    let mut heartbeats = 0;
    while fixture.now < 600 {
        fixture.check_at(fixture.now + 15);
        // All that a task can say beside its progress.
        fixture.task.data_sent();
        heartbeats += 1;
    }
    assert_eq!((heartbeats, fixture.verdicts.len()), (40, 0));
    fixture.assert_ended_at("10:01", STALLED);
}

#[test]
fn item_has_three_minutes_from_when_a_check_saw_it() {
    let mut fixture = Fixture::new();
    fixture.run_to("1:00");
    let blocks = fixture.blocks.clone();
    let item = blocks.item();
    fixture.assert_alive_at("4:01").assert_ended_at("4:02", ITEM);
    assert_eq!(fixture.verdicts[0].1.timed_out, TimedOut::ItemTooLong { limit: minutes(3), source: "blocks".to_owned() });
    item.finish();
}

#[test]
fn items_that_end_in_time_are_progress_and_have_each_their_own_time() {
    let mut fixture = Fixture::new();
    let blocks = fixture.blocks.clone();
    for number in 1..=10 {
        let item = blocks.item();
        // Begun right when the one before has ended, so that no check finds none under way.
        fixture.assert_alive_at(&format!("0:{}", number * 170));
        item.finish();
    }
    fixture.assert_alive_at("38:21").assert_ended_at("38:22", STALLED);
}

#[test]
fn items_that_fail_again_and_again_are_no_progress() {
    let mut fixture = Fixture::new();
    let blocks = fixture.blocks.clone();
    for number in 1..=10 {
        let item = blocks.item();
        fixture.run_to(&format!("{number}:00"));
        drop(item);
    }
    fixture.assert_ended_at("10:01", STALLED);
}

#[test]
fn stalled_worker_is_found_by_a_check_that_it_does_not_drive() {
    let fixture = Fixture::new();
    let Fixture { watchdog, began, blocks, .. } = &fixture;
    let is_free = Tally::new(0);
    thread::scope(|scope| {
        // It hangs within an item, and does nothing more until it is let go.
        let worker = scope.spawn(|| {
            let _item = blocks.item();
            while is_free.get() == 0 {
                thread::park();
            }
        });
        let at = |seconds| watchdog.check(*began + Duration::from_secs(seconds)).verdicts.len();
        let found: usize = (0..=40).map(|check| at(check * 30)).sum();
        assert_eq!((found, worker.is_finished()), (1, false));
        is_free.set(1);
        worker.thread().unpark();
    });
}

#[test]
fn verdict_comes_at_most_a_period_after_the_time_is_up() {
    for offset in [1, 13, 29, 30] {
        let mut fixture = Fixture::new();
        let mut seconds = offset;
        while fixture.verdicts.is_empty() {
            fixture.check_at(seconds);
            seconds += 30;
        }
        let at = fixture.verdicts[0].0;
        assert!((601..=630).contains(&at), "{at}");
    }
}

#[test]
fn pause_between_two_checks_ends_nobody_at_once() {
    let mut fixture = Fixture::new();
    fixture.progress_at("5:00");
    // The machine stood still for an hour.
    fixture.check_at(clock("65:00"));
    fixture.assert_alive_at("65:30").assert_alive_at("67:59");
    fixture.blocks.advance(1);
    fixture.assert_alive_at("78:00").assert_ended_at("78:01", STALLED);
}

#[test]
fn who_does_not_get_on_after_a_pause_ends_after_the_time_for_an_item() {
    let mut fixture = Fixture::new();
    fixture.progress_at("5:00");
    fixture.check_at(clock("65:00"));
    fixture.assert_alive_at("67:59").assert_ended_at("68:00", STALLED);
    // Without a limit on items that is one period.
    let mut fixture = Fixture::with(WatchdogLimits { item: Duration::ZERO, ..WatchdogLimits::default() });
    fixture.progress_at("5:00");
    fixture.check_at(clock("65:00"));
    fixture.assert_alive_at("65:29").assert_ended_at("65:30", STALLED);
}

#[test]
fn pause_longer_than_the_backstop_ends_nobody_at_once() {
    let mut fixture = Fixture::new();
    fixture.run_to("1:00");
    fixture.check_at(clock("600:00"));
    fixture.blocks.advance(1);
    fixture.assert_alive_at("602:59").assert_ended_at("603:00", TOO_LONG);
}

#[test]
fn second_pause_while_tasks_are_left_alone_ends_nobody_at_once() {
    let mut fixture = Fixture::new();
    fixture.progress_at("5:00");
    fixture.check_at(clock("65:00"));
    fixture.assert_alive_at("66:00");
    // A minute of the three that one item has, and the machine stands still once more.
    fixture.check_at(clock("125:00"));
    fixture.assert_alive_at("127:59").assert_ended_at("128:00", STALLED);
    // Pauses with nothing between them: a machine that wakes for a moment each hour.
    let mut fixture = Fixture::new();
    for hour in 1..=3 {
        fixture.check_at(clock(&format!("{}:00", hour * 60)));
    }
    fixture.blocks.advance(1);
    fixture.assert_alive_at("182:59").assert_alive_at("190:01").assert_ended_at("190:02", STALLED);
}

#[test]
fn checks_that_are_late_now_and_then_end_who_is_stalled_all_the_same() {
    let mut fixture = Fixture::new();
    let mut seconds = 0;
    while fixture.verdicts.is_empty() {
        seconds += if seconds % 100 == 0 { 70 } else { 30 };
        fixture.check_at(seconds);
        assert!(seconds < 1_200, "never");
    }
}

#[test]
fn first_check_that_comes_late_is_one_after_a_pause() {
    let mut fixture = Fixture::new();
    fixture.check_at(clock("60:00"));
    assert_eq!(fixture.verdicts, []);
}

#[test]
fn checks_that_are_always_late_end_who_is_stalled_all_the_same() {
    let mut fixture = Fixture::new();
    for check in 1..=12 {
        fixture.check_at(check * 200);
    }
    let at = fixture.verdicts[0].0;
    assert!((601..=1_000).contains(&at), "{at}");
}

#[test]
fn clock_that_goes_back_ends_nobody_and_is_no_progress() {
    let mut fixture = Fixture::new();
    fixture.run_to("9:00");
    for time in ["8:00", "0:00", "9:30"] {
        fixture.check_at(clock(time));
    }
    assert_eq!(fixture.watchdog.check(fixture.began - Duration::from_secs(50_000)).verdicts, []);
    fixture.assert_alive_at("10:00").assert_ended_at("10:01", STALLED);
}

#[test]
fn verdict_is_retry_safe_until_data_was_sent() {
    let mut fixture = Fixture::new();
    fixture.assert_ended_at("10:01", STALLED);
    let verdict = &fixture.verdicts[0].1;
    assert!(verdict.is_retry_safe && verdict.to_string().ends_with("may be retried)"), "{verdict}");
    let mut fixture = Fixture::new();
    fixture.task.data_sent();
    fixture.assert_ended_at("10:01", STALLED);
    let verdict = &fixture.verdicts[0].1;
    assert!(!verdict.is_retry_safe && verdict.to_string().contains("not to be retried"), "{verdict}");
    assert!(std::error::Error::source(verdict).is_some_and(|source| source.is::<TimedOut>()), "typed at its depth");
}

#[test]
fn task_that_is_there_for_long_is_told_of_with_its_last_progress() {
    let mut fixture = Fixture::new();
    fixture.progress_at("4:00").progress_at("4:30").assert_alive_at("12:00");
    let times: Vec<_> = fixture.long.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [300, 600], "every five minutes");
    let line = "request active for a long time user=alice duration=300s since_last_progress=30s blocks=2";
    assert_eq!(fixture.long[0].1.to_string(), line);
    let record = &fixture.long[1].1;
    let since = (record.duration, record.since_last_progress, &*record.progress);
    assert_eq!(since, (minutes(10), Duration::from_secs(330), &[("blocks".to_owned(), 2)][..]));
}

#[test]
fn missed_reports_of_long_tasks_are_not_made_up_for() {
    let mut fixture = Fixture::new();
    for seconds in [1_000, 1_001, 1_200] {
        fixture.check_at(seconds);
    }
    assert_eq!(fixture.long.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1_000, 1_200]);
    let mut off = Fixture::with(WatchdogLimits { long_active: Duration::ZERO, ..WatchdogLimits::default() });
    off.run_to("9:00");
    assert_eq!(off.long, []);
}

#[test]
fn gauge_shows_how_many_tasks_are_there_and_the_oldest() {
    let fixture = Fixture::new();
    let later = fixture.began + minutes(3);
    let younger = fixture.watchdog.watch("user=bob", later);
    assert_ne!(younger.id(), fixture.task.id());
    let now = later + minutes(1);
    assert_eq!(fixture.watchdog.active(now), ActiveTasks { tasks: 2, oldest: Some(minutes(4)) });
    drop(fixture.task);
    assert_eq!(fixture.watchdog.active(now), ActiveTasks { tasks: 1, oldest: Some(minutes(1)) });
    assert_eq!(fixture.watchdog.active(fixture.began).oldest, Some(Duration::ZERO), "a clock that goes back");
}
