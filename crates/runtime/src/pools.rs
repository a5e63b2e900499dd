//! Tool workers: a bounded pool for each kind of executor, each under a supervisor.
//!
//! ```text
//!   session's effect --reserve--> Desk: a place in the tool's bound and in its pool's bound
//!          |                        (full: waits in line; tools take turns, then sessions do)
//!          +--start--> Worker, an actor linked to its pool's supervisor, for one attempt
//!          <--outcome--
//! ```
//!
//! A worker that panics costs its own call; one that is no longer wanted is killed. There is no
//! worker, and no memory, for a tool that does not run. Rust functions, of which nobody can be sure
//! that they never block a thread, may be given threads of their own: then the worst that they can
//! hold up is each other.

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
use worker::Warden;

/// All pools of a node.
pub(crate) struct Pools {
    desk: Arc<Desk>,
    /// Supervisor of each pool's workers, in the order of [`Executor::ALL`].
    wardens: Vec<(Executor, ActorRef<worker::Nothing>)>,
    threads: Threads,
}

impl Pools {
    /// Pools without anybody in them.
    pub(crate) async fn start(options: &PoolOptions) -> Result<Self, SpawnErr> {
        let mut wardens = Vec::with_capacity(Executor::ALL.len());
        for executor in Executor::ALL {
            wardens.push((executor, Warden::spawn(executor).await?));
        }
        Ok(Self {
            desk: Arc::new(Desk::new(options)),
            wardens,
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

    /// Starts a worker that does `work`; dropping what is returned kills it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        executor: Executor,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Running<T>, SpawnErr> {
        let warden = self.wardens.iter().find(|(of, _)| *of == executor);
        let Some((_, warden)) = warden else {
            return Err(SpawnErr::StartupFailed("no such pool".into()));
        };
        let threads = match executor {
            Executor::Function => self.threads.handle(),
            // A thread of its own, or our own code that never blocks.
            Executor::Blocking | Executor::Http | Executor::Command | Executor::Mcp => None,
        };
        worker::spawn(warden.get_cell(), threads, work).await
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        for (_, warden) in &self.wardens {
            // All its workers end with it.
            warden.kill();
        }
    }
}
