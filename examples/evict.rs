//! Ten tasks want twice the two cores that there are: who is let go, and why.
//!
//!     cargo run --example evict --features overload,tokio
//!
//! The quota is made up, and so is the clock that the policy sees, so that it comes out alike on any machine: at each tick of 20 ms the
//! two cores are shared out as the kernel would, each task really burns its share, and the meter charges it. With the defaults its times
//! would be 250 times as long; but for the least age (90 s, which is 1,500 times) and when clients may come again, which is the default's.
//!
//! It prints the order in which classes go; the evictor's log, a line behind its made-up time; who would go when the process has become
//! unready; who goes, and what its client is told; and who is left when it is ready again. A task that is held back burns less than it wants:
//! what it would free is what it is held to want. The class order is the default's: dev, then live, and catch-ups last, since these end by
//! themselves, and what they have done would be lost.
#![expect(clippy::print_stdout, reason = "to print is what it is for")]

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use keywake::{
    load::{CpuSample, StreamClass},
    overload::{
        driver::{CpuRead, CpuSource, Driver, DriverBuilder, Line, Registration, StreamInfo},
        evictor::{ClassOrder, EvictorBuilder, Explained, Mode, Settings},
    },
};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};

const QUOTA_CORES: f64 = 2.0;
const TICK: Duration = Duration::from_millis(20);
/// What each would use if it were let, in cores.
const TASKS: [(&str, StreamClass, f64); 10] = [
    ("dev-1", StreamClass::Dev, 0.9),
    ("dev-2", StreamClass::Dev, 0.6),
    ("dev-3", StreamClass::Dev, 0.3),
    ("catch-up-1", StreamClass::CatchUp, 0.8),
    ("catch-up-2", StreamClass::CatchUp, 0.5),
    ("live-1", StreamClass::Live, 0.3),
    ("live-2", StreamClass::Live, 0.3),
    ("live-3", StreamClass::Live, 0.2),
    ("live-4", StreamClass::Live, 0.1),
    ("live-5", StreamClass::Live, 0.02),
];

/// A turn of a task: for how long it may run, and whom it tells that it has.
type Turn = (Duration, oneshot::Sender<()>);

/// The quota: what was wanted and what was granted at the last tick, in cores.
#[derive(Clone, Default)]
struct Quota(Arc<Mutex<(f64, f64)>>);

impl CpuSource for Quota {
    fn read(&mut self, now: Instant) -> CpuRead {
        let (wanted, granted) = *self.0.lock().expect("nobody panics with it");
        let mut sample = CpuSample::new(now, TICK, granted);
        sample.quota_cores = Some(QUOTA_CORES);
        // What pressure says where a quota holds tasks back.
        sample.full_stalled = Some(1.0 - granted / wanted);
        CpuRead::Sample(sample)
    }
}

/// Shares `cores` out as a fair scheduler does: who wants less than an equal part gets it, and the others what is left, equally.
fn share_out(wants: &[f64], cores: f64) -> Vec<f64> {
    let mut order: Vec<_> = (0..wants.len()).collect();
    order.sort_by(|a, b| wants[*a].total_cmp(&wants[*b]));
    let (mut shares, mut left, mut others) = (vec![0.0; wants.len()], cores, wants.len() as f64);
    for place in order {
        shares[place] = wants[place].min(left / others);
        left -= shares[place];
        others -= 1.0;
    }
    shares
}

/// So much processor time of this thread.
fn burn(time: Duration) {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

/// A stream: its work is metered, and it ends when it is told to.
async fn serve(stream: Registration, name: &str, mut turns: mpsc::Receiver<Turn>) {
    let mut token = stream.token();
    let work = stream.meter().run(async {
        while let Some((time, done)) = turns.recv().await {
            burn(time);
            drop(done);
        }
    });
    tokio::select! {
        biased;
        cancelled = token.cancelled() => {
            let again = cancelled.retry_after().unwrap_or_default();
            println!("         {name} ends: {cancelled}; its client may come again in {again:.1?}");
        }
        () = work => println!("         {name} has nothing more to do"),
    }
}

/// Who goes, who could, and why the others stay.
fn explain(driver: &Driver) {
    let explanation = driver.explain();
    for Explained { id, candidate, fate, .. } in explanation.streams {
        let name = driver.streams().trace_id(id).unwrap_or_default();
        let (class, burn, cost) = (candidate.class.to_string(), candidate.burn_cores, candidate.cost_cores);
        println!("         {name:<10} {class:<8} burns {burn:.2} cores, would free {cost:.2}: {fate}");
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let settings = EvictorBuilder::new()
        .mode(Mode::Full)
        .interval(TICK)
        .sustain(3 * TICK)
        .drain(2 * TICK)
        .cooldown(3 * TICK)
        .recover_sustain(6 * TICK)
        .max_unready(60 * TICK)
        .min_age(3 * TICK);
    let wanted: f64 = TASKS.iter().map(|(.., wants)| wants).sum();
    let target = Settings::default().target * QUOTA_CORES;
    println!(
        "{} tasks want {wanted:.2} cores, and there are {QUOTA_CORES}: so many are to go that the others want about {target}",
        TASKS.len()
    );
    println!("order of the classes: {}; within a class, who costs most goes first,", ClassOrder::default());
    println!("but for the last: where a smaller one is enough, the smallest that is goes in its stead");
    let quota = Quota::default();
    let driver = DriverBuilder::new(settings).source(quota.clone()).build()?;
    let began = Instant::now();
    let mut tasks = Vec::new();
    for (name, class, wants) in TASKS {
        let stream = driver.streams().register(StreamInfo::new(class, name), began);
        let (turns, receiver) = mpsc::channel(1);
        tokio::spawn(serve(stream, name, receiver));
        tasks.push((turns, wants));
    }
    let (mut evicted, mut calm) = (0, 0);
    for tick in 1..=100_u32 {
        let wants: Vec<_> = tasks.iter().map(|(_, wants)| *wants).collect();
        let shares = share_out(&wants, QUOTA_CORES);
        *quota.0.lock().expect("nobody panics with it") = (wants.iter().sum(), shares.iter().sum());
        let mut done = Vec::new();
        for ((turns, _), share) in tasks.iter().zip(&shares) {
            let (tell, told) = oneshot::channel();
            turns.send((TICK.mul_f64(*share), tell)).await?;
            done.push(told);
        }
        for told in done {
            // An error only says that it is done: nothing is sent.
            _ = told.await;
        }
        let was_ready = driver.load().is_ready();
        for line in driver.tick(began + tick * TICK).lines {
            println!("{:>6}   {line}", format!("{:?}", tick * TICK));
            evicted += usize::from(matches!(line, Line::Evicted(_)));
        }
        if was_ready && !driver.load().is_ready() {
            println!("         unready, so that load balancers send nothing new; if it stays so, in {:?}:", 2 * TICK);
            explain(&driver);
        }
        // Those that were told to go see it now.
        tokio::task::yield_now().await;
        tasks.retain(|(turns, _)| !turns.is_closed());
        calm = if evicted > 0 && driver.load().is_ready() { calm + 1 } else { 0 };
        if calm == 3 {
            println!("{evicted} of {} tasks were let go; ready again, with these:", TASKS.len());
            for Explained { id, candidate, .. } in driver.explain().streams {
                let name = driver.streams().trace_id(id).unwrap_or_default();
                println!("         {name:<10} {:<8} burns {:.2} cores", candidate.class.to_string(), candidate.burn_cores);
            }
            return Ok(());
        }
    }
    Err("it did not come to rest".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(run())
}
