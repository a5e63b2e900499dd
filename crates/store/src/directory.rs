//! The directory port: what lists of sessions are made of.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use steadfast_core::id::{AgentName, Seq, SessionId, SessionKey, TenantId, Timestamp};

use crate::error::{ReadError, WriteError};

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Whose agent answers.
    pub agent: AgentName,
    /// Tags as given at its making.
    pub tags: Vec<String>,
    /// What it does.
    pub status: Status,
    /// How its last turn ended, as a word.
    pub last_turn: Option<String>,
    /// Ids of approvals that wait.
    #[serde(default)]
    pub approvals: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Number of its last event: an entry of a lower number never replaces one of a higher.
    pub seq: Seq,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No turn.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for somebody.
    Waiting,
    /// Its log cannot be read.
    Quarantined,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectoryQuery {
    /// Only this agent's.
    pub agent: Option<AgentName>,
    /// Only in this status.
    pub status: Option<Status>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only after this id.
    pub after: Option<SessionId>,
    /// At most so many.
    pub limit: usize,
}

impl DirectoryQuery {
    /// Whether an entry is asked for, apart from its place in the order.
    pub fn accepts(&self, entry: &DirectoryEntry) -> bool {
        self.agent
            .as_ref()
            .is_none_or(|agent| *agent == entry.agent)
            && self.status.is_none_or(|status| status == entry.status)
            && self.tag.as_ref().is_none_or(|tag| entry.tags.contains(tag))
    }
}

/// The directory: rebuilt from the log at any time, never an authority. A list may be behind what
/// was acknowledged, but comes to show it.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Writes an entry unless one of a higher `seq` stands there; one of the same `seq` is replaced.
    /// May be acknowledged before it is durable.
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError>;

    /// Removes an entry. Repeating it is harmless.
    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError>;

    /// Lists a tenant's sessions by id.
    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError>;
}
