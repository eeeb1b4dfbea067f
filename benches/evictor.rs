//! How long does a step of the evictor hold up its driver with very many streams, and how long a whole tick?
//!
//! A quiet step is of a process on half of its quota, one with a round of a process that is saturated and lets fifty go; the tick is the
//! driver's with a source that costs nothing: the meter's sample, its split over the streams, and a quiet step.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::{Duration, Instant};

use keywake::{
    load::{CpuSample, StreamClass},
    overload::{
        driver::{CpuRead, CpuSource, DriverBuilder, StreamInfo},
        evictor::{Action, Evictor, EvictorBuilder, Mode, StreamSample},
    },
};
use measure::{clock::median, surroundings};

#[expect(dead_code, reason = "each bench uses its part")]
mod measure;

const INTERVAL: Duration = Duration::from_secs(5);

/// Milliseconds.
fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// So much of a quota of 16 cores is used.
fn sample(now: Instant, ratio: f64) -> CpuSample {
    let mut sample = CpuSample::new(now, INTERVAL, 16.0 * ratio);
    sample.quota_cores = Some(16.0);
    sample
}

/// The processes of one kind, each of `count` streams, tick by tick.
struct Process {
    evictor: Evictor<u64>,
    streams: Vec<StreamSample<u64>>,
    now: Instant,
}

impl Process {
    fn new(count: usize) -> Self {
        let builder = EvictorBuilder::new().mode(Mode::Full).min_burn_cores(0.0).cooldown(INTERVAL);
        let began = Instant::now();
        // Ids as the meter gives them, classes and burns mixed.
        let classes = [StreamClass::Live, StreamClass::Dev, StreamClass::CatchUp];
        let streams = (0..count as u64).zip(classes.into_iter().cycle());
        let streams = streams.map(|(id, class)| StreamSample::new(id, class, began, Duration::ZERO)).collect();
        Self { evictor: builder.build().expect("settings that work"), streams, now: began + Duration::from_secs(1_000) }
    }

    /// The milliseconds of one step, and how many it let go.
    fn step(&mut self, ratio: f64) -> (f64, usize) {
        self.now += INTERVAL;
        let each = INTERVAL.as_secs_f64() * 16.0 * ratio / self.streams.len() as f64;
        for stream in &mut self.streams {
            // From half to one and a half of the mean.
            let part = 0.5 + (stream.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
            stream.cpu += Duration::from_secs_f64(each * part);
        }
        let sample = sample(self.now, ratio);
        let began = Instant::now();
        let actions = self.evictor.step(Ok(&sample), &self.streams, self.now);
        let time = ms(began);
        (time, actions.iter().filter(|action| matches!(action, Action::Evict(_))).count())
    }
}

struct Half;

impl CpuSource for Half {
    fn read(&mut self, now: Instant) -> CpuRead {
        CpuRead::Sample(sample(now, 0.5))
    }
}

/// Milliseconds of the driver's ticks.
fn ticks(count: usize, rounds: usize) -> Vec<f64> {
    let driver = DriverBuilder::new(EvictorBuilder::new().mode(Mode::Full)).source(Half).build().expect("settings that work");
    let began = Instant::now();
    let streams: Vec<_> =
        (0..count).map(|_| driver.streams().register(StreamInfo::new(StreamClass::Live, "one"), began)).collect();
    let mut now = began;
    let mut tick = || {
        now += INTERVAL;
        let began = Instant::now();
        assert!(driver.tick(now).lines.len() < 2);
        ms(began)
    };
    // The first ones fill what is kept.
    (0..4).for_each(|_| _ = tick());
    let times = (0..rounds).map(|_| tick()).collect();
    drop(streams);
    times
}

fn row(name: &str, count: usize, mut times: Vec<f64>) {
    let middle = median(&mut times);
    println!("| {name} | {count} | {middle:.2} | {:.2} |", times[times.len() - 1]);
}

fn main() {
    let (rounds, counts) = if measure::full_size() { (51, &[7_000, 70_000, 200_000][..]) } else { (3, &[100][..]) };
    surroundings::print();
    println!("* median and longest of {rounds}\n");
    println!("| what | streams | ms | longest, ms |");
    println!("|---|---|---|---|");
    for &count in counts {
        let mut calm = Process::new(count);
        (0..4).for_each(|_| _ = calm.step(0.5));
        row("quiet step", count, (0..rounds).map(|_| calm.step(0.5).0).collect());
        let mut hot = Process::new(count);
        (0..5).for_each(|_| _ = hot.step(1.0));
        // Each of these ticks is one of a round: the cooldown is the interval, and five minutes are longer than that takes.
        let steps: Vec<_> = (0..rounds).map(|_| hot.step(1.0)).filter(|(_, gone)| *gone > 0).map(|(time, _)| time).collect();
        row("step with a round", count, steps);
        row("driver's quiet tick", count, ticks(count, rounds));
    }
}
