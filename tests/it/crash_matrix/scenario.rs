//! One cell, played: the turn runs up to the point, the process dies, another one goes on.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client::{Answer, Client};
use steadfast_tests::events::EventClient;
use steadfast_tests::ledger::{Behaviour, Entry, Ledger};
use steadfast_tests::product::Product;
use steadfast_tests::provider_events::Say;
use steadfast_tests::provider_server::{Answer as Reply, Asked};

use super::cell::{Cell, Point, Recovery, Rule};
use super::model::Model;

/// The session of every cell.
const SESSION: &str = "s1";
/// What the user says first; the model answers it with a call.
pub(super) const FIRST: &str = "please pay the bill";
/// What the user says when all is over; the model answers it with a text.
pub(super) const SECOND: &str = "and what happened?";
/// The last reply of the first turn.
pub(super) const LAST_REPLY: &str = "it is all done";

/// All that was seen of a cell.
pub(super) struct Played {
    pub(super) frames: Vec<steadfast_tests::events::Frame>,
    pub(super) entries: Vec<Entry>,
    pub(super) asked: Vec<Asked>,
    /// Where the first message stands at the end.
    pub(super) first: Value,
    /// Where the second message stands at the end.
    pub(super) second: Value,
}

/// Plays a cell.
pub(super) async fn play(cell: Cell) -> Played {
    let ledger = Ledger::start().await;
    let model = Model::start(cell.wire, replies(cell)).await;
    prepare(cell, &ledger, &model);
    let config = config(cell, &ledger, &model);
    let product = match cell.point.crash_point() {
        Some(point) => {
            let binary = env!("CARGO_BIN_EXE_crashing-node");
            Product::start_crashing(&config, binary, &point).await
        }
        None => Product::start(&config).await,
    };
    let client = product.client();
    let events = EventClient::follow(&client, SESSION);
    let mut scene = Scene {
        cell,
        ledger,
        model,
        product,
        client,
        events,
    };
    scene.reach_the_point().await;
    scene.go_on().await;
    scene.finish().await
}

struct Scene {
    cell: Cell,
    ledger: Ledger,
    model: Model,
    product: Product,
    client: Client,
    events: EventClient,
}

impl Scene {
    /// Runs up to the point; afterwards no process runs.
    async fn reach_the_point(&mut self) {
        // The process may die before it answers: then nothing is known, which is what is tested.
        let _ = self.send("m1", FIRST).await;
        match self.cell.point {
            Point::ApprovedNotStarted => {
                let approval = self.approval_asked().await;
                let _ = self.approve(&approval).await;
            }
            Point::CancelRecorded | Point::CancelNotRecorded => {
                self.tool_has_requests(1).await;
                let _ = self.cancel().await;
            }
            _ => {}
        }
        if self.cell.point.crash_point().is_some() {
            self.product.wait_dead().await;
            return;
        }
        self.wait_at_the_point().await;
        self.product.kill().await;
    }

    /// Waits for what shows from outside that the point is reached.
    async fn wait_at_the_point(&mut self) {
        match self.cell.point {
            Point::ModelCallOpen => self.model.wait_for(1).await,
            Point::CallRunningDone | Point::CallRunningUndone => self.tool_has_requests(1).await,
            Point::SomeCallsFinished => {
                self.tool_has_requests(3).await;
                self.event("call_settled").await;
            }
            Point::LastReplyStreaming => {
                let half = |frame: &steadfast_tests::events::Frame| {
                    frame.event == "delta" && frame.data["step"] == 2
                };
                self.events.wait_for("piece of the last reply", half).await;
            }
            Point::WaitingForApproval => {
                self.approval_asked().await;
            }
            // The other call of the step has its result.
            Point::WaitingForClient => self.event("call_settled").await,
            Point::QueuedBehind => {
                self.tool_has_requests(1).await;
                let receipt = self.send("m2", SECOND).await.unwrap().ok();
                assert_eq!(receipt["state"], "queued", "{receipt}");
            }
            Point::ModelBackoff => self.event("model_call_failed").await,
            Point::Compaction => {
                self.event("turn_ended").await;
                self.keyed("compact", "c1", &json!({})).await.unwrap().ok();
                self.model.wait_for(3).await;
            }
            other => panic!("{other:?} is reached by the process itself"),
        }
    }

