//! Snapshots in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};
use crate::local::lock;
use crate::snapshots::Snapshots;

/// Snapshots of all sessions in memory.
#[derive(Debug, Default)]
pub struct MemorySnapshots {
    sessions: Mutex<BTreeMap<SessionKey, Bytes>>,
}

#[async_trait]
impl Snapshots for MemorySnapshots {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        lock(&self.sessions).insert(session.clone(), bytes);
        Ok(())
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        Ok(lock(&self.sessions).get(session).cloned())
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        lock(&self.sessions).remove(session);
        Ok(())
    }
}
