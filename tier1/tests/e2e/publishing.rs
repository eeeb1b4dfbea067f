//! Publishing, and what is listed and counted of it.

use serde_json::json;

use crate::support::{Server, json as body, seq};

#[tokio::test]
async fn a_batch_is_published_as_a_whole_or_not_at_all() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/stream?key=a&key=b").await;
    let bad =
        "{\"key\":\"a\",\"event\":1}\n\n{\"key\":\"b\",\"event\":2}\n{\"key\":\"a\",\"event\":}\n{\"key\":\"a\",\"event\":4}";
    let response = server.post("/v1/publish", bad).await;
    assert_eq!(response.status(), 400);
    let error = body(response).await;
    assert_eq!(error["error"]["code"], "bad_line");
    assert_eq!(error["error"]["line"], 4);
    assert!(error["error"]["message"].as_str().unwrap().starts_with("line 4: "), "{error}");
    assert_eq!(server.metric("tier1_events_published_total").await, 0.0);

    let good = "{\"key\":\"a\",\"event\":{\"deep\":[1]}}\r\n\n{\"event\":\"x\",\"key\":\"b\"}\n{\"key\":\"a\",\"event\":null}";
    let answer = body(server.post("/v1/publish", good).await).await;
    assert_eq!(answer["events"], 3);
    assert_eq!(seq(answer["position"].as_str().unwrap()), 3);
    assert_eq!(stream.event().await, json!({"key": "a", "event": {"deep": [1]}}));
    assert_eq!(stream.event().await, json!({"key": "b", "event": "x"}));
    let last = stream.message().await;
    assert_eq!(last.data, r#"{"key":"a","event":null}"#);
    assert_eq!(last.id, answer["position"].as_str().unwrap());
    assert_eq!(server.metric("tier1_events_published_total").await, 3.0);
}

#[tokio::test]
async fn json_is_passed_on_byte_for_byte() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/k").await;
    for json in [r#"{"b":1,"a":1.000,"b":2}"#, "1e400", "12345678901234567890123", r#""\ud800""#, "[ 1 , 2 ]"] {
        server.publish("k", json).await;
        assert_eq!(stream.message().await.data, json);
        let line = format!("{{\"key\":\"k\",\"event\":{json}}}");
        assert_eq!(server.post("/v1/publish", line).await.status(), 200, "{json}");
        assert_eq!(stream.message().await.data, json);
    }
}

#[tokio::test]
async fn the_busiest_keys_are_listed() {
    let server = Server::start(&[]).await;
    server.publish_numbers("second", 0..20).await;
    server.publish_numbers("first", 0..30).await;
    server.publish_numbers("third", 0..10).await;
    let _reader = server.stream("/v1/keys/second").await;
    let listed = body(server.get("/v1/keys?top=2").await).await;
    assert_eq!(listed["total"], 3);
    let keys = listed["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!((&keys[0]["key"], &keys[0]["published"], &keys[0]["readers"]), (&json!("first"), &json!(30), &json!(0)));
    assert_eq!((&keys[1]["key"], &keys[1]["published"], &keys[1]["readers"]), (&json!("second"), &json!(20), &json!(1)));
    assert_eq!(seq(keys[0]["last_position"].as_str().unwrap()), 50);
}

#[tokio::test]
async fn the_metrics_count_what_happened_and_name_no_key() {
    let server = Server::start(&[]).await;
    let mut stream = server.stream("/v1/keys/a.secret.key").await;
    server.publish("a.secret.key", "1").await;
    stream.event().await;
    let response = server.get("/metrics").await;
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = response.text().await.unwrap();
    for line in [
        "tier1_streams_active{protocol=\"sse\"} 1",
        "tier1_streams_opened_total{protocol=\"sse\"} 1",
        "tier1_events_published_total 1",
        "tier1_events_delivered_total{protocol=\"sse\"} 1",
        "tier1_empty_wakeups_total 0",
        "tier1_foreign_wakeups_total 0",
        "tier1_keys 1",
        "tier1_subscriptions 1",
        "tier1_ready 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    for name in [
        "tier1_wakeups_total",
        "tier1_relay_wakeups_total",
        "tier1_coalesced_total",
        "tier1_fan_outs_total",
        "tier1_fall_backs_total",
        "tier1_bytes_sent_total",
        "tier1_retained_bytes",
        "tier1_pinned_bytes",
        "tier1_build_info",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    assert!(!text.contains("secret"), "{text}");
    let sent = server.metric("tier1_bytes_sent_total{protocol=\"sse\"}").await;
    assert_eq!(sent, stream.raw.len() as f64);
}

#[tokio::test]
async fn the_front_page_helps() {
    let server = Server::start(&[]).await;
    let text = server.get("/").await.text().await.unwrap();
    assert!(text.contains(&format!("curl -N '{}/v1/keys/KEY?from=oldest'", server.url)), "{text}");
    assert!(text.contains("/v1/stream?match=flight.%3E'"), "{text}");
}
