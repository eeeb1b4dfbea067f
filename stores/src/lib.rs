//! keywake's placement table and load reports in Redis, PostgreSQL and NATS.
