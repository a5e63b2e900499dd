//! The index of owned sessions on JetStream: one message for each entry, its version its number.
//!
//! A node's name stands in the same stream while it may have entries, so that the nodes are found
//! without a look at every entry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use steadfast_core::id::{NodeId, SessionKey, Timestamp};
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::clock::{Clock, SystemClock};
use steadfast_store::error::{ReadError, WriteError};

use crate::batch_get::Got;
use crate::headers;
use crate::request::Shared;
use crate::subject::{Names, last_token};
use crate::task::lock;

/// A node that adds entries writes its name anew after this long.
const NAME_RENEWED: Duration = Duration::from_secs(60 * 60);
/// A name without entries is removed when it is so old: nobody who adds an entry rests on it.
const NAME_KEPT_MS: u64 = 24 * 60 * 60 * 1_000;
/// Entries that are read at the same time.
const READS_AT_ONCE: usize = 32;

/// [`ActiveIndex`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsActiveIndex {
    connection: Shared,
    names: Arc<Names>,
    named: Mutex<BTreeMap<NodeId, Instant>>,
}

impl NatsActiveIndex {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self {
            connection,
            names,
            named: Mutex::default(),
        }
    }

    /// Sees to it that the node's name stands before its entry does.
    async fn name(&self, node: &NodeId) -> Result<(), WriteError> {
        let is_new = |at: &Instant| at.elapsed() < NAME_RENEWED;
        if lock(&self.named).get(node).is_some_and(is_new) {
            return Ok(());
        }
        let began = Instant::now();
        let subject = self.names.owner(node.as_str());
        let map = at_header(SystemClock.now());
        self.connection.publish(&subject, map, Bytes::new()).await?;
        let mut named = lock(&self.named);
        named.retain(|_, at| is_new(at));
        named.insert(node.clone(), began);
        Ok(())
    }

    /// An entry as the leader has it: a copy that is behind would give a version that no longer
    /// removes the entry.
    async fn entry(
        &self,
        node: &NodeId,
        session: SessionKey,
    ) -> Result<Option<ActiveEntry>, ReadError> {
        let stream = self.names.active_stream();
        let subject = self.names.active(node, &session);
        let Some(message) = self.connection.last(&stream, &subject).await? else {
            return Ok(None);
        };
        let at = headers::number(&message.headers, headers::AT);
        let at =
            at.ok_or_else(|| ReadError::Corrupt(format!("the entry {subject} has no time")))?;
        Ok(Some(ActiveEntry {
            node: node.clone(),
            session,
            at: Timestamp(at),
            version: message.sequence,
        }))
    }

    async fn has_entries(&self, node: &NodeId) -> Result<bool, ReadError> {
        let stream = self.names.active_stream();
        let entries = self.names.active_of_node(node);
        Ok(self.connection.last(&stream, &entries).await?.is_some())
    }

    /// Removes an old name that has no entries.
    async fn forget(&self, name: &Got) -> Result<(), ReadError> {
        let now_ms = SystemClock.now().0;
        let at = headers::number(&name.headers, headers::AT).unwrap_or_default();
        if now_ms.saturating_sub(at) > NAME_KEPT_MS {
            let stream = self.names.active_stream();
            let below = name.sequence.saturating_add(1);
            self.connection
                .purge(&stream, &name.subject, Some(below))
                .await?;
        }
        Ok(())
    }
}

#[async_trait]
impl ActiveIndex for NatsActiveIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        self.name(node).await?;
        let subject = self.names.active(node, session);
        let stored = self
            .connection
            .publish(&subject, at_header(at), Bytes::new());
        Ok(stored.await?.sequence)
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        let stream = self.names.active_stream();
        let subject = self.names.active(node, session);
        let below = version.saturating_add(1);
        Ok(self
            .connection
            .purge(&stream, &subject, Some(below))
            .await?)
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        let stream = self.names.active_stream();
        let pattern = self.names.owner("*");
        let subjects = self.connection.subjects(&stream, &pattern).await?;
        let mut nodes = Vec::new();
        for name in self.connection.last_of_each(&stream, &subjects).await? {
            let Ok(node) = NodeId::new(last_token(&name.subject)) else {
                continue;
            };
            if self.has_entries(&node).await? {
                nodes.push(node);
            } else {
                self.forget(&name).await?;
            }
        }
        nodes.sort();
        Ok(nodes)
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        let stream = self.names.active_stream();
        let pattern = self.names.active_of_node(node);
        let subjects = self.connection.subjects(&stream, &pattern).await?;
        let sessions = subjects
            .iter()
            .filter_map(|subject| self.names.session_of_active(node, subject));
        let mut sessions: Vec<SessionKey> = sessions
            .filter(|session| after.is_none_or(|after| session > after))
            .collect();
        sessions.sort();
        sessions.truncate(limit);
        let reads = sessions
            .into_iter()
            .map(|session| self.entry(node, session));
        let reads: Vec<_> = reads.collect();
        let mut entries = stream::iter(reads).buffered(READS_AT_ONCE);
        let mut found = Vec::new();
        while let Some(entry) = entries.next().await {
            found.extend(entry?);
        }
        Ok(found)
    }
}

fn at_header(at: Timestamp) -> HeaderMap {
    headers::map(&[(headers::AT, &at)])
}
