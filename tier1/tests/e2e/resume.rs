//! Coming back.

use std::collections::HashMap;

use keywake::Position;
use serde_json::{Value, json};

use crate::support::{EventStream, Server, seq};

#[tokio::test]
async fn a_reader_that_is_cut_again_and_again_gets_everything_once() {
    const EVENTS: u64 = 2000;
    /// After so many events the reader is cut.
    const CUT: u64 = 37;
    let server = Server::start(&["--retain-events", "10000"]).await;
    let publisher = async {
        for from in (0..EVENTS).step_by(20) {
            server.publish_numbers("k", from..from + 20).await;
            server.publish_numbers("noise", 0..3).await;
        }
    };
    let reader = async {
        let mut read = Vec::new();
        let mut id = String::new();
        while (read.len() as u64) < EVENTS {
            let mut stream = if id.is_empty() {
                server.stream("/v1/keys/k?from=oldest").await
            } else {
                server.resume("/v1/keys/k?from=oldest", &id).await
            };
            for _ in 0..CUT.min(EVENTS - read.len() as u64) {
                let message = stream.message().await;
                assert_eq!(message.event, "message", "{message:?}");
                read.push(message.data.parse::<u64>().unwrap());
                id = message.id;
            }
        }
        read
    };
    let (read, ()) = tokio::join!(reader, publisher);
    assert!(read.into_iter().eq(0..EVENTS));
    assert_eq!(server.metric("tier1_resume_total{outcome=\"ok\"}").await, (EVENTS / CUT) as f64);
}

#[tokio::test]
async fn a_reader_of_several_keys_that_is_cut_again_and_again_gets_everything_once() {
    const EVENTS: u64 = 600;
    let server = Server::start(&["--retain-events", "10000"]).await;
    let publish = |key: &'static str| {
        let server = &server;
        async move {
            for n in 0..EVENTS {
                server.publish(key, n.to_string()).await;
            }
        }
    };
    let reader = async {
        let mut due = HashMap::from([("a".to_owned(), 0), ("b".to_owned(), 0), ("c".to_owned(), 0)]);
        let mut id = String::new();
        while due.values().any(|due| *due < EVENTS) {
            let url = server.at("/v1/stream?key=a&key=b&key=c&from=oldest");
            let mut stream = EventStream::open(&server.client, &url, Some(id.as_str()).filter(|id| !id.is_empty())).await;
            let mut before_cut = 53;
            while before_cut > 0 && due.values().any(|due| *due < EVENTS) {
                id = read_one(&mut stream, &mut due).await;
                before_cut -= 1;
            }
        }
    };
    tokio::join!(reader, publish("a"), publish("b"), publish("c"));
}

/// Reads an event of a stream of several keys; returns its id.
async fn read_one(stream: &mut EventStream, due: &mut HashMap<String, u64>) -> String {
    let message = stream.message().await;
    assert_eq!(message.event, "message", "{message:?}");
    let data: Value = serde_json::from_str(&message.data).unwrap();
    let due = due.get_mut(data["key"].as_str().unwrap()).unwrap();
    let n = data["event"].as_u64().unwrap();
    assert_eq!(n, *due, "{data}");
    *due += 1;
    message.id
}

#[tokio::test]
async fn a_stream_of_three_keys_resumed_in_the_middle_is_exact() {
    const KEYS: [&str; 4] = ["a", "b", "c", "not-asked-for"];
    let server = Server::start(&[]).await;
    let mut published = Vec::new();
    for n in 0..60 {
        // In no regular order.
        let key = KEYS[n * n % 7 % 4];
        let id = server.publish(key, n.to_string()).await;
        if key != KEYS[3] {
            published.push((id, json!({"key": key, "event": n})));
        }
    }
    for cut in [1, 2, 3, 10, published.len() / 2, published.len() - 1] {
        let mut stream = server.stream("/v1/stream?key=a&key=b&key=c&from=oldest").await;
        let mut read = Vec::new();
        for _ in 0..cut {
            let message = stream.message().await;
            read.push((message.id, serde_json::from_str::<Value>(&message.data).unwrap()));
        }
        drop(stream);
        let key = KEYS[cut % 3];
        published.push((server.publish(key, "\"meanwhile\"").await, json!({"key": key, "event": "meanwhile"})));
        let mut stream = server.resume("/v1/stream?key=c&key=b&key=a", &read[cut - 1].0).await;
        for _ in cut..published.len() {
            let message = stream.message().await;
            read.push((message.id, serde_json::from_str::<Value>(&message.data).unwrap()));
        }
        assert_eq!(read, published, "cut after {cut}");
    }
    assert_eq!(server.metric("tier1_resume_total{outcome=\"ok\"}").await, 6.0);
}

