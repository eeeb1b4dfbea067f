//! All groups around the process: which they are, and one reading of them.

use std::path::Path;

use super::{
    error::CgroupError,
    files::{Files, Kept, read_once},
    group::{Dirs, Group, Now, parsed},
    places::{Place, place, unified},
    text::{self, Entry, Mount, membership, mountinfo},
};

/// Which directories there are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    cpu: Place,
    cpuacct: Option<Place>,
    cpuset: Option<Place>,
    pressure: Option<Place>,
}

impl Plan {
    /// From the text of `/proc/self/cgroup` and what is mounted.
    pub(crate) fn find(files: &dyn Files, tree: &Path, cgroup: &[u8], buffer: &mut Vec<u8>) -> Result<Self, CgroupError> {
        let (entries, mounts) = entries_and_mounts(files, tree, cgroup, buffer)?;
        let is_there = |path: &Path| files.exists(path);
        let find = |controller| place(controller, &entries, &mounts, tree, &is_there).map(|place| without_machine(place, files));
        let cpu = find("cpu")?;
        // Only of the same group: of any other the counters are of other processes.
        let same = |place: &Place| place.group == cpu.group && place.exact && cpu.exact;
        let cpuacct = if cpu.unified { None } else { find("cpuacct").ok().filter(|place| !place.unified && same(place)) };
        let hybrid = || unified(&entries, &mounts, tree, &is_there).map(|place| without_machine(place, files)).filter(same);
        let pressure = if cpu.unified { Some(cpu.clone()) } else { hybrid() };
        // A guess at the set is worse than none: the process's own mask, which the kernel keeps within it, is known.
        let cpuset = find("cpuset").ok().filter(|place| place.exact);
        Ok(Self { cpu, cpuacct, cpuset, pressure })
    }

    /// Whether the path in `/proc/self/cgroup` led to the group.
    pub(crate) const fn is_exact(&self) -> bool {
        self.cpu.exact
    }
}

/// What the process is in, and which mounts show groups.
pub(crate) fn entries_and_mounts(
    files: &dyn Files,
    tree: &Path,
    cgroup: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(Vec<Entry>, Vec<Mount>), CgroupError> {
    let path = tree.join("proc/self/mountinfo");
    if !read_once(files, &path, buffer)? {
        return Err(CgroupError::NotThere { path });
    }
    let mounts = mountinfo(buffer).map_err(|error| error.in_file(&path))?;
    let entries = membership(cgroup).map_err(|error| error.in_file(&tree.join("proc/self/cgroup")))?;
    Ok((entries, mounts))
}

/// Takes the machine's own group away, where the last directory shows it: it has no limits, and its counters are the machine's. Version 2
/// gives every other group files of its own; version 1 gives some to this one alone. (In a namespace of its own a container sees its group
/// at the same place and under the same name.)
pub(crate) fn without_machine(mut place: Place, files: &dyn Files) -> Place {
    let Some(top) = place.dirs.last().filter(|_| place.ends_at_root) else { return place };
    let has = |names: &[&str]| names.iter().any(|name| files.exists(&top.join(name)));
    let is_machine = match place.unified {
        true => !has(&["cgroup.type", "cgroup.events", "cpu.max", "memory.max"]),
        false => has(&["cgroup.sane_behavior", "release_agent"]),
    };
    if is_machine {
        place.dirs.pop();
    }
    place
}

/// The groups, with their files open.
pub(crate) struct Groups {
    /// What `/proc/self/cgroup` said when they were found.
    pub(crate) membership: Vec<u8>,
    pub(crate) plan: Plan,
    /// The process's own first. Empty: it is in the machine's.
    pub(crate) cpu: Vec<Group>,
    /// From the own group outwards; the first that has one.
    cpuset: Vec<Kept>,
}

/// One reading of all of them.
pub(crate) struct Read {
    /// For each group; one of those around that may not be read is left out.
    pub(crate) groups: Vec<Result<Now, CgroupError>>,
    /// How many processors the group has.
    pub(crate) cpuset: Option<u64>,
}

impl Groups {
    pub(crate) fn new(membership: Vec<u8>, plan: Plan) -> Self {
        let at = |place: &Option<Place>, index: usize| place.as_ref().and_then(|place| place.dirs.get(index)).cloned();
        let dirs = plan.cpu.dirs.iter().enumerate();
        let cpu = dirs.map(|(index, cpu)| {
            let (cpuacct, pressure) = (at(&plan.cpuacct, index), at(&plan.pressure, index));
            let (cpuacct, pressure) = (cpuacct.as_deref(), pressure.as_deref());
            Group::new(&Dirs { unified: plan.cpu.unified, cpu, cpuacct, pressure })
        });
        let cpu = cpu.collect();
        let cpuset = plan.cpuset.iter().flat_map(|place| {
            let names: &[&str] =
                if place.unified { &["cpuset.cpus.effective"] } else { &["cpuset.effective_cpus", "cpuset.cpus"] };
            place.dirs.iter().flat_map(move |dir| names.iter().map(move |name| Kept::new(dir.join(name))))
        });
        Self { cpuset: cpuset.collect(), cpu, membership, plan }
    }

    pub(crate) fn read(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<Read, CgroupError> {
        let mut groups = Vec::with_capacity(self.cpu.len());
        for (index, group) in self.cpu.iter_mut().enumerate() {
            let now = group.read(index == 0, files, buffer);
            match now {
                // Not for this process to see, as if it were not mounted.
                Err(CgroupError::Io { .. }) if index > 0 => groups.push(now),
                now => groups.push(Ok(now?)),
            }
        }
        let mut cpuset = None;
        for file in &mut self.cpuset {
            // An empty one says nothing: version 1 has it so until somebody writes it. One that may not be read does neither: the kernel
            // keeps the process's own mask, which is known too, within it.
            cpuset = match parsed(file, files, buffer, text::cpu_count) {
                Err(CgroupError::Io { .. }) => None,
                cpus => cpus?.filter(|cpus| *cpus > 0),
            };
            if cpuset.is_some() {
                break;
            }
        }
        Ok(Read { groups, cpuset })
    }
}
