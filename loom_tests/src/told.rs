//! What one reader was told, and whether it leaves a hole.

use keywake::{CloseReason, Gap, Received, Subscription, TryRecvError};

use crate::Payload;

/// What one reader was told since it stood at a position. Noting checks the order: numbers rise, nothing comes twice, and no gap
/// reaches back over what was delivered.
#[derive(Clone, Debug)]
pub struct Told {
    from: u64,
    last: u64,
    /// Seqs of the events, in order.
    pub seqs: Vec<u64>,
    /// Ids of the events' payloads.
    pub ids: Vec<u64>,
    /// Ids of a snapshot's items.
    pub items: Vec<u64>,
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// The snapshot's end.
    pub snapshot_end: Option<u64>,
    /// Why it ended.
    pub end: Option<CloseReason>,
}

impl Told {
    /// Nothing yet, of a reader that stands at `from`.
    #[must_use]
    pub fn since(from: u64) -> Self {
        Self {
            from,
            last: from,
            seqs: Vec::new(),
            ids: Vec::new(),
            items: Vec::new(),
            gaps: Vec::new(),
            snapshot_end: None,
            end: None,
        }
    }

    /// Notes one thing.
    ///
    /// # Panics
    /// If it comes out of order.
    #[track_caller]
    pub fn note(&mut self, received: &Received<Payload>) {
        assert_eq!(self.end, None, "something comes after the end: {received:?}");
        match received {
            Received::Event(event) if event.seq() == 0 => {
                assert_eq!(self.snapshot_end, None, "an item of a snapshot after its end");
                self.items.push(event.id());
            }
            Received::Event(event) => {
                assert!(event.seq() > self.last, "{} comes after {self:?}", event.seq());
                self.last = event.seq();
                self.seqs.push(event.seq());
                self.ids.push(event.id());
            }
            Received::Gap(gap) => {
                assert!(gap.from >= self.last && gap.to >= gap.from, "{gap:?} comes after {self:?}");
                self.last = gap.to;
                self.gaps.push(*gap);
            }
            Received::SnapshotEnd(position) => {
                self.snapshot_end = Some(position.seq());
                self.from = position.seq();
                self.last = position.seq();
            }
            other => panic!("not expected of a plain reader: {other:?}"),
        }
    }

    /// Receives and notes all that is there now.
    ///
    /// # Panics
    /// If it comes out of order.
    #[track_caller]
    pub fn take_all(&mut self, reader: &mut Subscription<u8, Payload>) {
        loop {
            match reader.try_recv() {
                Ok(received) => self.note(&received),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Closed(closed)) => {
                    self.end = Some(closed.reason().clone());
                    return;
                }
            }
        }
    }

    /// Of the published seqs, each that comes after the reader's beginning was delivered or told as lost, and nothing else was.
    ///
    /// # Panics
    /// If one was not: a silent hole.
    #[track_caller]
    pub fn assert_no_silent_hole(&self, published: &[u64]) {
        for seq in &self.seqs {
            assert!(published.contains(seq), "{seq} was never published: {self:?}");
        }
        self.assert_no_silent_hole_up_to(published);
    }

    /// All of these seqs after the reader's beginning were delivered or told as lost; it may have been told more.
    ///
    /// # Panics
    /// If one was not.
    #[track_caller]
    pub fn assert_no_silent_hole_up_to(&self, before: &[u64]) {
        for seq in before.iter().filter(|seq| **seq > self.from) {
            let is_told = self.gaps.iter().any(|gap| gap.from < *seq && *seq <= gap.to);
            assert!(is_told || self.seqs.contains(seq), "silent hole: {seq} of {before:?}, {self:?}");
        }
    }

    /// The gaps that say how much was lost are right about it.
    ///
    /// # Panics
    /// If one is not.
    #[track_caller]
    pub fn assert_gaps_exact(&self, published: &[u64]) {
        for gap in &self.gaps {
            let lost = published.iter().filter(|seq| gap.from < **seq && **seq <= gap.to).count() as u64;
            assert!(gap.missed.is_none_or(|missed| missed == lost), "{lost} of {published:?} lost: {gap:?}");
        }
    }
}
