//! The house rules that a compiler does not check. Each is a function over a path and a text, and each is shown below to
//! catch a planted fault.

use std::{fs, io, path::Path};

/// The only names that may be seen in the root; tool configuration is in dot-files.
const ROOT: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "benches",
    "docs",
    "examples",
    "fuzz",
    "loom_tests",
    "src",
    "stores",
    "target",
    "tests",
    "tier1",
];
const ORDERINGS: &[&str] = &["AcqRel", "Acquire", "Relaxed", "Release", "SeqCst"];
/// What only `src/sync.rs` and its parts name, so that the models see every atomic, lock and cell of the protocols.
const BEHIND_SYNC: &[&str] =
    &["core::cell::UnsafeCell", "core::sync", "loom", "parking_lot", "std::cell::UnsafeCell", "std::sync"];
/// (who, what it must not import): tier1 -> hub -> wake -> buffer -> sync; policies about load meet in plain values.
const NOT_UPWARDS: &[(&str, &[&str])] = &[
    ("src/buffer", &["crate::hub", "crate::wake"]),
    ("src/scaling", &["crate::hub", "crate::meter", "crate::overload", "crate::placement"]),
    ("src/sync", &["crate"]),
    ("src/wake", &["crate::hub"]),
];
/// Where policies live: all files there but those of `BESIDE_POLICIES` are pure.
const POLICIES: &[&str] = &["src/overload/", "src/placement/", "src/scaling/"];
/// What stands beside policies: drivers, permits, stores and handles, each a file (or, with a slash, a folder) of its own.
const BESIDE_POLICIES: &[&str] = &[
    "src/overload/admission/mod.rs",
    "src/overload/admission/permit.rs",
    "src/overload/admission/shared.rs",
    "src/overload/driver/",
    "src/overload/events/",
    "src/overload/pending/waiting.rs",
    "src/overload/readiness/shared.rs",
    "src/overload/watchdog/mod.rs",
    "src/overload/watchdog/progress.rs",
    "src/placement/store/embedded.rs",
    "src/placement/store/reader.rs",
];
/// What a policy does not reach for: time and samples are its arguments, its actions are its answer.
const IMPURE: &[&str] = &[
    "core::sync",
    "crate::sync",
    "rustix",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::sync",
    "std::thread",
    "std::time::SystemTime",
    "tokio",
];
const MEANINGLESS_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// A fault: where, and what. Lines count from 1.
type Fault = String;

fn fault(path: &str, line: usize, what: impl AsRef<str>) -> Fault {
    format!("{path}:{line}: {}", what.as_ref())
}

/// A line without its comment and without what stands in its strings.
fn code(line: &str) -> String {
    let line = line.replace("'\"'", "' '");
    let mut out = String::new();
    let mut in_string = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (in_string, c) {
            (true, '\\') => drop(chars.next()),
            (_, '"') => in_string = !in_string,
            (true, _) => {}
            (false, '/') if chars.peek() == Some(&'/') => break,
            (false, c) => out.push(c),
        }
    }
    out
}

/// Whether `code` holds `word` with no other letter of a name around it.
fn names(code: &str, word: &str) -> bool {
    let part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word)
        .any(|(at, _)| !part_of_name(code[..at].chars().next_back()) && !part_of_name(code[at + word.len()..].chars().next()))
}

/// (line, path) of everything that is imported, with the braces of `use` multiplied out.
fn imports(text: &str) -> Vec<(usize, String)> {
    fn expand(prefix: &str, tree: &str, line: usize, out: &mut Vec<(usize, String)>) {
        let mut depth = 0;
        let at_commas = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        };
        for part in tree.split(at_commas).filter(|part| !part.is_empty()) {
            match part.split_once('{') {
                Some((head, rest)) => expand(&format!("{prefix}{head}"), rest.trim_end_matches('}'), line, out),
                None => out.push((line, format!("{prefix}{part}"))),
            }
        }
    }
    let mut out = Vec::new();
    let mut statement: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let code = code(line);
        let begins = code.split_once("use ").filter(|(before, _)| before.trim().is_empty() || before.trim().starts_with("pub"));
        match (&mut statement, begins) {
            (Some((_, tree)), _) => tree.push_str(&code),
            (None, Some((_, tree))) => statement = Some((index + 1, tree.to_owned())),
            (None, None) => continue,
        }
        if let Some((line, tree)) = statement.take_if(|(_, tree)| tree.contains(';')) {
            let tree = tree.replace(" as ", "@").replace([' ', ';'], "");
            expand("", &tree, line, &mut out);
        }
    }
    out
}

