//! What is placed, and where: owners, fleets, indexes.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::hash::placement_hash;
use crate::sync::PlainArc;

/// The longest name of an owner, in bytes.
const LONGEST_OWNER: usize = 256;
/// The longest name of a fleet, in bytes.
const LONGEST_FLEET: usize = 64;

/// A set of like processes, numbered from 0. Owners are placed in each fleet by itself: rows, loads, cooldowns and pins are those of
/// (fleet, owner).
///
/// A name has 1 to 64 ASCII letters, digits, `-` and `_`, so that every store can use it as it is. Cloning counts a reference.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fleet(PlainArc<str>);

impl Fleet {
    /// The fleet of that name.
    ///
    /// # Errors
    /// On a name that is empty, too long, or has other characters.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        check("fleet", name, LONGEST_FLEET, name.bytes().all(fits))?;
        Ok(Self(name.into()))
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Whose work is placed as one: a tenant, a key, a partition. It runs on exactly one process of a fleet.
///
/// A name has 1 to 256 bytes and no control characters. It carries its [`placement_hash`], which is computed here, once; cloning counts
/// a reference. Owners are ordered by name.
#[derive(Clone)]
pub struct Owner {
    name: PlainArc<str>,
    hash: u64,
}

impl Owner {
    /// The owner of that name.
    ///
    /// # Errors
    /// On a name that is empty, too long, or has control characters.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check("owner", name, LONGEST_OWNER, !name.chars().any(char::is_control))?;
        Ok(Self { hash: placement_hash(name.as_bytes()), name: name.into() })
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// [`placement_hash`] of its name.
    #[must_use]
    pub fn placement_hash(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.name == other.name
    }
}

impl Eq for Owner {}

/// By its placement hash; within a process only.
impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Owner {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// A process's place in its fleet, from 0. Stable over restarts: a process is known by it, and by nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Index(pub u32);

impl Index {
    /// As a position in a list.
    #[must_use]
    pub(super) fn at(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Of a position in a list.
    #[must_use]
    pub(super) fn of(at: usize) -> Self {
        Self(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that cannot be the name of an [`Owner`] or a [`Fleet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// What it was to be: `"owner"` or `"fleet"`.
    pub kind: &'static str,
    /// The text, cut to what is legible.
    pub value: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.kind {
            "fleet" => "1 to 64 ASCII letters, digits, - and _",
            _ => "1 to 256 bytes without control characters",
        };
        write!(f, "{:?} is no name of a {}, which has {rule}", self.value, self.kind)
    }
}

impl std::error::Error for NameError {}

fn check(kind: &'static str, name: &str, longest: usize, fits: bool) -> Result<(), NameError> {
    if !fits || name.is_empty() || name.len() > longest {
        return Err(NameError { kind, value: name.chars().take(LONGEST_FLEET).collect() });
    }
    Ok(())
}
