//! The shipped victim policy: classes in an order, and in each the highest burn first.

use std::{fmt, str::FromStr};

use super::victims::{Candidate, Rank, VictimPolicy};
use crate::load::StreamClass;

/// Which classes are let go, the first ones first; a class that is not in it never is.
///
/// Within a class: the highest cost first, then the oldest, then the lowest id. [`Cached`](StreamClass::Cached) streams burn next to nothing
/// that can be told apart, so the floor on burn does not apply to them, and one of them ends a round: what it freed is measured before
/// another goes.
///
/// As text it is a list with commas: `dev,live,catch-up` (`prod-live`, `prod-catchup` and `prod-cached` are understood too); the empty text
/// is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassOrder {
    classes: Vec<StreamClass>,
}

/// A class order that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassOrderError {
    /// A class stands in it twice.
    Duplicate {
        /// Which.
        class: StreamClass,
    },
    /// No class: nothing would ever be let go.
    Empty,
    /// A word that names no class.
    Unknown {
        /// The word.
        word: String,
    },
}

impl fmt::Display for ClassOrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { class } => write!(f, "eviction order: class {class} stands in it twice"),
            Self::Empty => {
                f.write_str("eviction order: without a class nothing is ever evicted; to only watch, say mode observe")
            }
            Self::Unknown { word } => {
                write!(f, "eviction order: class {word:?} is not known: say some of dev, cached, catch-up, live")
            }
        }
    }
}

impl std::error::Error for ClassOrderError {}

fn class(word: &str) -> Option<StreamClass> {
    Some(match word {
        "cached" | "prod-cached" => StreamClass::Cached,
        "catch-up" | "catchup" | "prod-catch-up" | "prod-catchup" => StreamClass::CatchUp,
        "dev" => StreamClass::Dev,
        "live" | "prod-live" => StreamClass::Live,
        _ => return None,
    })
}

impl ClassOrder {
    /// An order of one's own.
    ///
    /// # Errors
    /// When a class stands in it twice, or none does.
    pub fn new(classes: &[StreamClass]) -> Result<Self, ClassOrderError> {
        for (index, class) in classes.iter().enumerate() {
            if classes[..index].contains(class) {
                return Err(ClassOrderError::Duplicate { class: *class });
            }
        }
        if classes.is_empty() { Err(ClassOrderError::Empty) } else { Ok(Self { classes: classes.to_vec() }) }
    }

    /// The source's own, and the default: dev, live, catch-up. A live stream goes on burning for as long as it is there, a catch-up ends by
    /// itself, and what it has done would be lost. For servers whose live clients come back elsewhere without loss and at little cost.
    #[must_use]
    pub fn s0() -> Self {
        Self { classes: vec![StreamClass::Dev, StreamClass::Live, StreamClass::CatchUp] }
    }

    /// What the source's authors took later: dev, cached, catch-up, and live ones never. For servers whose live clients feel an
    /// interruption at once (a trading screen), while one behind only arrives a little later. An overload by live streams alone is then
    /// never cut, only reported, and needs more instances.
    #[must_use]
    pub fn protect_live() -> Self {
        Self { classes: vec![StreamClass::Dev, StreamClass::Cached, StreamClass::CatchUp] }
    }

    /// The classes, in their order.
    #[must_use]
    pub fn classes(&self) -> &[StreamClass] {
        &self.classes
    }
}

impl Default for ClassOrder {
    fn default() -> Self {
        Self::s0()
    }
}

impl fmt::Display for ClassOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, class) in self.classes.iter().enumerate() {
            write!(f, "{}{class}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for ClassOrder {
    type Err = ClassOrderError;

    /// A list with commas; blanks around words do not count.
    ///
    /// # Errors
    /// On a word that names no class (an empty one between two commas too) and on a class that stands in it twice.
    fn from_str(text: &str) -> Result<Self, ClassOrderError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let classes = text.split(',').map(str::trim);
        let classes: Result<Vec<_>, _> =
            classes.map(|word| class(word).ok_or_else(|| ClassOrderError::Unknown { word: word.to_owned() })).collect();
        Self::new(&classes?)
    }
}

impl VictimPolicy for ClassOrder {
    fn rank(&self, candidate: &Candidate) -> Option<Rank> {
        let place = self.classes.iter().position(|class| *class == candidate.class)?;
        let tier = u32::try_from(place).unwrap_or(u32::MAX);
        Some(Rank { tier, score: candidate.cost_cores, cost_known: candidate.class != StreamClass::Cached })
    }
}