/// The imports and the paths within the code that lie at or under one of `banned`.
fn named(path: &str, text: &str, banned: &[&str], why: &str) -> Vec<Fault> {
    let under =
        |path: &str, banned: &str| path.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '@']));
    let imported = imports(text)
        .into_iter()
        .flat_map(|(line, import)| banned.iter().filter(move |banned| under(&import, banned)).map(move |banned| (line, *banned)));
    let inline = text.lines().enumerate().flat_map(|(index, line)| {
        let code = code(line);
        // `crate` alone is also the crate of `pub(crate)`.
        let is_path = |banned: &str| banned.contains("::") || code.contains(&format!("{banned}::"));
        let found: Vec<_> = banned.iter().filter(|banned| names(&code, banned) && is_path(banned)).collect();
        found.into_iter().map(move |banned| (index + 1, *banned))
    });
    // A whole path may be imported in one line and be found by both.
    let mut found: Vec<_> = imported.chain(inline).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(line, what)| fault(path, line, format!("names {what}: {why}"))).collect()
}

fn std_only_in_sync(path: &str, text: &str) -> Vec<Fault> {
    if path == "src/sync.rs" || path.starts_with("src/sync/") || !path.starts_with("src/") {
        return Vec::new();
    }
    named(path, text, BEHIND_SYNC, "only src/sync.rs does")
}

fn imports_run_one_way(path: &str, text: &str) -> Vec<Fault> {
    let rules = NOT_UPWARDS.iter().filter(|(who, _)| path.starts_with(who));
    rules
        .flat_map(|(_, banned)| named(path, text, banned, "imports run one way, tier1 -> hub -> wake -> buffer -> sync"))
        .collect()
}

/// Up to the tests at the foot, which may begin with a clock.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
}

fn policies_are_pure(path: &str, text: &str) -> Vec<Fault> {
    let policy = POLICIES.iter().any(|folder| path.starts_with(folder)) && !path.ends_with("/tests.rs");
    let is_beside = |entry: &str| if entry.ends_with('/') { path.starts_with(entry) } else { path == entry };
    if !policy || BESIDE_POLICIES.iter().any(|entry| is_beside(entry)) {
        return Vec::new();
    }
    // A value that is shared and does not change is a value, and so is an error that is looked at.
    let text = &without_tests(text).replace("sync::PlainArc", "PlainArc").replace("io::Error", "IoError");
    let why = "policies are pure; what does it stands beside them, and is listed in tests/tidy.rs";
    let mut faults = named(path, text, IMPURE, why);
    for (index, line) in text.lines().enumerate() {
        let code = code(line);
        // Both read the clock; a field `elapsed` does not.
        let reads_a_clock = code.contains("Instant::now") || code.contains("SystemTime::now") || code.contains(".elapsed()");
        if reads_a_clock || names(&code, "unsafe") {
            faults.push(fault(path, index + 1, format!("reads a clock, or is unsafe: {why}")));
        }
    }
    faults
}

/// The comment that the statement around line `index` begins under, and the statement's code above that line.
fn comment_above(lines: &[&str], index: usize) -> (String, String) {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let mut from = index;
    while from > 0
        && !is_comment(lines[from - 1])
        && !code(lines[from - 1]).trim_end().ends_with([';', '{', '}'])
        && !lines[from - 1].trim().is_empty()
    {
        from -= 1;
    }
    let above = lines[from..index].iter().map(|line| code(line)).collect();
    let first = lines[..from].iter().rposition(|line| !is_comment(line)).map_or(0, |before| before + 1);
    let comment = lines[first..from].iter().map(|line| line.trim_start().trim_start_matches('/').trim());
    (comment.collect::<Vec<_>>().join("\n"), above)
}

