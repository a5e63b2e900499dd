//! Client commands against a node that runs in this process, and the tour, which runs its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steadfast::{Agent, Node, RunningNode};

async fn node(data: &Path) -> RunningNode {
    Node::builder()
        .store_path(data)
        .listen("127.0.0.1:0".parse().unwrap())
        .agent(Agent::new("demo", "scripted/demo").tool(steadfast::tools::demo::tools().remove(3)))
        .start()
        .await
        .unwrap()
}

/// Runs a client command with this standard input, on a thread of its own.
async fn steadfast(url: &str, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command
        .args(args)
        .env("STEADFAST_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let output: Output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    })
    .await
    .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn a_chat_on_a_pipe_asks_for_approval_and_can_be_resumed() {
    let data = tempfile::tempdir().unwrap();
    let node = node(data.path()).await;
    let input = "refund_order 500 of \"A-17\"\nn too much\nhello\n/quit\n";
    let (code, text) = steadfast(&node.url(), &["chat", "demo"], input).await;
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "▸ refund_order {\"amount_cents\":500,\"order\":\"A-17\"}",
        "denied: too much",
        "✗ refund_order did not run",
        "I am the scripted model",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colours on a pipe:\n{text}");

    let session = text.split("--session ").nth(1).unwrap().trim();
    let (code, text) = steadfast(&node.url(), &["chat", "--session", session], "").await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("› hello"), "{text}");
    node.shutdown().await;
}

#[tokio::test]
async fn sessions_are_listed_shown_exported_and_deleted() {
    let data = tempfile::tempdir().unwrap();
    let node = node(data.path()).await;
    let url = node.url();
    let (_, text) = steadfast(&url, &["chat"], "hello\n").await;
    let id = text.split("--session ").nth(1).unwrap().trim().to_owned();

    let (code, text) = steadfast(&url, &["sessions", "show", &id], "").await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("user\nhello"), "{text}");
    let (_, text) = steadfast(&url, &["sessions", "log", &id], "").await;
    assert!(text.contains("turn_ended"), "{text}");
    let (_, text) = steadfast(&url, &["sessions", "why", &id], "").await;
    assert!(text.contains("no turn is open"), "{text}");
    let (_, text) = steadfast(&url, &["sessions", "export", &id], "").await;
    let whole: Value = serde_json::from_str(&text).unwrap();
    let events = whole["events"].as_array().unwrap();
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());

    let (code, text) = steadfast(&url, &["sessions", "cancel", &id], "").await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("(turn_not_running)"), "{text}");
    let (code, text) = steadfast(&url, &["sessions", "delete", &id], "").await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--yes"), "{text}");
    let (code, text) = steadfast(&url, &["sessions", "delete", &id, "--yes"], "").await;
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = steadfast(&url, &["sessions", "show", &id], "").await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("(session_not_found)"), "{text}");
    node.shutdown().await;
}

#[tokio::test]
async fn the_tour_keeps_its_promises() {
    let (code, text) = steadfast("", &["tour"], "").await;
    assert_eq!(code, Some(0), "{text}");
    let wide: Vec<&str> = text
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert_eq!(wide, Vec::<&str>::new());
}
