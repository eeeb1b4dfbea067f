//! The listener, its connections and how they end.
//!
//! The accept loop is our own, on `hyper_util`'s `auto::Builder` (HTTP/1 and HTTP/2 on one port), because `axum::serve` has
//! no timeout for a request's head, no HTTP/2 pings, no limit of connections and a shutdown without a deadline.
//!
//! * [`listener`] binds, and takes connections up to the limit.
//! * [`connection`] is the life of one: its settings, and what finds a peer that is gone.
//! * [`first_bytes`] ends connections that never say anything.

pub mod connection;
pub mod first_bytes;
pub mod listener;

use std::sync::Arc;

use keywake::CloseReason;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{connection::Connections, listener::Listener};
use crate::{app::App, http};

/// A server that takes connections.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    accepting: JoinHandle<()>,
    connections: TaskTracker,
    stop: Stop,
}

/// What tells the accept loop and the connections to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    /// Take no more connections; end each after the response that it is at.
    pub(crate) gracefully: CancellationToken,
    /// End now.
    pub(crate) now: CancellationToken,
}

impl Server {
    /// Starts to take connections, at most so many at once.
    #[must_use]
    pub fn start(app: Arc<App>, listener: Listener, most_connections: usize) -> Self {
        let stop = Stop::default();
        let connections = TaskTracker::new();
        let serving = Connections::new(http::router(Arc::clone(&app)), Arc::clone(&app), connections.clone(), stop.clone());
        let accepting = tokio::spawn(listener.accept(serving, most_connections));
        Self { app, accepting, connections, stop }
    }

    /// Ends: not ready at once; after the delay no more connections, and every stream gets what is buffered for it and a
    /// goaway; whoever has not read that by the deadline is cut. Returns how many connections were cut.
    pub async fn drain(self) -> usize {
        let settings = &self.app.config.drain;
        self.app.draining.cancel();
        tokio::time::sleep(settings.drain_delay).await;
        self.stop.gracefully.cancel();
        self.app.hub.shutdown(CloseReason::Shutdown);
        // It ends by the token; if it has panicked, there is nothing left to wait for either.
        let _ = self.accepting.await;
        self.connections.close();
        let _ = tokio::time::timeout(settings.drain_deadline, self.connections.wait()).await;
        let cut = self.connections.len();
        self.stop.now.cancel();
        self.connections.wait().await;
        cut
    }
}
