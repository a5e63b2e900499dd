//! A node whose sessions are on a broker.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_nats_server::{NatsServer, Settings};
use steadfast_tests::product::Product;
use steadfast_tests::product::process::run;
use tokio::time::sleep;

const AGENTS: &str = "[providers.scripted]\nkind = \"scripted\"\n\
    [agents.a]\nmodel = \"scripted/demo\"\n";

fn store_on(server: &NatsServer) -> String {
    format!(
        "[store]\nkind = \"nats\"\n[store.nats]\nurl = {:?}\nmonitor_url = {:?}\n\
         replicas = 1\npartitions = 2\n",
        server.url(),
        server.monitor_url(),
    )
}

/// Says something and waits for the end of its turn.
async fn say(product: &Product, id: &str) -> Value {
    let body = json!({ "id": id, "agent": "a", "content": "hello" });
    let path = "/v1/sessions/s1/messages?wait=30s";
    product.client().post(path, &body).await.ok()
}

#[tokio::test]
async fn sessions_go_on_after_crashes_of_the_node_and_of_the_broker() {
    let mut server = NatsServer::start(Settings::default());
    let mut product = Product::prepare_on(&store_on(&server), AGENTS);
    product.start_again().await;
    assert_eq!(say(&product, "m1").await["state"], "completed");
    product.crash().await;
    assert_eq!(say(&product, "m2").await["state"], "completed");
    server.kill();
    server.restart();
    assert_eq!(say(&product, "m3").await["state"], "completed");
    product.terminate().await;
    product.start_again().await;
    let transcript = product.client().get("/v1/sessions/s1/messages").await.ok();
    let messages = transcript["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6, "{transcript}");
}

#[tokio::test]
async fn a_second_signal_stops_a_node_also_while_its_broker_is_away() {
    let mut server = NatsServer::start(Settings::default());
    let mut product = Product::prepare_on(&store_on(&server), AGENTS);
    product.start_again().await;
    assert_eq!(say(&product, "m1").await["state"], "completed");
    server.kill();
    product.signal(Signal::TERM);
    while !product.log().contains("a second signal stops at once") {
        // Another process gives no other sign than its log.
        sleep(Duration::from_millis(20)).await;
    }
    let status = product.terminate().await;
    assert!(status.success(), "{status}: {}", product.log());
}

#[tokio::test]
async fn a_broker_that_promises_too_little_is_refused_at_start() {
    let server = NatsServer::start(Settings {
        sync_always: false,
        ..Settings::default()
    });
    let product = Product::prepare_on(&store_on(&server), AGENTS);
    let config = product.folder().join("node.toml");
    let config = config.to_str().unwrap();
    let doctor = run(["doctor", "--config", config]).await;
    for output in [product.second().await, doctor] {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("sync_interval: always"), "{text}");
    }
}
