//! The actor that runs attempts of tool calls, one after the other, and the supervisor of a pool's
//! workers.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use ractor::{
    Actor, ActorCell, ActorProcessingErr, ActorRef, MessagingErr, SpawnErr, SupervisionEvent,
};
use steadfast_tools::worker::Executor;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// Workers of a pool that wait for work, at most; others go when theirs is done.
const IDLE_MAX: usize = 64;

/// Does what it is given, and is gone when that panics.
struct Worker;

/// One piece of work. A worker has no second one waiting: it is given work only while it is idle.
pub(super) struct Work(Job);

type Job = BoxFuture<'static, ()>;

/// Workers of one pool that have nothing to do.
#[derive(Default)]
pub(super) struct Idle(Mutex<Vec<ActorRef<Work>>>);

impl Idle {
    fn lock(&self) -> MutexGuard<'_, Vec<ActorRef<Work>>> {
        // One operation at a time: a panic elsewhere means nothing here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<ActorRef<Work>> {
        self.lock().pop()
    }

    /// `false`: there are enough.
    fn put(&self, worker: ActorRef<Work>) -> bool {
        let mut idle = self.lock();
        let has_room = idle.len() < IDLE_MAX;
        if has_room {
            idle.push(worker);
        }
        has_room
    }
}

/// What a worker begins with: its first work, where it waits for more, and the threads that do it
/// unless they are its own.
struct Start {
    first: Work,
    rest: Rest,
}

struct Rest {
    idle: Arc<Idle>,
    threads: Option<Handle>,
}

impl Actor for Worker {
    type Msg = Work;
    type State = Rest;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Work>,
        Start { first, rest }: Start,
    ) -> Result<Rest, ActorProcessingErr> {
        myself.cast(first)?;
        Ok(rest)
    }

    async fn handle(
        &self,
        myself: ActorRef<Work>,
        Work(work): Work,
        rest: &mut Rest,
    ) -> Result<(), ActorProcessingErr> {
        match &rest.threads {
            None => work.await,
            // The worker itself stays where nothing blocks, so that it can always be killed.
            Some(threads) => AbortOnDropHandle::new(threads.spawn(work)).await?,
        }
        if !rest.idle.put(myself.clone()) {
            myself.stop(None);
        }
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

/// Work that a worker does.
pub(crate) struct Running<T> {
    work: AbortHandle,
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
        self.work.abort();
    }
}

/// Where a pool's workers come from.
pub(super) struct Crew {
    pub(super) warden: ActorCell,
    pub(super) idle: Arc<Idle>,
    pub(super) threads: Option<Handle>,
}

impl Crew {
    /// Has an idle worker do this, or a new one.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Running<T>, SpawnErr> {
        let begun = Arc::new(Begun::default());
        let (answer, outcome) = oneshot::channel();
        let (abort, registration) = AbortHandle::new_pair();
        let running = Running {
            work: abort,
            outcome,
            begun: Arc::clone(&begun),
        };
        let work = async move {
            if begun.begin() {
                // Nobody hears it when the call was given up meanwhile.
                let _given_up = answer.send(work.await);
            }
        };
        // Only the work is called off; its worker goes on to the next.
        let mut work = Work(Abortable::new(work, registration).map(drop).boxed());
        while let Some(worker) = self.idle.take() {
            match worker.cast(work) {
                Ok(()) => return Ok(running),
                // It ended while it was idle.
                Err(MessagingErr::SendErr(back)) => work = back,
                Err(error) => return Err(SpawnErr::StartupFailed(error.to_string().into())),
            }
        }
        let rest = Rest {
            idle: self.idle,
            threads: self.threads,
        };
        let start = Start { first: work, rest };
        Actor::spawn_linked(None, Worker, start, self.warden).await?;
        Ok(running)
    }
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
