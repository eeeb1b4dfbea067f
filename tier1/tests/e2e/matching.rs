//! Streams of patterns.

use serde_json::{Value, json};

use crate::support::{EventStream, Server};

/// Publishes a number to a key; returns its id, and the data that a stream sends for it.
async fn publish(server: &Server, key: &str, n: u64) -> (String, Value) {
    (server.publish(key, n.to_string()).await, json!({"key": key, "event": n}))
}

/// The next event, as `publish` returned it.
async fn next(stream: &mut EventStream) -> (String, Value) {
    let message = stream.message().await;
    assert_eq!(message.event, "message", "{message:?}");
    (message.id, serde_json::from_str(&message.data).unwrap())
}

#[tokio::test]
async fn keys_that_come_later_are_read_from_their_first_event_and_named() {
    let server = Server::start(&[]).await;
    publish(&server, "flight.UA.1", 0).await;
    let mut stream = server.stream("/v1/stream?match=flight.UA.*&match=route.%3E&key=exactly").await;
    assert!(stream.read_more().await);
    let mut expected = Vec::new();
    let keys = ["flight.UA.1", "flight.UA.2", "flight.AA.3", "route.JFK", "route.JFK.LAX.x", "exactly", "flight.UA.4.x", "route"];
    for n in 1..50 {
        for (at, key) in keys.iter().enumerate() {
            let published = publish(&server, key, n).await;
            if ![2, 6, 7].contains(&at) {
                expected.push(published);
            }
        }
        let published = publish(&server, &format!("flight.UA.new{n}"), n).await;
        expected.push(published);
    }
    for expected in &expected {
        assert_eq!(next(&mut stream).await, *expected);
    }
    assert_eq!(server.metric("tier1_empty_wakeups_total").await, 0.0);
}

#[tokio::test]
async fn a_stream_of_a_pattern_begins_and_comes_back_like_one_of_named_keys() {
    let server = Server::start(&[]).await;
    let mut published = Vec::new();
    for n in 0..40 {
        let key = ["a.1", "a.2", "b", "a.3", "c"][n * n % 5];
        let event = publish(&server, key, n as u64).await;
        if key != "c" {
            published.push(event);
        }
    }
    for cut in [1, 7, published.len() - 1] {
        let mut stream = server.stream("/v1/stream?key=b&match=a.*&from=oldest").await;
        let mut read = Vec::new();
        for _ in 0..cut {
            read.push(next(&mut stream).await);
        }
        drop(stream);
        // A key that is made while nobody looks.
        let event = publish(&server, &format!("a.new{cut}"), 100).await;
        published.push(event);
        let mut stream = server.resume("/v1/stream?match=a.*&key=b", &read[cut - 1].0).await;
        for _ in cut..published.len() {
            read.push(next(&mut stream).await);
        }
        assert_eq!(read, published, "cut after {cut}");
    }
    let mut latest = server.stream("/v1/stream?match=a.1&from=latest").await;
    let newest = published.iter().rev().find(|(_, data)| data["key"] == "a.1").unwrap();
    assert_eq!(next(&mut latest).await, *newest);
}

#[tokio::test]
async fn a_pattern_of_too_many_keys_ends_the_stream_and_says_so() {
    let server = Server::start(&["--max-stream-matches", "2"]).await;
    let mut stream = server.stream("/v1/stream?key=named&match=a.*").await;
    assert!(stream.read_more().await);
    for (n, key) in ["a.1", "named", "a.2"].into_iter().enumerate() {
        let published = publish(&server, key, n as u64).await;
        assert_eq!(next(&mut stream).await, published);
    }
    publish(&server, "a.3", 9).await;
    let mut goaway = stream.message().await;
    if goaway.event == "message" {
        goaway = stream.message().await;
    }
    let data: Value = serde_json::from_str(&goaway.data).unwrap();
    assert_eq!((goaway.event.as_str(), data["reason"].as_str()), ("goaway", Some("too_many_matches")));
    assert_eq!((data["may_resume"].as_bool(), data["cursor"].as_str()), (Some(true), Some(goaway.id.as_str())));
    assert!(stream.next().await.is_none());
    assert!(stream.parser.retry.unwrap() >= 20_000);

    let mut again = server.resume("/v1/stream?key=named&match=a.*", &goaway.id).await;
    assert_eq!(again.message().await.event, "goaway");
    assert_eq!(again.parser.last_id, goaway.id, "no position is given beyond what was sent");
    server.wait_for_metric("tier1_streams_closed_total{protocol=\"sse\",reason=\"too_many_matches\"}", 2.0).await;
    server.wait_for_metric("tier1_subscriptions", 0.0).await;
}
