//! Any text as a pattern, any text as a key: parsing is total, and what matches is what the model says.
#![cfg_attr(fuzzing, no_main)]

use keywake_fuzz::{PatternCase, check_pattern};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_pattern(&PatternCase::from_bytes(bytes)));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    keywake_fuzz::replay(
        |bytes| format!("{:?}", PatternCase::from_bytes(bytes)),
        |bytes| check_pattern(&PatternCase::from_bytes(bytes)),
    )
}
