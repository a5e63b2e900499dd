//! A tool outside the product that counts what was really done: a `POST` has its effect when the
//! ledger says so, whatever the caller gets to hear. Once its check said of a key that nothing
//! happened, requests under that key whose fence is not above that of the check are refused.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::http_server::{HttpServer, Request, Response};

/// Longer than anything in a test may take, shorter than the runner's own limit.
const PATIENCE: Duration = Duration::from_secs(45);

/// What the ledger does with one request of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Behaviour {
    /// It has its effect and answers.
    Answer(Value),
    /// It has its effect, answers after this time.
    Delay(Duration, Value),
    /// It has its effect and never answers.
    EffectThenSilence,
    /// It has its effect and closes the connection.
    EffectThenCut,
    /// It does nothing and never answers.
    Silence,
    /// It does nothing and closes the connection.
    Cut,
    /// It does nothing and answers with this status.
    Status(u16),
}

/// What the ledger's check says.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// It happened; the result.
    Done(Value),
    /// It did not happen.
    NotDone,
    /// Nobody knows.
    Unknown,
    /// What the ledger really knows of the key.
    Truth,
}

/// One request that reached the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the tool: the first part of the path.
    pub tool: String,
    /// Whether it was a check.
    pub check: bool,
    /// The key of the call.
    pub key: String,
    /// The request.
    pub request: Request,
    /// Whether it had its effect.
    pub effect: bool,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    next: BTreeMap<String, VecDeque<Behaviour>>,
    usual: BTreeMap<String, Behaviour>,
    checks: BTreeMap<String, Check>,
    /// By key, up to which fence requests are refused.
    refused_up_to: BTreeMap<String, String>,
}

/// A running ledger.
#[derive(Debug)]
pub struct Ledger {
    server: HttpServer,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl Ledger {
    /// Starts a ledger; a tool that nothing is said of answers `{"ok": true}`.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let changed = watch::Sender::new(());
        let (for_server, signal) = (Arc::clone(&state), changed.clone());
        let server = HttpServer::start(move |request| {
            let action = take(&for_server, request);
            signal.send_replace(());
            act(action)
        })
        .await;
        Self {
            server,
            state,
            changed,
        }
    }

    /// Where a tool is called.
    pub fn tool_url(&self, tool: &str) -> String {
        format!("{}/{tool}", self.server.url())
    }

    /// What a tool does from now on.
    pub fn usually(&self, tool: &str, behaviour: Behaviour) {
        self.with(|state| state.usual.insert(tool.to_owned(), behaviour));
    }

    /// What a tool does with its next request only.
    pub fn next(&self, tool: &str, behaviour: Behaviour) {
        self.with(|state| {
            let next = state.next.entry(tool.to_owned()).or_default();
            next.push_back(behaviour);
        });
    }

    /// What a tool's check says from now on.
    pub fn check_says(&self, tool: &str, check: Check) {
        self.with(|state| state.checks.insert(tool.to_owned(), check));
    }

    /// All requests so far, in the order of their arrival.
    pub fn entries(&self) -> Vec<Entry> {
        self.with(|state| state.entries.clone())
    }

    /// How many requests under each key had their effect.
    pub fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for entry in self.entries().iter().filter(|entry| entry.effect) {
            *effects.entry(entry.key.clone()).or_default() += 1;
        }
        effects
    }

    /// Waits until the requests so far are as wanted.
    pub async fn wait_until(&self, what: &str, wanted: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                let entries = self.entries();
                if wanted(&entries) {
                    return entries;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(entries) => entries,
            Err(_) => panic!("the ledger never saw {what}: {:#?}", self.entries()),
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap())
    }
}

enum Action {
    Now(Response),
    Later(Duration, Response),
}

fn take(state: &Mutex<State>, request: Request) -> Action {
    let mut state = state.lock().unwrap();
    let path = request.path.trim_matches('/');
    let (tool, check) = match path.strip_suffix("/check") {
        Some(tool) => (tool.to_owned(), true),
        None => (path.to_owned(), false),
    };
    let key = request.header("idempotency-key").unwrap_or_default();
    let mut entry = Entry {
        tool: tool.clone(),
        check,
        key: key.to_owned(),
        request,
        effect: false,
    };
    if check {
        let answer = check_answer(&state, &tool, &entry.key);
        if answer["state"] == "not_done" {
            let up_to = state.refused_up_to.entry(entry.key.clone()).or_default();
            *up_to = fence(&entry.request).max(up_to).to_owned();
        }
        state.entries.push(entry);
        return Action::Now(Response::json(200, &answer));
    }
    let up_to = state.refused_up_to.get(&entry.key);
    if up_to.is_some_and(|up_to| fence(&entry.request) <= up_to.as_str()) {
        state.entries.push(entry);
        let answer = json!({ "error": "this attempt was said not to have happened" });
        return Action::Now(Response::json(409, &answer));
    }
    let behaviour = behaviour(&mut state, &tool);
    entry.effect = matches!(
        behaviour,
        Behaviour::Answer(_)
            | Behaviour::Delay(..)
            | Behaviour::EffectThenSilence
            | Behaviour::EffectThenCut
    );
    state.entries.push(entry);
    match behaviour {
        Behaviour::Answer(answer) => Action::Now(Response::json(200, &answer)),
        Behaviour::Delay(delay, answer) => Action::Later(delay, Response::json(200, &answer)),
        Behaviour::EffectThenSilence | Behaviour::Silence => Action::Now(Response::Silence),
        Behaviour::EffectThenCut | Behaviour::Cut => Action::Now(Response::Cut),
        Behaviour::Status(status) => Action::Now(Response::json(status, &json!({}))),
    }
}

fn fence(request: &Request) -> &str {
    request.header("steadfast-fence").unwrap_or_default()
}

fn behaviour(state: &mut State, tool: &str) -> Behaviour {
    let next = state.next.get_mut(tool).and_then(VecDeque::pop_front);
    let usual = || state.usual.get(tool).cloned();
    next.or_else(usual)
        .unwrap_or_else(|| Behaviour::Answer(json!({ "ok": true })))
}

fn check_answer(state: &State, tool: &str, key: &str) -> Value {
    let happened = |entry: &Entry| entry.effect && entry.key == key;
    match state.checks.get(tool) {
        Some(Check::Done(result)) => json!({ "state": "done", "result": result }),
        Some(Check::NotDone) => json!({ "state": "not_done" }),
        Some(Check::Unknown) => json!({ "state": "unknown" }),
        Some(Check::Truth) | None => {
            if state.entries.iter().any(happened) {
                json!({ "state": "done", "result": { "ok": true } })
            } else {
                json!({ "state": "not_done" })
            }
        }
    }
}

async fn act(action: Action) -> Response {
    match action {
        Action::Now(response) => response,
        Action::Later(delay, response) => {
            tokio::time::sleep(delay).await;
            response
        }
    }
}
