//! Writes the lines of an event stream. The words and fields here are the wire format.
//!
//! Everything that goes into a line is made here from numbers, fixed words, positions and JSON: no byte of a client reaches
//! a line except inside a [`Payload`]'s `data:` lines and inside JSON strings, both of which hold no line ends.

use std::{io::Write, time::Duration};

use keywake::{CloseReason, Gap, GapCause, Position};
use serde::Serialize;

use super::feed::End;
use crate::payload::Payload;

/// Writes positions of one epoch: their text is made once, but for the number.
#[derive(Clone, Debug)]
pub struct Ids {
    epoch: u64,
    /// The position 0, without its number.
    prefix: Box<str>,
}

impl Ids {
    /// For this epoch.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        let first = Position::new(epoch, 0).to_string();
        Self { epoch, prefix: first.trim_end_matches('0').into() }
    }

    /// The line that begins a message: the position to resume from once it is read. Nothing without one: the client keeps the
    /// position that it has.
    pub fn put(&self, out: &mut Vec<u8>, seq: Option<u64>) {
        let Some(seq) = seq else { return };
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
        out.push(b'\n');
    }

    fn text(&self, seq: u64) -> String {
        Position::new(self.epoch, seq).to_string()
    }
}

/// The beginning of a stream: the reconnection time and a comment, so that a client and every proxy before it see bytes at
/// once, and the number to come back with before anything has been sent.
///
/// A client that resumes keeps the id it came with: where that is of another epoch, the loss is told by the first message
/// and must be told again if the stream is cut before it.
pub fn hello(out: &mut Vec<u8>, ids: &Ids, retry: Duration, start: Option<u64>) {
    put(out, format_args!("retry: {}\n: tier1\n", retry.as_millis()));
    ids.put(out, start);
    out.push(b'\n');
}

/// A comment that keeps proxies from cutting a quiet stream, and the number that a quiet reader has reached. An id without
/// data is remembered by the client and dispatches nothing.
pub fn heartbeat(out: &mut Vec<u8>, ids: &Ids, seq: Option<u64>) {
    out.extend_from_slice(b":\n");
    ids.put(out, seq);
    out.push(b'\n');
}

/// An event; in a stream of several keys with its key.
pub fn event(out: &mut Vec<u8>, ids: &Ids, id: Option<u64>, key: Option<&str>, payload: &Payload) {
    ids.put(out, id);
    match key {
        Some(key) => payload.write_named(key, out),
        None => out.extend_from_slice(payload.block()),
    }
}

/// A loss: `event: gap`.
pub fn gap(out: &mut Vec<u8>, ids: &Ids, id: Option<u64>, key: Option<&str>, loss: &Gap) {
    #[derive(Serialize)]
    struct Data<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<&'a str>,
        from: String,
        to: String,
        missed: Option<u64>,
        cause: &'static str,
    }
    let (from, to) = (ids.text(loss.from), ids.text(loss.to));
    let data = Data { key, from, to, missed: loss.missed, cause: cause_word(loss.cause) };
    ids.put(out, id);
    message(out, "gap", &data);
}

/// The end: `event: goaway`, and how long to wait before coming back; without a cursor with what the client came with.
pub fn goaway(out: &mut Vec<u8>, ids: &Ids, cursor: Option<u64>, end: &End, retry: Duration) {
    #[derive(Serialize)]
    struct Data<'a> {
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        may_resume: bool,
    }
    let cursor_text = cursor.map(|cursor| ids.text(cursor));
    let status = end.status();
    let data = Data { reason: end.word(), cursor: cursor_text, may_resume: status.may_resume() };
    put(out, format_args!("retry: {}\n", retry.as_millis()));
    ids.put(out, cursor);
    message(out, status.code().wire().sse_event, &data);
}

/// A cause, as it stands in a gap and as a metric's label.
#[must_use]
pub const fn cause_word(cause: GapCause) -> &'static str {
    match cause {
        GapCause::Ahead => "ahead",
        GapCause::Conflated => "conflated",
        GapCause::OtherEpoch => "other_epoch",
        GapCause::Retention => "retention",
        GapCause::Source => "source",
        GapCause::Unread => "unread",
        _ => "other",
    }
}

/// A reason, as it stands in a goaway and as a metric's label: a fixed word, never a text from outside.
#[must_use]
pub const fn reason_word(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::KeyClosed => "key_closed",
        CloseReason::PredicatePanicked => "predicate_panicked",
        CloseReason::PublisherDropped => "publisher_dropped",
        CloseReason::Shutdown => "shutdown",
        CloseReason::SlowReader => "slow_reader",
        CloseReason::TopicLimit => "topic_limit",
        _ => "other",
    }
}

