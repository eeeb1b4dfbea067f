//! Every flag and environment variable, with its limit and its default. `tier1 --help` prints them; the README's table is
//! checked against them.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use bytesize::ByteSize;
use clap::{Args, Parser};

/// A streaming server: server-sent events of any number of keys, resumable, each reader woken only for its own keys.
///
/// Without arguments it listens on loopback and replays two days of real flights. Every flag can also be given as an
/// environment variable. Log directives go into TIER1_LOG (default: info).
#[derive(Clone, Debug, Parser)]
#[command(version, max_term_width = 120)]
pub struct Config {
    /// Where to listen. Default: 127.0.0.1:7070, or a free port if that is taken.
    #[arg(long, env = "TIER1_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// What is replayed.
    #[command(flatten)]
    pub replay: ReplayConfig,
    /// What is kept.
    #[command(flatten)]
    pub retention: RetentionConfig,
    /// How streams behave.
    #[command(flatten)]
    pub sse: SseConfig,
    /// What a client may ask for.
    #[command(flatten)]
    pub limits: LimitConfig,
    /// How the process ends.
    #[command(flatten)]
    pub drain: DrainConfig,
}

/// What is replayed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Replay")]
pub struct ReplayConfig {
    /// Replay nothing: an empty hub.
    #[arg(long, env = "TIER1_NO_REPLAY")]
    pub no_replay: bool,

    /// A flights.csv in the layout of nycflights13, instead of the two days in the binary.
    #[arg(long, env = "TIER1_FLIGHTS", value_name = "FILE", conflicts_with = "no_replay")]
    pub flights: Option<PathBuf>,

    /// How many times faster than it happened: a number, or `max` for no waiting at all.
    #[arg(long, env = "TIER1_SPEED", default_value = "600")]
    pub speed: Speed,

    /// Begin again at the end.
    #[arg(long = "loop", env = "TIER1_LOOP")]
    pub repeat: bool,
}

/// What is kept for late readers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Retention")]
pub struct RetentionConfig {
    /// Events kept of each key, at least.
    #[arg(long, env = "TIER1_RETAIN_EVENTS", value_name = "COUNT", default_value_t = 1024)]
    pub retain_events: usize,

    /// Bytes kept of each key, at most.
    #[arg(long = "retain-bytes", env = "TIER1_RETAIN_BYTES", value_name = "SIZE", default_value = "4MiB")]
    retain_bytes: ByteSize,

    /// Bytes kept of all keys together, at most.
    #[arg(long = "retain-total-bytes", env = "TIER1_RETAIN_TOTAL_BYTES", value_name = "SIZE", default_value = "256MiB")]
    retain_total_bytes: ByteSize,

    /// Keys at once, at most: at the limit, events of new keys are not kept and streams of new keys end at once.
    #[arg(long, env = "TIER1_MAX_KEYS", value_name = "COUNT", default_value_t = 200_000)]
    pub max_keys: usize,

    /// How long a key stays after its last reader, where nothing is kept of it.
    #[arg(long, env = "TIER1_KEEP_IDLE", value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub keep_idle: Duration,
}

impl RetentionConfig {
    /// Bytes kept of each key, at most.
    #[must_use]
    pub fn retain_bytes(&self) -> usize {
        clamp(self.retain_bytes)
    }

    /// Bytes kept of all keys together, at most.
    #[must_use]
    pub fn retain_total_bytes(&self) -> usize {
        clamp(self.retain_total_bytes)
    }
}

/// How streams behave.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Streams")]
pub struct SseConfig {
    /// How often a stream sends a comment and its position.
    #[arg(long, env = "TIER1_HEARTBEAT", value_name = "TIME", default_value = "15s", value_parser = positive_duration)]
    pub heartbeat: Duration,

    /// How long a client is told to wait before it reconnects.
    #[arg(long, env = "TIER1_RETRY", value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub retry: Duration,
}

