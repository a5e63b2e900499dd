//! Faults of the index of owned sessions.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};

use super::line::Line;
use super::operation::Operation;
use crate::active::{ActiveEntry, ActiveIndex};
use crate::error::{ReadError, WriteError};
use crate::stores::Stores;

pub(super) struct FaultyActiveIndex {
    inner: Arc<dyn ActiveIndex>,
    line: Arc<Line>,
}

impl FaultyActiveIndex {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.active),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl ActiveIndex for FaultyActiveIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        let inner = Arc::clone(&self.inner);
        let (node, session) = (node.clone(), session.clone());
        self.line
            .write(Operation::AddActive, async move {
                inner.add(&node, &session, at).await
            })
            .await
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        let (node, session) = (node.clone(), session.clone());
        self.line
            .write_loosely(Operation::RemoveActive, async move {
                inner.remove(&node, &session, version).await
            })
            .await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        self.line.read(Operation::ActiveNodes).await?;
        self.inner.nodes().await
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        self.line.read(Operation::ActiveEntries).await?;
        self.inner.entries(node, after, limit).await
    }
}
