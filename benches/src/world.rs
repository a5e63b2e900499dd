//! A runtime in this process, over the embedded store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures_util::StreamExt;
use serde_json::Value;
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession, ToolChoice};
use steadfast_core::content::{ContentPart, Stored};
use steadfast_core::event::{Event, TurnOutcome};
use steadfast_core::id::{AgentName, CommandId, NodeId, Seq, SessionId, SessionKey, TenantId};
use steadfast_core::input::Policy;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::provider::ModelProvider;
use steadfast_runtime::agent::{Agent, Agents, LoopControl};
use steadfast_runtime::sessions::{Admission, Followed, Sessions};
use steadfast_runtime::{Options, Runtime, RuntimeHandle};
use steadfast_store::Stores;
use steadfast_store::clock::SystemClock;
use steadfast_store_redb::RedbStore;
use steadfast_tools::catalog::Catalog;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::filter::ToolFilter;
use tempfile::TempDir;

pub(crate) const AGENT: &str = "bench";

/// A store in a folder of its own.
pub(crate) struct World {
    pub(crate) store: RedbStore,
    pub(crate) stores: Stores,
    pub(crate) options: Options,
    nodes: AtomicU32,
    _folder: TempDir,
}

/// When a turn got how far, from the call on.
pub(crate) struct Turned {
    /// Its first events are on disk and shown.
    pub(crate) begun: Duration,
    /// It has ended, and that is on disk.
    pub(crate) ended: Duration,
}

impl World {
    /// Opens an empty store.
    pub(crate) fn open(data: &Path, store: steadfast_store_redb::Options) -> Result<Self> {
        let folder = TempDir::with_prefix_in("steadfast-bench-", data)?;
        let store = RedbStore::open(folder.path(), store)?;
        Ok(Self {
            stores: store.stores(),
            store,
            options: Options::default(),
            nodes: AtomicU32::new(0),
            _folder: folder,
        })
    }

    /// Starts a runtime; on one store at a time only one may run.
    pub(crate) async fn start(&self, agent: Agent) -> Result<(Sessions, RuntimeHandle)> {
        let number = self.nodes.fetch_add(1, Ordering::Relaxed);
        let agents: Agents = Arc::new(BTreeMap::from([(agent.name.clone(), Arc::new(agent))]));
        let started = Runtime::start(
            self.options.clone(),
            self.stores.clone(),
            agents,
            Arc::new(SystemClock),
            NodeId::new(format!("n{number}"))?,
        );
        Ok(started.await?)
    }
}

/// The agent of these benches.
pub(crate) fn agent(
    provider: Arc<dyn ModelProvider>,
    tools: Vec<ToolDefinition>,
    policy: Policy,
) -> Result<Agent> {
    let agent = Agent {
        name: AgentName::new(AGENT)?,
        model: "bench/bench".into(),
        provider_name: "bench".into(),
        provider,
        settings: ModelSettings {
            model: "bench".into(),
            instructions: "You help.".into(),
            tools: Arc::default(),
            output_tokens_max: None,
            options: Value::Null,
            tool_choice: ToolChoice::Auto,
            output_schema: None,
        },
        policy,
        catalog: Arc::new(Catalog::builder().with_all(tools).build()?),
        filter: ToolFilter::default(),
        control: LoopControl::default(),
        drive: steadfast_runtime::agent::Drive::Request,
    };
    Ok(agent.offering())
}

/// A session's key.
pub(crate) fn key(session: &str) -> Result<SessionKey> {
    Ok(SessionKey {
        tenant: TenantId::new("default")?,
        session: SessionId::new(session)?,
    })
}

/// A message that makes its session if there is none.
pub(crate) fn message(id: &str, text: &str) -> Result<Command> {
    let new = NewSession {
        agent: AgentName::new(AGENT)?,
        metadata: Value::Null,
        tags: Vec::new(),
    };
    Ok(Command {
        id: CommandId::new(id)?,
        body: CommandBody::Submit {
            content: vec![Stored::Inline(ContentPart::Text { text: text.into() })],
            options: MessageOptions::default(),
            new: Some(new),
        },
    })
}

/// Sends a message and waits until its turn has ended.
pub(crate) async fn turn(
    sessions: &Sessions,
    key: &SessionKey,
    id: &str,
    text: &str,
) -> Result<Turned> {
    let command = message(id, text)?;
    let start = Instant::now();
    let Admission::Decided { session, .. } = sessions.admit(key, command).await? else {
        bail!("the session's owner is not here");
    };
    let begun = start.elapsed();
    ensure!(session.turn.is_some(), "no turn has begun");
    let outcome = ended(sessions, key, session.seq).await?;
    let ended = start.elapsed();
    ensure!(
        matches!(outcome, TurnOutcome::Completed { .. }),
        "the turn ended oddly: {outcome:?}"
    );
    Ok(Turned { begun, ended })
}

/// How the next turn after an event ended.
async fn ended(sessions: &Sessions, key: &SessionKey, after: Seq) -> Result<TurnOutcome> {
    let mut news = sessions.follow(key, after, false);
    while let Some(item) = news.next().await {
        let Followed::Record { record, .. } = item? else {
            continue;
        };
        for event in record.entries.iter().flat_map(|entry| &entry.events) {
            if let Event::TurnEnded { outcome, .. } = event {
                return Ok(outcome.clone());
            }
        }
    }
    bail!("the session's news ended before its turn")
}
