//! The life of one connection.
//!
//! What finds a peer that is gone: its FIN or RST at once (the connection's task reads while a stream is open, and ends the
//! stream with the connection); without either, TCP keep-alive within 35 s on a quiet connection, the user timeout within
//! 40 s on one with unread bytes (that is also how long a peer may refuse to read), and over HTTP/2 a ping within 30 s.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::Router;
use hyper::{Request, body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};
use tokio_util::task::TaskTracker;

use super::{Stop, first_bytes::FirstBytes};
use crate::app::App;

/// Quiet for so long, a peer is asked whether it is there ..
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(20);
/// .. then so often ..
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// .. so many times.
const KEEP_ALIVE_PROBES: u32 = 3;
/// How long sent bytes may stay unacknowledged, or a peer that does not read may keep its window shut.
const USER_TIMEOUT: Duration = Duration::from_secs(40);
/// How much unsent data the kernel takes from us: without it a reader that stalls costs megabytes of socket buffer.
const UNSENT_IN_KERNEL: u32 = 128 * 1024;
/// The same over HTTP/2, per stream.
const SEND_BUFFER: usize = 64 * 1024;
/// HTTP/2 streams of one connection.
const STREAMS: u32 = 200;
/// Bytes of a request's head.
const HEAD: u16 = 16 * 1024;
/// Fields of a request's head.
const HEADERS: usize = 64;
/// HTTP/2: how often a peer is asked whether it is there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How connections are served.
#[derive(Clone)]
pub struct Connections {
    builder: auto::Builder<TokioExecutor>,
    router: TowerToHyperService<Router>,
    app: Arc<App>,
    tasks: TaskTracker,
    stop: Stop,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("open", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Connections {
    pub(super) fn new(router: Router, app: Arc<App>, tasks: TaskTracker, stop: Stop) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(app.config.limits.header_timeout)
            .max_headers(HEADERS)
            .max_buf_size(HEAD.into());
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEAD.into())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        Self { builder, router: TowerToHyperService::new(router), app, tasks, stop }
    }

    pub(super) const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Closes a connection that is one too many.
    pub(super) fn refuse(&self, stream: TcpStream) {
        self.app.metrics.connection_refused();
        drop(stream);
    }

    /// Serves a connection in a task of its own.
    pub(super) fn spawn(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        if let Err(error) = set_options(&stream) {
            tracing::debug!(%error, "the socket takes no options: its peer is gone");
            return;
        }
        let open = self.app.metrics.connection_opened();
        let stream = FirstBytes::new(stream, self.app.config.limits.header_timeout);
        let service = Asked { router: self.router.clone(), once: Arc::default() };
        let asked = Arc::clone(&service.once);
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            run(connection, &asked, stop).await;
            drop((open, permit));
        });
    }
}

/// The routes, and whether this connection has asked for any.
struct Asked {
    router: TowerToHyperService<Router>,
    once: Arc<OnceLock<()>>,
}

impl Service<Request<Incoming>> for Asked {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.once.get_or_init(|| ());
        self.router.call(request)
    }
}

type Connection = auto::Connection<'static, TokioIo<FirstBytes<TcpStream>>, Asked, TokioExecutor>;

/// Runs a connection to its end: its peer's, or ours.
async fn run(connection: Connection, asked: &OnceLock<()>, stop: Stop) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Nothing was asked, so nothing is owed: hyper would wait for the peer to speak, or to answer its farewell.
        () = stop.gracefully.cancelled() => {
            if asked.get().is_none() {
                return;
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = stop.now.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

fn set_options(stream: &TcpStream) -> std::io::Result<()> {
    // What is ready is written in one piece already.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER);
    let keep_alive = keep_alive.with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_PROBES);
    socket.set_tcp_keepalive(&keep_alive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(UNSENT_IN_KERNEL)?;
    }
    Ok(())
}
