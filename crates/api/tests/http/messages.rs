//! Messages: sending, waiting, receipts, the conversation.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use steadfast_api::Options;

use crate::world::World;

#[tokio::test]
async fn a_message_with_an_agent_makes_the_session() {
    let world = World::new().await;
    let body = json!({
        "id": "m1",
        "agent": "demo",
        "content": r#"SCRIPT:[{"text": "hello there", "chunks": 3}]"#,
    });
    let path = "/v1/sessions/s1/messages?wait=30s";
    let done = world.post(path, body.clone()).await.ok(200);
    let turn = done["turn_id"].clone();
    assert_eq!(
        done,
        json!({"message_id": "m1", "state": "completed", "turn_id": turn, "text": "hello there"})
    );
    let again = world.post("/v1/sessions/s1/messages", body).await.ok(200);
    assert_eq!(again["state"], "completed");
    let other = json!({"id": "m1", "agent": "demo", "content": "something else"});
    let other = world.post("/v1/sessions/s1/messages", other).await;
    assert_eq!(other.problem(), (409, "command_conflict"));
    let nobody = json!({"content": "hi"});
    let nobody = world.post("/v1/sessions/none/messages", nobody).await;
    assert_eq!(nobody.problem(), (404, "session_not_found"));
}

#[tokio::test]
async fn without_waiting_the_answer_says_where_the_message_stands() {
    let world = World::new().await;
    world.session("s1").await;
    let running = world.begin("s1", "m1", json!([{"hang": 60}])).await.ok(202);
    assert_eq!(running["state"], "running");
    let first = world
        .begin("s1", "m2", json!([{"text": "two"}]))
        .await
        .ok(202);
    assert_eq!(
        (&first["state"], &first["position"]),
        (&json!("queued"), &json!(1))
    );
    let second = world
        .begin("s1", "m3", json!([{"text": "three"}]))
        .await
        .ok(202);
    assert_eq!(second["position"], 2);
    let session = world.get("/v1/sessions/s1").await.ok(200);
    assert_eq!(
        (&session["status"], &session["queue_length"]),
        (&json!("running"), &json!(2))
    );
    let short = world.post(
        "/v1/sessions/s1/messages?wait=50ms",
        json!({"id": "m4", "content": "x"}),
    );
    assert_eq!(short.await.ok(202)["state"], "queued");
    let withdrawn = world.delete("/v1/sessions/s1/messages/m2").await.ok(200);
    assert_eq!(withdrawn["state"], "done");
    let receipt = world.get("/v1/sessions/s1/messages/m2").await.ok(200);
    assert_eq!(receipt["state"], "cancelled");
    let late = world.delete("/v1/sessions/s1/messages/m1").await;
    assert_eq!(late.problem(), (409, "message_not_queued"));
    let unknown = world.delete("/v1/sessions/s1/messages/none").await;
    assert_eq!(unknown.problem(), (404, "message_not_found"));
    let unknown = world.get("/v1/sessions/s1/messages/none").await;
    assert_eq!(unknown.problem(), (404, "message_not_found"));
    world
        .post("/v1/sessions/s1/cancel", json!({}))
        .await
        .ok(200);
    let done = world
        .get("/v1/sessions/s1/messages/m3?wait=30s")
        .await
        .ok(200);
    assert_eq!(
        (&done["state"], &done["text"]),
        (&json!("completed"), &json!("three"))
    );
    let first = world.get("/v1/sessions/s1/messages/m1").await.ok(200);
    assert_eq!(first["state"], "cancelled");
}

#[tokio::test]
async fn a_busy_session_refuses_when_asked_to_or_when_full() {
    let world = World::new().await;
    let send = |id: &str, when_busy: &str| {
        let body = json!({
            "id": id, "agent": "short", "when_busy": when_busy, "content": "SCRIPT:[{\"hang\": 60}]",
        });
        world.post("/v1/sessions/s1/messages", body)
    };
    send("m1", "queue").await.ok(202);
    assert_eq!(send("m2", "reject").await.problem(), (409, "turn_running"));
    send("m3", "queue").await.ok(202);
    send("m4", "queue").await.ok(202);
    let full = send("m5", "queue").await;
    assert_eq!(full.problem(), (429, "queue_full"));
    assert!(full.headers.contains_key("retry-after"));
    let interrupt = send("m6", "interrupt").await.ok(202);
    assert_eq!(interrupt["state"], "running");
}

