//! Brackets around work, one within another on one thread: each is told what it took without those within it.
//!
//! * **N1** Each thread counts the wall and processor time of all brackets that ended on it, those within others once. A bracket takes
//!   what was counted between its two ends off its own time, and is counted with the rest. Nothing is counted twice, whatever the order
//!   in which brackets end: a time that comes out negative is 0.
//! * **N2** Within a bracket of a stream, a further one of the same stream does nothing: the outer one counts.
//! * **N3** No bracket is the innermost one once it has ended, or its stream would be charged nothing more on this thread (N2). So
//!   one that ends while another is the innermost leaves none: what is around it may have ended before it.

use std::cell::Cell;

use super::timing::{Clock, Cpu, Spent, measures_late, thread_cpu};

/// What a thread knows of its brackets.
struct Nesting {
    /// The stream whose bracket is the innermost open one; 0: none.
    stream: Cell<u64>,
    /// When that began; 0: none.
    start: Cell<u64>,
    /// N1.
    wall: Cell<u64>,
    /// N1.
    cpu: Cell<u64>,
    last: Cell<Read>,
}

/// What there was when the processor clock was last read for a bracket that is within no other. (0 is true as well: the thread
/// began there, at some time.)
#[derive(Clone, Copy, Debug)]
struct Read {
    at: u64,
    clock: u64,
    /// N1, then.
    wall: u64,
    /// N1, then.
    cpu: u64,
}

thread_local! {
    static NESTING: Nesting = const {
        Nesting {
            stream: Cell::new(0),
            start: Cell::new(0),
            wall: Cell::new(0),
            cpu: Cell::new(0),
            last: Cell::new(Read { at: 0, clock: 0, wall: 0, cpu: 0 }),
        }
    };
}

/// The stream whose bracket is the innermost open one of this thread, and when that began.
pub(super) fn innermost() -> Option<(u64, u64)> {
    let (stream, start) = NESTING.with(|nesting| (nesting.stream.get(), nesting.start.get()));
    (stream != 0).then_some((stream, start))
}

/// The bracket around one.
#[derive(Clone, Copy, Debug)]
struct Outer {
    stream: u64,
    start: u64,
    wall: u64,
    cpu: u64,
}

/// An open bracket. It does not end by itself: whoever opens it sees to that with a drop guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    start: u64,
    cpu: Option<u64>,
    outer: Outer,
}

impl Bracket {
    /// Opens a bracket of `stream`; `None` within one of the same stream (N2).
    #[inline(always)]
    pub(super) fn open(clock: &Clock, stream: u64, measured: bool) -> Option<Self> {
        if NESTING.with(|nesting| nesting.stream.get()) == stream {
            return None;
        }
        Some(Self::begin(clock, stream, measured))
    }

    /// Opens a bracket of nobody's: what is within is no stream's, unless a stream opens a bracket there.
    pub(super) fn open_excluded(clock: &Clock) -> Self {
        Self::begin(clock, 0, false)
    }

    #[inline(always)]
    fn begin(clock: &Clock, stream: u64, measured: bool) -> Self {
        let cpu = if measured { thread_cpu() } else { None };
        let start = clock.now();
        let outer = NESTING.with(|nesting| Outer {
            stream: nesting.stream.replace(stream),
            start: nesting.start.replace(start),
            wall: nesting.wall.get(),
            cpu: nesting.cpu.get(),
        });
        if let Some(clock) = cpu {
            outer.remember(Read { at: start, clock, wall: outer.wall, cpu: outer.cpu });
        }
        Self { start, cpu, outer }
    }

