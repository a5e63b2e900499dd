//! Events for a real receiver: signed, at least once over a crash, the same event under the same id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::http_server::{HttpServer, Request, Response};
use steadfast_tests::product::Product;
use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver that takes nothing until it is told to.
struct Receiver {
    server: HttpServer,
    takes: watch::Sender<bool>,
    got: Arc<Mutex<Vec<Request>>>,
    changed: watch::Receiver<()>,
}

impl Receiver {
    async fn start() -> Self {
        let (takes, got) = (watch::Sender::new(false), Arc::new(Mutex::new(Vec::new())));
        let (news, changed) = watch::channel(());
        let server = HttpServer::start({
            let (takes, got) = (takes.subscribe(), Arc::clone(&got));
            move |request| {
                got.lock().unwrap().push(request);
                news.send_replace(());
                let status = if *takes.borrow() { 204 } else { 503 };
                async move { Response::json(status, &Value::Null) }
            }
        })
        .await;
        Self {
            server,
            takes,
            got,
            changed,
        }
    }

    /// Waits until so many different events of a kind came.
    async fn until(&mut self, kind: &str, count: usize) -> BTreeMap<String, Value> {
        let came = async {
            loop {
                self.changed.borrow_and_update();
                let events = self.events(kind);
                if events.len() >= count {
                    return events;
                }
                self.changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, came)
            .await
            .expect("no such event came")
    }

    /// Events by their id; a repetition must be the same.
    fn events(&self, kind: &str) -> BTreeMap<String, Value> {
        let mut events = BTreeMap::new();
        for request in self.got.lock().unwrap().iter() {
            let body = request.json();
            let id = request.header("webhook-id").unwrap().to_owned();
            let timestamp = request.header("webhook-timestamp").unwrap();
            let text = std::str::from_utf8(&request.body).unwrap();
            let secret = steadfast_runtime::WebhookSecret::new(SECRET).unwrap();
            let expected = secret.signature(&id, timestamp.parse().unwrap(), text);
            assert_eq!(request.header("webhook-signature"), Some(expected.as_str()));
            if body["type"] == kind {
                let before = events.insert(id, body.clone());
                assert!(before.is_none_or(|before| before == body));
            }
        }
        events
    }

    fn requests(&self) -> usize {
        self.got.lock().unwrap().len()
    }
}

/// An agent whose turns wait for an approval, and where that is told.
fn agents(url: &str) -> String {
    format!(
        "[webhooks]\nurl = \"{url}/hook\"\nsecret = \"env:HOOK_SECRET\"\n\
         [providers.scripted]\nkind = \"scripted\"\n[agents.a]\nmodel = \"scripted/demo\"\n\
         [[agents.a.tools]]\nname = \"pay\"\ndescription = \"Pays\"\nclient = true\n\
         approval = \"user-approval\"\n"
    )
}

#[tokio::test]
async fn an_event_outlives_a_crash_under_its_id_and_no_turn_waits_for_it() {
    let mut receiver = Receiver::start().await;
    let mut product = Product::prepare(&agents(&receiver.server.url()));
    product.set_environment(vec![("HOOK_SECRET".to_owned(), SECRET.to_owned())]);
    product.start_again().await;

    let script = json!([{ "tool": "pay", "input": { "id": 7 } }, { "text": "done" }]);
    let client = product.client();
    client
        .message("s1", "a", "m1", &format!("SCRIPT: {script}"))
        .await
        .ok();
    let before = receiver.until("turn.waiting", 1).await;
    product.crash().await;
    let sent = receiver.requests();
    // The next owner sends it again, under the same id, while the receiver still takes nothing.
    while receiver.requests() == sent {
        receiver.changed.changed().await.unwrap();
    }
    assert_eq!(receiver.events("turn.waiting"), before);
    let (id, event) = before.into_iter().next().unwrap();
    let client = product.client();
    let session = client.get("/v1/sessions/s1").await.ok();
    let waiting = &session["waiting"][0];
    let expected = json!({
        "type": "turn.waiting", "at": event["at"], "data": {
            "tenant": "default", "session": "s1", "agent": "a", "message_id": "m1",
            "turn_id": session["turn"]["id"], "waiting_count": 1, "waiting": [{
                "call_id": waiting["call"], "tool": "pay", "for": "approval",
                "approval_id": waiting["approval"],
            }],
        },
    });
    assert_eq!(event, expected);

    // The turn goes on and ends, though nothing was ever taken.
    let path = format!(
        "/v1/sessions/s1/approvals/{}",
        waiting["approval"].as_str().unwrap()
    );
    client.post(&path, &json!({ "approved": false })).await.ok();
    let ended = client
        .get("/v1/sessions/s1/messages/m1?wait=30s")
        .await
        .ok();
    assert_eq!(ended["state"], "completed");
    receiver.takes.send_replace(true);
    let completed = receiver.until("turn.completed", 1).await;
    assert!(!completed.contains_key(&id));

    // What was taken is not sent again: the outbox is empty, over another crash too.
    let delivered = |log: &Value| log.to_string().matches("notice_delivered").count();
    while delivered(&client.get("/v1/sessions/s1/log").await.ok()) < 2 {
        tokio::task::yield_now().await;
    }
    let sent = receiver.requests();
    product.crash().await;
    let client = product.client();
    client.message("s2", "a", "m1", "hello").await.ok();
    let of_s2 = |events: BTreeMap<String, Value>| {
        events
            .values()
            .any(|event| event["data"]["session"] == "s2")
    };
    while !of_s2(receiver.until("turn.completed", 2).await) {}
    assert_eq!(receiver.requests(), sent + 1);
    // It is counted when the node has read the receiver's answer.
    let counted = async {
        while !metrics(&client)
            .await
            .contains("steadfast_webhook_taken_total 1\n")
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, counted)
        .await
        .expect("what was taken is counted");
}

async fn metrics(client: &Client) -> String {
    let body = client.get("/metrics").await.body;
    body.as_str().unwrap().to_owned()
}
