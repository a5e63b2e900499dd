//! Bad input of every kind gets a clear problem.

use axum::body::Body;
use axum::http::{Method, Request, header};
use serde_json::{Value, json};
use steadfast_api::{Limits, Options};

use crate::world::{Answer, World, request};

async fn world() -> World {
    let world = World::with(Options {
        limits: Limits {
            body_bytes_max: 64 * 1024,
            body_read_ms: 50,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    world.session("s1").await;
    world
}

async fn post(world: &World, path: &str, content_type: &str, body: impl Into<Body>) -> Answer {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.into())
        .unwrap();
    world.send(request).await
}

#[track_caller]
fn check(answer: &Answer, status: u16, code: &str, field: Option<&str>) {
    assert_eq!(answer.problem(), (status, code), "{}", answer.body);
    assert_eq!(answer.body["field"].as_str(), field, "{}", answer.body);
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let world = world().await;
    let path = "/v1/sessions/s1/messages";
    let json = "application/json";
    let send = |content_type: &'static str, body: Vec<u8>| post(&world, path, content_type, body);
    let good = br#"{"content": "x"}"#.to_vec();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = send(content_type, good.clone()).await;
        check(&answer, 415, "media_type_unsupported", Some("content-type"));
    }
    check(&send(json, b"{".to_vec()).await, 400, "body_not_json", None);
    check(&send(json, b"".to_vec()).await, 400, "body_not_json", None);
    check(
        &send(json, b"{\"content\": \"\xff\"}".to_vec()).await,
        400,
        "body_not_utf8",
        None,
    );
    let deep = format!("{{\"content\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    check(
        &send(json, deep.into_bytes()).await,
        400,
        "body_too_deep",
        None,
    );
    let deepest = "[".repeat(60_000);
    check(
        &send(json, deepest.into_bytes()).await,
        400,
        "body_too_deep",
        None,
    );
    let large = format!("{{\"content\": \"{}\"}}", "x".repeat(64 * 1024));
    check(
        &send(json, large.into_bytes()).await,
        413,
        "body_too_large",
        None,
    );
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1024)));
    let answer = post(&world, path, json, Body::from_stream(endless)).await;
    check(&answer, 413, "body_too_large", None);
    let silent = futures_util::stream::pending::<Result<String, std::io::Error>>();
    let answer = post(&world, path, json, Body::from_stream(silent)).await;
    check(&answer, 408, "body_timeout", None);
    let broken = futures_util::stream::iter([Err::<String, _>(std::io::Error::other("gone"))]);
    let answer = post(&world, path, json, Body::from_stream(broken)).await;
    check(&answer, 400, "body_incomplete", None);
    let mut encoded = request(Method::POST, path, Some(json!({"content": "x"})));
    let gzip = "gzip".parse().unwrap();
    encoded.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    let answer = world.send(encoded).await;
    check(
        &answer,
        415,
        "media_type_unsupported",
        Some("content-encoding"),
    );
}

