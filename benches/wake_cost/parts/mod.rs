//! One part for each row of README's table.

use crate::{Context, table::Row};

mod computing_publisher;
mod empty_wakes;
mod join_leave;
mod library_share;
pub(crate) mod own_part;
mod paced;
mod relayed_tasks;
mod sets;
mod threads;

/// Measures, prints what does not fit into the table, and gives the rows.
pub(crate) type Part = fn(&Context) -> Vec<Row>;

pub(crate) const ALL: [(&str, Part); 13] = [
    ("relay-publish", relayed_tasks::publish),
    ("own-part", own_part::run),
    ("cpu-per-delivery", relayed_tasks::cpu_per_delivery),
    ("library-share", library_share::run),
    ("switches", relayed_tasks::switches),
    ("last-reader", relayed_tasks::last_reader),
    ("computing-publisher", computing_publisher::run),
    ("threads-512", threads::run),
    ("join-leave", join_leave::run),
    ("set", sets::run),
    ("burst", paced::burst),
    ("interval", paced::interval),
    ("empty-wakes", empty_wakes::run),
];
