//! Publishes that come faster than their readers can be woken for each, or need be.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;

use crate::{
    Context,
    measure::{
        clock::{median, process_cpu},
        peers::{
            Peer,
            keyed_broadcast::KeyedBroadcast,
            keywake::{INTERVAL, Keywake, Relayed, RelayedAtIntervals},
        },
        words::{grouped, rounded, time},
    },
    pace::{Paced, keep},
    table::Row,
};

/// Tasks that count what they receive.
struct Crowd<P: Peer> {
    runtime: Runtime,
    writer: P::Writer,
    hub: P,
    received: Arc<AtomicU64>,
    event: u64,
}

impl<P: Peer> Crowd<P> {
    /// `readers` of one key that keeps `retained` events.
    fn new(context: &Context, readers: usize, retained: usize) -> Self {
        let runtime = context.one_worker().runtime();
        let (writer, hub) = P::open(retained);
        hub.serve(runtime.handle());
        let received = Arc::new(AtomicU64::new(0));
        for _ in 0..readers {
            let (mut reader, received) = (hub.subscribe(0), Arc::clone(&received));
            runtime.spawn(async move {
                loop {
                    P::recv(&mut reader).await;
                    // Relaxed: a count.
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let this = Self { runtime, writer, hub, received, event: 0 };
        this.settle();
        this
    }

    fn publish(&mut self) {
        self.event += 1;
        P::publish(&mut self.writer, 0, self.event);
    }

    fn received(&self) -> u64 {
        // Relaxed: a count.
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until everybody sleeps, or ten seconds.
    fn settle(&self) {
        let give_up = Instant::now() + Duration::from_secs(10);
        let mut before = u64::MAX;
        while before != self.received() && Instant::now() < give_up {
            before = self.received();
            self.runtime.block_on(self.runtime.spawn(async {})).expect("an empty task");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

const BURST: u64 = 100_000;
/// So that none of a burst is lost.
const ROOM: usize = 1 << 17;

/// 100,000 events as fast as they can be published, to a key with one reader.
pub(crate) fn burst(context: &Context) -> Vec<Row> {
    let rounds = context.options.scale.rounds;
    let mut relayed = Crowd::<Relayed>::new(context, 1, ROOM);
    let mut inline = Crowd::<Keywake>::new(context, 1, ROOM);
    let (mut of_relayed, mut of_inline) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_relayed.push(one_burst(&mut relayed, |hub| hub.0.0.stats().wakes));
        of_inline.push(one_burst(&mut inline, |hub| hub.0.stats().wakes));
    }
    let [relayed, inline] = [of_relayed, of_inline].map(|bursts| Bursts {
        most_wakes: bursts.iter().map(|burst| burst.wakes).max().unwrap_or(0),
        per_publish: median(&mut bursts.iter().map(|burst| burst.per_publish).collect::<Vec<_>>()),
        lost: bursts.iter().map(|burst| burst.lost).sum(),
    });
    let told = |bursts: &Bursts| {
        format!("{} ({} per publish, {} lost)", grouped(bursts.most_wakes), time(bursts.per_publish), grouped(bursts.lost))
    };
    vec![
        Row::new(
            format!("burst of {} events to a 1-reader key, wakes, worst of {rounds}, relay", grouped(BURST)),
            format!("keywake without a relay: {}", told(&inline)),
        )
        .with("<= 2,000", relayed.most_wakes <= 2_000, told(&relayed)),
    ]
}

struct Burst {
    wakes: u64,
    per_publish: f64,
    lost: u64,
}

struct Bursts {
    most_wakes: u64,
    per_publish: f64,
    lost: u64,
}

fn one_burst<P: Peer>(crowd: &mut Crowd<P>, wakes: impl Fn(&P) -> u64) -> Burst {
    crowd.settle();
    let (wakes_before, received) = (wakes(&crowd.hub), crowd.received());
    let start = Instant::now();
    for _ in 0..BURST {
        crowd.publish();
    }
    let took = start.elapsed();
    crowd.settle();
    Burst {
        wakes: wakes(&crowd.hub) - wakes_before,
        per_publish: took.as_secs_f64() * 1e9 / BURST as f64,
        lost: BURST - (crowd.received() - received),
    }
}

const PER_SECOND: f64 = 50_000.0;
const READERS: usize = 100;
const KEPT: usize = 1_024;

/// 50,000 events a second to 100 readers of one key, with a shortest time between its fan-outs and without.
#[expect(clippy::print_stdout, reason = "what must be known beside the table")]
pub(crate) fn interval(context: &Context) -> Vec<Row> {
    let scale = context.options.scale;
    let mut with = Crowd::<RelayedAtIntervals>::new(context, READERS, KEPT);
    let mut without = Crowd::<Relayed>::new(context, READERS, KEPT);
    let mut inline = Crowd::<Keywake>::new(context, READERS, KEPT);
    let mut broadcast = Crowd::<KeyedBroadcast>::new(context, READERS, KEPT);
    let turn = scale.turn * 15;
    let mut runs = [const { Vec::new() }; 4];
    for _ in 0..scale.rounds {
        let of_one = context.pinned(|| {
            [
                under_load(&mut with, turn),
                under_load(&mut without, turn),
                under_load(&mut inline, turn),
                under_load(&mut broadcast, turn),
            ]
        });
        runs.iter_mut().zip(of_one).for_each(|(runs, run)| runs.push(run));
    }
    for warning in runs.iter().flatten().filter_map(|run| run.paced.warning()).take(1) {
        println!("{warning}\n");
    }
    let lost: Vec<f64> = runs
        .iter()
        .map(|runs| {
            let (got, due) = runs.iter().fold((0, 0), |(got, due), run| (got + run.received, due + run.paced.published));
            100.0 - 100.0 * got as f64 / (due * READERS as u64) as f64
        })
        .collect();
    let cpu = runs.map(|runs| median(&mut runs.iter().map(|run| run.cpu).collect::<Vec<_>>()));
    let [with, without, inline, broadcast] = cpu;
    let percent = |share: f64| format!("{:.1} % of a core", share * 100.0);
    let events = rounded(PER_SECOND);
    vec![
        Row::new(
            format!("`min_fanout_interval({} ms)`, {events} events/s x {READERS} readers, CPU", INTERVAL.as_millis()),
            "without it",
        )
        .ratio(
            with / without,
            0.35,
            format!("{} against {}; events lost {:.2} % and {:.2} %", percent(with), percent(without), lost[0], lost[1]),
        ),
        Row::new("the same", "keywake without a relay; `DashMap<K, broadcast>`").shown(format!(
            "{}; {}; lost {:.2} % and {:.2} %",
            percent(inline),
            percent(broadcast),
            lost[2],
            lost[3]
        )),
    ]
}

struct Run {
    paced: Paced,
    /// Of all threads, the writer's waiting taken off; in cores.
    cpu: f64,
    received: u64,
}

fn under_load<P: Peer>(crowd: &mut Crowd<P>, time: Duration) -> Run {
    crowd.settle();
    let (cpu, received) = (process_cpu(), crowd.received());
    let paced = keep(PER_SECOND, time, || crowd.publish());
    let used = process_cpu() - cpu;
    crowd.settle();
    let in_calls = paced.own_cpu.mul_f64(paced.in_calls.as_secs_f64() / paced.took.as_secs_f64());
    let others = used.saturating_sub(paced.own_cpu) + in_calls;
    Run { cpu: others.as_secs_f64() / paced.took.as_secs_f64(), received: crowd.received() - received, paced }
}