    #[inline(always)]
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Ends it, is told by `charge` what processor time it stands for, and lets the outer one go on. The answer is what `charge`
    /// answered, and how long it was open.
    #[inline(always)]
    pub(super) fn close(self, clock: &Clock, charge: impl FnOnce(Spent) -> u64) -> (u64, u64) {
        let Self { start, cpu, outer } = self;
        let end = clock.now();
        let (inner_wall, inner_cpu) = NESTING.with(|nesting| (nesting.wall.get(), nesting.cpu.get()));
        let whole = end.saturating_sub(start);
        let wall = whole.saturating_sub(inner_wall.saturating_sub(outer.wall));
        let within = inner_cpu.saturating_sub(outer.cpu);
        let read = if cpu.is_some() || measures_late(clock.timing(), wall) { thread_cpu() } else { None };
        let cpu = read.map_or(Cpu::Unknown, |read| self.measured(read, within));
        let charged = charge(Spent { wall, cpu });
        let (wall, cpu) = (inner_wall.saturating_add(wall), inner_cpu.saturating_add(charged));
        NESTING.with(|nesting| {
            let in_turn = nesting.start.get() == start;
            nesting.stream.set(if in_turn { outer.stream } else { 0 });
            nesting.start.set(if in_turn { outer.start } else { 0 });
            nesting.wall.set(wall);
            nesting.cpu.set(cpu);
        });
        if let Some(clock) = read {
            outer.remember(Read { at: end, clock, wall, cpu });
        }
        (charged, whole)
    }

    /// What the processor clock, which says `now` at the end of the bracket, says of it; those within it were charged `within`.
    #[cold]
    fn measured(&self, now: u64, within: u64) -> Cpu {
        if let Some(begin) = self.cpu {
            return Cpu::Exactly(now.saturating_sub(begin).saturating_sub(within));
        }
        let (last, charged) = NESTING.with(|nesting| (nesting.last.get(), nesting.cpu.get()));
        let most = now.saturating_sub(last.clock).saturating_sub(charged.saturating_sub(last.cpu));
        let before = self.start.saturating_sub(last.at).saturating_sub(self.outer.wall.saturating_sub(last.wall));
        Cpu::Between(most.saturating_sub(before), most)
    }
}

