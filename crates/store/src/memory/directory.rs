//! The directory in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

use async_trait::async_trait;
use steadfast_core::id::{SessionId, SessionKey, TenantId};

use crate::directory::{Directory, DirectoryEntry, DirectoryQuery};
use crate::error::{ReadError, WriteError};
use crate::local::lock;

/// The directory in memory.
#[derive(Debug, Default)]
pub struct MemoryDirectory {
    tenants: Mutex<BTreeMap<TenantId, BTreeMap<SessionId, DirectoryEntry>>>,
}

#[async_trait]
impl Directory for MemoryDirectory {
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError> {
        let mut tenants = lock(&self.tenants);
        let sessions = tenants.entry(session.tenant.clone()).or_default();
        let is_outdated = sessions
            .get(&session.session)
            .is_some_and(|present| present.seq > entry.seq);
        if !is_outdated {
            sessions.insert(session.session.clone(), entry);
        }
        Ok(())
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        let mut tenants = lock(&self.tenants);
        if let Some(sessions) = tenants.get_mut(&session.tenant) {
            sessions.remove(&session.session);
            if sessions.is_empty() {
                tenants.remove(&session.tenant);
            }
        }
        Ok(())
    }

    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        let tenants = lock(&self.tenants);
        let Some(sessions) = tenants.get(tenant) else {
            return Ok(Vec::new());
        };
        let from = query
            .after
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let page = sessions
            .range((from, Bound::Unbounded))
            .filter(|(_, entry)| query.accepts(entry))
            .take(query.limit);
        Ok(page
            .map(|(session, entry)| (session.clone(), entry.clone()))
            .collect())
    }
}
