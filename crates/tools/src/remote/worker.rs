//! A worker: pulls jobs, runs them within its bound, answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use steadfast_core::id::{AgentName, CallId, NodeId, SessionKey};
use steadfast_core::input::Place;
use steadfast_store::blobs::Blobs;
use steadfast_store::clock::Clock;
use steadfast_store::jobs::JobDelivery;
use steadfast_store::mailbox::Mailbox;
use steadfast_store::{Stores, ToolQueue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::options::WorkerOptions;
use super::running;
use crate::catalog::{Catalog, Tool};

/// Runs remote tools of this program: the calls of every session, whoever owns it.
///
/// It claims every `never` run for the very delivery that it holds, says that it is still at it,
/// stops at the deadline and when it is told that a call is not wanted, and answers into the
/// session's mailbox. Of a job that it does not answer, because it died, the queue or the session's
/// owner takes care.
pub struct RemoteWorker {
    pub(super) queue: ToolQueue,
    pub(super) mailbox: Arc<dyn Mailbox>,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: WorkerOptions,
    node: NodeId,
    tools: BTreeMap<(AgentName, String), Arc<Tool>>,
    deliveries: AtomicU64,
    running: Mutex<BTreeMap<(SessionKey, CallId), Vec<CancellationToken>>>,
}

impl RemoteWorker {
    /// A worker that runs nothing yet; `None`: this store has no tool queue. `node` must be a new
    /// name at each start.
    pub fn new(
        stores: &Stores,
        clock: Arc<dyn Clock>,
        node: NodeId,
        options: WorkerOptions,
    ) -> Option<Self> {
        Some(Self {
            queue: stores.tool_queue.clone()?,
            mailbox: Arc::clone(&stores.mailbox),
            blobs: Arc::clone(&stores.blobs),
            clock,
            options,
            node,
            tools: BTreeMap::new(),
            deliveries: AtomicU64::new(0),
            running: Mutex::default(),
        })
    }

    /// Runs those tools of an agent, too, that are remote and have code in this program.
    #[must_use]
    pub fn serving(mut self, agent: &AgentName, catalog: &Catalog) -> Self {
        let remote = |tool: &&Arc<Tool>| tool.spec.place == Place::Remote && tool.worker.is_some();
        for tool in catalog.tools().iter().filter(remote) {
            let key = (agent.clone(), tool.spec.name.clone());
            self.tools.insert(key, Arc::clone(tool));
        }
        self
    }

    /// The names of the tools that it runs, each once.
    pub fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tools.keys().map(|(_, name)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    pub(super) fn tool(&self, agent: &AgentName, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(&(agent.clone(), name.to_owned()))
    }

    /// A holder of claims that no other delivery ever is.
    pub(super) fn holder(&self) -> String {
        let number = self.deliveries.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.node)
    }

    /// Runs jobs until `shutdown`; then takes no more, lets those that run come to their end, and
    /// cancels them when their grace is over.
    pub async fn run(self, shutdown: CancellationToken) {
        let worker = Arc::new(self);
        let names = worker.tool_names();
        if names.is_empty() {
            return;
        }
        let (hard_stop, mut jobs) = (CancellationToken::new(), JoinSet::new());
        let mut hearing = JoinSet::new();
        hearing.spawn(Arc::clone(&worker).hear_cancels());
        let room = Arc::new(Semaphore::new(worker.options.concurrency_max.max(1)));
        let mut failures = 0;
        loop {
            let taken = tokio::select! { biased;
                () = shutdown.cancelled() => break,
                Some(ended) = jobs.join_next(), if !jobs.is_empty() => {
                    report(ended);
                    continue;
                }
                taken = worker.take(&names, &room, failures) => taken,
            };
            let Some((delivery, place)) = taken else {
                failures += 1;
                continue;
            };
            failures = 0;
            let (worker, stop) = (Arc::clone(&worker), hard_stop.clone());
            jobs.spawn(async move {
                running::handle(&worker, delivery, stop).await;
                drop(place);
            });
        }
        worker.drain(&mut jobs, &hard_stop).await;
    }

    /// The next job, with room to run it.
    async fn take(
        &self,
        names: &[String],
        room: &Arc<Semaphore>,
        failures: u32,
    ) -> Option<(Arc<dyn JobDelivery>, OwnedSemaphorePermit)> {
        if failures > 0 {
            tokio::time::sleep(self.options.wait(failures)).await;
        }
        let place = Arc::clone(room).acquire_owned().await.ok()?;
        match self.queue.jobs.next(names).await {
            Ok(delivery) => Some((delivery, place)),
            Err(error) => {
                tracing::warn!(%error, "tool queue not read, again");
                None
            }
        }
    }

    async fn drain(&self, jobs: &mut JoinSet<()>, hard_stop: &CancellationToken) {
        let all = async {
            while let Some(ended) = jobs.join_next().await {
                report(ended);
            }
        };
        tokio::pin!(all);
        tokio::select! { biased;
            () = &mut all => return,
            () = tokio::time::sleep(self.options.drain_grace) => {}
        }
        hard_stop.cancel();
        // Each answers, or is dropped: its job comes again, or its claim says that nobody knows.
        let grace = self.options.cancel_grace * 2;
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::warn!("jobs cut off at shutdown");
        }
    }

    /// Listens for calls that are not wanted any more. A cancel that is not heard costs time only.
    async fn hear_cancels(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            match self.queue.jobs.cancelled().await {
                Ok(mut cancels) => {
                    failures = 0;
                    while let Some((session, call)) = cancels.next().await {
                        self.cancel(session, call);
                    }
                }
                Err(error) => tracing::warn!(%error, "cancels not heard, again"),
            }
            failures += 1;
            tokio::time::sleep(self.options.wait(failures)).await;
        }
    }

    fn cancel(&self, session: SessionKey, call: CallId) {
        for token in self.running().get(&(session, call)).into_iter().flatten() {
            token.cancel();
        }
    }

    /// Cancelled when the call is not wanted any more, while it is kept.
    pub(super) fn wanted(self: &Arc<Self>, session: SessionKey, call: CallId) -> Wanted {
        let (key, token) = ((session, call), CancellationToken::new());
        let mut running = self.running();
        running.entry(key.clone()).or_default().push(token.clone());
        drop(running);
        Wanted {
            worker: Arc::clone(self),
            key,
            token,
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<(SessionKey, CallId), Vec<CancellationToken>>> {
        // The map is never half changed: a panic elsewhere means nothing here.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That a call is run here; it is forgotten with this value.
pub(super) struct Wanted {
    worker: Arc<RemoteWorker>,
    key: (SessionKey, CallId),
    pub(super) token: CancellationToken,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        // Whoever still holds the token is told, too: nobody waits for it any more.
        self.token.cancel();
        let mut running = self.worker.running();
        if let Some(tokens) = running.get_mut(&self.key) {
            tokens.retain(|token| !token.is_cancelled());
            if tokens.is_empty() {
                running.remove(&self.key);
            }
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a job's task failed");
    }
}