#[tokio::test]
async fn a_failed_message_says_why() {
    let world = World::new().await;
    world.session("s1").await;
    let failed = world
        .say("s1", "m1", json!([{"status": 400}]))
        .await
        .ok(200);
    assert_eq!(failed["state"], "failed");
    assert!(failed["error"]["code"].is_string(), "{failed}");
    world
        .say("s1", "m2", json!([{"text": "fine"}]))
        .await
        .ok(200);
    // The error no longer stands in the state.
    let receipt = world.get("/v1/sessions/s1/messages/m1").await.ok(200);
    assert_eq!(receipt["error"], failed["error"]);
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    assert_eq!(list["messages"][0]["error"], failed["error"]);
}

#[tokio::test]
async fn the_conversation_shows_messages_and_calls() {
    let world = World::new().await;
    world.session("s1").await;
    let script = json!([
        {"reasoning": "hm", "text": "let me see", "tool": "get_weather", "input": {"city": "Oslo"}},
        {"text": "sunny"},
    ]);
    world.say("s1", "m1", script).await.ok(200);
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    let messages = list["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    let shown = |index: usize| {
        let message = &messages[index];
        ["id", "role", "state", "index"].map(|field| message[field].clone())
    };
    assert_eq!(
        shown(0),
        [json!("m1"), json!("user"), json!("completed"), json!(0)]
    );
    assert_eq!(
        shown(1)[1..],
        [json!("assistant"), json!("completed"), json!(1)]
    );
    let parts = messages[1]["parts"].as_array().unwrap();
    let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["reasoning", "text", "tool", "text"]);
    let call = parts[2]["call_id"].clone();
    assert_eq!(
        parts[2],
        json!({
            "type": "tool",
            "call_id": call,
            "tool": "get_weather",
            "input": {"city": "Oslo"},
            "state": "settled",
            "settlement": "done",
            "output": {"type": "text", "text": "it is sunny in Oslo"},
        })
    );
    let session = world.get("/v1/sessions/s1").await.ok(200);
    assert!(list["seq"].as_u64() <= session["seq"].as_u64());
}

#[tokio::test]
async fn the_conversation_is_paged() {
    let world = World::new().await;
    world.session("s1").await;
    for index in 0..3 {
        let id = format!("m{index}");
        let script = json!([{"text": format!("answer {index}")}]);
        world.say("s1", &id, script).await.ok(200);
    }
    let page = |query: &str| {
        let path = format!("/v1/sessions/s1/messages?{query}");
        let world = &world;
        async move {
            let list = world.get(&path).await.ok(200);
            let messages = list["messages"].as_array().unwrap();
            let places: Vec<u64> = messages
                .iter()
                .map(|message| message["index"].as_u64().unwrap())
                .collect();
            (places, list["before"].as_u64(), list["after"].as_u64())
        }
    };
    assert_eq!(page("").await, (vec![0, 1, 2, 3, 4, 5], None, None));
    assert_eq!(page("limit=2").await, (vec![4, 5], Some(4), None));
    assert_eq!(
        page("limit=2&before=4").await,
        (vec![2, 3], Some(2), Some(3))
    );
    assert_eq!(page("limit=2&after=3").await, (vec![4, 5], Some(4), None));
    assert_eq!(
        page("limit=4&after=0").await,
        (vec![1, 2, 3, 4], Some(1), Some(4))
    );
    assert_eq!(page("after=5").await, (vec![], Some(6), None));
}

#[tokio::test]
async fn a_replaced_message_takes_its_place() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .say("s1", "m1", json!([{"text": "one"}]))
        .await
        .ok(200);
    world
        .say("s1", "m2", json!([{"text": "two"}]))
        .await
        .ok(200);
    let body = json!({"id": "m3", "replaces": "m2", "content": "SCRIPT:[{\"text\": \"three\"}]"});
    let path = "/v1/sessions/s1/messages?wait=30s";
    assert_eq!(world.post(path, body).await.ok(200)["text"], "three");
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    let messages = list["messages"].as_array().unwrap();
    let ids: Vec<&Value> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!((ids[0], ids[2]), (&json!("m1"), &json!("m3")));
    let body = json!({"replaces": "none", "content": "x"});
    let unknown = world.post("/v1/sessions/s1/messages", body).await;
    assert_eq!(unknown.problem(), (404, "message_not_found"));
}

