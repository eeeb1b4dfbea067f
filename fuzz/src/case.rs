//! A case: the settings of a hub and what is done to it, decoded from arbitrary bytes.

use std::fmt;

use arbitrary::{Arbitrary, Result, Unstructured};
use keywake::Slow;

/// The keys of every case.
pub(crate) const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Who numbers the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The hub, by `Publisher` or `SharedPublisher`.
    Own,
    /// The source, by `SourcePublisher`.
    Source,
}

/// The settings of the hub of a case.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `Builder::retain_events`.
    pub retain_events: usize,
    /// `Builder::retain_bytes`, with the payload's own weight.
    pub retain_bytes: Option<usize>,
    /// `Builder::retain_total_bytes`.
    pub retain_total_bytes: Option<usize>,
    /// `Builder::retain_for` an hour.
    pub retain_for: bool,
    /// `Builder::retain_unread`.
    pub retain_unread: bool,
    /// `Builder::keep_idle` an hour; else zero.
    pub keep_idle: bool,
    /// `Builder::max_topics`.
    pub max_topics: Option<usize>,
    /// `Builder::max_tombstones`.
    pub max_tombstones: Option<usize>,
    /// `Builder::epoch`.
    pub epoch: u64,
    /// `Builder::start_seq`.
    pub start_seq: u64,
    /// `OnLastPublisher::Keep`.
    pub keep_hub: bool,
    /// Publishes through a `SharedPublisher` (own numbering only).
    pub shared: bool,
    /// At the end the readers go before the publisher.
    pub readers_go_first: bool,
}

/// How a key is handed over.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Form {
    /// `publish(&str, ..)`.
    Borrowed,
    /// `publish_owned(String, ..)`.
    Owned,
}

/// How a reader reads.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Way {
    /// `try_recv_ref`.
    Lent,
    /// `recv_many`, polled once and dropped.
    Many,
    /// `try_recv`.
    Owned,
    /// `poll_recv` with a waker that counts: where nothing is unread, the reader is parked.
    Parking,
    /// `recv()`, polled once and dropped.
    Recv,
}

/// Where a new subscription starts.
#[derive(Clone, Copy, Debug)]
pub enum StartAt {
    /// `After` a position this far beyond the hub's.
    Ahead(u8),
    /// `After` a position this far behind the hub's.
    Back(u16),
    /// `After` a position of another epoch.
    Foreign(u8),
    /// `Latest`.
    Latest,
    /// `Next`.
    Next,
    /// `Oldest`.
    Oldest,
    /// `After` a position that was seen before.
    Seen(u8),
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Source: a bookmark this far ahead.
    Advance(u8),
    /// Closes a key.
    Close(u8),
    /// Lets go one held event.
    DropHeld(u8),
    /// Drops the publisher.
    DropPublisher,
    /// Drops a reader.
    DropReader(u8),
    /// Source: a number that does not rise.
    NotRising(u8),
    /// Source: so many numbers are lost, after so many that are not.
    Lost(u8, u8),
    /// Publishes so many events under one key, one by one.
    Publish(u8, u8, Form),
    /// Publishes so many events over several keys, as one batch (own numbering; else one by one).
    PublishBatch(u8, u8),
    /// A reader takes so many things; the events are held where it says so.
    Receive(u8, u8, Way, bool),
    /// Remembers a reader's position.
    Remember(u8),
    /// Shuts the hub down.
    Shutdown,
    /// From now on a reader gets this where it does not keep up.
    Slow(u8, Slow),
    /// A new reader; with the predicate where it says so.
    Subscribe(u8, StartAt, Form, Slow, bool),
    /// A new reader with a snapshot of so many items; it fails where it says so.
    SubscribeWithSnapshot(u8, u8, bool),
    /// Sweeps, so many half hours later.
    Sweep(u8),
    /// `wait_for_reader`, polled once.
    WaitForReader(u8),
}

/// Settings and steps.
#[derive(Clone)]
pub struct Case {
    /// Who numbers the events.
    pub numbering: Numbering,
    /// The settings of the hub.
    pub settings: Settings,
    /// What is done to it.
    pub ops: Vec<Op>,
}

/// More steps than this find nothing more, and cost the fuzzer its pace.
const MAX_OPS: usize = 400;

impl Case {
    /// The case that these bytes say; every sequence of bytes says one.
    #[must_use]
    pub fn from_bytes(numbering: Numbering, bytes: &[u8]) -> Self {
        let mut u = Unstructured::new(bytes);
        // Out of bytes is no error here: `int_in_range` and the like then give their first value.
        let settings = Settings::arbitrary(&mut u).unwrap_or(Settings::PLAIN);
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < MAX_OPS {
            match Op::arbitrary(&mut u) {
                Ok(op) => ops.push(op),
                Err(_) => break,
            }
        }
        Self { numbering, settings, ops }
    }
}

