//! The log port.

mod around;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::{Epoch, NodeId, Seq, SessionKey};
use steadfast_protocol::record::RecordHash;
use thiserror::Error;

pub use around::AroundLog;

use crate::error::{ReadError, WriteError};

/// A place in a session's log: the opaque token of its last Record. [`Tail::EMPTY`]: no Record.
///
/// Only equality and order within one session mean anything; it is not a [`Seq`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tail(pub u64);

impl Tail {
    /// The tail of a log without Records.
    pub const EMPTY: Self = Self(0);
}

/// What is appended: an encoded Record and what the store keeps beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The encoded Record.
    pub bytes: Bytes,
    /// Hash of the bytes: names this append within its session, also when it is sent again.
    pub hash: RecordHash,
    /// Number of its first event.
    pub first_seq: Seq,
    /// Number of its last event.
    pub last_seq: Seq,
    /// Ownership generation of the writer.
    pub epoch: Epoch,
    /// The writer.
    pub node: NodeId,
}

/// What the store tells of a session's last Record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailInfo {
    /// The token to append after.
    pub tail: Tail,
    /// The last Record; `None` when the log is empty.
    pub last: Option<LastRecord>,
}

/// The last Record as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRecord {
    /// Hash of its bytes.
    pub hash: RecordHash,
    /// Number of its last event.
    pub last_seq: Seq,
    /// Ownership generation of its writer.
    pub epoch: Epoch,
    /// Its writer.
    pub node: NodeId,
}

/// A Record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The log's token after it.
    pub tail: Tail,
    /// Number of its first event, as the writer said beside the bytes.
    pub first_seq: Seq,
    /// The encoded Record.
    pub bytes: Bytes,
}

/// Where a read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// After this token; [`Tail::EMPTY`] reads from the first Record that is kept.
    After(Tail),
    /// At the Record that holds this event, or the first Record kept after it.
    Seq(Seq),
}

/// Why an append failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Another Record stands after `expected`: certainly not written, and never will be.
    #[error("another record was appended first")]
    Conflict,
    /// As for any write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The log of every session, and their fence.
///
/// 1. `append` writes the Record as the next one exactly if the session's tail equals `expected`,
///    whole or not at all. Of any number of appends with the same `expected`, at most one succeeds.
/// 2. `Ok` means: durable as the store's [`crate::Guarantee`] says, and visible to every later
///    `tail` and `read` of any node.
/// 3. After [`WriteError::Unknown`] the Record may stand in the log now, later, or never. Sending
///    the same append again is safe: if the first landed, the second answers `Ok` with its tail or
///    [`AppendError::Conflict`]. It never stands in the log twice.
/// 4. [`AppendError::Conflict`] means that this call wrote nothing and never will; an earlier call
///    with the same append that ended as unknown may have landed, or still land. While `tail` still
///    equals `expected`, another append is in flight: its outcome is not known yet, ask again. Once
///    it has moved, the first Record after `expected` is the one that won: if it has the append's
///    hash, the earlier call landed. The hash in `tail` says so at once only while nothing follows.
/// 5. `tail` reads what is committed: it never misses a Record whose `append` was acknowledged
///    before the call.
/// 6. `read` gives Records in order without gap, at most `limit`, but may be behind (it may miss
///    the newest); it never gives a Record that is not committed.
/// 7. `purge` removes Records up to and including a tail, but never the session's last Record: it
///    carries the fence of rule 1.
/// 8. Sessions share nothing: equal bytes in two sessions are two appends.
#[async_trait]
pub trait Log: Send + Sync {
    /// Appends a Record after `expected`; gives the new tail.
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError>;

    /// Reads the tail, never stale.
    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError>;

    /// Reads Records in order, at most `limit`.
    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError>;

    /// Signals new Records of a session until dropped. A signal may be lost or come without a
    /// Record: it says when to look, not what is there. The first signal comes at once.
    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError>;

    /// Removes Records up to and including `through`, except the last one. Repeating it is harmless.
    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError>;
}
