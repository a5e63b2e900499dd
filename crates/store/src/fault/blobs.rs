//! Faults of the blobs.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::blobs::Blobs;
use crate::error::{ReadError, WriteError};
use crate::stores::Stores;

pub(super) struct FaultyBlobs {
    inner: Arc<dyn Blobs>,
    line: Arc<Line>,
}

impl FaultyBlobs {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.blobs),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl Blobs for FaultyBlobs {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::PutBlob, async move {
                inner.put(&session, bytes).await
            })
            .await
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        if self.line.read(Operation::GetBlob).await? == Some(Fault::Corrupt) {
            let what = format!("blob {hash} of {session} does not fit its hash");
            return Err(ReadError::Corrupt(what));
        }
        self.inner.get(session, hash).await
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::RemoveBlobs, async move {
                inner.remove_all(&session).await
            })
            .await
    }
}
