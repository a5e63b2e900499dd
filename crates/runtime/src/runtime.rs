//! Starting and stopping a node's runtime.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use ractor::{ActorRef, SpawnErr};
use steadfast_core::id::{AgentName, NodeId};
use steadfast_core::input::Place;
use steadfast_harness::native::kept::Room;
use steadfast_store::Stores;
use steadfast_tools::catalog::Tool;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::{self, Nothing};
use crate::agent::Agents;
use crate::doors::Doors;
use crate::handover::Handover;
use crate::host::{Cut, Host};
use crate::members::Members;
use crate::node_door::NodeDoor;
use crate::options::Options;
use crate::pools::Pools;
use crate::queue::QueueDriver;
use crate::remote::{JobCounts, RemoteWorker};
use crate::sessions::Sessions;
use crate::sources::Sources;
use crate::sweep::Sweep;
use crate::timers;
use crate::webhook::Webhook;
use steadfast_store::clock::Clock;

/// Starts runtimes.
pub struct Runtime;

/// Why a runtime did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The supervisor of the session actors did not start.
    #[error("the supervisor of sessions did not start")]
    Keeper(#[source] SpawnErr),
    /// The supervisor of a tool pool did not start.
    #[error("the supervisor of a tool pool did not start")]
    Pools(#[source] SpawnErr),
    /// The supervisor of the sources of tools did not start.
    #[error("the supervisor of MCP servers did not start")]
    Sources(#[source] SpawnErr),
    /// The client of the webhook was not set up.
    #[error("the client of the webhook was not set up")]
    Webhook(#[source] reqwest::Error),
    /// No worker could ever run a tool.
    #[error(
        "tool {tool:?} of agent {agent} is remote, and this store has no tool queue: give the tool \
         another executor, or use a store that several nodes share"
    )]
    NoToolQueue {
        /// Whose tool.
        agent: AgentName,
        /// Its name.
        tool: String,
    },
}

/// Owns all tasks of a runtime; dropping it ends them at once, as a crash would.
pub struct RuntimeHandle {
    sessions: Sessions,
    doors: Arc<Doors>,
    keeper: ActorRef<Nothing>,
    host: Arc<Host>,
    shutdown: CancellationToken,
    /// Its lease and its door, until all sessions are let go.
    closed: CancellationToken,
    tasks: JoinSet<()>,
    sources: Option<Sources>,
    /// Jobs of remote tools that run here.
    work: JoinSet<()>,
}

/// What a runtime left behind when it was shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Sessions that were not let go in time: other nodes find them.
    pub left: usize,
    /// Calls that were cut off and run again under the same key.
    pub repeated: u64,
    /// Calls that were cut off, of which nobody knows whether they happened.
    pub in_doubt: u64,
}

