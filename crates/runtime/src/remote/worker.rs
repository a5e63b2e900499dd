//! A worker: pulls jobs, runs them within its bounds, answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use steadfast_core::id::{AgentName, CallId, SessionKey};
use steadfast_core::input::Place;
use steadfast_store::ToolQueue;
use steadfast_store::jobs::JobDelivery;
use steadfast_tools::catalog::Tool;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::counts::JobCounts;
use super::delivery;
use super::options::WorkerOptions;
use crate::host::Host;

/// Runs remote tools of this program: the calls of every session, whoever owns it.
///
/// It claims every `never` run for the very delivery that it holds, says that it is still at it,
/// stops at the deadline and when it is told that a call is not wanted, and answers into the
/// session's mailbox. Of a job that it does not answer, because it died, the queue or the session's
/// owner takes care.
pub(crate) struct RemoteWorker {
    pub(super) host: Arc<Host>,
    pub(super) queue: ToolQueue,
    tools: BTreeMap<(AgentName, String), Arc<Tool>>,
    /// Jobs of each tool that may be here at the same time.
    bounds: BTreeMap<String, usize>,
    here: Mutex<BTreeMap<String, usize>>,
    deliveries: AtomicU64,
    running: Mutex<BTreeMap<(SessionKey, CallId), Vec<CancellationToken>>>,
}

impl RemoteWorker {
    /// A worker of this process's remote tools; `None`: it has none with code of its own, or its
    /// store has no tool queue.
    pub(crate) fn of(host: &Arc<Host>) -> Option<Self> {
        let queue = host.stores.tool_queue.clone()?;
        let jobs_max = host.options.worker.jobs_max.max(1);
        let share = (jobs_max - jobs_max / 4).max(1);
        let (mut tools, mut bounds) = (BTreeMap::new(), BTreeMap::<String, usize>::new());
        for (agent, options) in host.agents.iter() {
            let runs_here =
                |tool: &&Arc<Tool>| tool.spec.place == Place::Remote && tool.worker.is_some();
            for tool in options.catalog.tools().iter().filter(runs_here) {
                let name = tool.spec.name.clone();
                let own = usize::try_from(tool.spec.concurrency_max).unwrap_or(usize::MAX);
                let bound = bounds.entry(name.clone()).or_default();
                *bound = bound.saturating_add(own).min(share);
                tools.insert((agent.clone(), name), Arc::clone(tool));
            }
        }
        (!tools.is_empty()).then(|| Self {
            host: Arc::clone(host),
            queue,
            tools,
            bounds,
            here: Mutex::default(),
            deliveries: AtomicU64::new(0),
            running: Mutex::default(),
        })
    }