fn orderings_say_why(path: &str, text: &str) -> Vec<Fault> {
    if !path.starts_with("src/") {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = code(line);
        if ["Ordering::*", "Ordering::{", "Ordering as "].iter().any(|import| code.contains(import)) {
            faults.push(fault(path, index + 1, "orderings are written in full: `Ordering::X`"));
        }
        let (comment, above) = comment_above(&lines, index);
        // It may begin below a line of comment on the statement as a whole.
        let begins_with =
            |word: &str| comment.lines().any(|line| line.split(|c: char| !c.is_alphanumeric()).next() == Some(word));
        let mut earlier = names(&above, "Ordering");
        for (at, _) in code.match_indices("Ordering::") {
            let Some(ordering) = ORDERINGS.iter().find(|ordering| code[at + "Ordering::".len()..].starts_with(**ordering)) else {
                continue;
            };
            if code.trim_start().starts_with("use ") {
                faults.push(fault(path, index + 1, format!("imports {ordering}; orderings are written in full")));
            } else if !earlier && !begins_with(ordering) {
                faults.push(fault(path, index + 1, format!("the comment above must begin with {ordering}")));
            } else if !names(&comment, ordering) {
                faults.push(fault(path, index + 1, format!("the comment above must say why {ordering}")));
            }
            if *ordering == "SeqCst" && !code[..at].ends_with("fence(") {
                faults.push(fault(path, index + 1, "SeqCst only as fence(Ordering::SeqCst): loom cannot check SeqCst accesses"));
            }
            earlier = true;
        }
    }
    faults
}

/// The `src/...` paths under the headings of ARCHITECTURE.md that hold `word`.
fn listed(architecture: &str, word: &str) -> Vec<String> {
    let mut listed = Vec::new();
    let mut within = false;
    for line in architecture.lines() {
        if line.starts_with('#') {
            within = line.to_lowercase().contains(word);
        } else if within {
            let words = line.split(|c: char| !(c.is_alphanumeric() || "_/.".contains(c)));
            let paths =
                words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("src/") && word.ends_with(".rs"));
            listed.extend(paths.map(str::to_owned));
        }
    }
    listed
}

/// `word` stands only in files that ARCHITECTURE.md lists, and stands in each of those.
fn only_where_listed(architecture: &str, heading: &str, files: &[(String, String)], holds: impl Fn(&str) -> bool) -> Vec<Fault> {
    let listed = listed(architecture, heading);
    let holds = |text: &str| text.lines().any(|line| holds(&code(line)));
    let unlisted = files.iter().filter(|(path, text)| holds(text) && !listed.contains(path));
    let unlisted = unlisted.map(|(path, _)| {
        fault(path, 1, format!("holds {heading}, and ARCHITECTURE.md does not list it under a heading on {heading}"))
    });
    let stale = listed.iter().filter(|listed| !files.iter().any(|(path, text)| path == *listed && holds(text)));
    unlisted.chain(stale.map(|path| format!("ARCHITECTURE.md: {path} is listed under {heading}, and holds none"))).collect()
}

fn holds_ordering(code: &str) -> bool {
    ORDERINGS.iter().any(|ordering| code.contains(&format!("Ordering::{ordering}")))
}

fn root_is_bare(name: &str) -> Vec<Fault> {
    if name.starts_with('.') || ROOT.contains(&name) {
        Vec::new()
    } else {
        vec![format!("{name}: does not belong into the root")]
    }
}

fn promise_on_line_one(path: &str, text: &str) -> Vec<Fault> {
    let of_promises = path.rsplit_once('/').is_some_and(|(folder, _)| folder == "benches" || folder.ends_with("tests"));
    if !of_promises || text.starts_with("//!") {
        Vec::new()
    } else {
        vec![fault(path, 1, "the first line must say in //! what is promised or asked")]
    }
}

fn names_mean_something(path: &str, _: &str) -> Vec<Fault> {
    let bad = path.split('/').find(|name| MEANINGLESS_NAMES.contains(&name.trim_end_matches(".rs")));
    bad.map(|name| fault(path, 1, format!("{name} says nothing: name the idea"))).into_iter().collect()
}

fn allow_has_a_reason(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let attribute = line.trim_start();
        if attribute.starts_with("#[allow(") || attribute.starts_with("#![allow(") {
            let whole: String = text.lines().skip(index).take(8).collect();
            if !whole.split(")]").next().unwrap_or_default().contains("reason =") {
                faults.push(fault(path, index + 1, "allow without a reason; better, `expect` with one"));
            }
        }
    }
    faults
}

/// Path and text of every Rust file of the workspace, paths from the root, with slashes.
fn rust_files() -> io::Result<Vec<(String, String)>> {
    fn walk(folder: &Path, prefix: &str, out: &mut Vec<(String, String)>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                walk(&entry.path(), &format!("{path}/"), out)?;
            } else if name.ends_with(".rs") {
                out.push((path, fs::read_to_string(entry.path())?));
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut out)?;
    Ok(out)
}

type Rule = fn(&str, &str) -> Vec<Fault>;
const RULES: &[Rule] = &[
    std_only_in_sync,
    imports_run_one_way,
    policies_are_pure,
    orderings_say_why,
    promise_on_line_one,
    names_mean_something,
    allow_has_a_reason,
];

