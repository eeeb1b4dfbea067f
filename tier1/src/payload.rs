//! An event's bytes, encoded once when it is published, for all its readers.
//!
//! A [`Payload`] holds the ready-made `data:` lines of its event, ended by the blank line that dispatches it. The event
//! stream standard ends a line at CR, LF or CRLF and knows no escape, so each line of the body becomes a `data:` line of its
//! own and nothing that a client sends can begin another field:
//!
//! | the published body is | a stream of one key sends | a stream of several keys sends, as its JSON data |
//! |---|---|---|
//! | JSON | its bytes as they are, less the white space around them | `{"key":..,"event":<the JSON>}` |
//! | other UTF-8 text | its lines; the client joins them with LF, so CR and CRLF become LF | `{"key":..,"text":".."}` |
//! | other bytes | `event: binary`, the bytes in base64 | `{"key":..,"base64":".."}` |
//!
//! An empty body is no payload: a client drops an event without data silently.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::de::IgnoredAny;

/// What a reader's `data:` line begins with.
const DATA: &str = "data: ";
/// How the lines of bytes that are not text begin.
const BINARY: &str = "event: binary\ndata: ";

/// What kind of body an event was published with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not UTF-8: sent in base64.
    Binary,
    /// A JSON value.
    Json,
    /// UTF-8 that is not JSON.
    Text,
}

/// An event, ready to be sent; cloning it is a reference count.
#[derive(Clone, Debug)]
pub struct Payload {
    kind: Kind,
    block: Bytes,
}

impl Payload {
    /// The payload of a published body; `None` where it is empty.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Option<Self> {
        if body.is_empty() {
            return None;
        }
        let Ok(text) = std::str::from_utf8(body) else {
            return Some(Self {
                kind: Kind::Binary,
                block: Bytes::from(format!("{BINARY}{}\n\n", BASE64_STANDARD.encode(body))),
            });
        };
        let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        Some(if is_json { Self::from_json(text) } else { Self { kind: Kind::Text, block: data_lines(text) } })
    }

    /// The payload of a text that is known to be one JSON value.
    #[must_use]
    pub fn from_json(json: &str) -> Self {
        Self { kind: Kind::Json, block: data_lines(json.trim_ascii()) }
    }

    /// What kind of body it was published with.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The lines that follow an event's `id:` line in a stream of one key, with the blank line.
    #[must_use]
    pub const fn block(&self) -> &Bytes {
        &self.block
    }

    /// How many bytes of heap the event costs, for the hub's retention limits.
    #[must_use]
    pub fn weight(&self) -> usize {
        // The buffer's own header, in round figures: small events must not look free.
        const HEADER: usize = 64;
        self.block.len() + HEADER
    }

    /// Appends the lines for a stream of several keys, which names the key in each event.
    pub fn write_named(&self, key: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(DATA.as_bytes());
        out.extend_from_slice(b"{\"key\":");
        put_string(out, key);
        match self.kind {
            Kind::Json => {
                out.extend_from_slice(b",\"event\":");
                // Already in lines: what stands between the first `data: ` and the blank line fits in as it is.
                out.extend_from_slice(&self.block[DATA.len()..self.block.len() - 2]);
            }
            Kind::Text => {
                out.extend_from_slice(b",\"text\":");
                put_string(out, &self.text());
            }
            Kind::Binary => {
                out.extend_from_slice(b",\"base64\":\"");
                out.extend_from_slice(&self.block[BINARY.len()..self.block.len() - 2]);
                out.push(b'"');
            }
        }
        out.extend_from_slice(b"}\n\n");
    }

    /// The data as a client puts it together from the lines.
    fn text(&self) -> String {
        let lines = String::from_utf8_lossy(&self.block[..self.block.len() - 2]);
        lines.split('\n').map(|line| &line[DATA.len()..]).collect::<Vec<_>>().join("\n")
    }
}

/// Appends a text as a JSON string, quoted and escaped.
fn put_string(out: &mut Vec<u8>, text: &str) {
    // A string always serialises, and writing to a Vec cannot fail; `null` stands for what cannot happen.
    if serde_json::to_writer(&mut *out, text).is_err() {
        out.extend_from_slice(b"null");
    }
}

