//! Bytes of one session's record go bad on the disk: that session says so, the others are served.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::product::Product;

const AGENTS: &str = "[providers.scripted]\nkind = \"scripted\"\n\
    [agents.a]\nmodel = \"scripted/demo\"\n";

/// Stands in one message of one session and nowhere else.
const MARK: &str = "a-sentence-that-rots-on-the-disk";

/// Makes each copy of the mark unreadable, as UTF-8 and so as a record; how many there were.
fn rot(file: &Path) -> usize {
    let mut bytes = std::fs::read(file).unwrap();
    let mut found = 0;
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + MARK.len()) {
        if window == MARK.as_bytes() {
            bytes[at..at + MARK.len()].fill(0xff);
            found += 1;
        }
        at += 1;
    }
    std::fs::write(file, bytes).unwrap();
    found
}

async fn turn(client: &Client, session: &str, id: &str, text: &str) {
    let body = json!({ "id": id, "agent": "a", "content": text });
    let path = format!("/v1/sessions/{session}/messages?wait=30s");
    assert_eq!(client.post(&path, &body).await.ok()["state"], "completed");
}

#[tokio::test]
async fn a_damaged_session_says_so_everywhere_and_the_others_go_on() {
    let mut product = Product::start(AGENTS).await;
    let client = product.client();
    for session in ["before", "bad", "the-other"] {
        turn(&client, session, "m1", "hello").await;
    }
    turn(&client, "bad", "m2", MARK).await;
    turn(&client, "bad", "m3", "hello").await;
    assert_eq!(product.terminate().await.code(), Some(0));
    assert!(rot(&product.folder().join("data/store.redb")) > 0);
    product.start_again().await;

    let message = json!({ "id": "m4", "agent": "a", "content": "hello" });
    let again = json!({ "id": "m1", "agent": "a", "content": "hello" });
    let nothing = json!({});
    let asked: [(Method, &str, Option<&Value>); 8] = [
        (Method::PUT, "", Some(&json!({ "agent": "a" }))),
        (Method::GET, "/messages/m1", None),
        (Method::POST, "/messages", Some(&message)),
        (Method::POST, "/messages", Some(&again)),
        (Method::POST, "/cancel", Some(&nothing)),
        (Method::POST, "/fork", Some(&nothing)),
        (Method::GET, "/events", None),
        (Method::GET, "/why", None),
    ];
    for (method, path, body) in asked {
        let path = format!("/v1/sessions/bad{path}");
        let answer = client.send(method.clone(), &path, body).await.unwrap();
        let found = (answer.status.as_u16(), answer.code());
        assert_eq!(
            found,
            (409, Some("session_quarantined")),
            "{method} {path}: {}",
            answer.body
        );
    }
    // What stands before the damage is shown, as that.
    let session = client.get("/v1/sessions/bad").await.ok();
    assert_eq!(session["status"], "quarantined", "{session}");
    assert!(session["quarantine"].is_string(), "{session}");
    let messages = client.get("/v1/sessions/bad/messages").await.ok();
    let shown = messages["messages"].to_string();
    assert!(shown.contains("m1") && !shown.contains("m3"), "{shown}");
    // The log is read without the state: what stands before the damage is still told.
    let log = client.get("/v1/sessions/bad/log?limit=1000").await;
    assert!(
        log.code() == Some("session_quarantined") || log.status.is_success(),
        "{}",
        log.body
    );
    assert!(!log.status.is_server_error(), "{}", log.body);

    let list = client.get("/v1/sessions?status=quarantined").await.ok();
    let listed: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["id"])
        .collect();
    assert_eq!(listed, ["bad"], "{list}");

    for session in ["before", "the-other"] {
        turn(&client, session, "m2", "hello").await;
        client
            .get(&format!("/v1/sessions/{session}/messages"))
            .await
            .ok();
    }
    repair(&client, session["seq"].as_u64().unwrap()).await;

    let log = product.log();
    assert!(!log.contains("panicked"), "{log}");
    // A session of which nothing can be read is no reason to end in another way.
    assert_eq!(product.terminate().await.code(), Some(0));
}

/// Ends the quarantine; the session then goes on, and knows what stood beside the damage.
async fn repair(client: &Client, readable: u64) {
    let body = json!({ "action": "unquarantine" });
    let path = "/v1/sessions/bad/repair";
    let damage = client.get(path).await.ok();
    assert_eq!(damage["readable_through"], readable, "{damage}");
    let rows = damage["rows"].as_array().unwrap();
    let states: Vec<_> = rows.iter().map(|row| &row["state"]).collect();
    assert_eq!(states[0], "damaged", "{damage}");
    assert!(states.contains(&&json!("readable")), "{damage}");
    assert_eq!(rows[0]["first_seq"], readable + 1, "{damage}");
    let repaired = client.post(path, &body).await.ok();
    assert_eq!(repaired["lost"]["after"], readable, "{repaired}");
    let again = client.post(path, &body).await;
    assert_eq!(again.code(), Some("session_not_quarantined"), "{again:?}");
    let whole = client.get(path).await;
    assert_eq!(whole.code(), Some("session_not_quarantined"), "{whole:?}");
    // What was answered before and after the damage is still known; in it, it is not.
    for (message, known) in [("m1", true), ("m2", false), ("m3", true)] {
        let receipt = client
            .get(&format!("/v1/sessions/bad/messages/{message}"))
            .await;
        assert_eq!(receipt.status.is_success(), known, "{message}: {receipt:?}");
    }
    turn(client, "bad", "m4", "hello").await;
    let session = client.get("/v1/sessions/bad").await.ok();
    assert_eq!(session["status"], "idle", "{session}");
    let before = &repaired["lost"]["before"];
    assert!(session["seq"].as_u64() > before.as_u64(), "{session}");
    let log = client.get("/v1/sessions/bad/log?limit=1000").await.ok();
    assert!(log.to_string().contains("log_repaired") && log["unreadable"].is_null());
    let events = client.get("/v1/sessions/bad/events?follow=false").await;
    assert!(events.status.is_success(), "{events:?}");
}
