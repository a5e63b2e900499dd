//! Who may ask what.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use steadfast_api::{Options, Peer, Scope};
use tower::ServiceExt;

use crate::world::{Answer, World, keys, request};

const ALL: &[Scope] = &[Scope::Read, Scope::Write, Scope::Operate, Scope::Metrics];

async fn world() -> World {
    let auth = keys(&[
        ("acme", "acme-all", ALL),
        ("acme", "acme-read", &[Scope::Read]),
        ("acme", "acme-write", &[Scope::Read, Scope::Write]),
        ("other", "other-all", ALL),
    ]);
    World::with(Options {
        auth,
        ..Options::default()
    })
    .await
}

async fn ask(world: &World, key: &str, method: Method, path: &str, body: Option<Value>) -> Answer {
    let mut request = request(method, path, body);
    let bearer = format!("Bearer {key}").parse().unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    world.send(request).await
}

#[tokio::test]
async fn without_a_key_nothing_is_said() {
    let world = world().await;
    for path in [
        "/v1/sessions",
        "/v1/sessions/s1",
        "/v1/agents",
        "/metrics",
        "/v1/none",
        "/none",
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.problem(), (401, "unauthorized"), "{path}");
        assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/"] {
        assert_eq!(world.get(path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_tenant_never_sees_anothers_sessions() {
    let world = world().await;
    let path = "/v1/sessions/s1";
    let body = || Some(json!({"agent": "demo"}));
    ask(&world, "acme-all", Method::PUT, path, body())
        .await
        .ok(201);
    let message = json!({"id": "m1", "content": "SCRIPT:[{\"tool\": \"refund\"}]"});
    let messages = "/v1/sessions/s1/messages";
    ask(&world, "acme-all", Method::POST, messages, Some(message))
        .await
        .ok(202);
    let other = |method: Method, path: &'static str, body: Option<Value>| {
        let world = &world;
        async move {
            let answer = ask(world, "other-all", method, path, body).await;
            assert_eq!(answer.problem(), (404, "session_not_found"), "{path}");
        }
    };
    for path in [
        "/v1/sessions/s1",
        "/v1/sessions/s1/messages",
        "/v1/sessions/s1/messages/m1",
        "/v1/sessions/s1/events",
        "/v1/sessions/s1/log",
        "/v1/sessions/s1/why",
        "/v1/sessions/s1/blobs/0000000000000000000000000000000000000000000000000000000000000000",
    ] {
        other(Method::GET, path, None).await;
    }
    other(Method::POST, "/v1/sessions/s1/cancel", None).await;
    other(Method::POST, "/v1/sessions/s1/fork", None).await;
    other(Method::DELETE, "/v1/sessions/s1", None).await;
    let list = ask(&world, "other-all", Method::GET, "/v1/sessions", None)
        .await
        .ok(200);
    assert_eq!(list["sessions"], json!([]));
    let list = ask(&world, "other-all", Method::GET, "/v1/approvals", None)
        .await
        .ok(200);
    assert_eq!(list["approvals"], json!([]));
    // The same id is another session.
    ask(&world, "other-all", Method::PUT, path, body())
        .await
        .ok(201);
}

#[tokio::test]
async fn a_key_does_only_what_its_scopes_say() {
    let world = world().await;
    let path = "/v1/sessions/s1";
    let body = || Some(json!({"agent": "demo"}));
    let refused = ask(&world, "acme-read", Method::PUT, path, body()).await;
    assert_eq!(refused.problem(), (403, "scope_missing"));
    ask(&world, "acme-write", Method::PUT, path, body())
        .await
        .ok(201);
    ask(&world, "acme-read", Method::GET, path, None)
        .await
        .ok(200);
    let metrics = ask(&world, "acme-write", Method::GET, "/metrics", None).await;
    assert_eq!(metrics.problem(), (403, "scope_missing"));
    ask(&world, "acme-all", Method::GET, "/metrics", None)
        .await
        .ok(200);
    let message =
        json!({"id": "m1", "content": "SCRIPT:[{\"tool\": \"lost\"}, {\"text\": \"ok\"}]"});
    let messages = "/v1/sessions/s1/messages?wait=1s";
    ask(&world, "acme-write", Method::POST, messages, Some(message))
        .await
        .ok(202);
    let why = ask(
        &world,
        "acme-read",
        Method::GET,
        "/v1/sessions/s1/why",
        None,
    )
    .await
    .ok(200);
    let call = why["waiting"][0]["call"].as_str().unwrap();
    let path = format!("/v1/sessions/s1/calls/{call}/result");
    let result = || Some(json!({"output": "it happened"}));
    let client = ask(&world, "acme-write", Method::POST, &path, result()).await;
    assert_eq!(client.problem(), (409, "call_not_waiting"));
    ask(&world, "acme-all", Method::POST, &path, result())
        .await
        .ok(200);
}

#[tokio::test]
async fn without_keys_other_machines_and_other_sites_are_refused() {
    let world = World::new().await;
    let with = |name: &'static str, value: &str| {
        Request::builder()
            .uri("/v1/agents")
            .header(name, value)
            .body(Body::empty())
            .unwrap()
    };
    let rebound = world.send(with("host", "evil.example")).await;
    assert_eq!(rebound.problem(), (403, "host_not_allowed"));
    let foreign = world.send(with("origin", "https://evil.example")).await;
    assert_eq!(foreign.problem(), (403, "origin_not_allowed"));
    let local = world.send(with("origin", "http://localhost:3000")).await;
    assert_eq!(local.status, StatusCode::OK);
    let mut remote = with("host", "localhost");
    let peer = Peer("192.0.2.1:9".parse().unwrap());
    remote.extensions_mut().insert(peer);
    let answer = world.router.clone().oneshot(remote).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let unknown = with("host", "localhost");
    let answer = world.router.clone().oneshot(unknown).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let mut probe = request(Method::GET, "/readyz", None);
    probe
        .headers_mut()
        .insert("host", "10.0.0.7".parse().unwrap());
    assert_eq!(world.send(probe).await.status, StatusCode::OK);
}
