//! How a bracket is timed: by the wall, by the thread's processor clock, or by both in turn.

use std::time::{Duration, Instant};

/// A bracket of at least this length has the next one measured by the processor clock: two readings (about 0.4 us) are then less
/// than two parts in a hundred of it.
const LONG: u64 = 20_000;
/// Of short brackets one in so many is measured by the processor clock: two readings are then about 23 ns per bracket.
const EVERY: u32 = 16;
/// How much measured wall time the ratio remembers, in nanoseconds: some dozens of preemptions by a busy neighbour.
const REMEMBERED: u64 = 100_000_000;
/// A ratio of one: brackets that were never measured are taken to have been on the processor throughout.
const WHOLE: u32 = 1 << 16;

/// How brackets are timed.
///
/// What one bracket costs is for `cargo bench --bench meter` to say. There is no mode that reads the processor's time stamp counter:
/// `std` has no such clock, and the crate for it (`quanta`) calibrates, for up to 200 ms, a clock that all of the process
/// shares, and reads beside the kernel, which leaves that counter where it is not to be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timing {
    /// Wall time for every bracket, and the thread's processor time for those that follow one of at least 20 us, and for one in 16. The
    /// others' wall time is scaled by the share that was on the processor in those that were measured lately.
    ///
    /// Where one of the others turns out to last for 20 us or more, which most often means that its thread was preempted, the processor
    /// clock is read once at its end: what it says since it was last read on that thread, for whatever stream, bounds the bracket.
    #[default]
    Adaptive,
    /// The thread's processor time for every bracket: exact, and two system calls each.
    ThreadCpu,
    /// Wall time: cheapest, and far too high where threads wait for a processor, which is where it matters.
    Wall,
}

/// The processor time that all threads of this process have used, those that are gone included: the exact total that
/// [`Meter::sample`](super::Meter::sample) wants. `None` where there is no such clock (all but Linux).
///
/// # Examples
/// ```
/// use std::time::Instant;
///
/// use keywake::meter::{Meter, process_cpu};
/// let meter = Meter::new();
/// assert!(meter.sample(Instant::now(), process_cpu()).is_none(), "the first one begins the first interval");
/// ```
#[must_use]
pub fn process_cpu() -> Option<Duration> {
    platform::process_cpu().map(Duration::from_nanos)
}

/// The processor time that this thread has used, in nanoseconds.
pub(super) fn thread_cpu() -> Option<u64> {
    platform::thread_cpu()
}

#[cfg(target_os = "linux")]
mod platform {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn process_cpu() -> Option<u64> {
        read(ClockId::ProcessCPUTime)
    }

    pub(super) fn thread_cpu() -> Option<u64> {
        read(ClockId::ThreadCPUTime)
    }

    /// The clock behind `Instant`, as a number: to make one of an `Instant` costs half as much again as to read it.
    #[inline(always)]
    pub(super) fn monotonic() -> Option<u64> {
        read(ClockId::Monotonic)
    }

    #[inline(always)]
    fn read(clock: ClockId) -> Option<u64> {
        let time = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    pub(super) fn process_cpu() -> Option<u64> {
        None
    }

    pub(super) fn thread_cpu() -> Option<u64> {
        None
    }

    pub(super) fn monotonic() -> Option<u64> {
        None
    }
}

/// A whole number of nanoseconds; centuries are cut.
pub(super) fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

/// A meter's clocks: how it times, and when its stamps begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    /// The stamp of the origin.
    first: u64,
    timing: Timing,
}

impl Clock {
    /// With the mode that was asked for, or `Wall` where threads have no processor clock.
    pub(super) fn new(origin: Instant, asked: Timing) -> Self {
        let first = platform::monotonic().map_or(1, |now| now.saturating_sub(nanos(origin.elapsed())).max(1));
        Self { origin, first, timing: if thread_cpu().is_some() { asked } else { Timing::Wall } }
    }

    #[inline]
    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    /// Now, as a stamp.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        match platform::monotonic() {
            Some(now) => now,
            None => self.stamp(Instant::now()),
        }
    }

    /// Nanoseconds of the clock of `Instant`; never 0, which is no stamp. Before the origin it stands at the origin.
    #[cold]
    pub(super) fn stamp(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.origin)).saturating_add(self.first)
    }
}

