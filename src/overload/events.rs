//! What is said through the hub: overload, readiness, evictions.
