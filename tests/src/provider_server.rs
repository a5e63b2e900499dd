//! A model provider that speaks all three wires and says what a test wants.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::http_server::{HttpServer, Request, Response};
use crate::provider_events::{Say, Wire};
use crate::provider_rules::violation;

/// How long a test waits for requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request for a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Over which wire.
    pub wire: Wire,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
    /// Why no real provider takes it: it was refused with 400.
    pub violation: Option<String>,
}

impl Asked {
    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What is done about a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The model says this.
    Says(Say),
    /// The model says this, in pieces of so many bytes with a pause between them.
    SaysSlowly(Say, usize, Duration),
    /// These bytes are sent as events, in pieces of so many bytes.
    Events(String, usize),
    /// These bytes are sent as events, then the connection breaks.
    EventsThenCut(String),
    /// These bytes are sent as events, then nothing more comes.
    EventsThenSilence(String),
    /// An error.
    Status(u16, Vec<(String, String)>, String),
    /// No answer.
    Silence,
    /// The connection breaks without an answer.
    Cut,
}

impl Answer {
    /// An error without more.
    pub fn status(status: u16) -> Self {
        Self::Status(status, Vec::new(), String::new())
    }
}

type Plan = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A running provider; dropping it ends it.
#[derive(Debug)]
pub struct ProviderServer {
    server: HttpServer,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    planned: Mutex<VecDeque<Answer>>,
    asked: watch::Sender<Vec<Asked>>,
    replies: AtomicU64,
}

impl ProviderServer {
    /// A provider that gives the answers that [`Self::next`] plans, each to one request. A request
    /// without a planned answer, or one that no real provider takes, is refused as a bad one.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// A provider whose answers follow from the requests, after those that [`Self::next`] plans.
    pub async fn start_following(plan: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(Some(Arc::new(plan))).await
    }

    async fn start_with(plan: Option<Plan>) -> Self {
        let state = Arc::new(State {
            planned: Mutex::default(),
            asked: watch::channel(Vec::new()).0,
            replies: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        let server = HttpServer::start(move |request| {
            let (state, plan) = (Arc::clone(&shared), plan.clone());
            async move { state.answer(&request, plan) }
        })
        .await;
        Self { server, state }
    }

    /// The `base_url` for a wire.
    pub fn base_url(&self, wire: Wire) -> String {
        match wire {
            Wire::Anthropic => self.server.url(),
            Wire::OpenAiChat | Wire::OpenAiResponses => format!("{}/v1", self.server.url()),
        }
    }

    /// A `[providers.NAME]` table of a configuration.
    pub fn table(&self, name: &str, wire: Wire) -> String {
        format!(
            "[providers.{name}]\nkind = {:?}\nbase_url = {:?}\n",
            wire.kind(),
            self.base_url(wire)
        )
    }

    /// Plans the answer to the next request without one.
    pub fn next(&self, answer: Answer) {
        self.state.planned.lock().unwrap().push_back(answer);
    }

    /// Plans what the model says next.
    pub fn says(&self, say: Say) {
        self.next(Answer::Says(say));
    }

    /// All requests so far, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.borrow().clone()
    }

    /// Waits until there were so many requests, and gives them.
    pub async fn wait_for(&self, count: usize) -> Vec<Asked> {
        let mut asked = self.state.asked.subscribe();
        let waiting = asked.wait_for(|asked| asked.len() >= count);
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(asked) => asked.unwrap().clone(),
            Err(_) => panic!("no {count} requests but {}", self.asked().len()),
        }
    }
}

impl State {
    fn answer(&self, request: &Request, plan: Option<Plan>) -> Response {
        let Some(wire) = Wire::of_path(&request.path).filter(|_| request.method == "POST") else {
            return whole(404, Vec::new(), "no such path".to_owned());
        };
        let body = request.json();
        let asked = Asked {
            wire,
            headers: request.headers.clone(),
            violation: violation(wire, &body),
            body,
        };
        if let Some(violation) = asked.violation.clone() {
            self.asked.send_modify(|all| all.push(asked));
            return whole(400, Vec::new(), violation);
        }
        let planned = self.planned.lock().unwrap().pop_front();
        let answer = planned.or_else(|| plan.map(|plan| plan(&asked)));
        self.asked.send_modify(|all| all.push(asked));
        let no_pause = Duration::ZERO;
        match answer {
            Some(Answer::Says(say)) => {
                let events = self.say(&say, wire);
                stream(events, usize::MAX, no_pause, Ending::Orderly)
            }
            Some(Answer::SaysSlowly(say, bytes, pause)) => {
                let events = self.say(&say, wire);
                stream(events, bytes, pause, Ending::Orderly)
            }
            Some(Answer::Events(events, bytes)) => stream(events, bytes, no_pause, Ending::Orderly),
            Some(Answer::EventsThenCut(events)) => {
                stream(events, usize::MAX, no_pause, Ending::Cut)
            }
            Some(Answer::EventsThenSilence(events)) => {
                stream(events, usize::MAX, no_pause, Ending::Silence)
            }
            Some(Answer::Status(status, headers, body)) => whole(status, headers, body),
            Some(Answer::Silence) => Response::Silence,
            Some(Answer::Cut) => Response::Cut,
            None => whole(400, Vec::new(), "the test planned no answer".to_owned()),
        }
    }

    fn say(&self, say: &Say, wire: Wire) -> String {
        say.events(wire, self.replies.fetch_add(1, Ordering::Relaxed))
    }
}

fn whole(status: u16, headers: Vec<(String, String)>, body: String) -> Response {
    Response::Whole {
        status,
        headers,
        body: Bytes::from(body),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Orderly,
    Cut,
    Silence,
}

fn stream(events: String, piece_bytes: usize, pause: Duration, ending: Ending) -> Response {
    let (sender, pieces) = mpsc::channel(16);
    let mut rest = Bytes::from(events);
    // It ends with its channel: the other side's going away closes that.
    tokio::spawn(async move {
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(piece_bytes));
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        match ending {
            Ending::Orderly => {}
            Ending::Cut => {
                let _ = sender.send(Err(io::Error::other("cut"))).await;
            }
            Ending::Silence => sender.closed().await,
        }
    });
    Response::Stream {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        pieces,
    }
}
