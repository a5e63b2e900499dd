//! Clients that talk to any node, and followers that read at others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use steadfast_tests::client::{Answer, Client};
use steadfast_tests::events::{EventClient, Frame};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

/// A request that is not answered within this time is sent again, to another node.
const REQUEST_PATIENCE: Duration = Duration::from_secs(12);
/// Before something is sent again.
const PAUSE: Duration = Duration::from_millis(150);
/// The failure comes when the sessions have gone on for this long, and each has ended a turn.
const WARM_UP: Duration = Duration::from_secs(3);
const WARM_UP_MAX: Duration = Duration::from_secs(120);
/// States of a message that are the last.
const ENDS: [&str; 5] = ["completed", "failed", "cancelled", "superseded", "rejected"];

/// Sessions at work.
pub(super) struct Load {
    stop: CancellationToken,
    board: Arc<Board>,
    sessions: Vec<Session>,
}

struct Session {
    name: String,
    client: JoinHandle<Vec<Message>>,
    follower: EventClient,
}

/// What all clients write on.
#[derive(Default)]
struct Board {
    /// What each session's client waits for.
    doing: Mutex<BTreeMap<String, String>>,
    /// Turns that ended, with how long each took.
    turns: Mutex<BTreeMap<String, Duration>>,
    /// Answers that must not be.
    odd: Mutex<Vec<String>>,
}

impl Board {
    fn is_doing(&self, session: &str, what: String) {
        let mut doing = self.doing.lock().unwrap();
        doing.insert(session.to_owned(), what);
    }

    fn turn_took(&self, session: &str, time: Duration) {
        let mut turns = self.turns.lock().unwrap();
        turns.entry(session.to_owned()).or_insert(time);
    }

    fn odd(&self, what: String) {
        self.odd.lock().unwrap().push(what);
    }
}

/// A message that has a receipt.
pub(super) struct Message {
    pub(super) id: String,
    /// Where it stood at the end.
    pub(super) end: Option<String>,
}

/// What a session's client and follower saw.
pub(super) struct Lived {
    pub(super) sessions: Vec<LivedSession>,
    /// What must not be.
    pub(super) odd: Vec<String>,
    /// The follower of a session is waited for until then.
    pub(super) until: Instant,
}

/// The same of one session.
pub(super) struct LivedSession {
    pub(super) name: String,
    pub(super) messages: Vec<Message>,
    follower: EventClient,
}

impl LivedSession {
    /// All that the follower saw once it has seen this event, or when the time is over.
    pub(super) async fn frames(&self, last_seq: u64, until: Instant) -> Vec<Frame> {
        let reached =
            |frame: &Frame| frame.is_committed() && frame.data["seq"].as_u64() >= Some(last_seq);
        while !self.follower.frames().iter().any(reached) && Instant::now() < until {
            sleep(PAUSE).await;
        }
        self.follower.frames()
    }
}

impl Load {
    pub(super) async fn start(
        cluster: &Cluster,
        name: &str,
        count: usize,
        random: &mut SmallRng,
    ) -> Self {
        let (stop, board) = (CancellationToken::new(), Arc::<Board>::default());
        let nodes = cluster.clients();
        let sessions = (0..count).map(|number| {
            let talk = Talk {
                session: format!("{name}-{number}"),
                nodes: nodes.clone(),
                random: SmallRng::seed_from_u64(random.random()),
                stop: stop.clone(),
                board: Arc::clone(&board),
            };
            let mut readers = nodes.clone();
            readers.rotate_left(number % nodes.len());
            let name = talk.session.clone();
            Session {
                follower: EventClient::follow_at(&readers, &name),
                client: tokio::spawn(talk.run()),
                name,
            }
        });
        Self {
            sessions: sessions.collect(),
            stop,
            board,
        }
    }

    /// Waits until every session is well under way; gives how long a turn takes.
    pub(super) async fn warm_up(&self) -> Duration {
        let start = Instant::now();
        let turns = || self.board.turns.lock().unwrap().clone();
        while turns().len() < self.sessions.len() || start.elapsed() < WARM_UP {
            assert!(start.elapsed() < WARM_UP_MAX, "no turns: {}", self.doing());
            sleep(PAUSE).await;
        }
        let turns = turns();
        turns.values().sum::<Duration>() / u32::try_from(turns.len()).unwrap()
    }

    fn doing(&self) -> String {
        format!("{:#?}", self.board.doing.lock().unwrap())
    }

