//! The blob port: content too large for the log, beside it.

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};

/// Blobs of each session, by the hash of their bytes.
///
/// `put` answers `Ok` only when the blob is as durable as the log: it is called before the event
/// that names the blob is appended. Putting the same bytes again is harmless. `get` checks the hash
/// (other bytes are [`ReadError::Corrupt`]) and gives `None` only if the blob was never put into
/// this session or its session was deleted; what was acknowledged before the call is never missed.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Writes a blob.
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError>;

    /// Reads a blob.
    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError>;

    /// Removes all blobs of a session.
    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError>;
}
