//! The directory on redb: one row for each session, a tenant's rows one range.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Seq, SessionId, SessionKey, TenantId};
use steadfast_store::directory::{Directory, DirectoryEntry, DirectoryQuery};
use steadfast_store::error::{ReadError, WriteError};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::key::{self, KeyRange};
use crate::operation::{Promise, Step};
use crate::sight::Sight;
use crate::table::TableName;

/// Rises when entries are written in another form; entries of other forms are left out of lists.
const FORM: u8 = 1;

/// [`Directory`] on redb.
pub(crate) struct RedbDirectory {
    engine: Arc<Engine>,
}

impl RedbDirectory {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl Directory for RedbDirectory {
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError> {
        let row = Bytes::from(encode(&entry)?);
        let key = key::session(session);
        self.engine
            .write(Promise::Seen, row.len(), move |group| {
                let stands = group.get(TableName::Directory, &key)?;
                let stands = stands.and_then(|row| seq_of(&row));
                if stands.is_some_and(|stands| stands > entry.seq) {
                    return Ok(Step::unchanged(()));
                }
                group.put(TableName::Directory, key.clone(), row.clone());
                Ok(Step::changed(()))
            })
            .await
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let key = key::session(session);
        self.engine
            .write(Promise::Kept, 0, move |group| {
                if group.get(TableName::Directory, &key)?.is_none() {
                    return Ok(Step::unchanged(()));
                }
                group.remove(TableName::Directory, key.clone());
                Ok(Step::changed(()))
            })
            .await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        let mut range = key::of_tenant(tenant);
        if let Some(after) = &query.after {
            let after = SessionKey {
                tenant: tenant.clone(),
                session: after.clone(),
            };
            range = range.after(&key::session(&after));
        }
        // A query that few entries fit reads them all.
        self.engine
            .read_apart(move |sight| list(sight, &range, &query))
            .await
    }
}

fn list(
    sight: Sight<'_>,
    range: &KeyRange,
    query: &DirectoryQuery,
) -> Result<Vec<(SessionId, DirectoryEntry)>, Fault> {
    let mut listed = Vec::new();
    for row in sight.rows(TableName::Directory, range)? {
        if listed.len() >= query.limit {
            break;
        }
        let row = row?;
        let session = key::split_session(&row.key).map(|(session, _)| session.session);
        match (session, decode(&row.value)) {
            (Some(session), Some(entry)) if query.accepts(&entry) => listed.push((session, entry)),
            (Some(_), Some(_)) => {}
            // One bad entry must not take the whole list: it is written anew when its session
            // next changes.
            (session, _) => tracing::error!(?session, "an entry of the directory cannot be read"),
        }
    }
    Ok(listed)
}

/// The form, the entry's number, the entry.
fn encode(entry: &DirectoryEntry) -> Result<Vec<u8>, WriteError> {
    let mut row = vec![FORM];
    row.extend_from_slice(&entry.seq.0.to_be_bytes());
    rmp_serde::encode::write_named(&mut row, entry)
        .map_err(|error| WriteError::Refused(error.to_string()))?;
    Ok(row)
}

fn seq_of(row: &[u8]) -> Option<Seq> {
    let (&form, rest) = row.split_first()?;
    let (seq, _) = rest.split_first_chunk()?;
    (form == FORM).then_some(Seq(u64::from_be_bytes(*seq)))
}

fn decode(row: &[u8]) -> Option<DirectoryEntry> {
    seq_of(row)?;
    rmp_serde::from_slice(row.get(9..)?).ok()
}
