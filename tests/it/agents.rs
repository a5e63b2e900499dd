//! Agents as tools of agents: each call is a session of its own, whatever dies meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_nats_server::{NatsServer, Settings};
use steadfast_tests::client::Client;
use steadfast_tests::product::Product;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(90);

const AGENTS: &str = r#"
[providers.scripted]
kind = "scripted"
[agents.lead]
model = "scripted/demo"
[[agents.lead.tools]]
name = "research"
description = "Finds something out"
agent = "researcher"
[agents.researcher]
model = "scripted/demo"
[[agents.researcher.tools]]
name = "pay"
description = "Pays for a source"
client = true
approval = "user-approval"
[[agents.researcher.tools]]
name = "deeper"
description = "Asks another"
agent = "lead"
"#;

fn script(steps: &Value) -> String {
    format!("SCRIPT: {steps}")
}

/// Has the lead ask the researcher to do these steps, and gives the researcher's session.
async fn ask(client: &Client, session: &str, steps: Value) -> String {
    let input = json!({ "message": script(&steps) });
    let lead = json!([{ "tool": "research", "input": input }, { "text": "that is all" }]);
    client
        .message(session, "lead", "m1", &script(&lead))
        .await
        .ok();
    let child = async {
        loop {
            let why = client
                .get(&format!("/v1/sessions/{session}/why"))
                .await
                .ok();
            if let Some(child) = why["children"][0]["session"].as_str() {
                assert_eq!(
                    why["summary"],
                    format!("agent researcher in session {child}")
                );
                return child.to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, child)
        .await
        .expect("no other session was asked")
}

/// Waits until a session is in a state.
async fn until(client: &Client, session: &str, status: &str) -> Value {
    let reached = async {
        loop {
            let shown = client.get(&format!("/v1/sessions/{session}")).await;
            if shown.body["status"] == status {
                return shown.ok();
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, reached)
        .await
        .expect("it is never in that state")
}

async fn ended(client: &Client, session: &str, message: &str) -> Value {
    let path = format!("/v1/sessions/{session}/messages/{message}?wait=60s");
    client.get(&path).await.ok()
}

/// All events of a kind in a session's log.
async fn events(client: &Client, session: &str, kind: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/log?limit=500");
    let log = client.get(&path).await.ok();
    let records = log["records"].as_array().unwrap().iter();
    let entries = records.flat_map(|record| record["entries"].as_array().unwrap());
    let events = entries.flat_map(|entry| entry["events"].as_array().unwrap());
    events
        .filter(|event| event["type"] == kind)
        .cloned()
        .collect()
}

fn output(settled: &Value) -> &Value {
    &settled["output"]["output"]["inline"]
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_waits_and_works_answers_once() {
    let mut product = Product::start(AGENTS).await;
    let client = product.client();
    let steps = json!([
        { "text": "a b c", "chunks": 3, "delay": 1, "tool": "pay", "input": { "sum": 3 } },
        { "text": "the answer is 42" },
    ]);
    let child = ask(&client, "s1", steps).await;
    // While its model speaks.
    product.crash().await;
    let client = product.client();
    let waiting = until(&client, &child, "waiting").await;
    let parent = json!({ "session": "s1", "call_id": waiting["parent"]["call_id"] });
    assert_eq!(waiting["parent"], parent);
    // While it waits for a person.
    product.crash().await;
    let client = product.client();
    assert_eq!(until(&client, "s1", "running").await["waiting"], json!([]));
    let inbox = async {
        loop {
            let list = client.get("/v1/approvals").await.ok();
            if let Some(one) = list["approvals"].get(0) {
                return one.clone();
            }
        }
    };
    let one = timeout(PATIENCE, inbox)
        .await
        .expect("nothing is in the inbox");
    assert_eq!(
        (&one["session"], &one["parent"]),
        (&json!(child), &json!("s1"))
    );
    let path = one["answer_path"].as_str().unwrap();
    client.post(path, &json!({ "approved": true })).await.ok();
    let call = one["call_id"].as_str().unwrap();
    let result = format!("/v1/sessions/{child}/calls/{call}/result");
    client
        .post(&result, &json!({ "output": "paid" }))
        .await
        .ok();

    let receipt = ended(&client, "s1", "m1").await;
    assert_eq!(
        (&receipt["state"], &receipt["text"]),
        (&json!("completed"), &json!("that is all"))
    );
    let settled = events(&client, "s1", "call_settled").await;
    assert_eq!(settled.len(), 1);
    assert_eq!(
        output(&settled[0]),
        &json!({ "type": "text", "text": "the answer is 42" })
    );
    assert_eq!(events(&client, &child, "turn_queued").await.len(), 1);
    assert_eq!(events(&client, &child, "turn_ended").await.len(), 1);
}

#[tokio::test]
async fn what_ends_the_turn_above_ends_the_one_below_over_a_crash() {
    let mut product = Product::start(AGENTS).await;
    let client = product.client();
    let child = ask(&client, "s1", json!([{ "tool": "pay", "input": {} }])).await;
    until(&client, &child, "waiting").await;
    client.post("/v1/sessions/s1/cancel", &json!({})).await.ok();
    product.crash().await;
    let client = product.client();
    let idle = until(&client, &child, "idle").await;
    assert_eq!(idle["last_turn"]["state"], "cancelled");
    assert_eq!(ended(&client, "s1", "m1").await["state"], "cancelled");
    // The next turn of the one above asks another session.
    let second = json!([{ "tool": "research", "input": { "message": "hello" } }, { "text": "so" }]);
    client
        .message("s1", "lead", "m2", &script(&second))
        .await
        .ok();
    assert_eq!(ended(&client, "s1", "m2").await["text"], "so");
}

#[tokio::test]
async fn agents_ask_agents_only_so_deep() {
    let product = Product::start(&format!("[tools]\nagent_depth_max = 1\n{AGENTS}")).await;
    let client = product.client();
    let steps = json!([
        { "tool": "deeper", "input": { "message": "hello" } },
        { "text": "it was refused" },
    ]);
    let child = ask(&client, "s1", steps).await;
    assert_eq!(ended(&client, "s1", "m1").await["state"], "completed");
    let settled = events(&client, &child, "call_settled").await;
    let words = output(&settled[0])["text"].as_str().unwrap();
    assert!(words.contains("at most 1 deep"), "{words}");
}

#[tokio::test]
async fn either_node_may_die_while_an_agent_asks_another() {
    let server = NatsServer::start(Settings::default());
    let store = format!(
        "[store]\nkind = \"nats\"\n[store.nats]\nurl = {:?}\nmonitor_url = {:?}\n\
         replicas = 1\npartitions = 2\n",
        server.url(),
        server.monitor_url(),
    );
    let mut first = Product::prepare_named("n1", &store, AGENTS);
    let mut second = Product::prepare_named("n2", &store, AGENTS);
    first.start_again().await;
    second.start_again().await;
    let steps = json!([{ "tool": "pay", "input": {} }, { "text": "found" }]);
    let child = ask(&first.client(), "s1", steps).await;
    until(&first.client(), &child, "waiting").await;
    first.kill().await;
    // Both sessions go on at the other node.
    let client = second.client();
    let waiting = until(&client, &child, "waiting").await;
    let approval = waiting["waiting"][0]["approval"].as_str().unwrap();
    let path = format!("/v1/sessions/{child}/approvals/{approval}");
    client.post(&path, &json!({ "approved": false })).await.ok();
    assert_eq!(ended(&client, "s1", "m1").await["text"], "that is all");
    let settled = events(&client, "s1", "call_settled").await;
    assert_eq!(settled.len(), 1);
    assert_eq!(
        output(&settled[0]),
        &json!({ "type": "text", "text": "found" })
    );
}