#[tokio::test]
async fn the_header_wins_over_the_query() {
    let server = Server::start(&[]).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(server.publish("k", n.to_string()).await);
    }
    assert_eq!(server.stream(&format!("/v1/keys/k?last_event_id={}", ids[0])).await.event().await, 1);
    assert_eq!(server.resume(&format!("/v1/keys/k?last_event_id={}", ids[0]), &ids[2]).await.event().await, 3);
    assert_eq!(server.resume(&format!("/v1/keys/k?from=oldest&last_event_id={}", ids[0]), "").await.event().await, 1);
}

#[tokio::test]
async fn what_was_not_kept_is_told_as_a_gap() {
    const EVENTS: u64 = 1000;
    let server = Server::start(&["--retain-events", "10"]).await;
    let first = server.publish("k", "0").await;
    server.publish_numbers("k", 1..EVENTS).await;
    for path in ["/v1/keys/k", "/v1/stream?key=k&key=other"] {
        let mut stream = server.resume(path, &first).await;
        let gap = stream.message().await;
        assert_eq!(gap.event, "gap", "{gap:?}");
        let data: Value = serde_json::from_str(&gap.data).unwrap();
        assert_eq!((&data["from"], &data["cause"]), (&json!(first), &json!("retention")));
        assert_eq!(data["key"].as_str(), path.contains("stream").then_some("k"));
        let to = seq(data["to"].as_str().unwrap());
        let next = stream.event().await;
        let next = if path.contains("stream") { next["event"].as_u64() } else { next.as_u64() }.unwrap();
        assert!(next > 0 && next <= EVENTS - 10, "{next}");
        // Event n has the number n + 1.
        assert_eq!(to, next, "the gap ends just before the next event");
        if !data["missed"].is_null() {
            assert_eq!(data["missed"], next - 1);
        }
        for n in next + 1..EVENTS {
            let event = stream.event().await;
            assert_eq!(if path.contains("stream") { &event["event"] } else { &event }, n);
        }
        // The gap's id is good to come back with, too.
        let mut again = server.resume("/v1/keys/k", &gap.id).await;
        let event = again.message().await;
        assert!(event.event == "gap" || event.data == next.to_string(), "{event:?}");
    }
    assert_eq!(server.metric("tier1_resume_total{outcome=\"expired\"}").await, 2.0);
    assert!(server.metric("tier1_gaps_total{cause=\"retention\"}").await >= 2.0);
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_overrun_and_told() {
    const EVENTS: usize = 60;
    let server = Server::start(&["--retain-bytes", "2MiB", "--retain-events", "2"]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    let filler = "x".repeat(1_000_000);
    for n in 0..EVENTS {
        server.publish("k", format!("\"{n} {filler}\"")).await;
    }
    let (mut read, mut gaps, mut missed, mut next) = (0, 0, 0, 0);
    while next < EVENTS {
        let message = stream.message().await;
        if message.event == "gap" {
            let data: Value = serde_json::from_str(&message.data).unwrap();
            assert_eq!(data["cause"], "retention");
            gaps += 1;
            missed += data["missed"].as_u64().map_or(0, |missed| usize::try_from(missed).unwrap());
            continue;
        }
        let n: usize = message.data[1..].split(' ').next().unwrap().parse().unwrap();
        assert!(n >= next, "{n} after {next}");
        read += 1;
        next = n + 1;
    }
    assert!(gaps > 0, "all {EVENTS} MB went into buffers");
    assert_eq!(read + missed, EVENTS);
}

#[tokio::test]
async fn a_position_of_another_server_or_of_the_future_is_told_as_a_gap() {
    let server = Server::start(&[]).await;
    let here = server.publish("k", "\"here\"").await;
    for (id, cause, outcome) in [
        ("v1.beef.5".to_owned(), "other_epoch", "epoch"),
        (Position::new(here.parse::<Position>().unwrap().epoch(), 1_000_000).to_string(), "ahead", "ahead"),
    ] {
        let mut stream = server.resume("/v1/keys/k", &id).await;
        let gap = stream.message().await;
        assert_eq!(gap.event, "gap", "{gap:?}");
        let data: Value = serde_json::from_str(&gap.data).unwrap();
        assert_eq!(data["cause"], cause);
        assert!(seq(&gap.id) <= 2, "{gap:?}");
        if cause == "other_epoch" {
            assert_eq!(stream.event().await, "here");
        }
        server.publish("k", "\"new\"").await;
        assert_eq!(stream.event().await, "new");
        assert_eq!(server.metric(&format!("tier1_resume_total{{outcome=\"{outcome}\"}}")).await, 1.0);
    }
}

#[tokio::test]
async fn a_refused_reader_keeps_the_position_that_it_came_with() {
    // Whoever came from another server would take a number of this one for how far it has read.
    let server = Server::start(&["--max-keys", "1"]).await;
    let here = server.publish("taken", "\"here\"").await;
    for path in ["/v1/keys/other", "/v1/stream?key=other&key=third"] {
        let mut stream = server.resume(path, "v1.beef.1000000").await;
        let goaway = stream.message().await;
        assert_eq!(goaway.event, "goaway", "{goaway:?}");
        assert_eq!(goaway.data, r#"{"reason":"topic_limit","may_resume":true}"#);
        assert!(stream.next().await.is_none());
        assert!(!stream.raw.contains("id:"), "{}", stream.raw);
    }
    // One key is there, whose events are sent all the same, and one is refused.
    let mut stream = server.resume("/v1/stream?key=taken&key=other", "v1.beef.1000000").await;
    let gap = stream.message().await;
    assert_eq!(gap.event, "gap", "{gap:?}");
    assert_eq!(stream.event().await["event"], "here");
    assert_eq!(stream.message().await.event, "goaway");
    assert!(!stream.raw.contains("\nid:"), "{}", stream.raw);
    // A position of this server, and none, are answered with one of this server.
    for id in [Some(here.as_str()), None] {
        for path in ["/v1/keys/other", "/v1/stream?key=taken&key=other"] {
            let mut stream = EventStream::open(&server.client, &server.at(path), id).await;
            let goaway = stream.message().await;
            assert_eq!((goaway.event.as_str(), goaway.id.as_str()), ("goaway", here.as_str()));
            let data: Value = serde_json::from_str(&goaway.data).unwrap();
            assert_eq!(data["cursor"], here);
        }
    }
}

#[tokio::test]
async fn every_key_tells_what_was_lost_with_another_server_before_any_id_is_given() {
    let server = Server::start(&[]).await;
    server.publish("a", "1").await;
    server.publish("b", "2").await;
    let mut stream = server.resume("/v1/stream?key=a&key=b&key=c", "v1.beef.1000000").await;
    for nth in 0..3 {
        let gap = stream.message().await;
        assert_eq!(gap.event, "gap", "{gap:?}");
        assert!(gap.data.contains("\"cause\":\"other_epoch\""), "{gap:?}");
        assert_eq!(gap.id.is_empty(), nth < 2, "{gap:?}");
    }
    assert_eq!([stream.event().await["event"].clone(), stream.event().await["event"].clone()], [json!(1), json!(2)]);
}
