//! The bundled flights, counted a second time by other means.

use std::{collections::HashMap, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{Server, json as body, stderr_of};

const CSV: &str = include_str!("../../data/flights-2013-01-01-to-02.csv");

/// The rows by column, split by hand: the table has no quotes.
fn rows() -> Vec<HashMap<&'static str, &'static str>> {
    let mut lines = CSV.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| columns.iter().copied().zip(line.split(',')).collect()).collect()
}

/// Each key with its number of events.
fn expected() -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for row in rows() {
        let tail = (row["tailnum"] != "NA").then(|| format!("tail.{}", row["tailnum"]));
        let keys = [
            Some(format!("route.{}.{}", row["origin"], row["dest"])),
            Some(format!("flight.{}.{}", row["carrier"], row["flight"])),
            tail,
        ];
        for key in keys.into_iter().flatten() {
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

async fn replayed(args: &[&str], events: u64) -> Server {
    let server = Server::start_as_is(&[&["--listen", "127.0.0.1:0", "--speed", "max"], args].concat()).await;
    server.wait_for_metric("tier1_events_published_total", events as f64).await;
    server
}

#[tokio::test]
async fn every_bundled_flight_is_published_under_its_keys() {
    let expected = expected();
    assert_eq!(rows().len(), 1785);
    let server = replayed(&[], expected.values().sum()).await;
    assert_eq!(server.metric("tier1_keys").await, expected.len() as f64);

    let listed = body(server.get("/v1/keys?top=1000").await).await;
    let listed = listed["keys"].as_array().unwrap();
    assert_eq!(listed.len(), 1000);
    for entry in listed {
        assert_eq!(entry["published"], expected[entry["key"].as_str().unwrap()], "{entry}");
    }
    assert_eq!(listed[0]["published"], *expected.values().max().unwrap());

    for key in ["tail.N14228", "route.EWR.IAH", "flight.UA.1545", "route.JFK.LAX"] {
        let mut stream = server.stream(&format!("/v1/keys/{key}?from=oldest")).await;
        let mut last = String::new();
        for _ in 0..expected[key] {
            let event = stream.event().await;
            let time = event["event_time"].as_str().unwrap().to_owned();
            assert!(time >= last, "{time} after {last}");
            last = time;
        }
        assert_eq!(server.metric("tier1_gaps_total{cause=\"retention\"}").await, 0.0);
    }
}

#[tokio::test]
async fn an_event_holds_the_rows_fields_with_their_types() {
    let server = replayed(&[], expected().values().sum()).await;
    let mut cancelled = 0;
    let routes: Vec<String> = expected().into_keys().filter(|key| key.starts_with("route.")).collect();
    let mut events: HashMap<String, Value> = HashMap::new();
    for routes in routes.chunks(100) {
        let keys: Vec<String> = routes.iter().map(|route| format!("key={route}")).collect();
        let mut stream = server.stream(&format!("/v1/stream?{}&from=oldest", keys.join("&"))).await;
        let wanted: u64 = routes.iter().map(|route| expected()[route]).sum();
        for _ in 0..wanted {
            let event = stream.event().await["event"].take();
            cancelled += u64::from(event["cancelled"].as_bool().unwrap());
            events.insert(format!("{} {} {} {}", event["carrier"], event["flight"], event["day"], event["origin"]), event);
        }
    }
    assert_eq!(cancelled, rows().iter().filter(|row| row["dep_time"] == "NA").count() as u64);
    assert_eq!(events.len(), rows().len());
    for row in rows() {
        let name = format!("\"{}\" {} {} \"{}\"", row["carrier"], row["flight"], row["day"], row["origin"]);
        for (column, text) in &row {
            let value = &events[&name][column];
            let is_text = ["carrier", "tailnum", "origin", "dest", "time_hour"].contains(column);
            let expected = match *text {
                "NA" => Value::Null,
                text if is_text => json!(text),
                text => json!(text.parse::<i64>().unwrap()),
            };
            assert_eq!(*value, expected, "{column} of {name}");
        }
    }
}

#[tokio::test]
async fn the_printed_lines_name_keys_that_have_events() {
    let mut server = replayed(&[], expected().values().sum()).await;
    let mut urls = Vec::new();
    while let Some(line) = server.lines.next_line().await.unwrap() {
        let Some(command) = line.trim().strip_prefix("curl -N '") else {
            if urls.is_empty() {
                continue;
            }
            break;
        };
        urls.push(command.trim_end_matches('\'').to_owned());
    }
    assert!(urls.len() >= 4, "{urls:?}");
    let expected = expected();
    for url in urls.iter().filter_map(|url| url.split_once("/v1/keys/")) {
        let key = url.1.split('?').next().unwrap();
        assert!(expected.contains_key(key), "{key}");
        server.stream(&format!("/v1/keys/{}", url.1)).await.event().await;
    }
    let (_, matching) = urls.iter().find_map(|url| url.split_once("/v1/stream?match=")).unwrap();
    server.stream(&format!("/v1/stream?match={matching}")).await.event().await;
}

/// A table of two flights in a file of its own.
fn table(name: &str, rows: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.csv", std::process::id()));
    let head = CSV.lines().next().unwrap();
    std::fs::write(&path, format!("{head}\n{rows}")).unwrap();
    path
}

#[tokio::test]
async fn another_table_is_replayed_in_a_loop_and_in_order_of_event_time() {
    let path = table(
        "loop",
        "2013,1,1,600,600,0,700,700,0,B6,2,N2,JFK,BOS,60,187,6,0,2013-01-01T11:00:00Z\n\
         2013,1,1,NA,559,NA,NA,700,NA,B6,1,NA,JFK,BOS,NA,187,5,59,2013-01-01T10:00:00Z\n",
    );
    let server =
        Server::start_as_is(&["--listen", "127.0.0.1:0", "--speed", "100000", "--loop", "--flights", path.to_str().unwrap()])
            .await;
    let mut stream = server.stream("/v1/keys/route.JFK.BOS?from=oldest").await;
    for _ in 0..3 {
        let first = stream.event().await;
        assert_eq!((&first["flight"], &first["cancelled"], &first["tailnum"]), (&json!(1), &json!(true), &Value::Null));
        assert_eq!(stream.event().await["flight"], 2);
    }
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_table_that_cannot_be_read_ends_the_start_with_its_line() {
    let path = table("broken", "2013,1,1,600,600,0,700,700,0,B6,2,N2,JFK,BOS,60,187,6,0,yesterday\n");
    let (status, text) = stderr_of(&["--listen", "127.0.0.1:0", "--flights", path.to_str().unwrap()]).await;
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("line: 2") && text.contains(path.to_str().unwrap()), "{text}");
    std::fs::remove_file(&path).unwrap();
    let (status, text) = stderr_of(&["--listen", "127.0.0.1:0", "--flights", path.to_str().unwrap()]).await;
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("cannot open"), "{text}");
}
