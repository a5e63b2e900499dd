//! Ports with one mistake each, put back to prove that a run of several nodes finds it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};

use super::world::World;

/// Removes letters as soon as they are read.
pub(super) struct EagerMailbox(pub(super) Arc<dyn Mailbox>);

#[async_trait]
impl Mailbox for EagerMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        self.0.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let letters = self.0.pending(session, after, limit).await?;
        if let Some(last) = letters.last() {
            let _removed = self.0.acknowledge(session, last.seq).await;
        }
        Ok(letters)
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.0.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        self.0.next().await
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.0.give_back(delivery, delay).await
    }
}

/// Takes the wake-ups of owners that let go, and keeps none.
pub(super) struct SleepyMailbox(pub(super) Arc<dyn Mailbox>);

#[async_trait]
impl Mailbox for SleepyMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        if id.starts_with("wake-") {
            return Ok(MailSeq(u64::MAX / 2));
        }
        self.0.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        self.0.pending(session, after, limit).await
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.0.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        self.0.next().await
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.0.give_back(delivery, delay).await
    }
}

/// Acknowledges an entry and writes it only later, if its node still lives by then.
pub(super) struct LateIndex {
    inner: Arc<dyn ActiveIndex>,
    world: World,
    late: Mutex<BTreeMap<(NodeId, SessionKey), u64>>,
}

/// How much later.
const LATE: Duration = Duration::from_secs(3);

impl LateIndex {
    pub(super) fn new(inner: Arc<dyn ActiveIndex>, world: World) -> Self {
        Self {
            inner,
            world,
            late: Mutex::default(),
        }
    }
}

#[async_trait]
impl ActiveIndex for LateIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        let added = {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            let count = late.entry((node.clone(), session.clone())).or_default();
            *count += 1;
            *count
        };
        let (inner, world) = (Arc::clone(&self.inner), self.world.clone());
        let (node, session) = (node.clone(), session.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            if !world.is_dead(&node) {
                let _added = inner.add(&node, &session, at).await;
            }
        });
        Ok(added)
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        self.inner.remove(node, session, version).await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        self.inner.nodes().await
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        self.inner.entries(node, after, limit).await
    }
}

/// Removes an entry whatever its version.
pub(super) struct CarelessIndex(pub(super) Arc<dyn ActiveIndex>);

#[async_trait]
impl ActiveIndex for CarelessIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        self.0.add(node, session, at).await
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        _version: u64,
    ) -> Result<(), WriteError> {
        self.0.remove(node, session, u64::MAX).await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        self.0.nodes().await
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        self.0.entries(node, after, limit).await
    }
}
