//! The index of owned sessions on redb: one row for each node and session.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::error::{ReadError, WriteError};

use crate::engine::{Engine, Health};
use crate::entries::Entry;
use crate::fault::Fault;
use crate::key::{self, KeyRange};
use crate::operation::{Promise, Step};
use crate::table::TableName;

/// [`ActiveIndex`] on redb.
pub(crate) struct RedbActiveIndex {
    engine: Arc<Engine>,
}

impl RedbActiveIndex {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Has the entries written that wait, so that a read does not miss them. They go on waiting: the
    /// Record that follows must find them on the disk.
    async fn write_waiting(&self) -> Result<(), ReadError> {
        if self.engine.shared.entries.is_empty() {
            return Ok(());
        }
        let written = self.engine.write(Promise::Seen, 0, |group| {
            let entries = group.entries().all();
            if entries.is_empty() {
                return Ok(Step::unchanged(()));
            }
            for (key, entry) in entries {
                group.put(TableName::Active, key, entry.encode().to_vec());
            }
            Ok(Step::changed(()))
        });
        let written = written.await;
        written.map_err(|error| ReadError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl ActiveIndex for RedbActiveIndex {
    // Written by the append that follows, see [`crate::entries`].
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        let shared = &self.engine.shared;
        if *shared.health.borrow() != Health::Working {
            return Err(WriteError::Unavailable(shared.why_not_open()));
        }
        let version = shared.next_position();
        let key = key::of_node_session(node, session);
        shared.entries.add(key, Entry { version, at });
        Ok(version)
    }

    // Not synced at once: an entry that comes back after a crash costs one look.
    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        let key = key::of_node_session(node, session);
        self.engine.shared.entries.drop_up_to(&key, version);
        self.engine
            .write(Promise::Seen, 0, move |group| {
                let found = match group.get(TableName::Active, &key)? {
                    Some(row) => Some(read_row(&row)?.0),
                    None => None,
                };
                if found.is_none_or(|found| found > version) {
                    return Ok(Step::unchanged(()));
                }
                group.remove(TableName::Active, key.clone());
                Ok(Step::changed(()))
            })
            .await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        self.write_waiting().await?;
        // One step for each node, however many sessions it has.
        self.engine
            .read_apart(|sight| {
                let mut nodes = Vec::new();
                let mut left = KeyRange::of_ids();
                while let Some(row) = sight.rows(TableName::Active, &left)?.next() {
                    let node = key::split_node(&row?.key).ok_or_else(not_an_entry)?.0;
                    left.first = key::of_node(&node).end;
                    nodes.push(node);
                }
                Ok(nodes)
            })
            .await
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        self.write_waiting().await?;
        let mut range = key::of_node(node);
        if let Some(after) = after {
            range = range.after(&key::of_node_session(node, after));
        }
        let rows = self
            .engine
            .read_rows(TableName::Active, range, limit)
            .await?;
        rows.iter()
            .map(|(key, row)| read_entry(node, key, row).map_err(Fault::into_read_error))
            .collect()
    }
}

fn read_entry(node: &NodeId, key: &[u8], row: &[u8]) -> Result<ActiveEntry, Fault> {
    let (_, rest) = key::split_node(key).ok_or_else(not_an_entry)?;
    let (session, _) = key::split_session(rest).ok_or_else(not_an_entry)?;
    let (version, at) = read_row(row)?;
    Ok(ActiveEntry {
        node: node.clone(),
        session,
        at,
        version,
    })
}

fn read_row(row: &[u8]) -> Result<(u64, Timestamp), Fault> {
    let (version, at) = row.split_first_chunk().ok_or_else(not_an_entry)?;
    let at = at.try_into().map_err(|_| not_an_entry())?;
    Ok((
        u64::from_be_bytes(*version),
        Timestamp(u64::from_be_bytes(at)),
    ))
}

fn not_an_entry() -> Fault {
    Fault::Corrupt("an entry of the index of owned sessions cannot be read".into())
}
