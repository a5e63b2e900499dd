//! A session's blobs as the harness reads them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::BlobRef;
use steadfast_core::id::SessionKey;
use steadfast_harness::native::{BlobError, BlobSource};
use steadfast_store::blobs::Blobs;
use steadfast_store::error::ReadError;

/// The store's blobs.
pub(super) struct SessionBlobs(pub(super) Arc<dyn Blobs>);

#[async_trait]
impl BlobSource for SessionBlobs {
    async fn load(&self, session: &SessionKey, blob: BlobRef) -> Result<Bytes, BlobError> {
        match self.0.get(session, blob.hash).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) | Err(ReadError::Corrupt(_)) => Err(BlobError::Missing(blob.hash.to_string())),
            Err(ReadError::Unavailable(detail)) => Err(BlobError::Unavailable(detail)),
        }
    }
}
