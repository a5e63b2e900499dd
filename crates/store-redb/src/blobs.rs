//! Blobs on redb: rows of bounded size for each session and hash.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;
use steadfast_store::blobs::Blobs;
use steadfast_store::error::{ReadError, WriteError};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::key;
use crate::operation::{Promise, Step};
use crate::piece;
use crate::table::TableName;

/// A blob above this is refused.
const BLOB_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Rows that one transaction of a removal takes.
const REMOVE_ROWS_MAX: usize = 1_000;

/// [`Blobs`] on redb.
pub(crate) struct RedbBlobs {
    engine: Arc<Engine>,
}

impl RedbBlobs {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl Blobs for RedbBlobs {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        let size_bytes = bytes.len();
        if size_bytes > BLOB_BYTES_MAX {
            let reason = format!("a blob of more than {BLOB_BYTES_MAX} bytes");
            return Err(WriteError::Refused(reason));
        }
        let hash = piece::hash(&bytes).await?;
        let key = blob_key(session, hash);
        self.engine
            .write(Promise::Kept, size_bytes, move |group| {
                if group.get(TableName::Blobs, &key)?.is_some() {
                    return Ok(Step::unchanged(()));
                }
                piece::put(group, TableName::Blobs, &key, hash, &bytes);
                Ok(Step::changed(()))
            })
            .await?;
        Ok(BlobRef {
            hash,
            size_bytes: size_bytes as u64,
        })
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        let key = blob_key(session, hash);
        let session = session.clone();
        self.engine
            .read_apart(move |sight| {
                piece::get(sight, TableName::Blobs, &key).map_err(|fault| match fault {
                    Fault::Corrupt(detail) => {
                        Fault::Corrupt(format!("blob {hash} of {session}: {detail}"))
                    }
                    other => other,
                })
            })
            .await
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        loop {
            let range = key::of_session(session);
            let more = self
                .engine
                .write(Promise::Kept, 0, move |group| {
                    let removed = group.remove_some(TableName::Blobs, &range, REMOVE_ROWS_MAX)?;
                    Ok(if removed.rows > 0 {
                        Step::changed(removed.stopped)
                    } else {
                        Step::unchanged(false)
                    })
                })
                .await?;
            if !more {
                return Ok(());
            }
        }
    }
}

fn blob_key(session: &SessionKey, hash: BlobHash) -> Vec<u8> {
    let mut key = key::session(session);
    key.extend_from_slice(&hash.0);
    key
}
