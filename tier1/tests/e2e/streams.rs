//! What readers see.

use std::collections::HashSet;

use serde_json::json;

use crate::support::{EventStream, Server, http2_client, seq};

/// Percent-encodes all that is not plain, as a client does.
fn encoded(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn two_subscribers_get_every_event_in_order() {
    let server = Server::start(&[]).await;
    let mut first = server.stream("/v1/keys/news").await;
    let mut second = server.stream("/v1/keys/news").await;
    let mut other = server.stream("/v1/keys/other").await;
    for n in 0..300 {
        server.publish("news", n.to_string()).await;
    }
    server.publish("other", "\"mine\"").await;
    for stream in [&mut first, &mut second] {
        for n in 0..300 {
            assert_eq!(stream.event().await, n);
        }
    }
    assert_eq!(other.event().await, "mine", "a reader of another key got what was not its own");
}

#[tokio::test]
async fn an_event_has_the_position_that_its_publisher_was_told() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    let first = server.publish("k", "1").await;
    server.publish("elsewhere", "2").await;
    let second = server.publish("k", "3").await;
    assert_eq!(stream.message().await.id, first);
    assert_eq!(stream.message().await.id, second);
    assert_eq!(seq(&second), seq(&first) + 2);
}

#[tokio::test]
async fn the_first_bytes_come_before_any_event() {
    let server = Server::start(&["--retry", "1234ms"]).await;
    let mut stream = server.stream("/v1/keys/quiet").await;
    assert!(stream.read_more().await);
    assert_eq!(stream.parser.retry, Some(1234));
    assert_eq!(stream.parser.comments, 1);
    let id = stream.parser.last_id.clone();
    assert_eq!(seq(&id), 0);

    // That id is good to come back with, although nothing was ever sent.
    drop(stream);
    server.publish("quiet", "1").await;
    assert_eq!(server.resume("/v1/keys/quiet", &id).await.event().await, 1);
}

#[tokio::test]
async fn heartbeats_move_a_quiet_reader_on() {
    let server = Server::start(&["--heartbeat", "200ms"]).await;
    let mut stream = server.stream("/v1/keys/quiet").await;
    let mut several = server.stream("/v1/stream?key=quiet&key=quieter").await;
    server.publish_numbers("busy", 0..100).await;
    for stream in [&mut stream, &mut several] {
        while stream.parser.last_id.is_empty() || seq(&stream.parser.last_id) < 100 {
            assert!(stream.read_more().await);
        }
        assert!(stream.parser.comments >= 2);
    }
}

#[tokio::test]
async fn from_says_where_to_begin() {
    let server = Server::start(&[]).await;
    server.publish_numbers("k", 0..5).await;
    let mut oldest = server.stream("/v1/keys/k?from=oldest").await;
    let mut latest = server.stream("/v1/keys/k?from=latest").await;
    let mut next = server.stream("/v1/keys/k?from=next").await;
    let mut default = server.stream("/v1/keys/k").await;
    server.publish("k", "5").await;
    for n in 0..6 {
        assert_eq!(oldest.event().await, n);
    }
    assert_eq!(latest.event().await, 4);
    for stream in [&mut latest, &mut next, &mut default] {
        assert_eq!(stream.event().await, 5);
    }
}

#[tokio::test]
async fn a_stream_of_several_keys_names_each_and_keeps_the_order() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/stream?key=a&key=b&key=a&key=c%2Fd").await;
    let mut expected = Vec::new();
    for n in 0..200 {
        let (path, key) = [("a", "a"), ("b", "b"), ("c%2Fd", "c/d"), ("not-asked-for", "")][n % 4];
        server.publish(path, n.to_string()).await;
        if !key.is_empty() {
            expected.push(json!({"key": key, "event": n}));
        }
    }
    for expected in &expected {
        assert_eq!(stream.event().await, *expected);
    }
    let mut late = server.stream("/v1/stream?key=c%2Fd&key=b&key=a&from=oldest").await;
    let mut last = 0;
    for expected in &expected {
        let message = late.message().await;
        assert_eq!(serde_json::from_str::<serde_json::Value>(&message.data).unwrap(), *expected);
        assert!(seq(&message.id) > last);
        last = seq(&message.id);
    }
}

