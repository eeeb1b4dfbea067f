//! Publishes flights at their own pace, sped up.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::row::Flight;
use crate::{
    app::App,
    config::{ReplayConfig, Speed},
};

/// At full speed, how many flights are published before other tasks get a turn.
const FLIGHTS_PER_TURN: usize = 64;
/// Between the last flight of a round and the first of the next, in the flights' time.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(60);

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Flights published in this round.
    pub done: usize,
    /// Flights of a round; 0: there is no replay.
    pub total: usize,
    /// Rounds finished.
    pub rounds: usize,
    /// The time that the replay is at.
    pub at: Option<Timestamp>,
}

/// Flights to be published.
#[derive(Debug)]
pub struct Replay {
    flights: Vec<Flight>,
    speed: Speed,
    repeat: bool,
    progress: watch::Sender<Progress>,
}

impl Replay {
    /// The replay that the settings ask for; one without flights if they ask for none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn load(config: &ReplayConfig) -> anyhow::Result<Self> {
        let flights = match &config.flights {
            _ if config.no_replay => Vec::new(),
            None => Flight::bundled().context("the flights in the binary")?,
            Some(path) => {
                let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                Flight::read(file).with_context(|| format!("cannot read {}", path.display()))?
            }
        };
        Ok(Self::new(flights, config.speed, config.repeat))
    }

    /// A replay of these flights, which are in order of event time.
    #[must_use]
    pub fn new(flights: Vec<Flight>, speed: Speed, repeat: bool) -> Self {
        let progress = watch::Sender::new(Progress { total: flights.len(), ..Progress::default() });
        Self { flights, speed, repeat, progress }
    }

    /// What is replayed.
    #[must_use]
    pub fn flights(&self) -> &[Flight] {
        &self.flights
    }

    /// Follows how far it is.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Publishes all flights, again and again if so asked; ends when that is done or the process drains.
    pub async fn run(self, app: Arc<App>) {
        if self.flights.is_empty() {
            return;
        }
        tracing::info!(flights = self.flights.len(), speed = %self.speed, "replay begins");
        if app.draining.run_until_cancelled(self.rounds(&app)).await.is_some() {
            tracing::info!(flights = self.flights.len(), "replay is done; its events stay as long as they are retained");
        }
    }

    async fn rounds(&self, app: &App) {
        let mut start = Instant::now();
        loop {
            let last = self.round(app, start).await;
            self.progress.send_modify(|progress| progress.rounds += 1);
            if !self.repeat {
                return;
            }
            start = last + self.sped_up(BETWEEN_ROUNDS);
        }
    }

    /// One round; returns when its last flight was due.
    async fn round(&self, app: &App, start: Instant) -> Instant {
        let first = self.flights.first().map(Flight::event_time);
        let mut due = start;
        for (done, flight) in (1..).zip(&self.flights) {
            let at = flight.event_time();
            let since_first = first.map_or(Duration::ZERO, |first| at.duration_since(first).unsigned_abs());
            due = start + self.sped_up(since_first);
            match self.speed {
                Speed::Max if done % FLIGHTS_PER_TURN == 0 => tokio::task::yield_now().await,
                Speed::Max => {}
                Speed::Times(_) => tokio::time::sleep_until(due).await,
            }
            if app.publish_batch(flight.events()).is_none() {
                break;
            }
            self.progress.send_modify(|progress| {
                progress.done = done;
                progress.at = Some(at);
            });
        }
        due
    }

    fn sped_up(&self, time: Duration) -> Duration {
        match self.speed {
            Speed::Max => Duration::ZERO,
            // A speed near 0 makes times that no clock holds: a century is as good as never.
            Speed::Times(times) => Duration::try_from_secs_f64(time.as_secs_f64() / times).unwrap_or(CENTURY).min(CENTURY),
        }
    }
}

/// Longer than any process lives, and still addable to an instant.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Config;

    fn flights() -> Vec<Flight> {
        let mut flights = Flight::bundled().unwrap();
        flights.truncate(100);
        flights
    }

    #[tokio::test(start_paused = true)]
    async fn flights_come_at_their_own_pace() {
        let app = App::new(Config::parse_from(["tier1"]));
        let flights = flights();
        let times: Vec<Timestamp> = flights.iter().map(Flight::event_time).collect();
        let replay = Replay::new(flights, Speed::Times(60.0), false);
        let mut progress = replay.progress();
        let begin = Instant::now();
        let running = tokio::spawn(replay.run(Arc::clone(&app)));
        while progress.changed().await.is_ok() {
            let Progress { at: Some(at), .. } = *progress.borrow_and_update() else { continue };
            let due = at.duration_since(times[0]).unsigned_abs() / 60;
            let late = begin.elapsed().checked_sub(due).unwrap();
            assert!(late < Duration::from_millis(10), "{at} came {late:?} late");
        }
        running.await.unwrap();
        let whole = times[99].duration_since(times[0]).unsigned_abs() / 60;
        assert!(begin.elapsed() >= whole && begin.elapsed() < whole + Duration::from_secs(1));
        assert!(app.hub.stats().published > 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_goes_on_until_the_process_drains() {
        let app = App::new(Config::parse_from(["tier1"]));
        let replay = Replay::new(flights(), Speed::Times(600.0), true);
        let mut progress = replay.progress();
        let running = tokio::spawn(replay.run(Arc::clone(&app)));
        progress.wait_for(|progress| progress.rounds == 3 && progress.done == 50).await.unwrap();
        app.draining.cancel();
        running.await.unwrap();
        assert_eq!(progress.borrow().rounds, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn no_speed_is_too_slow_or_too_fast() {
        for speed in [f64::MIN_POSITIVE, f64::MAX, 1e-9] {
            let replay = Replay::new(flights(), Speed::Times(speed), false);
            let _ = Instant::now() + replay.sped_up(Duration::from_secs(366 * 24 * 3600));
        }
    }
}
