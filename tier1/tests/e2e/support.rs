//! A server process and a client for it.

use std::{
    collections::VecDeque,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::reference::{Message, Parser};

/// The longest that anything may take. Reached only by a test that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, with an environment that says nothing.
pub(crate) fn tier1(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tier1"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIER1_")) {
        command.env_remove(name);
    }
    command.args(args).env("TIER1_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// A running server, ended with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts one on a free port, without a replay.
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::start_as_is(&[&["--listen", "127.0.0.1:0", "--no-replay"], args].concat()).await
    }

    /// Starts one with just these arguments; its URL must stand in the first line it prints.
    pub(crate) async fn start_as_is(args: &[&str]) -> Self {
        let mut child = tier1(args).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = in_time(lines.next_line()).await.unwrap().expect("the server printed nothing");
        let url = first[first.find("http://").expect("no URL in the first line")..].to_owned();
        Self { child, url, client: client(), lines }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        in_time(self.client.get(self.at(path)).send()).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        in_time(self.client.post(self.at(path)).body(body).send()).await.unwrap()
    }

    /// Publishes to a key as it stands in a path; returns the position.
    pub(crate) async fn publish(&self, key: &str, body: impl Into<reqwest::Body>) -> String {
        let response = self.post(&format!("/v1/keys/{key}"), body).await;
        assert_eq!(response.status(), StatusCode::OK, "{key}");
        json(response).await["position"].as_str().unwrap().to_owned()
    }

    /// Publishes numbered events to a key, in batches.
    pub(crate) async fn publish_numbers(&self, key: &str, numbers: std::ops::Range<u64>) {
        for from in numbers.clone().step_by(1000) {
            let to = numbers.end.min(from + 1000);
            let lines: String = (from..to).map(|n| format!("{{\"key\":\"{key}\",\"event\":{n}}}\n")).collect();
            assert_eq!(self.post("/v1/publish", lines).await.status(), StatusCode::OK);
        }
    }

    pub(crate) async fn stream(&self, path: &str) -> EventStream {
        EventStream::open(&self.client, &self.at(path), None).await
    }

    pub(crate) async fn resume(&self, path: &str, last_event_id: &str) -> EventStream {
        EventStream::open(&self.client, &self.at(path), Some(last_event_id)).await
    }

    /// A metric's value; 0 if it has not been counted yet.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = in_time(self.get("/metrics").await.text()).await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a metric has a value.
    pub(crate) async fn wait_for_metric(&self, name: &str, wanted: f64) {
        let mut last = f64::NAN;
        for _ in 0..PATIENCE.as_millis() / 50 {
            last = self.metric(name).await;
            if last == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is {last} and not {wanted}");
    }

    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("the server has ended").to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().await.unwrap().success());
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        in_time(self.child.wait()).await.unwrap()
    }
}

/// A client that keeps no connection back for later: a test that counts connections counts only its own.
pub(crate) fn client() -> Client {
    Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap()
}

/// A client that speaks HTTP/2, all requests on one connection.
pub(crate) fn http2_client() -> Client {
    Client::builder().http2_prior_knowledge().no_proxy().build().unwrap()
}

pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing happened for a long time")
}

pub(crate) async fn json(response: Response) -> Value {
    assert_eq!(response.headers()["content-type"], "application/json");
    serde_json::from_str(&in_time(response.text()).await.unwrap()).unwrap()
}

/// The whole of what a process writes to standard error.
pub(crate) async fn stderr_of(args: &[&str]) -> (ExitStatus, String) {
    let mut child = tier1(args).stderr(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    in_time(child.stderr.take().unwrap().read_to_string(&mut text)).await.unwrap();
    (in_time(child.wait()).await.unwrap(), text)
}

/// An open event stream.
pub(crate) struct EventStream {
    response: Response,
    bytes: Vec<u8>,
    messages: VecDeque<Message>,
    /// What the client knows besides messages.
    pub(crate) parser: Parser,
    /// All that came, as text.
    pub(crate) raw: String,
}

impl EventStream {
    pub(crate) async fn open(client: &Client, url: &str, last_event_id: Option<&str>) -> Self {
        let mut request = client.get(url);
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        let response = in_time(request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{url}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert!(!response.headers().contains_key("content-length"));
        Self { response, bytes: Vec::new(), messages: VecDeque::new(), parser: Parser::default(), raw: String::new() }
    }

    /// Takes the next bytes; false at the end.
    pub(crate) async fn read_more(&mut self) -> bool {
        let Some(chunk) = in_time(self.response.chunk()).await.unwrap() else { return false };
        self.bytes.extend_from_slice(&chunk);
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let piece = String::from_utf8(self.bytes.drain(..whole).collect()).unwrap();
        self.raw.push_str(&piece);
        self.messages.extend(self.parser.feed(&piece));
        true
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        while self.messages.is_empty() {
            if !self.read_more().await {
                return None;
            }
        }
        self.messages.pop_front()
    }

    /// The next message, which there must be.
    pub(crate) async fn message(&mut self) -> Message {
        self.next().await.expect("the stream has ended")
    }

    /// The data of the next message, which must be an event and JSON.
    pub(crate) async fn event(&mut self) -> Value {
        let message = self.message().await;
        assert_eq!(message.event, "message", "{message:?}");
        serde_json::from_str(&message.data).unwrap()
    }
}

/// The number in a position.
pub(crate) fn seq(position: &str) -> u64 {
    position.parse::<keywake::Position>().unwrap().seq()
}
