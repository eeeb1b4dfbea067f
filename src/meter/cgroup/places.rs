//! From what the process is in and what is mounted to the directories that show its groups.
//!
//! Version 1 of a controller goes before version 2: a line `0::` is there also where the controller is bound to version 1 (the hybrid
//! of systemd), and then the unified group knows nothing of it. Paths are split at slashes and joined piece by piece, so that neither a
//! leading slash nor `..` leads out of a mount.

use std::path::{Path, PathBuf};

use super::{
    error::CgroupError,
    text::{Entry, Mount},
};

/// What the kernel writes behind the path of a unified group that is gone.
const DELETED: &[u8] = b" (deleted)";

/// The directories of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whether they are of version 2.
    pub(crate) unified: bool,
    /// The process's own group first, then those around it, up to what is mounted.
    pub(crate) dirs: Vec<PathBuf>,
    /// Whether the last of them shows what the process's namespace calls `/`, which may be the machine's own.
    pub(crate) ends_at_root: bool,
    /// Whether the path named the first of them. If not, it is what of the path could be found.
    pub(crate) exact: bool,
    /// The process's group, for the comparison of hierarchies.
    pub(crate) group: Vec<u8>,
}

/// A mount whose path is put under the root of the tree.
struct At<'a> {
    point: PathBuf,
    root: Vec<&'a [u8]>,
}

/// Finds the groups of `controller`; `is_there` tells whether a directory is.
pub(crate) fn place(
    controller: &'static str,
    entries: &[Entry],
    mounts: &[Mount],
    tree: &Path,
    is_there: &dyn Fn(&Path) -> bool,
) -> Result<Place, CgroupError> {
    let named = |names: &[Vec<u8>]| names.iter().any(|name| name == controller.as_bytes());
    let first = entries.iter().find(|entry| named(&entry.controllers));
    let Some(entry) = first.or_else(|| entries.iter().find(|entry| entry.is_unified())) else {
        return Err(CgroupError::NoEntry { controller });
    };
    let shows = |mount: &Mount| match &mount.controllers {
        Some(names) => first.is_some() && named(names),
        None => first.is_none(),
    };
    match find(entry, mounts, shows, tree, is_there) {
        // Any other place would be a guess at a group that is not there any more.
        Some(place) if !place.exact && entry.is_unified() && entry.path.ends_with(DELETED) => {
            Err(CgroupError::NotThere { path: name(&entry.path) })
        }
        Some(place) => Ok(place),
        None => Err(CgroupError::NoMount { controller }),
    }
}

/// Finds the unified groups, whatever controls what: they have the pressure.
pub(crate) fn unified(entries: &[Entry], mounts: &[Mount], tree: &Path, is_there: &dyn Fn(&Path) -> bool) -> Option<Place> {
    let entry = entries.iter().find(|entry| entry.is_unified())?;
    find(entry, mounts, |mount| mount.controllers.is_none(), tree, is_there)
}

fn find(
    entry: &Entry,
    mounts: &[Mount],
    shows: impl Fn(&Mount) -> bool,
    tree: &Path,
    is_there: &dyn Fn(&Path) -> bool,
) -> Option<Place> {
    let hidden = |index: usize| mounts[index + 1..].iter().any(|later| later.point == mounts[index].point);
    let seen = mounts.iter().enumerate().filter(|(index, mount)| shows(mount) && !hidden(*index));
    let seen: Vec<At<'_>> = seen
        .map(|(_, mount)| At { point: within(tree, &without_parents(&pieces(&mount.point))), root: pieces(&mount.root) })
        .collect();
    let path = pieces(&entry.path);
    let made = |at: &At<'_>, rest: &[&[u8]], exact| Place {
        unified: entry.is_unified(),
        dirs: (0..=rest.len()).rev().map(|length| within(&at.point, &rest[..length])).collect(),
        ends_at_root: at.root.is_empty(),
        exact,
        group: entry.path.clone(),
    };
    // Where the root of a mount begins the path, the rest of the path leads on. Of several the one with the shortest root shows most of
    // the groups around.
    let exact = seen.iter().filter_map(|at| {
        let rest = path.strip_prefix(&*at.root)?;
        (!rest.contains(&&b".."[..]) && is_there(&within(&at.point, rest))).then_some((at, rest))
    });
    if let Some((at, rest)) = exact.min_by_key(|(at, _)| at.root.len()) {
        return Some(made(at, rest, true));
    }
    // The mount and the path are told from different places. What is outside is cut off, then the beginning piece by piece, until
    // something is there: at the latest the mount itself.
    let path = without_parents(&path);
    let guesses = (0..=path.len()).flat_map(|from| seen.iter().map(move |at| (at, from)));
    let found = guesses.map(|(at, from)| (at, &path[from..])).find(|(at, rest)| is_there(&within(&at.point, rest)));
    found.map(|(at, rest)| made(at, rest, false))
}

fn pieces(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|piece| !matches!(*piece, b"" | b".")).collect()
}

