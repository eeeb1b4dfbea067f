//! Where owners run, and how they are moved. No test here sleeps, and none reads a clock but to begin.

mod balancing;
mod embedded;
mod files;
mod fleet;
mod last_good;
mod measuring;
mod model;
mod planner;
mod planner_faults;
mod properties;
#[path = "../support/random.rs"]
mod random;
mod resizing;
mod resolving;
mod simulation;
mod texts;
