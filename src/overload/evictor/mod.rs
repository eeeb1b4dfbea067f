//! Which streams to let go when the processors are saturated, and when: a state machine without a clock.
