//! The files of control groups against readers that know nothing but `str`, and against what a kernel would have written.

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary, Result, Unstructured};
use keywake::meter::cgroup::{
    ParseCgroupError,
    text::{self, Entry, Mount},
};

/// What files are made of where they are to be nearly right.
const PIECES: [&str; 52] = [
    "max",
    "0",
    "1",
    "-1",
    "100000",
    "150000",
    "18446744073709551615",
    "18446744073709551616",
    "+5",
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "\n",
    "\n",
    "usage_usec",
    "user_usec",
    "nr_periods",
    "nr_throttled",
    "throttled_usec",
    "throttled_time",
    "burst_usec",
    "some",
    "full",
    "total=",
    "avg10=",
    "avg60=1.50",
    "avg300=nan",
    "total=7",
    ".",
    "-",
    ",",
    "0-3",
    "8-11",
    "7",
    "0::/",
    ":",
    "2:cpu,cpuacct:/a",
    "/a/b",
    "/..",
    "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    " - ",
    "cgroup",
    "\\040",
    "inactive_file ",
    "total_inactive_file ",
    "kB",
    "MemTotal: ",
    "Cpus_allowed_list:",
    "é",
    "\0",
];

/// Lines of one file each, right ones.
const FILES: [&[&str]; 7] = [
    &["150000 100000\n", "max 100000\n"],
    &["-1\n", "100000\n", "max\n"],
    &[
        "usage_usec 12\n",
        "usage_usec 1\n",
        "user_usec 5\n",
        "nr_periods 4\n",
        "nr_throttled 7\n",
        "throttled_usec 9\n",
        "new a b\n",
    ],
    &[
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=7\n",
        "full avg10=100.00 avg60=0.00 avg300=0.07 total=18446744073709551615\n",
        "some total=8\n",
    ],
    &["0-3,8-11\n", "0\n", "\n", "0,2\n"],
    &["0::/a/b\n", "2:cpu,cpuacct:/a:b\n", "1:name=systemd:/\n", "\n"],
    &[
        "1 2 0:3 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        "1 2 0:3 /a\\040b /c rw - cgroup c rw,cpu\n",
        "1 2 0:3 / /d rw - tmpfs t rw\n",
    ],
];

/// A text for every parser, and what a kernel would have written, for the round trip.
#[derive(Clone, Debug)]
pub struct CgroupCase {
    /// Any bytes.
    pub text: Vec<u8>,
    /// Values that are written as the kernel does and read back.
    pub written: Option<Written>,
}

/// Values of the files.
#[derive(Clone, Debug, Arbitrary)]
pub struct Written {
    numbers: [u64; 6],
    cpus: BTreeSet<u8>,
    paths: Vec<Vec<u8>>,
    optional: u8,
}

impl CgroupCase {
    /// The case that these bytes say; every sequence of bytes says one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::arbitrary(&mut Unstructured::new(bytes)).unwrap_or_else(|_| Self { text: bytes.to_vec(), written: None })
    }
}

impl Arbitrary<'_> for CgroupCase {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        if u.ratio(1, 4)? {
            return Ok(Self { text: Vec::new(), written: Some(u.arbitrary()?) });
        }
        let mut text = Vec::new();
        if u.ratio(2, 3)? {
            let file = *u.choose(&FILES)?;
            let lines = if u.arbitrary()? { 1 } else { u.int_in_range(1..=6)? };
            for _ in 0..lines {
                text.extend_from_slice(u.choose(file)?.as_bytes());
            }
            if u.ratio(1, 4)? {
                let at = u.choose_index(text.len())?;
                text[at] = if u.arbitrary()? { u.arbitrary()? } else { *u.choose(b" -:.,0\n")? };
            }
            return Ok(Self { text, written: None });
        }
        for _ in 0..u.int_in_range(0..=24)? {
            match u.ratio(1, 16)? {
                true => text.push(u.arbitrary()?),
                false => text.extend_from_slice(u.choose(&PIECES)?.as_bytes()),
            }
        }
        Ok(Self { text, written: None })
    }
}