fn message(out: &mut Vec<u8>, event: &str, data: &impl Serialize) {
    put(out, format_args!("event: {event}\ndata: "));
    // JSON without white space has no line ends, and a struct of strings and numbers always serialises.
    if serde_json::to_writer(&mut *out, data).is_err() {
        out.extend_from_slice(b"null");
    }
    out.extend_from_slice(b"\n\n");
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::reference::{Message, Parser};

    fn messages(stream: &str) -> Vec<Message> {
        Parser::default().feed(stream)
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// What a reader is told that retention has passed.
    fn loss() -> Gap {
        let (mut publisher, hub) = keywake::Builder::<u8, u64>::new().retain_events(1).build();
        let mut slow = hub.subscribe(&1);
        publisher.publish_batch((1..=100).map(|number| (1, number)));
        let Ok(keywake::Received::Gap(gap)) = slow.try_recv() else { panic!("a gap") };
        gap
    }

    #[test]
    fn an_id_is_the_text_of_its_position() {
        for (epoch, seq) in [(0, 0), (0xbeef, 0), (0xbeef, 1_000), (u64::MAX, Position::MAX_SEQ), (0x10, 10)] {
            let line = text(|out| Ids::new(epoch).put(out, Some(seq)));
            assert_eq!(line, format!("id: {}\n", Position::new(epoch, seq)));
        }
    }

    #[test]
    fn hello_and_heartbeat_move_the_cursor_and_dispatch_nothing() {
        let ids = Ids::new(0xbeef);
        let mut parser = Parser::default();
        assert!(parser.feed(&text(|out| hello(out, &ids, Duration::from_secs(2), Some(7)))).is_empty());
        assert_eq!((parser.last_id.as_str(), parser.retry, parser.comments), ("v1.beef.7", Some(2000), 1));
        assert!(parser.feed(&text(|out| heartbeat(out, &ids, Some(9)))).is_empty());
        assert_eq!((parser.last_id.as_str(), parser.comments), ("v1.beef.9", 2));
        assert!(parser.feed(&text(|out| heartbeat(out, &ids, None))).is_empty());
        assert_eq!((parser.last_id.as_str(), parser.comments), ("v1.beef.9", 3));
        let mut resumed = Parser::default();
        resumed.feed(&text(|out| hello(out, &ids, Duration::from_secs(2), None)));
        assert_eq!(resumed.last_id, "");
    }

    #[test]
    fn gap_and_goaway_are_messages_of_their_own() {
        let ids = Ids::new(1);
        let loss = loss();
        let read = messages(&text(|out| gap(out, &ids, Some(9), Some("a\"\nid: 1"), &loss)));
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].event.as_str(), read[0].id.as_str()), ("gap", "v1.1.9"));
        let to = loss.to;
        let data = format!(r#"{{"key":"a\"\nid: 1","from":"v1.1.0","to":"v1.1.{to}","missed":{to},"cause":"retention"}}"#);
        assert_eq!(read[0].data, data);

        let mut parser = Parser::default();
        let read =
            parser.feed(&text(|out| goaway(out, &ids, Some(9), &End::Closed(CloseReason::Shutdown), Duration::from_secs(3))));
        assert_eq!(read[0].event, "goaway");
        assert_eq!(read[0].data, r#"{"reason":"shutdown","cursor":"v1.1.9","may_resume":true}"#);
        assert_eq!(parser.retry, Some(3000));
        let other = End::Closed(CloseReason::Other("x\nid: 5".into()));
        let read = messages(&text(|out| goaway(out, &ids, Some(9), &other, Duration::ZERO)));
        assert_eq!(read[0].data, r#"{"reason":"other","cursor":"v1.1.9","may_resume":false}"#);

        // The client keeps the position that it came with.
        let read = parser.feed(&text(|out| goaway(out, &ids, None, &End::Closed(CloseReason::TopicLimit), Duration::ZERO)));
        assert_eq!(read[0].data, r#"{"reason":"topic_limit","may_resume":true}"#);
        assert_eq!(parser.last_id, "v1.1.9");
    }

    #[test]
    fn an_event_carries_its_position() {
        let payload = Payload::from_body(b"{\"a\":1}").unwrap();
        let one = text(|out| event(out, &Ids::new(1), Some(5), None, &payload));
        assert_eq!(one, "id: v1.1.5\ndata: {\"a\":1}\n\n");
        let many = text(|out| event(out, &Ids::new(1), Some(5), Some("k"), &payload));
        assert_eq!(many, "id: v1.1.5\ndata: {\"key\":\"k\",\"event\":{\"a\":1}}\n\n");
    }
}
