//! Whether the process wants new work: an AND of named conditions.
