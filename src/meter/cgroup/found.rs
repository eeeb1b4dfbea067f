//! What is known of the groups between ticks.

use super::{
    error::CgroupError,
    files::Files,
    groups::{Groups, Plan, Read},
    reading::Notice,
};

/// What is known of the groups.
pub(crate) enum Found {
    /// There are none; to be looked for again in so many ticks.
    Absent { error: CgroupError, wait: u32 },
    /// These.
    Groups(Box<Groups>),
    /// Nobody looked yet.
    Nothing,
}

impl Found {
    pub(crate) fn read(&mut self, files: &dyn Files, buffer: &mut Vec<u8>) -> Result<Read, CgroupError> {
        match self {
            Self::Groups(groups) => groups.read(files, buffer),
            Self::Absent { error, .. } => Err(error.clone()),
            Self::Nothing => Ok(Read { groups: Vec::new(), cpuset: None }),
        }
    }

    pub(crate) fn is_better(&self, plan: &Plan) -> bool {
        match self {
            Self::Groups(groups) => groups.plan != *plan && (plan.is_exact() || !groups.plan.is_exact()),
            Self::Absent { .. } | Self::Nothing => true,
        }
    }

    /// Takes the plan up. Where it is the one that is carried out, the files stay open and the counters are kept.
    pub(crate) fn adopt(&mut self, membership: Vec<u8>, plan: Plan, notices: &mut Vec<Notice>) {
        let moved = match self {
            Self::Groups(groups) if groups.plan == plan => {
                groups.membership = membership;
                return;
            }
            Self::Groups(_) => true,
            Self::Absent { .. } | Self::Nothing => false,
        };
        let is_exact = plan.is_exact();
        let groups = Groups::new(membership, plan);
        let path = groups.cpu.first().map(|group| group.path().to_owned());
        if moved {
            notices.push(Notice::Moved { path: path.clone() });
        }
        if !is_exact {
            notices.push(Notice::Guessed { path });
        }
        *self = Self::Groups(Box::new(groups));
    }
}
