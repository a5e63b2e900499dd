//! Exit codes and words of the binary.

use std::process::{Command, Output};

fn steadfast(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steadfast"))
        .args(args)
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap()
}

fn words(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn a_wrong_configuration_ends_with_code_2_and_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.toml");
    std::fs::write(&file, "[node]\nlisen = \"127.0.0.1:1\"\n").unwrap();
    let (code, text) = words(&steadfast(&["serve", "--config", file.to_str().unwrap()]));
    assert_eq!(code, Some(2));
    assert!(text.contains("did you mean `listen`?"), "{text}");
    assert!(text.contains("node.toml:2:1"), "{text}");
}

#[test]
fn wrong_usage_ends_with_code_2() {
    assert_eq!(steadfast(&["serve"]).status.code(), Some(2));
    assert_eq!(steadfast(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn a_node_that_is_not_there_ends_with_code_1_and_a_remedy() {
    let (code, text) = words(&steadfast(&[
        "sessions",
        "list",
        "--url",
        "http://127.0.0.1:9",
    ]));
    assert_eq!(code, Some(1));
    assert!(text.contains("start one with `steadfast dev`"), "{text}");
}

#[test]
fn a_port_that_is_taken_is_named_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = format!("store.path={}", directory.path().display());
    let (code, text) = words(&steadfast(&[
        "dev",
        "--listen",
        &address.to_string(),
        "--set",
        &store,
    ]));
    assert_eq!(code, Some(1));
    assert!(
        text.contains(&format!("port {} is taken", address.port())),
        "{text}"
    );
    assert!(text.contains("--listen 127.0.0.1:0"), "{text}");
}

#[test]
fn schemas_are_json() {
    let output = steadfast(&["schema", "config"]);
    assert!(output.status.success());
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        schema["properties"]["node"]["properties"]["listen"]["default"],
        "127.0.0.1:7070"
    );
}
