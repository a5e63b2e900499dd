//! The index of owned sessions in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

use async_trait::async_trait;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};

use crate::active::{ActiveEntry, ActiveIndex};
use crate::error::{ReadError, WriteError};
use crate::local::lock;

/// The index in memory.
#[derive(Debug, Default)]
pub struct MemoryActiveIndex {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    versions: u64,
    nodes: BTreeMap<NodeId, BTreeMap<SessionKey, ActiveEntry>>,
}

#[async_trait]
impl ActiveIndex for MemoryActiveIndex {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        let mut state = lock(&self.state);
        state.versions += 1;
        let version = state.versions;
        let entry = ActiveEntry {
            node: node.clone(),
            session: session.clone(),
            at,
            version,
        };
        let entries = state.nodes.entry(node.clone()).or_default();
        entries.insert(session.clone(), entry);
        Ok(version)
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError> {
        let mut state = lock(&self.state);
        if let Some(entries) = state.nodes.get_mut(node) {
            entries.retain(|key, entry| key != session || entry.version > version);
            if entries.is_empty() {
                state.nodes.remove(node);
            }
        }
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        Ok(lock(&self.state).nodes.keys().cloned().collect())
    }

    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        let state = lock(&self.state);
        let Some(entries) = state.nodes.get(node) else {
            return Ok(Vec::new());
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = entries.range((from, Bound::Unbounded)).take(limit);
        Ok(page.map(|(_, entry)| entry.clone()).collect())
    }
}
