//! How many may be in at once, adapted to the processors.