#[tokio::test]
async fn large_content_comes_back_whole() {
    let world = World::new().await;
    world.session("s1").await;
    let text = "x".repeat(100_000);
    let content = json!([
        {"type": "text", "text": text},
        {"type": "text", "text": "SCRIPT:[{\"text\": \"seen\"}]"},
    ]);
    let body = json!({"id": "m1", "content": content});
    let done = world.post("/v1/sessions/s1/messages?wait=30s", body).await;
    assert_eq!(done.status, StatusCode::OK);
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    assert_eq!(list["messages"][0]["parts"][0]["text"], json!(text));
    let queued = world.event("s1", "turn_queued").await;
    let hash = queued["content"][0]["blob"]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let blob = world.get(&format!("/v1/sessions/s1/blobs/{hash}")).await;
    assert_eq!(blob.ok(200)["text"], json!(text));
    let missing = format!("/v1/sessions/s1/blobs/{}", "0".repeat(64));
    assert_eq!(world.get(&missing).await.problem(), (404, "blob_not_found"));
}

#[tokio::test]
async fn a_message_in_the_mailbox_has_a_receipt() {
    let runtime = steadfast_runtime::Options {
        actors_max: 1,
        idle_after: Duration::from_millis(10),
        mail_delay: Duration::from_millis(10),
        ..steadfast_runtime::Options::default()
    };
    let world = World::with_runtime(Options::default(), runtime).await;
    world.session("s1").await;
    world.begin("s1", "m1", json!([{"hang": 60}])).await.ok(202);
    // There is no room in memory for another session.
    let body = json!({"id": "m2", "agent": "demo", "content": "SCRIPT:[{\"text\": \"later\"}]"});
    let sent = world.post("/v1/sessions/s2/messages", body).await.ok(202);
    assert_eq!(sent, json!({"message_id": "m2", "state": "accepted"}));
    let made = world
        .put("/v1/sessions/s3", json!({"agent": "demo"}))
        .await
        .ok(202);
    assert_eq!(made["state"], "accepted");
    let path = "/v1/sessions/s2/messages/m2";
    assert_eq!(world.get(path).await.ok(200)["state"], "accepted");
    let unknown = world.get("/v1/sessions/s2/messages/m3").await;
    assert_eq!(unknown.problem(), (404, "session_not_found"));
    let cancel = world.post("/v1/sessions/s1/cancel", json!({})).await;
    cancel.ok(200);
    let done = world.get(&format!("{path}?wait=30s")).await.ok(200);
    assert_eq!(
        (&done["state"], &done["text"]),
        (&json!("completed"), &json!("later"))
    );
}

#[tokio::test]
async fn tools_of_a_message_must_be_the_agents() {
    let world = World::new().await;
    world.session("s1").await;
    let send = |body: Value| world.post("/v1/sessions/s1/messages?wait=30s", body);
    let wrong = send(json!({"content": "x", "active_tools": ["get_wether"]})).await;
    assert_eq!(wrong.problem(), (400, "tool_unknown"));
    assert!(
        wrong.body["detail"]
            .as_str()
            .unwrap()
            .ends_with("did you mean `get_weather`?")
    );
    let both = json!({"content": "x", "active_tools": [], "inactive_tools": []});
    assert_eq!(send(both).await.problem(), (400, "field_invalid"));
    let script = "SCRIPT:[{\"tool\": \"get_weather\", \"input\": {}}, {\"text\": \"done\"}]";
    let body = json!({"id": "m1", "content": script, "inactive_tools": ["get_weather"]});
    assert_eq!(send(body).await.ok(200)["state"], "completed");
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    let call = &list["messages"][1]["parts"][0];
    assert_eq!(
        (&call["settlement"], &call["output"]["type"]),
        (&json!("refused"), &json!("execution_denied"))
    );
}
