//! Which processors: lists as `0-3,8-11`, of which only the count is wanted.

use super::{digits, lines};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const CPUSET: &str = "cpuset.cpus";
const STATUS: &str = "status";
const ALLOWED: &[u8] = b"Cpus_allowed_list:";

/// How many processors a list names: `0-3,8-11` eight, `0,2` two, an empty one none.
///
/// # Errors
/// More than one line, what is no number, and ranges that do not rise.
pub fn cpu_count(text: &[u8]) -> Result<u64, ParseCgroupError> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        return Err(ParseCgroupError::new(CPUSET, 2, &text[end + 1..], ParseFault::Fields("one line is")));
    }
    count(CPUSET, 1, text)
}

/// The same of the line `Cpus_allowed_list:` in `/proc/self/status`.
///
/// # Errors
/// No such line, or no list in it.
pub fn allowed_list(text: &[u8]) -> Result<u64, ParseCgroupError> {
    for (at, line) in lines(text) {
        if let Some(list) = line.strip_prefix(ALLOWED) {
            return count(STATUS, at, list);
        }
    }
    Err(ParseCgroupError::new(STATUS, 1, b"", ParseFault::MissingKey("Cpus_allowed_list:")))
}

fn count(file: &str, at: usize, list: &[u8]) -> Result<u64, ParseCgroupError> {
    let list = list.trim_ascii();
    if list.is_empty() {
        return Ok(0);
    }
    let mut count = 0_u64;
    let mut least = Some(0_u64);
    for range in list.split(|byte| *byte == b',') {
        let fault = |fault| ParseCgroupError::new(file, at, range, fault);
        let mut ends = range.splitn(2, |byte| *byte == b'-');
        let first = ends.next().and_then(digits);
        let last = ends.next().map_or(first, digits);
        let (Some(first), Some(last)) = (first, last) else { return Err(fault(ParseFault::NotANumber)) };
        if first > last || least.is_none_or(|least| first < least) {
            return Err(fault(ParseFault::NotAscending));
        }
        // `last` is at least as many as came before, so only the whole range of 64 bits does not fit.
        count = count.saturating_add((last - first).saturating_add(1));
        least = last.checked_add(1);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5: lists with holes are counted whole (2.1).
    #[test]
    fn every_range_of_a_list_is_counted() {
        for (text, count) in [("0-3,8-11\n", 8), ("0,2\n", 2), ("0\n", 1), ("0-1", 2), ("\n", 0), ("", 0), ("7-7,9", 2)] {
            assert_eq!(cpu_count(text.as_bytes()), Ok(count), "{text:?}");
        }
        assert_eq!(cpu_count(b"0-18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_list_is_a_typed_error() {
        for (text, fault) in [
            ("a", ParseFault::NotANumber),
            ("0-", ParseFault::NotANumber),
            ("-3", ParseFault::NotANumber),
            ("0,,2", ParseFault::NotANumber),
            ("0,", ParseFault::NotANumber),
            ("0-1-2", ParseFault::NotANumber),
            ("0-31:2/4", ParseFault::NotANumber),
            ("3-0", ParseFault::NotAscending),
            ("0-3,3", ParseFault::NotAscending),
            ("18446744073709551615,0", ParseFault::NotAscending),
            ("0\n1", ParseFault::Fields("one line is")),
        ] {
            assert_eq!(cpu_count(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
    }

    #[test]
    fn allowed_processors_stand_in_the_status() {
        let status = b"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-5,7\nMems_allowed_list:\t0\n";
        assert_eq!(allowed_list(status), Ok(7));
        assert_eq!(allowed_list(b"Name:\tx\n").unwrap_err().fault(), ParseFault::MissingKey("Cpus_allowed_list:"));
        let wrong = allowed_list(b"Name:\tx\nCpus_allowed_list:\tall\n").unwrap_err();
        assert_eq!((wrong.line(), wrong.value(), wrong.fault()), (2, "all", ParseFault::NotANumber));
    }
}
