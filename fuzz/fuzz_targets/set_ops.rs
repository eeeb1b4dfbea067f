//! Any steps on a hub with sets, against the plain model of sets.
#![cfg_attr(fuzzing, no_main)]

use keywake_fuzz::{SetCase, run_sets};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run_sets(&SetCase::from_bytes(bytes)));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let case = |bytes: &[u8]| SetCase::from_bytes(bytes);
    keywake_fuzz::replay(|bytes| format!("{:?}", case(bytes)), |bytes| run_sets(&case(bytes)))
}
