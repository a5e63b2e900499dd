//! Blobs on JetStream: each session's in subjects of its own, so that they go together.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;
use steadfast_store::blobs::Blobs;
use steadfast_store::error::{ReadError, WriteError};

use crate::request::Shared;
use crate::subject::Names;

/// [`Blobs`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsBlobs {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsBlobs {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }
}

#[async_trait]
impl Blobs for NatsBlobs {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        let blob = BlobRef {
            hash: BlobHash::of(&bytes),
            size_bytes: bytes.len() as u64,
        };
        // Written again also when it stands: a removal that is on its way must not take it along.
        let subject = self.names.blob(session, blob.hash);
        self.connection.put_content(&subject, bytes).await?;
        Ok(blob)
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        let stream = self.names.blob_stream();
        let subject = self.names.blob(session, hash);
        let Some(bytes) = self.connection.get_content(&stream, &subject).await? else {
            return Ok(None);
        };
        if BlobHash::of(&bytes) != hash {
            let reason = format!("the blob {hash} of {session} has other bytes");
            return Err(ReadError::Corrupt(reason));
        }
        Ok(Some(bytes))
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        let (stream, blobs) = (self.names.blob_stream(), self.names.blobs(session));
        Ok(self.connection.purge(&stream, &blobs, None).await?)
    }
}
