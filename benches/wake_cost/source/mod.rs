//! The workload that the split was justified with, in process: 70,000 subscriptions (50 nodes x 14 connections x 100 streams), 50
//! publishes per second, as one buffer for all, from which each reader picks its own, and as one per key.
//!
//! Each publish comes at its time, but not before all who were to be woken for the last one have been: what cannot be done at 50
//! per second is done at the highest rate that the box holds. A second producer publishes just when the first has begun to: how
//! long its call takes is how long it waits.
//!
//! Each contender has a process of its own, as it would have in a server, and they take turns. In one process who was built last came
//! off worst: its 70,000 tasks lay where the others had left room.

use std::{
    env,
    error::Error,
    hint::{black_box, spin_loop},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use shareable::{AllInOne, Shareable};
use spread::Spread;
use tokio::runtime::Runtime;

use crate::{
    Context,
    counters::{run_queue_wait, user_and_system},
    crowd::Setting,
    measure::{
        peers::{
            Peer,
            broadcast::Broadcast,
            keyed_broadcast::KeyedBroadcast,
            keywake::{Keywake, Relayed},
        },
        publishing::RETAINED,
        words::{grouped, rounded, three_digits, time},
    },
    options::Options,
    pace::sleep_until,
    pins::Pins,
    plots,
    table::Row,
    tally::Tally,
};

mod shareable;
mod spread;

const SUBSCRIPTIONS: u64 = 50 * 14 * 100;
const PER_SECOND: u64 = 50;
/// Parts of a cell's time, one after each of the others' parts; each in a process that is new.
const TURNS: u32 = 2;
/// In what the child of a turn prints: the line with what it found.
const FOUND: &str = "found:";
/// As often at least, however long it takes: a buffer for all takes tens of milliseconds.
const AT_LEAST: f64 = 4.0;
/// How long before its time the second producer begins to look out for the first.
const LOOKS_OUT: Duration = Duration::from_micros(150);

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub(crate) fn run(context: &Context) -> Vec<Row> {
    let subscriptions = subscriptions(&context.options);
    println!(
        "{} subscriptions, at most {PER_SECOND} publishes/s, {} worker(s), writers outside. `rate`: what was reached; `could`: 1 / \
         time to the last. CPU is of the whole process, per publish. `second`: how long the call of a second producer takes, that \
         begins when the first one's has.\n",
        grouped(subscriptions),
        context.options.threads
    );
    println!(
        "| keys | who | readers of a publish | rate/s | could/s | user | system | publish p50 | p99 | last reader p50 \
         | run-queue wait | second p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let (mut rows, mut csv, mut lines) = (Vec::new(), CSV_HEAD.to_owned(), Vec::new());
    for (number, spread) in spreads(subscriptions).into_iter().enumerate() {
        let mut found: Vec<Found> = CONTENDERS.iter().map(|_| Found::default()).collect();
        for _ in 0..TURNS {
            for (who, found) in found.iter_mut().enumerate() {
                if let Err(error) = turn(number, who).and_then(|line| found.add(&line)) {
                    println!("**{} was not run**: {error}", CONTENDERS[who].0);
                }
            }
        }
        for ((name, _), found) in CONTENDERS.iter().zip(&found) {
            println!("| {} | {name} | {} |", spread.name(), found.columns().map(Column::told).join(" | "));
            let columns = found.columns().map(Column::bare).join(",");
            csv += &format!("{},{},\"{name}\",{columns}\n", spread.keys, if spread.is_zipf { "zipf" } else { "uniform" });
            if !spread.is_zipf {
                lines.push(((*name).to_owned(), spread.keys, found.cpu()));
            }
        }
        if spread.keys > 1 {
            rows.push(row(subscriptions, &spread, &found));
        }
    }
    println!();
    context.write("wake_cost_source.csv", &csv, |folder, surroundings| plots::write_source(folder, surroundings, &lines));
    println!();
    rows
}

fn subscriptions(options: &Options) -> u64 {
    SUBSCRIPTIONS * options.scale.source_permille / 1_000
}

/// All on one key, 100 on each, one on each.
fn spreads(subscriptions: u64) -> Vec<Spread> {
    let keys = |share: u64| (subscriptions / share).max(1);
    [(1, false), (keys(100), false), (keys(100), true), (keys(1), false), (keys(1), true)]
        .map(|(keys, is_zipf)| Spread::new(subscriptions, keys, is_zipf))
        .into()
}

/// What one turn of a contender is in its process: the setting, the spread, how long.
type Turn = fn(&Setting, &Arc<Spread>, Duration) -> Found;

const CONTENDERS: [(&str, Turn); 5] = [
    ("tokio broadcast + filter", Streams::<Broadcast>::turn),
    (AllInOne::NAME, Streams::<AllInOne>::turn),
    (KeyedBroadcast::NAME, Streams::<KeyedBroadcast>::turn),
    (Keywake::NAME, Streams::<Keywake>::turn),
    (Relayed::NAME, Streams::<Relayed>::turn),
];

/// One turn of one contender, in a process of its own: the line that tells what was found.
fn turn(spread: usize, who: usize) -> Result<String, Box<dyn Error>> {
    let child = Command::new(env::current_exe()?)
        .args(env::args().skip(1))
        .args(["--probe", PROBE, &spread.to_string(), &who.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !child.status.success() {
        return Err(child.status.to_string().into());
    }
    let told = String::from_utf8(child.stdout)?;
    told.lines().find_map(|line| line.strip_prefix(FOUND)).map(str::to_owned).ok_or_else(|| "it told nothing".into())
}

pub(crate) const PROBE: &str = "source-turn";

/// A turn, here. Arguments: the numbers of the spread and of the contender.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn probe(options: &Options, arguments: &[String]) {
    let number = |at: usize| arguments.get(at).and_then(|argument| argument.parse::<usize>().ok());
    let spread = number(0).and_then(|number| spreads(subscriptions(options)).into_iter().nth(number));
    let who = number(1).and_then(|number| CONTENDERS.get(number));
    let (Some(spread), Some((_, turn))) = (spread, who) else { return };
    let pins = options.pin.then(|| Pins::new().map(Arc::new)).flatten();
    let setting = Setting { sleeps: true, ..Setting::new(options.threads, pins.as_ref()) };
    println!("{FOUND}{}", turn(&setting, &Arc::new(spread), options.scale.source_turn / TURNS).line());
}

const CSV_HEAD: &str = "keys,spread,who,readers_of_a_publish,rate_per_s,could_per_s,user_ns,system_ns,publish_p50_ns,\
                        publish_p99_ns,last_p50_ns,run_queue_wait_ns,second_p50_ns,second_p99_ns\n";

/// A figure as it is told.
#[derive(Clone, Copy)]
enum Column {
    Count(f64),
    Nanos(f64),
    PerSecond(f64),
}

impl Column {
    /// Without its unit.
    fn bare(self) -> String {
        let (Self::Count(value) | Self::Nanos(value) | Self::PerSecond(value)) = self;
        format!("{value:.1}")
    }

    fn told(self) -> String {
        match self {
            Self::Count(value) => rounded(value),
            Self::Nanos(value) => time(value),
            Self::PerSecond(value) => three_digits(value),
        }
    }
}

fn row(subscriptions: u64, spread: &Spread, found: &[Found]) -> Row {
    let [global, global_keywake, map, inline, relay] = found.iter().map(Found::cpu).collect::<Vec<_>>()[..] else {
        unreachable!("five")
    };
    let work = format!("{} subscriptions, {} keys, CPU per publish of split, relay", grouped(subscriptions), spread.name());
    let figures = format!(
        "{} against {}; `DashMap<K, broadcast>` {}, without a relay {}, one key of keywake + filter {}",
        time(relay),
        time(global),
        time(map),
        time(inline),
        time(global_keywake)
    );
    let row = Row::new(work, "one global broadcast + filter");
    if spread.is_zipf {
        row.shown(format!("1/{} ({figures})", three_digits(global / relay)))
    } else {
        row.fraction(relay / global, 1.0 / 50.0, figures)
    }
}

/// What was found of one kind.
#[derive(Debug, Default)]
struct Found {
    took: Duration,
    publishes: f64,
    woken: f64,
    user: Duration,
    system: Duration,
    /// 0 where the system does not tell.
    waited: Duration,
    writer: Vec<f64>,
    last: Vec<f64>,
    second: Vec<f64>,
}

impl Found {
    /// As one line, for the parent.
    fn line(&self) -> String {
        let times = [self.took, self.user, self.system, self.waited].map(|time| time.as_secs_f64());
        let counts = [self.publishes, self.woken];
        let lists = [&self.writer, &self.last, &self.second];
        let numbers = |numbers: &[f64]| numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        [&times[..], &counts].into_iter().chain(lists.map(Vec::as_slice)).map(numbers).collect::<Vec<_>>().join(";")
    }

    /// Adds what such a line tells.
    fn add(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let lists: Vec<Vec<f64>> = line
            .split(';')
            .map(|list| list.split_whitespace().map(str::parse).collect::<Result<_, _>>())
            .collect::<Result<_, _>>()?;
        let [times, counts, writer, last, second] = &lists[..] else { return Err("five lists were to come".into()) };
        let (&[took, user, system, waited], &[publishes, woken]) = (&times[..], &counts[..]) else {
            return Err("four times and two counts were to come".into());
        };
        self.took += Duration::try_from_secs_f64(took)?;
        self.user += Duration::try_from_secs_f64(user)?;
        self.system += Duration::try_from_secs_f64(system)?;
        self.waited += Duration::try_from_secs_f64(waited)?;
        self.publishes += publishes;
        self.woken += woken;
        self.writer.extend(writer);
        self.last.extend(last);
        self.second.extend(second);
        Ok(())
    }

    /// Processor time per publish, in ns.
    fn cpu(&self) -> f64 {
        self.per_publish(self.user + self.system)
    }

    fn per_publish(&self, sum: Duration) -> f64 {
        sum.as_secs_f64() * 1e9 / self.publishes
    }

    fn columns(&self) -> [Column; 11] {
        let at = |values: &[f64], percent: usize| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
        };
        let last = at(&self.last, 50);
        [
            Column::Count(self.woken / self.publishes),
            Column::PerSecond(self.publishes / self.took.as_secs_f64()),
            Column::PerSecond(1e9 / last),
            Column::Nanos(self.per_publish(self.user)),
            Column::Nanos(self.per_publish(self.system)),
            Column::Nanos(at(&self.writer, 50)),
            Column::Nanos(at(&self.writer, 99)),
            Column::Nanos(last),
            Column::Nanos(self.per_publish(self.waited)),
            Column::Nanos(at(&self.second, 50)),
            Column::Nanos(at(&self.second, 99)),
        ]
    }
}

struct Streams<P: Shareable> {
    runtime: Runtime,
    shared: Arc<P::Shared>,
    /// Kept, so that nothing closes.
    _hub: P,
    tally: Arc<Tally>,
    spread: Arc<Spread>,
    number: u64,
    found: Found,
}

impl<P: Shareable> Streams<P> {
    fn new(spread: &Arc<Spread>, setting: &Setting) -> Self {
        let runtime = setting.runtime();
        let (writer, hub) = P::open(RETAINED);
        hub.serve(runtime.handle());
        let tally = Arc::new(Tally::new(true));
        tally.expect(spread.readers.iter().sum());
        for (key, readers) in (0..).zip(&spread.readers) {
            for _ in 0..*readers {
                runtime.spawn(read::<P>(hub.subscribe(key), key, spread.keys, Arc::clone(&tally)));
            }
        }
        tally.wait();
        let mut this = Self {
            runtime,
            shared: Arc::new(P::share(writer)),
            _hub: hub,
            tally,
            spread: Arc::clone(spread),
            number: 0,
            found: Found::default(),
        };
        this.settle();
        if P::KEYED {
            this.publish_to_all_keys();
        }
        this
    }

    /// Alone, then with a second producer.
    fn turn(setting: &Setting, spread: &Arc<Spread>, time: Duration) -> Found {
        let mut this = Self::new(spread, setting);
        this.alone(time);
        this.with_a_second(time);
        this.found
    }

    /// Once to each key: what its first publish costs more than another one is not in question here.
    fn publish_to_all_keys(&mut self) {
        self.tally.expect(self.spread.readers.iter().sum());
        for key in 0..self.spread.keys {
            self.number += 1;
            P::publish_shared(&self.shared, key, self.number * self.spread.keys + key);
        }
        self.tally.wait();
        self.settle();
    }

    /// One producer, for that long.
    fn alone(&mut self, time: Duration) {
        self.settle();
        let period = Duration::from_secs(1) / u32::try_from(PER_SECOND).expect("few");
        let (waited, (user, system)) = (run_queue_wait(), user_and_system());
        let start = Instant::now();
        let mut due = start;
        while start.elapsed() < time || self.found.publishes < AT_LEAST {
            sleep_until(due);
            let (key, event, woken) = self.next();
            self.tally.expect(woken);
            let began = Instant::now();
            P::publish_shared(&self.shared, key, event);
            self.found.writer.push(began.elapsed().as_nanos() as f64);
            if woken > 0 {
                self.found.last.push((self.tally.wait() - began).as_nanos() as f64);
            }
            self.found.publishes += 1.0;
            self.found.woken += woken as f64;
            // What could not be done in time is not made up for.
            due = (due + period).max(Instant::now());
        }
        sleep_until(due);
        self.found.took += start.elapsed();
        let (user_after, system_after) = user_and_system();
        self.found.user += user_after - user;
        self.found.system += system_after - system;
        self.found.waited += run_queue_wait().zip(waited).map(|(after, before)| after.saturating_sub(before)).unwrap_or_default();
    }

    /// Two of them, for that long.
    fn with_a_second(&mut self, time: Duration) {
        self.settle();
        let period = Duration::from_secs(1) / u32::try_from(PER_SECOND).expect("few");
        // Which publish the first producer has begun, and what the second one is to publish then, and from when on to look out.
        let begun = Arc::new(AtomicU64::new(0));
        let order = Arc::new(Mutex::new(Order { number: 0, key: 0, event: 0, due: Instant::now() }));
        let second = thread::spawn({
            let (shared, begun, order) = (Arc::clone(&self.shared), Arc::clone(&begun), Arc::clone(&order));
            move || second_producer::<P>(&shared, &begun, &order)
        });
        let start = Instant::now();
        let mut number = 0;
        while start.elapsed() < time || (number as f64) < AT_LEAST {
            number += 1;
            let (key, event, woken) = self.next();
            let (second_key, second_event, second_woken) = self.next();
            self.tally.expect(woken + second_woken);
            let due = Instant::now() + period;
            *order.lock().expect("no panic under it") = Order { number, key: second_key, event: second_event, due };
            sleep_until(due);
            // Relaxed: when, not what.
            begun.store(number, Ordering::Relaxed);
            P::publish_shared(&self.shared, key, event);
            if woken + second_woken > 0 {
                self.tally.wait();
            }
        }
        order.lock().expect("no panic under it").number = END;
        self.found.second.extend(second.join().expect("nothing panics there"));
    }

    fn settle(&self) {
        self.runtime.block_on(self.runtime.spawn(async {})).expect("an empty task");
        thread::sleep(Duration::from_millis(2));
    }

    /// The next publish: its key, the event, and how many it wakes.
    fn next(&mut self) -> (u64, u64, usize) {
        self.number += 1;
        let key = self.spread.drawn(self.number);
        let woken = if P::KEYED { self.spread.readers[key] } else { self.spread.readers.iter().sum() };
        (key as u64, self.number * self.spread.keys + key as u64, woken)
    }
}

/// One stream: takes what comes, and looks whether it is its own.
async fn read<P: Peer>(mut reader: P::Reader, key: u64, keys: u64, tally: Arc<Tally>) {
    loop {
        tally.arrive();
        let is_mine = P::recv(&mut reader).await % keys == key;
        assert!(is_mine || !P::KEYED, "{}: an event of another key", P::NAME);
        black_box(is_mine);
    }
}

/// What the second producer is to publish, when, and with which publish of the first.
#[derive(Clone, Copy)]
struct Order {
    number: u64,
    key: u64,
    event: u64,
    due: Instant,
}

/// The number of the order to go home.
const END: u64 = u64::MAX;

/// Publishes as soon as the first producer has begun to; how long each call took, in ns.
fn second_producer<P: Shareable>(shared: &P::Shared, begun: &AtomicU64, order: &Mutex<Order>) -> Vec<f64> {
    let mut times = Vec::new();
    let mut last = 0;
    loop {
        let Order { number, key, event, due } = *order.lock().expect("no panic under it");
        if number == END {
            return times;
        }
        if number == last {
            thread::sleep(LOOKS_OUT / 3);
            continue;
        }
        last = number;
        sleep_until(due - LOOKS_OUT);
        // Relaxed: when, not what.
        while begun.load(Ordering::Relaxed) < number {
            spin_loop();
        }
        let began = Instant::now();
        P::publish_shared(shared, key, event);
        times.push(began.elapsed().as_nanos() as f64);
    }
}
