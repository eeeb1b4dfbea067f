//! What a person sees: the URL first, lines to paste, and on a terminal what is going on.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use keywake::Stats;
use tokio::sync::watch;

use crate::{
    app::App,
    flights::{replay::Progress, row::Samples},
};

/// How often the live figures are printed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Prints where the server is and what to try, to standard output. That nobody reads it is no error.
pub fn print(url: &str, samples: Option<&Samples>) {
    let mut text = format!("tier1 listens on {url}\n\nTry, in other terminals:\n");
    match samples {
        Some(samples) => {
            let keys: Vec<String> = samples.routes.iter().map(|key| format!("key={key}")).collect();
            text += &format!("  curl -N '{url}/v1/stream?{}&from=oldest'\n", keys.join("&"));
            if let Some((airline, _)) = samples.flight.rsplit_once('.') {
                text += &format!("  curl -N '{url}/v1/stream?match={airline}.*&from=oldest'\n");
            }
            for key in &samples.first {
                text += &format!("  curl -N '{url}/v1/keys/{key}?from=oldest'\n");
            }
            text += &format!("  curl -d '{{\"hello\":\"world\"}}' '{url}/v1/keys/greetings'\n");
            text += &format!("  curl '{url}/v1/keys?top=5'\n");
        }
        None => {
            text += &format!("  curl -N '{url}/v1/keys/greetings?from=oldest'\n");
            text += &format!("  curl -d '{{\"hello\":\"world\"}}' '{url}/v1/keys/greetings'\n");
        }
    }
    text += &format!("  curl '{url}/'\n\n");
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// Prints a line of figures every few seconds if standard output is a terminal, until the process drains.
pub async fn live_figures(app: Arc<App>, progress: watch::Receiver<Progress>) {
    if !io::stdout().is_terminal() {
        return;
    }
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.tick().await;
    let Some(mut before) = Figures::of(&app).await else { return };
    while app.draining.run_until_cancelled(ticks.tick()).await.is_some() {
        let Some(now) = Figures::of(&app).await else { return };
        let line = now.line(&before, *progress.borrow());
        if writeln!(io::stdout().lock(), "{line}").is_err() {
            return;
        }
        before = now;
    }
}

/// What is counted at one moment.
#[derive(Clone, Debug)]
struct Figures {
    hub: Stats,
    streams: i64,
    delivered: u64,
}

impl Figures {
    /// `None`: the process ends.
    async fn of(app: &App) -> Option<Self> {
        let hub = app.hub.clone();
        // It passes over all keys: not on a thread that serves streams.
        let stats = tokio::task::spawn_blocking(move || hub.stats()).await.ok()?;
        Some(Self { hub: stats, streams: app.metrics.streams(), delivered: app.metrics.delivered() })
    }

    fn line(&self, before: &Self, progress: Progress) -> String {
        let per_second = |now: u64, before: u64| (now.saturating_sub(before)) as f64 / INTERVAL.as_secs_f64();
        let mut line = format!(
            "{} events ({:.1}/s)  {} keys  {} streams  {} deliveries ({:.1}/s)  {} wakes, {} of them empty",
            self.hub.published,
            per_second(self.hub.published, before.hub.published),
            self.hub.topics,
            self.streams,
            self.delivered,
            per_second(self.delivered, before.delivered),
            self.hub.wakes,
            self.hub.empty_wakes,
        );
        if let (Some(at), true) = (progress.at, progress.total > 0) {
            line += &format!("  replay: {}% at {}", progress.done * 100 / progress.total, at.strftime("%F %H:%M UTC"));
            if progress.rounds > 0 {
                line += &format!(", rounds done: {}", progress.rounds);
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_happened_since_the_last() {
        let figures = |published, delivered| {
            let mut hub = Stats::default();
            hub.published = published;
            Figures { hub, streams: 2, delivered }
        };
        let progress = Progress { done: 1, total: 4, rounds: 0, at: "2013-01-01T10:17:00Z".parse().ok() };
        let line = figures(110, 50).line(&figures(10, 0), progress);
        assert_eq!(
            line,
            "110 events (20.0/s)  0 keys  2 streams  50 deliveries (10.0/s)  0 wakes, 0 of them empty  replay: 25% at 2013-01-01 10:17 UTC"
        );
    }
}
