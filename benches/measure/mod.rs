//! How it is measured: each file one situation, made alike for keywake and its peers, so that benches and `figures` share it.

pub(crate) mod allocator;
pub(crate) mod catch_up;
pub(crate) mod churn;
pub(crate) mod clock;
pub(crate) mod companion;
pub(crate) mod crowd;
pub(crate) mod dropping;
pub(crate) mod hand_polled;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod peers;
pub(crate) mod publishing;
pub(crate) mod rounds;
pub(crate) mod subscribing;
pub(crate) mod surroundings;
pub(crate) mod words;

/// Whether this is `cargo bench`. `cargo test` runs the same programs without `--bench`; then everything is small and
/// only shown to work.
pub(crate) fn full_size() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}
