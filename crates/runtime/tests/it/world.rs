//! A small world: stores in memory with faults on the log, an agent on the scripted model, a ledger
//! of what its tools did.

mod faulty_log;
mod ledger;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession, ToolChoice};
use steadfast_core::content::{ContentPart, Stored};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::{
    AgentName, CommandId, NodeId, Seq, SessionId, SessionKey, TenantId, Timestamp,
};
use steadfast_core::input::Policy;
use steadfast_core::receipt::{End, Progress};
use steadfast_core::session::Session;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_protocol::record::{self, Record, RecordHash};
use steadfast_runtime::agent::{Agent, Agents, LoopControl};
use steadfast_runtime::sessions::{Admission, Followed, Sessions};
use steadfast_runtime::{Options, Runtime, RuntimeHandle};
use steadfast_store::clock::{Clock, TokioClock};
use steadfast_store::local::LocalMembership;
use steadfast_store::log::{Append, Log, ReadFrom, StoredRecord, Tail};
use steadfast_store::{Stores, memory};
use steadfast_tools::catalog::{Catalog, CatalogBuilder};
use steadfast_tools::filter::ToolFilter;

pub(crate) use faulty_log::{Damage, Fault, FaultyLog};
use ledger::standard_tools;
pub(crate) use ledger::{Ledger, tool};

pub(crate) struct World {
    pub(crate) stores: Stores,
    pub(crate) log: Arc<FaultyLog>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) options: Options,
    pub(crate) agents: Agents,
    pub(crate) clock: TokioClock,
    nodes: Mutex<u32>,
}

/// A clock that is wrong by so many milliseconds.
struct WrongClock(TokioClock, i64);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.now().0.saturating_add_signed(self.1))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_tools(|builder, _| builder)
    }

    /// A world whose agent has some more tools.
    pub(crate) fn with_tools(
        more: impl FnOnce(CatalogBuilder, &Arc<Ledger>) -> CatalogBuilder,
    ) -> Self {
        let clock = TokioClock::starting_at(Timestamp(1_800_000_000_000));
        let mut stores = memory::stores(Arc::new(clock));
        let log = Arc::new(FaultyLog::new(Arc::clone(&stores.log)));
        stores.log = Arc::clone(&log) as Arc<dyn Log>;
        let ledger = Arc::new(Ledger::default());
        let catalog = more(standard_tools(&ledger), &ledger).build().unwrap();
        Self {
            stores,
            log,
            ledger,
            options: Options::default(),
            agents: agents(
                Arc::new(ScriptedProvider::new()),
                catalog,
                Policy::default(),
            ),
            clock,
            nodes: Mutex::new(0),
        }
    }

    /// A world whose store several nodes share.
    pub(crate) fn shared() -> Self {
        let mut world = Self::new();
        world.stores.membership = Arc::new(LocalMembership::shared());
        world
    }

    /// A new process on the same stores.
    pub(crate) async fn start(&self) -> Node {
        self.start_on(self.options.clone(), self.stores.clone())
            .await
    }

    /// A new process that reaches the same stores in a way of its own.
    pub(crate) async fn start_on(&self, options: Options, stores: Stores) -> Node {
        self.start_by(Arc::new(self.clock), options, stores).await
    }

    /// A new process whose clock is an hour late.
    pub(crate) async fn start_late(&self) -> Node {
        self.start_wrong(-3_600_000).await
    }

    /// A new process whose clock is an hour ahead.
    pub(crate) async fn start_ahead(&self) -> Node {
        self.start_wrong(3_600_000).await
    }

    async fn start_wrong(&self, by_ms: i64) -> Node {
        let clock = Arc::new(WrongClock(self.clock, by_ms));
        self.start_by(clock, self.options.clone(), self.stores.clone())
            .await
    }

    async fn start_by(&self, clock: Arc<dyn Clock>, options: Options, stores: Stores) -> Node {
        let name = {
            let mut nodes = self.nodes.lock().unwrap();
            *nodes += 1;
            format!("n{nodes}")
        };
        let (sessions, handle) = Runtime::start(
            options,
            stores,
            Arc::clone(&self.agents),
            clock,
            NodeId::new(name).unwrap(),
        )
        .await
        .unwrap();
        Node { sessions, handle }
    }

    /// All Records of a session.
    pub(crate) async fn records(&self, key: &SessionKey) -> Vec<Record> {
        let stored = self
            .stores
            .log
            .read(key, ReadFrom::After(Tail::EMPTY), usize::MAX)
            .await
            .unwrap();
        stored
            .iter()
            .map(|stored| record::decode(&stored.bytes).unwrap())
            .collect()
    }

    /// The Records of a session that can be read, whether they count or not.
    pub(crate) async fn records_readable(&self, key: &SessionKey) -> Vec<Record> {
        self.log.heal();
        self.records(key).await
    }

    /// The rows of a session as they were written.
    pub(crate) async fn raw(&self, key: &SessionKey) -> Vec<StoredRecord> {
        let all = ReadFrom::After(Tail::EMPTY);
        self.stores.log.read(key, all, usize::MAX).await.unwrap()
    }

    /// Writes rows as they were written elsewhere.
    pub(crate) async fn append_raw(&self, key: &SessionKey, rows: &[StoredRecord]) {
        for row in rows {
            let record = record::decode(&row.bytes).unwrap();
            let append = Append {
                hash: RecordHash::of(&row.bytes),
                bytes: row.bytes.clone(),
                first_seq: record.first_seq,
                last_seq: record.last_seq(),
                epoch: record.epoch,
                node: NodeId::new("elsewhere").unwrap(),
            };
            let tail = self.stores.log.tail(key).await.unwrap().tail;
            self.stores.log.append(key, tail, append).await.unwrap();
        }
    }

    /// Names of all events of a session, one word each, Records divided by `|`.
    pub(crate) async fn story(&self, key: &SessionKey) -> String {
        let records = self.records(key).await;
        let record = |record: &Record| -> String {
            let events = record.entries.iter().flat_map(|entry| &entry.events);
            events.map(word).collect::<Vec<_>>().join(" ")
        };
        records.iter().map(record).collect::<Vec<_>>().join(" | ")
    }

    /// How the calls of a session ended, in order.
    pub(crate) async fn settlements(&self, session: &str) -> Vec<Settlement> {
        let records = self.records(&key(session)).await;
        let entries = records.iter().flat_map(|record| &record.entries);
        let events = entries.flat_map(|entry| &entry.events);
        events
            .filter_map(|event| match event {
                Event::CallSettled { settlement, .. } => Some(*settlement),
                _ => None,
            })
            .collect()
    }

    pub(crate) async fn count_events(
        &self,
        key: &SessionKey,
        matches: impl Fn(&Event) -> bool,
    ) -> usize {
        let records = self.records(key).await;
        let entries = records.iter().flat_map(|record| &record.entries);
        entries
            .flat_map(|entry| &entry.events)
            .filter(|event| matches(event))
            .count()
    }
}

