//! The actor that runs one attempt of a tool call, and the supervisor of a pool's workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use steadfast_tools::worker::Executor;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// Does one piece of work and is gone.
struct Worker;

/// The one message of a worker.
pub(super) struct Work;

type Job = BoxFuture<'static, ()>;

/// What a worker begins with: the work, and the threads that do it unless they are its own.
struct Start {
    work: Job,
    threads: Option<Handle>,
}

impl Actor for Worker {
    type Msg = Work;
    type State = Option<Start>;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Work>,
        start: Start,
    ) -> Result<Option<Start>, ActorProcessingErr> {
        myself.cast(Work)?;
        Ok(Some(start))
    }

    async fn handle(
        &self,
        myself: ActorRef<Work>,
        Work: Work,
        start: &mut Option<Start>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(Start { work, threads }) = start.take() {
            match threads {
                None => work.await,
                // The worker itself stays where nothing blocks, so that it can always be killed.
                Some(threads) => AbortOnDropHandle::new(threads.spawn(work)).await?,
            }
        }
        myself.stop(None);
        Ok(())
    }
}

/// Whether a worker's work began, and may therefore have done something.
#[derive(Default)]
struct Begun(AtomicU8);

impl Begun {
    const NOT_YET: u8 = 0;
    const BEGUN: u8 = 1;
    const REVOKED: u8 = 2;

    fn turn_to(&self, next: u8) -> bool {
        self.0
            .compare_exchange(Self::NOT_YET, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// `false`: it must not begin any more.
    fn begin(&self) -> bool {
        self.turn_to(Self::BEGUN)
    }

    /// `true`: it did not begin and never will.
    fn revoke(&self) -> bool {
        self.turn_to(Self::REVOKED)
    }
}

/// A worker at work.
pub(crate) struct Running<T> {
    worker: ActorRef<Work>,
    outcome: oneshot::Receiver<T>,
    begun: Arc<Begun>,
}

impl<T> Running<T> {
    /// What came of the work; `None` if it panicked. Cancel safe.
    pub(crate) async fn outcome(&mut self) -> Option<T> {
        (&mut self.outcome).await.ok()
    }

    /// Calls the work off; `true` if it certainly never began.
    pub(crate) fn revoke(self) -> bool {
        self.begun.revoke()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.worker.kill();
    }
}

/// Starts a worker under a pool's supervisor.
pub(super) async fn spawn<T: Send + 'static>(
    warden: ActorCell,
    threads: Option<Handle>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<Running<T>, SpawnErr> {
    let begun = Arc::new(Begun::default());
    let (answer, outcome) = oneshot::channel();
    let may_begin = Arc::clone(&begun);
    let work = async move {
        if may_begin.begin() {
            // Nobody hears it when the call was given up meanwhile.
            let _given_up = answer.send(work.await);
        }
    };
    let start = Start {
        work: work.boxed(),
        threads,
    };
    let (worker, _) = Actor::spawn_linked(None, Worker, start, warden).await?;
    Ok(Running {
        worker,
        outcome,
        begun,
    })
}

/// Supervises the workers of one pool.
pub(super) struct Warden {
    of: Executor,
}

/// A warden is asked nothing; it only hears of its workers.
pub(super) struct Nothing;

impl Warden {
    pub(super) async fn spawn(of: Executor) -> Result<ActorRef<Nothing>, SpawnErr> {
        let (warden, _) = Actor::spawn(None, Self { of }, ()).await?;
        Ok(warden)
    }
}

impl Actor for Warden {
    type Msg = Nothing;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Nothing>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Nothing>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            tracing::error!(pool = %self.of, %error, "a tool's worker failed; its call is settled by its rule");
        }
        Ok(())
    }
}
