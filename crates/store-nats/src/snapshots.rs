//! Snapshots on JetStream: the newest of each session, with the hash of its bytes before it.
//!
//! Two owners that write at the same time may mix the pieces of a large one: the hash tells, and
//! the snapshot counts as missing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use steadfast_core::content::BlobHash;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::snapshots::Snapshots;

use crate::request::Shared;
use crate::subject::Names;

const HASH_BYTES: usize = 32;

/// [`Snapshots`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsSnapshots {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsSnapshots {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }
}

#[async_trait]
impl Snapshots for NatsSnapshots {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        let mut whole = BytesMut::with_capacity(HASH_BYTES + bytes.len());
        whole.extend_from_slice(&BlobHash::of(&bytes).0);
        whole.extend_from_slice(&bytes);
        let subject = self.names.snapshot(session);
        Ok(self
            .connection
            .put_content(&subject, whole.freeze())
            .await?)
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        let stream = self.names.snapshot_stream();
        let subject = self.names.snapshot(session);
        let whole = self.connection.get_content(&stream, &subject).await?;
        Ok(whole.and_then(checked))
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let stream = self.names.snapshot_stream();
        let head = self.names.snapshot(session);
        self.connection.purge(&stream, &head, None).await?;
        let pieces = format!("{head}.>");
        Ok(self.connection.purge(&stream, &pieces, None).await?)
    }
}

fn checked(whole: Bytes) -> Option<Bytes> {
    if whole.len() < HASH_BYTES {
        return None;
    }
    let bytes = whole.slice(HASH_BYTES..);
    (BlobHash::of(&bytes).0.as_slice() == &whole[..HASH_BYTES]).then_some(bytes)
}