    /// Starts the product again and does what a client would do that heard no answer.
    async fn go_on(&mut self) {
        self.ledger
            .usually("pay", Behaviour::Answer(json!({ "ok": true })));
        let cancels_again = self.cell.point == Point::CancelNotRecorded
            && self.cell.rule.recovery() == Recovery::RunAgain;
        if cancels_again {
            self.ledger.usually("pay", Behaviour::EffectThenSilence);
        }
        self.product.start_again().await;
        self.send("m1", FIRST).await.unwrap().ok();
        match self.cell.point {
            Point::WaitingForApproval | Point::ApprovedNotStarted => {
                let approval = self.approval_asked().await;
                self.approve(&approval).await.unwrap().ok();
            }
            Point::WaitingForClient => self.answer_for_the_client().await,
            Point::CancelNotRecorded if cancels_again => {
                self.tool_has_requests(2).await;
                self.cancel().await.unwrap().ok();
            }
            Point::Compaction => self.event("transcript_compacted").await,
            _ => {}
        }
        self.event("turn_ended").await;
    }

    /// Another turn on the same session, and all that was seen.
    async fn finish(mut self) -> Played {
        self.send("m2", SECOND).await.unwrap().ok();
        let path = format!("/v1/sessions/{SESSION}/messages/m2?wait=30s");
        let second = self.client.get(&path).await.ok();
        let first = self.client.receipt(SESSION, "m1").await;
        let session = self.client.get(&format!("/v1/sessions/{SESSION}")).await;
        let seq = session.ok()["seq"].clone();
        let reached = |frame: &steadfast_tests::events::Frame| {
            frame.is_committed() && frame.data["seq"].as_u64() >= seq.as_u64()
        };
        self.events.wait_for("the newest event", reached).await;
        // The second process ends in its own way: nothing is lost by an orderly end either.
        let status = self.product.terminate().await;
        assert!(status.success(), "{status}: {}", self.product.log());
        Played {
            frames: self.events.frames(),
            entries: self.ledger.entries(),
            asked: self.model.asked(),
            first,
            second,
        }
    }

    async fn send(&self, id: &str, text: &str) -> Result<Answer, reqwest::Error> {
        let body = json!({ "id": id, "agent": "clerk", "content": text });
        let path = format!("/v1/sessions/{SESSION}/messages");
        self.client
            .send(reqwest::Method::POST, &path, Some(&body))
            .await
    }

    async fn keyed(&self, route: &str, id: &str, body: &Value) -> Result<Answer, reqwest::Error> {
        let path = format!("/v1/sessions/{SESSION}/{route}");
        self.client.post_keyed(&path, id, body).await
    }

    async fn approve(&self, approval: &str) -> Result<Answer, reqwest::Error> {
        let body = json!({ "approved": true, "reason": "go ahead" });
        self.keyed(&format!("approvals/{approval}"), "a1", &body)
            .await
    }

    async fn cancel(&self) -> Result<Answer, reqwest::Error> {
        self.keyed("cancel", "x1", &json!({})).await
    }

    async fn answer_for_the_client(&self) {
        let session = self
            .client
            .get(&format!("/v1/sessions/{SESSION}/why"))
            .await
            .ok();
        let call = session["waiting"][0]["call"]
            .as_str()
            .unwrap_or_else(|| panic!("the session does not say which call waits: {session}"));
        let body = json!({ "output": { "answer": "by the client" } });
        let answer = self
            .keyed(&format!("calls/{call}/result"), "r1", &body)
            .await;
        answer.unwrap().ok();
    }

    /// The approval that waits, as the list of approvals tells it.
    async fn approval_asked(&self) -> String {
        self.event("approval_requested").await;
        let asked = steadfast_tests::joined::of_kind(&self.events.frames(), "approval_requested")
            .first()
            .map(|event| event["approval"].as_str().unwrap().to_owned());
        asked.unwrap()
    }