/// What a bracket took, without what other brackets within it took; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) wall: u64,
    pub(super) cpu: Cpu,
}

/// What the processor clock said of a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cpu {
    /// It was read at the end only: the least and the most that it can have been. The most is what was used since it was read
    /// before and not charged to anybody; the least is that without the time that was in no bracket.
    Between(u64, u64),
    /// It was read at both ends.
    Exactly(u64),
    /// It was not read.
    Unknown,
}

/// Whether the processor clock is to be read at the end of a bracket of this wall time for which it was not read at the beginning.
#[inline(always)]
pub(super) fn measures_late(timing: Timing, wall: u64) -> bool {
    timing == Timing::Adaptive && wall >= LONG
}

/// Which brackets are measured by the processor clock, and what the others are charged by what these showed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    previous: u64,
    until_measured: u32,
    /// Of brackets below `LONG`, by which those that are not measured are charged.
    short: Ratio,
    /// Of all brackets, by which what is open is estimated.
    all: Ratio,
}

impl Rhythm {
    pub(super) const fn new() -> Self {
        Self { previous: 0, until_measured: 0, short: Ratio::new(), all: Ratio::new() }
    }

    /// Whether the bracket that begins now is to be measured by the processor clock.
    #[inline(always)]
    pub(super) fn measures(&self, timing: Timing) -> bool {
        match timing {
            Timing::Adaptive => self.until_measured == 0 || self.previous >= LONG,
            Timing::ThreadCpu => true,
            Timing::Wall => false,
        }
    }

    /// What the bracket is charged: processor time where it was measured, or else wall time scaled; nanoseconds.
    #[inline(always)]
    pub(super) fn charge(&mut self, Spent { wall, cpu }: Spent) -> u64 {
        self.previous = wall;
        if cpu != Cpu::Unknown {
            return self.charge_measured(wall, cpu);
        }
        self.until_measured = self.until_measured.saturating_sub(1);
        scaled(wall, self.short.parts)
    }

    #[cold]
    fn charge_measured(&mut self, wall: u64, cpu: Cpu) -> u64 {
        match cpu {
            Cpu::Exactly(cpu) => {
                self.until_measured = EVERY - 1;
                // The readings of the processor clock stand around those of the wall, so that it counts a part of itself: for a
                // bracket of some nanoseconds more than the bracket. No thread is on the processor for longer than it takes.
                let cpu = cpu.min(wall);
                if wall < LONG {
                    self.short.add(wall, cpu);
                }
                self.all.add(wall, cpu);
                cpu
            }
            Cpu::Between(least, most) => {
                // A thread that is preempted is so for longer than this.
                let parts = if wall < 2 * LONG { self.short.parts } else { self.all.parts };
                let cpu = scaled(wall, parts).max(least).min(most).min(wall);
                if least.saturating_add(LONG) >= most {
                    self.all.add(wall, cpu);
                }
                cpu
            }
            Cpu::Unknown => scaled(wall, self.short.parts),
        }
    }

    /// The share of wall time that was on the processor lately, in parts of `WHOLE`.
    #[inline(always)]
    pub(super) fn ratio(&self) -> u32 {
        self.all.parts
    }
}

/// The share of wall time that was on the processor, weighed by wall time: what was waited for in one long bracket counts as much as in
/// many short ones.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    wall: u64,
    cpu: u64,
    /// Of `WHOLE`.
    parts: u32,
}

impl Ratio {
    const fn new() -> Self {
        Self { wall: 0, cpu: 0, parts: WHOLE }
    }

    fn add(&mut self, wall: u64, cpu: u64) {
        let (wall, cpu) = (self.wall.saturating_add(wall), self.cpu.saturating_add(cpu));
        let parts = part(u64::from(WHOLE), cpu, wall);
        self.parts = u32::try_from(parts).map_or(WHOLE, |parts| parts.min(WHOLE));
        if wall > 2 * REMEMBERED {
            (self.wall, self.cpu) = (REMEMBERED, part(REMEMBERED, cpu, wall));
        } else {
            (self.wall, self.cpu) = (wall, cpu);
        }
    }
}

