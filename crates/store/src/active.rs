//! The index of sessions that somebody owns: what must be swept when a node dies.

use async_trait::async_trait;
use steadfast_core::id::{NodeId, SessionKey, Timestamp};

use crate::error::{ReadError, WriteError};

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEntry {
    /// The owner, or who was about to be.
    pub node: NodeId,
    /// The session.
    pub session: SessionKey,
    /// When it was written.
    pub at: Timestamp,
    /// Version of the entry, for [`ActiveIndex::remove`]; rises with each `add`, not by one.
    pub version: u64,
}

/// The index of owned sessions.
///
/// `add` answers `Ok` only when the entry is durable no later than any Record whose append begins
/// after that answer: a store with one ordered writer need not sync for it. An owner adds its entry
/// before it appends `Activated` and removes it only after its `Released` is committed. So every
/// session whose owner died is in it; an entry too many costs one look.
///
/// `nodes` and `entries` never miss an entry whose `add` was acknowledged before the call.
#[async_trait]
pub trait ActiveIndex: Send + Sync {
    /// Writes an entry, or writes it anew; gives its version.
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError>;

    /// Removes the entry if its version is at most `version`: a newer one stays. Need not wait for
    /// the disk: after a crash the entry may be there again.
    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        version: u64,
    ) -> Result<(), WriteError>;

    /// The nodes that have entries.
    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError>;

    /// The entries of a node in the order of their sessions, after `after`, at most `limit`.
    async fn entries(
        &self,
        node: &NodeId,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError>;
}
