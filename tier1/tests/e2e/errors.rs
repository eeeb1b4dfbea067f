//! Bad input: a table of requests, each with its status and code.

use reqwest::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Server, http2_client, in_time, json};

/// Method, path, headers, body, status, code.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [u8], u16, &'static str);

const TABLE: &[Row] = &[
    // Paths and methods.
    ("GET", "/nothing", &[], b"", 404, "no_such_path"),
    ("GET", "/v1", &[], b"", 404, "no_such_path"),
    ("GET", "/v1/keys/a/b", &[], b"", 404, "no_such_path"),
    ("GET", "/v1/keys/", &[], b"", 400, "empty_key"),
    ("POST", "/v1/keys/", &[], b"1", 400, "empty_key"),
    ("PUT", "/v1/keys/a", &[], b"1", 405, "method_not_allowed"),
    ("DELETE", "/v1/keys/a", &[], b"", 405, "method_not_allowed"),
    ("POST", "/v1/stream?key=a", &[], b"", 405, "method_not_allowed"),
    ("GET", "/v1/publish", &[], b"", 405, "method_not_allowed"),
    ("POST", "/livez", &[], b"", 405, "method_not_allowed"),
    // Keys.
    ("GET", "/v1/keys/a%0Ab", &[], b"", 400, "bad_key"),
    ("GET", "/v1/keys/a%0D%0Aid:%201", &[], b"", 400, "bad_key"),
    ("GET", "/v1/keys/%00", &[], b"", 400, "bad_key"),
    ("GET", "/v1/keys/%C2%85", &[], b"", 400, "bad_key"),
    ("GET", "/v1/keys/%zz", &[], b"", 400, "bad_key"),
    ("POST", "/v1/keys/a%", &[], b"1", 400, "bad_key"),
    ("GET", "/v1/stream?key=%zz", &[], b"", 400, "bad_query"),
    ("GET", "/v1/keys/%FF", &[], b"", 400, "bad_key"),
    ("POST", "/v1/keys/%FF", &[], b"1", 400, "bad_key"),
    ("POST", "/v1/keys/a%7Fb", &[], b"1", 400, "bad_key"),
    ("POST", "/v1/keys/12345678901", &[], b"1", 400, "key_too_long"),
    ("GET", "/v1/keys/12345678901", &[], b"", 400, "key_too_long"),
    // Streams.
    ("GET", "/v1/stream", &[], b"", 400, "no_keys"),
    ("GET", "/v1/stream?from=oldest", &[], b"", 400, "no_keys"),
    ("GET", "/v1/stream?key=", &[], b"", 400, "empty_key"),
    ("GET", "/v1/stream?key=%FF", &[], b"", 400, "bad_query"),
    ("GET", "/v1/stream?key=a%0Ab", &[], b"", 400, "bad_key"),
    ("GET", "/v1/stream?key=a&key=b&key=c&key=d", &[], b"", 400, "too_many_keys"),
    ("GET", "/v1/stream?match=", &[], b"", 400, "bad_pattern"),
    ("GET", "/v1/stream?match=a.U*", &[], b"", 400, "bad_pattern"),
    ("GET", "/v1/stream?match=a..b", &[], b"", 400, "bad_pattern"),
    ("GET", "/v1/stream?key=a&match=%3E.a", &[], b"", 400, "bad_pattern"),
    ("GET", "/v1/stream?match=a%0A", &[], b"", 400, "bad_pattern"),
    ("GET", "/v1/stream?match=%FF", &[], b"", 400, "bad_query"),
    ("GET", "/v1/stream?match=a&match=b&match=c", &[], b"", 400, "too_many_patterns"),
    ("GET", "/v1/stream?match=a&key=b&key=c&key=d&key=e", &[], b"", 400, "too_many_keys"),
    ("GET", "/v1/keys/a?match=b", &[], b"", 400, "unknown_parameter"),
    ("GET", "/v1/stream?key=a&form=oldest", &[], b"", 400, "unknown_parameter"),
    ("GET", "/v1/keys/a?key=b", &[], b"", 400, "unknown_parameter"),
    ("GET", "/v1/keys/a?from=newest", &[], b"", 400, "bad_from"),
    ("GET", "/v1/keys/a?from=next&from=next", &[], b"", 400, "bad_query"),
    ("GET", "/v1/keys/a?last_event_id=7", &[], b"", 400, "bad_position"),
    ("GET", "/v1/keys/a?last_event_id=v2.1.1", &[], b"", 400, "bad_position"),
    ("GET", "/v1/keys/a?last_event_id=v1.1.99999999999999999999", &[], b"", 400, "bad_position"),
    ("GET", "/v1/keys/a", &[("last-event-id", "seven")], b"", 400, "bad_position"),
    ("GET", "/v1/keys/a?last_event_id=v1.1.1", &[("last-event-id", "v1..")], b"", 400, "bad_position"),
    ("GET", "/v1/keys/a", &[("last-event-id", "v1.1.\u{e9}")], b"", 400, "bad_position"),
    // Publishing.
    ("POST", "/v1/keys/a", &[], b"", 400, "empty_body"),
    ("POST", "/v1/keys/a", &[("content-type", "application/json")], b"{", 400, "bad_json"),
    ("POST", "/v1/keys/a", &[("content-type", "application/cloudevents+json; charset=utf-8")], b"\xff", 400, "bad_json"),
    ("POST", "/v1/keys/a", &[("content-type", "multipart/form-data; boundary=x")], b"--x--", 415, "unsupported_media_type"),
    ("POST", "/v1/keys/a", &[("content-encoding", "gzip")], b"x", 415, "unsupported_media_type"),
    ("POST", "/v1/keys/a", &[], &[b'x'; 1001], 413, "body_too_large"),
    // Batches.
    ("POST", "/v1/publish", &[], b"", 400, "empty_body"),
    ("POST", "/v1/publish", &[], b"\n \r\n\n", 400, "empty_body"),
    ("POST", "/v1/publish", &[("content-type", "image/png")], b"{\"key\":\"a\",\"event\":1}", 415, "unsupported_media_type"),
    ("POST", "/v1/publish", &[], &[b'x'; 1001], 413, "body_too_large"),
    ("POST", "/v1/publish", &[], b"not json", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\"}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"event\":1}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":1,\"event\":1}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\",\"event\":1,\"id\":2}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\",\"key\":\"b\",\"event\":1}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\",\"event\":1}{\"key\":\"a\",\"event\":2}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\",\n\"event\":1}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\",\"event\":\"\xff\"}", 400, "bad_line"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"\",\"event\":1}", 400, "empty_key"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"a\\nb\",\"event\":1}", 400, "bad_key"),
    ("POST", "/v1/publish", &[], b"{\"key\":\"12345678901\",\"event\":1}", 400, "key_too_long"),
    (
        "POST",
        "/v1/publish",
        &[],
        b"{\"key\":\"a\",\"event\":1}\n{\"key\":\"a\",\"event\":2}\n{\"key\":\"a\",\"event\":3}",
        413,
        "too_many_lines",
    ),
    // Listing.
    ("GET", "/v1/keys?top=0", &[], b"", 400, "bad_top"),
    ("GET", "/v1/keys?top=1001", &[], b"", 400, "bad_top"),
    ("GET", "/v1/keys?top=-1", &[], b"", 400, "bad_top"),
    ("GET", "/v1/keys?limit=1", &[], b"", 400, "unknown_parameter"),
];

