//! The directory on JetStream: a bucket with one value for each session.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{SessionId, SessionKey, TenantId};
use steadfast_store::directory::{Directory, DirectoryEntry, DirectoryQuery};
use steadfast_store::error::{ReadError, WriteError};

use crate::fault::code;
use crate::headers;
use crate::request::Shared;
use crate::subject::{Names, last_token};

/// Name of the bucket.
pub(crate) const BUCKET: &str = "DIRECTORY";
/// Writes that lost against another of the same session in a row, after which one gives up.
const TRIES_MAX: usize = 16;
/// Entries that are read at once.
const PAGE: usize = 100;

/// [`Directory`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsDirectory {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsDirectory {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }
}

#[async_trait]
impl Directory for NatsDirectory {
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError> {
        let stream = self.names.bucket_stream(BUCKET);
        let subject = self.names.directory_key(session);
        let bytes = serde_json::to_vec(&entry)
            .map_err(|error| WriteError::Refused(format!("an entry without a form: {error}")))?;
        let bytes = Bytes::from(bytes);
        for _ in 0..TRIES_MAX {
            let stands = self.connection.last(&stream, &subject).await?;
            let expected = stands.as_ref().map_or(0, |message| message.sequence);
            let newer = stands.and_then(|message| decode(&message.payload).ok());
            if newer.is_some_and(|newer| newer.seq > entry.seq) {
                return Ok(());
            }
            let map = headers::map(&[(headers::EXPECTED, &expected)]);
            match self.connection.publish(&subject, map, bytes.clone()).await {
                Ok(_) => return Ok(()),
                Err(fault) => match fault.code() {
                    Some(code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_IN_FLIGHT) => {}
                    Some(_) | None => return Err(fault.into()),
                },
            }
        }
        let reason = "another node wrote the same entry each time".to_owned();
        Err(WriteError::Unavailable(reason))
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let stream = self.names.bucket_stream(BUCKET);
        let subject = self.names.directory_key(session);
        Ok(self.connection.purge(&stream, &subject, None).await?)
    }

    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        let stream = self.names.bucket_stream(BUCKET);
        let pattern = self.names.directory_of_tenant(tenant);
        let subjects = self.connection.subjects(&stream, &pattern).await?;
        let sessions = subjects
            .iter()
            .filter_map(|subject| SessionId::new(last_token(subject)).ok());
        let mut sessions: Vec<SessionId> = sessions
            .filter(|session| query.after.as_ref().is_none_or(|after| session > after))
            .collect();
        sessions.sort();
        let mut listed = Vec::new();
        for page in sessions.chunks(PAGE) {
            if listed.len() >= query.limit {
                break;
            }
            let key = |session: &SessionId| {
                self.names.directory_key(&SessionKey {
                    tenant: tenant.clone(),
                    session: session.clone(),
                })
            };
            let subjects: Vec<String> = page.iter().map(key).collect();
            let mut entries = Vec::new();
            for got in self.connection.last_of_each(&stream, &subjects).await? {
                let Ok(session) = SessionId::new(last_token(&got.subject)) else {
                    continue;
                };
                let entry = decode(&got.payload).map_err(|error| {
                    ReadError::Corrupt(format!("the entry {}: {error}", got.subject))
                })?;
                if query.accepts(&entry) {
                    entries.push((session, entry));
                }
            }
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            listed.extend(entries);
        }
        listed.truncate(query.limit);
        Ok(listed)
    }
}

fn decode(payload: &[u8]) -> Result<DirectoryEntry, serde_json::Error> {
    serde_json::from_slice(payload)
}
