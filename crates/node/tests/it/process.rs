//! The binary as a process: what it prints, how it ends, where its traces go.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// `steadfast dev` on a free port.
struct Dev {
    child: Child,
    url: String,
}

impl Dev {
    fn start(data: &Path, set: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command
            .args(["dev", "--listen", "127.0.0.1:0", "--model", "scripted/demo"])
            .args(["--set", &format!("store.path={}", data.display())])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        for option in set {
            command.args(["--set", option]);
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("is running at ")?.1.trim().to_owned()));
        let url = url.unwrap_or_else(|| panic!("the node said no address: {:?}", child.wait()));
        Self { child, url }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

async fn say(url: &str, query: &str, content: &str) -> Value {
    let http = reqwest::Client::new();
    let body = json!({ "id": "m1", "agent": "demo", "content": content });
    let path = format!("{url}/v1/sessions/s1/messages{query}");
    http.post(path)
        .json(&body)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_signal_lets_the_running_call_end_and_the_next_start_goes_on() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let script = r#"SCRIPT: [{"tool": "write_report", "input": {"topic": "x", "seconds": 1}}, {"text": "done"}]"#;
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(say(&dev.url, "", script).await["state"], "running");
    dev.signal(Signal::TERM);
    assert_eq!(dev.wait().code(), Some(0));

    let dev = Dev::start(data.path(), &[]);
    let answer = say(&dev.url, "?wait=60s", script).await;
    assert_eq!(answer["state"], "completed", "{answer}");
    let log: Value = reqwest::get(format!("{}/v1/sessions/s1/log", dev.url))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(
        !log.to_string().contains("turn_crashed"),
        "an orderly end is no crash: {log}"
    );
    dev.signal(Signal::INT);
    assert_eq!(dev.wait().code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_the_process_without_waiting() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let script = r#"SCRIPT: [{"tool": "write_report", "input": {"topic": "x", "seconds": 100}}]"#;
    let dev = Dev::start(data.path(), &["node.drain_grace=100s".to_owned()]);
    assert_eq!(say(&dev.url, "", script).await["state"], "running");
    dev.signal(Signal::TERM);
    // Readiness ends when the first signal is taken.
    while reqwest::get(format!("{}/readyz", dev.url))
        .await
        .is_ok_and(|answer| answer.status().is_success())
    {
        tokio::task::yield_now().await;
    }
    dev.signal(Signal::TERM);
    assert_eq!(dev.wait().code(), Some(0));
}

#[tokio::test]
async fn traces_reach_the_collector_before_the_process_ends() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!(
        "telemetry.otlp_endpoint=http://{}",
        collector.local_addr().unwrap()
    );
    let (heard, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in collector.incoming().map_while(Result::ok) {
            let Some(request) = take_request(stream) else {
                continue;
            };
            if heard.send(request).is_err() {
                return;
            }
        }
    });
    let dev = Dev::start(data.path(), &[endpoint]);
    say(&dev.url, "?wait=30s", "get_weather in Rome").await;
    dev.signal(Signal::TERM);
    assert_eq!(dev.wait().code(), Some(0));
    let request = requests.recv().unwrap();
    assert!(request.starts_with(b"POST /v1/traces HTTP/1.1"));
    let body = String::from_utf8_lossy(&request).into_owned();
    for part in ["get_weather", "session", "default/s1"] {
        assert!(body.contains(part), "{part} is missing in the first export");
    }
}

/// Reads one request with its body and answers it.
fn take_request(mut stream: TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let length = text
            .split("content-length:")
            .nth(1)?
            .lines()
            .next()?
            .trim()
            .parse::<usize>()
            .ok()?;
        if request.len() >= end + 4 + length {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .ok()?;
            return Some(request);
        }
    }
}
