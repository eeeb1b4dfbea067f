//! What is wrong with a control group's file, or with reaching it: said so that an operator can act on it.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// How much of a value is kept for the message, in bytes.
const SHOWN: usize = 80;

/// Why a text is not what the kernel writes into this file.
///
/// It reads `/sys/fs/cgroup/a/cpu.max:1: "max": two fields are expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCgroupError {
    file: PathBuf,
    line: usize,
    value: String,
    fault: ParseFault,
}

impl ParseCgroupError {
    pub(crate) fn new(file: &str, line: usize, value: &[u8], fault: ParseFault) -> Self {
        let value = String::from_utf8_lossy(&value[..value.len().min(SHOWN)]).into_owned();
        Self { file: file.into(), line, value, fault }
    }

    /// The same fault, in the file with this path.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self { file: path.to_owned(), ..self }
    }

    /// The file: the path it was read from, or what such files are called where only a text was parsed.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line, counted from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// What stands there: the field, or the line. No more than its first 80 bytes, and what is no UTF-8 replaced.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What is wrong with it.
    #[must_use]
    pub const fn fault(&self) -> ParseFault {
        self.fault
    }
}

impl fmt::Display for ParseCgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {:?}: {}", self.file.display(), self.line, self.value, self.fault)
    }
}

impl std::error::Error for ParseCgroupError {}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseFault {
    /// There are other fields than these.
    Fields(&'static str),
    /// The line that begins with this word is not there.
    MissingKey(&'static str),
    /// Not a number of this kind, or too big for one.
    NotANumber,
    /// A range that ends before it begins, or begins before the one before it ends.
    NotAscending,
    /// Not a path that begins with `/`.
    NotAPath,
    /// Nothing may be divided by it, and nothing can be done within it.
    Zero,
}

impl fmt::Display for ParseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(expected) => write!(f, "{expected} expected"),
            Self::MissingKey(key) => write!(f, "there is no line {key}"),
            Self::NotANumber => f.write_str("a number is expected, of no more than 64 bits"),
            Self::NotAscending => f.write_str("ranges that rise are expected"),
            Self::NotAPath => f.write_str("a path from / on is expected"),
            Self::Zero => f.write_str("must not be 0"),
        }
    }
}

/// Why control groups could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgroupError {
    /// The system did not let it be read.
    Io {
        /// What was to be read.
        path: PathBuf,
        /// What kind of failure.
        kind: io::ErrorKind,
        /// The system's number for it (`errno`).
        code: Option<i32>,
    },
    /// There is no process clock either: of this process's time nothing is known.
    NoClock,
    /// `/proc/self/cgroup` names no group for this controller.
    NoEntry {
        /// `cpu` or `memory`.
        controller: &'static str,
    },
    /// Of the file systems that are mounted none shows the groups of this controller.
    NoMount {
        /// `cpu` or `memory`.
        controller: &'static str,
    },
    /// A file that must be there is not.
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// It was read, and is not what is written there.
    Parse(ParseCgroupError),
}

impl CgroupError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: path.to_owned(), kind: error.kind(), code: error.raw_os_error() }
    }

    /// Whether it says that there is nothing to be read, rather than that reading failed.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::NoEntry { .. } | Self::NoMount { .. } | Self::NotThere { .. })
    }
}

impl From<ParseCgroupError> for CgroupError {
    fn from(error: ParseCgroupError) -> Self {
        Self::Parse(error)
    }
}

impl fmt::Display for CgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, kind, code: Some(code) } => write!(f, "{}: {kind} (errno {code})", path.display()),
            Self::Io { path, kind, code: None } => write!(f, "{}: {kind}", path.display()),
            Self::NoClock => f.write_str("this system has no process clock that is known here"),
            Self::NoEntry { controller } => write!(f, "/proc/self/cgroup names no group for {controller}"),
            Self::NoMount { controller } => write!(f, "no file system that is mounted shows the groups of {controller}"),
            Self::NotThere { path } => write!(f, "{}: not there", path.display()),
            Self::Parse(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CgroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Parse(error) => Some(error),
            _ => None,
        }
    }
}
