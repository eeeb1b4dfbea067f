//! How many files the process may hold open, and so how many connections it takes.

/// Files that are not connections: the listener, the log, the runtime's own, and room to spare.
const RESERVED_FILES: u64 = 256;
/// The most connections taken without being asked for more.
const MOST_CONNECTIONS: u64 = 65_536;

/// Raises the soft limit of open files to the hard one, and says what it is now.
///
/// Where it cannot be raised it stays what it was.
#[must_use]
pub fn raise_open_files() -> u64 {
    rlimit::increase_nofile_limit(u64::MAX).or_else(|_| rlimit::Resource::NOFILE.get_soft()).unwrap_or(1024)
}

/// How many connections to take at once: what was asked for, at most what the open files allow.
#[must_use]
pub fn connections(asked: Option<usize>, open_files: u64) -> usize {
    let possible = open_files.saturating_sub(RESERVED_FILES).max(16);
    let wanted = asked.map_or(MOST_CONNECTIONS, |asked| asked as u64);
    usize::try_from(wanted.min(possible)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_open_files() {
        assert_eq!(connections(None, 1_000_000), 65_536);
        assert_eq!(connections(None, 1024), 768);
        assert_eq!(connections(Some(100_000), 1_000_000), 100_000);
        assert_eq!(connections(Some(10), 1024), 10);
        assert_eq!(connections(Some(5000), 1024), 768);
        assert_eq!(connections(None, 64), 16);
    }
}
