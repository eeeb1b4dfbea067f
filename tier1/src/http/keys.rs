//! `GET /v1/keys?top=50`: the keys with the most events, for people who look. Never a metric: keys have no bound.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    sync::Arc,
};

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use keywake::TopicStats;
use serde::Serialize;

use super::{
    error::{ApiError, json},
    query,
};
use crate::{app::App, key::Key};

/// How many keys are listed if not said otherwise.
const DEFAULT_TOP: usize = 50;
/// How many are listed at most.
const MOST: usize = 1000;

/// Lists the busiest keys, most events first.
pub(super) async fn busiest(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let top = top(query.as_deref().unwrap_or_default())?;
    // It visits every key there is: not on a thread that serves streams.
    let listed = tokio::task::spawn_blocking(move || list(&app, top)).await;
    let listed = listed.map_err(|_| ApiError::internal("the keys cannot be listed"))?;
    Ok(json(&listed))
}

#[derive(Serialize)]
struct Listed {
    total: usize,
    keys: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    key: Key,
    readers: usize,
    published: u64,
    retained_events: u64,
    last_position: String,
}

fn top(query: &str) -> Result<usize, ApiError> {
    let mut top = None;
    for (name, value) in query::parameters(query)? {
        match name.as_str() {
            "top" => query::once(&mut top, "top", value)?,
            _ => return Err(query::unknown(&name, "top")),
        }
    }
    let Some(top) = top else { return Ok(DEFAULT_TOP) };
    match top.parse() {
        Ok(top) if (1..=MOST).contains(&top) => Ok(top),
        _ => Err(ApiError::bad_request("bad_top", format!("top is a number from 1 to {MOST}"))),
    }
}

fn list(app: &App, top: usize) -> Listed {
    let mut total = 0;
    let mut busiest = Busiest::new(top);
    app.hub.for_each_topic(|key, stats| {
        total += 1;
        busiest.offer(key, stats);
    });
    let epoch = app.hub.position().epoch();
    let keys = busiest.into_sorted().into_iter().map(|ranked| {
        let Ranked { key, stats } = ranked;
        let last_position = keywake::Position::new(epoch, stats.last_seq).to_string();
        let TopicStats { readers, published, retained_events, .. } = stats;
        Entry { key, readers, published, retained_events, last_position }
    });
    Listed { total, keys: keys.collect() }
}

/// The best of many, in the memory of a few.
struct Busiest {
    top: usize,
    /// The least busy on top, to be replaced.
    heap: BinaryHeap<Reverse<Ranked>>,
}

impl Busiest {
    fn new(top: usize) -> Self {
        Self { top, heap: BinaryHeap::with_capacity(top + 1) }
    }

    fn offer(&mut self, key: &Key, stats: &TopicStats) {
        let full = self.heap.len() == self.top;
        if full && self.heap.peek().is_some_and(|Reverse(least)| least.stats.published > stats.published) {
            return;
        }
        self.heap.push(Reverse(Ranked { key: Arc::clone(key), stats: stats.clone() }));
        if full {
            self.heap.pop();
        }
    }

    fn into_sorted(self) -> Vec<Ranked> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked).collect()
    }
}

/// A key, ordered by its events; keys with as many stand in the order of the alphabet.
struct Ranked {
    key: Key,
    stats: TopicStats,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.stats.published.cmp(&other.stats.published).then_with(|| other.key.cmp(&self.key))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_come_first_and_equals_by_name() {
        let mut busiest = Busiest::new(3);
        for (key, published) in [("b", 2), ("a", 2), ("x", 9), ("z", 1), ("c", 2), ("y", 5)] {
            let mut stats = TopicStats::default();
            stats.published = published;
            busiest.offer(&key.into(), &stats);
        }
        let keys: Vec<String> = busiest.into_sorted().iter().map(|ranked| ranked.key.to_string()).collect();
        assert_eq!(keys, ["x", "y", "a"]);
    }

    #[test]
    fn top_is_a_number_within_bounds() {
        assert_eq!(top(""), Ok(50));
        assert_eq!(top("top=1000"), Ok(1000));
        for bad in ["top=0", "top=1001", "top=x", "top=", "top=1&top=2", "limit=3"] {
            assert!(top(bad).is_err(), "{bad}");
        }
    }
}