    async fn event(&self, kind: &str) {
        let is_it = |frame: &steadfast_tests::events::Frame| frame.event == kind;
        self.events.wait_for(kind, is_it).await;
    }

    /// Waits until tools were asked so often, checks not counted.
    async fn tool_has_requests(&self, count: usize) {
        let enough =
            |entries: &[Entry]| entries.iter().filter(|entry| !entry.check).count() >= count;
        self.ledger.wait_until("the tool's requests", enough).await;
    }
}

/// What tools and model do at first.
fn prepare(cell: Cell, ledger: &Ledger, model: &Model) {
    for tool in ["pay", "pay_b", "pay_c"] {
        if let Some(check) = cell.rule.check() {
            ledger.check_says(tool, check);
        }
    }
    match cell.point {
        Point::CallRunningDone
        | Point::CancelRecorded
        | Point::CancelNotRecorded
        | Point::QueuedBehind => {
            ledger.next("pay", Behaviour::EffectThenSilence);
        }
        Point::CallRunningUndone => ledger.next("pay", Behaviour::Silence),
        Point::SomeCallsFinished => {
            ledger.next("pay_b", Behaviour::EffectThenSilence);
            ledger.next("pay_c", Behaviour::Silence);
        }
        Point::ModelCallOpen => model.at_step(1, Reply::Silence),
        Point::LastReplyStreaming => model.at_step(2, model.half(&Say::text(LAST_REPLY))),
        Point::ModelBackoff => {
            let headers = vec![("retry-after".to_owned(), "2".to_owned())];
            model.at_step(1, Reply::Status(529, headers, String::new()));
        }
        Point::Compaction => model.in_compaction(Reply::Silence),
        _ => {}
    }
}

/// What the model says to the first message, step by step.
fn replies(cell: Cell) -> Vec<Say> {
    let input = json!({ "amount": 5 });
    let call = Say::call("pay", &input);
    let calls = match cell.point {
        Point::SomeCallsFinished => call.and_call("pay_b", &input).and_call("pay_c", &input),
        Point::WaitingForClient => call.and_call("ask_client", &input),
        _ => call,
    };
    vec![calls, Say::text(LAST_REPLY)]
}

fn config(cell: Cell, ledger: &Ledger, model: &Model) -> String {
    let mut config = format!(
        "{}api_key = \"env:STEADFAST_TEST_KEY\"\n\n\
         [agents.clerk]\nmodel = \"fake/model-1\"\ninstructions = \"You pay bills.\"\n\
         durability = \"{}\"\n\n",
        model.table(),
        cell.durability.as_str(),
    );
    for tool in ["pay", "pay_b", "pay_c"] {
        config.push_str(&tool_config(cell, tool, &ledger.tool_url(tool)));
    }
    config.push_str(
        "[[agents.clerk.tools]]\nname = \"ask_client\"\ndescription = \"Asks the client\"\n\
         input_schema = { type = \"object\" }\nclient = true\n\n",
    );
    config
}

fn tool_config(cell: Cell, tool: &str, url: &str) -> String {
    let check = match cell.rule {
        Rule::Safe | Rule::Keyed | Rule::Never => "",
        Rule::NeverCheckDone | Rule::NeverCheckNotDone | Rule::NeverCheckUnknown => {
            "check = true\n"
        }
    };
    let approval = match cell.point {
        Point::WaitingForApproval | Point::ApprovedNotStarted => "approval = \"user-approval\"\n",
        _ => "",
    };
    let patience = Duration::from_secs(60).as_secs();
    format!(
        "[[agents.clerk.tools]]\nname = \"{tool}\"\ndescription = \"Pays\"\nreplay = \"{}\"\n\
         {check}{approval}input_schema = {{ type = \"object\" }}\n\
         http = {{ url = \"{url}\", timeout = \"{patience}s\" }}\n\n",
        cell.rule.replay(),
    )
}
