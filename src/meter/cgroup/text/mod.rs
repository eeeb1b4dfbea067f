//! Every file that is read, as a function from any bytes to a value or a typed error. Nothing here panics, and nothing knows where a
//! file is.
//!
//! The forms are the kernel's (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/`, `accounting/psi.rst`, `proc(5)`). A word or a
//! line that is not known is passed over, as the kernel adds some with every release; one that is known must be well formed. The last
//! line needs no newline.

mod cpus;
mod membership;
mod memory;
mod mountinfo;
mod pressure;
mod quota;
mod stat;

pub use cpus::{allowed_list, cpu_count};
pub use membership::{Entry, membership};
pub use memory::{inactive_file, kibibytes, memory_bytes, memory_limit};
pub use mountinfo::{Mount, mountinfo};
pub use pressure::{Pressure, Stall, pressure};
pub use quota::{Quota, burst, cfs_period, cfs_quota, cpu_max};
pub use stat::{CpuStat, cpu_stat, cpu_stat_v1, cpuacct_usage};

use super::error::{ParseCgroupError, ParseFault};

/// The lines, each with its number from 1. What is behind the last newline is a line if there is anything.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines.map(|(index, line)| (index + 1, line))
}

/// The words of a line, between spaces and tabs.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// Digits and nothing else, as the kernel writes numbers (`str::parse` would take a plus sign).
fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn number(file: &str, line: usize, word: &[u8]) -> Result<u64, ParseCgroupError> {
    digits(word).ok_or_else(|| ParseCgroupError::new(file, line, word, ParseFault::NotANumber))
}

/// The one word of a text of one line.
fn only_word<'a>(file: &str, text: &'a [u8]) -> Result<&'a [u8], ParseCgroupError> {
    let mut lines = lines(text);
    let (_, line) = lines.next().unwrap_or((1, b""));
    let mut words = words(line);
    match (words.next(), words.next(), lines.next()) {
        (Some(word), None, None) => Ok(word),
        (_, _, Some((number, more))) => Err(ParseCgroupError::new(file, number, more, ParseFault::Fields("one line is"))),
        _ => Err(ParseCgroupError::new(file, 1, line, ParseFault::Fields("one field is"))),
    }
}

/// The number of a text of one line.
fn only_number(file: &str, text: &[u8]) -> Result<u64, ParseCgroupError> {
    number(file, 1, only_word(file, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(digits(b"0"), Some(0));
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "+5", "-1", "5 ", "0x5", "1.0", "18446744073709551616", "99999999999999999999999", "٣"] {
            assert_eq!(digits(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn lines_are_numbered_and_the_last_needs_no_newline() {
        let of = |text: &'static str| lines(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("a\nb\n"), of("a\nb"));
        assert_eq!(of("a\n\nb"), [(1, &b"a"[..]), (2, b""), (3, b"b")]);
        assert_eq!(of(""), [(1, &b""[..])]);
    }

    #[test]
    fn error_names_file_line_and_value() {
        let error = cpu_max(b"asdf 100000\n").unwrap_err();
        assert_eq!(error.to_string(), "cpu.max:1: \"asdf\": a number is expected, of no more than 64 bits");
        let error = error.in_file(std::path::Path::new("/sys/fs/cgroup/a/cpu.max"));
        assert_eq!((error.file().to_str(), error.line(), error.value()), (Some("/sys/fs/cgroup/a/cpu.max"), 1, "asdf"));
        let long = only_word("f", "x ".repeat(500).as_bytes()).unwrap_err();
        assert_eq!(long.value().len(), 80);
    }
}
