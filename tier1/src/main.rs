//! The life of the process: settings, log, hub, listener, addresses, work, a signal, the drain.

#![forbid(unsafe_code)]

use std::{process::ExitCode, sync::Arc};

use clap::Parser;
use tier1::{
    app::App,
    banner,
    config::Config,
    flights::{replay::Replay, row::Samples},
    limits, logging,
    serve::{Server, listener::Listener},
    signals::Signals,
};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let config = Config::parse();
    logging::init()?;
    let mut signals = Signals::catch()?;

    let most_connections = limits::connections(config.limits.max_connections, limits::raise_open_files());
    let replay = Replay::load(&config.replay)?;
    let listener = Listener::bind(config.listen).await?;
    let app = App::new(config);
    banner::print(&listener.url(), Samples::of(replay.flights()).as_ref());

    let server = Server::start(Arc::clone(&app), listener, most_connections);
    // Wakes the streams of a publish from inside the runtime, and ends with the hub.
    tokio::spawn(app.hub.relay());
    tokio::spawn(Arc::clone(&app).sweep_regularly());
    tokio::spawn(banner::live_figures(Arc::clone(&app), replay.progress()));
    tokio::spawn(replay.run(Arc::clone(&app)));
    tracing::info!(most_connections, "ready");

    let signal = signals.recv().await;
    tracing::info!(%signal, "draining; a second signal ends it at once");
    tokio::select! {
        cut = server.drain() => {
            tracing::info!(cut, "bye");
            Ok(ExitCode::SUCCESS)
        }
        signal = signals.recv() => Ok(signal.exit_code()),
    }
}