/// What a client may ask for.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitConfig {
    /// Bytes of a published body, at most.
    #[arg(long = "max-body", env = "TIER1_MAX_BODY", value_name = "SIZE", default_value = "1MiB")]
    max_body: ByteSize,

    /// Bytes of a key, at most.
    #[arg(long, env = "TIER1_MAX_KEY_BYTES", value_name = "COUNT", default_value_t = 256)]
    pub max_key_bytes: usize,

    /// Keys of one stream, at most.
    #[arg(long, env = "TIER1_MAX_STREAM_KEYS", value_name = "COUNT", default_value_t = 128)]
    pub max_stream_keys: usize,

    /// Patterns of one stream, at most.
    #[arg(long, env = "TIER1_MAX_STREAM_PATTERNS", value_name = "COUNT", default_value_t = 16)]
    pub max_stream_patterns: usize,

    /// Keys that one stream may read by its patterns, at most: beyond, it ends.
    #[arg(long, env = "TIER1_MAX_STREAM_MATCHES", value_name = "COUNT", default_value_t = 10_000)]
    pub max_stream_matches: usize,

    /// Lines of one batch, at most.
    #[arg(long, env = "TIER1_MAX_BATCH_LINES", value_name = "COUNT", default_value_t = 10_000)]
    pub max_batch_lines: usize,

    /// Connections at once, at most. Default: 65,536, or the limit of open files less 256.
    #[arg(long, env = "TIER1_MAX_CONNECTIONS", value_name = "COUNT")]
    pub max_connections: Option<usize>,

    /// How long a client may take to send the head of a request.
    #[arg(long, env = "TIER1_HEADER_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = positive_duration)]
    pub header_timeout: Duration,

    /// How long a client may take to send the body of a request.
    #[arg(long, env = "TIER1_BODY_TIMEOUT", value_name = "TIME", default_value = "30s", value_parser = positive_duration)]
    pub body_timeout: Duration,
}

impl LimitConfig {
    /// Bytes of a published body, at most.
    #[must_use]
    pub fn max_body(&self) -> usize {
        clamp(self.max_body)
    }
}

/// How the process ends.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Drain")]
pub struct DrainConfig {
    /// After SIGTERM: how long to go on as before, except that /readyz says 503, so that load balancers look elsewhere.
    #[arg(long, env = "TIER1_DRAIN_DELAY", value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub drain_delay: Duration,

    /// After that: how long streams may take to read what is theirs before they are cut.
    #[arg(long, env = "TIER1_DRAIN_DEADLINE", value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub drain_deadline: Duration,
}

/// How fast a replay runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as it goes.
    Max,
    /// This many times real time.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Self::Times(times)),
            _ => Err("a speed is a number above 0, or `max`".to_owned()),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("full speed"),
            Self::Times(times) => write!(f, "{times} times real time"),
        }
    }
}

fn clamp(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| "a time looks like 15s, 500ms or 2m".to_owned())?;
    match Duration::try_from(parsed) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err("a time lies between 0s and one year".to_owned()),
    }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("this time must be longer than 0s".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_readme_names_every_flag_its_variable_and_its_default() {
        let readme = include_str!("../README.md");
        for arg in Config::command().get_arguments().filter(|arg| arg.get_env().is_some()) {
            let flag = format!("`--{}`", arg.get_long().unwrap());
            let row = readme.lines().find(|line| line.starts_with(&format!("| {flag}")));
            let row = row.unwrap_or_else(|| panic!("{flag} is missing in README.md"));
            let variable = arg.get_env().unwrap().to_str().unwrap();
            assert!(row.contains(&format!("`{variable}`")), "{variable} is missing in: {row}");
            let default = arg.get_default_values().first().map(|default| default.to_str().unwrap().to_owned());
            if let Some(default) = default.filter(|_| !arg.is_positional() && arg.get_action().takes_values()) {
                assert!(row.contains(&format!("| {default} |")), "{default} is missing in: {row}");
            }
        }
    }

    #[test]
    fn defaults_are_as_documented_and_bad_values_are_refused() {
        let config = Config::try_parse_from(["tier1"]).unwrap();
        assert_eq!(config.retention.retain_total_bytes(), 256 << 20);
        assert_eq!(config.limits.max_body(), 1 << 20);
        assert_eq!(config.replay.speed, Speed::Times(600.0));
        assert_eq!(config.sse.heartbeat, Duration::from_secs(15));
        for bad in [
            ["--speed", "0"],
            ["--speed", "-1"],
            ["--speed", "nan"],
            ["--speed", "inf"],
            ["--speed", "fast"],
            ["--heartbeat", "0s"],
            ["--heartbeat", "-1s"],
            ["--drain-deadline", "10"],
            ["--drain-deadline", "9999999h"],
            ["--max-body", "many"],
            ["--listen", "7070"],
        ] {
            assert!(Config::try_parse_from([&["tier1"], &bad[..]].concat()).is_err(), "{bad:?}");
        }
        let max = Config::try_parse_from(["tier1", "--speed", "max", "--loop", "--heartbeat", "500ms"]).unwrap();
        assert_eq!(max.replay.speed, Speed::Max);
        assert!(max.replay.repeat);
    }
}
