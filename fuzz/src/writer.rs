//! The three kinds of publisher behind one set of verbs.

use keywake::{
    Builder, GapCause, Hub, OnLastPublisher, Position, PublishAtError, Published, Publisher, SeqError, SharedPublisher,
    SourcePublisher,
};
use std::time::Duration;

use crate::{
    case::{Form, KEYS, Numbering, Settings},
    ledger::Payload,
};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) enum Writer {
    Own(Publisher<String, Payload>),
    Shared(SharedPublisher<String, Payload>),
    Source(SourcePublisher<String, Payload>),
}

impl Writer {
    pub(crate) fn build(numbering: Numbering, settings: &Settings) -> (Self, Hub<String, Payload>) {
        let mut builder = Builder::new()
            .retain_events(settings.retain_events)
            .retain_unread(settings.retain_unread)
            .keep_idle(if settings.keep_idle { HOUR } else { Duration::ZERO })
            .epoch(settings.epoch)
            .start_seq(settings.start_seq)
            .on_last_publisher(if settings.keep_hub { OnLastPublisher::Keep } else { OnLastPublisher::Close });
        if let Some(n) = settings.max_topics {
            builder = builder.max_topics(n);
        }
        if let Some(n) = settings.max_tombstones {
            builder = builder.max_tombstones(n);
        }
        // The weigher comes with the bytes per key; a total alone counts what it can see by itself.
        if let Some(n) = settings.retain_bytes {
            builder = builder.retain_bytes(n, Payload::weight);
        }
        if let Some(n) = settings.retain_total_bytes {
            builder = builder.retain_total_bytes(n);
        }
        if settings.retain_for {
            builder = builder.retain_for(HOUR);
        }
        match numbering {
            Numbering::Source => {
                let (publisher, hub) = builder.build_from_source();
                (Self::Source(publisher), hub)
            }
            Numbering::Own => {
                let (publisher, hub) = builder.build();
                (if settings.shared { Self::Shared(publisher.shared()) } else { Self::Own(publisher) }, hub)
            }
        }
    }

    /// Publishes under `seq`, which a hub that numbers its events itself finds on its own.
    pub(crate) fn publish(
        &mut self,
        seq: u64,
        key: usize,
        form: Form,
        event: Payload,
    ) -> Result<Published, PublishAtError<Payload>> {
        let key = KEYS[key];
        match (self, form) {
            (Self::Own(publisher), Form::Borrowed) => Ok(publisher.publish(key, event)),
            (Self::Own(publisher), Form::Owned) => Ok(publisher.publish_owned(key.to_owned(), event)),
            (Self::Shared(publisher), Form::Borrowed) => Ok(publisher.publish(key, event)),
            (Self::Shared(publisher), Form::Owned) => Ok(publisher.publish_owned(key.to_owned(), event)),
            (Self::Source(publisher), Form::Borrowed) => publisher.publish_at(seq, key, event),
            (Self::Source(publisher), Form::Owned) => publisher.publish_owned_at(seq, key.to_owned(), event),
        }
    }

    /// `None` where there is no such verb.
    pub(crate) fn publish_batch(&mut self, events: Vec<(String, Payload)>) -> Option<Published> {
        match self {
            Self::Own(publisher) => Some(publisher.publish_batch(events)),
            Self::Shared(publisher) => Some(publisher.publish_batch(events)),
            Self::Source(_) => None,
        }
    }

    /// `None` where there is no such verb.
    pub(crate) fn advance_to(&mut self, seq: u64) -> Option<Result<(), SeqError>> {
        match self {
            Self::Source(publisher) => Some(publisher.advance_to(seq)),
            Self::Own(_) | Self::Shared(_) => None,
        }
    }

    /// `None` where there is no such verb.
    pub(crate) fn lost(&mut self, start: u64, end: u64) -> Option<Result<(), SeqError>> {
        match self {
            Self::Source(publisher) => Some(publisher.lost(start..=end, GapCause::Source)),
            Self::Own(_) | Self::Shared(_) => None,
        }
    }

    pub(crate) fn position(&self) -> Position {
        match self {
            Self::Own(publisher) => publisher.position(),
            Self::Shared(publisher) => publisher.position(),
            Self::Source(publisher) => publisher.position(),
        }
    }
}