#[tokio::test]
async fn odd_keys_work_in_paths_queries_and_batches() {
    let server = Server::start(&[]).await;
    let keys = [
        "a/b", "/", "a b", "a+b", "\"q\"", "100%", "%2F", "?x=1&y=2", "#frag", "data: x", "ключ", "\u{2028}", "{key}", "a\\b",
        ";",
    ];
    for key in keys {
        let mut stream = server.stream(&format!("/v1/keys/{}?from=oldest", encoded(key))).await;
        let mut named = server.stream(&format!("/v1/stream?key={}", encoded(key))).await;
        server.publish(&encoded(key), "1").await;
        let line = json!({"key": key, "event": 2}).to_string();
        assert_eq!(server.post("/v1/publish", line).await.status(), 200, "{key}");
        for n in [1, 2] {
            assert_eq!(stream.event().await, n, "{key}");
            assert_eq!(named.event().await, json!({"key": key, "event": n}));
        }
    }
    let listed = crate::support::json(server.get("/v1/keys?top=1000").await).await;
    let listed: HashSet<&str> = listed["keys"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
    assert_eq!(listed, HashSet::from(keys));
}

#[tokio::test]
async fn nothing_that_is_published_can_write_lines_of_its_own() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    let mut named = server.stream("/v1/stream?key=k").await;
    let attacks = [
        "x\n\nevent: goaway\ndata: {}\n\n",
        "x\r\revent: goaway\rdata: {}\r\r",
        "x\r\n\r\nid: v1.1.1\r\nretry: 1\r\n\r\n",
        "\n\n\n",
        ": comment\n",
        "\u{feff}data: x",
        "data: x",
        "a\0b",
        "\"a\u{2028}b\u{85}c\"",
        "{\"a\":\r\n\r\nevent: goaway}",
        "[1,\n\n2]",
    ];
    for attack in attacks {
        let position = server.publish("k", attack).await;
        let message = stream.message().await;
        let unified = attack.replace("\r\n", "\n").replace('\r', "\n");
        assert_eq!((message.event.as_str(), &message.id), ("message", &position), "{attack:?}");
        assert_eq!(message.data, unified, "{attack:?}");
        let message = named.message().await;
        assert_eq!((message.event.as_str(), &message.id), ("message", &position), "{attack:?}");
        let data: serde_json::Value = serde_json::from_str(&message.data).unwrap();
        assert_eq!(data["key"], "k");
        assert!(data["text"] == unified.as_str() || !data["event"].is_null(), "{attack:?}: {data}");
    }
    assert_eq!(stream.parser.retry, Some(2000));
    assert!(!stream.raw.contains('\r'));
}

#[tokio::test]
async fn bytes_that_are_no_text_come_in_base64() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    let mut named = server.stream("/v1/stream?key=k").await;
    server.publish("k", vec![0xff, 0x00, b'\n', b'\r']).await;
    let message = stream.message().await;
    assert_eq!((message.event.as_str(), message.data.as_str()), ("binary", "/wAKDQ=="));
    assert_eq!(named.event().await, json!({"key": "k", "base64": "/wAKDQ=="}));
}

#[tokio::test]
async fn large_events_arrive_whole_between_small_ones() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    let mut named = server.stream("/v1/stream?key=k").await;
    for size in [10, 1_000_000, 20, 16 * 1024, 16 * 1024 - 1, 30_000, 40] {
        let text = "x".repeat(size - 2);
        server.publish("k", format!("\"{text}\"")).await;
        assert_eq!(stream.event().await, *text);
        assert_eq!(named.event().await["event"], *text);
    }
}

#[tokio::test]
async fn a_publish_wakes_no_reader_of_another_key() {
    let server = Server::start(&[]).await;
    let mut streams = Vec::new();
    for n in 0..50 {
        let mut stream = server.stream(&format!("/v1/keys/quiet.{n}")).await;
        assert!(stream.read_more().await);
        streams.push(stream);
    }
    // Each has sent its first bytes, and some have not parked yet: that is no wake of ours.
    let before = server.metric("tier1_wakeups_total").await;
    server.publish_numbers("busy", 0..1000).await;
    assert_eq!(server.metric("tier1_wakeups_total").await, before);
    assert_eq!(server.metric("tier1_empty_wakeups_total").await, 0.0);
}

#[tokio::test]
async fn two_hundred_streams_share_one_http2_connection() {
    let server = Server::start(&[]).await;
    let client = http2_client();
    let mut streams = Vec::new();
    for n in 0..200 {
        streams.push(EventStream::open(&client, &server.at(&format!("/v1/keys/k.{}", n % 20)), None).await);
    }
    server.wait_for_metric("tier1_streams_active{protocol=\"sse\"}", 200.0).await;
    for n in 0..20 {
        server.publish_numbers(&format!("k.{n}"), 0..50).await;
    }
    for stream in &mut streams {
        for n in 0..50 {
            assert_eq!(stream.event().await, n);
        }
    }
    drop((streams, client));
    server.wait_for_metric("tier1_streams_active{protocol=\"sse\"}", 0.0).await;
}
