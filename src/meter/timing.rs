//! How a bracket is timed: by the wall, by the thread's processor clock, or by both in turn.
