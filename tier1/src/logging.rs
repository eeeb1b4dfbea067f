//! The log: to standard error, so that standard output holds only what is meant to be pasted.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The environment variable that says what is logged, in `tracing`'s directive syntax.
pub const VARIABLE: &str = "TIER1_LOG";

/// Starts logging at `info`, or at what [`VARIABLE`] says.
///
/// # Errors
///
/// If the variable holds no directives, or something else has started logging.
pub fn init() -> anyhow::Result<()> {
    let directives = std::env::var(VARIABLE).unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|e| anyhow::anyhow!("{VARIABLE}={directives}: {e}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init()
        .map_err(|e| anyhow::anyhow!("cannot start logging: {e}"))
}
