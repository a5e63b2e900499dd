//! Commands end with the node that started them, also when it is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

/// The binary as the companion of a command.
fn companion(words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_steadfast"))
        .arg("run-with-lifeline")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn message(input: &[u8]) -> Vec<u8> {
    let length = u64::try_from(input.len()).unwrap();
    [&length.to_be_bytes(), input].concat()
}

/// Its end, with its lifeline held until then.
fn end_of(words: &[&str], input: &[u8]) -> Output {
    let mut child = companion(words);
    let mut lifeline = child.stdin.take().unwrap();
    lifeline.write_all(&message(input)).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(lifeline);
    output
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

#[test]
fn a_companion_is_for_its_starter_what_the_command_would_be() {
    let long = "x".repeat(300_000);
    let cases = [
        ("cat; exit 3", long.as_str(), 3, long.as_str()),
        ("cat >&2", "seen", 0, ""),
        ("exec <&-; echo deaf", long.as_str(), 0, "deaf\n"),
        ("kill -KILL $$", "", 137, ""),
        ("exit 127", "", 127, ""),
    ];
    for (script, input, code, stdout) in cases {
        let output = end_of(&["bash", "-c", script], input.as_bytes());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(code), stdout));
        assert!(!output.stderr.starts_with(b"\0"), "{script}");
    }
    let output = end_of(&["/no/such/program"], b"");
    assert_eq!(output.status.code(), Some(127));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("\0not started: No such file"), "{told}");
}

#[test]
fn a_polite_signal_is_the_commands_to_answer() {
    let script = "trap 'echo polite; exit 5' TERM; echo up; sleep 1000 & wait";
    let mut child = companion(&["bash", "-c", script]);
    let mut lifeline = child.stdin.take().unwrap();
    lifeline.write_all(&message(b"")).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    kill_process_group(pid(&child), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "polite");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_cut_lifeline_ends_the_whole_group_or_starts_nothing() {
    let mut child = companion(&["bash", "-c", "sleep 1000 & echo up; trap '' TERM; wait"]);
    let mut lifeline = child.stdin.take().unwrap();
    lifeline.write_all(&message(b"")).unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(lifeline);
    // It ends when the last process that holds the pipe is gone.
    stdout.read_to_string(&mut line).unwrap();
    assert_eq!(line, "up\n");
    assert_eq!(child.wait().unwrap().signal(), Some(9));

    let mut child = companion(&["bash", "-c", "echo up"]);
    let half = &message(b"input")[..10];
    child.stdin.take().unwrap().write_all(half).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.success(), output.stdout), (false, vec![]));
}

/// `steadfast serve` with a command tool `stay`.
struct Serve {
    child: Child,
    url: String,
}

impl Serve {
    fn start(directory: &std::path::Path, script: &str) -> Self {
        let config = json!({
            "node": { "listen": "127.0.0.1:0" },
            "store": { "path": directory.join("data") },
            "telemetry": { "log_format": "json" },
            "providers": { "p": { "kind": "scripted" } },
            "agents": { "a": { "model": "p/m", "tools": [{
                "name": "stay", "description": "Stays",
                "command": { "program": "bash", "args": ["-c", script] },
            }] } },
        });
        let file = directory.join("node.toml");
        std::fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_steadfast"))
            .args(["serve", "--config", file.to_str().unwrap()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.map_while(Result::ok).find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            Some(line["address"].as_str()?.to_owned())
        });
        let url = format!("http://{}", address.unwrap());
        Self { child, url }
    }
}

#[tokio::test]
async fn a_command_is_gone_within_a_second_of_its_node() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Whoever is left holds the connection open: the command, and what it started.
    let script = format!(
        "trap '' TERM; exec 3<>/dev/tcp/127.0.0.1/{port}; echo up >&3; sleep 1000 & sleep 1000"
    );
    let mut serve = Serve::start(directory.path(), &script);
    let script = r#"SCRIPT: [{"tool": "stay", "input": {}}, {"text": "done"}]"#;
    let body = json!({ "id": "m1", "agent": "a", "content": script });
    let sent = reqwest::Client::new()
        .post(format!("{}/v1/sessions/s1/messages", serve.url))
        .json(&body)
        .send();
    assert_eq!(sent.await.unwrap().status(), 202);
    let (mut connection, _) = listener.accept().unwrap();
    let mut up = [0; 3];
    connection.read_exact(&mut up).unwrap();
    let killed = Instant::now();
    kill_process(pid(&serve.child), Signal::KILL).unwrap();
    serve.child.wait().unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // A killed process ends the connection, politely or not.
    let left = connection.read(&mut up);
    assert!(matches!(left, Ok(0) | Err(_)), "{left:?}");
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(1), "it was gone after {took:?}");
}