#[test]
fn every_file_keeps_the_house_rules() {
    let files = rust_files().unwrap();
    assert!(files.len() > 5, "found {} files", files.len());
    let faults: Vec<_> = files.iter().flat_map(|(path, text)| RULES.iter().flat_map(move |rule| rule(path, text))).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn root_shows_only_what_a_newcomer_needs() {
    let names = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let faults: Vec<_> = names.flat_map(|name| root_is_bare(&name)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn architecture_lists_the_files_with_unsafe_and_with_orderings() {
    let architecture = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    let mut files = rust_files().unwrap();
    files.retain(|(path, _)| path.starts_with("src/"));
    let mut faults = only_where_listed(&architecture, "unsafe", &files, |code| names(code, "unsafe"));
    faults.extend(only_where_listed(&architecture, "ordering", &files, holds_ordering));
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// How many faults the rule finds in each planted text.
#[track_caller]
fn finds(rule: Rule, planted: &[(&str, &str, usize)]) {
    for (path, text, faults) in planted {
        assert_eq!(rule(path, text).len(), *faults, "in {path}:\n{text}\n{:?}", rule(path, text));
    }
}

#[test]
fn planted_std_outside_sync_is_caught() {
    finds(
        std_only_in_sync,
        &[
            ("src/hub/topic.rs", "use std::sync::Arc;", 1),
            ("src/hub/topic.rs", "use std::{\n    fmt,\n    sync::{Arc, Weak},\n};", 1),
            ("src/hub/topic.rs", "pub(crate) use parking_lot as pl;", 1),
            ("src/hub/topic.rs", "fn f(_: core::cell::UnsafeCell<u8>, _: &std::sync::Mutex<u8>) {}", 2),
            ("src/hub/topic.rs", "loom::model(|| ());", 1),
            ("src/hub/topic.rs", "/// Like std::sync::Arc. \n#[cfg(keywake_loom)]\nuse crate::sync::Arc; // not loom::sync", 0),
            ("src/sync.rs", "use std::sync::Arc;", 0),
            ("src/sync/arc.rs", "use std::sync::atomic;", 0),
            ("src/syncer.rs", "use std::sync::atomic;", 1),
            ("tests/api.rs", "use std::sync::Arc;", 0),
        ],
    );
}

#[test]
fn planted_import_upwards_is_caught() {
    finds(
        imports_run_one_way,
        &[
            ("src/buffer/block.rs", "use crate::hub::Topic;", 1),
            ("src/buffer/block.rs", "use crate::{position::Position, wake::Slots};", 1),
            ("src/buffer/block.rs", "fn f() { crate::wake::wake() }", 1),
            ("src/buffer/block.rs", "use crate::{sync::Arc, hubbub::Noise};", 0),
            ("src/scaling/scaler.rs", "use crate::overload::evictor::effective_active;", 1),
            ("src/scaling/scaler.rs", "use crate::load::CpuSample;", 0),
            ("src/wake/slots.rs", "use crate::{buffer::Word, hub};", 1),
            ("src/sync.rs", "use crate::position::Position;", 1),
            ("src/sync/arc.rs", "use crate::few::Few;", 1),
            ("src/hub/topic.rs", "use crate::{buffer::Chain, wake::Slots};", 0),
        ],
    );
}

#[test]
fn planted_impurity_in_a_policy_is_caught() {
    let state = "src/overload/evictor/state.rs";
    finds(
        policies_are_pure,
        &[
            (state, "let now = Instant::now();", 1),
            (state, "let passed = since.elapsed();", 1),
            (state, "let passed = sample.elapsed; // not since.elapsed(), nor Instant::now()", 0),
            (state, "use std::{fmt, fs};", 1),
            (state, "use crate::{load::CpuSample, sync::Mutex};", 1),
            (state, "use std::sync::atomic::AtomicU64;", 1),
            (state, "use crate::{load::CpuSample, sync::PlainArc};", 0),
            (state, "fn f() { tokio::spawn(g()); unsafe { h() } }", 2),
            (state, "use std::time::{Duration, SystemTime};", 1),
            (state, "/// Like std::fs.\nuse std::time::{Duration, Instant};\nfn f(now: Instant) {}", 0),
            (state, "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn now() -> Instant { Instant::now() }\n}", 0),
            ("src/placement/planner.rs", "std::thread::sleep(time);", 1),
            ("src/overload/readiness/mod.rs", "use crate::sync::Mutex;", 1),
            ("src/overload/readiness/shared.rs", "use crate::sync::Mutex;", 0),
            (state, "use std::io::Error as IoError;", 0),
            (state, "use std::io::Read;", 1),
            ("src/overload/driver/run.rs", "let now = Instant::now();", 0),
            ("src/overload/drivers.rs", "let now = Instant::now();", 1),
            ("src/meter/stream.rs", "let now = Instant::now();", 0),
        ],
    );
}

#[test]
fn planted_ordering_without_its_reason_is_caught() {
    finds(
        orderings_say_why,
        &[
            ("src/a.rs", "// Acquire (pairs with `f`): seen.\nx.load(Ordering::Acquire);", 0),
            ("src/a.rs", "// Acquire (pairs with `f`): seen,\n// and more.\nlet y = x\n    .load(Ordering::Acquire);", 0),
            ("src/a.rs", "// Acquire (pairs with `f`): seen.\nx.load(Ordering::Relaxed);", 1),
            ("src/a.rs", "// Acquire: for the first.\nx.load(Ordering::Acquire);\ny.load(Ordering::Acquire);", 1),
            ("src/a.rs", "x.load(Ordering::Acquire); // Acquire: behind, not above.", 1),
            (
                "src/a.rs",
                "// AcqRel: both ways; failure Relaxed: tried again.\nx.compare_exchange(\n    1,\n    2,\n    Ordering::AcqRel,\n    Ordering::Relaxed,\n);",
                0,
            ),
            ("src/a.rs", "// AcqRel: both ways.\nx.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);", 1),
            ("src/a.rs", "// Relaxed: on failure; AcqRel.\nx.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);", 1),
            ("src/a.rs", "// SeqCst: if ours is first, they see it.\nfence(Ordering::SeqCst);", 0),
            ("src/a.rs", "// SeqCst: why not.\nx.load(Ordering::SeqCst);", 1),
            ("src/a.rs", "use crate::sync::Ordering::*;", 1),
            ("src/a.rs", "use crate::sync::Ordering::Relaxed;", 1),
            ("src/a.rs", "a.cmp(&b) == cmp::Ordering::Less", 0),
        ],
    );
}

#[test]
fn planted_unsafe_outside_the_list_is_caught() {
    let files = |text: &str| vec![("src/a.rs".to_owned(), text.to_owned())];
    let is_unsafe = |code: &str| names(code, "unsafe");
    let listing = "# Files with unsafe\n* `src/a.rs`: cells\n# Else\n* `src/b.rs`\n";
    assert_eq!(only_where_listed(listing, "unsafe", &files("unsafe { f() }"), is_unsafe), [""; 0]);
    assert_eq!(only_where_listed("# Else\n", "unsafe", &files("unsafe { f() }"), is_unsafe).len(), 1);
    assert_eq!(
        only_where_listed(listing, "unsafe", &files("// unsafe\n#![deny(unsafe_code)]"), is_unsafe).len(),
        1,
        "a stale entry"
    );
    assert_eq!(only_where_listed("", "ordering", &files("x.load(Ordering::Relaxed)"), holds_ordering).len(), 1);
    assert_eq!(only_where_listed("", "ordering", &files("cmp::Ordering::Less"), holds_ordering), [""; 0]);
}

#[test]
fn planted_names_and_first_lines_are_caught() {
    assert_eq!(root_is_bare("notes.txt").len() + root_is_bare("rustfmt.toml").len(), 2);
    assert_eq!(root_is_bare(".clippy.toml").len() + root_is_bare("src").len(), 0);
    finds(
        promise_on_line_one,
        &[
            ("loom_tests/tests/sever.rs", "use loom;", 1),
            ("benches/publish.rs", "\n//! Late.", 1),
            ("tests/api.rs", "//! The contract.", 0),
            ("tests/support/mod.rs", "", 0),
        ],
    );
    finds(names_mean_something, &[("src/hub/utils.rs", "", 1), ("src/common/mod.rs", "", 1), ("src/hub/utility.rs", "", 0)]);
    finds(
        allow_has_a_reason,
        &[
            ("src/a.rs", "#[allow(dead_code)]\nfn f() {}", 1),
            ("src/a.rs", "#![allow(\n    dead_code,\n    reason = \"part 2\"\n)]", 0),
            ("src/a.rs", "#[expect(dead_code, reason = \"part 2\")]", 0),
        ],
    );
}
