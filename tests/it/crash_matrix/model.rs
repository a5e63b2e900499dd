//! The model of the matrix: what it says follows from what it is asked, so that a repeated request
//! gets the same reply, except for single requests that are made to go wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use steadfast_tests::provider_events::{Say, Wire};
use steadfast_tests::provider_server::{Answer, Asked, ProviderServer};

use super::scenario::FIRST;

/// Longer than the reply takes otherwise, so that a crash falls within it.
const PIECE_PAUSE: Duration = Duration::from_millis(2);
const PIECE_BYTES: usize = 64;

/// A model behind a provider.
pub(super) struct Model {
    server: ProviderServer,
    wire: Wire,
    trouble: Arc<Mutex<Trouble>>,
}

/// Answers to be given once, instead of the usual one.
#[derive(Default)]
struct Trouble {
    /// By step of the first message's turn, from 1.
    at_step: BTreeMap<usize, Answer>,
    in_compaction: Option<Answer>,
}

impl Model {
    /// Starts a model that says these replies to the first message, step by step.
    pub(super) async fn start(wire: Wire, replies: Vec<Say>) -> Self {
        let trouble = Arc::new(Mutex::new(Trouble::default()));
        let once = Arc::clone(&trouble);
        let plan = move |asked: &Asked| answer(asked, &replies, &mut once.lock().unwrap());
        Self {
            server: ProviderServer::start_following(plan).await,
            wire,
            trouble,
        }
    }

    /// Its table of the configuration, under the name `fake`.
    pub(super) fn table(&self) -> String {
        self.server.table("fake", self.wire)
    }

    /// The next request of this step of the first turn gets this answer.
    pub(super) fn at_step(&self, step: usize, answer: Answer) {
        self.trouble.lock().unwrap().at_step.insert(step, answer);
    }

    /// The next request for a summary gets this answer.
    pub(super) fn in_compaction(&self, answer: Answer) {
        self.trouble.lock().unwrap().in_compaction = Some(answer);
    }

    /// Waits until it was asked so often.
    pub(super) async fn wait_for(&self, requests: usize) {
        self.server.wait_for(requests).await;
    }

    /// All it was asked.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.server.asked()
    }

    /// The first half of a reply, and then nothing more.
    pub(super) fn half(&self, say: &Say) -> Answer {
        let events = say.events(self.wire, 0);
        let ends: Vec<usize> = events.match_indices("\n\n").map(|(at, _)| at + 2).collect();
        // Up to the first piece of text, whatever the wire says before it.
        let text = events.find("it is").expect("the reply has its text");
        let end = ends.iter().find(|end| **end > text).expect("it goes on");
        Answer::EventsThenSilence(events[..*end].to_owned())
    }
}

fn answer(asked: &Asked, replies: &[Say], trouble: &mut Trouble) -> Answer {
    if is_compaction(&asked.body) {
        let usual = || Answer::Says(Say::text("The user had a bill paid."));
        return trouble.in_compaction.take().unwrap_or_else(usual);
    }
    let Some(step) = step_of_first(&asked.body) else {
        return Answer::Says(Say::text("nothing else happened"));
    };
    if let Some(once) = trouble.at_step.remove(&step) {
        return once;
    }
    match replies.get(step - 1) {
        Some(say) => Answer::SaysSlowly(say.clone(), PIECE_BYTES, PIECE_PAUSE),
        None => Answer::Says(Say::text("there is no more to say")),
    }
}

/// A request for a summary offers no tools.
pub(super) fn is_compaction(body: &Value) -> bool {
    body["tools"].as_array().is_none_or(Vec::is_empty)
}

/// Step of the first message's turn; `None`: a later message is being answered.
fn step_of_first(body: &Value) -> Option<usize> {
    let messages = body["messages"].as_array().expect("messages");
    let mut steps = None;
    for message in messages {
        if message["role"] == "assistant" {
            steps = steps.map(|steps: usize| steps + 1);
        } else if message["role"] == "user" {
            let text = message["content"].to_string();
            if text.contains(FIRST) {
                steps = Some(1);
            } else if text.contains(super::scenario::SECOND) {
                steps = None;
            }
        }
    }
    steps
}
