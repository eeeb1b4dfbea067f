//! The body of an event stream's response.
//!
//! The connection polls it, so a stream is no task of its own: a publish wakes the connection's task, which writes straight
//! to the socket. Whatever is ready in one poll goes out as **one frame** of about [`FRAME`] bytes: a frame per event costs
//! several times as much, over HTTP/2 about twenty times. While a client does not read, nothing is taken from the
//! subscriptions, so its lag costs no memory here; it ends in a gap when retention passes it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use super::{
    encode::{self, Ids},
    feed::{End, Feed, Sent, What},
};
use crate::{
    app::App,
    metrics::{Resume, StreamGuard},
};

/// About how many bytes one frame holds; an event that is larger makes a frame of its own, which shares its bytes.
pub const FRAME: usize = 16 * 1024;

pin_project! {
    /// The response body of a stream.
    #[derive(Debug)]
    pub struct StreamBody {
        feed: Feed,
        ids: Ids,
        // Whether each event names its key.
        named: bool,
        // How a resume went as far as it is read, until that is known.
        resume: Option<Resume>,
        hello: Option<Hello>,
        // A large event's lines, to be sent as they are after what has been written.
        queued: Option<Bytes>,
        // As many bytes as the last frame had are set aside for the next.
        expected: usize,
        ended: bool,
        app: Arc<App>,
        guard: StreamGuard,
        #[pin]
        heartbeat: Sleep,
    }
}

/// What the first lines say.
#[derive(Clone, Copy, Debug)]
struct Hello {
    start: Option<u64>,
}

impl StreamBody {
    /// A stream of what this yields. `resumes`: the client came with a position, which it keeps until it is sent a later
    /// one. `named`: each event names its key.
    #[must_use]
    pub fn new(app: Arc<App>, mut feed: Feed, resumes: bool, named: bool) -> Self {
        let ids = Ids::new(app.hub.position().epoch());
        let hello = Some(Hello { start: feed.safe().filter(|_| !resumes) });
        // The first one comes early, at a random time, so that streams opened together do not all beat together.
        let first_beat = app.config.sse.heartbeat.mul_f64(0.5 + fastrand::f64() / 2.0);
        let guard = app.metrics.stream_opened();
        Self {
            feed,
            ids,
            named,
            resume: resumes.then_some(Resume::Ok),
            hello,
            queued: None,
            expected: 0,
            ended: false,
            app,
            guard,
            heartbeat: tokio::time::sleep(first_beat),
        }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut this = self.project();
        if let Some(block) = this.queued.take() {
            return Poll::Ready(Some(Ok(Frame::data(block))));
        }
        if *this.ended {
            return Poll::Ready(None);
        }
        let settings = &this.app.config.sse;
        let mut frame = Writer {
            app: this.app,
            ids: this.ids,
            named: *this.named,
            resume: this.resume,
            out: Vec::new(),
            expected: *this.expected,
            delivered: 0,
        };
        if let Some(hello) = this.hello.take() {
            encode::hello(&mut frame.out, this.ids, settings.retry, hello.start);
        }
        loop {
            *this.queued = frame.write_ready(this.feed);
            if !frame.out.is_empty() {
                break;
            }
            frame.end_of_losses();
            if let Some(end) = this.feed.end().cloned() {
                encode::goaway(&mut frame.out, this.ids, this.feed.safe(), &end, comeback(settings.retry, &end));
                this.guard.ended(&end);
                *this.ended = true;
                break;
            }
            if let Poll::Ready(sent) = this.feed.poll_next_with(cx, |sent| frame.write(sent)) {
                *this.queued = sent.flatten();
                if this.queued.is_some() {
                    break;
                }
                // What else is ready goes into the same frame.
                continue;
            }
            if this.heartbeat.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.heartbeat.as_mut().reset(Instant::now() + settings.heartbeat);
            encode::heartbeat(&mut frame.out, this.ids, this.feed.safe());
            break;
        }
        *this.expected = frame.out.len();
        let queued = this.queued.as_ref().map_or(0, Bytes::len);
        this.app.metrics.sent(frame.delivered, frame.out.len() + queued);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(frame.out)))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.queued.is_none()
    }
}

/// A frame that is being written.
struct Writer<'a> {
    app: &'a App,
    ids: &'a Ids,
    named: bool,
    resume: &'a mut Option<Resume>,
    out: Vec<u8>,
    expected: usize,
    delivered: u64,
}

impl Writer<'_> {
    /// Appends what is ready until the frame is full; returns a large event's lines, whose id stands at the end of the frame.
    fn write_ready(&mut self, feed: &mut Feed) -> Option<Bytes> {
        while self.out.len() < FRAME {
            if let Some(block) = feed.next_with(|sent| self.write(sent))? {
                return Some(block);
            }
        }
        None
    }

    fn write(&mut self, sent: Sent<'_>) -> Option<Bytes> {
        // Not earlier: most polls find nothing.
        if self.out.is_empty() {
            self.out.reserve(self.expected);
        }
        let name = self.named.then_some(&**sent.key);
        match sent.what {
            What::Event(payload) => {
                self.end_of_losses();
                self.delivered += 1;
                if name.is_none() && payload.block().len() > FRAME {
                    self.ids.put(&mut self.out, sent.id);
                    return Some(payload.block().clone());
                }
                encode::event(&mut self.out, self.ids, sent.id, name, payload);
            }
            What::Loss(loss) => {
                *self.resume = self.resume.map(|resume| resume.lost(loss.cause));
                self.app.metrics.gap(loss.cause);
                encode::gap(&mut self.out, self.ids, sent.id, name, &loss);
            }
        }
        None
    }

    /// What a resume could not bring back is told: nothing is ready, or an event.
    fn end_of_losses(&mut self) {
        if let Some(resume) = self.resume.take() {
            self.app.metrics.resumed(resume);
        }
    }
}

/// How long a client should wait before it comes back: spread, so that those who left together do not return together.
fn comeback(retry: Duration, end: &End) -> Duration {
    let spread = fastrand::f64();
    // A browser comes back even where there is nothing to come back to.
    end.status().retry_after(retry, spread).unwrap_or_else(|| retry.mul_f64(1.0 + 2.0 * spread))
}

#[cfg(test)]
mod tests {
    use keywake::CloseReason;

    use super::*;

    #[test]
    fn clients_are_told_to_come_back_in_one_to_three_times_the_setting_and_ten_times_that_for_want_of_room() {
        let second = Duration::from_secs(1);
        for (end, from) in [
            (End::Closed(CloseReason::KeyClosed), 1),
            (End::Closed(CloseReason::Other("x".into())), 1),
            (End::Closed(CloseReason::PredicatePanicked), 1),
            (End::Closed(CloseReason::PublisherDropped), 1),
            (End::Closed(CloseReason::Shutdown), 1),
            (End::Closed(CloseReason::SlowReader), 1),
            (End::Closed(CloseReason::TopicLimit), 10),
            (End::TooManyMatches, 10),
        ] {
            let waits: Vec<_> = (0..100).map(|_| comeback(second, &end)).collect();
            assert!(waits.iter().all(|wait| (from * second..=3 * from * second).contains(wait)), "{end:?}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{end:?}: not spread");
            let may_resume = if let End::Closed(reason) = &end { reason.may_resume() } else { true };
            assert_eq!(end.status().may_resume(), may_resume, "{end:?}");
        }
    }
}
