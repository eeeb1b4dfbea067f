//! Memory: what the groups allow, and how much of it is used.

use std::path::{Path, PathBuf};

use super::{
    error::CgroupError,
    files::{Files, Kept, read_once},
    group::parsed,
    groups::{entries_and_mounts, without_machine},
    places::{Place, place},
    text,
};

/// Memory as it was read, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySample {
    /// The least limit of the process's group and the groups around it, at which the kernel kills. `None`: there is none. (At
    /// `memory.high` it slows a group down and takes back what it can; at soft limits and `memory.low` it does nothing to it.)
    pub limit: Option<u64>,
    /// What is used of it, by the group that has it: its others too. Without a limit, what the process's own group uses; without a group,
    /// what the process does.
    pub usage: u64,
    /// What of the usage the kernel takes back first, before it kills: pages of files that were not used lately.
    pub reclaimable: Option<u64>,
    /// How much is left until some group reaches its limit, which need not be the one with the least. `None`: there is no limit.
    pub headroom: Option<u64>,
    /// The directory that shows the group with the limit, or the own group. `None`: the process is in none but the machine's.
    pub group: Option<PathBuf>,
    /// The memory of the machine.
    pub machine: Option<u64>,
    /// What this process has in memory.
    pub process: Option<u64>,
}

/// A group of memory whose files are kept open.
struct Level {
    dir: PathBuf,
    limit: Kept,
    usage: Kept,
    stat: Kept,
}

/// The groups of memory.
pub(crate) struct Memory {
    tree: PathBuf,
    membership: Kept,
    meminfo: Kept,
    status: Kept,
    /// What `/proc/self/cgroup` said when the levels were found.
    found: Option<(Vec<u8>, Vec<Level>)>,
}

impl Memory {
    pub(crate) fn new(tree: &Path) -> Self {
        let proc = |name: &str| Kept::new(tree.join("proc").join(name));
        let (membership, meminfo, status) = (proc("self/cgroup"), proc("meminfo"), proc("self/status"));
        Self { tree: tree.to_owned(), membership, meminfo, status, found: None }
    }

    pub(crate) fn read(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<MemorySample, CgroupError> {
        let machine = parsed(&mut self.meminfo, files, buffer, |text| text::kibibytes(text, "MemTotal:")).ok().flatten();
        let process = parsed(&mut self.status, files, buffer, |text| text::kibibytes(text, "VmRSS:")).ok().flatten();
        let alone = |usage| MemorySample { limit: None, usage, reclaimable: None, headroom: None, group: None, machine, process };
        let levels = match self.levels(files, buffer) {
            Ok(levels) => levels,
            // No groups at all: then the process is what there is.
            Err(error) if error.is_absence() => return process.map(alone).ok_or(error),
            Err(error) => return Err(error),
        };
        // Where no group counts, or one cannot be read, it is perhaps another one by now: looked for again next time.
        match tightest(levels, files, buffer) {
            Ok(Some(sample)) => Ok(MemorySample { machine, process, ..sample }),
            Ok(None) => {
                self.found = None;
                process.map(alone).ok_or_else(|| CgroupError::NotThere { path: self.status.path().to_owned() })
            }
            Err(error) => {
                self.found = None;
                Err(error)
            }
        }
    }

    fn levels(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<&mut Vec<Level>, CgroupError> {
        if !self.membership.read(files, buffer)? {
            return Err(CgroupError::NotThere { path: self.membership.path().to_owned() });
        }
        let known = self.found.take().filter(|(membership, _)| membership == buffer);
        let found = match known {
            Some(found) => found,
            None => {
                let membership = buffer.clone();
                let (entries, mounts) = entries_and_mounts(files, &self.tree, &membership, buffer)?;
                let place = place("memory", &entries, &mounts, &self.tree, &|path| files.exists(path))?;
                (membership, open(without_machine(place, files), files, buffer))
            }
        };
        Ok(&mut self.found.insert(found).1)
    }
}

fn open(place: Place, files: &dyn Files, buffer: &mut Vec<u8>) -> Vec<Level> {
    let (limit, usage) = match place.unified {
        true => ("memory.max", "memory.current"),
        false => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    };
    // Before Linux 5.11 a group of version 1 could count its own processes alone.
    let mut counts_within =
        |dir: &Path| !(read_once(files, &dir.join("memory.use_hierarchy"), buffer) == Ok(true) && buffer.trim_ascii() == b"0");
    let around = place.dirs.into_iter().enumerate().filter(|(index, dir)| *index == 0 || counts_within(dir));
    let kept = |dir: &Path, name: &str| Kept::new(dir.join(name));
    let level = |dir: PathBuf| Level { limit: kept(&dir, limit), usage: kept(&dir, usage), stat: kept(&dir, "memory.stat"), dir };
    around.map(|(_, dir)| level(dir)).collect()
}

/// Of equal limits the outermost, as with processors. `None`: no group counts memory.
fn tightest(levels: &mut [Level], files: &dyn Files, buffer: &mut Vec<u8>) -> Result<Option<MemorySample>, CgroupError> {
    let mut least: Option<(Option<u64>, u64, usize)> = None;
    let mut headroom: Option<u64> = None;
    for (index, level) in levels.iter_mut().enumerate() {
        let limit = parsed(&mut level.limit, files, buffer, text::memory_limit);
        let usage = limit.and_then(|limit| Ok((limit.flatten(), parsed(&mut level.usage, files, buffer, text::memory_bytes)?)));
        let (limit, usage) = match usage {
            // Not for this process to see, as if it were not mounted.
            Err(CgroupError::Io { .. }) if index > 0 => continue,
            usage => usage?,
        };
        let Some(usage) = usage else { continue };
        if let Some(left) = limit.map(|limit| limit.saturating_sub(usage)) {
            headroom = Some(headroom.map_or(left, |least| least.min(left)));
        }
        let is_least = match (least, limit) {
            (None, _) | (Some((None, ..)), Some(_)) => true,
            (Some((Some(least), ..)), Some(limit)) => limit <= least,
            (Some(_), None) => false,
        };
        if is_least {
            least = Some((limit, usage, index));
        }
    }
    let Some((limit, usage, index)) = least else { return Ok(None) };
    let level = &mut levels[index];
    // What only adds to a sample costs none of it.
    let reclaimable = parsed(&mut level.stat, files, buffer, text::inactive_file).ok().flatten().flatten();
    let group = Some(level.dir.clone());
    Ok(Some(MemorySample { limit, usage, reclaimable, headroom, group, machine: None, process: None }))
}