#[tokio::test]
async fn bad_input_gets_the_status_and_code_of_the_table() {
    let limits =
        ["--max-body=1000", "--max-key-bytes=10", "--max-stream-keys=3", "--max-stream-patterns=2", "--max-batch-lines=2"];
    let server = Server::start(&limits).await;
    for (method, path, headers, body, status, code) in TABLE {
        let mut request = server.client.request(Method::from_bytes(method.as_bytes()).unwrap(), server.at(path));
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.body(*body);
        }
        let response = in_time(request.send()).await.unwrap();
        assert_eq!(response.status(), *status, "{method} {path}");
        if *status == 405 {
            assert!(response.headers().contains_key("allow"), "{method} {path}");
        }
        let error = json(response).await;
        assert_eq!(error["error"]["code"], *code, "{method} {path}: {error}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(server.metric("tier1_events_published_total").await, 0.0, "something of the table was published");
    assert_eq!(server.metric("tier1_streams_opened_total{protocol=\"sse\"}").await, 0.0);
}

#[tokio::test]
async fn limits_let_through_what_just_fits() {
    let server = Server::start(&["--max-body", "1000", "--max-key-bytes", "10", "--max-stream-keys", "3"]).await;
    let mut stream = server.stream("/v1/stream?key=1234567890&key=b&key=c").await;
    server.publish("1234567890", vec![b'x'; 1000]).await;
    assert_eq!(stream.event().await["text"].as_str().unwrap().len(), 1000);
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_still_gets_its_answer() {
    let server = Server::start(&["--max-body", "1000"]).await;
    let http2 = http2_client();
    for client in [&server.client, &http2] {
        for size in [1001, 100_000, 3_000_000] {
            let response = in_time(client.post(server.at("/v1/keys/a")).body(vec![b'x'; size]).send()).await.unwrap();
            assert_eq!(response.status(), 413);
            assert_eq!(json(response).await["error"]["code"], "body_too_large");
        }
    }
    let asking =
        b"POST /v1/keys/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 5000\r\n\r\n";
    assert!(raw(&server, asking).await.starts_with("HTTP/1.1 413 "));
    assert_eq!(server.metric("tier1_events_published_total").await, 0.0);
}

/// Sends bytes as they are; returns all that comes back until the server closes.
async fn raw(server: &Server, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    in_time(socket.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_408() {
    let server = Server::start(&["--body-timeout", "300ms"]).await;
    let answer = raw(&server, b"POST /v1/keys/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\nabc").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    assert_eq!(server.metric("tier1_events_published_total").await, 0.0);
}

#[tokio::test]
async fn what_is_no_http_is_answered_or_closed_and_harms_nobody() {
    let server = Server::start(&["--header-timeout", "500ms"]).await;
    assert!(
        raw(&server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client hello\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400 ")
    );
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000));
    let answer = raw(&server, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let answer = raw(&server, format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // The one wildcard that a URL does not take as it stands.
    assert!(raw(&server, b"GET /v1/stream?match=a.> HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    // Nothing, the first letters of HTTP/2, half a head: each is closed in time.
    for beginning in [&b""[..], b"PRI", b"PRI * HTTP/2.0\r\n\r\n", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"] {
        let answer = raw(&server, beginning).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{beginning:?}: {answer}");
    }
    assert_eq!(server.get("/livez").await.status(), 200);
}
