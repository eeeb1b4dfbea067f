//! Any text as a position: parsing is total, and one text stands for one position.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|text: &str| keywake_fuzz::check_position(text));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    keywake_fuzz::replay(|bytes| format!("{:?}", text(bytes)), |bytes| keywake_fuzz::check_position(&text(bytes)))
}
