//! Ends a connection that does not say what it speaks.
//!
//! hyper's own timeout for a request's head begins once it knows that the peer speaks HTTP/1, and its pings once it knows
//! HTTP/2; until it has read enough to tell, it waits for ever. So a peer that says nothing, or just the first letters of
//! the HTTP/2 preface, is timed here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// As long as the HTTP/2 preface: with so many bytes read, hyper knows.
const ENOUGH: usize = 24;

/// A stream whose first bytes must come in time.
#[derive(Debug)]
pub struct FirstBytes<S> {
    stream: S,
    read: usize,
    /// Gone as soon as enough was read.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> FirstBytes<S> {
    /// The stream, timed from now on.
    pub fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, read: 0, deadline: Some(Box::pin(tokio::time::sleep(timeout))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let Some(deadline) = &mut this.deadline else { return polled };
        this.read += buf.filled().len() - before;
        if this.read >= ENOUGH {
            this.deadline = None;
        } else if polled.is_pending() && deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_says_too_little_is_timed_out() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let mut ours = FirstBytes::new(ours, Duration::from_secs(10));
        peer.write_all(b"PRI").await.unwrap();
        let mut buf = [0; 64];
        assert_eq!(ours.read(&mut buf).await.unwrap(), 3);
        assert_eq!(ours.read(&mut buf).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_said_enough_may_be_quiet() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let mut ours = FirstBytes::new(ours, Duration::from_secs(10));
        peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut buf = [0; 64];
        assert_eq!(ours.read(&mut buf).await.unwrap(), 24);
        let quiet = tokio::time::timeout(Duration::from_secs(3600), ours.read(&mut buf)).await;
        assert!(quiet.is_err());
    }
}
