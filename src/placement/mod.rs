//! Where keys run: a table of owners over a frozen hash, and a planner that moves owners by their measured load.
