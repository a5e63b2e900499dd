//! Starting and stopping a node's runtime.

use std::future::Future;
use std::sync::Arc;

use ractor::{ActorRef, SpawnErr};
use steadfast_core::id::NodeId;
use steadfast_store::Stores;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::{self, Nothing};
use crate::agent::Agents;
use crate::doors::Doors;
use crate::host::Host;
use crate::options::Options;
use crate::pools::Pools;
use crate::sessions::Sessions;
use crate::sweep::Sweep;
use crate::{queue, timers};
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
}

/// Owns all tasks of a runtime; dropping it ends them at once, as a crash would.
pub struct RuntimeHandle {
    sessions: Sessions,
    doors: Arc<Doors>,
    keeper: ActorRef<Nothing>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Runtime {
    /// Starts a node's runtime on a store that no other process uses. `node` must be a new name at
    /// each start.
    pub async fn start(
        options: Options,
        stores: Stores,
        agents: Agents,
        clock: Arc<dyn Clock>,
        node: NodeId,
    ) -> Result<(Sessions, RuntimeHandle), StartError> {
        let pools = Pools::start(&options.pools, &agents)
            .await
            .map_err(StartError::Pools)?;
        let host = Arc::new(Host {
            options,
            stores,
            agents,
            clock,
            node,
            pools,
        });
        let doors = Arc::new(Doors::new(Arc::clone(&host)));
        let keeper = actor::keeper().await.map_err(StartError::Keeper)?;
        let sessions = Sessions::new(Arc::clone(&host), Arc::clone(&doors), keeper.clone());
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let sweep = Sweep {
            host: Arc::clone(&host),
            doors: Arc::clone(&doors),
            sessions: sessions.clone(),
        };
        tasks.spawn(sweep.run(shutdown.clone()));
        tasks.spawn(queue::run(
            Arc::clone(&host),
            sessions.clone(),
            shutdown.clone(),
        ));
        tasks.spawn(timers::run(host, sessions.clone(), shutdown.clone()));
        let handle = RuntimeHandle {
            sessions: sessions.clone(),
            doors,
            keeper,
            shutdown,
            tasks,
        };
        Ok((sessions, handle))
    }
}

impl RuntimeHandle {
    /// Lets go of all sessions, then ends. `give_up` cuts it short: what still runs is then ended as
    /// by a crash, and found by the next process.
    pub async fn shutdown(mut self, give_up: impl Future<Output = ()>) {
        self.shutdown.cancel();
        tokio::select! { biased;
            () = self.sessions.drain() => {}
            () = give_up => tracing::warn!(left = self.doors.len(), "drain cut short"),
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        self.doors.close();
        self.shutdown.cancel();
        // Ends every session actor with it.
        self.keeper.kill();
    }
}
