//! Brackets around work, one within another on one thread: each is told what it took without those within it.
//!
//! * **N1** Each thread counts the wall and processor time of all brackets that ended on it, those within others once. A bracket takes
//!   what was counted between its two ends off its own time. Nothing is counted twice, whatever the order in which brackets end:
//!   a time that comes out negative is 0.
//! * **N2** Within a bracket of a stream, a further one of the same stream does nothing: the outer one counts.

use std::cell::Cell;

use super::timing::{Clock, Cpu, Spent, measures_late, thread_cpu};

/// What a thread knows of its brackets.
#[derive(Clone, Copy, Debug)]
struct Nesting {
    /// The stream whose bracket is the innermost open one; 0: none.
    stream: u64,
    /// When that began; 0: none.
    start: u64,
    /// N1.
    wall: u64,
    /// N1.
    cpu: u64,
    /// What the processor clock said when it was last read for a bracket. (0 is true as well: the thread began there.)
    read: u64,
    /// `cpu` at that time.
    cpu_at_read: u64,
}

thread_local! {
    static NESTING: Cell<Nesting> = const { Cell::new(Nesting { stream: 0, start: 0, wall: 0, cpu: 0, read: 0, cpu_at_read: 0 }) };
}

/// The stream whose bracket is the innermost open one of this thread, and when that began.
pub(super) fn innermost() -> Option<(u64, u64)> {
    let Nesting { stream, start, .. } = NESTING.get();
    (stream != 0).then_some((stream, start))
}

/// An open bracket. It does not end by itself: whoever opens it sees to that with a drop guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    start: u64,
    cpu: Option<u64>,
    outer: Nesting,
}

impl Bracket {
    /// Opens a bracket of `stream`; `None` within one of the same stream (N2).
    #[inline]
    pub(super) fn open(clock: &Clock, stream: u64, measured: bool) -> Option<Self> {
        let outer = NESTING.get();
        if outer.stream == stream {
            return None;
        }
        Some(Self::begin(clock, outer, stream, measured))
    }

    /// Opens a bracket of nobody's: what is within is no stream's, unless a stream opens a bracket there.
    pub(super) fn open_excluded(clock: &Clock) -> Self {
        Self::begin(clock, NESTING.get(), 0, false)
    }

    #[inline]
    fn begin(clock: &Clock, outer: Nesting, stream: u64, measured: bool) -> Self {
        let cpu = if measured { thread_cpu() } else { None };
        let start = clock.now();
        let (read, cpu_at_read) = cpu.map_or((outer.read, outer.cpu_at_read), |cpu| (cpu, outer.cpu));
        NESTING.set(Nesting { stream, start, read, cpu_at_read, ..outer });
        Self { start, cpu, outer }
    }

    #[inline]
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Ends it, is told by `charge` what processor time it stands for, and lets the outer one go on. The answer is what `charge`
    /// answered, and how long it was open.
    #[inline]
    pub(super) fn close(self, clock: &Clock, charge: impl FnOnce(Spent) -> u64) -> (u64, u64) {
        let end = clock.now();
        let inner = NESTING.get();
        let whole = end.saturating_sub(self.start);
        let wall = whole.saturating_sub(inner.wall.saturating_sub(self.outer.wall));
        let within = inner.cpu.saturating_sub(self.outer.cpu);
        let read = if self.cpu.is_some() || measures_late(clock.timing(), wall) { thread_cpu() } else { None };
        let cpu = match (self.cpu, read) {
            (Some(start), Some(end)) => Cpu::Exactly(end.saturating_sub(start).saturating_sub(within)),
            (None, Some(end)) => {
                let charged = inner.cpu.saturating_sub(inner.cpu_at_read);
                Cpu::AtMost(end.saturating_sub(inner.read).saturating_sub(charged))
            }
            (_, None) => Cpu::Unknown,
        };
        let charged = charge(Spent { wall, cpu });
        let cpu = self.outer.cpu.saturating_add(within).saturating_add(charged);
        let (read, cpu_at_read) = read.map_or((inner.read, inner.cpu_at_read), |read| (read, cpu));
        NESTING.set(Nesting { wall: self.outer.wall.saturating_add(whole), cpu, read, cpu_at_read, ..self.outer });
        (charged, whole)
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
    fn brackets_that_end_in_the_wrong_order_count_no_time_twice() {
        let clock = wall();
        let begin = clock.now();
        let first = Bracket::open(&clock, 1, false).unwrap();
        spin(20);
        let second = Bracket::open(&clock, 2, false).unwrap();
        spin(20);
        let (of_first, _) = first.close(&clock, |spent| spent.wall);
        spin(100);
        let (of_second, _) = second.close(&clock, |spent| spent.wall);
        assert!(of_first + of_second <= clock.now() - begin, "{of_first} and {of_second}");
        NESTING.set(Nesting { stream: 0, start: 0, ..NESTING.get() });
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
        let Cpu::AtMost(bound) = cpu_of(first, 0) else { panic!("it was longer than 20 us") };
        assert!(bound < thread_cpu().unwrap() - begin, "{bound}: it slept");
        assert!(matches!(cpu_of(Bracket::open(&clock, 1, true).unwrap(), 0), Cpu::Exactly(_)));
        let charged = Bracket::open(&clock, 2, false).unwrap();
        spin(10);
        charged.close(&clock, |_| u64::MAX / 2);
        let second = Bracket::open(&clock, 1, false).unwrap();
        spin(100);
        assert_eq!(cpu_of(second, 0), Cpu::AtMost(0), "what others were charged since is not in it");
    }
}
