//! What the fuzz targets are outside a fuzzing build: programs that replay files.

use std::{
    env, fs,
    io::{self, Write},
};

/// Runs `target` on each file named on the command line, after printing what `show` makes of it.
///
/// # Errors
/// Where a file cannot be read.
pub fn replay(show: impl Fn(&[u8]) -> String, target: impl Fn(&[u8])) -> io::Result<()> {
    let mut out = io::stdout();
    for path in env::args_os().skip(1) {
        let bytes = fs::read(&path)?;
        writeln!(out, "{}: {}", path.display(), show(&bytes))?;
        target(&bytes);
        writeln!(out, "passed")?;
    }
    Ok(())
}