/// A step a line, as one reads it.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} numbers, {:?}", self.numbering, self.settings)?;
        self.ops.iter().try_for_each(|op| write!(f, "\n    {op:?}"))
    }
}

impl Settings {
    const PLAIN: Self = Self {
        retain_events: 1,
        retain_bytes: None,
        retain_total_bytes: None,
        retain_for: false,
        retain_unread: false,
        keep_idle: false,
        max_topics: None,
        max_tombstones: None,
        epoch: 1,
        start_seq: 0,
        keep_hub: false,
        shared: false,
        readers_go_first: false,
    };

    /// Whether only the count of events bounds what is retained: then the newest are sure to be there.
    pub(crate) fn by_count_only(&self) -> bool {
        self.retain_bytes.is_none() && self.retain_total_bytes.is_none() && !self.retain_for
    }
}

/// One in `n`.
fn one_in(u: &mut Unstructured<'_>, n: u8) -> Result<bool> {
    Ok(u.int_in_range(0..=n - 1)? == n - 1)
}

fn sometimes(u: &mut Unstructured<'_>, n: u8, range: std::ops::RangeInclusive<usize>) -> Result<Option<usize>> {
    Ok(if one_in(u, n)? { Some(u.int_in_range(range)?) } else { None })
}

impl<'a> Arbitrary<'a> for Settings {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            retain_events: u.int_in_range(1..=64)?,
            retain_bytes: sometimes(u, 6, 0..=4_000)?,
            retain_total_bytes: sometimes(u, 4, 0..=20_000)?,
            retain_for: one_in(u, 6)?,
            retain_unread: one_in(u, 3)?,
            keep_idle: one_in(u, 3)?,
            max_topics: sometimes(u, 3, 0..=4)?,
            max_tombstones: sometimes(u, 2, 0..=4)?,
            epoch: if one_in(u, 4)? { u.arbitrary()? } else { 1 },
            start_seq: if one_in(u, 3)? { u.int_in_range(0..=300)? } else { 0 },
            keep_hub: one_in(u, 3)?,
            shared: one_in(u, 3)?,
            readers_go_first: u.arbitrary()?,
        })
    }
}

impl<'a> Arbitrary<'a> for StartAt {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=19_u8)? {
            0..=3 => Self::Next,
            4..=7 => Self::Oldest,
            8..=9 => Self::Latest,
            10 => Self::Ahead(u.int_in_range(1..=40)?),
            11..=13 => Self::Back(u.int_in_range(0..=400)?),
            14 => Self::Foreign(u.arbitrary()?),
            _ => Self::Seen(u.arbitrary()?),
        })
    }
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let kind = u.int_in_range(0..=127_u8)?;
        let key = u.int_in_range(0..=3_u8)?;
        Ok(match kind {
            0..=31 => Self::Publish(key, few_or_many(u)?, u.arbitrary()?),
            32..=37 => Self::PublishBatch(u.arbitrary()?, few_or_many(u)?),
            38..=57 => Self::Subscribe(key, u.arbitrary()?, u.arbitrary()?, slow(u)?, one_in(u, 3)?),
            58..=59 => Self::SubscribeWithSnapshot(key, u.int_in_range(0..=3)?, one_in(u, 4)?),
            60..=93 => Self::Receive(u.arbitrary()?, few_or_many(u)?, u.arbitrary()?, one_in(u, 4)?),
            94..=105 => Self::DropReader(u.arbitrary()?),
            106..=108 => Self::DropHeld(u.arbitrary()?),
            109..=111 => Self::Close(key),
            112..=114 => Self::Sweep(u.int_in_range(0..=3)?),
            115..=116 => Self::Remember(u.arbitrary()?),
            117 => Self::Slow(u.arbitrary()?, slow(u)?),
            118..=119 => Self::WaitForReader(key),
            120..=121 => Self::Advance(u.int_in_range(0..=20)?),
            122..=123 => Self::Lost(u.int_in_range(0..=10)?, u.int_in_range(1..=10)?),
            124 => Self::NotRising(u.arbitrary()?),
            // An end is rare, so that most cases have a long life; it is always reached at the end of the case.
            125 if one_in(u, 4)? => Self::Shutdown,
            126 if one_in(u, 4)? => Self::DropPublisher,
            _ => Self::Publish(key, 1, Form::Borrowed),
        })
    }
}

fn slow(u: &mut Unstructured<'_>) -> Result<Slow> {
    Ok(match u.int_in_range(0..=7_u8)? {
        0..=3 => Slow::Gap,
        4..=5 => Slow::Latest,
        _ => Slow::Close,
    })
}

/// Mostly few; many are more than a block holds.
fn few_or_many(u: &mut Unstructured<'_>) -> Result<u8> {
    if one_in(u, 4)? { u.int_in_range(8..=200) } else { u.int_in_range(1..=7) }
}
