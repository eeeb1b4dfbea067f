//! Any bytes as any file of a control group: parsing is total, and what is read is what the model says.
#![cfg_attr(fuzzing, no_main)]

use keywake_fuzz::{CgroupCase, check_cgroup};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_cgroup(&CgroupCase::from_bytes(bytes)));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    keywake_fuzz::replay(
        |bytes| format!("{:?}", CgroupCase::from_bytes(bytes)),
        |bytes| check_cgroup(&CgroupCase::from_bytes(bytes)),
    )
}