/// Reads the text as every file there is: never a panic, an error exactly where the model has one, the same values; and an error that
/// says where. What a kernel writes is read back.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_cgroup(case: &CgroupCase) {
    let bytes = &case.text[..];
    let lossy = String::from_utf8_lossy(bytes).into_owned();
    let only = lossy.strip_suffix('\n').unwrap_or(&lossy);
    let lines: Vec<&str> = only.split('\n').collect();

    let quota = told(bytes, text::cpu_max(bytes)).map(|quota| quota.map(|quota| (quota.micros.get(), quota.period_micros.get())));
    assert_eq!(quota, model_cpu_max(&lines), "cpu.max");
    if let Ok(Some(quota)) = text::cpu_max(bytes) {
        assert!(quota.cores() > 0.0 && quota.cores().is_finite());
    }
    let alone = |line: &str| only_field(&lines).filter(|field| *field == line).is_some();
    let number = only_field(&lines).and_then(digits);
    let positive = number.filter(|number| *number > 0);
    let cfs_quota = told(bytes, text::cfs_quota(bytes)).map(|quota| quota.map(|micros| micros.get()));
    assert_eq!(cfs_quota, if alone("-1") { Some(None) } else { positive.map(Some) }, "cpu.cfs_quota_us");
    assert_eq!(told(bytes, text::cfs_period(bytes)).map(|period| period.get()), positive, "cpu.cfs_period_us");
    assert_eq!(told(bytes, text::burst(bytes)).map(|burst| burst.as_micros()), number.map(u128::from), "cpu.max.burst");
    assert_eq!(told(bytes, text::cpuacct_usage(bytes)).map(|usage| usage.as_nanos()), number.map(u128::from), "cpuacct.usage");
    assert_eq!(told(bytes, text::memory_bytes(bytes)), number, "memory.current");
    let limit = if alone("max") { Some(None) } else { number.map(|bytes| Some(bytes).filter(|bytes| *bytes < 1 << 62)) };
    assert_eq!(told(bytes, text::memory_limit(bytes)), limit, "memory.max");

    check_stat(bytes, &lines);
    check_pressure(bytes, &lines);
    assert_eq!(told(bytes, text::cpu_count(bytes)), if lines.len() > 1 { None } else { model_list(lines[0]) }, "cpuset");
    let list = lines.iter().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(told(bytes, text::allowed_list(bytes)), list.and_then(model_list), "status");
    told(bytes, text::inactive_file(bytes));
    told(bytes, text::kibibytes(bytes, "MemTotal:"));
    check_membership(bytes, &lines);
    if let Some(mounts) = told(bytes, text::mountinfo(bytes)) {
        assert!(mounts.len() <= lines.len() && mounts.iter().all(|mount| mount.root[0] == b'/' && mount.point[0] == b'/'));
    }
    if let Some(written) = &case.written {
        check_round_trip(written);
    }
}

/// An error names a line that there is, and can be shown.
fn told<T>(bytes: &[u8], read: std::result::Result<T, ParseCgroupError>) -> Option<T> {
    let error = match read {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!((1..=lines).contains(&error.line()), "{error:?} of {lines} lines");
    assert!(error.value().chars().count() <= 80 && error.to_string().contains(&format!(":{}: ", error.line())), "{error}");
    None
}

fn fields(line: &str) -> Vec<&str> {
    line.split([' ', '\t']).filter(|field| !field.is_empty()).collect()
}

fn only_field<'a>(lines: &[&'a str]) -> Option<&'a str> {
    match lines {
        [line] => <[&str; 1]>::try_from(fields(line)).ok().map(|[field]| field),
        _ => None,
    }
}

fn digits(field: &str) -> Option<u64> {
    field.parse().ok().filter(|_| !field.starts_with('+'))
}

fn model_cpu_max(lines: &[&str]) -> Option<Option<(u64, u64)>> {
    let [line] = lines else { return None };
    let [quota, period] = <[&str; 2]>::try_from(fields(line)).ok()?;
    let period = digits(period).filter(|period| *period > 0)?;
    if quota == "max" { Some(None) } else { Some(Some((digits(quota).filter(|quota| *quota > 0)?, period))) }
}

/// All processors of a list, one by one, where they are few enough.
fn model_list(list: &str) -> Option<u64> {
    let list = list.trim_matches(|c: char| c.is_ascii_whitespace());
    let mut count = 0_u128;
    let mut least = 0_u128;
    for range in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (u128::from(digits(first)?), u128::from(digits(last)?));
        if first < least || last < first {
            return None;
        }
        (count, least) = (count + last - first + 1, last + 1);
    }
    Some(u64::try_from(count).unwrap_or(u64::MAX))
}

