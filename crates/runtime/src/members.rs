//! Which nodes are alive, as far as it matters to this one.
//!
//! ```text
//!   lease task: renew every second          watch task: renewals of all, our own among them
//!                     \                          |
//!                      +----> the store ----> Silence ----> presumed_dead(node)
//!                                                                 |
//!                                          its door: an answer, nobody, or silence
//! ```
//!
//! No decision about a session rests on it: the log is the fence. It only says when it is worth
//! trying, so that owners that are alive are left alone.

mod silence;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use steadfast_core::id::{NodeId, SessionKey};
use steadfast_protocol::door::{self, Answer, Question};
use steadfast_store::Stores;
use steadfast_store::membership::LeaseSignal;
use steadfast_store::node_door::AskError;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::options::Options;
use silence::Silence;

/// Questions to a door that stays silent before its node may be dead.
const SILENT_TRIES: u32 = 2;

/// This node's view of all nodes.
pub(crate) struct Members {
    node: NodeId,
    predecessor: Option<NodeId>,
    /// No other process is at the store.
    alone: bool,
    stores: Stores,
    lease_every: Duration,
    suspect_after: Duration,
    door_patience: Duration,
    silence: Mutex<Silence>,
    /// Our own renewal was heard.
    own_heard: Notify,
    /// A node was found dead.
    death_found: Notify,
}

