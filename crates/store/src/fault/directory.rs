//! Faults of the directory.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::id::{SessionId, SessionKey, TenantId};

use super::line::Line;
use super::operation::Operation;
use crate::directory::{Directory, DirectoryEntry, DirectoryQuery};
use crate::error::{ReadError, WriteError};
use crate::stores::Stores;

pub(super) struct FaultyDirectory {
    inner: Arc<dyn Directory>,
    line: Arc<Line>,
}

impl FaultyDirectory {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.directory),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl Directory for FaultyDirectory {
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::PutDirectory, async move {
                inner.put(&session, entry).await
            })
            .await
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::RemoveDirectory, async move {
                inner.remove(&session).await
            })
            .await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        self.line.read(Operation::ListDirectory).await?;
        self.inner.list(tenant, query).await
    }
}