/// The text as `data:` lines, one for each of its lines, and the blank line.
fn data_lines(text: &str) -> Bytes {
    let mut block = Vec::with_capacity(text.len() + DATA.len() + 2);
    let mut rest = text;
    loop {
        let end = rest.find(['\r', '\n']);
        block.extend_from_slice(DATA.as_bytes());
        block.extend_from_slice(&rest.as_bytes()[..end.unwrap_or(rest.len())]);
        block.push(b'\n');
        let Some(end) = end else { break };
        let line_end = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + line_end..];
    }
    block.push(b'\n');
    Bytes::from(block)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sse::reference::{Message, Parser};

    fn messages(stream: &str) -> Vec<Message> {
        Parser::default().feed(stream)
    }

    fn block(body: &[u8]) -> String {
        String::from_utf8(Payload::from_body(body).unwrap().block().to_vec()).unwrap()
    }

    fn named(body: &[u8], key: &str) -> Vec<Message> {
        let mut out = Vec::new();
        Payload::from_body(body).unwrap().write_named(key, &mut out);
        messages(std::str::from_utf8(&out).unwrap())
    }

    #[test]
    fn each_line_of_a_body_is_a_data_line() {
        for (body, lines) in [
            (r#"{"a":1}"#, "data: {\"a\":1}\n\n"),
            (" {\"a\":1}\n", "data: {\"a\":1}\n\n"),
            ("{\"a\":\r\n1}", "data: {\"a\":\ndata: 1}\n\n"),
            ("hello", "data: hello\n\n"),
            ("  two\n spaces", "data:   two\ndata:  spaces\n\n"),
            ("a\n\nid: 7\revent: goaway", "data: a\ndata: \ndata: id: 7\ndata: event: goaway\n\n"),
            ("end\n", "data: end\ndata: \n\n"),
        ] {
            assert_eq!(block(body.as_bytes()), lines, "{body:?}");
        }
        assert_eq!(block(&[0xff, 0x00, b'\n']), "event: binary\ndata: /wAK\n\n");
    }

    #[test]
    fn only_an_empty_body_is_not_dispatched_by_a_client() {
        assert!(Payload::from_body(b"").is_none());
        for body in [" ", "\n", "\r\n\t", "\u{feff}"] {
            assert_eq!(messages(&block(body.as_bytes())).len(), 1, "{body:?}");
        }
    }

    #[test]
    fn a_stream_of_several_keys_names_the_key() {
        let json = named(b"[1,\n2]", "a\"b");
        assert_eq!(json[0].data, "{\"key\":\"a\\\"b\",\"event\":[1,\n2]}");
        assert_eq!(named(b"two\r\nlines", "k")[0].data, r#"{"key":"k","text":"two\nlines"}"#);
        assert_eq!(named(&[0xff], "k")[0].data, r#"{"key":"k","base64":"/w=="}"#);
    }

    proptest! {
        #[test]
        fn a_client_reads_exactly_one_message_with_the_published_text(text in "[ -~\r\n\u{85}\u{2028}é]{1,60}") {
            let Some(payload) = Payload::from_body(text.as_bytes()) else { return Ok(()) };
            let read = messages(std::str::from_utf8(payload.block()).unwrap());
            prop_assert_eq!(read.len(), 1);
            let unified = text.replace("\r\n", "\n").replace('\r', "\n");
            let expected = if payload.kind() == Kind::Json { unified.trim_ascii() } else { &unified };
            prop_assert_eq!(&read[0].data, expected);
            prop_assert_eq!(read[0].event.as_str(), "message");
        }

        #[test]
        fn a_named_message_is_json_that_holds_key_and_body(body in prop::collection::vec(any::<u8>(), 1..60), key in "[ -~é\"\\\\]{1,9}") {
            let Some(payload) = Payload::from_body(&body) else { return Ok(()) };
            let mut out = Vec::new();
            payload.write_named(&key, &mut out);
            let read = messages(std::str::from_utf8(&out).unwrap());
            prop_assert_eq!(read.len(), 1);
            let value: serde_json::Value = serde_json::from_str(&read[0].data).unwrap();
            prop_assert_eq!(value["key"].as_str(), Some(key.as_str()));
            if payload.kind() == Kind::Binary {
                let bytes = BASE64_STANDARD.decode(value["base64"].as_str().unwrap()).unwrap();
                prop_assert_eq!(bytes, body);
            }
        }
    }
}
