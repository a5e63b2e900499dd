//! The index of owned sessions: forgetful, late, or removed by name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::error::{ReadError, WriteError};
use tokio::task::JoinSet;

use crate::simulate::setup::Mistake;

/// How long after its session is owned an entry is written.
const LATE: Duration = Duration::from_secs(60);

pub(super) struct MistakenIndex {
    inner: Arc<dyn ActiveIndex>,
    mistake: Mistake,
    /// Entries that are not written yet; they die with their node.
    late: Mutex<JoinSet<()>>,
}

impl MistakenIndex {
    pub(super) fn new(inner: Arc<dyn ActiveIndex>, mistake: Mistake) -> Self {
        Self {
            inner,
            mistake,
            late: Mutex::default(),
        }
    }

    fn forgets(&self) -> bool {
        self.mistake == Mistake::IndexForgets
    }
}

#[async_trait]
impl ActiveIndex for MistakenIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        if self.forgets() {
            return Ok(1);
        }
        if self.mistake != Mistake::IndexWrittenLate {
            return self.inner.add(node, session, at).await;
        }
        let inner = Arc::clone(&self.inner);
        let (node, session) = (node.clone(), session.clone());
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while late.try_join_next().is_some() {}
        late.spawn(async move {
            tokio::time::sleep(LATE).await;
            let _lost_as_any_write = inner.add(&node, &session, at).await;
        });
        Ok(1)
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        let version = match self.mistake {
            Mistake::EntryRemovedByName => u64::MAX,
            _ => version,
        };
        self.inner.remove(node, session, version).await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        match self.forgets() {
            true => Ok(Vec::new()),
            false => self.inner.nodes().await,
        }
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
