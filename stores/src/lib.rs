#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
mod deadline;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "nats", feature = "redis"))]
mod reports;

#[cfg(feature = "nats")]
pub use nats::NatsStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresTable;
#[cfg(feature = "redis")]
pub use redis::RedisReports;