impl Runtime {
    /// Starts a node's runtime. `node` must be a new name at each start.
    pub async fn start(
        options: Options,
        stores: Stores,
        agents: Agents,
        clock: Arc<dyn Clock>,
        node: NodeId,
    ) -> Result<(Sessions, RuntimeHandle), StartError> {
        if stores.tool_queue.is_none() {
            refuse_remote_tools(&agents)?;
        }
        let pools = Pools::start(&options.pools)
            .await
            .map_err(StartError::Pools)?;
        let sources = Sources::start(&agents).await.map_err(StartError::Sources)?;
        let members = Members::new(node.clone(), stores.clone(), &options);
        let handover = Handover::of(&options, &members);
        let history_room = Room::new(options.kept_history_bytes_max);
        let host = Arc::new(Host {
            webhook: webhook(&options)?,
            history_room,
            options,
            stores,
            agents,
            clock,
            node,
            started: tokio::time::Instant::now(),
            pools,
            members: Arc::new(members),
            handover,
            cut: Cut::default(),
            jobs: JobCounts::default(),
            sessions: OnceLock::new(),
        });
        let keeper = actor::keeper().await.map_err(StartError::Keeper)?;
        let doors = Arc::new(Doors::new(Arc::clone(&host), keeper.get_cell()));
        let sessions = Sessions::new(Arc::clone(&host), Arc::clone(&doors));
        host.link(&sessions);
        let shutdown = CancellationToken::new();
        let closed = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if host.options.may_own() {
            let door = NodeDoor {
                host: Arc::clone(&host),
                doors: Arc::clone(&doors),
            };
            tasks.spawn(door.run(closed.clone()));
            tasks.spawn(wake_the_due(Arc::clone(&doors), shutdown.clone()));
        }
        if host.options.admits || host.options.drives {
            if !host.members.are_alone() {
                tasks.spawn(Arc::clone(&host.members).hear(closed.clone()));
                tasks.spawn(Arc::clone(&host.members).keep_lease(closed.clone()));
            }
            let sweep = Sweep::new(Arc::clone(&host), Arc::clone(&doors), sessions.clone());
            tasks.spawn(sweep.run(shutdown.clone()));
        }
        if host.options.drives {
            let queue = QueueDriver::new(Arc::clone(&host), Arc::clone(&doors), sessions.clone());
            tasks.spawn(queue.run(shutdown.clone()));
            let timers = timers::run(Arc::clone(&host), sessions.clone(), shutdown.clone());
            tasks.spawn(timers);
        }
        let work = remote_work(&host, &shutdown);
        let handle = RuntimeHandle {
            sessions: sessions.clone(),
            doors,
            keeper,
            host,
            shutdown,
            closed,
            tasks,
            sources: Some(sources),
            work,
        };
        Ok((sessions, handle))
    }
}

fn webhook(options: &Options) -> Result<Option<Webhook>, StartError> {
    let webhook = options.webhook.clone().map(Webhook::new);
    webhook.transpose().map_err(StartError::Webhook)
}

/// Wakes parked sessions in their time. A drain wakes all of them itself.
async fn wake_the_due(doors: Arc<Doors>, shutdown: CancellationToken) {
    tokio::select! { biased;
        () = shutdown.cancelled() => {}
        () = doors.wake_the_due() => {}
    }
}

/// The worker of this process's remote tools, where it is one.
fn remote_work(host: &Arc<Host>, shutdown: &CancellationToken) -> JoinSet<()> {
    let mut work = JoinSet::new();
    if host.options.works
        && let Some(worker) = RemoteWorker::of(host)
    {
        tracing::info!(tools = ?worker.tool_names(), "runs remote tools");
        work.spawn(worker.run(shutdown.clone()));
    }
    work
}

/// Without a tool queue every call of a remote tool would end as unreachable.
fn refuse_remote_tools(agents: &Agents) -> Result<(), StartError> {
    for (name, agent) in agents.iter() {
        let remote =
            |tool: &&Arc<Tool>| tool.spec.place == Place::Remote && tool.spec.agent.is_none();
        if let Some(tool) = agent.catalog.tools().iter().find(remote) {
            return Err(StartError::NoToolQueue {
                agent: name.clone(),
                tool: tool.spec.name.clone(),
            });
        }
    }
    Ok(())
}

impl RuntimeHandle {
    /// Lets go of all sessions, then ends. `give_up` cuts it short: what still runs is then ended as
    /// by a crash, and found by the next process.
    pub async fn shutdown(mut self, give_up: impl Future<Output = ()>) -> Drained {
        self.shutdown.cancel();
        let jobs_ended = async { while self.work.join_next().await.is_some() {} };
        tokio::select! { biased;
            ((), ()) = async { tokio::join!(self.sessions.drain(), jobs_ended) } => {}
            () = give_up => tracing::warn!(left = self.doors.len(), "drain cut short"),
        }
        self.work.shutdown().await;
        self.closed.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Some(sources) = self.sources.take() {
            sources.stop().await;
        }
        Drained {
            left: self.doors.len(),
            repeated: self.host.cut.repeated.load(Ordering::Relaxed),
            in_doubt: self.host.cut.in_doubt.load(Ordering::Relaxed),
        }
    }
}

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        self.doors.close();
        self.shutdown.cancel();
        self.closed.cancel();
        // Ends every session actor with it.
        self.keeper.kill();
        self.doors.abandon_parked();
    }
}
