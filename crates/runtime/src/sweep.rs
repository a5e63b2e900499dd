//! Finds sessions that should be alive and are not: those of dead nodes, those whose owner here
//! failed. Driven by level: it looks at the index, not at what happened.
//!
//! A sweep opens nothing. It puts a wake-up into the session's mailbox and only then forgets the
//! entry by which it was found; the queue gives the session to a node that has room.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{NodeId, SessionKey};
use steadfast_protocol::mail::{self, Mail};
use steadfast_store::active::ActiveEntry;
use steadfast_store::mailbox::{Lane, SendError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::doors::{Doors, Knock};
use crate::host::Host;
use crate::sessions::Sessions;

/// Entries read from the index at once.
const PAGE: usize = 256;

/// What a sweep works with.
pub(crate) struct Sweep {
    host: Arc<Host>,
    doors: Arc<Doors>,
    sessions: Sessions,
    sweeps: u64,
    own_entries_at: Instant,
    /// Absences of this node after which its sessions were looked at.
    absences: u64,
}

impl Sweep {
    pub(crate) fn new(host: Arc<Host>, doors: Arc<Doors>, sessions: Sessions) -> Self {
        Self {
            host,
            doors,
            sessions,
            sweeps: 0,
            own_entries_at: Instant::now(),
            absences: 0,
        }
    }

    /// Sweeps at once, then every now and then, until `shutdown`.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
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
                    () = self.sweep() => {}
                }
                sweep_at = Instant::now() + self.pause();
            }
        }
    }

    /// The time between two sweeps, up to half as long again, so that nodes do not sweep together.
    fn pause(&mut self) -> Duration {
        self.sweeps += 1;
        let mut hasher = DefaultHasher::new();
        (self.host.node.as_str(), self.sweeps).hash(&mut hasher);
        let permille = u32::try_from(hasher.finish() % 500).unwrap_or_default();
        let every = self.host.options.sweep_every;
        every + every * permille / 1_000
    }

    /// Opens sessions again whose actor failed some time ago.
    async fn reopen(&self, keys: Vec<SessionKey>) {
        for key in keys {
            if let Err(error) = self.sessions.wake(&key, None).await {
                tracing::warn!(session = %key, ?error, "session not opened again");
            }
        }
    }

    async fn sweep(&mut self) {
        let absences = self.host.members.absences();
        if absences > self.absences {
            self.absences = absences;
            self.look_for_successors().await;
        }
        self.index().await;
    }

    /// Others may have taken this node for dead while it heard nothing, and an owner that has nothing
    /// to write would never learn that it was replaced: whoever reads here would be shown its past.
    async fn look_for_successors(&self) {
        let room = Arc::new(Semaphore::new(self.host.options.sweep_letters_max.max(1)));
        let mut looks = JoinSet::new();
        for door in self.doors.all() {
            let owned = door.committed();
            let Some(session) = owned.filter(|_| door.owns(&self.host.node)) else {
                continue;
            };
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (log, doors) = (Arc::clone(&self.host.stores.log), Arc::clone(&self.doors));
            looks.spawn(async move {
                match log.tail(&session.key).await {
                    Ok(tail) => {
                        let epoch = tail.last.map(|last| last.epoch);
                        if let Some(epoch) = epoch.filter(|epoch| *epoch > session.epoch) {
                            // Who is gone by now knows it.
                            let _gone = doors.knock(&door, Knock::Superseded { epoch }).await;
                        }
                    }
                    // Its next append tells.
                    Err(error) => {
                        tracing::debug!(session = %session.key, %error, "owner not looked for");
                    }
                }
                drop(permit);
            });
            while looks.try_join_next().is_some() {}
        }
        while looks.join_next().await.is_some() {}
    }

    /// Looks at the nodes that the index names.
    async fn index(&mut self) {
        let nodes = match self.host.stores.active.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::warn!(%error, "index not read");
                return;
            }
        };
        for node in nodes {
            if node == self.host.node {
                self.own_entries().await;
            } else if self.host.members.presumed_dead(&node).await {
                self.entries(&node, |_| true).await;
            }
        }
    }

    /// An entry of this process without an owner here, too old for an append on its way: an owner
    /// that failed, or a take-over that came after its writer gave up.
    async fn own_entries(&mut self) {
        if Instant::now() < self.own_entries_at {
            return;
        }
        let patience = self.host.options.append_patience;
        self.own_entries_at = Instant::now() + patience / 2;
        let (now, doors) = (self.host.now(), Arc::clone(&self.doors));
        let node = self.host.node.clone();
        let is_abandoned = move |entry: &ActiveEntry| {
            let age = Duration::from_millis(now.0.saturating_sub(entry.at.0));
            age > patience && doors.find(&entry.session).is_none()
        };
        self.entries(&node, is_abandoned).await;
    }

    async fn entries(&self, node: &NodeId, is_abandoned: impl Fn(&ActiveEntry) -> bool) {
        let room = Arc::new(Semaphore::new(self.host.options.sweep_letters_max.max(1)));
        let mut wake_ups = JoinSet::new();
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
            for entry in page.into_iter().filter(&is_abandoned) {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                    break;
                };
                let host = Arc::clone(&self.host);
                wake_ups.spawn(async move {
                    wake_up(&host, &entry).await;
                    drop(permit);
                });
                while wake_ups.try_join_next().is_some() {}
            }
        }
        while wake_ups.join_next().await.is_some() {}
    }
}

/// Has a session looked at by whoever has room, then forgets the entry by which it was found.
async fn wake_up(host: &Host, entry: &ActiveEntry) {
    let ActiveEntry {
        node,
        session,
        version,
        ..
    } = entry;
    let letter = mail::encode(&Mail::WakeUp {
        dead_owner: Some(node.clone()),
    });
    let letter = match letter {
        Ok(letter) => letter,
        Err(error) => {
            tracing::error!(%session, %error, "session not swept");
            return;
        }
    };
    let mailbox = &host.stores.mailbox;
    let id = format!("dead-{node}-{version}");
    match mailbox
        .send(session, Lane::Control, &id, letter.into())
        .await
    {
        // Whoever takes what fills it, looks at the session.
        Ok(_) | Err(SendError::Full) => {}
        Err(SendError::Write(error)) => {
            tracing::warn!(%session, %error, "session not swept, later again");
            return;
        }
    }
    tracing::debug!(%session, %node, "session swept");
    let removed = host.stores.active.remove(node, session, *version);
    if let Err(error) = removed.await {
        tracing::warn!(%session, %error, "index entry not removed");
    }
}
