//! Memory: limits and usage of groups, and the few lines of other files that stand in where there are no groups.

use super::{digits, lines, number, only_number, only_word, words};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

/// What version 1 writes for no limit is the highest number of whole pages, which depends on their size; no machine has so much.
const NO_LIMIT: u64 = 1 << 62;

/// `memory.max` or `memory.limit_in_bytes`, in bytes. `max`, and more than four exbibytes, is no limit.
///
/// # Errors
/// Not one number.
pub fn memory_limit(text: &[u8]) -> Result<Option<u64>, ParseCgroupError> {
    let word = only_word("memory.max", text)?;
    if word == b"max" {
        return Ok(None);
    }
    let bytes = number("memory.max", 1, word)?;
    Ok((bytes < NO_LIMIT).then_some(bytes))
}

/// `memory.current` or `memory.usage_in_bytes`, in bytes.
///
/// # Errors
/// Not one number.
pub fn memory_bytes(text: &[u8]) -> Result<u64, ParseCgroupError> {
    only_number("memory.current", text)
}

/// The line `inactive_file` of `memory.stat` (`total_inactive_file` of version 1, which counts groups within too): what of the usage
/// the kernel takes back first, in bytes.
///
/// # Errors
/// Such a line without its one number.
pub fn inactive_file(text: &[u8]) -> Result<Option<u64>, ParseCgroupError> {
    let (mut own, mut total) = (None, None);
    for (at, line) in lines(text) {
        let mut words = words(line);
        let Some(key) = words.next().filter(|key| matches!(*key, b"inactive_file" | b"total_inactive_file")) else { continue };
        let (Some(value), None) = (words.next().and_then(digits), words.next()) else {
            return Err(ParseCgroupError::new("memory.stat", at, line, ParseFault::Fields("a key and a number are")));
        };
        *(if key == b"inactive_file" { &mut own } else { &mut total }) = Some(value);
    }
    Ok(total.or(own))
}

/// The line `key    123 kB` (of `/proc/meminfo`, `/proc/self/status`), in bytes.
///
/// # Errors
/// No such line, or another unit.
pub fn kibibytes(text: &[u8], key: &'static str) -> Result<u64, ParseCgroupError> {
    for (at, line) in lines(text) {
        let Some(rest) = line.strip_prefix(key.as_bytes()) else { continue };
        let mut words = words(rest);
        let bytes = match (words.next(), words.next(), words.next()) {
            (Some(word), Some(b"kB"), None) => digits(word).and_then(|value| value.checked_mul(1024)),
            _ => None,
        };
        return bytes.ok_or_else(|| ParseCgroupError::new("meminfo", at, line, ParseFault::NotANumber));
    }
    Err(ParseCgroupError::new("meminfo", 1, b"", ParseFault::MissingKey(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_are_read() {
        assert_eq!(memory_limit(b"max\n"), Ok(None));
        assert_eq!(memory_limit(b"536870912\n"), Ok(Some(536_870_912)));
        assert_eq!(memory_limit(b"9223372036854771712\n"), Ok(None), "pages of 4 KiB");
        assert_eq!(memory_limit(b"9223372036854710272\n"), Ok(None), "pages of 64 KiB");
        assert_eq!(memory_limit(b"0\n"), Ok(Some(0)));
        assert_eq!(memory_bytes(b"1234\n"), Ok(1234));
        for wrong in ["", "-1", "max max", "1\n2", "18446744073709551616"] {
            assert!(memory_limit(wrong.as_bytes()).is_err() && memory_bytes(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_can_be_taken_back_is_found_in_both_versions() {
        assert_eq!(inactive_file(b"anon 1\ninactive_file 5\nactive_file 6\n"), Ok(Some(5)));
        assert_eq!(inactive_file(b"total_inactive_file 7\ninactive_file 5\n"), Ok(Some(7)));
        assert_eq!(inactive_file(b"anon 1\n"), Ok(None));
        assert!(inactive_file(b"inactive_file x\n").is_err() && inactive_file(b"inactive_file 1 2\n").is_err());
    }

    #[test]
    fn lines_in_kilobytes_are_kibibytes() {
        let text = b"MemTotal:        8144492 kB\nMemFree:  5 kB\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Ok(8_144_492 * 1024));
        assert_eq!(kibibytes(text, "VmRSS:").unwrap_err().fault(), ParseFault::MissingKey("VmRSS:"));
        for wrong in ["MemTotal: 5", "MemTotal: 5 MB", "MemTotal: x kB", "MemTotal: 18446744073709551615 kB"] {
            assert_eq!(kibibytes(wrong.as_bytes(), "MemTotal:").unwrap_err().fault(), ParseFault::NotANumber, "{wrong}");
        }
    }
}
