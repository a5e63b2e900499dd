//! Blobs in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;

use crate::blobs::Blobs;
use crate::error::{ReadError, WriteError};
use crate::local::lock;

/// Blobs of all sessions in memory.
#[derive(Debug, Default)]
pub struct MemoryBlobs {
    sessions: Mutex<BTreeMap<SessionKey, BTreeMap<BlobHash, Bytes>>>,
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        let blob = BlobRef {
            hash: BlobHash::of(&bytes),
            size_bytes: bytes.len() as u64,
        };
        let mut sessions = lock(&self.sessions);
        let blobs = sessions.entry(session.clone()).or_default();
        blobs.insert(blob.hash, bytes);
        Ok(blob)
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        let sessions = lock(&self.sessions);
        let bytes = sessions.get(session).and_then(|blobs| blobs.get(&hash));
        // Bytes in memory cannot change behind their hash: there is nothing to check.
        Ok(bytes.cloned())
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        lock(&self.sessions).remove(session);
        Ok(())
    }
}
