//! Which groups the process is in: `/proc/self/cgroup`.

use super::{digits, lines};
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const CGROUP: &str = "/proc/self/cgroup";

/// One line: one hierarchy, and the process's group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The hierarchy's number; 0 is the unified one of version 2.
    pub hierarchy: u64,
    /// What it controls (`cpu`, `cpuacct`, `name=systemd`); nothing in the unified one.
    pub controllers: Vec<Vec<u8>>,
    /// The group's path from the root of the process's namespace on; it may begin with `/..`.
    pub path: Vec<u8>,
}

impl Entry {
    /// Whether it is the line of version 2.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.hierarchy == 0 && self.controllers.is_empty()
    }
}

/// Lines of `number:controllers:path`. A path may hold colons, and is not escaped.
///
/// # Errors
/// A line without these three, a number that is none, a path that does not begin with `/`. An empty text is no error: it names no group.
pub fn membership(text: &[u8]) -> Result<Vec<Entry>, ParseCgroupError> {
    let mut entries = Vec::new();
    for (at, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ParseCgroupError::new(CGROUP, at, line, ParseFault::Fields("a number, controllers and a path are")));
        };
        let Some(number) = digits(hierarchy) else {
            return Err(ParseCgroupError::new(CGROUP, at, hierarchy, ParseFault::NotANumber));
        };
        if !path.starts_with(b"/") {
            return Err(ParseCgroupError::new(CGROUP, at, path, ParseFault::NotAPath));
        }
        let controllers = controllers.split(|byte| *byte == b',').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        entries.push(Entry { hierarchy: number, controllers, path: path.to_vec() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(text: &str) -> Option<String> {
        let entries = membership(text.as_bytes()).unwrap();
        entries.into_iter().find(Entry::is_unified).map(|entry| String::from_utf8(entry.path).unwrap())
    }

    /// C13; F14, F15.
    #[test]
    fn path_of_the_unified_group_is_found_whole() {
        assert_eq!(
            unified("0::/user.slice/user-1001.slice/session-1.scope\n").unwrap(),
            "/user.slice/user-1001.slice/session-1.scope"
        );
        let more = "2:cpuset:/foo\n1:name=systemd:/\n0::/user.slice/user-1001.slice/session-1.scope\n";
        assert_eq!(unified(more).unwrap(), "/user.slice/user-1001.slice/session-1.scope");
        assert_eq!(unified("2:cpuset:/foo\n1:name=systemd:/\n"), None);
        let terminal = "0::/user.slice/user-1000.slice/user@1000.service/gnome-terminal-server.service\n";
        assert!(unified(terminal).unwrap().contains("user@1000"));
        assert_eq!(unified("0::/some/long/path:foobar\n").unwrap(), "/some/long/path:foobar");
        assert_eq!(unified(""), None);
    }

    /// F15; 3A 11.
    #[test]
    fn controllers_and_colons_are_told_apart() {
        let entries = membership(b"4:cpu,cpuacct:/a:b\n2:cpu:/a:b:c\n1:name=systemd:/\n").unwrap();
        assert_eq!(entries[0].controllers, [b"cpu".to_vec(), b"cpuacct".to_vec()]);
        assert_eq!((&*entries[0].path, &*entries[1].path, entries[2].is_unified()), (&b"/a:b"[..], &b"/a:b:c"[..], false));
    }

    /// F15.
    #[test]
    fn what_is_no_membership_is_a_typed_error() {
        let fields = ParseFault::Fields("a number, controllers and a path are");
        for (text, fault) in [
            ("a:cpu:/", ParseFault::NotANumber),
            (":cpu:/", ParseFault::NotANumber),
            ("0:/", fields),
            ("0", fields),
            ("0::", ParseFault::NotAPath),
            ("0::a", ParseFault::NotAPath),
        ] {
            assert_eq!(membership(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
        assert_eq!(membership(b"0::/\nx\n").unwrap_err().line(), 2);
    }
}
