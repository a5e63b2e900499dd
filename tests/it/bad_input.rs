//! Bad input over a real socket: every answer is a problem with a stable code, and the node is as
//! well afterwards as before.

mod fuzz;
mod malformed;
mod socket;

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::product::Product;
use tokio::task::JoinSet;

use self::socket::{Answer, exchange, request};

const AGENTS: &str = "[api]\nbody_bytes_max = 65536\ntenant_streams_max = 2\n\
    [providers.scripted]\nkind = \"scripted\"\n\
    [agents.a]\nmodel = \"scripted/demo\"\nqueue_max = 2\n";

/// It served all that came, panicked at none, and serves on.
async fn check_well(product: &mut Product) {
    let client = product.client();
    let body = json!({ "id": "after-all", "agent": "a", "content": "hello" });
    let path = "/v1/sessions/after-all/messages?wait=30s";
    assert_eq!(client.post(path, &body).await.ok()["state"], "completed");
    let metrics = client.get("/metrics").await.ok();
    let metrics = metrics.as_str().unwrap();
    assert!(
        metrics.contains("steadfast_http_panics_total 0"),
        "{metrics}"
    );
    let log = product.log();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(
        product.terminate().await.code(),
        Some(0),
        "{}",
        product.log()
    );
}

/// Every route with every method it has, its parameters filled in.
async fn routes(client: &Client) -> Vec<(String, String)> {
    let document = client.get("/openapi.json").await.ok();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if ["get", "put", "post", "delete"].contains(&method.as_str()) {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

/// Fills the parameters of a path.
fn filled(path: &str, with: impl Fn(&str) -> String) -> String {
    let part = |part: &str| match part.strip_prefix('{') {
        Some(name) => with(name.trim_end_matches('}')),
        None => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// What is right for a parameter.
fn right(name: &str) -> String {
    match name {
        "agent" => "a",
        "approval" => "approval-1-2-3",
        "call" => "1-2-3",
        "hash" => "0000000000000000000000000000000000000000000000000000000000000000",
        "message" => "m1",
        _ => "s1",
    }
    .to_owned()
}

/// One bad request: the bytes, what they are, the codes that may answer.
type Bad = (Vec<u8>, String, &'static [&'static str]);

/// What a route refuses.
fn bad_requests(method: &str, path: &str) -> Vec<Bad> {
    let good = filled(path, right);
    let mut bad: Vec<Bad> = Vec::new();
    let long = "x".repeat(200);
    let odd_ids = [
        "%FF",
        "a%20b",
        "a%2Fb",
        "%00",
        &long,
        "..%2F..",
        "%E2%98%83",
    ];
    for odd in odd_ids.into_iter().filter(|_| path.contains('{')) {
        let path = filled(path, |_| odd.to_owned());
        // A body is looked at before the path on some routes.
        let codes = &["path_invalid", "field_missing"];
        let bytes = request(method, &path, b"{}");
        bad.push((bytes, format!("{method} {path}"), codes));
    }
    let brew = request("BREW", &good, b"");
    bad.push((brew, format!("BREW {good}"), &["method_not_allowed"]));
    if path.starts_with("/v1") && method == "GET" {
        let path = format!("{good}?nonsense=1");
        let bytes = request("GET", &path, b"");
        bad.push((bytes, format!("GET {path}"), &["query_invalid"]));
    }
    if path.starts_with("/v1") && ["POST", "PUT"].contains(&method) {
        // A chat page may send fields of its own, which are not looked at.
        let is_open = path.contains("/chat");
        let bodies = bodies().into_iter();
        for (body, codes) in
            bodies.filter(|(_, codes)| !is_open || !codes.contains(&"field_unknown"))
        {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let bytes = request(method, &good, &body);
            bad.push((bytes, format!("{method} {good} {shown}"), codes));
        }
    }
    bad
}

#[tokio::test]
async fn each_route_refuses_each_bad_input_with_a_code() {
    let mut product = Product::start(AGENTS).await;
    let address = product.address();
    let client = product.client();
    client.message("s1", "a", "m1", "hello").await.ok();
    let slow = tokio::spawn(socket::slow_body(address));
    let mut asked = JoinSet::new();
    for (method, path) in routes(&client).await {
        for (bytes, what, codes) in bad_requests(&method, &path) {
            asked.spawn(async move { (exchange(address, &bytes).await, what, codes) });
        }
    }
    let mut faults = Vec::new();
    while let Some(done) = asked.join_next().await {
        let (answer, what, codes) = done.unwrap();
        if let Err(fault) = is_problem(&answer, codes) {
            faults.push(format!("{what}: {fault}"));
        }
    }
    let count = faults.len();
    assert!(faults.is_empty(), "{count} faults:\n{}", faults.join("\n"));
    let answer = slow.await.unwrap();
    assert_eq!(is_problem(&answer, &["body_timeout"]), Ok(()));
    check_well(&mut product).await;
}

/// Bodies that no route takes, with the codes that may say so.
fn bodies() -> Vec<(Vec<u8>, &'static [&'static str])> {
    let deep = format!(
        "{{\"content\": {}1{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let fields: &[&str] = &["field_unknown", "field_missing", "field_invalid"];
    vec![
        (b"{".to_vec(), &["body_not_json"]),
        (
            b"{\"content\": \"x\"} {}".to_vec(),
            &["body_not_json", "field_missing", "field_unknown"],
        ),
        (b"\xff\xfe".to_vec(), &["body_not_utf8"]),
        (b"{\"content\": \"\xc3\x28\"}".to_vec(), &["body_not_utf8"]),
        (
            b"{\"content\": \"\\ud800\"}".to_vec(),
            &["body_not_json", "field_invalid", "field_unknown"],
        ),
        (deep.into_bytes(), &["body_too_deep"]),
        (vec![b'['; 60_000], &["body_too_deep"]),
        (vec![b' '; 70_000], &["body_too_large"]),
        (b"[]".to_vec(), &["field_invalid"]),
        (b"7".to_vec(), &["field_invalid"]),
        (b"\"text\"".to_vec(), &["field_invalid"]),
        (b"{\"no_such_field\": 1}".to_vec(), fields),
        (
            b"{\"a\": 1, \"a\": 2}".to_vec(),
            &["field_duplicate", "field_unknown", "field_missing"],
        ),
        (
            format!("{{\"{}\": 1}}", "k".repeat(30_000)).into_bytes(),
            fields,
        ),
        (
            b"{\"agent\": 1e999, \"content\": 1e999}".to_vec(),
            &[
                "body_not_json",
                "field_invalid",
                "field_unknown",
                "field_missing",
            ],
        ),
    ]
}

/// Whether an answer is a problem with one of these codes, or with any if none is given.
fn is_problem(answer: &Answer, codes: &[&str]) -> Result<(), String> {
    let told = format!(
        "{} {:?} {}",
        answer.status,
        answer.content_type,
        answer.text()
    );
    if !(400..500).contains(&answer.status) {
        return Err(told);
    }
    if answer.content_type.as_deref() != Some("application/problem+json") {
        return Err(told);
    }
    let body: Value =
        serde_json::from_slice(&answer.body).map_err(|error| format!("{error}: {told}"))?;
    let code = body["code"].as_str().ok_or(told.clone())?;
    let fits = codes.is_empty() || codes.contains(&code);
    if fits && body["status"] == answer.status {
        Ok(())
    } else {
        Err(told)
    }
}

#[tokio::test]
async fn too_much_is_told_with_429() {
    let mut product = Product::start(AGENTS).await;
    let client = product.client();
    let hang = "SCRIPT: [{\"hang\": 60}]";
    client.message("s1", "a", "m0", hang).await.ok();
    let mut answers = Vec::new();
    for number in 1..6 {
        answers.push(
            client
                .message("s1", "a", &format!("m{number}"), "hello")
                .await,
        );
    }
    let refused = answers.iter().filter(|answer| !answer.status.is_success());
    let refused: Vec<_> = refused
        .map(|answer| (answer.status.as_u16(), answer.code()))
        .collect();
    assert_eq!(refused, [(429, Some("queue_full")); 3]);

    let url = client.url("/v1/sessions/s1/events");
    let http = steadfast_tests::client::http();
    let first = http.get(&url).send().await.unwrap();
    let second = http.get(&url).send().await.unwrap();
    let third = client.get("/v1/sessions/s1/events").await;
    let found = (third.status.as_u16(), third.code());
    assert_eq!(found, (429, Some("tenant_streams_full")));
    drop((first, second));
    // The place comes free once the node has noticed.
    let free = async {
        while !http.get(&url).send().await.unwrap().status().is_success() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), free)
        .await
        .unwrap();
    client.post("/v1/sessions/s1/cancel", &json!({})).await.ok();
    check_well(&mut product).await;
}
