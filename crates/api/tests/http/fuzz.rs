//! Whatever is sent, the answer is documented and nothing panics.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, header};
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::Value;
use steadfast_api::{Limits, Options};

use crate::world::World;

/// A request as it comes: nothing of it need make sense.
#[derive(Debug, Clone)]
struct Wild {
    method: String,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "v1", "agents", "sessions", "s1", "s2", "demo", "messages", "m1", "cancel", "compact",
            "fork", "approvals", "approval-1-2-3", "calls", "1-2-0", "result", "events", "log",
            "why", "blobs", "healthz", "readyz", "metrics", "openapi.json",
        ]).prop_map(str::to_owned),
        1 => "[A-Za-z0-9_.~%-]{0,12}",
        1 => Just("%00".to_owned()),
        1 => Just("%FF%FE".to_owned()),
        1 => Just("..".to_owned()),
    ]
}

fn route() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::collection::vec(segment(), 0..6).prop_map(|parts| format!("/{}", parts.join("/"))),
        2 => prop::sample::select(vec![
            "/v1/sessions", "/v1/sessions/s1", "/v1/sessions/s1/messages", "/v1/sessions/s1/log",
            "/v1/sessions/s1/messages/m1", "/v1/sessions/s1/cancel", "/v1/sessions/s1/fork",
            "/v1/sessions/s1/compact", "/v1/sessions/s1/events", "/v1/sessions/s1/calls/1-3-0/result",
            "/v1/sessions/s1/approvals/approval-1-3-0", "/v1/approvals",
        ]).prop_map(str::to_owned),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => prop::sample::select(vec!["after", "before", "limit", "follow", "status", "tag", "agent", "wait"])
            .prop_map(str::to_owned),
        1 => "[a-z%&=+]{0,6}",
    ];
    let value = prop_oneof![
        prop::sample::select(vec![
            "0",
            "1",
            "18446744073709551615",
            "-1",
            "true",
            "false",
            "idle",
            "1ms",
            "x",
            "%FF",
            "",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,8}".prop_map(|text| text.replace(
            [' ', '#', '"', '<', '>', '`', '{', '}', '\\', '^', '|'],
            "+"
        )),
    ];
    prop::collection::vec((name, value), 0..3).prop_map(|pairs| {
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join("&")
    })
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "demo", "s1", "m1", "text", "file", "json", "url", "base64", "queue", "steer"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        8 => prop::sample::select(vec![
            "id", "agent", "content", "metadata", "tags", "when_busy", "turn_id", "replaces", "type",
            "text", "value", "media_type", "source", "kind", "data", "url", "output", "error",
            "approved", "reason", "at_seq", "active_tools", "inactive_tools", "tool_choice",
            "output_schema", "tool",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        5 => json().prop_map(|value| value.to_string().into_bytes()),
        1 => Just(br#"{"agent": "demo", "content": "hello", "id": "m1"}"#.to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (0_usize..300).prop_map(|depth| "[".repeat(depth).into_bytes()),
        1 => Just(Vec::new()),
    ]
}

fn wild() -> impl Strategy<Value = Wild> {
    let method = prop_oneof![
        6 => prop::sample::select(vec!["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"])
            .prop_map(str::to_owned),
        1 => "[A-Z]{1,8}",
    ];
    let name = prop::sample::select(vec![
        "content-type",
        "content-length",
        "content-encoding",
        "last-event-id",
        "idempotency-key",
        "authorization",
        "host",
        "origin",
        "accept",
        "x-anything",
    ])
    .prop_map(str::to_owned);
    let value = prop_oneof![
        prop::sample::select(vec![
            "application/json",
            "text/plain",
            "7",
            "localhost",
            "k1",
            "http://localhost",
            ""
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(32_u8..=255, 0..16),
    ];
    let headers = prop::collection::vec((name, value), 0..4);
    (method, route(), query(), headers, body()).prop_map(
        |(method, path, query, mut headers, body)| {
            // Most shall get past the content type.
            headers.push(("content-type".into(), b"application/json".to_vec()));
            let path = if query.is_empty() {
                path
            } else {
                format!("{path}?{query}")
            };
            Wild {
                method,
                path,
                headers,
                body,
            }
        },
    )
}

/// `None`: an HTTP parser would not let it through.
fn build(wild: &Wild) -> Option<Request<Body>> {
    let method = Method::from_bytes(wild.method.as_bytes()).ok()?;
    let mut request = Request::builder().method(method).uri(&wild.path);
    for (name, value) in &wild.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(value).ok()?;
        // One of them is enough for most, or all would be refused for the repetition.
        if name == header::CONTENT_TYPE && request.headers_ref()?.contains_key(&name) {
            continue;
        }
        request = request.header(name, value);
    }
    request.body(Body::from(wild.body.clone())).ok()
}

async fn check(world: &World, request: Request<Body>) {
    let head = request.method() == Method::HEAD;
    let answer = world.raw(request).await;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map(|kind| kind.to_str().unwrap().to_owned());
    if status.is_success() {
        // A stream need not end.
        return;
    }
    assert!(!status.is_server_error(), "{status} {headers:?}");
    assert_eq!(
        kind.as_deref(),
        Some("application/problem+json"),
        "{status}"
    );
    if head {
        return;
    }
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let problem: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(problem["status"], status.as_u16());
    let code = problem["code"].as_str().unwrap();
    let known = steadfast_api::ErrorCode::ALL
        .iter()
        .any(|error| error.code() == code);
    assert!(known, "{code}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn wild_requests_get_documented_answers(requests in prop::collection::vec(wild(), 40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::with(Options {
                limits: Limits { body_bytes_max: 4096, wait_ms_max: 5, ..Limits::default() },
                ..Options::default()
            })
            .await;
            world.session("s1").await;
            for wild in &requests {
                if let Some(request) = build(wild) {
                    check(&world, request).await;
                }
            }
            let metrics = world.get("/metrics").await.ok(200);
            let text = metrics.as_str().unwrap().to_owned();
            assert!(text.contains("steadfast_http_panics_total 0"), "{text}");
        });
    }
}
