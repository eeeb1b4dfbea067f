//! What a set keeps of one of its keys.

use crate::{
    CloseReason, Closed, Gap, GapCause, Key, Position,
    buffer::reader::Step,
    hub::{TopicReader, extra::Untold, shared::Shared, topic::TopicArc},
    sync::{Arc, PlainArc},
    wake::{Member, Parking, SlotId},
};

/// See the module.
pub(super) struct Entry<K, T> {
    pub(super) key: PlainArc<K>,
    /// `tag` holds its slot, `run` its phase.
    reader: TopicReader<K, T>,
    member: Arc<Member>,
    /// What is to be delivered next, if that is no event.
    news: Option<Box<News>>,
}

/// Something to be delivered that is no event.
pub(super) struct News {
    /// Where it stands among the events: it comes before the one with this seq, and until it is told the set's position lies before that.
    pub(super) rank: u64,
    pub(super) what: What,
    /// Until it is told, coming back means coming with this position, of another epoch or from ahead.
    pub(super) came: Option<Position>,
}

/// Where something stands that is to be delivered; the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    /// The seq of the event; or of the one that the news comes before.
    pub(super) rank: u64,
    pub(super) is_event: bool,
    /// Of its key.
    pub(super) index: u32,
}

pub(super) enum What {
    Ended(Closed),
    Gap(Gap),
}

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Read to the end, and not parked: looked at with every look.
    Awake,
    /// What was found last is being delivered.
    Current,
    /// Over, with its hub.
    Over,
    /// Read to the end, and parked at its topic, or marked since.
    Parked,
    /// Something is found, and to be delivered.
    Ready,
}

/// Bit of `Reader::run`: the member lies in its slot or among those that were marked, or is on its way there. Not to be parked.
const OUT: u8 = 1 << 7;
/// Bits of `Reader::tag`: none was given to it; it was parked in before.
const NO_SLOT: u32 = USED - 1;
const USED: u32 = 1 << 30;

