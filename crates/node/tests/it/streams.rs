//! A follower over HTTP sees everything, whenever it comes.

use std::time::Duration;

use serde_json::json;
use steadfast::{Agent, Node};

/// Turns that are followed: each races its own end.
const TURNS: usize = 40;

#[tokio::test]
async fn a_stream_that_opens_while_a_turn_ends_shows_its_end() {
    let data = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .store_path(data.path())
        .listen("127.0.0.1:0".parse().unwrap())
        .agent(Agent::new("demo", "scripted/demo"))
        .start()
        .await
        .unwrap();
    let http = reqwest::Client::new();
    for turn in 0..TURNS {
        let session = format!("{}/v1/sessions/s{turn}", node.url());
        let body =
            json!({ "agent": "demo", "content": "SCRIPT: [{\"text\": \"a b c\", \"chunks\": 3}]" });
        let sent = http
            .post(format!("{session}/messages"))
            .json(&body)
            .send()
            .await
            .unwrap();
        assert!(sent.status().is_success(), "{sent:?}");
        let mut stream = http.get(format!("{session}/events")).send().await.unwrap();
        let mut seen = String::new();
        let read = async {
            while !seen.contains("event: turn_ended") {
                let bytes = stream.chunk().await.unwrap().expect("the stream goes on");
                seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), read).await;
        assert!(ended.is_ok(), "turn {turn} has no end:\n{seen}");
    }
    node.shutdown().await;
}
