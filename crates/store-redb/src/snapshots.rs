//! Snapshots on redb: rows of bounded size, the newest snapshot of each session only.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::snapshots::Snapshots;

use crate::engine::Engine;
use crate::key;
use crate::operation::{Promise, Step};
use crate::piece::{self, Glance};
use crate::table::TableName;

/// A snapshot above this is refused: reading the log again is cheaper.
const SNAPSHOT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// [`Snapshots`] on redb.
pub(crate) struct RedbSnapshots {
    engine: Arc<Engine>,
}

impl RedbSnapshots {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl Snapshots for RedbSnapshots {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        if bytes.len() > SNAPSHOT_BYTES_MAX {
            let reason = format!("a snapshot of more than {SNAPSHOT_BYTES_MAX} bytes");
            return Err(WriteError::Refused(reason));
        }
        let hash = piece::hash(&bytes).await?;
        let key = key::session(session);
        self.engine
            .write(Promise::Seen, bytes.len(), move |group| {
                piece::remove(group, TableName::Snapshots, &key)?;
                piece::put(group, TableName::Snapshots, &key, hash, &bytes);
                Ok(Step::changed(()))
            })
            .await
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        let key = key::session(session);
        let glance = self
            .engine
            .read_here(|sight| piece::glance(sight, TableName::Snapshots, &key));
        let content = match glance {
            Ok(Glance::Whole(content)) => Ok(content),
            Ok(Glance::Large) => {
                self.engine
                    .read_apart(move |sight| piece::get(sight, TableName::Snapshots, &key))
                    .await
            }
            Err(error) => Err(error),
        };
        // A cache: without it the log is read. A damaged one would be a wrong session.
        if let Err(ReadError::Corrupt(detail)) = &content {
            tracing::error!(%session, detail, "a damaged snapshot is passed over");
            return Ok(None);
        }
        content
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let key = key::session(session);
        self.engine
            .write(Promise::Kept, 0, move |group| {
                Ok(if piece::remove(group, TableName::Snapshots, &key)? {
                    Step::changed(())
                } else {
                    Step::unchanged(())
                })
            })
            .await
    }
}