impl Outer {
    /// Within another bracket nothing is remembered: what that one used until then could not be told any more.
    #[cold]
    fn remember(&self, read: Read) {
        if self.start == 0 {
            NESTING.with(|nesting| nesting.last.set(read));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::meter::Timing;

    fn wall() -> Clock {
        Clock::new(Instant::now(), Timing::Wall)
    }

    /// At least this much of wall time goes by.
    fn spin(micros: u64) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn inner_bracket_of_another_stream_is_taken_off_the_outer_one() {
        let clock = wall();
        let outer = Bracket::open(&clock, 1, false).unwrap();
        spin(50);
        let inner = Bracket::open(&clock, 2, false).unwrap();
        spin(200);
        let (of_inner, _) = inner.close(&clock, |spent| spent.wall);
        assert_eq!(innermost(), Some((1, outer.start())));
        let (of_outer, whole) = outer.close(&clock, |spent| spent.wall);
        assert!(of_inner >= 200_000, "{of_inner}");
        assert!(of_outer >= 50_000, "{of_outer}");
        assert_eq!(of_inner + of_outer, whole, "each nanosecond once");
        assert_eq!(innermost(), None);
    }

    #[test]
    fn bracket_within_one_of_the_same_stream_does_nothing() {
        let clock = wall();
        let outer = Bracket::open(&clock, 1, false).unwrap();
        assert!(Bracket::open(&clock, 1, true).is_none());
        let other = Bracket::open(&clock, 2, false).unwrap();
        assert!(Bracket::open(&clock, 1, false).is_some_and(|third| third.close(&clock, |spent| spent.wall).1 > 0));
        other.close(&clock, |spent| spent.wall);
        outer.close(&clock, |spent| spent.wall);
    }

    #[test]
    fn brackets_that_end_in_the_wrong_order_count_no_time_twice_and_hold_up_none_that_follow() {
        let clock = wall();
        let [first, second] = [1, 2].map(|stream| Bracket::open(&clock, stream, false).unwrap());
        first.close(&clock, |_| 0);
        second.close(&clock, |_| 0);
        assert_eq!(innermost(), None, "not the first one, which was around the second");
        for (before, after) in [(20, 20), (20, 200), (200, 20)] {
            let around = Bracket::open(&clock, 3, false).unwrap();
            let first = Bracket::open(&clock, 1, false).unwrap();
            spin(before);
            let second = Bracket::open(&clock, 2, false).unwrap();
            spin(20);
            let (of_first, _) = first.close(&clock, |spent| spent.wall);
            spin(after);
            let (of_second, _) = second.close(&clock, |spent| spent.wall);
            let (of_around, whole) = around.close(&clock, |spent| spent.wall);
            assert!(of_first + of_second + of_around <= whole, "{of_first}, {of_second} and {of_around} of {whole}");
            assert_eq!(innermost(), None, "all are over");
            for stream in [1, 2, 3] {
                Bracket::open(&clock, stream, false).expect("it counts again").close(&clock, |_| 0);
            }
        }
    }

    #[test]
    fn processor_time_within_is_taken_off_where_it_was_measured_and_where_it_was_charged() {
        let clock = wall();
        let Some(begin) = thread_cpu() else { return };
        let outer = Bracket::open(&clock, 1, true).unwrap();
        let inner = Bracket::open(&clock, 2, false).unwrap();
        spin(500);
        // The inner one was not measured, and is charged by another's ratio.
        inner.close(&clock, |spent| {
            assert_eq!(spent.cpu, Cpu::Unknown);
            100_000
        });
        let mut of_outer = Cpu::Unknown;
        outer.close(&clock, |spent| {
            of_outer = spent.cpu;
            0
        });
        let used = thread_cpu().unwrap() - begin;
        let Cpu::Exactly(of_outer) = of_outer else { panic!("{of_outer:?}") };
        assert!(of_outer + 100_000 <= used, "{of_outer} and what the inner one was charged, of {used}");
    }

    #[test]
    fn long_bracket_that_was_not_measured_is_bounded_by_what_the_thread_used_since_the_last_reading() {
        let clock = Clock::new(Instant::now(), Timing::Adaptive);
        let Some(begin) = thread_cpu() else { return };
        let cpu_of = |bracket: Bracket, charged| {
            let mut cpu = Cpu::Unknown;
            bracket.close(&clock, |spent| {
                cpu = spent.cpu;
                charged
            });
            cpu
        };
        assert!(matches!(cpu_of(Bracket::open(&clock, 1, true).unwrap(), 0), Cpu::Exactly(_)));
        let first = Bracket::open(&clock, 1, false).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let Cpu::Between(least, most) = cpu_of(first, 0) else { panic!("it was longer than 20 us") };
        assert!(least <= most && most < thread_cpu().unwrap() - begin, "{most}: it slept");
        assert!(matches!(cpu_of(Bracket::open(&clock, 1, true).unwrap(), 0), Cpu::Exactly(_)));
        let charged = Bracket::open(&clock, 2, false).unwrap();
        spin(10);
        // By a clock that is not read late either, however long this thread was off its core.
        charged.close(&wall(), |_| u64::MAX / 2);
        let second = Bracket::open(&clock, 1, false).unwrap();
        spin(100);
        assert_eq!(cpu_of(second, 0), Cpu::Between(0, 0), "what others were charged since is not in it");
    }

    #[test]
    fn long_bracket_with_a_measured_one_within_is_bounded_by_all_that_it_used() {
        let clock = Clock::new(Instant::now(), Timing::Adaptive);
        if thread_cpu().is_none() {
            return;
        }
        Bracket::open(&clock, 1, true).unwrap().close(&clock, |_| 0);
        let outer = Bracket::open(&clock, 1, false).unwrap();
        let begin = thread_cpu().unwrap();
        spin(300);
        let before = thread_cpu().unwrap() - begin;
        Bracket::open(&clock, 2, true).unwrap().close(&clock, |_| 0);
        outer.close(&clock, |spent| {
            let Cpu::Between(_, most) = spent.cpu else { panic!("{spent:?}") };
            assert!(most >= before, "{most} of {before}");
            0
        });
    }
}
