//! One reader over 10,000 keys of which one is busy, against a reader of that key alone.

use crate::{Context, table::Row};

pub(crate) fn run(_context: &Context) -> Vec<Row> {
    vec![Row::new("a set of 10,000 keys with one busy key, per event", "a subscription to that key").shown("not yet")]
}
