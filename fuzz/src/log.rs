//! The plain model of a hub: every event that was ever numbered, and every range of numbers that was lost.

use crate::case::KEYS;

/// What a reader of a key is owed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// This event, or a gap over it.
    Event { seq: u64, value: usize },
    /// A gap over this range, ends included.
    Lost { start: u64, end: u64 },
}

impl Due {
    /// The first number that it concerns.
    pub(crate) fn seq(self) -> u64 {
        match self {
            Self::Event { seq, .. } => seq,
            Self::Lost { start, .. } => start,
        }
    }
}

/// Everything that was published, and everything that was lost before it could be.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The last number given.
    pub(crate) last: u64,
    /// Per key (seq, value), rising.
    events: [Vec<(u64, usize)>; KEYS.len()],
    /// Hub-wide (start, end), rising, ends included.
    lost: Vec<(u64, u64)>,
}

impl Log {
    /// What was before `start_seq` nobody here knows: to a reader that asks for it, it is lost.
    pub(crate) fn starting_at(start_seq: u64) -> Self {
        let lost = if start_seq > 0 { vec![(1, start_seq)] } else { Vec::new() };
        Self { last: start_seq, lost, ..Self::default() }
    }

    pub(crate) fn publish(&mut self, key: usize, seq: u64, value: usize) {
        assert!(seq > self.last, "numbers rise: {seq} after {}", self.last);
        self.last = seq;
        self.events[key].push((seq, value));
    }

    pub(crate) fn advance_to(&mut self, seq: u64) {
        self.last = self.last.max(seq);
    }

    pub(crate) fn lose(&mut self, start: u64, end: u64) {
        self.lost.push((start, end));
        self.last = end;
    }

    /// The events of a key with from < seq <= to.
    pub(crate) fn between(&self, key: usize, from: u64, to: u64) -> &[(u64, usize)] {
        let events = &self.events[key];
        let start = events.partition_point(|(seq, _)| *seq <= from);
        let end = events.partition_point(|(seq, _)| *seq <= to);
        &events[start..end.max(start)]
    }

    /// How many losses were told of with from < seq <= to. Each takes the place of an event in every topic.
    pub(crate) fn losses(&self, from: u64, to: u64) -> usize {
        self.lost.iter().filter(|(_, end)| from < *end && *end <= to).count()
    }

    /// Those of the events with from < seq <= to that are among the newest `n` events and losses.
    pub(crate) fn newest(&self, key: usize, from: u64, to: u64, n: usize) -> &[(u64, usize)] {
        let events = self.between(key, from, to);
        let is_among = |(seq, _): &(u64, usize)| self.between(key, *seq, to).len() + self.losses(*seq, to) < n;
        &events[events.partition_point(|event| !is_among(event))..]
    }

    /// The seq before the newest `n` events and losses with from < seq <= to; `from` if there are no more than that.
    pub(crate) fn before_newest(&self, key: usize, from: u64, to: u64, n: usize) -> u64 {
        let losses = self.lost.iter().map(|(_, end)| *end).filter(|end| from < *end && *end <= to);
        let mut entries: Vec<u64> = self.between(key, from, to).iter().map(|(seq, _)| *seq).chain(losses).collect();
        entries.sort_unstable();
        entries.len().checked_sub(n + 1).map_or(from, |before| entries[before])
    }

    /// Whether from < s <= to holds a number that was lost.
    pub(crate) fn lost_between(&self, from: u64, to: u64) -> bool {
        self.lost.iter().any(|(start, end)| *start <= to && *end > from && from < to)
    }

    /// What a reader of `key` is owed that was told all up to `told`.
    pub(crate) fn next_due(&self, key: usize, told: u64) -> Option<Due> {
        let events = &self.events[key];
        let event = events.get(events.partition_point(|(seq, _)| *seq <= told)).map(|&(seq, value)| Due::Event { seq, value });
        let lost = self.lost.get(self.lost.partition_point(|(_, end)| *end <= told));
        let lost = lost.map(|&(start, end)| Due::Lost { start: start.max(told + 1), end });
        match (event, lost) {
            (Some(event), Some(lost)) if event.seq() < lost.seq() => Some(event),
            (event, None) => event,
            (_, lost) => lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_is_what_comes_next_of_both_kinds() {
        let mut log = Log::starting_at(0);
        log.publish(0, 1, 10);
        log.publish(1, 2, 20);
        log.lose(4, 6);
        log.publish(0, 9, 90);
        assert_eq!(log.next_due(0, 0), Some(Due::Event { seq: 1, value: 10 }));
        assert_eq!(log.next_due(0, 1), Some(Due::Lost { start: 4, end: 6 }));
        assert_eq!(log.next_due(0, 5), Some(Due::Lost { start: 6, end: 6 }));
        assert_eq!(log.next_due(0, 6), Some(Due::Event { seq: 9, value: 90 }));
        assert_eq!(log.next_due(0, 9), None);
        assert_eq!(log.between(0, 1, 9), [(9, 90)]);
        assert!(log.lost_between(5, 9) && !log.lost_between(6, 9) && !log.lost_between(0, 3));
    }
}
