//! Where and when it was measured, without which no figure means anything.

use std::{fs, process::Command, thread};

/// Prints the machine, the versions, the commit, the date and the load.
#[expect(clippy::print_stdout, reason = "it stands above every table")]
pub(crate) fn print() {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("unknown", |(_, m)| m);
    println!("* machine: {} cores, {model}, Linux {}", cores(), kernel());
    println!("* {}, tokio {}, dashmap {}", output("rustc", &["--version"]), locked("tokio"), locked("dashmap"));
    println!("* keywake {} at commit {}", env!("CARGO_PKG_VERSION"), commit());
    println!("* {}, load {} before", date(), load());
}

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn kernel() -> String {
    output("uname", &["-r"])
}

pub(crate) fn date() -> String {
    output("date", &["-u", "+%F %H:%M UTC"])
}

pub(crate) fn commit() -> String {
    let changed = if output("git", &["status", "--porcelain", "src"]) == "unknown" { "" } else { " with changes in src" };
    format!("{}{changed}", output("git", &["rev-parse", "--short", "HEAD"]))
}

/// How many threads wanted to run, on average over the last minute.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The version of a package in Cargo.lock.
pub(crate) fn locked(package: &str) -> String {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock")).unwrap_or_default();
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = "));
    version.map_or("unknown", |version| version.trim_matches('"')).to_owned()
}

/// The first line that a program prints.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("unknown").to_owned()
}
