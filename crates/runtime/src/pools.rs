//! Tool workers: a bounded pool for each kind of executor, each under a supervisor.
//!
//! ```text
//!   session's effect --reserve--> Desk: a place in the tool's bound and in its pool's bound
//!          |                        (full: waits in line; tools take turns, then sessions do)
//!          +--work---> Worker, an actor linked to its pool's supervisor: an idle one, or a new one
//!          <--outcome--
//! ```
//!
//! A worker that panics costs its own call; what is no longer wanted is called off. A worker does one
//! attempt at a time, and a pool keeps a bounded number of idle ones. Rust functions, of which nobody
//! can be sure that they never block a thread, may be given threads of their own: then the worst that
//! they can hold up is each other.

mod attempt;
mod desk;
mod threads;
mod worker;

use std::sync::Arc;

use ractor::{ActorRef, SpawnErr};
use steadfast_core::id::SessionKey;
use steadfast_tools::catalog::Tool;
use steadfast_tools::worker::Executor;

use crate::options::PoolOptions;
pub(crate) use attempt::{Attempt, not_run};
use desk::Desk;
pub(crate) use desk::Slot;
use threads::Threads;
pub(crate) use worker::Running;
use worker::{Crew, Idle, Warden};

/// All pools of a node.
pub(crate) struct Pools {
    desk: Arc<Desk>,
    pools: Vec<Pool>,
    threads: Threads,
}

/// The workers of one kind of executor.
struct Pool {
    of: Executor,
    /// Their supervisor.
    warden: ActorRef<worker::Nothing>,
    idle: Arc<Idle>,
}

impl Pools {
    /// Pools without anybody in them.
    pub(crate) async fn start(options: &PoolOptions) -> Result<Self, SpawnErr> {
        let mut pools = Vec::with_capacity(Executor::ALL.len());
        for executor in Executor::ALL {
            pools.push(Pool {
                of: executor,
                warden: Warden::spawn(executor).await?,
                idle: Arc::default(),
            });
        }
        Ok(Self {
            desk: Arc::new(Desk::new(options)),
            pools,
            threads: Threads::new(options.function_threads),
        })
    }

    /// A place for a call, if one is free and nobody waits for it.
    pub(crate) fn try_reserve(&self, tool: &Arc<Tool>) -> Option<Slot> {
        self.desk.try_reserve(tool)
    }

    /// A place for a call, when its session's turn comes; `None` if the tool has no pool here.
    pub(crate) async fn reserve(&self, tool: &Arc<Tool>, session: &SessionKey) -> Option<Slot> {
        self.desk.reserve(tool, session).await
    }

    /// Has a worker do `work`; dropping what is returned calls it off.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        executor: Executor,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Running<T>, SpawnErr> {
        let Some(pool) = self.pools.iter().find(|pool| pool.of == executor) else {
            return Err(SpawnErr::StartupFailed("no such pool".into()));
        };
        let threads = match executor {
            Executor::Function => self.threads.handle(),
            // A thread of its own, or our own code that never blocks.
            Executor::Blocking | Executor::Http | Executor::Command | Executor::Mcp => None,
        };
        let crew = Crew {
            warden: pool.warden.get_cell(),
            idle: Arc::clone(&pool.idle),
            threads,
        };
        crew.run(work).await
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        for pool in &self.pools {
            // All its workers end with it.
            pool.warden.kill();
        }
    }
}
