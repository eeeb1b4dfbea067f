//! Any steps on a hub with own numbers, against the plain model.
#![cfg_attr(fuzzing, no_main)]

use keywake_fuzz::{Case, Numbering, run};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(&Case::from_bytes(Numbering::Own, bytes)));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let case = |bytes: &[u8]| Case::from_bytes(Numbering::Own, bytes);
    keywake_fuzz::replay(|bytes| format!("{:?}", case(bytes)), |bytes| run(&case(bytes)))
}