const STAT_KEYS: [&str; 10] = [
    "usage_usec",
    "user_usec",
    "system_usec",
    "nr_periods",
    "nr_throttled",
    "throttled_usec",
    "throttled_time",
    "nr_bursts",
    "burst_usec",
    "burst_time",
];

fn check_stat(bytes: &[u8], lines: &[&str]) {
    let mut values = BTreeMap::new();
    let mut is_right = true;
    for fields in lines.iter().map(|line| fields(line)).filter(|fields| fields.first().is_some_and(|key| STAT_KEYS.contains(key)))
    {
        match fields[..] {
            [key, value] if digits(value).is_some() => drop(values.insert(key, digits(value).unwrap_or_default())),
            _ => is_right = false,
        }
    }
    let stat = told(bytes, text::cpu_stat(bytes));
    assert_eq!(stat.is_some(), is_right && values.contains_key("usage_usec"), "cpu.stat: {values:?}");
    assert_eq!(told(bytes, text::cpu_stat_v1(bytes)).is_some(), is_right, "cpu.stat, version 1");
    if let Some(stat) = stat {
        assert_eq!(stat.usage.map(|usage| usage.as_micros()), values.get("usage_usec").copied().map(u128::from));
        assert_eq!(
            (stat.periods, stat.throttled_periods),
            (values.get("nr_periods").copied(), values.get("nr_throttled").copied())
        );
        assert!(stat.throttled_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
}

fn check_pressure(bytes: &[u8], lines: &[&str]) {
    let Some(pressure) = told(bytes, text::pressure(bytes)) else { return };
    for (word, stall) in [("some", pressure.some), ("full", pressure.full)] {
        let line = lines.iter().map(|line| fields(line)).rfind(|fields| fields.first() == Some(&word));
        let total = line
            .as_ref()
            .map(|line| line.iter().rev().find_map(|field| digits(field.strip_prefix("total=")?)).unwrap_or_default());
        assert_eq!(stall.map(|stall| stall.total.as_micros()), total.map(u128::from), "{word}");
        if let Some(stall) = stall {
            assert!([stall.avg10, stall.avg60, stall.avg300].iter().all(|share| share.is_finite() && *share >= 0.0));
        }
    }
}

fn check_membership(bytes: &[u8], lines: &[&str]) {
    let is_right = |line: &str| {
        let parts: Vec<&str> = line.splitn(3, ':').collect();
        matches!(parts[..], [number, _, path] if digits(number).is_some() && path.starts_with('/'))
    };
    let lines: Vec<&&str> = lines.iter().filter(|line| !line.is_empty()).collect();
    let entries = told(bytes, text::membership(bytes));
    assert_eq!(entries.is_some(), lines.iter().all(|line| is_right(line)), "/proc/self/cgroup");
    for (entry, line) in entries.iter().flatten().zip(lines) {
        assert!(line.ends_with(&*String::from_utf8_lossy(&entry.path)), "a path is the rest of its line, whatever is in it");
    }
}

/// Writes as the kernel does and reads back.
fn check_round_trip(written: &Written) {
    let [a, b, c, d, e, f] = written.numbers;
    let max = format!("{} {}\n", a.max(1), b.max(1));
    let quota = text::cpu_max(max.as_bytes()).unwrap_or_default();
    assert_eq!(quota.map(|quota| (quota.micros.get(), quota.period_micros.get())), Some((a.max(1), b.max(1))));

    let stat = format!(
        "usage_usec {a}\nuser_usec {b}\nsystem_usec {c}\nnew_key 1\nnr_periods {d}\nnr_throttled {e}\nthrottled_usec {f}\n"
    );
    let read = text::cpu_stat(stat.as_bytes()).unwrap_or_default();
    let micros = [read.usage, read.user, read.system, read.throttled].map(|time| time.map(|time| time.as_micros()));
    assert_eq!(micros, [a, b, c, f].map(|number| Some(number.into())));
    assert_eq!((read.periods, read.throttled_periods), (Some(d), Some(e)));

    let stall =
        |share: u64, total: u64| format!("avg10={}.{:02} avg60=0.00 avg300=0.00 total={total}", share % 100, share / 7 % 100);
    let pressure = format!("some {}\nfull {}\n", stall(a, b), stall(c, d));
    let read = text::pressure(pressure.as_bytes()).unwrap_or_default();
    assert_eq!(
        read.some.zip(read.full).map(|(some, full)| (some.total.as_micros(), full.total.as_micros())),
        Some((b.into(), d.into()))
    );
    let share = (a % 100) as f64 / 100.0 + (a / 7 % 100) as f64 / 10_000.0;
    assert!(read.some.is_some_and(|some| (some.avg10 - share).abs() < 1e-9));

    let mut list = String::new();
    for cpu in &written.cpus {
        let alone = !written.cpus.contains(&cpu.wrapping_sub(1)) || *cpu == 0;
        let ends = !written.cpus.contains(&cpu.wrapping_add(1)) || *cpu == u8::MAX;
        match (alone, ends) {
            (true, true) => list += &format!("{cpu},"),
            (true, false) => list += &format!("{cpu}-"),
            (false, true) => list += &format!("{cpu},"),
            (false, false) => {}
        }
    }
    assert_eq!(text::cpu_count(list.trim_end_matches(',').as_bytes()).ok(), u64::try_from(written.cpus.len()).ok());

    let (mut cgroup, mut rows, mut entries, mut mounts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, path) in (0_u64..).zip(&written.paths) {
        // A group's name has no newline: the kernel refuses to make one.
        let group: Vec<u8> = std::iter::once(b'/').chain(path.iter().copied().filter(|byte| *byte != b'\n')).collect();
        let point: Vec<u8> = std::iter::once(b'/').chain(path.iter().copied()).collect();
        let is_first = index > 0;
        let controllers = if is_first { vec![b"cpu".to_vec(), b"cpuacct".to_vec()] } else { vec![] };
        cgroup.extend_from_slice(format!("{index}:{}:", if is_first { "cpu,cpuacct" } else { "" }).as_bytes());
        cgroup.extend_from_slice(&group);
        cgroup.push(b'\n');
        rows.extend_from_slice(b"36 35 98:0 ");
        rows.extend(escaped(&group));
        rows.push(b' ');
        rows.extend(escaped(&point));
        let optional = " master:1".repeat(usize::from(written.optional % 4));
        let kind = if is_first { "cgroup cgroup rw,cpu" } else { "cgroup2 cgroup2 rw" };
        rows.extend_from_slice(format!(" rw,noatime{optional} - {kind}\n").as_bytes());
        entries.push(Entry { hierarchy: index, controllers, path: group.clone() });
        mounts.push(Mount { root: group, point, controllers: is_first.then(|| vec![b"rw".to_vec(), b"cpu".to_vec()]) });
    }
    assert_eq!(text::membership(&cgroup), Ok(entries));
    assert_eq!(text::mountinfo(&rows), Ok(mounts));
}

/// As the kernel writes paths into a row: space, tab, newline and backslash in octal.
fn escaped(path: &[u8]) -> impl Iterator<Item = u8> {
    path.iter().flat_map(|byte| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator whose texts are hardly ever right would test nothing.
    #[test]
    fn cases_are_right_and_wrong_often_enough() {
        let mut state = 1_u64;
        let mut right = [0_u32; 6];
        let mut written = 0;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                state.to_be_bytes()[0]
            })
            .take(120)
            .collect();
            let case = CgroupCase::from_bytes(&bytes);
            written += u32::from(case.written.is_some_and(|written| !written.paths.is_empty() && !written.cpus.is_empty()));
            let text = &case.text[..];
            let is_right = [
                text::cpu_max(text).is_ok(),
                text::cfs_quota(text).is_ok(),
                text::cpu_stat(text).is_ok(),
                text::pressure(text).is_ok_and(|pressure| pressure.some.or(pressure.full).is_some()),
                text::cpu_count(text).is_ok_and(|count| count > 0),
                text::membership(text).is_ok_and(|entries| !entries.is_empty()),
            ];
            right.iter_mut().zip(is_right).for_each(|(count, is_right)| *count += u32::from(is_right));
        }
        assert!(
            written > 1_000 && right.iter().all(|count| (300..15_000).contains(count)),
            "{written} written; right: {right:?}"
        );
    }
}
