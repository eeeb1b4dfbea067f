//! System calls, counted from outside of this process: by `perf`, or else by `strace`, where the kernel lets them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{self, Child, ChildStderr, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Who counts.
pub(crate) enum Tracer {
    /// `perf stat`, on the tracepoint of all system calls: costs them little.
    Perf,
    /// `strace`: stops the thread at every call, so that what runs meanwhile is another situation than without it.
    Strace,
    /// Neither is there or allowed.
    Nobody,
}

impl Tracer {
    /// The first one that counts something.
    pub(crate) fn find() -> Self {
        let something = || drop(std::fs::metadata("/"));
        [Self::Perf, Self::Strace]
            .into_iter()
            .find(|tracer| tracer.count(something).is_some_and(|n| n > 0))
            .unwrap_or(Self::Nobody)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Perf => "perf stat -e raw_syscalls:sys_enter",
            Self::Strace => "strace -f -c (perf is not there or not allowed), which slows each of them down",
            Self::Nobody => "not counted: neither perf nor strace is there and allowed",
        }
    }

    /// The system calls of all threads of this process during `work`.
    pub(crate) fn count(&self, work: impl FnOnce()) -> Option<u64> {
        match self {
            Self::Perf => count_by_perf(work),
            Self::Strace => count_by_strace(work),
            Self::Nobody => None,
        }
    }
}

fn count_by_perf(work: impl FnOnce()) -> Option<u64> {
    let own = process::id().to_string();
    let arguments = ["stat", "-x,", "-D", "-1", "--control", "fd:0,1", "-e", "raw_syscalls:sys_enter", "-p", &own];
    let mut perf = Command::new("perf");
    let mut perf = perf.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let (mut orders, answers) = (perf.stdin.take()?, perf.stdout.take()?);
    let mut answers = BufReader::new(answers);
    let mut order = |order: &[u8]| {
        let mut answer = Vec::new();
        orders.write_all(order).ok()?;
        // `ack`, then a new line and a zero.
        answers.read_until(b'\n', &mut answer).ok().filter(|read| *read > 0)
    };
    let done = order(b"enable\n").and_then(|_| {
        work();
        order(b"disable\n")
    });
    let said = interrupt(perf)?;
    done?;
    said.lines().find(|line| line.contains("sys_enter"))?.split(',').next()?.parse().ok()
}

fn count_by_strace(work: impl FnOnce()) -> Option<u64> {
    let own = process::id().to_string();
    let mut strace = Command::new("strace").args(["-f", "-c", "-p", &own]).stderr(Stdio::piped()).spawn().ok()?;
    let mut errors = BufReader::new(strace.stderr.take()?);
    let mut attached = String::new();
    // `strace: Process 1 attached with 5 threads`, or why not.
    errors.read_line(&mut attached).ok()?;
    if attached.contains("attached") {
        work();
    }
    let said = interrupt_and_read(strace, errors)?;
    // `100.00    0.000000           0        29         1 total`
    let total = said.lines().find(|line| line.trim_end().ends_with("total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

/// Has a child finish, and gives what it said of errors.
fn interrupt(mut child: Child) -> Option<String> {
    let errors = BufReader::new(child.stderr.take()?);
    interrupt_and_read(child, errors)
}

fn interrupt_and_read(mut child: Child, mut errors: BufReader<ChildStderr>) -> Option<String> {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    let mut said = String::new();
    errors.read_to_string(&mut said).ok()?;
    child.wait().ok()?;
    Some(said)
}
