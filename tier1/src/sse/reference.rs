//! What a client makes of an event stream: the parser of the HTML standard (9.2.6), for tests only.
//!
//! Written from the standard's text and apart from the encoder, so that it can tell where the encoder is wrong. The tests of
//! the binary include this same file.

/// A message as it is dispatched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its type; `message` where none was given.
    pub(crate) event: String,
    /// Its lines, joined by LF.
    pub(crate) data: String,
    /// The last event id at its dispatch.
    pub(crate) id: String,
}

/// A parser that is fed a stream in pieces.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pending: String,
    event: String,
    data: String,
    /// The id that a reconnect would send.
    pub(crate) last_id: String,
    id_buffer: String,
    /// The reconnection time in milliseconds, where one was sent.
    pub(crate) retry: Option<u64>,
    /// How many comment lines came.
    pub(crate) comments: usize,
}

impl Parser {
    /// Takes the next piece; returns the messages that it completes.
    pub(crate) fn feed(&mut self, piece: &str) -> Vec<Message> {
        self.pending.push_str(piece);
        let mut messages = Vec::new();
        // A CR at the very end may be half of a CRLF: it waits for the next piece.
        while let Some(end) = self.pending.find(['\r', '\n']) {
            let crlf = self.pending[end..].starts_with("\r\n");
            if !crlf && self.pending[end..] == *"\r" {
                break;
            }
            let line = self.pending[..end].to_owned();
            self.pending.drain(..end + 1 + usize::from(crlf));
            messages.extend(self.line(&line));
        }
        messages
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.comments += 1,
            "event" => value.clone_into(&mut self.event),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id_buffer),
            "retry" if value.bytes().all(|b| b.is_ascii_digit()) => self.retry = value.parse().ok(),
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Message> {
        self.id_buffer.clone_into(&mut self.last_id);
        let event = std::mem::take(&mut self.event);
        let mut data = std::mem::take(&mut self.data);
        if data.is_empty() {
            return None;
        }
        data.pop();
        let event = if event.is_empty() { "message".to_owned() } else { event };
        Some(Message { event, data, id: self.last_id.clone() })
    }
}
