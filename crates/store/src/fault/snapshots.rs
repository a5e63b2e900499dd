//! Faults of the snapshots.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;

use super::line::Line;
use super::log::corrupted;
use super::operation::{Fault, Operation};
use crate::error::{ReadError, WriteError};
use crate::snapshots::Snapshots;
use crate::stores::Stores;

pub(super) struct FaultySnapshots {
    inner: Arc<dyn Snapshots>,
    line: Arc<Line>,
}

impl FaultySnapshots {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.snapshots),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl Snapshots for FaultySnapshots {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write_loosely(Operation::PutSnapshot, async move {
                inner.put(&session, bytes).await
            })
            .await
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        let fault = self.line.read(Operation::GetSnapshot).await?;
        let bytes = self.inner.get(session).await?;
        Ok(match fault {
            Some(Fault::Corrupt) => bytes.as_ref().map(corrupted),
            _ => bytes,
        })
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::RemoveSnapshot, async move {
                inner.remove(&session).await
            })
            .await
    }
}
