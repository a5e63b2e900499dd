//! Bad input of every kind gets a clear problem.

use axum::body::Body;
use axum::http::{Method, Request, header};
use serde_json::json;
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

/// Path after `/v1/sessions`, body, code, field.
const FIELDS: &str = r#"
/s1/messages | {} | field_missing | content
/s1/messages | {"contnt": "x"} | field_unknown | contnt
/s1/messages | {"content": 7} | field_invalid | content
/s1/messages | {"content": ""} | field_invalid | content
/s1/messages | {"content": [{"type": "text"}]} | field_missing | content[0].text
/s1/messages | {"content": "x", "content": "y"} | field_duplicate | content
/s1/messages | {"content": "x", "id": "a b"} | field_invalid | id
/s1/messages | {"content": "x", "id": 5} | field_invalid | id
/s1/messages | {"content": "x", "when_busy": "never"} | field_invalid | when_busy
/s1/messages | {"content": "x", "turn_id": 5} | field_invalid | turn_id
/s1/messages | {"content": "x", "turn_id": -5} | field_invalid | turn_id
/s1/messages | {"content": "x", "agent": "dmo"} | agent_unknown | agent
/s1/messages | {"content": "x", "context": {}} | field_unknown | context
/s1/messages | {"content": "x", "active_tools": [""]} | field_invalid | active_tools[0]
/s1/messages | {"content": "x", "replaces": "m", "when_busy": "steer"} | field_invalid | when_busy
 | {} | field_missing | agent
 | {"agent": "none"} | agent_unknown | agent
 | {"agent": "a b"} | field_invalid | agent
 | {"agent": "demo", "id": ""} | field_invalid | id
 | {"agent": "demo", "tags": "x"} | field_invalid | tags
 | {"agent": "demo", "tags": [""]} | field_invalid | tags[0]
/s1/cancel | {"turn": 5} | field_unknown | turn
/s1/cancel | {"turn_id": "5"} | field_invalid | turn_id
/s1/compact | {"now": true} | field_unknown | now
/s1/fork | {"at_seq": 1.5} | field_invalid | at_seq
/s1/approvals/approval-1-2-3 | {} | field_missing | approved
/s1/approvals/approval-1-2-3 | {"approved": "yes"} | field_invalid | approved
/s1/calls/1-2-3/result | {"result": 1} | field_unknown | result
"#;

#[tokio::test]
async fn fields_that_do_not_fit_are_named() {
    let world = world().await;
    for line in FIELDS.trim_matches('\n').lines() {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [path, body, code, field] = columns[..] else {
            panic!("{line}");
        };
        let path = format!("/v1/sessions{path}");
        let answer = post(&world, &path, "application/json", body.to_owned()).await;
        check(&answer, 400, code, Some(field));
        let shown = answer.body["detail"].as_str().unwrap();
        assert!(shown.contains(field), "{shown}");
    }
}

#[tokio::test]
async fn fields_that_are_too_large_are_named() {
    let world = world().await;
    let metadata = json!({"content": "x", "metadata": "m".repeat(20_000)});
    let answer = world.post("/v1/sessions/s1/messages", metadata).await;
    check(&answer, 400, "field_invalid", Some("metadata"));
    let tags = json!({"agent": "demo", "tags": vec!["x"; 33]});
    let answer = world.post("/v1/sessions", tags).await;
    check(&answer, 400, "field_invalid", Some("tags"));
    let list = post(&world, "/v1/sessions", "application/json", r#"["demo"]"#).await;
    check(&list, 400, "field_invalid", None);
}

/// Path, code, field.
const PATHS: &str = "
/v1/sessions/a%20b | path_invalid | session
/v1/sessions/a%2Fb | path_invalid | session
/v1/sessions/%FF | path_invalid |
/v1/agents/a.b | path_invalid | agent
/v1/sessions/s1/messages/a+b | path_invalid | message
/v1/sessions/s1/blobs/xyz | path_invalid | hash
/v1/sessions/s1/events?after=-1 | query_invalid | after
/v1/sessions/s1/events?after=99999999999999999999999 | query_invalid | after
/v1/sessions/s1/events?follow=no | query_invalid | follow
/v1/sessions/s1/events?aftr=1 | query_invalid | aftr
/v1/sessions/s1/log?limit=0 | query_invalid | limit
/v1/sessions/s1/log?limit=1001 | query_invalid | limit
/v1/sessions/s1/log?limit=5&limit=6 | query_invalid | limit
/v1/sessions/s1/messages?before=1&after=2 | query_invalid | after
/v1/sessions/s1/messages/m1?wait=forever | query_invalid | wait
/v1/sessions?status=busy | query_invalid | status
/v1/sessions?agent=a%20b | query_invalid | agent
/v1/sessions?after=%00 | query_invalid | after
/v1/approvals?limit=101 | query_invalid | limit
";

#[tokio::test]
async fn paths_and_queries_that_do_not_fit_are_named() {
    let world = world().await;
    for line in PATHS.trim_matches('\n').lines() {
        let columns: Vec<&str> = line.split(" |").map(str::trim).collect();
        let [path, code, field] = columns[..] else {
            panic!("{line}");
        };
        let field = Some(field).filter(|field| !field.is_empty());
        check(&world.get(path).await, 400, code, field);
    }
    let long = format!("/v1/sessions/{}", "x".repeat(129));
    check(
        &world.get(&long).await,
        400,
        "path_invalid",
        Some("session"),
    );
}

#[tokio::test]
async fn ids_and_headers_that_do_not_fit_are_named() {
    let world = world().await;
    let result = world
        .post("/v1/sessions/s1/calls/1-2/result", json!({"output": 1}))
        .await;
    check(&result, 400, "path_invalid", Some("call"));
    let approval = json!({"approved": true});
    let approval = world
        .post("/v1/sessions/s1/approvals/1-2-3", approval)
        .await;
    check(&approval, 400, "path_invalid", Some("approval"));
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
