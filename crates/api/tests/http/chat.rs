//! The chat routes: who is let in, what is refused, how a stream ends. What is in a stream is judged
//! by the client itself, elsewhere.

use axum::http::{Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steadfast_api::{Limits, Options};

use crate::world::{PATIENCE, World, request};

const CHAT: &str = "/v1/agents/demo/chat";

fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}

fn body(session: &str, message: Value) -> Value {
    json!({"id": session, "messages": [message], "trigger": "submit-message"})
}

/// The chunks of a stream that ended as it should.
fn chunks(text: &Value) -> Vec<Value> {
    let text = text.as_str().unwrap();
    let frames = text.split_terminator("\n\n");
    let mut data: Vec<&str> = frames
        .filter_map(|frame| frame.strip_prefix("data: "))
        .collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{text}");
    data.iter()
        .map(|json| serde_json::from_str(json).unwrap())
        .collect()
}

#[tokio::test]
async fn a_stream_says_what_it_is() {
    let world = World::new().await;
    let answer = world.post(CHAT, body("s1", user("m1", "hello"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    let expected = [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-vercel-ai-ui-message-stream", "v1"),
        ("x-accel-buffering", "no"),
    ];
    for (name, value) in expected {
        assert_eq!(answer.headers[name], value, "{name}");
    }
    let chunks = chunks(&answer.body);
    assert_eq!(chunks.first().unwrap()["type"], "start");
    assert_eq!(chunks.last().unwrap()["type"], "finish");
    let history = world.get(&format!("{CHAT}/s1")).await.ok(200);
    assert_eq!(history["messages"][0], user("m1", "hello"));
    assert_eq!(history["messages"][1]["id"], chunks[0]["messageId"]);
    assert_eq!(history["has_earlier"], false);
}

#[tokio::test]
async fn a_new_chat_has_nothing_and_that_is_no_error() {
    let world = World::new().await;
    let resumed = world.get(&format!("{CHAT}/new/stream")).await;
    assert_eq!(
        (resumed.status, resumed.body),
        (StatusCode::NO_CONTENT, json!(""))
    );
    let history = world.get(&format!("{CHAT}/new")).await.ok(200);
    assert_eq!(
        history,
        json!({"id": "new", "messages": [], "has_earlier": false})
    );
}

#[tokio::test]
async fn what_is_not_there_or_anothers_is_refused() {
    let world = World::new().await;
    world.session("s1").await;
    let message = || body("s1", user("m1", "hello"));
    let unknown = world.post("/v1/agents/nobody/chat", message()).await;
    assert_eq!(unknown.problem(), (404, "agent_not_found"));
    let of_another = world.post("/v1/agents/short/chat", message()).await;
    assert_eq!(of_another.problem(), (409, "session_exists"));
    for path in ["s1", "s1/stream"] {
        let answer = world.get(&format!("/v1/agents/short/chat/{path}")).await;
        assert_eq!(answer.problem(), (404, "session_not_found"), "{path}");
    }
    for session in ["s1", "gone"] {
        let stop = format!("/v1/agents/short/chat/{session}/stop");
        let answer = world.post(&stop, json!({})).await;
        assert_eq!(answer.problem(), (404, "session_not_found"), "{session}");
    }
    world.delete("/v1/sessions/s1").await.ok(202);
    let removed = world.post(&format!("{CHAT}/s1/stop"), json!({})).await;
    assert_eq!(removed.problem(), (404, "session_not_found"));
}

#[tokio::test]
async fn mistakes_are_named() {
    let world = World::new().await;
    let assistant = json!({"id": "assistant-3", "role": "assistant", "parts": [
        {"type": "tool-x", "toolCallId": "call-3-1-0", "state": "output-available", "output": 1},
    ]});
    let cases = [
        (json!({"messages": []}), 400, "field_missing", "id"),
        (
            json!({"id": "a b", "messages": [user("m", "x")]}),
            400,
            "field_invalid",
            "id",
        ),
        (json!({"id": "s1"}), 400, "field_missing", "messages"),
        (
            body("s1", json!({"id": "m", "role": "user", "parts": []})),
            400,
            "field_invalid",
            "parts",
        ),
    ];
    for (body, status, code, field) in cases {
        let answer = world.post(CHAT, body.clone()).await;
        assert_eq!(answer.problem(), (status, code), "{body}");
        assert_eq!(answer.body["field"], field, "{body}");
    }
    let votes = body("s1", assistant);
    let nobody = world.post(CHAT, votes.clone()).await;
    assert_eq!(nobody.problem(), (404, "session_not_found"));
    chunks(&world.post(CHAT, body("s1", user("m1", "hello"))).await.body);
    chunks(&world.post(CHAT, body("s1", user("m2", "hello"))).await.body);
    // A call of another turn than the newest, and one that was never made.
    assert_eq!(
        world.post(CHAT, votes).await.problem(),
        (404, "call_not_found")
    );
    let mut again = body("s1", user("unknown", "x"));
    again["trigger"] = json!("regenerate-message");
    assert_eq!(
        world.post(CHAT, again).await.problem(),
        (404, "message_not_found")
    );
    let other = world
        .post(CHAT, body("s1", user("m1", "other words")))
        .await;
    assert_eq!(other.problem(), (409, "command_conflict"));
    // None of this left anything behind.
    let history = world.get(&format!("{CHAT}/s1")).await.ok(200);
    assert_eq!(history["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_message_whose_answer_cannot_be_streamed_is_not_taken() {
    let limits = Limits {
        streams_max: 0,
        ..Limits::default()
    };
    let world = World::with(Options {
        limits,
        ..Options::default()
    })
    .await;
    let full = world.post(CHAT, body("s1", user("m1", "hello"))).await;
    assert_eq!(full.problem(), (503, "streams_full"));
    let answer = world.get("/v1/sessions/s1").await;
    assert_eq!(answer.problem(), (404, "session_not_found"));
}

#[tokio::test]
async fn a_shutdown_breaks_the_stream_off() {
    let world = World::new().await;
    let slow = r#"SCRIPT: [{"text": "a b c d e f", "chunks": 6, "delay": 5}]"#;
    let post = request(Method::POST, CHAT, Some(body("s1", user("m1", slow))));
    let answer = world.raw(post).await;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
    world.shutdown.cancel();
    let ended = tokio::time::timeout(PATIENCE, answer.into_body().collect()).await;
    assert!(ended.unwrap().is_err(), "it looked like an end");
}

#[tokio::test]
async fn an_approval_of_one_kind_does_not_answer_a_call_of_another() {
    let world = World::new().await;
    let script = r#"SCRIPT: [{"tools": [{"tool": "ask"}, {"tool": "refund"}]}, {"text": "so"}]"#;
    let first = world.post(CHAT, body("s1", user("m1", script))).await;
    let first = chunks(&first.body);
    assert_eq!(first.last().unwrap()["finishReason"], "tool-calls");
    let asked = first.iter().find(|c| c["type"] == "tool-approval-request");
    let approval = &asked.unwrap()["approvalId"];
    let part = |index: u8, rest: Value| {
        let turn = first[0]["messageId"].as_str().unwrap();
        let turn = turn.strip_prefix("assistant-").unwrap();
        let mut part = json!({"type": "tool-x", "toolCallId": format!("call-{turn}-1-{index}")});
        let rest = rest.as_object().unwrap().clone();
        part.as_object_mut().unwrap().extend(rest);
        part
    };
    let agreed =
        || json!({"state": "approval-responded", "approval": {"id": approval, "approved": true}});
    let given = || json!({"state": "output-available", "output": "an output"});
    let votes = |parts: Vec<Value>| {
        let message = json!({"id": first[0]["messageId"], "role": "assistant", "parts": parts});
        body("s1", message)
    };
    let crossed = votes(vec![part(0, agreed()), part(1, given())]);
    let told = chunks(&world.post(CHAT, crossed).await.body);
    let kinds: Vec<&str> = told.iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["start", "finish"]);
    let right = votes(vec![part(0, given()), part(1, agreed())]);
    let told = chunks(&world.post(CHAT, right.clone()).await.body);
    assert_eq!(told.last().unwrap()["finishReason"], "stop");
    // Both are one decision: no crash can leave one of them.
    let log = world.get("/v1/sessions/s1/log").await.ok(200);
    let records = log["records"].as_array().unwrap().iter();
    let entries = records.flat_map(|record| record["entries"].as_array().unwrap());
    let kinds = |entry: &Value| -> Vec<String> {
        let events = entry["events"].as_array().unwrap().iter();
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        events.map(kind).collect()
    };
    let decided = entries
        .map(kinds)
        .find(|kinds| kinds.contains(&"approval_decided".into()));
    let expected = [
        "call_settled",
        "approval_decided",
        "command_settled",
        "call_started",
    ];
    assert_eq!(decided.unwrap(), expected);
    // The same again is told the same, and does nothing.
    assert_eq!(chunks(&world.post(CHAT, right).await.body), told);
}