    /// The names of the tools that it runs, each once.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        self.bounds.keys().cloned().collect()
    }

    pub(super) fn tool(&self, agent: &AgentName, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(&(agent.clone(), name.to_owned()))
    }

    pub(super) fn options(&self) -> &WorkerOptions {
        &self.host.options.worker
    }

    pub(super) fn counts(&self) -> &JobCounts {
        &self.host.jobs
    }

    /// A holder of claims that no other delivery ever is.
    pub(super) fn holder(&self) -> String {
        let number = self.deliveries.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.host.node)
    }

    /// Runs jobs until `shutdown`; then takes no more, lets those that run come to their end, and
    /// cancels them when their grace is over.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let worker = Arc::new(self);
        let (hard_stop, mut jobs) = (CancellationToken::new(), JoinSet::new());
        let mut hearing = JoinSet::new();
        hearing.spawn(Arc::clone(&worker).hear_cancels());
        let mut failures = 0;
        loop {
            let free = worker.options().jobs_max.max(1) > jobs.len();
            let taken = tokio::select! { biased;
                () = shutdown.cancelled() => break,
                Some(ended) = jobs.join_next(), if !jobs.is_empty() => {
                    report(ended);
                    continue;
                }
                taken = worker.take(failures), if free => taken,
            };
            let Some((delivery, place)) = taken else {
                failures += 1;
                continue;
            };
            failures = 0;
            let (worker, stop) = (Arc::clone(&worker), hard_stop.clone());
            jobs.spawn(async move {
                delivery::handle(&worker, delivery, stop).await;
                drop(place);
            });
        }
        worker.drain(&mut jobs, &hard_stop).await;
    }

    /// The next job of a tool that has room here.
    async fn take(self: &Arc<Self>, failures: u32) -> Option<(Arc<dyn JobDelivery>, Here)> {
        if failures > 0 {
            tokio::time::sleep(self.options().wait(failures)).await;
        }
        let names = self.tools_with_room();
        if names.is_empty() {
            // A job that ends makes room, and this is asked anew then.
            return std::future::pending().await;
        }
        match self.queue.jobs.next(&names).await {
            Ok(delivery) => {
                JobCounts::add(&self.counts().taken);
                if delivery.deliveries() > 1 {
                    JobCounts::add(&self.counts().redelivered);
                }
                let here = self.here(&delivery.job().name.tool);
                Some((delivery, here))
            }
            Err(error) => {
                tracing::warn!(%error, "tool queue not read, again");
                None
            }
        }
    }

    fn tools_with_room(&self) -> Vec<String> {
        let here = lock(&self.here);
        let has_room =
            |(name, bound): &(&String, &usize)| here.get(*name).is_none_or(|count| count < *bound);
        let with_room = self.bounds.iter().filter(has_room);
        with_room.map(|(name, _)| name.clone()).collect()
    }

    fn here(self: &Arc<Self>, tool: &str) -> Here {
        *lock(&self.here).entry(tool.to_owned()).or_default() += 1;
        Here {
            worker: Arc::clone(self),
            tool: tool.to_owned(),
        }
    }

    async fn drain(&self, jobs: &mut JoinSet<()>, hard_stop: &CancellationToken) {
        let options = &self.host.options;
        let all = async {
            while let Some(ended) = jobs.join_next().await {
                report(ended);
            }
        };
        tokio::pin!(all);
        tokio::select! { biased;
            () = &mut all => return,
            () = tokio::time::sleep(options.drain_grace) => {}
        }
        hard_stop.cancel();
        // Each answers, or is dropped: its job comes again, or its claim says that nobody knows.
        let grace = options.cancel_grace * 2;
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
            tokio::time::sleep(self.options().wait(failures)).await;
        }
    }

    fn cancel(&self, session: SessionKey, call: CallId) {
        for token in lock(&self.running)
            .get(&(session, call))
            .into_iter()
            .flatten()
        {
            JobCounts::add(&self.counts().cancelled);
            token.cancel();
        }
    }

    /// Cancelled when the call is not wanted any more, while it is kept.
    pub(super) fn wanted(self: &Arc<Self>, session: SessionKey, call: CallId) -> Wanted {
        let (key, token) = ((session, call), CancellationToken::new());
        let mut running = lock(&self.running);
        running.entry(key.clone()).or_default().push(token.clone());
        drop(running);
        Wanted {
            worker: Arc::clone(self),
            key,
            token,
        }
    }
}

/// That a job of a tool is here.
struct Here {
    worker: Arc<RemoteWorker>,
    tool: String,
}

impl Drop for Here {
    fn drop(&mut self) {
        let mut here = lock(&self.worker.here);
        if let Some(count) = here.get_mut(&self.tool) {
            *count = count.saturating_sub(1);
        }
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
        let mut running = lock(&self.worker.running);
        if let Some(tokens) = running.get_mut(&self.key) {
            tokens.retain(|token| !token.is_cancelled());
            if tokens.is_empty() {
                running.remove(&self.key);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are never half changed: a panic elsewhere means nothing here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a job's task failed");
    }
}