#[tokio::test]
async fn fields_that_do_not_fit_are_named() {
    let world = world().await;
    let messages = "/v1/sessions/s1/messages";
    let cases: Vec<(&str, Value, &str, &str)> = vec![
        (messages, json!({}), "field_missing", "content"),
        (messages, json!({"contnt": "x"}), "field_unknown", "contnt"),
        (messages, json!({"content": 7}), "field_invalid", "content"),
        (messages, json!({"content": ""}), "field_invalid", "content"),
        (
            messages,
            json!({"content": [{"type": "text"}]}),
            "field_missing",
            "content[0].text",
        ),
        (
            messages,
            json!({"content": "x", "id": "a b"}),
            "field_invalid",
            "id",
        ),
        (
            messages,
            json!({"content": "x", "id": 5}),
            "field_invalid",
            "id",
        ),
        (
            messages,
            json!({"content": "x", "when_busy": "never"}),
            "field_invalid",
            "when_busy",
        ),
        (
            messages,
            json!({"content": "x", "turn_id": 5}),
            "field_invalid",
            "turn_id",
        ),
        (
            messages,
            json!({"content": "x", "turn_id": -5}),
            "field_invalid",
            "turn_id",
        ),
        (
            messages,
            json!({"content": "x", "agent": "dmo"}),
            "agent_unknown",
            "agent",
        ),
        (
            messages,
            json!({"content": "x", "context": {}}),
            "field_unknown",
            "context",
        ),
        (
            messages,
            json!({"content": "x", "metadata": "m".repeat(20_000)}),
            "field_invalid",
            "metadata",
        ),
        (
            messages,
            json!({"content": "x", "active_tools": [""]}),
            "field_invalid",
            "active_tools[0]",
        ),
        (
            messages,
            json!({"content": "x", "replaces": "m", "when_busy": "steer"}),
            "field_invalid",
            "when_busy",
        ),
        ("/v1/sessions", json!({}), "field_missing", "agent"),
        (
            "/v1/sessions",
            json!({"agent": "none"}),
            "agent_unknown",
            "agent",
        ),
        (
            "/v1/sessions",
            json!({"agent": "a b"}),
            "field_invalid",
            "agent",
        ),
        (
            "/v1/sessions",
            json!({"agent": "demo", "id": ""}),
            "field_invalid",
            "id",
        ),
        (
            "/v1/sessions",
            json!({"agent": "demo", "tags": "x"}),
            "field_invalid",
            "tags",
        ),
        (
            "/v1/sessions",
            json!({"agent": "demo", "tags": [""]}),
            "field_invalid",
            "tags[0]",
        ),
        (
            "/v1/sessions",
            json!({"agent": "demo", "tags": vec!["x"; 33]}),
            "field_invalid",
            "tags",
        ),
        (
            "/v1/sessions/s1/cancel",
            json!({"turn": 5}),
            "field_unknown",
            "turn",
        ),
        (
            "/v1/sessions/s1/cancel",
            json!({"turn_id": "5"}),
            "field_invalid",
            "turn_id",
        ),
        (
            "/v1/sessions/s1/compact",
            json!({"now": true}),
            "field_unknown",
            "now",
        ),
        (
            "/v1/sessions/s1/fork",
            json!({"at_seq": 1.5}),
            "field_invalid",
            "at_seq",
        ),
        (
            "/v1/sessions/s1/approvals/approval-1-2-3",
            json!({}),
            "field_missing",
            "approved",
        ),
        (
            "/v1/sessions/s1/approvals/approval-1-2-3",
            json!({"approved": "yes"}),
            "field_invalid",
            "approved",
        ),
        (
            "/v1/sessions/s1/calls/1-2-3/result",
            json!({"result": 1}),
            "field_unknown",
            "result",
        ),
    ];
    for (path, body, code, field) in cases {
        let answer = world.post(path, body.clone()).await;
        check(&answer, 400, code, Some(field));
        let shown = answer.body["detail"].as_str().unwrap();
        assert!(shown.contains(field), "{shown}");
    }
    let twice = post(
        &world,
        messages,
        "application/json",
        r#"{"content": "x", "content": "y"}"#,
    )
    .await;
    check(&twice, 400, "field_duplicate", Some("content"));
    let list = post(&world, messages, "application/json", r#"["x"]"#).await;
    check(&list, 400, "field_invalid", None);
}

#[tokio::test]
async fn paths_queries_and_headers_that_do_not_fit_are_named() {
    let world = world().await;
    let long = "x".repeat(129);
    for (path, code, field) in [
        ("/v1/sessions/a%20b", "path_invalid", Some("session")),
        ("/v1/sessions/a%2Fb", "path_invalid", Some("session")),
        ("/v1/sessions/%FF", "path_invalid", None),
        (
            &*format!("/v1/sessions/{long}"),
            "path_invalid",
            Some("session"),
        ),
        ("/v1/agents/a.b", "path_invalid", Some("agent")),
        (
            "/v1/sessions/s1/messages/a+b",
            "path_invalid",
            Some("message"),
        ),
        ("/v1/sessions/s1/blobs/xyz", "path_invalid", Some("hash")),
        (
            "/v1/sessions/s1/events?after=-1",
            "query_invalid",
            Some("after"),
        ),
        (
            "/v1/sessions/s1/events?after=99999999999999999999999",
            "query_invalid",
            Some("after"),
        ),
        (
            "/v1/sessions/s1/events?follow=no",
            "query_invalid",
            Some("follow"),
        ),
        (
            "/v1/sessions/s1/events?aftr=1",
            "query_invalid",
            Some("aftr"),
        ),
        (
            "/v1/sessions/s1/log?limit=0",
            "query_invalid",
            Some("limit"),
        ),
        (
            "/v1/sessions/s1/log?limit=1001",
            "query_invalid",
            Some("limit"),
        ),
        (
            "/v1/sessions/s1/log?limit=5&limit=6",
            "query_invalid",
            Some("limit"),
        ),
        (
            "/v1/sessions/s1/messages?before=1&after=2",
            "query_invalid",
            Some("after"),
        ),
        (
            "/v1/sessions/s1/messages/m1?wait=forever",
            "query_invalid",
            Some("wait"),
        ),
        ("/v1/sessions?status=busy", "query_invalid", Some("status")),
        ("/v1/sessions?agent=a%20b", "query_invalid", Some("agent")),
        ("/v1/sessions?after=%00", "query_invalid", Some("after")),
        ("/v1/approvals?limit=101", "query_invalid", Some("limit")),
    ] {
        check(&world.get(path).await, 400, code, field);
    }
    for path in [
        "/v1/sessions/s1/calls/1-2/result",
        "/v1/sessions/s1/approvals/1-2-3",
    ] {
        let answer = world
            .post(path, json!({"output": 1, "approved": true}))
            .await;
        assert_eq!(answer.status.as_u16(), 400, "{path}");
    }
    let mut keyed = request(Method::POST, "/v1/sessions/s1/cancel", None);
    keyed
        .headers_mut()
        .insert("idempotency-key", "a b".parse().unwrap());
    let answer = world.send(keyed).await;
    check(&answer, 400, "header_invalid", Some("idempotency-key"));
}

#[tokio::test]
async fn unknown_routes_and_methods_are_refused() {
    let world = world().await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/none",
        "/v1/sessions/",
        "/v1/sessions/s1/none",
        "/v2/sessions",
        "//",
    ] {
        check(&world.get(path).await, 404, "path_not_found", None);
    }
    for (method, path, allow) in [
        (Method::PATCH, "/v1/sessions/s1", "PUT,GET,HEAD,DELETE"),
        (Method::DELETE, "/v1/sessions", "GET,HEAD,POST"),
        (Method::GET, "/v1/sessions/s1/cancel", "POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::OPTIONS, "/v1/agents", "GET,HEAD"),
        (
            Method::from_bytes(b"BREW").unwrap(),
            "/v1/agents",
            "GET,HEAD",
        ),
    ] {
        let answer = world.send(request(method.clone(), path, None)).await;
        check(&answer, 405, "method_not_allowed", None);
        assert_eq!(answer.headers[header::ALLOW], allow, "{method} {path}");
    }
}