    /// Has all clients end what they began.
    pub(super) async fn finish(self, limit: Duration) -> Lived {
        self.stop.cancel();
        let until = Instant::now() + limit;
        let mut sessions = Vec::new();
        for session in self.sessions {
            let Session {
                name,
                mut client,
                follower,
            } = session;
            let left = until.saturating_duration_since(Instant::now());
            let messages = match timeout(left, &mut client).await {
                Ok(messages) => messages.unwrap(),
                Err(_) => {
                    client.abort();
                    let doing = self.board.doing.lock().unwrap().get(&name).cloned();
                    let stuck = format!("{name}: stuck after {limit:.0?}: {doing:?}");
                    self.board.odd(stuck);
                    Vec::new()
                }
            };
            sessions.push(LivedSession {
                name,
                messages,
                follower,
            });
        }
        let odd = std::mem::take(&mut *self.board.odd.lock().unwrap());
        Lived {
            sessions,
            odd,
            until,
        }
    }
}

/// The client of one session.
struct Talk {
    session: String,
    nodes: Vec<Client>,
    random: SmallRng,
    stop: CancellationToken,
    board: Arc<Board>,
}

impl Talk {
    async fn run(mut self) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        while messages.is_empty() || !self.stop.is_cancelled() {
            let start = Instant::now();
            // Now and then the next message waits behind the one before.
            for _ in 0..self.random.random_range(1..=2) {
                let id = format!("m{}", messages.len());
                if !self.send(&id).await {
                    return messages;
                }
                messages.push(Message { id, end: None });
            }
            for message in &mut messages {
                if message.end.is_none() {
                    message.end = Some(self.wait_for_end(&message.id).await);
                }
            }
            self.board.turn_took(&self.session, start.elapsed());
            sleep(Duration::from_millis(self.random.random_range(0..300))).await;
        }
        messages
    }

    /// Sends a message until there is a receipt for it; whether there is one.
    async fn send(&mut self, id: &str) -> bool {
        let script = self.script(id);
        let body = json!({ "id": id, "agent": "clerk", "content": script });
        let path = format!("/v1/sessions/{}/messages", self.session);
        let mut repeats = u32::from(self.random.random_ratio(1, 8));
        loop {
            let answer = self.ask(Method::POST, &path, Some(&body)).await;
            match answer {
                Some(answer) if answer.status.is_success() && repeats == 0 => return true,
                // The same again, at another node perhaps, runs nothing.
                Some(answer) if answer.status.is_success() => repeats -= 1,
                Some(answer) if is_passing(&answer) => sleep(PAUSE).await,
                Some(answer) => {
                    let Answer { status, body } = answer;
                    let odd = format!("{}: {id} was answered {status}: {body}", self.session);
                    self.board.odd(odd);
                    return false;
                }
                None => sleep(PAUSE).await,
            }
        }
    }

    async fn wait_for_end(&mut self, id: &str) -> String {
        let path = format!("/v1/sessions/{}/messages/{id}?wait=5s", self.session);
        loop {
            match self.ask(Method::GET, &path, None).await {
                Some(answer) if answer.status.is_success() => {
                    let state = answer.body["state"].as_str().unwrap_or_default();
                    if ENDS.contains(&state) {
                        return state.to_owned();
                    }
                    self.board
                        .is_doing(&self.session, format!("{id} is {}", answer.body));
                }
                Some(answer) if is_passing(&answer) => sleep(PAUSE).await,
                Some(Answer { status, body }) => {
                    let odd = format!("{}: {id} is asked for, {status}: {body}", self.session);
                    self.board.odd(odd);
                    sleep(PAUSE).await;
                }
                None => sleep(PAUSE).await,
            }
        }
    }

    /// Asks any node; `None`: nobody knows what became of it.
    async fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        let node = self.random.random_range(0..self.nodes.len());
        let what = format!("{method} {path} at n{}", node + 1);
        self.board.is_doing(&self.session, what);
        let request = self.nodes[node].send(method, path, body);
        timeout(REQUEST_PATIENCE, request).await.ok()?.ok()
    }

    /// What the model is told to do.
    fn script(&mut self, id: &str) -> String {
        let input = json!({ "of": format!("{}/{id}", self.session) });
        let call = |tool: &str| json!({ "tool": tool, "input": input });
        let speaks = json!({ "text": "I am at it, wait a moment", "chunks": 10, "delay": 0.05 });
        let done = json!({ "text": "that is all done", "chunks": 4, "delay": 0.02 });
        let steps = match self.random.random_range(0..8) {
            0 => json!([call("safe"), done]),
            1 => json!([call("never"), call("keyed"), done]),
            2 => json!([{ "tools": [call("safe"), call("keyed"), call("never")] }, done]),
            3 => json!([speaks, call("keyed_slow"), done]),
            4 => json!([{ "tools": [call("never_slow"), call("safe_command")] }, done]),
            5 => json!([call("never_command"), { "status": 529, "times": 1 }, done]),
            6 => json!([call("keyed_slow"), call("never"), done]),
            _ => json!([{ "hang": 1.0, "tool": "safe", "input": input }, call("never_slow"), done]),
        };
        format!("SCRIPT: {steps}")
    }
}

/// Whether the node says that the same may be answered otherwise later.
fn is_passing(answer: &Answer) -> bool {
    matches!(answer.status.as_u16(), 429 | 503)
}
