//! How many instances there should be: what each driver asks for, and which of them wins.
//!
//! After Cloud Run's documented rules, with the failures of other autoscalers ruled out, and with numbers that do not fall when load is
//! shed. Nothing here measures, reads a clock or starts anything: numbers and `now` are arguments, counts and fates are the answer.
//!
//! ```text
//!  History ──means──┐  ┌──────────── Stabilization ──────────┐
//!  gauges, queue ───┼── Sample ── Scaler::decide ── Decision { count, driver, votes }
//!  refusals ────────┘                  ▲                     │
//!                                Fleet { desired, running }  ├── ScaleDown::plan   who gets requests last, who ends
//!                                                            ├── OverLimit, Rollout more than may be, for a while
//!  requests that wait ── place ── wait, start, or refuse     └── place             from none to one
//! ```
//!
//! # Invariants
//! * **Z1** The count is within its limits, whatever is given.
//! * **Z2** A number that says nothing (none, NaN, infinite, negative, a zero that cannot be) never lowers the count, and is told.
//! * **Z3** Outside the band the answer is that of the use alone: not of how many run.
//! * **Z4** Where what is wanted runs, a decision that is carried out is not followed by another one on the same numbers.
//! * **Z5** Where what is wanted runs, more use never leads to fewer instances.
//! * **Z6** What stands at a boundary is exactly at it: comparisons and ceilings are in whole millionths.
//! * **Z7** The last instance goes only where for the whole limit no request was in flight.
//! * **Z8** Nobody's request is cut by a scale-down; that of an instance above the limit, when its grace is over.
//!
//! # Examples
//! ```
//! use std::time::Instant;
//! use keywake::scaling::{Driver, Fleet, Sample, ScalerBuilder};
//!
//! // Four instances of one CPU are full, and 300 requests wait for them: the processors alone would ask for 7.
//! let scaler = ScalerBuilder::new().cpus(1.0).max_concurrency(80).queue(true).build()?;
//! let mut sample = Sample::default();
//! (sample.cpu_cores, sample.queued) = (Some(4.0), Some(300.0));
//! (sample.concurrency_1m, sample.concurrency_10m) = (Some(320.0), Some(240.0));
//! let decision = scaler.decide(&sample, Fleet::settled(4), Instant::now());
//! assert_eq!((decision.count, decision.driver), (13, Some(Driver::Queue)));
//! assert!(decision.to_string().starts_with("13 instances by queue; cpu asks for 7: use 1.000, above its band"));
//! # Ok::<(), keywake::scaling::ConfigError>(())
//! ```
//!
//! * `amount.rs`: exact arithmetic. `driver.rs`: one vote. `scaler.rs`: the decision. `settings.rs`: what it is built with. `sample.rs`: what it
//!   is told.
//! * `history.rs`: means. `stabilization.rs`: the most that was asked for of late. `on_demand.rs`: requests that find no room.
//!   `scale_down.rs`: who ends. `over_limit.rs`: more than may be.

mod amount;
mod driver;
mod history;
mod on_demand;
mod over_limit;
mod sample;
mod scale_down;
mod scaler;
mod settings;
mod stabilization;

pub use amount::Unusable;
pub use driver::{Driver, Verdict, Vote};
pub use history::History;
pub use on_demand::{Placing, Starting, Supply, max_wait, place};
pub use over_limit::{Extra, OverLimit, Rollout};
pub use sample::{AdaptiveLimits, Backlog, Fleet, Sample, effective_cpus, refused_streams};
pub use scale_down::{Fate, Instance, ScaleDown};
pub use scaler::{Clamp, Decision, Reason, Scaler};
pub use settings::{ConfigError, ScalerBuilder};
pub use stabilization::Stabilization;