impl Members {
    pub(crate) fn new(node: NodeId, stores: Stores, options: &Options) -> Self {
        Self {
            node,
            predecessor: options.predecessor.clone(),
            alone: stores.membership.is_alone(),
            stores,
            lease_every: options.lease_every,
            suspect_after: options.suspect_after,
            door_patience: options.door_patience,
            silence: Mutex::new(Silence::new(options.lease_every * 2)),
            own_heard: Notify::new(),
            death_found: Notify::new(),
        }
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        // Changed by single operations: a panic elsewhere means nothing here.
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often this node was out of hearing for so long that others may have taken it for dead.
    pub(crate) fn absences(&self) -> u64 {
        self.silence().absences()
    }

    /// Whether no other process is at the store.
    pub(crate) fn are_alone(&self) -> bool {
        self.alone
    }

    /// Keeps the lease until `closed`, then gives it back.
    pub(crate) async fn keep_lease(self: Arc<Self>, closed: CancellationToken) {
        let mut ticks = tokio::time::interval(self.lease_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                () = closed.cancelled() => break,
                _ = ticks.tick() => {}
            }
            let renew = self.stores.membership.renew(&self.node);
            tokio::select! { biased;
                () = closed.cancelled() => break,
                renewed = tokio::time::timeout(self.lease_every * 2, renew) => match renewed {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "lease not renewed, again"),
                    Err(_) => tracing::warn!("lease not renewed in time, again"),
                },
            }
        }
        let end = self.stores.membership.end(&self.node);
        match tokio::time::timeout(self.lease_every, end).await {
            Ok(Ok(())) => {}
            // It ends by itself.
            Ok(Err(error)) => tracing::debug!(%error, "lease not given back"),
            Err(_) => tracing::debug!("lease not given back in time"),
        }
    }

    /// Hears all renewals until `closed`.
    pub(crate) async fn hear(self: Arc<Self>, closed: CancellationToken) {
        loop {
            tokio::select! { biased;
                () = closed.cancelled() => return,
                () = self.hear_once() => {}
            }
            self.silence().interrupted();
            tokio::select! { biased;
                () = closed.cancelled() => return,
                () = tokio::time::sleep(self.lease_every) => {}
            }
        }
    }

    async fn hear_once(&self) {
        let mut signals = match self.stores.membership.watch().await {
            Ok(signals) => signals,
            Err(error) => {
                tracing::warn!(%error, "leases not watched, again");
                return;
            }
        };
        while let Some(signal) = signals.next().await {
            match signal {
                LeaseSignal::Renewed(node) if node == self.node => {
                    self.silence().own_renewed(Instant::now());
                    self.own_heard.notify_waiters();
                }
                LeaseSignal::Renewed(node) => self.silence().renewed(node),
                LeaseSignal::Ended(node) => self.silence().ended(node),
                LeaseSignal::Interrupted => self.silence().interrupted(),
            }
        }
    }

    /// Whether a node is taken for dead: it was silent for long enough while we could hear, and its
    /// door is silent too.
    pub(crate) async fn presumed_dead(&self, node: &NodeId) -> bool {
        if *node == self.node {
            return false;
        }
        if self.alone || self.is_gone_predecessor(node).await {
            return true;
        }
        {
            let silence = self.silence();
            // While its door is tried, the rest of its time runs.
            let tried_after = self.suspect_after.saturating_sub(self.door_patience);
            if silence.of(node) < tried_after {
                return false;
            }
            if silence.is_dead(node) {
                return true;
            }
            if silence.answered_within(node, self.lease_every) {
                return false;
            }
        }
        // Who tried its door before answers for all that ask meanwhile.
        let silent = tokio::select! { biased;
            () = self.found_dead(node) => return true,
            silent = self.door_is_silent(node) => silent,
        };
        // Heard meanwhile, or no longer sure to hear.
        if !silent || self.silence().of(node) < self.suspect_after {
            return false;
        }
        tracing::warn!(%node, "node is taken for dead");
        self.note_death(node);
        true
    }

    fn note_death(&self, node: &NodeId) {
        self.silence().found_dead(node.clone());
        self.death_found.notify_waiters();
    }

    /// Waits until a node is known to be dead.
    pub(crate) async fn found_dead(&self, node: &NodeId) {
        loop {
            let mut found = std::pin::pin!(self.death_found.notified());
            found.as_mut().enable();
            if self.silence().is_dead(node) {
                return;
            }
            found.await;
        }
    }

    /// Whether it is the process that this one replaces. That needs no waiting for its silence; but
    /// a copy of its folder may name a process that lives, so its door is tried all the same.
    async fn is_gone_predecessor(&self, node: &NodeId) -> bool {
        if self.predecessor.as_ref() != Some(node) {
            return false;
        }
        if self.silence().is_dead(node) {
            return true;
        }
        match self.ask(node, &Question::Alive, self.door_patience).await {
            Ok(_) | Err(AskError::Unavailable(_)) => false,
            Err(AskError::NoResponders | AskError::TimedOut) => {
                tracing::info!(%node, "this node's predecessor is gone: its sessions are taken over");
                self.note_death(node);
                true
            }
        }
    }

    async fn door_is_silent(&self, node: &NodeId) -> bool {
        for tries in 1..=SILENT_TRIES {
            match self.ask(node, &Question::Alive, self.door_patience).await {
                Ok(_) => {
                    self.silence().answered(node.clone());
                    return false;
                }
                // A door whose node has just connected anew is not known everywhere at once.
                Err(AskError::NoResponders) if tries < SILENT_TRIES => {
                    tokio::time::sleep(self.door_patience).await;
                }
                Err(AskError::NoResponders) => return true,
                Err(AskError::TimedOut) => {}
                Err(AskError::Unavailable(_)) => return false,
            }
        }
        // Was it silent, or are we cut off?
        self.hears_itself().await
    }

    /// Waits for an own renewal, which shows that the store can be reached.
    async fn hears_itself(&self) -> bool {
        let heard = async {
            let before = self.silence().own_count();
            loop {
                let mut heard = std::pin::pin!(self.own_heard.notified());
                heard.as_mut().enable();
                if self.silence().own_count() > before {
                    return;
                }
                heard.await;
            }
        };
        let patience = self.lease_every * 2;
        tokio::time::timeout(patience, heard).await.is_ok()
    }

    /// Whether the owner that a session's log names has it no more: it says so, or it is dead.
    pub(crate) async fn owner_is_gone(&self, owner: &NodeId, session: &SessionKey) -> bool {
        if *owner == self.node || self.alone || self.is_gone_predecessor(owner).await {
            return true;
        }
        if self.silence().is_dead(owner) {
            return true;
        }
        let question = Question::Holds {
            session: session.clone(),
        };
        let answer = tokio::select! { biased;
            () = self.found_dead(owner) => return true,
            answer = self.ask(owner, &question, self.door_patience) => answer,
        };
        match answer {
            Ok(Answer::NotMine) => true,
            Ok(_) => false,
            Err(_) => self.presumed_dead(owner).await,
        }
    }

    /// Asks a node something.
    pub(crate) async fn ask(
        &self,
        node: &NodeId,
        question: &Question,
        patience: Duration,
    ) -> Result<Answer, AskError> {
        let unavailable = |detail: String| AskError::Unavailable(detail);
        let bytes = door::encode_question(question);
        let bytes = bytes.map_err(|error| unavailable(error.to_string()))?;
        let doors = &self.stores.node_doors;
        let answer = doors.ask(node, bytes.into(), patience).await?;
        // An answer of another release is one all the same.
        Ok(door::decode_answer(&answer).unwrap_or(Answer::Here))
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::id::{SessionId, TenantId, Timestamp};
    use steadfast_store::clock::TokioClock;
    use steadfast_store::local::LocalMembership;
    use steadfast_store::memory;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_while_a_door_is_tried_is_told_with_who_tried() {
        let clock = TokioClock::starting_at(Timestamp(1_800_000_000_000));
        let mut stores = memory::stores(Arc::new(clock));
        stores.membership = Arc::new(LocalMembership::shared());
        let node = NodeId::new("here").unwrap();
        let members = Arc::new(Members::new(node, stores, &Options::default()));
        let closed = CancellationToken::new();
        tokio::spawn(Arc::clone(&members).hear(closed.clone()));
        tokio::spawn(Arc::clone(&members).keep_lease(closed.clone()));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let silent = NodeId::new("silent").unwrap();
        let session = SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        };
        let first = async { (members.presumed_dead(&silent).await, Instant::now()) };
        let later = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            let gone = members.owner_is_gone(&silent, &session).await;
            (gone, Instant::now())
        };
        let (first, later) = tokio::join!(first, later);
        assert!(first.0);
        assert_eq!(first, later);
        closed.cancel();
    }
}
