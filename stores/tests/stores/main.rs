//! The stores keep keywake's contract over real servers, and its promises when those servers fail.

mod clients;
mod clocks;
mod contract;
mod outage;
mod planners;
mod servers;