/// The event's name.
pub(crate) fn word(event: &Event) -> String {
    match serde_json::to_value(event).unwrap() {
        Value::Object(fields) => fields["type"].as_str().unwrap().to_owned(),
        other => panic!("{other}"),
    }
}

/// One process.
pub(crate) struct Node {
    pub(crate) sessions: Sessions,
    pub(crate) handle: RuntimeHandle,
}

impl Node {
    /// Ends it as a power cut would.
    pub(crate) async fn crash(self) {
        drop(self.handle);
        // Its tasks end at their next step.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.sessions.in_memory(), 0);
    }

    pub(crate) async fn send(&self, key: &SessionKey, id: &str, text: &str) -> Admission {
        self.sessions.admit(key, message(id, text)).await.unwrap()
    }

    /// Waits until a message is over.
    pub(crate) async fn end_of(&self, key: &SessionKey, id: &str) -> End {
        let id = CommandId::new(id).unwrap();
        let ended = |session: &Session| match session.receipts.get(&id)?.progress {
            Some(Progress::Ended { end, .. }) => Some(end),
            _ => None,
        };
        self.until(key, ended).await
    }

    /// Waits until the state says something.
    pub(crate) async fn until<T>(
        &self,
        key: &SessionKey,
        found: impl Fn(&Session) -> Option<T>,
    ) -> T {
        let waited = async {
            let mut news = self.sessions.follow(key, Seq(0), false);
            loop {
                let session = self.sessions.load(key).await.unwrap();
                if let Some(found) = found(&session) {
                    return found;
                }
                news.next().await.unwrap().unwrap();
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(3_600), waited).await;
        waited.expect("it never came about")
    }

    /// Waits until a session is not in memory here.
    pub(crate) async fn until_gone(&self) {
        let gone = async {
            while self.sessions.in_memory() > 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3_600), gone)
            .await
            .unwrap();
    }
}

pub(crate) fn key(session: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::new("default").unwrap(),
        session: SessionId::new(session).unwrap(),
    }
}

pub(crate) fn new_session() -> NewSession {
    NewSession {
        agent: AgentName::new("helper").unwrap(),
        metadata: Value::Null,
        tags: Vec::new(),
    }
}

/// A message that makes its session.
pub(crate) fn message(id: &str, text: &str) -> Command {
    Command {
        id: CommandId::new(id).unwrap(),
        body: CommandBody::Submit {
            content: vec![Stored::Inline(ContentPart::Text { text: text.into() })],
            options: MessageOptions::default(),
            new: Some(new_session()),
        },
    }
}

pub(crate) fn command(id: &str, body: CommandBody) -> Command {
    Command {
        id: CommandId::new(id).unwrap(),
        body,
    }
}

pub(crate) fn script(steps: Value) -> String {
    format!("SCRIPT: {steps}")
}

/// Calls each of these tools in one step, then says `done`.
pub(crate) fn calls(tools: &[&str]) -> String {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!({ "tool": tool, "input": {} }))
        .collect();
    script(json!([{ "tools": tools }, { "text": "done" }]))
}

/// The one agent of a world.
pub(crate) fn agents(provider: Arc<dyn ModelProvider>, catalog: Catalog, policy: Policy) -> Agents {
    let name = AgentName::new("helper").unwrap();
    let agent = Agent {
        name: name.clone(),
        model: "scripted/scripted".into(),
        provider_name: "scripted".into(),
        provider,
        settings: ModelSettings {
            model: "scripted".into(),
            instructions: "You help.".into(),
            tools: Arc::default(),
            output_tokens_max: None,
            options: Value::Null,
            tool_choice: ToolChoice::Auto,
            output_schema: None,
        },
        policy,
        catalog: Arc::new(catalog),
        filter: ToolFilter::default(),
        control: LoopControl::default(),
        drive: steadfast_runtime::agent::Drive::Request,
    };
    Arc::new(BTreeMap::from([(name, Arc::new(agent.offering()))]))
}

/// Everything a follower is given until it has caught up.
pub(crate) async fn caught_up(node: &Node, key: &SessionKey, after: Seq) -> Vec<Followed> {
    let mut follower = node.sessions.follow(key, after, true);
    let mut given = Vec::new();
    loop {
        let item = follower.next().await.unwrap().unwrap();
        let done = matches!(item, Followed::CaughtUp { .. });
        given.push(item);
        if done {
            return given;
        }
    }
}
