//! How many instances there should be: the source's rules, its worked examples, other autoscalers' faults. No test here sleeps.

mod days;
mod drivers;
mod endings;
mod faults;
mod gauges;
mod golden;
mod on_demand;
mod properties;
#[path = "../support/random.rs"]
mod random;
mod settings;
mod totals;
mod zero;
