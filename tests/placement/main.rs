//! Where owners run, and how they are moved. No test here sleeps, and none reads a clock but to begin.

mod embedded;
mod files;
