//! Counts the bytes of snapshots and of the blobs beside them on their way to a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;
use steadfast_store::Stores;
use steadfast_store::blobs::Blobs;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::snapshots::Snapshots;

/// Bytes so far.
#[derive(Default)]
pub(crate) struct SnapshotCount {
    snapshot_bytes: AtomicU64,
    newest_bytes: AtomicU64,
    blob_bytes: AtomicU64,
}

impl SnapshotCount {
    /// Puts a count before these stores.
    pub(crate) fn on(stores: &mut Stores) -> Arc<Self> {
        let count = Arc::new(Self::default());
        stores.snapshots = Arc::new(Counted {
            inner: Arc::clone(&stores.snapshots),
            count: Arc::clone(&count),
        });
        stores.blobs = Arc::new(Counted {
            inner: Arc::clone(&stores.blobs),
            count: Arc::clone(&count),
        });
        count
    }

    /// Of all snapshots and blobs.
    pub(crate) fn bytes(&self) -> u64 {
        self.snapshot_bytes.load(Ordering::Relaxed) + self.blob_bytes.load(Ordering::Relaxed)
    }

    /// Of the newest snapshot.
    pub(crate) fn newest_bytes(&self) -> u64 {
        self.newest_bytes.load(Ordering::Relaxed)
    }
}

struct Counted<P: ?Sized> {
    inner: Arc<P>,
    count: Arc<SnapshotCount>,
}

#[async_trait]
impl Snapshots for Counted<dyn Snapshots> {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        let length = bytes.len() as u64;
        self.count
            .snapshot_bytes
            .fetch_add(length, Ordering::Relaxed);
        self.count.newest_bytes.store(length, Ordering::Relaxed);
        self.inner.put(session, bytes).await
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        self.inner.get(session).await
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        self.inner.remove(session).await
    }
}

#[async_trait]
impl Blobs for Counted<dyn Blobs> {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        let length = bytes.len() as u64;
        self.count.blob_bytes.fetch_add(length, Ordering::Relaxed);
        self.inner.put(session, bytes).await
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        self.inner.get(session, hash).await
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        self.inner.remove_all(session).await
    }
}