/// Wall time scaled by a ratio.
#[inline(always)]
pub(super) fn scaled(wall: u64, ratio: u32) -> u64 {
    part(wall, u64::from(ratio), u64::from(WHOLE))
}

/// `whole * part / of`, rounded down; `whole` if it would be more, or `of` is 0.
#[inline(always)]
pub(super) fn part(whole: u64, part: u64, of: u64) -> u64 {
    if part >= of {
        return whole;
    }
    match whole.checked_mul(part) {
        Some(product) => product / of,
        None => u64::try_from(u128::from(whole) * u128::from(part) / u128::from(of)).unwrap_or(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: u64 = 1_000;

    fn xorshift(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Charges brackets of these wall times, each on the processor for `percent`; the answer is which were measured, and the charge.
    fn charge(rhythm: &mut Rhythm, timing: Timing, percent: u64, walls: impl IntoIterator<Item = u64>) -> (Vec<bool>, u64) {
        let mut charged = 0;
        let measured = walls
            .into_iter()
            .map(|wall| {
                let measures = rhythm.measures(timing);
                let cpu = if measures { Cpu::Exactly(wall * percent / 100) } else { Cpu::Unknown };
                charged += rhythm.charge(Spent { wall, cpu });
                measures
            })
            .collect();
        (measured, charged)
    }

    #[test]
    fn one_short_bracket_in_sixteen_is_measured_and_the_first() {
        let (measured, _) = charge(&mut Rhythm::new(), Timing::Adaptive, 100, [MICRO; 160]);
        let at: Vec<_> = measured.iter().enumerate().filter(|(_, measured)| **measured).map(|(at, _)| at).collect();
        assert_eq!(at, [0, 16, 32, 48, 64, 80, 96, 112, 128, 144]);
    }

    #[test]
    fn bracket_after_one_of_twenty_microseconds_is_measured() {
        let walls = [MICRO, 19_999, MICRO, 20_000, MICRO, MICRO, 5_000_000, 5_000_000, MICRO, MICRO];
        let (measured, _) = charge(&mut Rhythm::new(), Timing::Adaptive, 100, walls);
        assert_eq!(measured, [true, false, false, false, true, false, false, true, true, false]);
    }

    #[test]
    fn thread_clock_measures_every_bracket_and_the_wall_none() {
        assert_eq!(charge(&mut Rhythm::new(), Timing::ThreadCpu, 50, [MICRO; 40]), (vec![true; 40], 20 * MICRO));
        assert_eq!(charge(&mut Rhythm::new(), Timing::Wall, 50, [MICRO; 40]), (vec![false; 40], 40 * MICRO));
    }

    #[test]
    fn what_is_not_measured_is_scaled_by_what_was() {
        let mut rhythm = Rhythm::new();
        let (_, charged) = charge(&mut rhythm, Timing::Adaptive, 25, [MICRO; 1_600]);
        assert!(charged.abs_diff(400 * MICRO) <= 1_600, "{charged}: a nanosecond each is lost in rounding");
        assert_eq!(rhythm.ratio(), WHOLE / 4);
    }

    #[test]
    fn short_bracket_that_was_preempted_is_charged_what_the_thread_used_and_spoils_no_other() {
        let mut rhythm = Rhythm::new();
        charge(&mut rhythm, Timing::Adaptive, 100, [5 * MICRO; 16]);
        assert!(measures_late(Timing::Adaptive, 8_000 * MICRO));
        let cpu = Cpu::Between(50 * MICRO, 60 * MICRO);
        assert_eq!(rhythm.charge(Spent { wall: 8_000 * MICRO, cpu }), 60 * MICRO);
        assert_eq!(rhythm.charge(Spent { wall: 5 * MICRO, cpu: Cpu::Unknown }), 5 * MICRO);
        // What is open then, and for long, is thought to wait as well.
        assert!(rhythm.ratio() < WHOLE / 20, "{}", rhythm.ratio());
        let loose = rhythm.charge(Spent { wall: 8_000 * MICRO, cpu: Cpu::Between(0, u64::MAX) });
        assert!(loose < 400 * MICRO, "{loose}: bounds that say nothing leave the ratio");
        let loose = rhythm.charge(Spent { wall: 21 * MICRO, cpu: Cpu::Between(0, u64::MAX) });
        assert_eq!(loose, 21 * MICRO, "no thread is preempted for so short a time");
        assert!(!measures_late(Timing::Adaptive, 19_999) && !measures_late(Timing::Wall, 20_000));
    }

    #[test]
    fn stream_that_is_no_longer_starved_is_charged_in_full_again_soon() {
        let mut rhythm = Rhythm::new();
        charge(&mut rhythm, Timing::Adaptive, 10, [10_000 * MICRO; 100]);
        assert_eq!(rhythm.ratio(), WHOLE / 10);
        // Half a second of measured time.
        charge(&mut rhythm, Timing::Adaptive, 100, [10_000 * MICRO; 50]);
        assert!(rhythm.ratio() > WHOLE * 8 / 10, "{}", rhythm.ratio());
    }

    #[test]
    fn bracket_is_never_charged_more_than_it_took() {
        let mut rhythm = Rhythm::new();
        assert_eq!(rhythm.charge(Spent { wall: 40, cpu: Cpu::Exactly(215) }), 40, "the clock counts a part of itself");
        assert_eq!(rhythm.ratio(), WHOLE);
        let mut state = 1;
        for _ in 0..100_000 {
            let wall = xorshift(&mut state) >> (xorshift(&mut state) % 64);
            let cpu = xorshift(&mut state) >> (xorshift(&mut state) % 64);
            let cpu =
                [Cpu::Between(cpu / 2, cpu), Cpu::Exactly(cpu), Cpu::Unknown][usize::try_from(xorshift(&mut state) % 3).unwrap()];
            assert!(rhythm.charge(Spent { wall, cpu }) <= wall);
            for ratio in [rhythm.short, rhythm.all] {
                assert!(ratio.parts <= WHOLE && ratio.cpu <= ratio.wall, "{rhythm:?}");
            }
        }
    }

    #[test]
    fn part_is_the_exact_one_rounded_down() {
        let mut state = 7;
        for _ in 0..100_000 {
            let [whole, small, large] = std::array::from_fn(|_| xorshift(&mut state) >> (xorshift(&mut state) % 64));
            let exact = u128::from(whole) * u128::from(small) / u128::from(large.max(1));
            let expected = if small >= large { whole } else { u64::try_from(exact).unwrap() };
            assert_eq!(part(whole, small, large), expected, "{whole} * {small} / {large}");
        }
        assert_eq!(part(5, 0, 0), 5);
    }

    #[test]
    fn stamp_of_a_clock_that_goes_back_stands_at_the_origin() {
        let origin = Instant::now();
        let clock = Clock::new(origin + Duration::from_secs(1), Timing::Wall);
        assert_eq!(clock.stamp(origin), clock.first);
        assert_eq!(clock.stamp(origin + Duration::from_secs(2)), clock.first + 1_000_000_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn stamps_of_now_and_of_an_instant_are_of_one_clock() {
        let clock = Clock::new(Instant::now(), Timing::Wall);
        for _ in 0..100 {
            let (first, instant, last) = (clock.now(), Instant::now(), clock.now());
            // The two were put side by side with some microseconds between, or, if the thread was off its core then, more.
            let off = clock.stamp(instant).abs_diff(first).min(clock.stamp(instant).abs_diff(last));
            assert!(off < 1_000_000_000 && first <= last, "{first} {instant:?} {last}");
            assert_ne!(first, 0);
        }
    }

    #[test]
    fn processor_clocks_go_on_with_work_and_only_with_it() {
        let (Some(process), Some(thread)) = (process_cpu(), thread_cpu()) else {
            assert_ne!(Clock::new(Instant::now(), Timing::Adaptive).timing(), Timing::Adaptive);
            return;
        };
        while thread_cpu().unwrap() < thread + 2_000_000 {
            std::hint::spin_loop();
        }
        assert!(process_cpu().unwrap() >= process + Duration::from_millis(2));
        assert_eq!(Clock::new(Instant::now(), Timing::Adaptive).timing(), Timing::Adaptive);
    }
}
