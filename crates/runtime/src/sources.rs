//! Keeps the sources of tools reached: an actor for each, under one supervisor.

use std::sync::Arc;
use std::time::Duration;

use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use steadfast_tools::catalog::ToolSource;
use tokio_util::sync::CancellationToken;

use crate::agent::Agents;

/// Wait before a source whose actor failed is run again.
const FAILED_REST: Duration = Duration::from_secs(1);
/// Time for all of them to end in good order.
const STOP_MAX: Duration = Duration::from_secs(10);

/// All sources of a node. Dropping it ends them at once.
pub(crate) struct Sources {
    supervisor: ActorRef<Failed>,
    ended: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Sources {
    pub(crate) async fn start(agents: &Agents) -> Result<Self, SpawnErr> {
        let sources = agents.values().flat_map(|agent| agent.catalog.sources());
        let sources: Vec<Arc<dyn ToolSource>> = sources.cloned().collect();
        let stop = CancellationToken::new();
        let start = (sources, stop.clone());
        let (supervisor, ended) = Actor::spawn(None, Supervisor, start).await?;
        Ok(Self {
            supervisor,
            ended: Some(ended),
            stop,
        })
    }

    /// Ends them: servers of ours are asked to stop before they are made to.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let Some(ended) = self.ended.take() else {
            return;
        };
        if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
            tracing::warn!("a source of tools did not stop by itself");
        }
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.stop.cancel();
        // All of them end with it.
        self.supervisor.kill();
    }
}

/// Runs those that fail again.
struct Supervisor;

/// What the supervisor is told: which source is to be run.
struct Failed(usize);

struct Supervised {
    sources: Vec<(Arc<dyn ToolSource>, Option<ActorCell>)>,
    stop: CancellationToken,
}

impl Supervised {
    async fn run(&mut self, index: usize, supervisor: ActorCell) -> Result<(), SpawnErr> {
        if let Some((source, runs)) = self.sources.get_mut(index) {
            let start = (Arc::clone(source), self.stop.clone());
            let (actor, _) = Actor::spawn_linked(None, Runner, start, supervisor).await?;
            *runs = Some(actor.get_cell());
        }
        Ok(())
    }

    fn forget(&mut self, actor: &ActorCell) -> Option<usize> {
        let is_it = |runs: &Option<ActorCell>| {
            runs.as_ref()
                .is_some_and(|runs| runs.get_id() == actor.get_id())
        };
        let index = self.sources.iter().position(|(_, runs)| is_it(runs))?;
        self.sources.get_mut(index)?.1 = None;
        Some(index)
    }

    fn all_ended(&self) -> bool {
        self.sources.iter().all(|(_, runs)| runs.is_none())
    }
}

impl Actor for Supervisor {
    type Msg = Failed;
    type State = Supervised;
    type Arguments = (Vec<Arc<dyn ToolSource>>, CancellationToken);

    async fn pre_start(
        &self,
        myself: ActorRef<Failed>,
        (sources, stop): Self::Arguments,
    ) -> Result<Supervised, ActorProcessingErr> {
        let sources: Vec<_> = sources.into_iter().map(|source| (source, None)).collect();
        let mut state = Supervised { sources, stop };
        for index in 0..state.sources.len() {
            state.run(index, myself.get_cell()).await?;
        }
        if state.sources.is_empty() {
            myself.stop(None);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Failed>,
        Failed(index): Failed,
        state: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        if !state.stop.is_cancelled() {
            state.run(index, myself.get_cell()).await?;
        } else if state.all_ended() {
            myself.stop(None);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Failed>,
        event: SupervisionEvent,
        state: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                let index = state.forget(&actor);
                tracing::error!(%error, "a source of tools failed; it is run again");
                if let Some(index) = index {
                    myself.send_after(FAILED_REST, move || Failed(index));
                }
            }
            SupervisionEvent::ActorTerminated(actor, ..) => {
                state.forget(&actor);
                if state.stop.is_cancelled() && state.all_ended() {
                    myself.stop(None);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Keeps one source reached.
struct Runner;

/// The one message of a runner.
struct Run;

impl Actor for Runner {
    type Msg = Run;
    type State = (Arc<dyn ToolSource>, CancellationToken);
    type Arguments = (Arc<dyn ToolSource>, CancellationToken);

    async fn pre_start(
        &self,
        myself: ActorRef<Run>,
        start: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.cast(Run)?;
        Ok(start)
    }

    async fn handle(
        &self,
        myself: ActorRef<Run>,
        Run: Run,
        (source, stop): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        source.run(stop.clone()).await;
        myself.stop(None);
        Ok(())
    }
}
