//! What happens to a turn from outside: cancelling, approving, giving results, explaining.

use axum::http::Method;
use serde_json::{Value, json};

use crate::world::{World, request};

#[tokio::test]
async fn a_cancel_ends_the_turn_it_means() {
    let world = World::new().await;
    world.session("s1").await;
    let idle = world.post("/v1/sessions/s1/cancel", json!({})).await;
    assert_eq!(idle.problem(), (409, "turn_not_running"));
    let running = world.begin("s1", "m1", json!([{"hang": 60}])).await.ok(202);
    let other = world
        .post("/v1/sessions/s1/cancel", json!({"turn_id": 1}))
        .await;
    assert_eq!(other.problem(), (409, "turn_not_running"));
    let cancel = |body: Option<Value>| {
        let mut cancel = request(Method::POST, "/v1/sessions/s1/cancel", body);
        cancel
            .headers_mut()
            .insert("idempotency-key", "c1".parse().unwrap());
        world.send(cancel)
    };
    let done = cancel(None).await.ok(200);
    assert_eq!(
        (&done["state"], &done["command_id"]),
        (&json!("done"), &json!("c1"))
    );
    let receipt = world.get("/v1/sessions/s1/messages/m1").await.ok(200);
    assert_eq!(receipt["state"], "cancelled");
    // A repetition ends nothing that came later.
    world.begin("s1", "m2", json!([{"hang": 60}])).await.ok(202);
    cancel(None).await.ok(200);
    let named = cancel(Some(json!({"turn_id": running["turn_id"]})))
        .await
        .ok(200);
    assert_eq!(named["state"], "done");
    let receipt = world.get("/v1/sessions/s1/messages/m2").await.ok(200);
    assert_eq!(receipt["state"], "running");
}

#[tokio::test]
async fn an_approval_is_answered_once() {
    let world = World::new().await;
    world.session("s1").await;
    let script = json!([{"tool": "refund", "input": {"city": "Rome"}}, {"text": "done"}]);
    world.begin("s1", "m1", script).await;
    let asked = world.event("s1", "approval_requested").await;
    let approval = asked["approval"].as_str().unwrap().to_owned();
    let session = world.get("/v1/sessions/s1").await.ok(200);
    assert_eq!(session["status"], "waiting");
    assert_eq!(session["waiting"][0]["approval"], json!(approval));
    let why = world.get("/v1/sessions/s1/why").await.ok(200);
    assert_eq!(why["summary"], "a person's decision about refund");
    let listed = loop {
        // The directory may be a moment behind.
        let list = world.get("/v1/approvals?agent=demo").await.ok(200);
        if list["approvals"] != json!([]) {
            break list["approvals"][0].clone();
        }
        tokio::task::yield_now().await;
    };
    let path = format!("/v1/sessions/s1/approvals/{approval}");
    let expected = json!({
        "session": "s1", "agent": "demo", "turn_id": session["turn"]["id"],
        "approval_id": approval, "call_id": session["waiting"][0]["call"], "tool": "refund",
        "input": {"city": "Rome"}, "since": session["waiting"][0]["since"], "answer_path": path,
    });
    assert_eq!(listed, expected);
    let others = world.get("/v1/approvals?agent=other").await.ok(200);
    assert_eq!(others, json!({"approvals": []}));
    let yes = json!({"approved": true, "reason": "fine"});
    world.post(&path, yes.clone()).await.ok(200);
    world.post(&path, yes).await.ok(200);
    let no = world.post(&path, json!({"approved": false})).await;
    assert_eq!(no.problem(), (409, "approval_decided"));
    let done = world
        .get("/v1/sessions/s1/messages/m1?wait=30s")
        .await
        .ok(200);
    assert_eq!(done["state"], "completed");
    let unknown = world.post(
        "/v1/sessions/s1/approvals/approval-9-9-9",
        json!({"approved": true}),
    );
    assert_eq!(unknown.await.problem(), (404, "approval_not_found"));
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    assert_eq!(
        list["messages"][1]["parts"][0]["approval"],
        json!({"id": approval, "approved": true, "reason": "fine"})
    );
}

#[tokio::test]
async fn a_client_gives_its_own_result_once() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .begin("s1", "m1", json!([{"tool": "ask"}, {"text": "thanks"}]))
        .await;
    let replied = world.event("s1", "model_replied").await;
    let call = format!("{}-{}-0", replied["epoch"], replied["seq"]);
    let path = format!("/v1/sessions/s1/calls/{call}/result");
    let result = |body: Value| world.post(&path, body);
    assert_eq!(result(json!({})).await.problem(), (400, "field_missing"));
    let both = result(json!({"output": 1, "error": "x"})).await;
    assert_eq!(both.problem(), (400, "field_invalid"));
    result(json!({"output": null})).await.ok(200);
    let late = result(json!({"output": "other"})).await;
    assert_eq!(late.problem(), (409, "call_not_waiting"));
    let unknown = world.post("/v1/sessions/s1/calls/9-9-9/result", json!({"error": "no"}));
    assert_eq!(unknown.await.problem(), (404, "call_not_found"));
    let done = world
        .get("/v1/sessions/s1/messages/m1?wait=30s")
        .await
        .ok(200);
    assert_eq!(done["text"], "thanks");
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    let output = &list["messages"][1]["parts"][0]["output"];
    assert_eq!(output, &json!({"type": "json", "value": null}));
}

