//! Remote tools at a real broker: nodes with one role each, and workers in another language.

mod payments;
mod python;

use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_nats_server::{NatsServer, Settings};
use steadfast_tests::events::EventClient;
use steadfast_tests::left_out;
use steadfast_tests::product::Product;

use payments::Payments;
use python::PythonWorker;

fn store_on(server: &NatsServer) -> String {
    format!(
        "[store]\nkind = \"nats\"\n[store.nats]\nurl = {:?}\nmonitor_url = {:?}\n\
         replicas = 1\npartitions = 2\n",
        server.url(),
        server.monitor_url(),
    )
}

/// The agent of the example's own configuration, on the scripted model.
fn agents() -> String {
    let example = include_str!("../../deploy/examples/python-worker/agent.toml");
    format!("[providers.scripted]\nkind = \"scripted\"\n{example}")
}

/// A node that runs none of the tools, its broker, and the service that the tools ask.
struct World {
    server: NatsServer,
    payments: Payments,
    product: Product,
}

impl World {
    async fn start() -> Self {
        let server = NatsServer::start(Settings::default());
        let payments = Payments::start().await;
        let mut product = Product::prepare_on(&store_on(&server), &agents());
        product.start_again().await;
        Self {
            server,
            payments,
            product,
        }
    }

    async fn worker(&self, name: &str) -> Result<PythonWorker, String> {
        PythonWorker::start(&self.server, &self.payments.url(), name).await
    }

    /// Has a tool called.
    async fn call(&self, message: &str, tool: &str, input: Value) {
        let script = json!([{ "tool": tool, "input": input }, { "text": "done" }]);
        let content = format!("SCRIPT: {script}");
        let body = json!({ "id": message, "agent": "shop", "content": content });
        let path = "/v1/sessions/s1/messages";
        self.product.client().post(path, &body).await.ok();
    }

    /// Waits for the end of a message's turn.
    async fn end_of(&self, message: &str) -> Value {
        let path = format!("/v1/sessions/s1/messages/{message}");
        let events = EventClient::follow(&self.product.client(), "s1");
        let receipt = |receipt: &Value| {
            let state = receipt["state"].as_str().unwrap_or_default();
            !matches!(state, "accepted" | "queued" | "running")
        };
        let client = self.product.client();
        let mut ended = 0;
        loop {
            let now = client.get(&path).await.ok();
            if receipt(&now) {
                return now;
            }
            ended += 1;
            let ends = |events: &EventClient| {
                let frames = events.frames();
                let ends = frames.iter().filter(|frame| frame.event == "turn_ended");
                ends.count()
            };
            events
                .wait_for("turn_ended", |_| ends(&events) >= ended)
                .await;
        }
    }

    /// What the calls came to, in order.
    async fn outputs(&self) -> Vec<Value> {
        let log = self.product.client().get("/v1/sessions/s1/log").await.ok();
        let text = log.to_string();
        assert!(text.contains("call_settled"), "{text}");
        let mut outputs = Vec::new();
        collect(&log, &mut outputs);
        outputs
    }
}

/// The events in a log that settle calls.
fn collect(value: &Value, outputs: &mut Vec<Value>) {
    match value {
        Value::Object(fields) => {
            if fields.get("type") == Some(&json!("call_settled")) {
                outputs.push(value.clone());
            }
            fields.values().for_each(|field| collect(field, outputs));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, outputs)),
        _ => {}
    }
}

#[tokio::test]
async fn a_python_worker_tells_how_far_it_is_and_answers() {
    let world = World::start().await;
    let worker = match world.worker("a").await {
        Ok(worker) => worker,
        Err(why) => return left_out::say("a_python_worker_tells_how_far_it_is_and_answers", &why),
    };
    worker.until_it_says("takes jobs of render_report").await;
    let input = json!({ "pages": 3, "seconds_a_page": 0.5 });
    world.call("m1", "render_report", input).await;
    let events = EventClient::follow(&world.product.client(), "s1");
    let shown = events
        .wait_for("progress", |frame| {
            frame.event == "delta" && frame.data.to_string().contains("\"of\":3")
        })
        .await;
    assert_eq!(shown.data["delta"]["type"], "tool_progress", "{shown:?}");
    assert_eq!(world.end_of("m1").await["state"], "completed");
    let outputs = world.outputs().await;
    assert!(
        outputs[0].to_string().contains("\"pages\":3"),
        "{outputs:?}"
    );
}

#[tokio::test]
async fn a_never_call_runs_once_though_its_worker_stood_still_until_it_came_again() {
    let world = World::start().await;
    let first = match world.worker("first").await {
        Ok(worker) => worker,
        Err(why) => {
            let test = "a_never_call_runs_once_though_its_worker_stood_still_until_it_came_again";
            return left_out::say(test, &why);
        }
    };
    world.call("m1", "charge_card", json!({ "cents": 5 })).await;
    world.payments.until_asked(1).await;
    first.signal(Signal::STOP);
    let second = world.worker("second").await.unwrap();
    // The job came again, and was seen to be the first one's.
    second.until_it_says(" is first-").await;
    world.payments.open();
    first.signal(Signal::CONT);
    assert_eq!(world.end_of("m1").await["state"], "completed");
    let [(path, key)] = &world.payments.asked()[..] else {
        panic!("{:?}", world.payments.asked());
    };
    assert_eq!(path, "/charges");
    let outputs = world.outputs().await;
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0]["settlement"], "done");
    assert!(outputs[0].to_string().contains(key.as_str()), "{outputs:?}");
}