/// `..` takes back the piece before it, and is nothing at the top.
fn without_parents<'a>(pieces: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut plain = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match *piece {
            b".." => drop(plain.pop()),
            piece => plain.push(piece),
        }
    }
    plain
}

/// Pieces hold neither slashes nor `..`, so the result is under `base`.
fn within(base: &Path, pieces: &[&[u8]]) -> PathBuf {
    let mut path = base.to_owned();
    path.extend(pieces.iter().map(|piece| name(piece)));
    path
}

#[cfg(unix)]
fn name(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn name(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::cgroup::text::{membership, mountinfo};

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn cpu(cgroup: &str, mounts: &str, there: &[&str]) -> Result<Place, CgroupError> {
        let entries = membership(cgroup.as_bytes()).unwrap();
        let mounts = mountinfo(mounts.as_bytes()).unwrap();
        place("cpu", &entries, &mounts, Path::new("/"), &|path| there.iter().any(|there| path == Path::new(there)))
    }

    fn first(cgroup: &str, mounts: &str, there: &[&str]) -> String {
        cpu(cgroup, mounts, there).unwrap().dirs[0].to_str().unwrap().to_owned()
    }

    #[test]
    fn dirs_go_from_the_own_group_up_to_the_mount() {
        let place = cpu("0::/a/b\n", V2, &["/sys/fs/cgroup/a/b"]).unwrap();
        let dirs: Vec<_> = place.dirs.iter().map(|dir| dir.to_str().unwrap()).collect();
        assert_eq!(dirs, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert!(place.unified && place.exact && place.ends_at_root);
    }

    /// C14; F11; 3A 15.
    #[test]
    fn path_never_leads_out_of_the_mount() {
        let there = ["/sys/fs/cgroup", "/sys/fs/cgroup/test", "/x", "/test", "/sys/fs/test"];
        assert_eq!(first("0::/x\n", V2, &there), "/sys/fs/cgroup");
        assert_eq!(first("0::/../../x\n", V2, &there), "/sys/fs/cgroup");
        assert_eq!(first("0::/../../test\n", V2, &there), "/sys/fs/cgroup/test");
        assert_eq!(first("0::/../../../../../../test\n", V2, &there), "/sys/fs/cgroup/test");
        assert_eq!(first("0::/a/../test\n", V2, &there), "/sys/fs/cgroup/test");
        assert_eq!(first("0::/gone/outer/test\n", V2, &there), "/sys/fs/cgroup/test", "leading pieces are cut off");
        assert!(!cpu("0::/../../x\n", V2, &there).unwrap().exact);
        let outside = "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(first("0::/../../test\n", outside, &there), "/sys/fs/cgroup/test", "from a root outside the namespace");
        let hostile = "30 23 0:26 / /sys/fs/cgroup/../../../etc rw - cgroup2 cgroup2 rw\n";
        assert_eq!(first("0::/\n", hostile, &["/etc"]), "/etc", "as the kernel would resolve it, and not above the tree");
    }

    /// Invariant 6, for whatever a membership and a mount may say.
    #[test]
    fn no_path_leads_out_of_the_tree() {
        let mut state = 1_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            usize::try_from(state >> 40).unwrap() % below
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let mut path = || (0..next(6)).map(|_| ["/", "/.", "/..", "/a", "/b c", "/a"][next(6)]).collect::<String>();
            let (membership, root, point) = (path(), path(), path());
            let entry = Entry { hierarchy: 0, controllers: vec![], path: membership.clone().into_bytes() };
            let mount = Mount { root: root.clone().into_bytes(), point: point.clone().into_bytes(), controllers: None };
            let depth = next(4);
            let there = |path: &Path| path.components().count() <= 2 + depth;
            let Ok(place) = place("cpu", &[entry], &[mount], Path::new("/tree"), &there) else { continue };
            found += 1;
            for dir in place.dirs {
                let plain = dir.components().all(|piece| piece.as_os_str() != ".." && piece.as_os_str() != ".");
                assert!(dir.starts_with("/tree") && plain, "{membership:?} in {root:?} at {point:?}: {dir:?}");
            }
        }
        assert!(found > 5_000, "{found}");
    }

    /// 3A 9, 10.
    #[test]
    fn of_several_mounts_that_fit_the_one_that_shows_most_is_taken() {
        let inner = "40 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let outer = "41 23 0:26 / /host/cgroup rw - cgroup2 cgroup2 rw\n";
        let other = "42 23 0:26 /docker/other /mnt rw - cgroup2 cgroup2 rw\n";
        let there = ["/sys/fs/cgroup/y", "/host/cgroup/docker/x/y", "/mnt", "/mnt/y"];
        for rows in [[inner, outer, other], [other, outer, inner], [outer, other, inner]] {
            let place = cpu("0::/docker/x/y\n", &rows.concat(), &there).unwrap();
            assert_eq!(place.dirs.len(), 4);
            assert_eq!(place.dirs[0].to_str(), Some("/host/cgroup/docker/x/y"));
        }
        assert_eq!(first("0::/docker/x/y\n", &[inner, other].concat(), &there), "/sys/fs/cgroup/y", "only one has our path");
    }

    #[test]
    fn mount_that_another_lies_on_is_not_seen() {
        let below = "40 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let above = "41 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let place = cpu("0::/a\n", &[below, above].concat(), &["/sys/fs/cgroup", "/sys/fs/cgroup/a"]).unwrap();
        assert_eq!((place.dirs.len(), place.ends_at_root), (1, false));
    }

    /// C10; F09, F16; 3A 1, 3, 25.
    #[test]
    fn first_version_of_a_controller_goes_before_the_unified_line() {
        let mounts = "34 33 0:29 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
                      44 33 0:39 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:18 - cgroup cgroup rw,cpu,cpuacct\n";
        let there = [
            "/sys/fs/cgroup/unified/x",
            "/sys/fs/cgroup/cpu,cpuacct/y",
            "/sys/fs/cgroup/cpu,cpuacct/system.slice/docker.service",
        ];
        assert_eq!(first("0::/x\n3:cpu,cpuacct:/y\n", mounts, &there), "/sys/fs/cgroup/cpu,cpuacct/y");
        let systemd = "8:net_cls:/\n2:cpu,cpuacct:/system.slice/docker.service\n1:name=systemd:/system.slice/docker.service\n\
                       0::/system.slice/docker.service\n";
        assert_eq!(first(systemd, mounts, &there), "/sys/fs/cgroup/cpu,cpuacct/system.slice/docker.service");
        let elsewhere = "29 23 0:25 / /mnt rw - cgroup cgroup rw,cpu\n".to_owned() + V2;
        assert_eq!(
            first("0::/x\n", &elsewhere, &["/mnt/x", "/sys/fs/cgroup/x"]),
            "/sys/fs/cgroup/x",
            "the process is in none of those"
        );
        let only_unified = mounts.lines().next().unwrap();
        assert_eq!(
            cpu(systemd, only_unified, &there),
            Err(CgroupError::NoMount { controller: "cpu" }),
            "unknown is not unlimited"
        );
    }

    /// F02, F18; 3A 18.
    #[test]
    fn root_of_the_mount_is_taken_from_the_path() {
        let id = "d28e0087";
        let pod = format!("/kubepods/besteffort/pod9a18ffb8-8513-11e7-b26e-7e29fbe2a5a3/{id}");
        let mounts = format!("396 394 0:21 {pod} /sys/fs/cgroup/cpu ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu\n");
        let place = cpu(&format!("2:cpu:{pod}\n"), &mounts, &["/sys/fs/cgroup/cpu"]).unwrap();
        assert_eq!((place.dirs, place.exact, place.ends_at_root), (vec!["/sys/fs/cgroup/cpu".into()], true, false));
        let docker = "44 33 0:39 /docker /sys/fs/cgroup/cpu,cpuacct rw shared:18 - cgroup cgroup rw,cpu,cpuacct\n";
        let cgroup = "3:memory:/docker/large\n2:cpu,cpuacct:/docker\n1:cpuset:/\n";
        assert_eq!(first(cgroup, docker, &["/sys/fs/cgroup/cpu,cpuacct"]), "/sys/fs/cgroup/cpu,cpuacct");
    }

    /// C13.
    #[test]
    fn colons_in_a_path_and_names_that_only_begin_alike_are_kept_apart() {
        assert_eq!(
            first("0::/some/long/path:foobar\n", V2, &["/sys/fs/cgroup/some/long/path:foobar"]),
            "/sys/fs/cgroup/some/long/path:foobar"
        );
        let other = "40 23 0:26 /dock /a rw - cgroup2 cgroup2 rw\n41 23 0:26 /docker /b rw - cgroup2 cgroup2 rw\n";
        assert_eq!(first("0::/docker/x\n", other, &["/a/er/x", "/b/x", "/a"]), "/b/x", "a root is whole pieces");
    }

    /// F14.
    #[test]
    fn process_without_a_group_of_the_controller_is_told() {
        let cgroup = "2:cpuset:/foo\n1:name=systemd:/\n";
        assert_eq!(cpu(cgroup, V2, &["/sys/fs/cgroup"]), Err(CgroupError::NoEntry { controller: "cpu" }));
        assert_eq!(cpu("0::/\n", "", &[]), Err(CgroupError::NoMount { controller: "cpu" }));
        let gone = CgroupError::NotThere { path: "/a (deleted)".into() };
        assert_eq!(cpu("0::/a (deleted)\n", V2, &["/sys/fs/cgroup"]), Err(gone), "no guess at what is gone");
        assert!(cpu("0::/a (deleted)\n", V2, &["/sys/fs/cgroup/a (deleted)"]).unwrap().exact, "a name like any other");
    }
}