impl<K: Key, T: Send + Sync + 'static> Entry<K, T> {
    pub(super) fn new(key: PlainArc<K>, mut reader: TopicReader<K, T>, member: Member) -> Self {
        reader.tag = NO_SLOT;
        reader.run = Phase::Awake as u8;
        Self { key, reader, member: Arc::new(member), news: None }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.reader.run & !OUT {
            0 => Phase::Awake,
            1 => Phase::Current,
            2 => Phase::Over,
            3 => Phase::Parked,
            _ => Phase::Ready,
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.reader.run = self.reader.run & OUT | phase as u8;
    }

    pub(super) fn topic(&self) -> &TopicArc<K, T> {
        self.reader.home()
    }

    pub(super) fn seq(&self) -> u64 {
        self.reader.seq()
    }

    pub(super) fn reader(&self) -> &TopicReader<K, T> {
        &self.reader
    }

    pub(super) fn reader_mut(&mut self) -> &mut TopicReader<K, T> {
        &mut self.reader
    }

    /// Retained events that were not delivered.
    pub(super) fn lag(&self) -> u64 {
        let is_event = self.phase() == Phase::Ready && self.news.is_none();
        self.reader.lag() + u64::from(is_event)
    }

    /// Whether there is nothing to read.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.topic().chain.word.observe();
        self.reader.next() >= state.count() && !state.is_closed()
    }

    /// Where that which is ready stands among the events of all keys.
    #[inline]
    pub(super) fn ready(&self, index: u32) -> Ready {
        let rank = self.news.as_ref().map_or_else(|| self.reader.seq(), |news| news.rank);
        Ready { rank, is_event: self.news.is_none(), index }
    }

    pub(super) fn came(&self) -> Option<Position> {
        self.news.as_ref()?.came
    }

    pub(super) fn take_news(&mut self) -> Option<News> {
        self.news.take().map(|news| *news)
    }

    pub(super) fn tell(&mut self, news: News) {
        self.news = Some(Box::new(news));
        self.set_phase(Phase::Ready);
    }

    /// What it begins with: a loss.
    pub(super) fn begin_with(&mut self, untold: Untold) {
        let Untold { gap, came } = untold;
        // What its reader missed elsewhere, no number of ours says: first of all.
        let is_foreign = matches!(gap.cause, GapCause::OtherEpoch | GapCause::Ahead);
        let rank = if is_foreign { 0 } else { gap.from + 1 };
        self.tell(News { rank, what: What::Gap(gap), came: is_foreign.then_some(came) });
    }

    /// It was over before it began, with the position that it came with.
    pub(super) fn refuse(&mut self, reason: CloseReason, came: Position, shared: &Shared<K, T>) {
        let is_foreign = came.epoch() != shared.config.epoch;
        let rank = if is_foreign { 0 } else { came.seq() + 1 };
        self.tell(News { rank, what: What::Ended(Closed::new(reason)), came: is_foreign.then_some(came) });
        if shared.is_shutdown() {
            // Not told: its news only keeps the position with which it came.
            self.set_phase(Phase::Over);
        }
    }

    /// Looks for the next thing: then it is ready, or over. Otherwise it is awake.
    #[inline]
    pub(super) fn step(&mut self, shared: &Shared<K, T>) {
        match self.reader.advance() {
            Step::Event => self.set_phase(Phase::Ready),
            Step::Empty => self.set_phase(Phase::Awake),
            step => self.step_slow(step, shared),
        }
    }

    #[cold]
    fn step_slow(&mut self, step: Step, shared: &Shared<K, T>) {
        let gap = match step {
            Step::Lost(lost) => Some(shared.gap(lost)),
            Step::Mark { from, to } => Some(shared.gap_of_mark(from, to)),
            Step::Closed | Step::Empty | Step::Event => None,
        };
        if let Some(gap) = gap {
            return self.tell(News { rank: gap.from + 1, what: What::Gap(gap), came: None });
        }
        // Closed: the reason is there.
        match self.topic().ending() {
            Some(ending) if !ending.of_hub => {
                let closed = Closed::new(ending.reason.clone());
                // What the hub published later, this key's reader may have missed.
                let rank = ending.seq.max(self.reader.seq()) + 1;
                self.tell(News { rank, what: What::Ended(closed), came: None });
            }
            _ => self.set_phase(Phase::Over),
        }
    }

    /// Up to where nothing of a key that is over was missed.
    pub(super) fn bound(&self) -> u64 {
        self.topic().ending().map_or(0, |ending| ending.seq).max(self.reader.seq())
    }

    /// Parks it.
    pub(super) fn park(&mut self) -> Parking {
        if self.reader.run & OUT != 0 {
            return Parking::Marked;
        }
        let topic = self.reader.home();
        let slot =
            if self.reader.tag & NO_SLOT == NO_SLOT { topic.waiters.take_set_slot().number() } else { self.reader.tag & NO_SLOT };
        let is_first = self.reader.tag & USED == 0;
        let slot_id = SlotId::from_number(slot);
        let parking = topic.waiters.park_member(slot_id, is_first, &topic.chain.word, self.reader.next(), &self.member);
        self.reader.tag = slot | USED;
        match parking {
            Parking::Parked => self.reader.run = OUT | Phase::Parked as u8,
            Parking::Marked => self.reader.run |= OUT,
            Parking::Busy | Parking::Came => {}
        }
        parking
    }

    /// A member comes back from among those that were marked. True: it was parked, and is awake now. (It may be another one's, which
    /// had its place before; or be marked late, and awake already.)
    pub(super) fn take_back(&mut self, member: &Arc<Member>) -> bool {
        if !Arc::ptr_eq(&self.member, member) {
            return false;
        }
        self.reader.run &= !OUT;
        let was_parked = self.phase() == Phase::Parked;
        if was_parked {
            self.set_phase(Phase::Awake);
        }
        was_parked
    }

    /// Gets ready to leave the topic. The drop of a payload may panic: the slot was given back then.
    pub(super) fn leave(&mut self) {
        let slot = self.reader.tag & NO_SLOT;
        if slot != NO_SLOT {
            let waiters = &self.reader.home().waiters;
            waiters.unpark_member(SlotId::from_number(slot));
            waiters.return_set_slot(SlotId::from_number(slot));
            self.reader.tag = NO_SLOT;
        }
        self.reader.leave();
    }
}
