//! A signal to stop, in the middle of a turn whose tool runs.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::events::{EventClient, Frame};
use steadfast_tests::product::Product;

/// An agent with a program that says that it began, and ends when it may.
fn agents(folder: &std::path::Path) -> String {
    let (began, go) = (folder.join("began"), folder.join("go"));
    // It never outlives the test.
    let script = format!(
        "cat >/dev/null; echo x >> {began:?}; while [ -d {folder:?} ] && [ ! -e {go:?} ]; do sleep 0.05; done; echo done"
    );
    format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.a]\nmodel = \"scripted/demo\"\n\
         [[agents.a.tools]]\nname = \"work\"\ndescription = \"Works\"\nreplay = \"never\"\n\
         command = {{ program = \"/bin/sh\", args = [\"-c\", {script:?}] }}\n"
    )
}

const TURN: &str = r#"SCRIPT: [{"tool": "work", "input": {}}, {"text": "all done"}]"#;

async fn until_there(path: &std::path::Path) {
    let wait = async {
        while !path.exists() {
            // Another process gives no other sign than its file.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(45), wait).await;
    assert!(waited.is_ok(), "{} never came", path.display());
}

fn is_end(frame: &Frame) -> bool {
    frame.event == "turn_ended"
}

/// Kinds of the events of a session, once its turn has ended.
async fn kinds(client: &Client) -> (Vec<String>, Value) {
    let events = EventClient::follow(client, "s1");
    let end = events.wait_for("turn_ended", is_end).await;
    let committed = events
        .frames()
        .into_iter()
        .filter(|frame| frame.id.is_some());
    let kinds = committed.map(|frame| frame.event).collect();
    (kinds, end.data["outcome"].clone())
}

/// A node that was told to stop while its tool runs, and says so before the tool may end.
async fn told_to_stop(folder: &std::path::Path) -> Product {
    let product = Product::start(&agents(folder)).await;
    let client = product.client();
    client.message("s1", "a", "m1", TURN).await.ok();
    until_there(&folder.join("began")).await;
    product.signal(Signal::TERM);
    let draining = async {
        while client.is_ready().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let drains = tokio::time::timeout(Duration::from_secs(20), draining).await;
    drains.unwrap();
    product
}

#[tokio::test]
async fn a_running_tool_may_end_and_the_turn_goes_on_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut product = told_to_stop(folder.path()).await;
    let client = product.client();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let status = product.wait_ended().await;
    assert_eq!(status.code(), Some(0), "{}", product.log());

    product.start_again().await;
    let (kinds, outcome) = kinds(&client).await;
    assert_eq!(outcome["type"], "completed", "{kinds:?}");
    for (kind, times) in [
        ("turn_crashed", 0),
        ("call_started", 1),
        ("call_settled", 1),
        ("released", 1),
        ("turn_ended", 1),
    ] {
        let found = kinds.iter().filter(|found| *found == kind).count();
        assert_eq!(found, times, "{kind} in {kinds:?}");
    }
    let ran = std::fs::read_to_string(folder.path().join("began")).unwrap();
    assert_eq!(ran, "x\n");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut product = told_to_stop(folder.path()).await;
    let client = product.client();
    let began = Instant::now();
    product.signal(Signal::TERM);
    product.wait_ended().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{}",
        product.log()
    );

    // Nobody knows how the call ended, and it is not run again.
    product.start_again().await;
    let (kinds, outcome) = kinds(&client).await;
    assert_eq!(outcome["type"], "completed", "{kinds:?}");
    let ran = std::fs::read_to_string(folder.path().join("began")).unwrap();
    assert_eq!(ran, "x\n");
    let settled = client.get("/v1/sessions/s1/log?limit=1000").await.ok();
    assert!(settled.to_string().contains("in_doubt"), "{settled}");
    let next = json!({ "id": "m2", "content": "hello" });
    let path = "/v1/sessions/s1/messages?wait=30s";
    assert_eq!(client.post(path, &next).await.ok()["state"], "completed");
}
