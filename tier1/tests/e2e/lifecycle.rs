//! Beginning and end: of connections, of streams, of the process.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{EventStream, Server, http2_client, in_time, stderr_of};

const ACTIVE: &str = "tier1_streams_active{protocol=\"sse\"}";

async fn goaway(stream: &mut EventStream) -> Value {
    let message = stream.message().await;
    assert_eq!(message.event, "goaway", "{message:?}");
    let data: Value = serde_json::from_str(&message.data).unwrap();
    assert_eq!(data["cursor"], message.id);
    assert_eq!(stream.next().await, None, "something follows a goaway");
    data
}

#[tokio::test]
async fn a_stopped_server_says_goodbye_to_every_stream() {
    let server = Server::start(&[]).await;
    let http2 = http2_client();
    let mut streams = Vec::new();
    for n in 0..20 {
        streams.push(server.stream(&format!("/v1/keys/k.{n}")).await);
        streams.push(server.stream(&format!("/v1/stream?key=k.{n}&key=other")).await);
        streams.push(EventStream::open(&http2, &server.at("/v1/keys/k"), None).await);
    }
    let position = server.publish("unread", "1").await;
    server.signal("TERM").await;
    for stream in &mut streams {
        let data = goaway(stream).await;
        assert_eq!((data["reason"].as_str(), data["may_resume"].as_bool()), (Some("shutdown"), Some(true)));
        assert_eq!(data["cursor"], position.as_str(), "a quiet reader's cursor moves with the hub");
        assert!(stream.parser.retry.unwrap() >= 2000);
    }
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_was_published_before_the_end_is_read_before_the_goodbye() {
    const EVENTS: u64 = 5000;
    let server = Server::start(&["--retain-events", "10000", "--drain-deadline", "50s"]).await;
    let mut one = server.stream("/v1/keys/k").await;
    let mut several = server.stream("/v1/stream?key=k&key=other").await;
    server.publish_numbers("k", 0..EVENTS).await;
    server.signal("INT").await;
    for n in 0..EVENTS {
        assert_eq!(one.event().await, n);
        assert_eq!(several.event().await["event"], n);
    }
    goaway(&mut one).await;
    goaway(&mut several).await;
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn in_the_drain_delay_it_is_not_ready_and_still_serves() {
    let server = Server::start(&["--drain-delay", "20s"]).await;
    assert_eq!(server.get("/readyz").await.status(), 200);
    let mut stream = server.stream("/v1/keys/k").await;
    server.signal("TERM").await;
    while server.get("/readyz").await.status() != 503 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(crate::support::json(server.get("/readyz").await).await["error"]["code"], "draining");
    assert_eq!(server.get("/livez").await.status(), 200);
    assert_eq!(server.metric("tier1_ready").await, 0.0);
    server.publish("k", "1").await;
    assert_eq!(stream.event().await, 1);
    // A second signal does not wait.
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(143));
}

#[tokio::test]
async fn connections_that_said_nothing_do_not_hold_the_exit() {
    let server = Server::start(&["--drain-deadline", "50s", "--header-timeout", "50s"]).await;
    let mut sockets = Vec::new();
    for beginning in [&b""[..], b"", b"PRI", b"GET / HTTP/1.1\r\nho", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(beginning).await.unwrap();
        sockets.push(socket);
    }
    server.wait_for_metric("tier1_connections_active", 6.0).await;
    let begun = tokio::time::Instant::now();
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(45), "they held the exit until the deadline");
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_at_the_deadline() {
    let server = Server::start(&["--drain-deadline", "500ms", "--retain-bytes", "100MiB"]).await;
    let mut stuck = TcpStream::connect(server.address()).await.unwrap();
    stuck.write_all(b"GET /v1/keys/k HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    server.wait_for_metric(ACTIVE, 1.0).await;
    let filler = format!("\"{}\"", "x".repeat(1_000_000));
    for _ in 0..30 {
        server.publish("k", filler.clone()).await;
    }
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(0));
    drop(stuck);
}

#[tokio::test]
async fn a_client_that_vanishes_is_noticed_without_any_publish() {
    let server = Server::start(&[]).await;
    let http2 = http2_client();
    let mut streams = Vec::new();
    for n in 0..30 {
        streams.push(server.stream(&format!("/v1/keys/k.{}", n % 3)).await);
        streams.push(server.stream(&format!("/v1/stream?key=k.{n}&key=a&key=b")).await);
        streams.push(EventStream::open(&http2, &server.at("/v1/keys/h2"), None).await);
    }
    server.wait_for_metric(ACTIVE, 90.0).await;
    server.wait_for_metric("tier1_subscriptions", 150.0).await;
    drop((streams, http2));
    server.wait_for_metric(ACTIVE, 0.0).await;
    server.wait_for_metric("tier1_subscriptions", 0.0).await;
    assert_eq!(server.metric("tier1_events_published_total").await, 0.0);
    server.wait_for_metric("tier1_streams_closed_total{protocol=\"sse\",reason=\"client\"}", 90.0).await;
}

#[tokio::test]
async fn one_http2_stream_can_be_given_up_without_its_connection() {
    let server = Server::start(&[]).await;
    let http2 = http2_client();
    let mut kept = EventStream::open(&http2, &server.at("/v1/keys/kept"), None).await;
    let given_up = EventStream::open(&http2, &server.at("/v1/keys/given-up"), None).await;
    server.wait_for_metric(ACTIVE, 2.0).await;
    drop(given_up);
    server.wait_for_metric(ACTIVE, 1.0).await;
    server.publish("kept", "1").await;
    assert_eq!(kept.event().await, 1);
}

#[tokio::test]
async fn one_connection_too_many_is_closed_without_an_answer() {
    let server = Server::start(&["--max-connections", "20"]).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(server.stream("/v1/keys/k").await);
    }
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let mut answer = Vec::new();
    // Closed or reset, as the kernel likes; never answered, since a browser would not come back after a 503.
    let _ = in_time(socket.read_to_end(&mut answer)).await;
    assert!(answer.is_empty());
    // Once the server has seen some go, their places are free again.
    streams.truncate(10);
    let mut tries = 0;
    while server.client.get(server.at("/livez")).send().await.is_err() {
        tries += 1;
        assert!(tries < 1000, "the places stay taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.wait_for_metric(ACTIVE, 10.0).await;
    assert!(server.metric("tier1_connections_refused_total").await >= 1.0);
}

#[tokio::test]
async fn a_full_hub_tells_a_stream_to_come_back_later() {
    let server = Server::start(&["--max-keys", "3"]).await;
    let mut kept = Vec::new();
    for n in 0..3 {
        kept.push(server.stream(&format!("/v1/keys/k.{n}")).await);
    }
    let mut stream = server.stream("/v1/keys/one-too-many").await;
    let data = goaway(&mut stream).await;
    assert_eq!((data["reason"].as_str(), data["may_resume"].as_bool()), (Some("topic_limit"), Some(true)));
    assert!(stream.parser.retry.unwrap() >= 20_000);
    server.publish("k.1", "1").await;
    assert_eq!(kept[1].event().await, 1);
}

#[tokio::test]
async fn without_a_choice_a_taken_port_is_replaced_and_with_one_it_is_an_error() {
    let first = Server::start_as_is(&["--no-replay"]).await;
    let second = Server::start_as_is(&["--no-replay"]).await;
    assert_ne!(first.url, second.url);
    assert_eq!(first.get("/livez").await.status(), 200);
    assert_eq!(second.get("/livez").await.status(), 200);

    let (status, text) = stderr_of(&["--no-replay", "--listen", first.address()]).await;
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("cannot listen on"), "{text}");
    let (status, text) = stderr_of(&["--no-replay", "--no-such-flag"]).await;
    assert_eq!(status.code(), Some(2));
    assert!(text.contains("--no-such-flag"), "{text}");
}
