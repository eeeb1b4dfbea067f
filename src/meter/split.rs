//! The exact total, split by what was measured cheaply.
