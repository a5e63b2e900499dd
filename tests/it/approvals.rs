//! What waits for a person's decision: listed over all sessions, after any crash, and decided from
//! the command line.

use serde_json::{Value, json};
use steadfast_tests::product::Product;
use steadfast_tests::product::process::run;

const AGENTS: &str = r#"
[providers.scripted]
kind = "scripted"
[agents.a]
model = "scripted/demo"
[[agents.a.tools]]
name = "pay"
description = "Pays"
client = true
approval = "user-approval"
[agents.b]
model = "scripted/demo"
[[agents.b.tools]]
name = "pay"
description = "Pays"
client = true
approval = "user-approval"
"#;

/// Has a session of an agent ask for an approval.
async fn ask(product: &Product, session: &str, agent: &str) {
    let script = json!([{ "tool": "pay", "input": { "to": session } }, { "text": "done" }]);
    let text = format!("SCRIPT: {script}");
    let client = product.client();
    client.message(session, agent, "m1", &text).await.ok();
    // It is answered at once, whatever lists show.
    while client.get(&format!("/v1/sessions/{session}")).await.ok()["status"] != "waiting" {
        tokio::task::yield_now().await;
    }
}

/// What the command says, as JSON.
async fn said(product: &Product, arguments: &[&str]) -> Value {
    let url = product.client().url("");
    let common = ["approvals", "--json", "--url", url.as_str()];
    let output = run(common.iter().chain(arguments)).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sessions that the list shows, once it shows so many.
async fn listed(product: &Product, count: usize, arguments: &[&str]) -> Vec<String> {
    loop {
        let list = said(product, arguments).await;
        let waiting = list["approvals"].as_array().unwrap().clone();
        if waiting.len() == count {
            let session = |item: &Value| item["session"].as_str().unwrap().to_owned();
            return waiting.iter().map(session).collect();
        }
    }
}

#[tokio::test]
async fn what_waits_is_listed_after_a_crash_and_decided_from_the_command_line() {
    let mut product = Product::start(AGENTS).await;
    ask(&product, "s1", "a").await;
    ask(&product, "s2", "b").await;
    ask(&product, "s3", "a").await;
    // Most likely before the directory was told of the last one.
    product.crash().await;
    assert_eq!(listed(&product, 3, &["list"]).await, ["s1", "s2", "s3"]);
    let of_a = listed(&product, 2, &["list", "--agent", "a"]).await;
    assert_eq!(of_a, ["s1", "s3"]);

    let list = said(&product, &["list", "--agent", "b"]).await;
    let item = &list["approvals"][0];
    let approval = item["approval_id"].as_str().unwrap();
    assert_eq!(item["input"], json!({ "to": "s2" }));
    said(&product, &["approve", "s2", approval, "--reason", "fine"]).await;
    said(&product, &["deny", "s1"]).await;
    let client = product.client();
    let receipt = client.get("/v1/sessions/s1/messages/m1?wait=30s").await;
    assert_eq!(receipt.ok()["state"], "completed");
    assert_eq!(listed(&product, 1, &["list"]).await, ["s3"]);
}
