//! Who may come in: limits, permits, and refusals that say when to come again.
