//! Stalled work, as opposed to slow work.