#[tokio::test]
async fn a_keyed_call_whose_worker_died_runs_again_under_its_key() {
    let world = World::start().await;
    let first = match world.worker("first").await {
        Ok(worker) => worker,
        Err(why) => {
            let test = "a_keyed_call_whose_worker_died_runs_again_under_its_key";
            return left_out::say(test, &why);
        }
    };
    world
        .call("m1", "send_invoice", json!({ "order": "7" }))
        .await;
    world.payments.until_asked(1).await;
    first.kill().await;
    let second = world.worker("second").await.unwrap();
    world.payments.until_asked(2).await;
    world.payments.open();
    assert_eq!(world.end_of("m1").await["state"], "completed");
    let asked = world.payments.asked();
    assert_eq!(asked[0], asked[1]);
    assert_eq!(asked.len(), 2);
    drop(second);
}

#[tokio::test]
async fn a_cancel_reaches_a_python_worker_and_its_broker_may_go_and_come() {
    let mut world = World::start().await;
    let worker = match world.worker("a").await {
        Ok(worker) => worker,
        Err(why) => {
            let test = "a_cancel_reaches_a_python_worker_and_its_broker_may_go_and_come";
            return left_out::say(test, &why);
        }
    };
    worker.until_it_says("takes jobs of render_report").await;
    world.server.kill();
    worker.until_it_says("broker lost").await;
    world.server.restart();
    worker.until_it_says("broker is back").await;
    let input = json!({ "pages": 1_000, "seconds_a_page": 0.1 });
    world.call("m1", "render_report", input).await;
    let events = EventClient::follow(&world.product.client(), "s1");
    events
        .wait_for("progress", |frame| {
            frame.event == "delta" && frame.data.to_string().contains("\"of\":1000")
        })
        .await;
    let cancel = world.product.client();
    cancel.post("/v1/sessions/s1/cancel", &json!({})).await.ok();
    worker.until_it_says("is not wanted any more").await;
    worker.until_it_says("attempt 1: done").await;
    assert_eq!(world.end_of("m1").await["state"], "cancelled");
}

/// A node with these roles.
async fn node(server: &NatsServer, roles: &str, more: &str, agents: &str) -> Product {
    let store = format!("roles = {roles}\n{more}\n{}", store_on(server));
    let mut product = Product::prepare_on(&store, agents);
    product.start_again().await;
    product
}

async fn metric(product: &Product, name: &str) -> f64 {
    let url = product.client().url("/metrics");
    let text = steadfast_tests::client::http().get(url).send().await;
    let text = text.unwrap().text().await.unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .parse()
        .unwrap()
}

#[tokio::test]
async fn three_nodes_with_a_role_each_do_together_what_one_does_alone() {
    let server = NatsServer::start(Settings::default());
    let payments = Payments::start().await;
    payments.open();
    let agents = format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.shop]\nmodel = \"scripted/demo\"\n\
         [[agents.shop.tools]]\nname = \"charge\"\ndescription = \"Charges\"\nremote = true\n\
         http = {{ url = \"{}/charges\" }}\n",
        payments.url()
    );
    let api = node(&server, "[\"api\"]", "handover_after = \"0s\"", &agents).await;
    let driver = node(&server, "[\"driver\"]", "", &agents).await;
    let worker = node(&server, "[\"worker\"]", "", &agents).await;
    let script = json!([{ "tool": "charge", "input": {} }, { "text": "done" }]);
    let body = json!({ "id": "m1", "agent": "shop", "content": format!("SCRIPT: {script}") });
    let path = "/v1/sessions/s1/messages?wait=30s";
    let receipt = api.client().post(path, &body).await.ok();
    assert_eq!(receipt["state"], "completed", "{receipt}");
    assert_eq!(payments.asked().len(), 1);
    for other in [&driver, &worker] {
        let answer = other.client().get("/v1/agents").await;
        assert_eq!(answer.code(), Some("path_not_found"));
    }
    for (name, counts) in [
        ("steadfast_sessions_in_memory", [0.0, 1.0, 0.0]),
        ("steadfast_jobs_queued_total", [0.0, 1.0, 0.0]),
        ("steadfast_jobs_claimed_total", [0.0, 0.0, 1.0]),
        ("steadfast_jobs_answered_total", [0.0, 0.0, 1.0]),
    ] {
        let mut found = Vec::new();
        for node in [&api, &driver, &worker] {
            found.push(metric(node, name).await);
        }
        assert_eq!(found, counts, "{name}");
    }
}

#[tokio::test]
async fn a_node_that_is_started_again_goes_on_at_once_with_what_it_had() {
    let server = NatsServer::start(Settings::default());
    let payments = Payments::start().await;
    let agents = format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.shop]\nmodel = \"scripted/demo\"\n\
         [[agents.shop.tools]]\nname = \"invoice\"\ndescription = \"Invoices\"\nreplay = \"keyed\"\n\
         http = {{ url = \"{}/invoices\" }}\n",
        payments.url()
    );
    let mut product = Product::prepare_on(&store_on(&server), &agents);
    product.start_again().await;
    let script = json!([{ "tool": "invoice", "input": {} }, { "text": "done" }]);
    let body = json!({ "id": "m1", "agent": "shop", "content": format!("SCRIPT: {script}") });
    product
        .client()
        .post("/v1/sessions/s1/messages", &body)
        .await
        .ok();
    payments.until_asked(1).await;
    product.crash().await;
    payments.until_asked(2).await;
    let log = product.log();
    assert!(log.contains("predecessor is gone"), "{log}");
    assert!(!log.contains("is taken for dead"), "{log}");
}