#[tokio::test]
async fn an_operator_settles_a_call_in_doubt() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .begin("s1", "m1", json!([{"tool": "lost"}, {"text": "ok"}]))
        .await;
    let doubted = world.event("s1", "call_doubted").await;
    let call = doubted["call"].as_str().unwrap();
    let session = world.get("/v1/sessions/s1").await.ok(200);
    assert_eq!(session["waiting"][0]["type"], "in_doubt");
    let path = format!("/v1/sessions/s1/calls/{call}/result");
    world
        .post(&path, json!({"output": "it happened"}))
        .await
        .ok(200);
    let done = world
        .get("/v1/sessions/s1/messages/m1?wait=30s")
        .await
        .ok(200);
    assert_eq!(done["text"], "ok");
}

#[tokio::test]
async fn an_operator_repairs_a_turn_that_waits_for_a_call_in_doubt() {
    let world = World::new().await;
    for (session, action, extra) in [
        ("s1", "skip", json!({})),
        ("s2", "settle", json!({"output": {"refunded": 3}})),
    ] {
        world.session(session).await;
        world
            .begin(session, "m1", json!([{"tool": "lost"}, {"text": "ok"}]))
            .await;
        let doubted = world.event(session, "call_doubted").await;
        let path = format!("/v1/sessions/{session}/repair");
        let mut body = json!({"action": action, "call_id": doubted["call"]});
        let fields = extra.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        assert_eq!(
            world.post(&path, body.clone()).await.ok(200)["state"],
            "done"
        );
        let again = world.post(&path, body).await;
        assert_eq!(again.problem(), (409, "call_not_waiting"));
        let receipt = format!("/v1/sessions/{session}/messages/m1?wait=30s");
        assert_eq!(world.get(&receipt).await.ok(200)["text"], "ok");
        let fine = world.post(&path, json!({"action": "unquarantine"})).await;
        assert_eq!(fine.problem(), (409, "session_not_quarantined"));
    }
}

#[tokio::test]
async fn a_retried_call_in_doubt_runs_once_more_and_settles_or_is_in_doubt_again() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .begin("s1", "m1", json!([{"tool": "lost"}, {"text": "ok"}]))
        .await;
    let doubted = world.event("s1", "call_doubted").await;
    let path = "/v1/sessions/s1/repair";
    let retry = json!({"action": "retry", "call_id": doubted["call"]});
    let too_much = json!({"action": "retry", "call_id": doubted["call"], "output": 1});
    assert_eq!(
        world.post(path, too_much).await.problem(),
        (400, "field_invalid")
    );
    assert_eq!(
        world.post(path, retry.clone()).await.ok(200)["state"],
        "done"
    );
    let mut frames = world.follow("s1", doubted["seq"].as_u64().unwrap()).await;
    let again = frames.until("call_doubted").await.2;
    assert_eq!(again["call"], doubted["call"]);
    let skip = json!({"action": "skip", "call_id": doubted["call"]});
    assert_eq!(world.post(path, skip).await.ok(200)["state"], "done");
    assert_eq!(
        world.post(path, retry).await.problem(),
        (409, "call_not_waiting")
    );
    let log = world.get("/v1/sessions/s1/log").await.ok(200).to_string();
    let attempts = [1, 2, 3].map(|attempt| log.contains(&format!("\"attempt\":{attempt}")));
    assert_eq!(attempts, [true, true, false], "{log}");
}

#[tokio::test]
async fn a_repair_says_what_is_missing_or_too_much() {
    let world = World::new().await;
    world.session("s1").await;
    for (body, code, field) in [
        (json!({"action": "skip"}), "field_missing", "call_id"),
        (json!({"action": "retry"}), "field_missing", "call_id"),
        (
            json!({"action": "settle", "call_id": "1-2-0"}),
            "field_missing",
            "output",
        ),
        (
            json!({"action": "unquarantine", "call_id": "1-2-0"}),
            "field_invalid",
            "call_id",
        ),
        (json!({"action": "mend"}), "field_invalid", "action"),
    ] {
        let answer = world.post("/v1/sessions/s1/repair", body).await;
        assert_eq!(answer.problem(), (400, code));
        assert_eq!(answer.body["field"], field);
    }
}

#[tokio::test]
async fn a_compaction_is_wanted_once() {
    let world = World::new().await;
    world.session("s1").await;
    let nothing = world.post("/v1/sessions/s1/compact", json!({})).await;
    assert_eq!(nothing.problem(), (409, "nothing_to_compact"));
    world
        .say("s1", "m1", json!([{"text": "one"}]))
        .await
        .ok(200);
    let path = "/v1/sessions/s1/compact";
    let done = world.send(request(Method::POST, path, None)).await.ok(200);
    assert_eq!(done["state"], "done");
    world.event("s1", "transcript_compacted").await;
    let list = world.get("/v1/sessions/s1/messages").await.ok(200);
    let messages = list["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "system"]);
    assert_eq!(messages[2]["parts"][0]["type"], "summary");
}
