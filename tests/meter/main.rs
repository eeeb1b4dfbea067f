//! What the meter reads and counts: trees of files as every runtime makes them, and the machine the test runs on.

mod cgroup;
