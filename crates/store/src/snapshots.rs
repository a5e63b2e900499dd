//! The snapshot port: a cache of states.

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};

/// The newest snapshot of each session. A cache: any of them may be old or missing.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Replaces the session's snapshot. May be acknowledged before it is durable.
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError>;

    /// Reads the session's snapshot.
    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError>;

    /// Removes the session's snapshot.
    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError>;
}
