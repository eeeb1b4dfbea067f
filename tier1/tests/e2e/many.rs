//! A thousand streams at once.

use crate::support::{EventStream, Server};

const STREAMS: usize = 1000;
const ACTIVE: &str = "tier1_streams_active{protocol=\"sse\"}";

#[tokio::test]
async fn a_thousand_idle_streams_are_held_woken_and_freed() {
    // Each is a file here and one in the server, which raises its own limit.
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    assert!(files >= STREAMS as u64 + 100, "only {files} files may be open: raise the hard limit to run this test");
    let server = Server::start(&[]).await;
    let mut streams = Vec::with_capacity(STREAMS);
    for n in 0..STREAMS {
        streams.push(EventStream::open(&server.client, &server.at(&format!("/v1/stream?key=own.{n}&key=all")), None).await);
    }
    server.wait_for_metric(ACTIVE, STREAMS as f64).await;
    server.wait_for_metric("tier1_keys", STREAMS as f64 + 1.0).await;

    // One event for one of them wakes one of them.
    for stream in &mut streams {
        assert!(stream.read_more().await);
    }
    let before = server.metric("tier1_wakeups_total").await;
    server.publish("own.500", "\"yours\"").await;
    assert_eq!(streams[500].event().await["event"], "yours");
    assert!(server.metric("tier1_wakeups_total").await - before <= 1.0);

    server.publish("all", "\"everybody's\"").await;
    for stream in &mut streams {
        assert_eq!(stream.event().await["event"], "everybody's");
    }
    assert_eq!(server.metric("tier1_empty_wakeups_total").await, 0.0);
    assert!(server.metric("tier1_relay_wakeups_total").await >= 1.0, "the publishers woke all streams themselves");

    drop(streams);
    server.wait_for_metric(ACTIVE, 0.0).await;
    server.wait_for_metric("tier1_subscriptions", 0.0).await;
}
