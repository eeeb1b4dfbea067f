//! Binds the port, and takes connections from it up to the limit.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use super::connection::Connections;

/// Where to listen if not told.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);
/// How long to wait after an error that is not the peer's, such as no free file.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address that was asked for; if none was, the default one, or a free port where that is taken.
    ///
    /// # Errors
    ///
    /// If it cannot be bound.
    pub async fn bind(asked: Option<SocketAddr>) -> anyhow::Result<Self> {
        let tcp = match TcpListener::bind(asked.unwrap_or(DEFAULT)).await {
            Err(error) if asked.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
                tracing::info!("{DEFAULT} is taken: taking a free port");
                TcpListener::bind(SocketAddr::new(DEFAULT.ip(), 0)).await
            }
            bound => bound,
        };
        let tcp = tcp.with_context(|| format!("cannot listen on {}", asked.unwrap_or(DEFAULT)))?;
        let address = tcp.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!("{address} can be reached from other machines, and everybody who reaches it may read and publish");
        }
        Ok(Self { tcp, address })
    }

    /// The URL to reach it from this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            std::net::IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            std::net::IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}")
    }

    /// Takes connections until told to stop; then the port is closed. At the limit a connection is closed at once, without an
    /// answer: a browser's EventSource comes back after that, and never after a 503.
    pub(super) async fn accept(self, connections: Connections, most: usize) {
        let free = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let stop = connections.stop().gracefully.clone();
        while let Some(accepted) = stop.run_until_cancelled(self.tcp.accept()).await {
            match accepted {
                Ok((stream, _)) => Self::take(stream, &connections, &free),
                // The peer was gone before it was taken.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::error!(%error, "cannot take a connection");
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    fn take(stream: TcpStream, connections: &Connections, free: &Arc<Semaphore>) {
        match Arc::clone(free).try_acquire_owned() {
            Ok(permit) => connections.spawn(stream, permit),
            Err(_) => connections.refuse(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_was_asked_for_is_not_replaced() {
        let taken = Listener::bind(Some("127.0.0.1:0".parse().unwrap())).await.unwrap();
        assert!(Listener::bind(Some(taken.address)).await.is_err());
        assert_eq!(taken.url(), format!("http://{}", taken.address));
        let open = Listener::bind(Some("0.0.0.0:0".parse().unwrap())).await.unwrap();
        assert!(open.url().starts_with("http://127.0.0.1:"), "{}", open.url());
    }
}
