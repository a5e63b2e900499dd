//! Finds sessions that should be alive and are not: those of a process that is gone, those whose
//! owner here failed. Driven by level: it looks at the index, not at what happened.

use std::sync::Arc;

use steadfast_core::id::NodeId;
use steadfast_store::active::ActiveEntry;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::doors::Doors;
use crate::host::Host;
use crate::sessions::Sessions;

/// Entries read from the index at once.
const PAGE: usize = 256;

/// What a sweep works with.
pub(crate) struct Sweep {
    pub(crate) host: Arc<Host>,
    pub(crate) doors: Arc<Doors>,
    pub(crate) sessions: Sessions,
}

impl Sweep {
    /// Sweeps at once, then every now and then, until `shutdown`.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut sweep_at = Instant::now();
        loop {
            let (rested, next_rested) = self.doors.rested();
            let due_at = next_rested.map_or(sweep_at, |at| at.min(sweep_at));
            tokio::select! { biased;
                () = shutdown.cancelled() => return,
                () = self.reopen(rested) => {}
            }
            tokio::select! { biased;
                () = shutdown.cancelled() => return,
                () = self.doors.rested.notified() => continue,
                () = tokio::time::sleep_until(due_at) => {}
            }
            if Instant::now() >= sweep_at {
                tokio::select! { biased;
                    () = shutdown.cancelled() => return,
                    () = self.index() => {}
                }
                sweep_at = Instant::now() + self.host.options.sweep_every;
            }
        }
    }

    /// Opens sessions again whose actor failed some time ago.
    async fn reopen(&self, keys: Vec<steadfast_core::id::SessionKey>) {
        for key in keys {
            if let Err(error) = self.sessions.wake(&key).await {
                tracing::warn!(session = %key, ?error, "session not opened again");
            }
        }
    }

    /// Looks at every entry of the index.
    async fn index(&self) {
        let nodes = match self.host.stores.active.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::warn!(%error, "index not read");
                return;
            }
        };
        for node in nodes {
            self.entries(&node).await;
        }
    }

    async fn entries(&self, node: &NodeId) {
        let room = Arc::new(Semaphore::new(self.host.options.activations_max.max(1)));
        let mut wakings = JoinSet::new();
        let mut after = None;
        loop {
            let index = &self.host.stores.active;
            let page = match index.entries(node, after.as_ref(), PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%node, %error, "index not read");
                    break;
                }
            };
            let Some(last) = page.last() else { break };
            after = Some(last.session.clone());
            for entry in page.into_iter().filter(|entry| self.is_abandoned(entry)) {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                    break;
                };
                let (host, sessions) = (Arc::clone(&self.host), self.sessions.clone());
                wakings.spawn(async move {
                    adopt(&host, &sessions, &entry).await;
                    drop(permit);
                });
                while wakings.try_join_next().is_some() {}
            }
        }
        while wakings.join_next().await.is_some() {}
    }

    /// Of this store there is one process at a time: an entry of another is of one that is gone. One
    /// of this process counts only when it is too old for an append on its way.
    fn is_abandoned(&self, entry: &ActiveEntry) -> bool {
        if entry.node != self.host.node {
            return true;
        }
        let patience = self.host.options.append_patience.as_millis();
        let age_ms = self.host.now().0.saturating_sub(entry.at.0);
        u128::from(age_ms) > patience && self.doors.find(&entry.session).is_none()
    }
}

/// Gives a session an owner, if it needs one, and forgets the entry by which it was found: an owner
/// here has written a newer one.
async fn adopt(host: &Host, sessions: &Sessions, entry: &ActiveEntry) {
    let (node, session) = (&entry.node, &entry.session);
    if let Err(error) = sessions.wake(session).await {
        tracing::warn!(%session, ?error, "session not swept, later again");
        return;
    }
    let removed = host.stores.active.remove(node, session, entry.version);
    if let Err(error) = removed.await {
        tracing::warn!(%session, %error, "index entry not removed");
    }
}
