//! Where groups can be seen: the rows of `/proc/self/mountinfo` that show some.

use super::lines;
use crate::meter::cgroup::error::{ParseCgroupError, ParseFault};

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// A file system of groups that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The group that is seen at the top of it; it may begin with `/..`, where that is outside the process's namespace.
    pub root: Vec<u8>,
    /// Where it is mounted.
    pub point: Vec<u8>,
    /// What it controls, of version 1. `None`: it is of version 2.
    pub controllers: Option<Vec<Vec<u8>>>,
}

/// The rows whose file system is of type `cgroup` or `cgroup2`, in their order, which is that of mounting: of two at one place the later
/// hides the earlier.
///
/// # Errors
/// A row without its fields: `number parent device root point options optional.. - type source super-options`. Paths have their special
/// characters written in octal (`\040`); optional fields are any number; super-options may hold spaces.
pub fn mountinfo(text: &[u8]) -> Result<Vec<Mount>, ParseCgroupError> {
    let mut mounts = Vec::new();
    for (at, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        let fault = |fault| ParseCgroupError::new(MOUNTINFO, at, line, fault);
        let mut fields = line.split(|byte| *byte == b' ');
        let (Some(root), Some(point)) = (fields.nth(3), fields.next()) else {
            return Err(fault(ParseFault::Fields("a root and a mount point are")));
        };
        // Past the options and whatever is optional. Neither can be a dash alone, and a path with one is not.
        fields.next();
        if !fields.any(|field| field == b"-") {
            return Err(fault(ParseFault::Fields("a dash and a type are")));
        }
        let kind = fields.next().unwrap_or_default();
        if !matches!(kind, b"cgroup" | b"cgroup2") {
            continue;
        }
        let options = fields.skip(1).flat_map(|field| field.split(|byte| *byte == b','));
        let controllers = (kind == b"cgroup").then(|| options.map(<[u8]>::to_vec).collect());
        let (root, point) = (unescape(root), unescape(point));
        if !root.starts_with(b"/") || !point.starts_with(b"/") {
            return Err(fault(ParseFault::NotAPath));
        }
        mounts.push(Mount { root, point, controllers });
    }
    Ok(mounts)
}

/// `\040` as a space, and so on. A backslash that begins no such number stands for itself.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = match rest {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', ..] => {
                Some((high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'))
            }
            _ => None,
        };
        plain.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &rest[4..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(row: &str) -> Mount {
        let mut mounts = mountinfo(row.as_bytes()).unwrap();
        assert_eq!(mounts.len(), 1, "{row}");
        mounts.remove(0)
    }

    /// C13; 3A 18, 22.
    #[test]
    fn row_is_read_whatever_optional_fields_and_escapes_it_has() {
        for optional in ["", "shared:9 ", "shared:9 master:1 propagate_from:2 unbindable "] {
            let mount =
                only(&format!("30 23 0:26 / /sys/fs/my\\040cgroup-v\\0612\\134 rw,nosuid {optional}- cgroup2 cgroup2 rw\n"));
            assert_eq!((&*mount.root, &*mount.point, mount.controllers), (&b"/"[..], &b"/sys/fs/my cgroup-v12\\"[..], None));
        }
        let mount = only("35 31 0:32 /kube-pods/a-b /sys/fs/cgroup-x/cpu rw - cgroup - rw,cpu,cpuacct");
        assert_eq!(mount.controllers.unwrap(), [b"rw".to_vec(), b"cpu".to_vec(), b"cpuacct".to_vec()]);
        assert_eq!(&*mount.point, b"/sys/fs/cgroup-x/cpu");
    }

    /// 3A 11: Windows' drives in its Linux.
    #[test]
    fn row_with_spaces_in_its_super_options_is_passed_over_like_any_other() {
        let rows =
            b"560 77 0:138 / /Docker/host rw,noatime - 9p drvfs rw,dirsync,aname=drvfs;path=C:\\Program Files\\Docker;uid=0\n\
                     31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n";
        assert_eq!(mountinfo(rows), Ok(vec![]));
    }

    #[test]
    fn what_is_no_row_is_a_typed_error() {
        let (ends, dash) = (ParseFault::Fields("a root and a mount point are"), ParseFault::Fields("a dash and a type are"));
        for (text, fault) in [
            ("x", ends),
            ("1 2 3 /", ends),
            ("1 2 3 / /a", dash),
            ("1 2 3 / /a rw", dash),
            ("1 2 3 / /a - cgroup2 x rw", dash),
            ("1 2 3 a /a rw - cgroup2 x rw", ParseFault::NotAPath),
            ("1 2 3 / a rw - cgroup x rw", ParseFault::NotAPath),
        ] {
            assert_eq!(mountinfo(text.as_bytes()).unwrap_err().fault(), fault, "{text:?}");
        }
    }

    #[test]
    fn backslash_that_begins_no_number_stands_for_itself() {
        assert_eq!(unescape(br"\04 \400 \ \\040\"), br"\04 \400 \ \ \".to_vec());
    }
}
